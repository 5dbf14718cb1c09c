"""Model.batch: many requests, answered together.

    for answer in model.batch(prompts, max_tokens=20, output="answers.jsonl", progress=True):
        print(answer.text)

- Lazy: requests are taken from the iterable as the program needs them; the results are never all in memory.
- With `output` each result is a line of that file, byte for byte as `--batch FILE -o FILE` writes it, before it is
  yielded. A later call with the same file goes on: what it holds is not computed again. A request without an id gets
  one, of its number and a hash of its fields. A file that holds anything but such results is refused and left as it
  is: the program judges its lines, as for --resume. A device or a pipe is written to, and goes on with nothing.
- A request that fails yields a RequestError (errors="return") or raises it ("raise").
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import os
import queue
import stat
import sys
import threading
import warnings
from typing import Any, Callable, Dict, Generator, Iterable, Iterator, List, Optional, Set, Tuple

from . import _ops
from ._child import encode
from .errors import RequestError
from .model import _answer
from .results import Completion

_CHUNK = 1 << 20  # bytes of earlier results that the program judges at a time
_LONGEST = 47 << 20  # bytes of a line of them: the program reads lines of 64 MiB, and base64 is longer by a third
_WAITING = 2  # times what the program can take: requests that are ready when it wants them


def _request_of(given: Any, number: int, fields: Dict[str, Any], names: bool) -> "Tuple[Dict[str, Any], Any]":
    """The request's fields with its id first, as it would stand in a file; and what parses its text."""
    schema, tools = fields.get("schema"), fields.get("tools")
    if isinstance(given, str):
        given = {"prompt": given}
    elif isinstance(given, (list, tuple)):
        given = {"messages" if given and isinstance(given[0], dict) else "prompt": list(given)}
    if not hasattr(given, "keys"):
        raise TypeError(f"a request is a prompt, a list of messages or a dict, not {type(given).__name__}")
    given = dict(given)
    schema, tools = given.pop("schema", schema), given.pop("tools", tools)
    if given.get("stream") or (given.get("body") or {}).get("stream"):
        raise TypeError("a batch has no streams")
    rest = {k: v for k, v in fields.items() if k not in ("schema", "tools")}
    if "body" in given:
        return given, None
    more, parse = _ops.text_request(rest, schema, tools)
    request = {**more, **given}
    if names and request.get("id") is None:
        digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        request = {"id": f"{number}-{digest[:12]}", **request}
    return request, parse


def _clean(line: bytes, number: int) -> bytes:
    """The line as a batch of a file writes it: with the number of the request's place here, if it has one there."""
    at = line.find(b'"line": ')
    end = line.find(b",", at)
    numbered = line.startswith(b', "line_hash"', end)
    return line[:at] + (b'"line": %d' % number + line[end:] if numbered else line[end + 2 :])


def _open(path: Any) -> Any:
    """Opens the file to read and append, or a device or a pipe to write: nothing that another user planted."""
    name = os.fspath(path)
    trusted = (0, os.geteuid())
    try:
        planted = os.lstat(name)
    except FileNotFoundError:
        planted = None
    if planted and planted.st_uid not in trusted and (stat.S_ISLNK(planted.st_mode) or stat.S_ISFIFO(planted.st_mode)):
        raise RequestError(f"{path}: a link or a pipe of another user, which is not written to")
    known = planted and os.path.exists(name)
    if known and not stat.S_ISREG(os.stat(name).st_mode):
        return open(name, "wb", buffering=0)
    file = open(name, "a+b")
    info = os.fstat(file.fileno())
    if stat.S_ISREG(info.st_mode) and not (known and info.st_uid != os.geteuid()):
        return file
    file.close()
    raise RequestError(f"{path}: belongs to another user, or changed while it was opened")


def _key_of(fields: Dict[str, Any]) -> Any:
    """The id of a request or a result, which tells results apart. None: it has no id of a kind that the program takes, and
    the program says so. True and 1.0 are such ids; Python would take both for the id 1."""
    key = fields.get("custom_id", fields.get("id"))
    return key if isinstance(key, (str, int)) and not isinstance(key, bool) else None


class _Output:
    """The file of results."""

    def __init__(self, path: Any, child: Any):
        self.file = _open(path)
        self.done: "Dict[Any, Tuple[int, int]]" = {}  # where the result of an id is
        self.claimed: Set[Any] = set()  # ids of this run
        try:
            if stat.S_ISREG(os.fstat(self.file.fileno()).st_mode):
                self._go_on(path, child)
        except BaseException:
            self.file.close()
            raise

    def _go_on(self, path: Any, child: Any) -> None:
        """Reads what an earlier run has left, and cuts off a result that was not written whole."""
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RequestError(f"{path}: another process is writing to it") from None
        self.file.seek(0)
        at, first, ended = 0, 1, False
        while not ended:
            lines = self._some_lines(path, first)
            ended = not lines
            text = b"".join(lines)
            ended = ended or not text.endswith(b"\n")
            question = {"results": base64.b64encode(text).decode(), "first": first, "last": ended}
            try:
                whole = _answer(child, question, control=True)[1]["whole"]
            except RequestError as error:
                raise RequestError(f"{path}: {error}") from None
            first += len(lines)
            end = at + whole
            for line in lines:
                if at < end:
                    self._remember(line, at)
                    at += len(line)
        torn = self.file.seek(0, os.SEEK_END) - at
        if torn:  # the user may have meant it for something else than a result
            warnings.warn(
                f"{path}: its last line is not whole ({torn} bytes without a line's end, as a kill or a full disk "
                "leaves them): dropped, and computed again",
                stacklevel=2,
            )
        self.file.truncate(at)
        self.file.seek(at)

    def _some_lines(self, path: Any, first: int) -> "List[bytes]":
        lines: List[bytes] = []
        size = 0
        while size < _CHUNK and (line := self.file.readline(_LONGEST)):
            if len(line) == _LONGEST:
                raise RequestError(f"{path}: line {first + len(lines)} is longer than {_LONGEST} bytes")
            lines.append(line)
            size += len(line)
        return lines

    def _remember(self, line: bytes, at: int) -> None:
        key = _key_of(json.loads(line))
        if key is not None:
            self.done[key] = (at, len(line))

    def claim(self, request: Dict[str, Any]) -> Optional[bytes]:
        """The result of a request's id, if the file has it."""
        key = _key_of(request)
        if key is None:
            return None
        if key in self.claimed:
            raise RequestError(f"the id {key!r} comes twice: results in a file are told apart by their ids")
        self.claimed.add(key)
        where = self.done.get(key)
        return os.pread(self.file.fileno(), where[1], where[0]) if where else None

    def add(self, line: bytes) -> None:
        rest = memoryview(line + b"\n")
        while rest:  # a pipe takes a part
            rest = rest[self.file.write(rest) :]
        self.file.flush()


def _result_of(line: bytes, parse: Any) -> Any:
    result = json.loads(line)
    error = result.get("error")
    if error:
        failure = RequestError(error["message"], error["code"])
        failure.id = result.get("custom_id", result.get("id"))  # type: ignore[attr-defined]
        return failure
    if "text" in result or "choices" in result:
        return Completion(result, parse)
    return result  # OpenAI's form, an embedding, a ranking


def several(requests: Any) -> Any:
    """The requests; a text or a dict is one of them, not several."""
    if isinstance(requests, (str, bytes, dict)):
        raise TypeError("batch() takes several requests: a list of prompts, of lists of messages or of dicts")
    return requests


def show_of(progress: Any, requests: Any) -> "Callable[[int], None]":
    total = len(requests) if hasattr(requests, "__len__") else None
    if callable(progress):
        return lambda n: progress(n, total)
    if not progress:
        return lambda n: None

    def show(n: int) -> None:
        of = f" of {total}" if total is not None else ""
        end = "\n" if n == total else ""
        print(f"\r{n}{of}", end=end, file=sys.stderr, flush=True)

    return show


# What `steps` asks for by yielding it: the next request, a result; and its end. END also answers NEXT.
NEXT, WAIT, END = object(), object(), object()


def run(
    model: Any,
    requests: Iterable[Any],
    output: Any,
    ordered: bool,
    progress: Any,
    errors: str,
    fields: Dict[str, Any],
) -> Iterator[Any]:
    """See the head of this file. `progress`: True for a count on stderr, or a function of (done, total)."""
    arrived = threading.Event()

    def wake() -> None:
        if not arrived.is_set():  # which is much faster than to set it
            arrived.set()

    answers = steps(model, output, ordered, show_of(progress, requests), errors, fields, wake)
    return _drive(answers, iter(several(requests)), arrived)


def _drive(answers: "Generator[Any, Any, None]", source: Iterator[Any], arrived: threading.Event) -> Iterator[Any]:
    given = None
    try:
        while (step := answers.send(given)) is not END:
            given = None
            if step is NEXT:
                given = next(source, END)
            elif step is WAIT:
                arrived.wait()
                arrived.clear()
            else:
                yield step
    finally:
        answers.close()


def steps(
    model: Any, path: Any, ordered: bool, show: Any, errors: str, fields: Dict[str, Any], wake: "Callable[[], None]"
) -> "Generator[Any, Any, None]":
    """The batch without what waits: yields results, and NEXT and WAIT for what it needs. `wake` is called by another
    thread when there is a result after WAIT."""
    if errors not in ("return", "raise"):
        raise TypeError('errors is "return" or "raise"')
    return _steps(model, path, ordered, show, errors == "raise", fields, wake)


def _steps(
    model: Any, path: Any, ordered: bool, show: Any, raises: bool, fields: Dict[str, Any], wake: "Callable[[], None]"
) -> "Generator[Any, Any, None]":
    file = _Output(path, model._child) if path is not None else None
    child = model._child
    ready: "queue.SimpleQueue[Tuple[int, Any]]" = queue.SimpleQueue()
    under_way: Dict[int, Tuple[Any, Any]] = {}  # number: ticket, and what parses the result
    held: Dict[int, Any] = {}  # with `ordered`: results that wait for an earlier one
    most, taken, told, more = child.most * _WAITING, 0, 0, True

    def sink(number: int) -> Callable[[Any], None]:
        def put(line: Any) -> None:
            ready.put((number, line))
            wake()

        return put

    def hand_over(given: Any) -> None:
        request, parse = _request_of(given, taken, fields, file is not None)
        known = file.claim(request) if file else None
        if known is not None:
            held[taken] = _result_of(known, parse)
        else:
            under_way[taken] = (child.submit(encode(request), sink(taken), raw=True), parse)

    try:
        while True:
            while more and len(under_way) < most and len(held) < 4 * most:
                given = yield NEXT
                more = given is not END
                if more:
                    taken += 1
                    hand_over(given)
            number = told + 1 if ordered else next(iter(held), 0)
            if number in held:
                result = held.pop(number)
                told += 1
                show(told)
                if isinstance(result, Exception) and raises:
                    raise result
                yield result
                continue
            if not under_way:
                break
            while ready.empty():
                yield WAIT
            number, line = ready.get()
            _, parse = under_way.pop(number)
            if isinstance(line, Exception):
                raise line  # the program has ended
            line = _clean(line, number)
            if file:
                file.add(line)
            held[number] = _result_of(line, parse)
        yield END
    finally:
        for ticket, _ in under_way.values():
            child.cancel(ticket)
        if file:
            while not ready.empty():  # what came meanwhile is not lost
                number, line = ready.get()
                if number in under_way and isinstance(line, bytes) and b'"cancelled"' not in line[:300]:
                    file.add(_clean(line, number))
            file.file.close()

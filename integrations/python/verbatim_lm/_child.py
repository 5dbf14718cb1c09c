"""The program, `run MODEL --batch - --live`, as a child that answers requests.

One thread writes requests and one reads results, so that neither can block the other; any number of threads may
submit. A request is known by the number of its line. What becomes of it goes to its sink, which is called by the
reading thread: with each chunk, and at last with the result or an exception.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import json
import os
import signal
import subprocess
import threading
import weakref
from typing import IO, Any, Callable, Deque, Dict, Iterator, List, Optional

from ._logits import Memory
from .errors import Cancelled, ModelClosed, ModelError, OptionError, ProgramEnded, RequestError

Sink = Callable[[Any], None]  # of a dict, bytes (raw) or an exception

_SHOWN = 4000  # bytes of what the program said that an exception shows
_CLOSE_SECONDS = 5
_json = json.JSONEncoder(allow_nan=False)
_children: "weakref.WeakSet[Child]" = weakref.WeakSet()
_starting = threading.RLock()


def fresh(error: Exception) -> Exception:
    """The same exception for another thread: a traceback belongs to one."""
    return copy.copy(error).with_traceback(None)


class Ticket:
    """A request under way."""

    __slots__ = ("data", "sink", "raw", "line", "ended", "control")

    def __init__(self, data: bytes, sink: Sink, raw: bool, control: bool):
        self.data, self.sink, self.raw, self.control = data, sink, raw, control
        self.line = 0  # not yet written
        self.ended = False


def encode(request: Dict[str, Any]) -> bytes:
    """A request's line."""
    try:
        return _json.encode(request).encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(f"the request cannot be written as JSON: {error}") from None


class Child:
    def __init__(self, command: "List[str]", verbose: bool = False):
        """`command` opens the model; the options of the batch are added here."""
        # Reentrant: the garbage collector may find a Stream, whose end cancels, while this thread holds the lock.
        self.work = threading.Condition(threading.RLock())
        self.queue: Deque[Ticket] = collections.deque()
        self.controls: Deque[Ticket] = collections.deque()
        self.pending: Dict[int, Ticket] = {}
        self.lines = 0
        self.in_flight = 0  # requests that were written and are not answered
        self.opened = False
        self.most = 16  # of them
        self.refill = 15  # when so few are left, the writing thread is woken: a few requests at a time cost less
        self.over: Optional[Exception] = None  # why nothing can be asked any more
        self.broken = ""  # what the program wrote that is no result
        self.ended = threading.Event()
        with _starting, contextlib.ExitStack() as undo:
            self._start(command, verbose, undo)
            undo.pop_all()

    def _start(self, command: "List[str]", verbose: bool, undo: contextlib.ExitStack) -> None:
        """Starts the program and the threads; `undo` takes back what was done if one of them cannot be started."""
        self.errors_fd = -1
        undo.callback(self._close_errors)
        try:
            self.logits = undo.enter_context(Memory())
            if not verbose:
                self.errors_fd = os.memfd_create("verbatim-stderr", os.MFD_CLOEXEC)
            logits = self.logits.fd
            self.process = subprocess.Popen(
                [*command, "--batch", "-", "--live", "--logits", f"/proc/self/fd/{logits}"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=None if verbose else self.errors_fd,
                pass_fds=(logits,),
                start_new_session=True,  # Ctrl-C is this process' affair
                bufsize=0,
            )
        except (FileNotFoundError, PermissionError) as error:
            raise OptionError(f"{command[0]}: {error}") from None
        except OSError as error:
            raise ModelError(f"{command[0]} cannot be started: {error}") from None
        except ValueError as error:
            raise OptionError(str(error)) from None
        undo.enter_context(self.process)
        undo.callback(self.process.kill)
        undo.callback(self._give_up)
        assert self.process.stdin and self.process.stdout
        # Each thread closes its own pipe: a number that another has closed may be another model's by now. Threads
        # know the child, not the Model: a Model that nobody has any more can be collected.
        self.threads = [
            threading.Thread(target=self._write, args=(self.process.stdin,), name="verbatim-write", daemon=True),
            threading.Thread(target=self._read, args=(self.process.stdout,), name="verbatim-read", daemon=True),
        ]
        _children.add(self)
        for thread in self.threads:
            thread.start()

    # ---- Asking ----

    def submit(self, data: bytes, sink: Sink, raw: bool = False, control: bool = False) -> Ticket:
        """Hands a line over. `raw`: the sink gets the result's line as bytes. `control`: before all others."""
        ticket = Ticket(data, sink, raw, control)
        with self.work:
            if self.over:
                raise fresh(self.over)
            (self.controls if control else self.queue).append(ticket)
            if control or self.in_flight <= self.refill:
                self.work.notify()
        return ticket

    def cancel(self, ticket: Ticket) -> None:
        """Ends a request. Its sink gets Cancelled, unless its result was faster."""
        with self.work:
            if self.over or ticket.ended:
                return
            if ticket.line == 0:
                try:
                    self.queue.remove(ticket)
                except ValueError:
                    return
                ticket.ended = True
            else:
                self.controls.append(Ticket(encode({"cancel": ticket.line}), lambda _: None, False, True))
                self.work.notify()
                return
        ticket.sink(Cancelled("cancelled"))

    def forget(self, line: int) -> None:
        """Lets go of a kept prompt."""
        with self.work:
            if not self.over:
                self.controls.append(Ticket(encode({"forget": line}), lambda _: None, False, True))
                self.work.notify()

    def is_open(self, max_concurrent: int) -> None:
        """The program has told how many texts it computes at a time. As many again may wait there: it reads lines,
        also those that cancel, while they are no more."""
        with self.work:
            waiting = max(max_concurrent, 16)
            self.opened, self.most, self.refill = True, max_concurrent + waiting, max_concurrent + waiting // 2
            self.work.notify()

    # ---- The threads ----

    def _next(self) -> "List[Ticket]":
        """The next lines to write, with their numbers; none: the end."""
        with self.work:
            while not self.over:
                tickets = [*self.controls]
                self.controls.clear()
                while self.queue and self.in_flight < self.most:
                    tickets.append(self.queue.popleft())
                    self.in_flight += 1
                for ticket in tickets:
                    self.lines += 1
                    ticket.line = self.lines
                    self.pending[ticket.line] = ticket
                if tickets:
                    return tickets
                self.work.wait()
            return []

    def _write(self, stdin: IO[bytes]) -> None:
        with stdin:
            while tickets := self._next():
                rest = memoryview(b"".join(ticket.data for ticket in tickets))
                try:
                    while rest:
                        rest = rest[os.write(stdin.fileno(), rest) :]
                except OSError:
                    return  # the reading thread sees the end
                for ticket in tickets:
                    ticket.data = b""
                del tickets  # nothing is kept while nothing is asked

    def _read(self, stdout: IO[bytes]) -> None:
        try:
            with stdout:
                for line in self._lines(stdout.fileno()):
                    self._deliver(line)
        except Exception as error:
            self.broken = f"the program does not answer as it should: {error!r}"
            self.process.kill()
        finally:
            self._finish()

    @staticmethod
    def _lines(fd: int) -> Iterator[bytes]:
        """The lines of stdout. A last one without its end is none."""
        rest = bytearray()
        while data := os.read(fd, 1 << 20):
            first, *others = data.split(b"\n")
            rest += first
            for part in others:
                yield bytes(rest)
                rest = bytearray(part)

    def _deliver(self, line: bytes) -> None:
        # Every line names its request's, before anything that a model has written. (The quotes of an id with the
        # same words are escaped.)
        at = line.find(b'"line": ')
        number = int(line[at + 8 : line.find(b",", at)])
        ticket = self.pending.get(number)
        if ticket is None:
            return
        result: Any = line if ticket.raw else json.loads(line)
        if not ticket.raw and ("delta" in result or not (result.get("response") or {}).get("done", True)):
            ticket.sink(result)
            return
        with self.work:
            del self.pending[number]
            ticket.ended = True
            if not ticket.control:
                self.in_flight -= 1
                if self.queue and self.in_flight <= self.refill:
                    self.work.notify()
        error = None if ticket.raw else result.get("error")
        if not error:
            ticket.sink(result)
        elif error["code"] == "cancelled":
            ticket.sink(Cancelled("cancelled"))
        else:
            ticket.sink(RequestError(error["message"], error["code"]))

    def _finish(self) -> None:
        """The program has ended: everybody who waits is told why."""
        status = self.process.wait()
        with self.work:
            if self.over is None:
                self.over = self._reason(status)
            waiting = [*self.pending.values(), *self.controls, *self.queue]
            self.pending.clear()
            self.controls.clear()
            self.queue.clear()
            self.work.notify_all()
        for ticket in waiting:
            if not ticket.ended:
                ticket.ended = True
                ticket.sink(fresh(self.over))
        self._close_errors()
        self.ended.set()

    def said(self) -> str:
        """The end of what the program wrote to stderr."""
        if self.errors_fd < 0:
            return ""
        size = os.fstat(self.errors_fd).st_size
        return os.pread(self.errors_fd, _SHOWN, max(0, size - _SHOWN)).decode(errors="replace").strip()

    def _reason(self, status: int) -> Exception:
        if self.broken:
            return ProgramEnded(self.broken, status)
        said = self.said()
        lines = [one for one in said.splitlines() if one.startswith(("run: ", "verbatim: "))]
        why = lines[-1].split(": ", 1)[1] if lines else said
        if status == 2:
            return OptionError(why)
        if not self.opened and status == 1:
            return ModelError(why)
        if status < 0:
            name = signal.Signals(-status).name if -status in [*signal.Signals] else str(-status)
            why = f"the program was ended by {name}" + (f": {why}" if why else "")
            if name == "SIGKILL":
                why += " (by somebody, or by the kernel for want of memory)"
        return ProgramEnded(why or f"the program ended with status {status}", status)

    # ---- The end ----

    def close(self) -> None:
        """Ends the program. What is under way is given up."""
        busy = self._give_up()
        if not self.ended.is_set():
            if busy:
                self.process.terminate()
            if threading.current_thread() not in self.threads:  # they may collect a Model that nobody has
                self._await_end()
        self.logits.close()

    def _give_up(self) -> bool:
        """Lets the writing thread close the program's input, which ends one that is idle; whether it is busy."""
        with self.work:
            if self.over is None:
                self.over = ModelClosed("the model was closed")
            self.work.notify_all()
            return bool(self.pending or self.queue or self.controls)

    def _await_end(self) -> None:
        try:
            if self.ended.wait(_CLOSE_SECONDS):
                return
        finally:  # Ctrl-C while it waits as well: nothing is left behind
            if not self.ended.is_set():
                self.process.kill()
        self.ended.wait(_CLOSE_SECONDS)

    def _close_errors(self) -> None:
        fd, self.errors_fd = self.errors_fd, -1
        if fd >= 0:
            os.close(fd)

    def _forked(self) -> None:
        """In a process that was forked from this one's: the program is the parent's. Its pipes must not stay open
        here, or it would outlive the parent."""
        self.work = threading.Condition(threading.RLock())
        self.over = ModelClosed("this Model belongs to the process that this one was forked from: open one here")
        self.queue.clear()
        self.controls.clear()
        self.pending.clear()
        self.ended = threading.Event()
        self.ended.set()
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                stream.close()
        self.process.returncode = 0  # nobody waits for it here
        self.logits.lock = threading.Lock()
        self.logits.close()
        self._close_errors()


def _in_forked() -> None:
    _starting.release()
    for child in list(_children):
        child._forked()
    _children.clear()


# No fork comes between the start of a program and the note of its pipes.
os.register_at_fork(before=_starting.acquire, after_in_parent=_starting.release, after_in_child=_in_forked)

"""The pytest plugin: tests of prompts that never flake. docs/testing-prompts.md describes it.

    from verbatim_lm.testing import snapshot

    def test_reply(verbatim):
        assert verbatim("Write a haiku") == snapshot
"""

from __future__ import annotations

import pathlib
import shlex
from typing import Any, Dict, List, Optional, Set

import pytest


def pytest_addoption(parser: Any) -> None:
    group = parser.getgroup("verbatim", "answers of language models")
    group.addoption("--verbatim-update", action="store_true", help="record the answers anew")
    group.addoption("--verbatim-model", metavar="MODEL", help="the model, in place of verbatim_model")
    group.addoption("--verbatim-options", metavar="WORDS", help="more options of the program, as '-j 4'")
    parser.addini("verbatim_model", "the model that tests ask: a path, or a name that verbatim-lm --list shows")
    parser.addini("verbatim_options", "options of the program, as on its command line")
    parser.addini("verbatim_program", "the program, if not the package's own")


def pytest_configure(config: Any) -> None:
    config.addinivalue_line("markers", "verbatim(**fields): fields of all requests of a test, as max_tokens=20")
    config.stash[_stash] = State(config)


class State:
    """What a test run has of this plugin. The model is opened when the first test needs an answer that is not
    recorded."""

    def __init__(self, config: Any):
        self.config = config
        self.update = bool(config.getoption("--verbatim-update"))
        self.books: Dict[pathlib.Path, Any] = {}
        self.model: Any = None
        self.asked_live = 0
        self.checked = 0
        self.collected: Dict[pathlib.Path, Set[str]] = {}
        self.written: List[str] = []

    def command(self) -> "List[str]":
        from . import _program

        option, ini = self.config.getoption, self.config.getini
        model = option("--verbatim-model") or ini("verbatim_model")
        if model and not pathlib.Path(model).is_absolute() and (self.config.rootpath / model).exists():
            model = str(self.config.rootpath / model)
        more = shlex.split(ini("verbatim_options") or "") + shlex.split(option("--verbatim-options") or "")
        return [_program.program(ini("verbatim_program") or None), *([model] if model else []), *more]

    def book(self, path: pathlib.Path) -> Any:
        from .snapshots import Book

        if path not in self.books:
            self.books[path] = Book(path, self.command())
        return self.books[path]

    def live(self) -> Any:
        from . import Model, _program

        if self.model is None:
            command = self.command()
            words = command[1:]
            model = words.pop(0) if words and not words[0].startswith("-") else _program.STORIES
            self.model = Model(model, program=command[0], arguments=words)
        return self.model

    def ask(self, request: Dict[str, Any]) -> Dict[str, Any]:
        self.asked_live += 1
        result = self.live()._ask(request)
        result.pop("line", None)
        return result

    def close(self) -> None:
        if self.model is not None:
            self.model.close()
            self.model = None


_stash: Any = pytest.StashKey[State]()


class Text(str):
    """One text of an answer, with what the result says of it."""

    request: Dict[str, Any]
    _own: Dict[str, Any]  # the result, or of several texts the one of this

    def __new__(cls, request: Dict[str, Any], own: Dict[str, Any]) -> "Text":
        text = super().__new__(cls, own["text"])
        text.request, text._own = request, own
        return text

    @property
    def reasoning(self) -> Optional[str]:
        return self._own.get("reasoning_content")

    @property
    def tool_calls(self) -> "List[Dict[str, Any]]":
        return self._own.get("tool_calls", [])

    @property
    def finish_reason(self) -> str:
        return self._own["finish_reason"]

    @property
    def parsed(self) -> Any:
        """The object that the text spells, of a request with a schema."""
        from ._schemas import of_schema

        return of_schema(self.request["json_schema"])[1](str(self))


class Answer(Text):
    """What the model answers. `== snapshot` compares it with what is recorded. Of a request for several texts (n),
    it is the first, and `choices` has each."""

    result: Dict[str, Any]
    _state: State
    _book: Any

    @classmethod
    def of(cls, state: State, book: Any, request: Dict[str, Any], result: Dict[str, Any]) -> "Answer":
        answer = cls.__new__(cls, request, result["choices"][0] if "choices" in result else result)
        answer._state, answer._book, answer.result = state, book, result
        return answer

    @property
    def choices(self) -> "List[Text]":
        return [Text(self.request, one) for one in self.result.get("choices", [self.result])]

    def is_recorded(self) -> bool:
        return self._state.update or self._book.same(self.request, self.result)

    def explain(self) -> "List[str]":
        return self._book.explain(self.request, self.result)

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, Snapshot):
            return self.is_recorded()
        return str.__eq__(self, other)

    def __ne__(self, other: Any) -> bool:
        return not self == other

    __hash__ = str.__hash__


class Snapshot:
    """Equal to an Answer that is the recorded one."""

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, Answer):
            return other.is_recorded()
        raise TypeError("snapshot is compared with what the fixture verbatim returns, as it is")

    def __ne__(self, other: Any) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "snapshot"


#: What recorded answers are compared with.
snapshot = Snapshot()


class Asker:
    """The fixture: verbatim("a message") answers by the chat template, verbatim.complete("a text") continues it."""

    def __init__(self, state: State, item: Any):
        self._state, self._item, self._count = state, item, 0
        path = pathlib.Path(item.path)
        self._book = state.book(path)
        # The id within the file, so that the file may move.
        self._id = item.nodeid.split("::", 1)[-1]
        self._fields: Dict[str, Any] = {}
        for marker in reversed(list(item.iter_markers("verbatim"))):
            self._fields.update(marker.kwargs)

    def _answer(self, request: Dict[str, Any], fields: Dict[str, Any]) -> Answer:
        from . import _ops

        given = {**self._fields, **fields}
        schema, tools = given.pop("schema", None), given.pop("tools", None)
        more, _ = _ops.text_request(given, schema, tools)
        self._count += 1
        request = {"id": f"{self._id}/{self._count}", **request, **more, "return_prompt": True}
        if "prompt" in request:
            del request["return_prompt"]
        self._book.asked[request["id"]] = request
        known = None if self._state.update else self._book.find(request)
        if known is not None:
            self._state.checked += 1
        return Answer.of(self._state, self._book, request, known or self._state.ask(request))

    def __call__(self, messages: Any, *, system: Optional[str] = None, **fields: Any) -> Answer:
        from . import _ops

        return self._answer({"messages": _ops.messages_of(messages, system)}, fields)

    chat = __call__

    def complete(self, prompt: str, **fields: Any) -> Answer:
        return self._answer({"prompt": prompt}, fields)

    @property
    def model(self) -> Any:
        """The Model, for what is not recorded: embeddings, scores, tokens."""
        return self._state.live()


@pytest.fixture
def verbatim(request: Any) -> Asker:
    """Asks the model; answers are compared with `snapshot`."""
    return Asker(request.config.stash[_stash], request.node)


# ---- Hooks ----


def pytest_collection_modifyitems(config: Any, items: Any) -> None:
    state = config.stash[_stash]
    for item in items:
        state.collected.setdefault(pathlib.Path(item.path), set()).add(item.nodeid.split("::", 1)[-1])


def pytest_runtest_logreport(report: Any) -> None:
    if report.when == "call" and report.failed:
        _failed.add(report.nodeid.split("::", 1)[-1])


_failed: Set[str] = set()


def pytest_assertrepr_compare(config: Any, op: str, left: Any, right: Any) -> "Optional[List[str]]":
    answer, other = (left, right) if isinstance(left, Answer) else (right, left)
    if op != "==" or not isinstance(answer, Answer) or not isinstance(other, Snapshot):
        return None
    return [f"{str(answer)[:60]!r} is not the recorded answer", *answer.explain()]


def pytest_sessionfinish(session: Any, exitstatus: int) -> None:
    state = session.config.stash.get(_stash, None)
    if state is None:
        return
    state.close()
    if not state.update or hasattr(session.config, "workerinput"):
        return
    for path, book in state.books.items():
        asked = {key.rsplit("/", 1)[0] for key in book.asked}
        if book.exists:
            _read_old(book)
        # Tests that were not run keep their records, and so do those that failed before they had asked everything.
        whole = not session.config.getoption("keyword") and not session.config.getoption("markexpr")
        keep = [
            key
            for key in book.requests
            if (test := key.rsplit("/", 1)[0]) in _failed or (test not in asked and not (whole and _all_of(session, path)))
        ]
        n = book.write(keep)
        state.written.append(f"{book.receipt.parent.name}/{book.receipt.name}: {n} answers recorded")


def _read_old(book: Any) -> None:
    """The old requests, without a check of their answers."""
    check, book._check = book._check, lambda: None
    try:
        book.load()
    finally:
        book._check = check


def _all_of(session: Any, path: pathlib.Path) -> bool:
    """Whether the whole file was asked for, and not only some of its tests by their names."""
    return not any("::" in str(argument) for argument in session.config.args)


def pytest_terminal_summary(terminalreporter: Any, config: Any) -> None:
    state = config.stash.get(_stash, None)
    if state is None:
        return
    lines = list(state.written)
    if not state.update:
        for book in state.books.values():
            lines += [f"{book.receipt.name}: {change}" for change in book.changes]
    if lines:
        terminalreporter.section("verbatim")
        for line in lines:
            terminalreporter.write_line(line)

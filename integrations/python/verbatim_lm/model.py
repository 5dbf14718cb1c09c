"""Model: a language model, run by a program of its own, in a child process."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import weakref
from typing import Any, Dict, Iterable, Iterator, List, Literal, Optional, Sequence, Tuple, Union, overload

from . import _hub, _ops, _program, _schemas
from ._child import Child, Ticket, encode, fresh
from ._ops import Messages, Prompt
from .errors import ModelError, ProgramEnded, RequestError
from .results import Chunk, Completion, Ranked, Score


class _Core:
    """What Model and AsyncModel have in common: the command, and the child that runs it."""

    def __init__(
        self,
        model: "str | os.PathLike[str]" = _program.STORIES,
        *,
        program: "str | os.PathLike[str] | None" = None,
        verbose: bool = False,
        arguments: Sequence[str] = (),
        **options: Any,
    ):
        # The program finds the model that comes with it by itself: its name is in no fingerprint.
        path = os.fspath(model)
        named = [] if path == _program.STORIES else ["./" + path if path.startswith("-") else path]
        #: What was opened.
        self.path: str = path
        self._opening = [_program.program(program), *named, *_program.words(options), *arguments]
        self._verbose = verbose
        self._described: Optional[Dict[str, Any]] = None
        self._start()

    def _start(self) -> None:
        self._child = Child(self._opening, self._verbose)
        self._finalizer = weakref.finalize(self, self._child.close)
        self._live: Dict[str, Any] = {}

    def _opened(self, result: Dict[str, Any]) -> None:
        self._live = {**result["info"], "system_fingerprint": result["system_fingerprint"]}
        self._child.is_open(self._live["max_concurrent"])

    @classmethod
    def from_pretrained(
        cls, name: str, *, revision: Optional[str] = None, filename: Optional[str] = None, **options: Any
    ) -> Any:
        """Opens a model by its name on Hugging Face's hub, out of the cache on this machine; nothing is downloaded.
        `filename`: which file, as "*Q8_0.gguf", of a repository that has several."""
        return cls(_hub.find(name, revision, filename), **options)

    @property
    def fingerprint(self) -> str:
        """Names the model file, the numeric options and the defaults: results that have the same are comparable."""
        return self._live["system_fingerprint"]

    @property
    def context(self) -> int:
        """Tokens that prompt and answer may have together."""
        return self._live["context"]

    @property
    def name(self) -> str:
        return self._live["name"]

    @property
    def pid(self) -> int:
        """Of the program."""
        return self._child.process.pid

    def _describe(self) -> Dict[str, Any]:
        if self._described is None:
            run = subprocess.run([*self._opening, "--info", "--json"], capture_output=True, stdin=subprocess.DEVNULL)
            if run.returncode != 0:
                raise ModelError(run.stderr.decode(errors="replace").strip())
            self._described = json.loads(run.stdout)
        return {**self._described, **self._live}

    def _completion(self, child: Child, result: Dict[str, Any], parse: Any, logits: bool) -> Completion:
        completion = Completion(result, parse)
        if logits:
            self._take_logits(child, completion)
        return completion

    def _take_logits(self, child: Child, completion: Completion) -> None:
        for one in completion.choices:
            first = one.raw["choices"][0] if "choices" in one.raw else one.raw
            rows = child.logits.take(first["logits_rows"], self._live["vocab_size"])
            n = len(rows) - completion_rows(one, len(rows))
            one.prompt_logits, one.logits = rows[:n], rows[n:]

    def __reduce__(self) -> Any:
        raise TypeError("a Model cannot be sent to another process: open one there")


def completion_rows(completion: Completion, n_rows: int) -> int:
    """How many of the rows belong to generated tokens, the one that ended the text included."""
    generated = completion.completion_tokens + (completion.finish_reason != "length")
    return min(n_rows, generated)


def _answer(child: Child, request: Dict[str, Any], control: bool = False) -> "Tuple[Ticket, Dict[str, Any]]":
    """Asks, and waits for the result."""
    answers: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
    ticket = child.submit(encode(request), answers.put, control=control)
    try:
        result = answers.get()
    except BaseException:  # Ctrl-C
        child.cancel(ticket)
        raise
    if isinstance(result, Exception):
        raise result
    return ticket, result


class Stream:
    """An answer as it is generated: iterate over its Chunks. After the last one, `result` is the Completion. Leaving
    early (break and close(), or the end of a with block) cancels the rest."""

    def __init__(self, model: "Model", request: Dict[str, Any], parse: Any, logits: bool):
        self._queue: "queue.SimpleQueue[Any]" = queue.SimpleQueue()
        self._model, self._parse, self._logits = model, parse, logits
        self._result: Optional[Completion] = None
        self._failure: Exception = RequestError("the stream was closed before its end", "cancelled")
        self._child = model._child
        self._ticket = self._child.submit(encode({**request, "stream": True}), self._queue.put)
        self._over = False

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        if self._over:
            raise StopIteration
        try:
            line = self._queue.get()
        except BaseException:  # Ctrl-C
            self.close()
            raise
        if isinstance(line, Exception):
            self._over, self._failure = True, line
            raise line
        if "delta" in line:
            return Chunk.of(line)
        self._over = True
        self._result = self._model._completion(self._child, line, self._parse, self._logits)
        raise StopIteration

    @property
    def result(self) -> Completion:
        """The whole answer; reads what is left of the stream."""
        for _ in self:
            pass
        if self._result is None:
            raise fresh(self._failure)
        return self._result

    def close(self) -> None:
        if not self._over:
            self._over = True
            self._child.cancel(self._ticket)

    def __enter__(self) -> "Stream":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_over"):
            self.close()


class Model(_Core):
    """A language model.

        with Model("model.gguf", threads=4) as model:
            print(model.complete("The sky is", max_tokens=20))

    The first argument is what the program takes: a model.bin, a GGUF file, a Hugging Face directory, or a name that
    `verbatim-lm --list` shows; without it the small model that comes with the package. Options are those of the
    command line, with _ for -: threads, context, type, kv_type, lora={"name": path}, chat_template, tokenizer,
    draft_model, temperature, seed ... Answers have the bytes of the command line, where the seed is 0 unless given.

    Any number of threads may use a Model; what they ask is computed together.
    """

    def _start(self) -> None:
        super()._start()
        try:
            self._opened(self._ask({"info": True}, control=True))
        except ProgramEnded as error:
            self.close()
            raise ModelError(str(error)) from None
        except BaseException:
            self.close()
            raise

    # ---- Asking ----

    def _ask(self, request: Dict[str, Any], control: bool = False) -> Dict[str, Any]:
        return _answer(self._child, request, control)[1]

    def _drive(self, steps: "_ops.Steps") -> Any:
        try:
            request = next(steps)
            while True:
                request = steps.send(self._ask(request, control="detokenize" in request))
        except StopIteration as end:
            return end.value

    def _generate(
        self, request: Dict[str, Any], schema: Any, tools: Any, logits: bool, stream: bool, fields: Dict[str, Any]
    ) -> Any:
        more, parse = _ops.text_request(fields, schema, tools, logits)
        request = {**request, **more}
        if stream:
            return Stream(self, request, parse, logits)
        child = self._child
        return self._completion(child, _answer(child, request)[1], parse, logits)

    @overload
    def complete(self, prompt: Prompt, *, stream: Literal[False] = ..., **fields: Any) -> Completion: ...
    @overload
    def complete(self, prompt: Prompt, *, stream: Literal[True], **fields: Any) -> Stream: ...
    def complete(
        self, prompt: Prompt, *, stream: bool = False, schema: Any = None, logits: bool = False, **fields: Any
    ) -> "Union[Completion, Stream]":
        """Continues a text, or a list of token ids: a Completion, or with `stream` a Stream of Chunks.

        `fields` are those of a request (docs/batch.md): max_tokens, temperature, top_p, top_k, seed, n, stop,
        logprobs, echo, regex, grammar, choice ... `schema`: a dict, or a pydantic class; Completion.parsed is then
        the object. `logits`: Completion.logits is a numpy array [tokens][vocab_size]."""
        return self._generate({"prompt": _ops.prompt_of(prompt)}, schema, None, logits, stream, fields)

    @overload
    def chat(self, messages: Messages, *, stream: Literal[False] = ..., **fields: Any) -> Completion: ...
    @overload
    def chat(self, messages: Messages, *, stream: Literal[True], **fields: Any) -> Stream: ...
    def chat(
        self,
        messages: Messages,
        *,
        system: Optional[str] = None,
        stream: bool = False,
        schema: Any = None,
        tools: Optional[Sequence[Any]] = None,
        logits: bool = False,
        **fields: Any,
    ) -> "Union[Completion, Stream]":
        """Answers messages, or one text of a user, by the model's chat template: as `complete`. `tools`: functions
        with type hints, pydantic classes, or dicts; Completion.tool_calls are the calls. `tool_choice` may be a
        function's name."""
        request = {"messages": _ops.messages_of(messages, system)}
        return self._generate(request, schema, tools, logits, stream, fields)

    def embed(self, texts: Union[str, Sequence[str]], **fields: Any) -> Any:
        """The embedding of a text, [dimensions] of float32, or of a list of texts, [texts][dimensions]: numpy arrays
        where numpy is at hand. `fields`: dimensions, prompt_name, normalize, truncate."""
        return self._drive(_ops.embed(texts, fields))

    def rank(self, query: str, documents: Sequence[str], **fields: Any) -> List[Ranked]:
        """The documents by their relevance to the query, the best first."""
        return self._drive(_ops.rank(query, documents, fields))

    def score(self, text: Prompt, *, context: Optional[str] = None, top: int = 1) -> Score:
        """The log-probability of each token of a text but the first; with a context, of those behind it."""
        return self._drive(_ops.score(text, context, top))

    def logits(self, prompt: Prompt, *, every: bool = False) -> Any:
        """The logits of the token after the prompt, a numpy array [vocab_size]; with `every` those after each of its
        tokens, [tokens][vocab_size]."""
        answer = self.complete(prompt, max_tokens=1, echo=every, logits=True, ignore_eos=True)
        if not every:
            return answer.logits[0]
        import numpy

        return numpy.concatenate([answer.prompt_logits, answer.logits])

    def tokenize(self, text: str, *, special: bool = False, add_special: Optional[bool] = None) -> List[int]:
        """The ids of a text as the program encodes a prompt. `special`: special tokens that it spells are read.
        `add_special` False: without the token that begins a text."""
        return self._drive(_ops.tokenize(text, special, add_special))

    def detokenize(self, ids: Sequence[int], *, special: bool = False) -> str:
        """The text of token ids; `special` shows special tokens."""
        return self._drive(_ops.detokenize(ids, special))

    def apply_template(
        self,
        messages: Messages,
        *,
        system: Optional[str] = None,
        tools: Optional[Sequence[Any]] = None,
        add_generation_prompt: bool = True,
        tokenize: bool = False,
        **variables: Any,
    ) -> Any:
        """What the chat template makes of messages: a text, or with `tokenize` its ids."""
        return self._drive(_ops.apply_template(messages, system, tools, add_generation_prompt, tokenize, variables))

    def info(self) -> Dict[str, Any]:
        """What `--info --json` says of the model, and what its program computes with."""
        return self._describe()

    def batch(
        self,
        requests: Iterable[Any],
        *,
        output: "str | os.PathLike[str] | None" = None,
        ordered: bool = True,
        progress: Any = None,
        errors: str = "return",
        **fields: Any,
    ) -> Iterator[Any]:
        """Answers many requests, as an iterator that reads them only as far ahead as the program can use: prompts,
        lists of messages, or dicts as the lines of a batch. See batch.py."""
        from .batch import run

        return run(self, requests, output, ordered, progress, errors, fields)

    # ---- What stays ----

    def prefix(self, text: str, **fields: Any) -> "Prefix":
        """Computes a beginning once and keeps it for texts that begin so."""
        return Prefix(self, text, fields)

    def conversation(self, system: Optional[str] = None, **fields: Any) -> "Conversation":
        """A chat that keeps its messages. `fields` hold for all of its answers."""
        return Conversation(self, [] if system is None else [{"role": "system", "content": system}], fields)

    def restart(self) -> None:
        """Starts the program again, after ProgramEnded."""
        self.close()
        self._start()

    def close(self) -> None:
        """Ends the program. What is under way raises ModelClosed where it is waited for."""
        self._finalizer()

    def __enter__(self) -> "Model":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Model({self.path!r})"


class Prefix:
    """A text whose computation is kept. Answers are those of the whole text, to the byte: a prefix is a matter of
    speed."""

    def __init__(self, model: Model, text: str, fields: Dict[str, Any]):
        self.model, self.text, self._fields = model, text, fields
        ticket, _ = _answer(model._child, {"prompt": text, "max_tokens": 1, "keep": True, **_of_prompt(fields)})
        self._finalizer = weakref.finalize(self, model._child.forget, ticket.line)

    def complete(self, text: str, **fields: Any) -> Any:
        """Continues the prefix and `text`, as Model.complete."""
        return self.model.complete(self.text + text, **{**self._fields, **fields})

    def fork(self, text: str) -> "Prefix":
        """A longer prefix, which shares what was computed of this one."""
        return Prefix(self.model, self.text + text, self._fields)

    def close(self) -> None:
        """Lets go of it."""
        self._finalizer()

    def __enter__(self) -> "Prefix":
        return self

    def __exit__(self, *exception: Any) -> None:
        self.close()


def _of_prompt(fields: Dict[str, Any]) -> Dict[str, Any]:
    """Those that say which tokens a prompt has, and what computes them."""
    return {k: fields[k] for k in ("model", "add_special_tokens", "parse_special") if k in fields}


class Conversation:
    """Messages that grow: `say` adds one of the user's and the answer. What the messages have in common with the
    last ones is not computed again."""

    def __init__(self, model: Model, messages: List[Dict[str, Any]], fields: Dict[str, Any]):
        self.model, self.messages, self._fields = model, messages, fields

    @overload
    def say(self, text: Union[str, Dict[str, Any]], *, stream: Literal[False] = ..., **fields: Any) -> Completion: ...
    @overload
    def say(self, text: Union[str, Dict[str, Any]], *, stream: Literal[True], **fields: Any) -> Iterator[Chunk]: ...
    def say(self, text: Union[str, Dict[str, Any]], *, stream: bool = False, **fields: Any) -> Any:
        """A Completion, or with `stream` an iterator of Chunks; the messages have grown after its last one."""
        asked = [*self.messages, {"role": "user", "content": text} if isinstance(text, str) else text]
        fields = {**self._fields, **fields}
        if stream:
            return self._streamed(asked, self.model.chat(asked, stream=True, **fields))
        answer = self.model.chat(asked, **fields)
        self.messages = [*asked, answer.message]
        return answer

    def _streamed(self, asked: List[Dict[str, Any]], stream: Stream) -> Iterator[Chunk]:
        with stream:
            yield from stream
            self.messages = [*asked, stream.result.message]

    def call_tools(self, answer: Completion, tools: Sequence[Any], *, most: int = 16, **fields: Any) -> Completion:
        """Calls the functions that an answer asks for, and goes on until one asks for none, or `most` have asked.
        The messages grow by a round at a time: none if a function raises."""
        for _ in range(most):
            if not answer.tool_calls:
                break
            results = []
            for call in answer.tool_calls:
                value = _schemas.call(tools, call.name, call.arguments)
                content = value if isinstance(value, str) else json.dumps(value)
                results.append({"role": "tool", "tool_call_id": call.id, "name": call.name, "content": content})
            asked = [*self.messages, *results]
            answer = self.model.chat(asked, tools=tools, **{**self._fields, **fields})
            self.messages = [*asked, answer.message]
        return answer

    def fork(self) -> "Conversation":
        """Another one that begins like this."""
        return Conversation(self.model, list(self.messages), self._fields)

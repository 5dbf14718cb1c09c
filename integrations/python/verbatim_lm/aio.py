"""AsyncModel: what Model does, for asyncio."""

from __future__ import annotations

import asyncio
import functools
import os
from typing import (
    Any,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Dict,
    Iterable,
    List,
    Optional,
    Sequence,
    Union,
)

from . import _ops
from ._child import encode
from ._ops import Messages, Prompt
from .batch import END, NEXT, WAIT, several, show_of, steps
from .errors import ModelError, ProgramEnded
from .model import _Core
from .results import Chunk, Completion, Ranked, Score


def _next_of(requests: "Union[Iterable[Any], AsyncIterable[Any]]") -> "Callable[[], Awaitable[Any]]":
    """What gives the next request, or END. Others get their turn meanwhile."""
    if isinstance(requests, AsyncIterable):
        source = requests.__aiter__()

        async def later() -> Any:
            try:
                return await source.__anext__()
            except StopAsyncIteration:
                return END

        return later
    known = iter(several(requests))

    async def at_hand() -> Any:
        await asyncio.sleep(0)
        return next(known, END)

    return at_hand


class AsyncStream:
    """An answer as it is generated: `async for chunk in stream`. After the last chunk, `result` is the Completion.
    close(), or the end of an async with block, cancels the rest."""

    def __init__(self, model: "AsyncModel", request: Dict[str, Any], parse: Any, logits: bool):
        self._model, self._parse, self._logits = model, parse, logits
        self._queue: "asyncio.Queue[Any]" = asyncio.Queue()
        self.result: Optional[Completion] = None
        self._child = model._child
        self._ticket = self._child.submit(encode({**request, "stream": True}), model._sink(self._queue.put_nowait))
        self._over = False

    def __aiter__(self) -> "AsyncStream":
        return self

    async def __anext__(self) -> Chunk:
        if self._over:
            raise StopAsyncIteration
        try:
            line = await self._queue.get()
        except BaseException:
            self.close()
            raise
        if isinstance(line, Exception):
            self._over = True
            raise line
        if "delta" in line:
            return Chunk.of(line)
        self._over = True
        self.result = self._model._completion(self._child, line, self._parse, self._logits)
        raise StopAsyncIteration

    def close(self) -> None:
        if not self._over:
            self._over = True
            self._child.cancel(self._ticket)

    async def __aenter__(self) -> "AsyncStream":
        return self

    async def __aexit__(self, *exception: Any) -> None:
        self.close()

    def __del__(self) -> None:
        if hasattr(self, "_over"):
            self.close()


class AsyncModel(_Core):
    """A language model for asyncio: `async with AsyncModel("model.gguf") as model: await model.complete(...)`. The
    model is opened by `async with`, or by `await model.open()`."""

    async def open(self) -> "AsyncModel":
        if self._live:
            return self
        try:
            self._opened(await self._ask({"info": True}, control=True))
        except ProgramEnded as error:
            await self.close()
            raise ModelError(str(error)) from None
        except BaseException:
            await self.close()
            raise
        return self

    @staticmethod
    def _sink(take: Any) -> Any:
        """Hands what the reading thread gets to the loop; nobody waits once that is closed."""
        loop = asyncio.get_running_loop()

        def sink(result: Any) -> None:
            try:
                loop.call_soon_threadsafe(take, result)
            except RuntimeError:
                pass

        return sink

    async def _ask(self, request: Dict[str, Any], control: bool = False) -> Dict[str, Any]:
        future: "asyncio.Future[Any]" = asyncio.get_running_loop().create_future()

        def take(result: Any) -> None:
            if not future.done():
                future.set_result(result)

        ticket = self._child.submit(encode(request), self._sink(take), control=control)
        try:
            result = await future
        except asyncio.CancelledError:
            self._child.cancel(ticket)
            raise
        if isinstance(result, Exception):
            raise result
        return result

    async def _drive(self, steps: "_ops.Steps") -> Any:
        try:
            request = next(steps)
            while True:
                request = steps.send(await self._ask(request, control="detokenize" in request))
        except StopIteration as end:
            return end.value

    async def _generate(
        self, request: Dict[str, Any], schema: Any, tools: Any, logits: bool, fields: Dict[str, Any]
    ) -> Completion:
        more, parse = _ops.text_request(fields, schema, tools, logits)
        child = self._child
        return self._completion(child, await self._ask({**request, **more}), parse, logits)

    def _stream(
        self, request: Dict[str, Any], schema: Any, tools: Any, logits: bool, fields: Dict[str, Any]
    ) -> AsyncStream:
        more, parse = _ops.text_request(fields, schema, tools, logits)
        return AsyncStream(self, {**request, **more}, parse, logits)

    async def complete(self, prompt: Prompt, *, schema: Any = None, logits: bool = False, **fields: Any) -> Completion:
        """As Model.complete."""
        return await self._generate({"prompt": _ops.prompt_of(prompt)}, schema, None, logits, fields)

    def stream(self, prompt: Prompt, *, schema: Any = None, logits: bool = False, **fields: Any) -> AsyncStream:
        """As Model.complete with stream=True."""
        return self._stream({"prompt": _ops.prompt_of(prompt)}, schema, None, logits, fields)

    async def chat(
        self,
        messages: Messages,
        *,
        system: Optional[str] = None,
        schema: Any = None,
        tools: Optional[Sequence[Any]] = None,
        logits: bool = False,
        **fields: Any,
    ) -> Completion:
        """As Model.chat."""
        return await self._generate({"messages": _ops.messages_of(messages, system)}, schema, tools, logits, fields)

    def stream_chat(
        self,
        messages: Messages,
        *,
        system: Optional[str] = None,
        schema: Any = None,
        tools: Optional[Sequence[Any]] = None,
        logits: bool = False,
        **fields: Any,
    ) -> AsyncStream:
        """As Model.chat with stream=True."""
        return self._stream({"messages": _ops.messages_of(messages, system)}, schema, tools, logits, fields)

    async def embed(self, texts: Union[str, Sequence[str]], **fields: Any) -> Any:
        """As Model.embed."""
        return await self._drive(_ops.embed(texts, fields))

    async def rank(self, query: str, documents: Sequence[str], **fields: Any) -> List[Ranked]:
        """As Model.rank."""
        return await self._drive(_ops.rank(query, documents, fields))

    async def score(self, text: Prompt, *, context: Optional[str] = None, top: int = 1) -> Score:
        """As Model.score."""
        return await self._drive(_ops.score(text, context, top))

    async def logits(self, prompt: Prompt, *, every: bool = False) -> Any:
        """As Model.logits."""
        answer = await self.complete(prompt, max_tokens=1, echo=every, logits=True, ignore_eos=True)
        if not every:
            return answer.logits[0]
        import numpy

        return numpy.concatenate([answer.prompt_logits, answer.logits])

    async def tokenize(self, text: str, *, special: bool = False, add_special: Optional[bool] = None) -> List[int]:
        """As Model.tokenize."""
        return await self._drive(_ops.tokenize(text, special, add_special))

    async def detokenize(self, ids: Sequence[int], *, special: bool = False) -> str:
        """As Model.detokenize."""
        return await self._drive(_ops.detokenize(ids, special))

    async def apply_template(
        self,
        messages: Messages,
        *,
        system: Optional[str] = None,
        tools: Optional[Sequence[Any]] = None,
        add_generation_prompt: bool = True,
        tokenize: bool = False,
        **variables: Any,
    ) -> Any:
        """As Model.apply_template."""
        steps = _ops.apply_template(messages, system, tools, add_generation_prompt, tokenize, variables)
        return await self._drive(steps)

    async def info(self) -> Dict[str, Any]:
        """As Model.info."""
        return await asyncio.get_running_loop().run_in_executor(None, self._describe)

    async def batch(
        self,
        requests: "Union[Iterable[Any], AsyncIterable[Any]]",
        *,
        output: "str | os.PathLike[str] | None" = None,
        ordered: bool = True,
        progress: Any = None,
        errors: str = "return",
        **fields: Any,
    ) -> AsyncIterator[Any]:
        """As Model.batch, for an iterable or an async one. Leave it early by aclose()."""
        arrived = asyncio.Event()
        wake = functools.partial(self._sink(lambda _: arrived.set()), None)
        answers = steps(self, output, ordered, show_of(progress, requests), errors, fields, wake)
        source = _next_of(requests)
        given = None
        try:
            while (step := answers.send(given)) is not END:
                given = None
                if step is NEXT:
                    given = await source()
                elif step is WAIT:
                    await arrived.wait()
                    arrived.clear()
                else:
                    yield step
        finally:
            answers.close()

    async def restart(self) -> None:
        """As Model.restart."""
        await self.close()
        self._start()
        await self.open()

    async def close(self) -> None:
        """Ends the program."""
        await asyncio.get_running_loop().run_in_executor(None, self._finalizer)

    async def __aenter__(self) -> "AsyncModel":
        return await self.open()

    async def __aexit__(self, *exception: Any) -> None:
        await self.close()

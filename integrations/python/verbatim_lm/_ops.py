"""Each thing that a Model does, without input and output: a generator that yields the requests it needs, gets their
results, and returns what the caller wants. Model and AsyncModel drive them."""

from __future__ import annotations

import array
import base64
import operator
import sys
from typing import Any, Dict, Generator, List, Optional, Sequence, Tuple, Union

from . import _schemas
from .results import Completion, Ranked, Score, TokenLogprob

Messages = Union[str, Sequence[Dict[str, Any]]]
Prompt = Union[str, Sequence[int]]
Steps = Generator[Dict[str, Any], Dict[str, Any], Any]


def messages_of(messages: Messages, system: Optional[str] = None) -> List[Dict[str, Any]]:
    """Messages, of which a text is one of the user's."""
    if not isinstance(messages, (str, list, tuple)) and not hasattr(messages, "__iter__"):
        raise TypeError(f"messages are a text, or a list of dicts with role and content, not {type(messages).__name__}")
    given = [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages)
    return [{"role": "system", "content": system}, *given] if system is not None else given


def text_request(
    fields: Dict[str, Any], schema: Any = None, tools: Optional[Sequence[Any]] = None, logits: bool = False
) -> "Tuple[Dict[str, Any], Any]":
    """A request's fields, and what parses its text."""
    request = {k: v for k, v in fields.items() if v is not None}
    parse = None
    if schema is not None:
        request["json_schema"], parse = _schemas.of_schema(schema)
    if tools is not None:
        request["tools"] = [_schemas.of_tool(one) for one in tools]
    if logits:
        request["return_logits"] = True
    choice = request.get("tool_choice")
    if isinstance(choice, str) and choice not in ("auto", "none", "required"):
        request["tool_choice"] = {"type": "function", "function": {"name": choice}}
    return request, parse


def prompt_of(prompt: Prompt) -> Union[str, List[int]]:
    if isinstance(prompt, str):
        return prompt
    given = hasattr(prompt, "__iter__") and not isinstance(prompt, (bytes, bytearray))
    if not given or any(isinstance(one, (str, dict)) for one in prompt):
        raise TypeError("a prompt is a text, or a list of token ids: batch() takes several, chat() messages")
    return [operator.index(one) for one in prompt]


def tokenize(text: str, special: bool, add_special: Optional[bool]) -> Steps:
    request: Dict[str, Any] = {"prompt": text, "max_tokens": 0, "return_token_ids": True}
    if special:
        request["parse_special"] = True
    if add_special is not None:
        request["add_special_tokens"] = add_special
    return (yield request)["prompt_token_ids"]


def detokenize(ids: Sequence[int], special: bool) -> Steps:
    if isinstance(ids, str):
        raise TypeError("detokenize takes a list of token ids, not a text")
    return (yield {"detokenize": [int(one) for one in ids], "special": special})["text"]


def apply_template(
    messages: Messages,
    system: Optional[str],
    tools: Optional[Sequence[Any]],
    add_generation_prompt: bool,
    tokenize: bool,
    variables: Dict[str, Any],
) -> Steps:
    request: Dict[str, Any] = {
        "messages": messages_of(messages, system),
        "max_tokens": 0,
        "return_prompt": True,
        "return_token_ids": tokenize,
    }
    if tools:
        request["tools"] = [_schemas.of_tool(one) for one in tools]
    if not add_generation_prompt:
        variables = {"add_generation_prompt": False, **variables}
    if variables:
        request["chat_template_kwargs"] = variables
    result = yield request
    return result["prompt_token_ids"] if tokenize else result["prompt"]


def score(text: Prompt, context: Optional[str], top: int) -> Steps:
    """With a context the tokens behind it are scored; text and context are encoded as one text."""
    ids, start = prompt_of(text), 1
    if context is not None:
        if not isinstance(text, str):
            raise TypeError("a context needs a text, not token ids")
        ids = (yield {"prompt": context + text, "max_tokens": 0, "return_token_ids": True})["prompt_token_ids"]
        before = (yield {"prompt": context, "max_tokens": 0, "return_token_ids": True})["prompt_token_ids"]
        start = max(1, next((i for i, (a, b) in enumerate(zip(ids, before)) if a != b), min(len(ids), len(before))))
    result = yield {
        "prompt": ids,
        "max_tokens": 0,
        "echo": True,
        "logprobs": max(top, 1),
        "logprob_start_len": start,
    }
    return Score([TokenLogprob.of(one) for one in result.get("prompt_logprobs", ())])


def floats(text: str) -> Any:
    """float32 values of base64: a numpy array where numpy is at hand, else an array."""
    data = base64.b64decode(text)
    try:
        import numpy
    except ImportError:
        values = array.array("f", data)
        if sys.byteorder == "big":
            values.byteswap()
        return values
    return numpy.frombuffer(data, dtype="<f4").copy()


def embed(texts: Union[str, Sequence[str]], fields: Dict[str, Any]) -> Steps:
    request = {k: v for k, v in fields.items() if v is not None}
    single = isinstance(texts, str)
    if not single and not texts:
        return []
    request.update(input=texts if single else list(texts), encoding_format="base64")
    result = yield request
    if single:
        return floats(result["embedding"])
    vectors = [floats(one) for one in result["embeddings"]]
    try:
        import numpy
    except ImportError:
        return vectors
    return numpy.stack(vectors)


def rank(query: str, documents: Sequence[str], fields: Dict[str, Any]) -> Steps:
    request = {k: v for k, v in fields.items() if v is not None}
    result = yield {"query": query, "documents": list(documents), **request}
    return [
        Ranked(one["index"], one["relevance_score"], (one.get("document") or {}).get("text"))
        for one in result["results"]
    ]

"""What answers look like."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Dict, List, Optional, Sequence


@dataclasses.dataclass(frozen=True)
class ToolCall:
    """A call that the model asks for."""

    id: str
    name: str
    arguments: Dict[str, Any]
    raw: Dict[str, Any] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True)
class TokenLogprob:
    """A token with its natural log-probability in the model's own distribution. `top`: the likeliest in its place."""

    id: int
    token: str
    logprob: float
    bytes: bytes = dataclasses.field(repr=False)
    top: "List[TokenLogprob]" = dataclasses.field(default_factory=list, repr=False)

    @classmethod
    def of(cls, entry: Dict[str, Any]) -> "TokenLogprob":
        top = [cls.of(one) for one in entry.get("top_logprobs", ())]
        return cls(entry["id"], entry["token"], entry["logprob"], bytes(entry["bytes"]), top)


def _logprobs(entries: "Optional[Sequence[Dict[str, Any]]]") -> "Optional[List[TokenLogprob]]":
    return None if entries is None else [TokenLogprob.of(one) for one in entries]


class Completion:
    """An answer. str() is its text. Of a request for several texts (n), `choices` has each, and the fields here are
    those of the first."""

    def __init__(self, result: Dict[str, Any], parse: Any = None):
        #: The result as the program gives it.
        self.raw = {k: v for k, v in result.items() if k != "line"}
        first = result["choices"][0] if "choices" in result else result
        self.text: str = first["text"]
        self._bytes = first.get("bytes")
        #: What the model thought before the answer; None: it did not.
        self.reasoning: Optional[str] = first.get("reasoning_content")
        self.tool_calls: List[ToolCall] = [
            ToolCall(call["id"], call["function"]["name"], _arguments(call["function"]["arguments"]), call)
            for call in first.get("tool_calls", ())
        ]
        #: "stop", "length" or "tool_calls".
        self.finish_reason: str = first["finish_reason"]
        self.prompt_tokens: int = first["prompt_tokens"]
        self.completion_tokens: int = first["completion_tokens"]
        #: Names the model file, the numeric options and the defaults.
        self.fingerprint: str = result.get("system_fingerprint", "")
        self.logprobs = _logprobs(first.get("logprobs"))
        self.prompt_logprobs = _logprobs(first.get("prompt_logprobs"))
        self.token_ids: Optional[List[int]] = first.get("token_ids")
        self.prompt_token_ids: Optional[List[int]] = first.get("prompt_token_ids")
        #: What the chat template made of the messages, with return_prompt.
        self.prompt: Optional[str] = first.get("prompt")
        #: numpy arrays [rows][vocab_size], with logits=True.
        self.logits: Any = None
        self.prompt_logits: Any = None
        self._parse = parse
        head = {"system_fingerprint": self.fingerprint}
        self.choices: List[Completion] = (
            [Completion({**one, **head}, parse) for one in result["choices"]] if "choices" in result else [self]
        )

    @property
    def bytes(self) -> bytes:
        """The answer's bytes, which are not always UTF-8."""
        return bytes(self._bytes) if self._bytes is not None else self.text.encode()

    @property
    def parsed(self) -> Any:
        """The object that the text spells: of a request with a schema; an instance where that is a pydantic class.
        A text that was cut (finish_reason "length") raises ValueError."""
        if self._parse is None:
            raise ValueError("the request had no schema")
        return self._parse(self.text)

    @property
    def message(self) -> Dict[str, Any]:
        """The answer as one of messages, to go on with."""
        message: Dict[str, Any] = {"role": "assistant", "content": self.text}
        if self.reasoning is not None:
            message["reasoning_content"] = self.reasoning
        if self.tool_calls:
            message["tool_calls"] = [call.raw for call in self.tool_calls]
            message["content"] = self.text or None
        return message

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Completion({self.text!r}, finish_reason={self.finish_reason!r})"


def _arguments(given: Any) -> Dict[str, Any]:
    return json.loads(given) if isinstance(given, str) else given


@dataclasses.dataclass(frozen=True)
class Chunk:
    """What is new of an answer that is being generated. str() is its text."""

    text: str
    reasoning: str = ""
    index: int = 0  # of the choice

    def __str__(self) -> str:
        return self.text

    @classmethod
    def of(cls, line: Dict[str, Any]) -> "Chunk":
        delta = line["delta"]
        return cls(delta.get("text", ""), delta.get("reasoning_content", ""), line["index"])


@dataclasses.dataclass(frozen=True)
class Score:
    """How likely a model finds a text."""

    tokens: List[TokenLogprob]

    @property
    def logprob(self) -> float:
        """Of the whole: the sum."""
        return sum(one.logprob for one in self.tokens)

    @property
    def perplexity(self) -> float:
        import math

        return math.exp(-self.logprob / len(self.tokens)) if self.tokens else 1.0

    @property
    def greedy(self) -> bool:
        """Whether each token is the likeliest one."""
        return all(one.top and one.top[0].id == one.id for one in self.tokens)


@dataclasses.dataclass(frozen=True)
class Ranked:
    """A document and how relevant it is."""

    index: int
    score: float
    document: Optional[str]

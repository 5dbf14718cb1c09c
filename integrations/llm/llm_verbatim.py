"""Models that verbatim runs, as models of llm."""

import atexit
import json
import re
import subprocess
from typing import Iterator, List, Optional

import llm
from pydantic import Field

import verbatim_lm

# How a model is opened; the other options are those of a request.
_OPENING = ("threads", "context", "type")
_open = {}  # models that are running, by their names and how they were opened


def names() -> List[str]:
    """The models of this machine, by the names that the program takes."""
    try:
        run = subprocess.run(
            [verbatim_lm.find_program(), "--list"], capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=30
        )
    except (verbatim_lm.VerbatimError, OSError, subprocess.TimeoutExpired):
        return []
    # "Org/Name    1.2 GB  F16      Hugging Face"; conversions, which follow, begin with their size in MiB.
    rows = (re.match(r"(\S.*?) +[0-9.]+ [MG]B  (?!.*; does not run: )", line) for line in run.stdout.splitlines())
    return [row.group(1) for row in rows if row]


def opened(name: str, opening: dict) -> "verbatim_lm.Model":
    key = (name, json.dumps(opening, sort_keys=True))
    model = _open.get(key)
    if model is None:
        model = _open[key] = verbatim_lm.Model(name, **opening)
    elif model._child.over:
        model.restart()
    return model


@atexit.register
def _close():
    for model in _open.values():
        model.close()


def _message(message) -> List[dict]:
    """One of llm's messages as OpenAI's."""
    texts, calls, results = [], [], []
    for part in message.parts:
        kind = type(part).__name__
        if kind == "TextPart":
            texts.append(part.text)
        elif kind == "ToolCallPart":
            function = {"name": part.name, "arguments": json.dumps(part.arguments)}
            calls.append({"type": "function", "id": part.tool_call_id, "function": function})
        elif kind == "ToolResultPart":
            results.append({"role": "tool", "tool_call_id": part.tool_call_id, "name": part.name, "content": part.output})
        elif kind == "AttachmentPart":
            raise llm.ModelError("verbatim reads no attachments")
    if message.role == "tool":
        return results
    if not texts and not calls:
        return []
    entry = {"role": message.role, "content": "".join(texts) if texts else None}
    if calls:
        entry["tool_calls"] = calls
    return [entry]


def _messages_before(prompt, conversation) -> List[dict]:
    """For versions of llm whose prompts have no messages."""
    messages = [{"role": "system", "content": prompt.system}] if prompt.system else []
    for response in conversation.responses if conversation else ():
        if response.prompt.prompt:
            messages.append({"role": "user", "content": response.prompt.prompt})
        calls = [
            {"type": "function", "id": c.tool_call_id, "function": {"name": c.name, "arguments": json.dumps(c.arguments)}}
            for c in response.tool_calls_or_raise()
        ]
        answer = {"role": "assistant", "content": response.text_or_raise() or None}
        messages.append({**answer, "tool_calls": calls} if calls else answer)
    for result in prompt.tool_results:
        messages.append(
            {"role": "tool", "tool_call_id": result.tool_call_id, "name": result.name, "content": result.output}
        )
    if prompt.prompt:
        messages.append({"role": "user", "content": prompt.prompt})
    return messages


def messages_of(prompt, conversation) -> List[dict]:
    if not hasattr(prompt, "messages"):
        return _messages_before(prompt, conversation)
    messages: List[dict] = []
    for message in prompt.messages:
        for entry in _message(message):
            if entry["role"] != "system" or entry not in messages:  # each turn repeats it
                messages.append(entry)
    return messages


class _Options(llm.Options):
    max_tokens: Optional[int] = Field(description="At most so many tokens", default=None)
    temperature: Optional[float] = Field(description="0: greedy decoding, the most likely token", default=None)
    top_p: Optional[float] = Field(description="Nucleus sampling", default=None)
    top_k: Optional[int] = Field(description="Sample among the top_k most likely tokens", default=None)
    min_p: Optional[float] = Field(description="Drop tokens below min_p times the top probability", default=None)
    seed: Optional[int] = Field(description="Another answer; 0 unless given", default=None)
    stop: Optional[str] = Field(description="A text that ends the answer", default=None)
    repetition_penalty: Optional[float] = Field(description="Above 1: fewer repetitions", default=None)
    regex: Optional[str] = Field(description="What the answer must match", default=None)
    grammar: Optional[str] = Field(description="A grammar that the answer must follow", default=None)
    reasoning_effort: Optional[str] = Field(description="How much a model thinks", default=None)
    reasoning_budget: Optional[int] = Field(description="Tokens of reasoning, at most", default=None)
    threads: Optional[int] = Field(description="Threads: speed alone", default=None)
    context: Optional[int] = Field(description="Tokens of context", default=None)
    type: Optional[str] = Field(description="Convert the weights: q8, q4 ...", default=None)


class Verbatim(llm.Model):
    can_stream = True
    supports_schema = True
    supports_tools = True

    class Options(_Options):
        pass

    def __init__(self, name: str):
        self.name = name
        self.model_id = f"verbatim/{name}"

    def execute(self, prompt, stream, response, conversation=None) -> Iterator[str]:
        given = {k: v for k, v in prompt.options.model_dump().items() if v is not None}
        opening = {k: given.pop(k) for k in _OPENING if k in given}
        fields = dict(given)
        if prompt.schema:
            fields["schema"] = prompt.schema
        if prompt.tools:
            fields["tools"] = [
                {"name": t.name, "description": t.description or "", "parameters": t.input_schema} for t in prompt.tools
            ]
        try:
            answer = opened(self.name, opening).chat(messages_of(prompt, conversation), stream=True, **fields)
            for chunk in answer:
                if chunk.text and stream:
                    yield chunk.text
            result = answer.result
        except verbatim_lm.VerbatimError as error:
            raise llm.ModelError(str(error)) from error
        if not stream:
            yield result.text
        for call in result.tool_calls:
            response.add_tool_call(llm.ToolCall(tool_call_id=call.id, name=call.name, arguments=call.arguments))
        response.set_usage(input=result.prompt_tokens, output=result.completion_tokens)
        response.response_json = {
            "seed": given.get("seed", 0),
            "system_fingerprint": result.fingerprint,
            "finish_reason": result.finish_reason,
        }
        if result.reasoning:
            response.response_json["reasoning_content"] = result.reasoning


class VerbatimEmbedding(llm.EmbeddingModel):
    supports_text = True
    batch_size = 64

    def __init__(self, name: str):
        self.name = name
        self.model_id = f"verbatim/{name}"

    def embed_batch(self, items) -> Iterator[List[float]]:
        texts = list(items)
        try:
            vectors = opened(self.name, {}).embed(texts)
        except verbatim_lm.RequestError as error:
            if "--pooling" not in str(error):
                raise llm.ModelError(str(error)) from error
            vectors = opened(self.name, {"pooling": "last"}).embed(texts)
        return ([float(x) for x in vector] for vector in vectors)


@llm.hookimpl
def register_models(register):
    for name in ["stories", *names()]:
        register(Verbatim(name))


@llm.hookimpl
def register_embedding_models(register):
    for name in ["stories", *names()]:
        register(VerbatimEmbedding(name))

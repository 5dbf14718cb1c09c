"""Language models on a CPU, with the same bytes everywhere.

    from verbatim_lm import Model

    with Model("model.gguf") as model:
        print(model.chat("What is the capital of France?"))

docs/python.md describes it.
"""

from ._hub import find as find_model
from ._program import program as find_program
from .aio import AsyncModel, AsyncStream
from .errors import (
    Cancelled,
    ModelClosed,
    ModelError,
    OptionError,
    ProgramEnded,
    RequestError,
    VerbatimError,
)
from .model import Conversation, Model, Prefix, Stream
from .results import Chunk, Completion, Ranked, Score, TokenLogprob, ToolCall

__all__ = [
    "AsyncModel",
    "AsyncStream",
    "Cancelled",
    "Chunk",
    "Completion",
    "Conversation",
    "Model",
    "ModelClosed",
    "ModelError",
    "OptionError",
    "Prefix",
    "ProgramEnded",
    "Ranked",
    "RequestError",
    "Score",
    "Stream",
    "TokenLogprob",
    "ToolCall",
    "VerbatimError",
    "find_model",
    "find_program",
]

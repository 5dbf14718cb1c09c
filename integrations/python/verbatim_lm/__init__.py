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

def __getattr__(name: str) -> str:
    """`__version__`, of the package as it is installed."""
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("verbatim-lm")
        except PackageNotFoundError:
            return "0"  # of a checkout on sys.path
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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

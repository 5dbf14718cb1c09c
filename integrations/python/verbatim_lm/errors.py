"""What can go wrong. Everything here is a VerbatimError."""

from __future__ import annotations

from typing import Any


class VerbatimError(Exception):
    """The base of this package's exceptions."""


class ModelError(VerbatimError):
    """The model could not be opened: there is none, or it is damaged, or of an unknown family."""


class OptionError(VerbatimError, ValueError):
    """An option of Model that the program does not have, or with a value that it does not take."""


class RequestError(VerbatimError, ValueError):
    """The program refused a request; the message says why. `code` is that of its result."""

    def __init__(self, message: str, code: str = "invalid_request"):
        super().__init__(message)
        self.code = code


class Cancelled(VerbatimError):
    """The request was cancelled before its answer was complete."""


class ModelClosed(VerbatimError):
    """The Model was closed, or belongs to the process that this one was forked from."""


class ProgramEnded(VerbatimError):
    """The program that computes has ended unasked: it was killed, or ran out of memory. `status` is its exit status,
    negative for a signal. `Model.restart()` starts it again."""

    def __init__(self, message: str, status: "int | None" = None):
        super().__init__(message)
        self.status = status

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.status)

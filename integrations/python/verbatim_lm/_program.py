"""Where the program is, and how options become its command line."""

from __future__ import annotations

import os
import pathlib
import shutil
import sys
from typing import Any, Mapping

from .errors import OptionError

_here = pathlib.Path(__file__).resolve().parent

#: The small model that comes with the package: it tells stories and knows nothing else.
STORIES = "stories"


def program(given: "str | os.PathLike[str] | None" = None) -> str:
    """The program: `given`, or VERBATIM_PROGRAM, or the package's own, or that of the checkout in which the package
    lies, or `verbatim` of the PATH."""
    chosen = os.fspath(given) if given is not None else os.environ.get("VERBATIM_PROGRAM")
    if chosen:
        found = shutil.which(chosen)
        if not found:
            raise OptionError(f"{chosen}: there is no such program")
        return found
    for path in (_here / "bin" / "verbatim", _here.parents[2] / "build" / "run" if len(_here.parents) > 2 else None):
        if path and os.access(path, os.X_OK):
            return str(path)
    found = shutil.which("verbatim")
    if not found:
        raise OptionError("the program is not there: install the wheel, or put verbatim on the PATH")
    return found


def words(options: Mapping[str, Any]) -> "list[str]":
    """The words of the command line: kv_type="q8" is --kv-type q8, True a flag, a list an option for each item, and
    a mapping NAME=VALUE (lora={"fr": path}). A system prompt is its text: on the command line @NAME is a file."""
    result: "list[str]" = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        if value is None or value is False:
            continue
        if name == "system" and isinstance(value, str) and value.startswith("@"):
            value = "@" + value
        if value is True:
            result.append(option)
        elif isinstance(value, Mapping):
            for key, item in value.items():
                result += [option, f"{key}={os.fspath(item) if isinstance(item, os.PathLike) else item}"]
        elif isinstance(value, (list, tuple)):
            for item in value:
                result += [option, os.fspath(item) if isinstance(item, os.PathLike) else str(item)]
        else:
            result += [option, os.fspath(value) if isinstance(value, os.PathLike) else str(value)]
    return result


def main() -> None:
    """`verbatim-lm`: the program itself, for the command line."""
    path = program()
    os.execv(path, [path, *sys.argv[1:]])

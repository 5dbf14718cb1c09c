"""Models by the name that they have on Hugging Face's hub, in the cache that is on this machine."""

from __future__ import annotations

import os
import pathlib
from typing import Optional

from .errors import ModelError


def caches() -> "list[pathlib.Path]":
    """The folders that huggingface_hub looks in."""
    named = os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
    if named:
        return [pathlib.Path(named)]
    home = os.environ.get("HF_HOME") or os.path.join(
        os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "huggingface"
    )
    return [pathlib.Path(home) / "hub"]


def find(name: str, revision: Optional[str] = None, filename: Optional[str] = None) -> str:
    """The path of a model that is in the cache: its directory, or with `filename` (a pattern) one file of it.
    Nothing is downloaded."""
    if os.path.exists(name):
        return name
    for cache in caches():
        folder = cache / ("models--" + name.replace("/", "--"))
        if folder.is_dir():
            return _in_folder(folder, name, revision or "main", filename)
    where = ", ".join(str(one) for one in caches())
    raise ModelError(f"{name} is not on this machine ({where}): hf download {name}")


def _in_folder(folder: pathlib.Path, name: str, revision: str, filename: Optional[str]) -> str:
    reference = folder / "refs" / revision
    commit = reference.read_text().strip() if reference.is_file() else revision
    snapshot = folder / "snapshots" / commit
    if not snapshot.is_dir():
        raise ModelError(f"{name}: the revision {revision} is not on this machine: hf download {name}")
    if filename:
        found = sorted(snapshot.glob(filename))
        if len(found) != 1:
            some = ", ".join(str(one.relative_to(snapshot)) for one in found[:8]) or "no file"
            raise ModelError(f"{name}: {filename} names {some}")
        return str(found[0])
    gguf = sorted(one for one in snapshot.iterdir() if one.suffix == ".gguf")
    if gguf and not (snapshot / "config.json").exists():
        first = [one for one in gguf if "-00001-of-" in one.name]
        if len(gguf) > 1 and len(first) != 1:
            names = ", ".join(one.name for one in gguf)
            raise ModelError(f"{name} has several files: choose one by filename=: {names}")
        return str((first or gguf)[0])
    return str(snapshot)

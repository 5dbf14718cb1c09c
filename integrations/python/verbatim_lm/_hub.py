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
    if not filename and (snapshot / "config.json").exists():
        return str(snapshot)
    found = sorted(snapshot.glob(filename or "*.gguf"))
    # A model in several parts is opened by its first.
    models = [one for one in found if "-of-" not in one.name or "-00001-of-" in one.name]
    if len(models) == 1:
        return str(models[0])
    if not found and not filename:
        return str(snapshot)
    some = ", ".join(str(one.relative_to(snapshot)) for one in models[:8]) or "no file"
    raise ModelError(f"{name}: {filename or '*.gguf'} names {some}: choose one by filename=")

"""What the training in a folder is of: its data, its network and its settings."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from keras_mmil._support.atomic import write_json
from keras_mmil._support.digests import add_to_digest

__all__ = ["check_settings", "fingerprint", "write_settings"]

_SETTINGS = "training.json"


def fingerprint(x: Any) -> str:
    """A digest of tensors, arrays or nests of them, which differs where any value does."""
    digest = hashlib.blake2b(digest_size=16)
    add_to_digest(digest, x)
    return digest.hexdigest()


def write_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Keep what decides the outcome of the training in a folder."""
    write_json(folder / _SETTINGS, settings)


def check_settings(folder: Path, settings: Mapping[str, Any]) -> None:
    """Compare with what the training in a folder was started with.

    Raises:
        ValueError: if anything differs, or nothing is known of that training.
    """
    path = folder / _SETTINGS
    try:
        theirs = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(theirs, dict):
            raise ValueError("no dict")
    except (FileNotFoundError, ValueError, RecursionError) as error:
        raise ValueError(
            f"Expected a training with its settings, to resume it; train anew, with resume=False "
            f"or in another folder. Received: {path} ({error!r})"
        ) from error
    names = sorted(theirs.keys() | settings.keys())
    others = [name for name in names if theirs.get(name) != settings.get(name)]
    if others:
        told = ", ".join(
            f"{name}={settings.get(name)!r:.40} (before: {theirs.get(name)!r:.40})"
            if not isinstance(settings.get(name), str)
            else f"other {name}"
            for name in others
        )
        raise ValueError(
            f"Expected the same data and settings as in the training in {folder}, to resume it. "
            f"Received: {told}"
        )

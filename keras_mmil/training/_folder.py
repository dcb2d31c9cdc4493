"""What the training in a folder is of: its data, its network and its settings."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import keras

from keras_mmil._support.digests import add_to_digest
from keras_mmil._support.files import write_json
from keras_mmil.training._reuse import architecture

__all__ = [
    "check_can_resume",
    "check_settings",
    "differences",
    "fingerprint",
    "fingerprint_of_network",
    "write_settings",
]

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
    if others := differences(theirs, settings):
        raise ValueError(
            f"Expected the same data and settings as in the training in {folder}, to resume it. "
            f"Received: {others}"
        )


def differences(before: Mapping[str, Any], settings: Mapping[str, Any]) -> str:
    """What settings differ in from those of before; empty if in nothing. Digests are not shown."""
    names = sorted(before.keys() | settings.keys())
    return ", ".join(
        f"other {name}"
        if isinstance(settings.get(name, before.get(name)), str)
        else f"{name}={settings.get(name)!r:.40} (before: {before.get(name)!r:.40})"
        for name in names
        if before.get(name) != settings.get(name)
    )


def fingerprint_of_network(model: keras.Model) -> str | None:
    """A digest of a model's configuration; None if it has none."""
    configuration = architecture(model)
    return None if configuration is None else fingerprint(configuration)


def check_can_resume(model: keras.Model) -> None:
    """Refuse a model of which nobody can tell whether it is that of before.

    Raises:
        ValueError: if it has no configuration.
    """
    if architecture(model) is None:
        raise ValueError(
            "Expected a model that Keras can serialize, to resume its training: of others nobody "
            f"knows whether they are the same. Received: {model.name}, of a layer without a "
            "configuration"
        )

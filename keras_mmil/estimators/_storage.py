"""Estimators in folders: JSON and Keras's files, nothing that is executed when it is read."""

import inspect
import json
import math
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from keras_mmil._support.archives import load_network
from keras_mmil._support.digests import checksum_of_file, checksum_of_json
from keras_mmil._support.files import (
    atomic_write,
    part_of,
    remove_abandoned,
    write_json,
)
from keras_mmil._support.types import PathLike
from keras_mmil.interpretation import Explainer
from keras_mmil.records import Schema

__all__ = ["STATE", "load", "save"]

_FORMAT = 3
STATE, _MODEL, _SCHEMA, _RULES = "estimator.json", "model.keras", "schema.json", "rules"
_FILES = re.compile(r"files-[0-9a-f]{16}")
_PAIRS = "pairs"
_N_SHOWN = 3
_NOT_SAVED = ("schema", "random_state")  # the one is beside it as `schema_`
_ERRORS = (AttributeError, KeyError, RecursionError, TypeError, ValueError)

Estimator = TypeVar("Estimator")


def save(estimator: Any, folder: PathLike, *, overwrite: bool = False) -> None:
    """Write a fitted estimator.

    Raises:
        FileExistsError: if the folder holds something else, and `overwrite` is false.
        ValueError: if a parameter is nothing that JSON knows.

    Its files are in a folder of their own, whose name `estimator.json` says, with their checksums.
    So the folder turns from an old estimator into the new one at once, when that is replaced.
    """
    folder = Path(folder)
    if not overwrite:
        _check_is_ours(folder)
    parameters = {
        name: _plain(name, value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in _NOT_SAVED
    }
    fitted = {name: _plain(name, getattr(estimator, name)) for name in estimator.fitted}
    files = folder / f"files-{secrets.token_hex(8)}"
    files.mkdir(parents=True)
    with atomic_write(files / _MODEL) as part:
        estimator.model_.save(part)
    estimator.schema_.save(files / _SCHEMA)
    for i, explainer in enumerate(estimator._explainers.values()):
        explainer.save(files / _RULES / str(i))
    content = {
        "class": type(estimator).__name__,
        "parameters": parameters,
        "target": estimator.target_,
        "history": estimator.history_,
        "fitted": fitted,
        "rules_of": [_plain("label", label) for label in estimator._explainers],
        "folder": files.name,
        "files": _checksums(files),
    }
    head = {"format": _FORMAT, "sha256": checksum_of_json(content)}
    replaced = _files_of_saved(folder)
    write_json(folder / STATE, head | content)
    if replaced is not None:
        shutil.rmtree(folder / replaced, ignore_errors=True)
    # Only old ones, as others may be of a save that goes on at the same time.
    others = [path for path in folder.iterdir() if _FILES.fullmatch(path.name)]
    remove_abandoned(folder / STATE, [path for path in others if path != files])


def _check_is_ours(folder: Path) -> None:
    """Raise FileExistsError if a folder holds something else than an estimator."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"Expected a folder to save to. Received: {folder}, a file")
    names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    others = [
        name for name in names if not _FILES.fullmatch(name)
    ]  # but for a save that was killed
    if others and _files_of_saved(folder) is None:
        shown = ", ".join(others[:_N_SHOWN]) + (", …" if len(others) > _N_SHOWN else "")
        raise FileExistsError(
            "Expected a new or empty folder, or that of a saved estimator (or overwrite=True, "
            f"which leaves other files where they are). Received: {folder} with {shown}"
        )


def load(cls: type[Estimator], folder: PathLike) -> Estimator:
    """Read what `save` wrote.

    Raises:
        FileNotFoundError: if there is nothing.
        ValueError: if it is none of this class, or not as it was written.
    """
    folder = Path(folder)
    try:
        content = json.loads((folder / STATE).read_text(encoding="utf-8"))
        if wrong := _wrong(cls, content):
            raise ValueError(wrong)
        estimator: Any = cls(**{k: _tuples(v) for k, v in content["parameters"].items()})
        estimator.target_ = content["target"]
        estimator.history_ = {
            name: [math.nan if value is None else float(value) for value in values]
            for name, values in content["history"].items()
        }
        for name, value in content["fitted"].items():
            setattr(estimator, name, np.array(value) if isinstance(value, list) else value)
        files = folder / content["folder"]
        if _checksums(files) != content["files"]:
            raise ValueError(f"files in {files} that are not as they were written")
    except _ERRORS as error:
        raise ValueError(f"Expected a {cls.__name__} in {folder}. Received: {error}") from error
    estimator.schema_ = Schema.load(files / _SCHEMA)
    estimator.model_ = load_network(files / _MODEL)
    try:
        wrong = estimator._unlike_model()
    except (KeyError, TypeError) as error:  # a target that is not in the schema, classes of lists
        wrong = str(error)
    if wrong:
        raise ValueError(f"Expected a {cls.__name__} in {folder}. Received: {wrong}")
    estimator._kept = None
    estimator._explainers = {
        label: Explainer.load(
            files / _RULES / str(i), estimator.model_, _function(estimator._explained(label))
        )
        for i, label in enumerate(content["rules_of"])
    }
    return estimator


def _function(arguments: Mapping[str, Any]) -> Any:
    """The target of an explainer, if it is a function: those are not saved."""
    target = arguments.get("target")
    return target if callable(target) else None


def _files_of_saved(folder: Path) -> str | None:
    """Name of the folder of the estimator that is there, None if there is none."""
    try:
        name = json.loads((folder / STATE).read_text(encoding="utf-8")).get("folder")
    except (FileNotFoundError, *_ERRORS):  # nothing that would need it
        return None
    return name if isinstance(name, str) and _FILES.fullmatch(name) else None


def _checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file in a folder, by its path in it."""
    return {
        path.relative_to(folder).as_posix(): checksum_of_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and part_of(path) is None
    }


def _wrong(cls: type, content: Any) -> str:
    """What is wrong with the content of a file; empty if nothing is."""
    if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
        return "another format"
    if content.get("class") != cls.__name__:
        return f"class={content.get('class')!r}"
    if content.pop("sha256", None) != checksum_of_json(content):
        return f"another checksum of {STATE}"
    dicts = {"parameters": dict, "history": dict, "fitted": dict, "rules_of": list, "folder": str}
    for name, kind in dicts.items():
        if not isinstance(content.get(name), kind):
            return f"{name}={content.get(name)!r}"
    known = inspect.signature(cls).parameters.keys()
    if unknown := content["parameters"].keys() - known:
        return f"parameters {sorted(unknown)}"
    if unknown := content["fitted"].keys() ^ set(getattr(cls, "fitted", ())):
        return f"fitted {sorted(unknown)}"
    if not _FILES.fullmatch(content["folder"]):
        return f"folder={content['folder']!r}"
    labels = content["fitted"].get("classes_", [])
    if not all(label is None or label in labels for label in content["rules_of"]):
        return f"rules_of={content['rules_of']!r}"
    target = content.get("target")
    paths = target if isinstance(target, list) else [target or ""]
    return "" if all(isinstance(path, str) for path in paths) else f"target={target!r}"


def _plain(name: str, value: Any) -> Any:
    """A value as JSON knows it; where keys are not texts, which JSON would make of them, pairs."""
    if isinstance(value, Mapping) and not all(isinstance(k, str) and k != _PAIRS for k in value):
        return {_PAIRS: [[_plain(name, x) for x in pair] for pair in value.items()]}
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError(
            f"Expected parameters that JSON knows, such as names. Received: {name}={value!r}"
        ) from None
    return value


def _tuples(value: Any) -> Any:
    """JSON's lists as the tuples, and pairs as the dicts that they were."""
    if isinstance(value, dict) and value.keys() == {_PAIRS}:
        return dict(value[_PAIRS])
    return tuple(value) if isinstance(value, list) else value

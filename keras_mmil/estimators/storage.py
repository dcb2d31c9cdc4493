"""Estimators in folders: JSON and Keras's files; reading them executes nothing."""

import inspect
import json
import math
import re
import secrets
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

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
from keras_mmil.records import Schema
from keras_mmil.rules import Explainer

__all__ = ["STATE", "is_saved", "load", "save"]

_FORMAT = 3
STATE, _MODEL, _SCHEMA, _RULES = "estimator.json", "model.keras", "schema.json", "rules"
_FILES = re.compile(r"files-[0-9a-f]{16}")
_PAIRS = "pairs"
_N_SHOWN = 3
_NOT_SAVED = ("schema", "random_state")  # the first is saved as `schema_`
_TYPES = {"parameters": dict, "history": dict, "fitted": dict, "rules_of": list, "folder": str}
_ERRORS = (AttributeError, KeyError, RecursionError, TypeError, ValueError)


def save(estimator: Any, folder: PathLike, *, overwrite: bool = False) -> None:
    """Write a fitted estimator: see `NestedEstimator.save`.

    Its files are in a folder of their own, which `estimator.json` names, with their checksums. So
    writing that one file replaces an old estimator by the new one at once.
    """
    folder = Path(folder)
    if not overwrite:
        _check_is_ours(folder)
    parameters = {
        name: _to_json(name, value)
        for name, value in estimator.get_params(deep=False).items()
        if name not in _NOT_SAVED
    }
    fitted = {name: _to_json(name, getattr(estimator, name)) for name in estimator.fitted}
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
        "rules_of": [_to_json("label", label) for label in estimator._explainers],
        "folder": files.name,
        "files": _checksums(files),
    }
    head = {"format": _FORMAT, "sha256": checksum_of_json(content)}
    replaced = _folder_of_files(folder)
    write_json(folder / STATE, head | content)
    if replaced is not None:
        shutil.rmtree(folder / replaced, ignore_errors=True)
    # Only old folders: others may belong to another process that is saving now.
    others = [path for path in folder.iterdir() if _FILES.fullmatch(path.name)]
    remove_abandoned(folder / STATE, [path for path in others if path != files])


def is_saved(folder: PathLike) -> bool:
    """Whether a folder holds a saved estimator."""
    return (Path(folder) / STATE).is_file()


def load(cls: type[Any], folder: PathLike) -> Any:
    """Read what `save` wrote: an estimator of a class, or of a subclass."""
    folder = Path(folder)
    classes = {each.__name__: each for each in (cls, *cls.__subclasses__()) if each.fitted}
    wanted = f"Expected a {' or '.join(classes)} in {folder}"
    try:
        content = json.loads((folder / STATE).read_text(encoding="utf-8"))
        estimator = _read(classes, folder, content)
    except _ERRORS as error:
        raise ValueError(f"{wanted}. Received: {error}") from error
    files = folder / content["folder"]
    estimator.schema_ = Schema.load(files / _SCHEMA)
    estimator.model_ = load_network(files / _MODEL)
    try:
        wrong = estimator._mismatch()
    except (KeyError, TypeError) as error:  # a target that is not in the schema, classes of lists
        wrong = str(error)
    if wrong:
        raise ValueError(f"{wanted}. Received: {wrong}")
    estimator._cache = None
    estimator._explainers = {}
    for i, label in enumerate(content["rules_of"]):
        target = estimator._rule_target(label).get("target")
        estimator._explainers[label] = Explainer.load(
            files / _RULES / str(i),
            estimator.model_,
            target if callable(target) else None,  # functions are not saved
        )
    return estimator


def _read(classes: Mapping[str, type[Any]], folder: Path, content: Any) -> Any:
    """An estimator with its parameters and fitted attributes; ValueError if a file is damaged."""
    if not isinstance(content, dict) or content.pop("format", None) != _FORMAT:
        raise ValueError("another format")
    cls = classes.get(content.get("class", ""))
    if cls is None:
        raise ValueError(f"class={content.get('class')!r}")
    if content.pop("sha256", None) != checksum_of_json(content):
        raise ValueError(f"another checksum of {STATE}")
    if wrong := _wrong(cls, content):
        raise ValueError(wrong)
    estimator = cls(**{k: _from_json(v) for k, v in content["parameters"].items()})
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
    return estimator


def _wrong(cls: type[Any], content: Mapping[str, Any]) -> str:
    """What is wrong with the content of a file; empty if nothing is."""
    for name, kind in _TYPES.items():
        if not isinstance(content.get(name), kind):
            return f"{name}={content.get(name)!r}"
    if unknown := content["parameters"].keys() - inspect.signature(cls).parameters.keys():
        return f"parameters {sorted(unknown)}"
    if unknown := content["fitted"].keys() ^ set(cls.fitted):
        return f"fitted {sorted(unknown)}"
    if not _FILES.fullmatch(content["folder"]):
        return f"folder={content['folder']!r}"
    labels = content["fitted"].get("classes_", [])
    if not all(label is None or label in labels for label in content["rules_of"]):
        return f"rules_of={content['rules_of']!r}"
    target = content.get("target")
    paths = target if isinstance(target, list) else [target or ""]
    return "" if all(isinstance(path, str) for path in paths) else f"target={target!r}"


def _check_is_ours(folder: Path) -> None:
    """Raise FileExistsError if a folder holds something other than an estimator."""
    if folder.exists() and not folder.is_dir():
        raise FileExistsError(f"Expected a folder to save to. Received: {folder}, a file")
    names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
    others = [name for name in names if not _FILES.fullmatch(name)]  # those are of a killed save
    if others and _folder_of_files(folder) is None:
        shown = ", ".join(others[:_N_SHOWN]) + (", …" if len(others) > _N_SHOWN else "")
        raise FileExistsError(
            "Expected a new or empty folder, or that of a saved estimator (or overwrite=True, "
            f"which leaves other files where they are). Received: {folder} with {shown}"
        )


def _folder_of_files(folder: Path) -> str | None:
    """The name of the folder with the files of the estimator that is there, if one is."""
    try:
        name = json.loads((folder / STATE).read_text(encoding="utf-8")).get("folder")
    except (FileNotFoundError, *_ERRORS):
        return None
    return name if isinstance(name, str) and _FILES.fullmatch(name) else None


def _checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file in a folder, by its path in it."""
    return {
        path.relative_to(folder).as_posix(): checksum_of_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and part_of(path) is None
    }


def _to_json(name: str, value: Any) -> Any:
    """A value for JSON, in which dicts whose keys are not strings are lists of pairs."""
    if isinstance(value, Mapping) and not all(isinstance(k, str) and k != _PAIRS for k in value):
        return {_PAIRS: [[_to_json(name, x) for x in pair] for pair in value.items()]}
    value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        raise ValueError(
            f"Expected parameters that JSON can hold, such as names. Received: {name}={value!r}"
        ) from None
    return value


def _from_json(value: Any) -> Any:
    """The inverse of `_to_json`, with tuples for lists."""
    if isinstance(value, dict) and value.keys() == {_PAIRS}:
        return dict(value[_PAIRS])
    return tuple(value) if isinstance(value, list) else value

"""Estimators in folders: JSON and Keras's files; reading them executes nothing."""

import inspect
import math
import re
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from keras_mmil._support.archives import load_network
from keras_mmil._support.digests import checksum_of_file
from keras_mmil._support.files import atomic_write, part_of, remove_abandoned
from keras_mmil._support.state import decode, encode, peek_state, read_state, write_state
from keras_mmil._support.types import PathLike
from keras_mmil.estimators.trials import Trial
from keras_mmil.records import Schema
from keras_mmil.rules import Explainer

__all__ = ["STATE", "is_saved", "load", "save"]

_FORMAT = "keras-mmil estimator"
_VERSION = 6
STATE, _MODEL, _SCHEMA, _RULES = "estimator.json", "model.keras", "schema.json", "rules"
_FILES = re.compile(r"files-[0-9a-f]{16}")
_N_SHOWN = 3
_NOT_SAVED = ("schema", "random_state")  # the first is saved as `schema_`


@dataclass(frozen=True)
class _State:
    """What `estimator.json` says.

    Attributes:
        kind: name of the estimator's class.
        parameters: of its constructor.
        target: path of the target, or of several.
        history: by metric; None where it is not finite.
        trials: what was tried.
        fitted: the attributes that `fit` sets, by name.
        rules_of: the labels whose rules are saved.
        folder: name of the folder with the files.
        files: their checksums, by path in it.
    """

    kind: str
    parameters: dict[str, Any]
    target: str | tuple[str, ...] | None
    history: dict[str, tuple[float | None, ...]]
    trials: tuple[Trial, ...]
    fitted: dict[str, Any]
    rules_of: tuple[Any, ...]
    folder: str
    files: dict[str, str]


def save(estimator: Any, folder: PathLike, *, overwrite: bool = False) -> None:
    """Write a fitted estimator: see `NestedEstimator.save`.

    Its files are in a folder of their own, which `estimator.json` names, with their checksums. So
    writing that one file replaces an old estimator by the new one at once.
    """
    folder = Path(folder)
    if not overwrite:
        _check_is_ours(folder)
    parameters = {k: v for k, v in estimator.get_params(deep=False).items() if k not in _NOT_SAVED}
    encode(parameters)  # refused before anything is written
    files = folder / f"files-{secrets.token_hex(8)}"
    files.mkdir(parents=True)
    with atomic_write(files / _MODEL) as part:
        estimator.model_.save(part)
    estimator.schema_.save(files / _SCHEMA)
    for i, explainer in enumerate(estimator._explainers.values()):
        explainer.save(files / _RULES / str(i))
    state = _State(
        kind=type(estimator).__name__,
        parameters=parameters,
        target=estimator.target_,
        history={
            name: tuple(x if math.isfinite(x) else None for x in values)
            for name, values in estimator.history_.items()
        },
        trials=estimator.trials_,
        fitted={name: getattr(estimator, name) for name in estimator.fitted},
        rules_of=tuple(estimator._explainers),
        folder=files.name,
        files=_checksums(files),
    )
    replaced = _folder_of_files(folder)
    write_state(folder / STATE, _FORMAT, _VERSION, encode(state))
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
        state = decode(_State, read_state(folder / STATE, _FORMAT, _VERSION))
        estimator = _read(classes, folder, state)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{wanted}. Received: {error}") from error
    files = folder / state.folder
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
    for i, label in enumerate(state.rules_of):
        target = estimator._rule_target(label).get("target")
        estimator._explainers[label] = Explainer.load(
            files / _RULES / str(i),
            estimator.model_,
            target if callable(target) else None,  # functions are not saved
        )
    return estimator


def _read(classes: Mapping[str, type[Any]], folder: Path, state: _State) -> Any:
    """An estimator with its parameters and fitted attributes; ValueError if a file is damaged."""
    cls = classes.get(state.kind)
    if cls is None:
        raise ValueError(f"kind={state.kind!r}")
    if unknown := state.parameters.keys() - inspect.signature(cls).parameters.keys():
        raise ValueError(f"parameters {sorted(unknown)}")
    if unknown := state.fitted.keys() ^ set(cls.fitted):
        raise ValueError(f"fitted {sorted(unknown)}")
    if not _FILES.fullmatch(state.folder):
        raise ValueError(f"folder={state.folder!r}")
    labels = state.fitted.get("classes_", ())
    if not all(label is None or label in labels for label in state.rules_of):
        raise ValueError(f"rules_of={state.rules_of!r}")
    if _checksums(folder / state.folder) != state.files:
        raise ValueError(f"files in {folder / state.folder} that are not as they were written")
    estimator = cls(**state.parameters)
    estimator.target_ = [*state.target] if isinstance(state.target, tuple) else state.target
    estimator.history_ = {
        name: [math.nan if value is None else value for value in values]
        for name, values in state.history.items()
    }
    estimator.trials_ = state.trials
    for name, value in state.fitted.items():
        setattr(estimator, name, np.array(value) if isinstance(value, tuple) else value)
    return estimator


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
    name = (peek_state(folder / STATE, _FORMAT) or {}).get("folder")
    return name if isinstance(name, str) and _FILES.fullmatch(name) else None


def _checksums(folder: Path) -> dict[str, str]:
    """The SHA-256 of each file in a folder, by its path in it."""
    return {
        path.relative_to(folder).as_posix(): checksum_of_file(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and part_of(path) is None
    }

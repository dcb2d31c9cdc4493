"""The folder of one run."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_mmil._support.files import locked, remove_parts, to_json, write_json
from keras_mmil._support.state import decode
from keras_mmil._support.types import PathLike
from keras_mmil.cli.options import TrainSettings
from keras_mmil.training.resumable import Checkpoint

__all__ = ["SETTINGS", "RunFolder", "holds_own_data", "how_read", "read_settings", "train_settings"]

SETTINGS, _ESTIMATOR = "settings.json", "estimator.json"
# What takes long to compute, and what a run would overwrite.
_RESULTS = (
    "epoch-*.keras",
    "best.keras",
    "model.keras",
    "text_model.keras",
    "history.csv",
    "cross_validation.json",
    "metrics.json",
    "rules/*",
    _ESTIMATOR,
    "schema.json",
)
# Files that mark a finished run.
_FINISHED = (_ESTIMATOR, "trained_on.npy", "metrics.json")
_ABOUT = {"experiment", "target"}  # the settings of a run have one of these


class RunFolder:
    """The folder in which a run keeps its settings, checkpoints and results.

    Raises:
        BlockingIOError: if another process is running in the folder.
        FileExistsError: if it holds another run, which is neither resumed nor replaced; or
            results without settings.
        ValueError: if the run there has other settings, or its settings cannot be read.
    """

    def __init__(
        self,
        path: PathLike,
        settings: Mapping[str, Any],
        *,
        resume: bool,
        replace: bool = False,
    ) -> None:
        self.path = Path(path)
        self.settings = json.loads(to_json(settings))  # as they are read again
        self._resume, self._replace = resume, replace
        if (self.path / SETTINGS).exists() and read_settings(self.path):
            with locked(self.path):  # to fail before data are read
                pass
        self._holds_run()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Lock the folder until the run ends, and prepare it.

        Makes it, if it is missing, removes half-written files and what is replaced, and writes the
        settings. Raises what the class does, as other processes may have been here since.
        """
        with locked(self.path):
            if self._holds_run():
                for folder in (self.path, self.path / "rules"):
                    remove_parts(folder)
                if not self._resume:  # before the new settings replace theirs
                    Checkpoint(self.path).clear()
                    for name in _FINISHED:
                        (self.path / name).unlink(missing_ok=True)
            self.write_json(SETTINGS, self.settings)
            yield

    def _holds_run(self) -> bool:
        """Whether there is a run to resume or replace. Raises what the class does."""
        found = read_settings(self.path) if (self.path / SETTINGS).exists() else None
        if found is None:
            if results := self._results():
                raise FileExistsError(
                    f"Expected a new folder, or that of a run, with {SETTINGS}. "
                    f"Received: --out {self.path}, with {', '.join(results)}"
                )
            return False
        if not (self._resume or self._replace):
            raise FileExistsError(
                "Expected a new folder, or --resume to continue the run in it. "
                f"Received: --out {self.path}"
            )
        if self._resume and found != self.settings:
            raise ValueError(
                f"Expected the settings of the run in {self.path}, {found}, for --resume. "
                f"Received: {self.settings}"
            )
        return True

    def _results(self) -> list[str]:
        """The results of a run in the folder."""
        found = (path for pattern in _RESULTS for path in self.path.glob(pattern))
        return sorted(str(path.relative_to(self.path)) for path in found)

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file, atomically."""
        write_json(self.path / name, content)


def holds_own_data(folder: PathLike) -> bool:
    """Whether the run in a folder is a training on own data, rather than an experiment."""
    return (Path(folder) / SETTINGS).is_file() and "target" in read_settings(folder)


def read_settings(folder: PathLike) -> dict[str, Any]:
    """The settings of the run in a folder; ValueError if they are not those of a run."""
    path = Path(folder) / SETTINGS
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Expected the settings of a run. Received: {path}, {error}") from error
    if not isinstance(settings, dict) or not _ABOUT & settings.keys():
        raise ValueError(f"Expected the settings of a run. Received: {path}, {settings}")
    return settings


def train_settings(run: PathLike) -> TrainSettings:
    """The settings of a training on own data; ValueError if there are others in its folder."""
    try:
        return decode(TrainSettings, read_settings(run))
    except ValueError as error:
        raise ValueError(
            "Expected the settings of `keras-mmil train`. "
            f"Received: {Path(run) / SETTINGS}, {error}"
        ) from error


def how_read(run: PathLike) -> dict[str, Any]:
    """How a run read its data: arguments of `own_files.new_records`.

    Empty for the folder of an estimator that no run has trained.
    """
    if not (Path(run) / SETTINGS).is_file():
        return {}
    settings = train_settings(run)
    return {name: getattr(settings, name) for name in ("records", "decimal", "as_of", "times")}

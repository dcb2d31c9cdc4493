"""The folder of one run."""

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from keras_mmil._support.files import locked, remove_parts, write_json
from keras_mmil._support.types import PathLike
from keras_mmil.training.resumable import Checkpoint

__all__ = ["SETTINGS", "RunFolder", "holds_own_data", "read_settings"]

SETTINGS, _ESTIMATOR = "settings.json", "estimator.json"
# What takes long to make, and what a run would overwrite.
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
# By which a run counts as finished.
_FINISHED = (_ESTIMATOR, "trained_on.npy", "metrics.json")
_ABOUT = {"experiment", "target"}  # of which the settings of a run have one


class RunFolder:
    """The folder in which a run keeps its settings, checkpoints and results.

    Args:
        path: the folder, which `held` makes.
        settings: dict, JSON: what decides the outcome of the run.
        resume: whether to continue a run of the same settings.
        replace: whether to replace a run that is there, if it is not resumed.

    Raises:
        BlockingIOError: if the run there goes on, in another process.
        FileExistsError: if another run is there, and is neither resumed nor replaced; or if
            there are results without the settings of their run.
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
        self.settings = settings
        self._resume, self._replace = resume, replace
        if (self.path / SETTINGS).exists() and read_settings(self.path):
            with locked(self.path):  # before data are read for nothing
                pass
        self._holds_run()

    def __truediv__(self, name: str) -> Path:
        return self.path / name

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Keep other processes out until the run ends, and prepare the folder.

        Makes it, if it is missing, removes half-written files and what is to be replaced, and
        writes the settings.

        Raises:
            BlockingIOError, FileExistsError, ValueError: as the class does, as other processes may
                have been in the folder since.
        """
        with locked(self.path):
            if self._holds_run():
                for folder in (self.path, self.path / "rules"):
                    remove_parts(folder)
                if not self._resume:  # before the new settings are there, which these are not of
                    Checkpoint(self.path).clear()
                    for name in _FINISHED:
                        (self.path / name).unlink(missing_ok=True)
            self.write_json(SETTINGS, self.settings)
            yield

    def _holds_run(self) -> bool:
        """Whether there is a run, to be resumed or replaced. Raises what the class does."""
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
        """The results of a run that are there."""
        found = (path for pattern in _RESULTS for path in self.path.glob(pattern))
        return sorted(str(path.relative_to(self.path)) for path in found)

    def write_json(self, name: str, content: Mapping[str, Any]) -> None:
        """Write a JSON file, atomically."""
        write_json(self.path / name, content)


def holds_own_data(folder: PathLike) -> bool:
    """Whether the run in a folder is on own data, and not of an experiment.

    Raises:
        ValueError: if its settings are none.
    """
    return (Path(folder) / SETTINGS).is_file() and "target" in read_settings(folder)


def read_settings(folder: PathLike) -> dict[str, Any]:
    """The settings of the run in a folder.

    Raises:
        FileNotFoundError: if there are no settings.
        ValueError: if they are not the settings of a run.
    """
    path = Path(folder) / SETTINGS
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"Expected the settings of a run. Received: {path}, {error}") from error
    if not isinstance(settings, dict) or not _ABOUT & settings.keys():
        raise ValueError(f"Expected the settings of a run. Received: {path}, {settings}")
    return settings

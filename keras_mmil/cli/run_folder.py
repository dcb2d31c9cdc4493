"""The folder of one run."""

import json
from pathlib import Path

from keras_mmil._support.atomic import remove_parts, replacing, write_json
from keras_mmil.training.checkpoint import Checkpoint

__all__ = ["RunFolder", "read_settings"]

_SETTINGS = "settings.json"
# What takes long to make, and a run would overwrite.
_RESULTS = (
    "epoch-*.keras",
    "best.keras",
    "model.keras",
    "text_model.keras",
    "history.csv",
    "cross_validation.json",
    "metrics.json",
    "rules/*",
)


class RunFolder:
    """The folder in which a run keeps its settings, checkpoints and results.

    Args:
        path: the folder, which `create` makes.
        settings: dict, JSON: what decides the outcome of the run.
        resume: whether to go on with a run of the same settings.
        replace: whether a run that is there may be replaced, if it is not to be resumed.

    Raises:
        FileExistsError: if another run is there, and is neither to be resumed nor replaced; or if
            there are results, and no settings that say of what run.
        ValueError: if the run there has other settings, or its settings cannot be read.
    """

    def __init__(self, path, settings, *, resume, replace=False):
        self.path = Path(path)
        self.settings = settings
        found = read_settings(path) if (self.path / _SETTINGS).exists() else None
        if found is not None and not (resume or replace):
            raise FileExistsError(
                "Expected a new folder, or --resume to go on with the run that is in it. "
                f"Received: --out {self.path}"
            )
        if found is not None and resume and found != settings:
            raise ValueError(
                f"Expected the settings of the run in {self.path}, {found}, for --resume. "
                f"Received: {settings}"
            )
        if found is None and (results := self._results()):
            raise FileExistsError(
                f"Expected a new folder, or that of a run, with {_SETTINGS}. "
                f"Received: --out {self.path}, with {', '.join(results)}"
            )
        self._resumes = found is not None and resume
        self._replaces = found is not None and not resume

    def __truediv__(self, name):
        return self.path / name

    def create(self):
        """Make the folder, if it is missing, with the settings in it, and without half files."""
        self.path.mkdir(parents=True, exist_ok=True)
        if self._resumes or self._replaces:  # a folder is for one run at a time: the other is gone
            for folder in (self.path, self.path / "rules"):
                remove_parts(folder)
        if self._replaces:  # before the new settings are there, which its checkpoints are not of
            Checkpoint(self.path).clear()
        self.write_json(_SETTINGS, self.settings)

    def _results(self):
        """What is there of the results of a run."""
        found = (path for pattern in _RESULTS for path in self.path.glob(pattern))
        return sorted(str(path.relative_to(self.path)) for path in found)

    def write_json(self, name, content):
        """Write a JSON file, atomically."""
        write_json(self.path / name, content)

    def write_text(self, name, content):
        """Write a text file, atomically."""
        with replacing(self.path / name) as part:
            part.write_text(content, encoding="utf-8")


def read_settings(folder):
    """What decided the outcome of the run in a folder: dict.

    Raises:
        FileNotFoundError: if there are no settings.
        ValueError: if they are not those of a run.
    """
    path = Path(folder) / _SETTINGS
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"Expected the settings of a run. Received: {path}, {error}") from error
    if not isinstance(settings, dict) or "experiment" not in settings:
        raise ValueError(f"Expected the settings of a run. Received: {path}, {settings}")
    return settings

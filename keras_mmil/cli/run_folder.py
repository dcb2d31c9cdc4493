"""The folder of one run."""

import json
import os
from pathlib import Path

__all__ = ["RunFolder"]


class RunFolder:
    """The folder in which a run keeps its settings, checkpoints and results.

    Args:
        path: the folder; made if missing.
        settings: dict, JSON: what decides the outcome of the run.
        resume: whether to go on with a run of the same settings.

    Raises:
        FileExistsError: if another run is there and `resume` is false.
        ValueError: if the run there has other settings.
    """

    def __init__(self, path, settings, resume):
        self.path = Path(path)
        found = self._read("settings.json")
        if found is not None and not resume:
            raise FileExistsError(
                "Expected a new folder, or --resume to go on with the run that is in it. "
                f"Received: --out {self.path}"
            )
        if found is not None and found != settings:
            raise ValueError(
                f"Expected the settings of the run in {self.path}, {found}, for --resume. "
                f"Received: {settings}"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        self.write_json("settings.json", settings)

    def __truediv__(self, name):
        return self.path / name

    def write_json(self, name, content):
        """Write a JSON file, atomically."""
        self.write_text(name, json.dumps(content, indent=1) + "\n")

    def write_text(self, name, content):
        """Write a text file, atomically."""
        part = self.path / f"part-{name}"
        part.write_text(content, encoding="utf-8")
        os.replace(part, self.path / name)

    def _read(self, name):
        path = self.path / name
        return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None

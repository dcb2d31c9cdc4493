"""What a finished run left in its folder, with the data of its experiment."""

from dataclasses import dataclass
from pathlib import Path
from types import NoneType

import numpy as np
import numpy.typing as npt

from keras_mmil._support import archives
from keras_mmil._support.archives import load_network
from keras_mmil._support.files import atomic_write
from keras_mmil._support.types import PathLike
from keras_mmil.cli.run_folder import read_settings
from keras_mmil.interpretation import Explainer
from keras_mmil.model import Model
from keras_mmil.zoo.experiments.experiment import Data, Experiment
from keras_mmil.zoo.experiments.page import Page
from keras_mmil.zoo.experiments.registry import registry

__all__ = ["FinishedRun", "finished_run"]

_TRAINED_ON = "trained_on.npy"
# The arguments of `Experiment.load`, by the settings that they were, and their types.
_LOADED = {"seed": "seed", "limit": "limit", "source": "source", "adversarial": "unlabelled"}
_TYPES = {
    "seed": int,
    "limit": int | NoneType,
    "source": str | NoneType,
    "unlabelled": bool,
}


@dataclass(frozen=True, eq=False)
class FinishedRun:
    """A finished run with rules.

    Attributes:
        experiment: what was run.
        data: its data, loaded anew.
        model: the trained network.
        explainer: the rules of its network.
        trained_on: `Explainer.hashes` of the top-bags that the network was trained or chosen on.
    """

    experiment: Experiment
    data: Data
    model: Model
    explainer: Explainer
    trained_on: npt.NDArray[np.uint64]

    @property
    def title(self) -> str:
        """What the page is called."""
        name, _, about = self.experiment.title.partition(": ")
        return f"{self.experiment.name}: {name}{f' ({about})' if about else ''}"

    @property
    def about(self) -> tuple[str, ...]:
        """Sentences that the page begins with: none, as the title says it."""
        return ()

    def page(self) -> Page:
        """What the page shows."""
        if self.data.page:
            return self.data.page()
        x, y, _ = self.data.for_testing_rules()
        return Page(x, y)

    def write_trained_on(self, folder: PathLike) -> None:
        """Write the hashes of what the network was trained on to the folder of the run."""
        with atomic_write(Path(folder) / _TRAINED_ON) as part, open(part, "wb") as file:
            np.save(file, self.trained_on, allow_pickle=False)


def finished_run(folder: PathLike) -> FinishedRun:
    """Read the folder that a run has written.

    Raises:
        FileNotFoundError: if it holds no finished run with rules.
        ValueError: if a file of it is damaged.
    """
    path = Path(folder)
    needed = [path / name for name in ("rules", "model.keras", _TRAINED_ON)]
    settings = read_settings(path) if (path / "settings.json").is_file() else None
    if settings is None or not all(each.exists() for each in needed):
        raise FileNotFoundError(
            "Expected the folder of a finished run with rules, of `keras-mmil run` or `train`. "
            f"Received: {folder}"
        )
    arguments = {name: settings.get(setting) for setting, name in _LOADED.items()}
    name = settings["experiment"]
    are_right = all(isinstance(x, _TYPES[argument]) for argument, x in arguments.items())
    if not (isinstance(name, str) and name in registry and are_right):
        raise ValueError(
            f"Expected the settings of a run. Received: {path / 'settings.json'}, {settings!r:.300}"
        )
    experiment = registry[name]
    data = experiment.load(**arguments)
    model = load_network(path / "model.keras")
    explainer = Explainer.load(path / "rules", model)
    trained_on = archives.read_npy(path / _TRAINED_ON)
    if trained_on.dtype != np.uint64 or trained_on.ndim != 1:
        raise ValueError(
            f"Expected hashes, uint64 [top-bags]. Received: {path / _TRAINED_ON} with "
            f"{trained_on.dtype} {trained_on.shape}"
        )
    return FinishedRun(experiment, data, model, explainer, trained_on)

"""The report of a run: one page of HTML."""

from pathlib import Path

import keras

from keras_mmil._support.types import PathLike
from keras_mmil.bags import inputs_of
from keras_mmil.cli.run_folder import read_settings
from keras_mmil.interpretation import Explainer
from keras_mmil.zoo import registry
from keras_mmil.zoo.experiments.experiment import Data, Experiment
from keras_mmil.zoo.experiments.page import Page

__all__ = ["page_of_run", "write_page"]

_NAME = "report.html"


def write_page(
    path: PathLike,
    experiment: Experiment,
    data: Data,
    explainer: Explainer,
    *,
    include_data: bool = True,
) -> Path:
    """Write the report of an experiment.

    Args:
        path: of the page.
        experiment: the experiment.
        data: what it loaded.
        explainer: fitted to its network.
        include_data: whether to show top-bags.

    Returns:
        The path.
    """
    page = data.page() if data.page else _page_of_test(data)
    name, _, about = experiment.title.partition(": ")
    title = f"{experiment.name}: {name}{f' ({about})' if about else ''}"
    found = explainer.report(
        inputs_of(page.x), page.y, page.show, include_data=include_data, title=title
    )
    return found.save(path)


def page_of_run(run: PathLike, out: PathLike | None = None, *, include_data: bool = True) -> Path:
    """Write the report of a finished run anew, from its folder and the experiment's data.

    Args:
        run: the folder that `run` has written.
        out: path of the page; None for `report.html` in the folder.
        include_data: whether to show top-bags.

    Raises:
        FileNotFoundError: if the folder holds no finished run with rules.
    """
    folder = Path(run)
    settings = read_settings(folder) if (folder / "settings.json").is_file() else None
    if settings is None or not (folder / "rules").is_dir():
        raise FileNotFoundError(
            "Expected the folder of a finished run with rules, as `keras-mmil run` makes. "
            f"Received: {run}"
        )
    experiment = registry[settings["experiment"]]
    data = experiment.load(
        seed=settings["seed"],
        limit=settings["limit"],
        source=settings["source"],
        unlabelled=settings["adversarial"],
    )
    model = keras.models.load_model(folder / "model.keras")
    explainer = Explainer.load(folder / "rules", model)
    path = folder / _NAME if out is None else out
    return write_page(path, experiment, data, explainer, include_data=include_data)


def _page_of_test(data: Data) -> Page:
    rule_data = data.rule_data() if data.rule_data else None
    test = (rule_data and rule_data.test) or data.test
    return Page(test.x, test.y)

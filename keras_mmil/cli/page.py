"""The report of a run: one page of HTML."""

from pathlib import Path

from keras_mmil._support.types import PathLike
from keras_mmil.bags import inputs_of
from keras_mmil.cli.finished_run import FinishedRun, finished_run
from keras_mmil.zoo.experiments.experiment import Data
from keras_mmil.zoo.experiments.page import Page

__all__ = ["PAGE", "page_of_run", "write_page"]

PAGE = "report.html"


def write_page(path: PathLike, run: FinishedRun, *, include_data: bool = True) -> Path:
    """Write the report of a finished run.

    Args:
        path: of the page.
        run: the run.
        include_data: whether to show top-bags.

    Returns:
        The path.
    """
    experiment, data = run.experiment, run.data
    page = data.page() if data.page else _page_of_test(data)
    name, _, about = experiment.title.partition(": ")
    found = run.explainer.report(
        inputs_of(page.x),
        page.y,
        page.show,
        include_data=include_data,
        title=f"{experiment.name}: {name}{f' ({about})' if about else ''}",
        trained_on=run.trained_on,
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
    path = Path(run) / PAGE if out is None else out
    return write_page(path, finished_run(run), include_data=include_data)


def _page_of_test(data: Data) -> Page:
    _, test = data.for_rules()
    return Page(test.x, test.y)

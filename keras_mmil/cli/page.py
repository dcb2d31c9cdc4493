"""The report of a run: one page of HTML."""

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from keras_mmil._support.types import PathLike
from keras_mmil.bags import inputs_of
from keras_mmil.cli.finished_run import finished_run
from keras_mmil.cli.run_folder import holds_own_data
from keras_mmil.cli.trained_run import trained_run
from keras_mmil.interpretation import Explainer
from keras_mmil.zoo.experiments.experiment import Page

__all__ = ["PAGE", "Shown", "page_of_run", "write_page"]

PAGE = "report.html"


class Shown(Protocol):
    """A finished run with rules, of an experiment or on own data."""

    @property
    def title(self) -> str:
        """What the page is called."""

    @property
    def about(self) -> Sequence[str]:
        """Sentences that the page begins with."""

    @property
    def explainer(self) -> Explainer:
        """The rules."""

    @property
    def trained_on(self) -> npt.NDArray[np.uint64]:
        """`Explainer.hashes` of the top-bags that the network was trained or chosen on."""

    def page(self) -> Page:
        """What the page shows."""


def write_page(path: PathLike, run: Shown, *, include_data: bool = True) -> Path:
    """Write the report of a finished run.

    Args:
        path: of the page.
        run: the run.
        include_data: whether to show top-bags.

    Returns:
        The path.
    """
    page = run.page()
    found = run.explainer.report(
        inputs_of(page.x),
        page.y,
        page.show,
        include_data=include_data,
        title=run.title,
        about=run.about,
        trained_on=run.trained_on,
    )
    return found.save(path)


def page_of_run(run: PathLike, out: PathLike | None = None, *, include_data: bool = True) -> Path:
    """Write the report of a finished run anew, from its folder and the data.

    Args:
        run: the folder that `run` or `train` has written.
        out: path of the page; None for `report.html` in the folder.
        include_data: whether to show top-bags.

    Raises:
        FileNotFoundError: if the folder holds no finished run with rules, or there are no data.
        ValueError: if a file of it is damaged, or own data have changed.
    """
    path = Path(run) / PAGE if out is None else out
    return write_page(path, _shown(run), include_data=include_data)


def _shown(run: PathLike) -> Shown:
    if not holds_own_data(run):
        return finished_run(run)
    return trained_run(run)

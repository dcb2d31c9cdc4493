"""How an explainer shows itself: as a page, and in notebooks."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import check_is_fitted

from keras_mmil._support.formatting import percent, preformatted
from keras_mmil._support.types import Config
from keras_mmil.interpretation.fitting.search import GridPoint
from keras_mmil.interpretation.network.data import TopBags
from keras_mmil.interpretation.report.page import Report, report
from keras_mmil.interpretation.trust import Trust

__all__ = ["Reporting"]


class Reporting(Trust):
    """Pages about the rules of an `Explainer`.

    A subclass sets these attributes once it is fitted, see there.
    """

    n_clusters_: tuple[int, ...]
    grid_: tuple[GridPoint, ...]
    fidelity_: float
    majority_: float

    def report(
        self,
        x: TopBags,
        y: npt.ArrayLike | None = None,
        show: Any = None,
        *,
        include_data: bool = True,
        n_cases: int = 20,
        title: str | None = None,
        about: Sequence[str] = (),
        trained_on: npt.NDArray[np.uint64] | None = None,
    ) -> Report:
        """A page about the rules, one file of HTML: `explainer.report(x, y).save("report.html")`.

        It holds figures with intervals, the rules in words, clusters, worked cases, and how it was
        made; no part of it is fetched from elsewhere.

        Args:
            x: top-bags that the rules have not seen; of others, figures are without intervals.
            y: true labels, as for `score`; None for a Dataset, or for no accuracy.
            show: what shows records: a function from the position of a top-bag, sub-bag or instance
                in `x` to a text, an SVG or an image array; "image", "numbers", "cloud", "graph" or
                "plain"; a `Renderer`; or None, to choose by `x`.
            include_data: whether to show top-bags and what is in them. Otherwise the page holds
                only rules, figures and definitions of clusters.
            n_cases: number of top-bags to show.
            title: of the page; None for one that names the classes.
            about: sentences to begin with, such as where the data are from.
            trained_on: as for `certify`; of such top-bags, figures are without intervals.

        Raises:
            ValueError: if data or labels do not fit the model, or `show` is no such name.
        """
        check_is_fitted(self, "levels_")
        return report(
            self,
            x,
            y,
            show,
            include_data=include_data,
            n_cases=n_cases,
            title=title,
            about=about,
            trained_on=trained_on,
            text_layer=self._network.text_layer,
        )

    def _repr_html_(self) -> str:
        """For notebooks: the rules and their fidelity; before they are learned, the settings."""
        if not hasattr(self, "levels_"):
            return preformatted(repr(self))
        fidelity = f"{percent(self.fidelity_, 2)}, constant rules {percent(self.majority_, 2)}"
        about = preformatted(f"Explainer: fidelity {fidelity} on validation data")
        return about + self.rules_._repr_html_()

    def _repr_mimebundle_(self, **kwargs: object) -> Config:
        """The same; scikit-learn's own would draw a diagram of the settings."""
        return {"text/plain": repr(self), "text/html": self._repr_html_()}

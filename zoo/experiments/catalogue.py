"""The paper's experiments as data: names, options, epochs and the paper's figures.

Only the standard library is imported: the command line runs this file by itself, so that
`keras-mmil list` does not load TensorFlow.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Entry", "catalogue"]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One experiment of the paper, as `catalogue.toml` lists it.

    Attributes:
        name: of the experiment, and of its results.
        title: one line.
        sources: of the data; the first is the paper's.
        epochs: of the training.
        model: "mmil" or "mil".
        aggregation: of the bag-layers, if experiments differ in it.
        split: how the data are split, or which form is used.
        folds, rounds: of the cross-validation in the paper; 0 for none.
        adversarial: arguments of `training.VirtualAdversarialModel`; None if virtual adversarial
            training is not supported.
        teacher: key of the experiment whose network is trained first, to label unlabelled data
            (pseudo-labels: Lee 2013); "" for none.
        chosen_on: the data that settings were chosen on; "" if not known.
        paper: the paper's figures, fractions by metric.
    """

    name: str
    title: str
    sources: tuple[str, ...]
    epochs: int
    model: str = "mmil"
    aggregation: str = ""
    split: str = ""
    folds: int = 0
    rounds: int = 0
    adversarial: Mapping[str, Any] | None = None
    teacher: str = ""
    chosen_on: str = ""
    paper: Mapping[str, float] = field(default_factory=dict)

    @property
    def model_name(self) -> str:
        """The model and its aggregation, as in the results: "mil", "mmil-max"."""
        return "-".join(filter(None, (self.model, self.aggregation)))

    @property
    def key(self) -> str:
        """Key in the registry: the name, and the options that distinguish it."""
        model = "" if self.model_name == "mmil" else self.model_name
        return "-".join(filter(None, (self.name, model, self.split)))


def catalogue() -> tuple[Entry, ...]:
    """All experiments, grouped by name: tuple of `Entry`."""
    text = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    return tuple(
        Entry(**{**shared, **own, "sources": tuple(shared["sources"])})
        for shared in tomllib.loads(text)["experiments"]
        for own in shared.pop("variants", [{}])
    )

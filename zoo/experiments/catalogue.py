"""The paper's experiments as data: names, options, epochs and the paper's figures.

This module imports nothing but the standard library: the command line runs the file by itself, so
that `keras-mmil list` does not wait for TensorFlow.
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
        title: one line for people.
        sources: where the data can come from; the first is the paper's.
        epochs: of the training.
        model: "mmil" or "mil".
        aggregation: of the bag-layers, where experiments differ in it.
        split: how the data are split, or which form of them is used.
        folds, rounds: of the cross-validation behind the paper's figures; 0 for none.
        adversarial: arguments of `training.VirtualAdversarialModel`, if the experiment can be run
            with virtual adversarial training; else None.
        teacher: key of the experiment whose network is trained first, to label what has no label
            (pseudo-labels: Lee 2013); "" for none.
        chosen_on: the data that the settings were chosen on; "" where that is not known.
        paper: the paper's figures by metric, as fractions.
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
        """Key in the registry: the name, and what distinguishes it from others of that name."""
        model = "" if self.model_name == "mmil" else self.model_name
        return "-".join(filter(None, (self.name, model, self.split)))


def catalogue() -> tuple[Entry, ...]:
    """All experiments, those of a name one after the other: tuple of `Entry`."""
    text = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    return tuple(
        Entry(**{**shared, **own, "sources": tuple(shared["sources"])})
        for shared in tomllib.loads(text)["experiments"]
        for own in shared.pop("variants", [{}])
    )

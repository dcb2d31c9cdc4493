"""What a report says beside a network and its rules, where it is known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from keras_mmil._support.types import Array, Config

__all__ = ["Background", "WhatIf"]

Cell: TypeAlias = str | float | None


@dataclass(frozen=True)
class WhatIf:
    """Rules that read records, and the records of a report.

    Attributes:
        rules: see `RuleBook.on_records`.
        records: from positions of top-bags to records as JSON has them.
    """

    rules: Config
    records: Callable[[Sequence[int]], Sequence[Config]]


@dataclass(frozen=True, kw_only=True, eq=False)
class Background:
    """How a network came about, and what its data are called; each part may be absent.

    Attributes:
        names: what the top-bags are called, [top-bags]; None for their numbers.
        baselines: what simpler models that were fitted to the same data say of the top-bags: from
            the name of each, such as "random forest on aggregates", to its outputs, which are read
            like those of the network, [top-bags, n].
        tried: what was tried: a row for each model, the last that which decides; from what each
            column says to a number, a text, or None.
        advice: sentences on what was tried.
        history: from the names of losses, such as "loss" and "val_loss", to their values by epoch.
        left_out: fields of the data that are not read, and why.
        what_if: how the rules read a record that a reader changes; or why they cannot.
    """

    names: Sequence[str] | None = None
    baselines: Mapping[str, Array] = field(default_factory=dict)
    tried: Sequence[Mapping[str, Cell]] = ()
    advice: Sequence[str] = ()
    history: Mapping[str, Sequence[float]] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)
    what_if: WhatIf | str | None = None

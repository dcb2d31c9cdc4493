"""What is to be known of a trained network before it is used."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from keras_mmil.zoo import _weights

__all__ = ["Card", "card"]

_TEXT = "card.md"


@dataclass(frozen=True, repr=False)
class Card:
    """The card of a pretrained network. Printed, or in a notebook, it is its text.

    Attributes:
        name: of the network.
        text: Markdown: data and their licence, how it was trained, figures with intervals, rules,
            limits, and what not to use it for.
        figures: on the test data, by metric: fractions.
        facts: all that was measured or recorded: a dict, as in `card.json`.
    """

    name: str
    text: str
    figures: Mapping[str, float]
    facts: Mapping[str, Any]

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_markdown_(self) -> str:
        return self.text


def card(name: str) -> Card:
    """The card of a pretrained network.

    Args:
        name: of the network, as of `load`.

    Raises:
        ValueError: if there is no such network, or its card is damaged.

    Example:

    >>> zoo.card("cora")
    """
    folder, facts = _weights.find(name)
    text = (folder / _TEXT).read_text(encoding="utf-8")
    return Card(name=name, text=text, figures=facts["figures"], facts=facts)

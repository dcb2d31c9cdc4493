"""What the service says of a record."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Self

from keras_mmil.rules.explain.explanation import COUNTED, IDLE, Explanation, Part

__all__ = ["Answer", "Answers", "Fired"]


@dataclass(frozen=True)
class Fired:
    """A rule that fired on a part of a record.

    Attributes:
        part: what the part is, such as "orders.items"; of the record itself "record".
        position: its index in its bag, preceded by those of the bags around it; of the record none.
        role: what it does for the rule that fired on what it is in: "decides", "limited" or
            "checked"; null for the record.
        label: what the rule calls it: a class for the record, else a cluster.
        because: the conditions of the rule in words, such as "some items are returned".
    """

    part: str
    position: list[int]
    role: str | None
    label: str
    because: str


@dataclass(frozen=True)
class Answer:
    """What network and rules say of a record.

    Attributes:
        label: the class that the network gives the record.
        probabilities: those of all classes, by the network.
        rules_label: the class that the rules give it.
        agrees: whether these are the same. Where not, the rules below do not explain `label`.
        fired: the rules that fired: on the record, and on the parts that matter for it.
        explanation: the same in words, some lines.
    """

    label: str
    probabilities: dict[str, float]
    rules_label: str
    agrees: bool
    fired: list[Fired]
    explanation: str

    @classmethod
    def of(cls, probabilities: Mapping[str, float], explanation: Explanation) -> Self:
        """What was computed, in a form for JSON."""
        return cls(
            label=explanation.network_name,
            probabilities=dict(probabilities),
            rules_label=explanation.top_bag.name,
            agrees=explanation.agrees,
            fired=list(_fired(explanation.top_bag)),
            explanation=str(explanation),
        )


@dataclass(frozen=True)
class Answers:
    """What network and rules say of some records, in their order."""

    answers: list[Answer]


def _fired(part: Part) -> Iterator[Fired]:
    if part.reason is not None:
        name = part.path or part.word
        yield Fired(name, list(part.position[1:]), part.role, part.name, str(part.reason))
    for child in part.children:
        if child.role not in (COUNTED, IDLE):
            yield from _fired(child)

"""What clusters are, in the names of fields."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

from keras_mmil._support.formatting import percent, share
from keras_mmil._support.types import Array, Config
from keras_mmil.interpretation.rules.columns import Column
from keras_mmil.interpretation.rules.fields import Field
from keras_mmil.interpretation.rules.rule import Condition, equal_to, texts, values_of
from keras_mmil.interpretation.rules.wording import alike, one_of

__all__ = ["Definition"]


@dataclass(frozen=True, eq=False)
class Definition:
    """A short definition of each cluster of some rows by their fields.

    The clusters themselves are those of the nearest centroids; definitions put them into words, as
    well as a few conditions can, and decide nothing. The definitions of different clusters never
    hold together, and one of them holds for every row.

    Attributes:
        fields: of the rows.
        cases: for each cluster the cases in which a row is said to be in it, each given by
            conditions that all have to hold, which are about `columns`. None where no case is.
        table: weights of the validation rows, by the cluster that the definitions say (first
            axis) and the cluster they are in, float64 [k, k].
    """

    fields: tuple[Field, ...]
    cases: tuple[tuple[tuple[Condition, ...], ...], ...]
    table: Array

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """What the conditions are about."""
        return tuple(column for field in self.fields for column in field.columns)

    @property
    def accuracy(self) -> float:
        """Share of the validation rows whose cluster is the one that the definitions say."""
        return share(self.table.trace(), self.table.sum())

    @property
    def majority(self) -> float:
        """Share of the largest cluster in the validation rows: what a constant would reach."""
        return share(self.table.sum(axis=0).max(), self.table.sum())

    def precision(self, cluster: int) -> float:
        """Share of the validation rows that a definition holds for which are in the cluster.

        0 where it holds for none.
        """
        return share(self.table[cluster, cluster], self.table[cluster].sum())

    def recall(self, cluster: int) -> float:
        """Share of the validation rows in a cluster for which its definition holds.

        0 where there are none.
        """
        return share(self.table[cluster, cluster], self.table[:, cluster].sum())

    def text(self, cluster: int) -> str | None:
        """The definition of a cluster, such as "price > 12.5 and returned"; None if it has none."""
        cases = self.cases[cluster]
        found = []
        for group, varying in alike(cases, lambda each: equal_to(each, self.columns)):
            case = cases[group[0]]
            parts = texts([each for each in case if each != varying], self.columns)
            if varying is not None:
                compared = (each for i in group for each in cases[i])
                values = [self.columns[c.column] for c in compared if equal_to(c, self.columns)]
                name = self.columns[varying.column].name
                parts.append(f"{name} is one of {one_of(values_of(values))}")
            found.append(" and ".join(parts) or "anything")
        return ", or ".join(found) or None

    def summary(self, cluster: int) -> str:
        """The definition of a cluster with its precision and recall, or that there is none."""
        text = self.text(cluster)
        if text is None:
            return "no short definition"
        precision, recall = percent(self.precision(cluster)), percent(self.recall(cluster))
        return f"{text} (precision {precision}, recall {recall})"

    @property
    def figures(self) -> str:
        """The accuracy of all definitions together, beside the majority share."""
        return f"accuracy {percent(self.accuracy)} (majority {percent(self.majority)})"

    def lines(self, words: str, names: Sequence[str], shown: Sequence[bool]) -> Iterator[str]:
        """A line for each cluster that is to be shown, if there are any, below their accuracy.

        Args:
            words: what several rows are called.
            names: of the clusters.
            shown: whether to show each.
        """
        if not any(shown):
            return
        yield f"     definitions of {words}: {self.figures}"
        width = max(len(name) for name, here in zip(names, shown, strict=True) if here)
        for cluster, (name, here) in enumerate(zip(names, shown, strict=True)):
            if here:
                yield f"     {name + ':':<{width + 1}} {self.summary(cluster)}"

    def to_dict(self, names: Sequence[str]) -> Config:
        """As JSON knows it.

        Args:
            names: of the clusters.
        """
        return {
            "accuracy": self.accuracy,
            "majority": self.majority,
            "columns": list(map(asdict, self.columns)),
            "clusters": [
                {
                    "cluster": name,
                    "text": self.text(cluster),
                    "cases": [[each.to_dict() for each in case] for case in self.cases[cluster]],
                    "precision": self.precision(cluster),
                    "recall": self.recall(cluster),
                }
                for cluster, name in enumerate(names)
            ],
        }

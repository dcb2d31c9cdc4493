"""Where rules look: a tree from the records at the top down to what is in them, with counts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from keras_mmil._support.types import Config
from keras_mmil.rules.explain.reading import Reading
from keras_mmil.rules.export.program import program
from keras_mmil.rules.export.sentences import definitions
from keras_mmil.rules.network.nesting import expand
from keras_mmil.rules.trees.columns import Column
from keras_mmil.rules.trees.level import Clusters, Level, all_clusters

__all__ = ["diagram"]


def diagram(levels: Sequence[Level], reading: Reading) -> Config:
    """The tree of some top-bags, for JSON.

    Each part, first the top-bags, is a dict:

    name: what it is called in the part that holds it.
    n: number of such records.
    conditions: those of the rules of top-bags that are about it, each with its text, the numbers of
        its rules, and for how many top-bags it holds.
    clusters: those that rules need, each with its key, name, definition, and number of records.
    parts: what is in it.
    """
    return _Tree(tuple(levels), reading).top()


@dataclass(frozen=True)
class _Tree:
    levels: tuple[Level, ...]
    reading: Reading

    def top(self) -> Config:
        top, n = self.levels[-1], len(self.reading.network)
        clusters = all_clusters(self.levels)
        occurrences = expand(self.reading.nestings, self.reading.parents)
        needed = {
            bag.level: here
            for level in self.levels
            for bag, here in zip(level.clusters, level.needed, strict=True)
        }
        texts = definitions(program(self.levels))
        of = self._conditions(clusters)

        def part(bag: Clusters) -> Config:
            here = occurrences[bag.level]
            counts = np.bincount(
                self.reading.labels[bag.level][here.rows],
                here.total_weights,
                minlength=bag.n_clusters,
            )
            return {
                "name": bag.members or bag.words,
                "n": round(float(here.total_weights.sum())),
                "conditions": of.get(bag.level, []),
                "clusters": [
                    {
                        "key": f"{bag.level}.{index}",
                        "name": name,
                        "definition": texts.get((bag.level, index), ""),
                        "n": round(float(counts[index])),
                    }
                    for index, name in enumerate(bag.names)
                    if needed[bag.level][index]
                ],
                "parts": parts(bag.level),
            }

        def parts(record: int) -> list[Config]:
            return [part(bag) for bag in clusters if self.reading.parents[bag.level] == record]

        return {
            "name": top.words,
            "n": n,
            "conditions": of.get(top.record, []),
            "clusters": [],
            "parts": parts(top.record),
        }

    def _conditions(self, clusters: Sequence[Clusters]) -> Mapping[int, list[Config]]:
        """The conditions of the rules of top-bags, by what they are about: see `_about`."""
        top = self.levels[-1]
        known = self.reading.of_record(top)
        bag_of = {
            column: bag for bag, at in top.space.of_bags for column in range(at.start, at.stop)
        }
        found: dict[str, Config] = {}
        about: dict[str, int] = {}
        for number, rule in enumerate(top.rules, 1):
            for condition in rule.conditions:
                column = top.rules.columns[condition.column]
                bag = bag_of.get(condition.column)
                if bag is None:
                    layer = _about(column, clusters, top.record)
                else:  # in words also where the data have none
                    layer, column = bag.level, replace(column, bag=bag.words)
                text = column.text(condition.low, condition.high)
                about[text] = layer
                n = int(condition.holds(known).sum())
                one = found.setdefault(text, {"text": text, "rules": [], "n": n})
                one["rules"].append(number)
        result: dict[int, list[Config]] = {}
        for text, one in found.items():
            result.setdefault(about[text], []).append(one)
        return result


def _about(column: Column, clusters: Sequence[Clusters], top: int) -> int:
    """The bag-layer whose rows a statistic summarises, the innermost; `top` for other columns."""
    bags = [bag for bag in clusters if column.summarizes(bag.path)]
    return max(bags, key=lambda bag: len(bag.path)).level if bags else top

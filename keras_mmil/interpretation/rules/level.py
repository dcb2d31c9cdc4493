"""One level of a fitted explainer."""

from dataclasses import dataclass, replace

import numpy as np

from keras_mmil._support.checks import is_int
from keras_mmil._support.percent import percent
from keras_mmil.interpretation.rules.features import Feature, bag_features
from keras_mmil.interpretation.rules.rules import RuleSet, left_out
from keras_mmil.interpretation.rules.tree import Tree

__all__ = [
    "Level",
    "find_cluster",
    "find_level",
    "level_symbol",
    "level_word",
    "listing",
    "rename",
]

_SYMBOLS = "uvwxyz"


def level_symbol(level):
    """What the clusters of a level are named after: u, v, w, x, y, z, s6_, s7_ and so on."""
    return _SYMBOLS[level] if level < len(_SYMBOLS) else f"s{level}_"


def level_word(level, n_levels):
    """What the rows of a level are called."""
    if level == n_levels:
        return "top-bag"
    return ("instance", "sub-bag")[level] if level < 2 else f"level-{level} bag"


@dataclass(frozen=True, eq=False)
class Level:
    """The clusters of one level, and the rules from them to the labels of the bags above.

    Attributes:
        word: what its rows are called: "instance", "sub-bag", ...
        bag_word: what its bags are called: "sub-bag", ..., "top-bag".
        projection: matrix that rows are multiplied by before they are clustered, float32 [units,
            directions]; None where they are clustered as they are.
        centroids: float32 [k, units], or [k, directions].
        sizes: fraction of the training rows in each cluster, [k].
        feature: the `Feature` that describes a bag.
        tree: maps the features of a bag to its label.
        rules: the same as a `RuleSet`.
    """

    word: str
    bag_word: str
    projection: np.ndarray | None
    centroids: np.ndarray
    sizes: np.ndarray
    feature: Feature
    tree: Tree
    rules: RuleSet

    @property
    def n_clusters(self):
        """k."""
        return len(self.centroids)

    @property
    def names(self):
        """Names of the clusters."""
        return self.rules.member_names

    @property
    def needed(self):
        """Which clusters some needed rule has a condition on."""
        return self.rules.needed_members

    def lines(self, all=False):
        """The shares of the clusters, and the rules, of those that are needed or of all."""
        shares = ", ".join(
            f"{name} {percent(size)}" + ("" if needed else " (not needed)")
            for name, size, needed in zip(self.names, self.sizes, self.needed, strict=True)
            if all or needed
        )
        heading = f"{self.bag_word}s, by their {self.word}s: {shares or 'none is needed'}"
        return [heading, *self.rules.lines(all)]

    def text(self, all=False):
        """What is needed of the level, and how much is not; or all of it."""
        return listing((self,), all)

    def __str__(self):
        return self.text()

    def bags(self, labels, nesting):
        """The features of the bags of labelled rows: float32 [bags, k]."""
        return bag_features(self.feature, labels, self.n_clusters, nesting)


def listing(levels, all=False):
    """Levels as text.

    Args:
        levels: tuple of `Level`, from the instances upwards.
        all: whether to show also the clusters that no needed rule has a condition on, and the rules
            that conclude them; else a line says how many these are.

    Returns:
        str. Levels whose rules are constant are named first; levels without a needed rule are left
        out.
    """
    found = [(level.bag_word, level.rules.constant) for level in levels]
    constant = [
        f"# CONSTANT: the rules put every {word} into one class, {name!r}."
        for word, name in found
        if name is not None
    ]
    blocks = [constant, *(level.lines(all) for level in levels if all or level.rules.n_needed)]
    if not all:
        n_rules = sum(len(level.rules) - level.rules.n_needed for level in levels)
        n_clusters = sum(level.n_clusters - sum(level.needed) for level in levels)
        blocks.append(left_out(n_rules, n_clusters))
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def find_level(levels, level):
    """The index of a level given by index or symbol.

    Raises:
        ValueError: if there is none.
    """
    symbols = [level_symbol(index) for index in range(len(levels))]
    if level in symbols:
        return symbols.index(level)
    if not is_int(level) or not 0 <= level < len(levels):
        raise ValueError(
            f"Expected a level from 0 to {len(levels) - 1}, or one of {symbols}. "
            f"Received: level={level!r}"
        )
    return int(level)


def find_cluster(level, cluster):
    """The index of a cluster of a `Level` given by index or name.

    Raises:
        ValueError: if there is none.
    """
    if cluster in level.names:
        return level.names.index(cluster)
    if not is_int(cluster) or not 0 <= cluster < level.n_clusters:
        raise ValueError(
            f"Expected a cluster from 0 to {level.n_clusters - 1}, or one of {level.names}. "
            f"Received: cluster={cluster!r}"
        )
    return int(cluster)


def rename(levels, level, changes):
    """The levels with other names for some clusters of one: a dict from clusters to names.

    Raises:
        ValueError: if two clusters would share a name, or one would have none.
    """
    levels = list(levels)
    here = levels[level]
    changes = {find_cluster(here, cluster): name for cluster, name in changes.items()}
    names = tuple(changes.get(cluster, name) for cluster, name in enumerate(here.names))
    if len(set(names)) < len(names) or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"Expected a name of its own for each cluster. Received: names={names}")
    levels[level] = replace(here, rules=replace(here.rules, member_names=names))
    if level:
        below = levels[level - 1]
        levels[level - 1] = replace(below, rules=replace(below.rules, names=names))
    return tuple(levels)

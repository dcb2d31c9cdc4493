"""One level of a fitted explainer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from keras_mmil._support.checks import is_int
from keras_mmil._support.percent import percent
from keras_mmil._support.types import Array, Ints
from keras_mmil.interpretation.rules.features import Feature, Members, bag_features
from keras_mmil.interpretation.rules.rule_set import RuleSet, left_out
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


def level_symbol(level: int) -> str:
    """What the names of its clusters begin with: u, v, w, x, y, z, s6_, s7_ and so on."""
    return _SYMBOLS[level] if level < len(_SYMBOLS) else f"s{level}_"


def level_word(level: int, n_levels: int) -> str:
    """What the rows of a level are called."""
    if level == n_levels:
        return "top-bag"
    return ("instance", "sub-bag")[level] if level < 2 else f"level-{level} bag"


@dataclass(frozen=True, eq=False, kw_only=True)
class Level:
    """The clusters of one level, and the rules from them to the labels of the bags above.

    Attributes:
        word: what its rows are called: "instance", "sub-bag", ...
        bag_word: what its bags are called: "sub-bag", ..., "top-bag".
        projection: matrix that rows are multiplied by before they are clustered, float32 [units,
            directions]; None where they are clustered as they are.
        centroids: float32 [k, units], or [k, directions].
        sizes: fraction of the training rows in each cluster, [k].
        feature: what describes a bag.
        tree: maps the features of a bag to its label.
        rules: the same as a `RuleSet`.
    """

    word: str
    bag_word: str
    projection: Array | None
    centroids: Array
    sizes: Array
    feature: Feature
    tree: Tree
    rules: RuleSet

    @property
    def n_clusters(self) -> int:
        """k."""
        return len(self.centroids)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the clusters."""
        return self.rules.member_names

    @property
    def needed(self) -> tuple[bool, ...]:
        """Which clusters the class of any top-bag can depend on; see `RuleSet`."""
        return self.rules.needed_members

    def lines(self, all: bool = False) -> list[str]:
        """The shares of clusters, and the rules: of those that are needed, or of all."""
        shares = ", ".join(
            f"{name} {percent(size)}" + ("" if needed else " (not used)")
            for name, size, needed in zip(self.names, self.sizes, self.needed, strict=True)
            if all or needed
        )
        heading = f"{self.bag_word}s, by their {self.word}s: {shares or 'none is needed'}"
        return [heading, *self.rules.lines(all)]

    def text(self, all: bool = False) -> str:
        """The clusters and rules that are needed, and the number of others; or all."""
        return listing((self,), all)

    def __str__(self) -> str:
        return self.text()

    def bags(self, labels: Ints, nesting: Members) -> Array:
        """The features of the bags of labelled rows: float32 [bags, k]."""
        return bag_features(self.feature, labels, self.n_clusters, nesting)


def listing(levels: Sequence[Level], all: bool = False) -> str:
    """Levels as text.

    Args:
        levels: from the instances upwards.
        all: whether to list also the clusters and rules that no class of top-bags depends on;
            otherwise the last line gives their number.

    Returns:
        Text. Levels whose rules are constant are named first; levels without a needed rule are left
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


def find_level(levels: Sequence[Level], level: int | str) -> int:
    """The index of a level given by index or symbol.

    Raises:
        ValueError: if there is none.
    """
    symbols = [level_symbol(index) for index in range(len(levels))]
    if isinstance(level, str) and level in symbols:
        return symbols.index(level)
    if isinstance(level, str) or not is_int(level) or not 0 <= level < len(levels):
        raise ValueError(
            f"Expected a level from 0 to {len(levels) - 1}, or one of {symbols}. "
            f"Received: level={level!r}"
        )
    return int(level)


def find_cluster(level: Level, cluster: int | str) -> int:
    """The index of a cluster of a `Level` given by index or name.

    Raises:
        ValueError: if there is none.
    """
    if isinstance(cluster, str) and cluster in level.names:
        return level.names.index(cluster)
    if isinstance(cluster, str) or not is_int(cluster) or not 0 <= cluster < level.n_clusters:
        raise ValueError(
            f"Expected a cluster from 0 to {level.n_clusters - 1}, or one of {level.names}. "
            f"Received: cluster={cluster!r}"
        )
    return int(cluster)


def rename(
    levels: Sequence[Level], level: int, changes: Mapping[int, str] | Mapping[str, str]
) -> tuple[Level, ...]:
    """The levels with other names for some clusters of one.

    Args:
        levels: from the instances upwards.
        level: index of the level.
        changes: dict from clusters, by index or name, to new names.

    Raises:
        ValueError: if two clusters would share a name, or one would have none.
    """
    levels = list(levels)
    here = levels[level]
    found = {find_cluster(here, cluster): name for cluster, name in changes.items()}
    names = tuple(found.get(cluster, name) for cluster, name in enumerate(here.names))
    if len(set(names)) < len(names) or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"Expected a name of its own for each cluster. Received: names={names}")
    levels[level] = replace(here, rules=replace(here.rules, member_names=names))
    if level:
        below = levels[level - 1]
        levels[level - 1] = replace(below, rules=replace(below.rules, names=names))
    return tuple(levels)

"""One level of a fitted explainer."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from keras_mmil._support.checks import is_int
from keras_mmil._support.formatting import percent
from keras_mmil._support.types import Array
from keras_mmil.rules.trees.features import Bag, Space
from keras_mmil.rules.trees.rule_set import Definition, RuleSet, left_out
from keras_mmil.rules.trees.tree import Tree

__all__ = [
    "Clusters",
    "Level",
    "all_clusters",
    "call",
    "exemplify",
    "find_cluster",
    "find_clusters",
    "is_symbol",
    "level_symbol",
    "level_word",
    "listing",
    "rename",
    "titled",
    "titles",
    "unseen",
]

_SYMBOLS = "uvwxyz"
_SYMBOL = re.compile("([a-z]|s[0-9]+_)[0-9]+")


def level_symbol(level: int) -> str:
    """What the names of its clusters begin with: u, v, w, x, y, z, s6_, s7_ and so on."""
    return _SYMBOLS[level] if level < len(_SYMBOLS) else f"s{level}_"


def is_symbol(name: str) -> bool:
    """Whether a cluster has such a name, and not one that a user gave it."""
    return _SYMBOL.fullmatch(name) is not None


def level_word(level: int, n_levels: int) -> str:
    """What the rows of a level are called, in a chain of bag-layers."""
    if level == n_levels:
        return "top-bag"
    return ("instance", "sub-bag")[level] if level < 2 else f"level-{level} bag"


@dataclass(frozen=True, eq=False, kw_only=True)
class Clusters(Bag):
    """The clusters of the rows of one bag-layer.

    Attributes:
        level, feature, names, members: see `Bag`.
        path: what the rows are called in the data, such as "orders.items"; empty where they have no
            name.
        word: what one of the rows is called: "instance", "sub-bag", ..., or as in `members`.
        projection: matrix by which rows are multiplied before clustering, float32 [units,
            directions]; None for none.
        centroids: float32 [k, units], or [k, directions].
        sizes: fraction of the training rows in each cluster, [k]; 0 where there were no rows.
        definition: of the clusters by fields; None where rows have no named fields, or where rules
            on these say exactly which cluster a row is in.
        examples: for each cluster texts that represent it, the best first; empty where rows cannot
            be told in a few words.
    """

    path: str = ""
    word: str
    projection: Array | None
    centroids: Array
    sizes: Array
    definition: Definition | None = None
    examples: tuple[tuple[str, ...], ...] = ()

    @property
    def n_clusters(self) -> int:
        """k."""
        return len(self.centroids)

    @property
    def words(self) -> str:
        """What several rows are called."""
        return self.members or f"{self.word}s"


@dataclass(frozen=True, eq=False, kw_only=True)
class Level:
    """The rules that label one kind of records: the rows of a bag-layer, or the top-bags.

    Attributes:
        record: index of the bag-layer whose rows these are; the number of bag-layers for top-bags.
        word: what one of the records is called: "instance", "sub-bag", ..., "top-bag"; where they
            have a path, what several are called in the record that holds them.
        path: what they are called in the data; empty where they have no name.
        space: what is known of a record: the clusters of the members of its bags, and its fields.
        tree: maps that to its label.
        rules: the same as a `RuleSet`.
        leaves: for each leaf of the tree, in the order of its nodes, the fraction of the training
            records that reach it, and of these the fraction that the network labels likewise; empty
            where that is unknown.
    """

    record: int
    word: str
    path: str = ""
    space: Space[Clusters]
    tree: Tree
    rules: RuleSet
    leaves: tuple[tuple[float, float], ...] = ()

    @property
    def clusters(self) -> tuple[Clusters, ...]:
        """The clusters of the members of each of its bags."""
        return self.space.bags

    @property
    def words(self) -> str:
        """What several of its records are called."""
        return self.word if self.path else f"{self.word}s"

    @property
    def needed(self) -> tuple[tuple[bool, ...], ...]:
        """For each bag, which clusters the class of any top-bag can depend on; see `RuleSet`."""
        columns = self.rules.needed_columns
        return tuple(columns[at] for _, at in self.space.of_bags)

    def lines(self, all: bool = False) -> list[str]:
        """The shares and definitions of clusters, and the rules: those needed, or all."""
        definitions = [
            line
            for bag, needed in zip(self.clusters, self.needed, strict=True)
            if bag.definition is not None
            for line in bag.definition.lines(bag.words, bag.names, [all or here for here in needed])
        ]
        return [self._heading(all), *definitions, *self.rules.lines(all)]

    def text(self, all: bool = False) -> str:
        """The clusters and rules that are needed, and the number of others; or all."""
        return listing((self,), all)

    def __str__(self) -> str:
        return self.text()

    def _heading(self, all: bool) -> str:
        seen = []
        for bag, needed in zip(self.clusters, self.needed, strict=True):
            shares = ", ".join(
                f"{name} {percent(size)}" + ("" if here else " (not used)")
                for name, size, here in zip(bag.names, bag.sizes, needed, strict=True)
                if all or here
            )
            seen.append(f"{bag.words}: {shares or 'none is needed'}")
        if self.space.fields:
            seen.append("fields")
        return f"{self.words}, by their {'; by their '.join(seen)}"


def listing(levels: Sequence[Level], all: bool = False) -> str:
    """Levels as text, from the instances upwards; `all` includes what no class depends on.

    Parts that no training record has are named first, then levels whose rules are needed but
    constant. Constant rules are no finding and are left out, like levels without a needed rule.
    Unless `all`, the last line gives the number of clusters and rules that are left out.
    """
    result = [(level, level.rules.constant) for level in levels]
    constant = [
        f"# CONSTANT: the rules put every {level.word} into one class, {name!r}. "
        "They find nothing that tells classes apart."
        for level, name in result
        # Levels that decide nothing are constant, and so are bags that only have to be present.
        if name is not None and not level.path and level.rules.n_needed
    ]
    names = unseen(levels)
    without = [f"# LEFT OUT, as no training record has any: {', '.join(names)}."] if names else []
    blocks = [without, constant]
    for level, name in result:
        is_constant = name is not None and not level.path
        if all or (level.rules.n_needed and not is_constant):
            blocks.append(level.lines(all))
    if not all:
        n_rules = sum(len(level.rules) - level.rules.n_needed for level in levels)
        n_clusters = sum(needed.count(False) for level in levels for needed in level.needed)
        blocks.append(left_out(n_rules, n_clusters))
    return "\n\n".join("\n".join(lines) for lines in blocks if lines)


def all_clusters(levels: Sequence[Level]) -> tuple[Clusters, ...]:
    """The clusters of each bag-layer, in order."""
    result = (clusters for level in levels for clusters in level.clusters)
    return tuple(sorted(result, key=lambda clusters: clusters.level))


def titles(clusters: Sequence[Clusters]) -> list[str]:
    """Different names for the rows of each bag-layer.

    "instance", "sub-bag", ..., or their path; where two bag-layers share that, with the symbol of
    their clusters.
    """
    names = [each.path or each.word for each in clusters]
    return [
        f"{title} ({level_symbol(each.level)})" if names.count(title) > 1 else title
        for title, each in zip(names, clusters, strict=True)
    ]


def titled(levels: Sequence[Level]) -> list[tuple[str, Clusters, tuple[bool, ...]]]:
    """For each bag-layer the title of its rows, their clusters, and which of these are needed."""
    needed = {
        bag.level: here
        for level in levels
        for bag, here in zip(level.clusters, level.needed, strict=True)
    }
    clusters = all_clusters(levels)
    return [
        (title, each, needed[each.level])
        for title, each in zip(titles(clusters), clusters, strict=True)
    ]


def unseen(levels: Sequence[Level]) -> list[str]:
    """The titles of the bag-layers for which no training record has rows."""
    result = all_clusters(levels)
    return [
        title for title, each in zip(titles(result), result, strict=True) if not each.sizes.any()
    ]


def find_clusters(levels: Sequence[Level], level: int | str) -> Clusters:
    """The clusters of a bag-layer, by its index, its symbol, or the path of its rows.

    Raises:
        ValueError: if there is no such bag-layer.
    """
    clusters = all_clusters(levels)
    names = [level_symbol(each.level) for each in clusters]
    names += [each.path for each in clusters if each.path]
    if isinstance(level, str) and level in names:
        return clusters[names.index(level) % len(clusters)]
    if isinstance(level, str) or not is_int(level) or not 0 <= level < len(clusters):
        raise ValueError(
            f"Expected a level from 0 to {len(clusters) - 1}, or one of {names}. "
            f"Received: level={level!r}"
        )
    return clusters[int(level)]


def find_cluster(clusters: Clusters, cluster: int | str) -> int:
    """The index of a cluster, by index or name.

    Raises:
        ValueError: if there is no such cluster.
    """
    if isinstance(cluster, str) and cluster in clusters.names:
        return clusters.names.index(cluster)
    if isinstance(cluster, str) or not is_int(cluster) or not 0 <= cluster < clusters.n_clusters:
        raise ValueError(
            f"Expected a cluster from 0 to {clusters.n_clusters - 1}, or one of {clusters.names}. "
            f"Received: cluster={cluster!r}"
        )
    return int(cluster)


def call(levels: Sequence[Level], level: int | str, word: str) -> tuple[Level, ...]:
    """The levels with another word for one of the rows of a bag-layer, or of the top-bags.

    Raises:
        ValueError: if there is no such level, if it has a name in the data, or for an empty word.
    """
    top = levels[-1].record
    record = top if is_int(level) and level == top else find_clusters(levels, level).level
    if record < top and all_clusters(levels)[record].path:
        path = all_clusters(levels)[record].path
        raise ValueError(f"Expected the data's name {path!r} to stay. Received: word={word!r}")
    if not isinstance(word, str) or not word:
        raise ValueError(f"Expected a word. Received: word={word!r}")
    result = []
    for each in levels:
        bags = tuple(
            replace(bag, word=word) if bag.level == record else bag for bag in each.clusters
        )
        own = word if each.record == record else each.word
        result.append(replace(each, word=own, space=replace(each.space, bags=bags)))
    return tuple(result)


def exemplify(
    levels: Sequence[Level], layer: int, examples: tuple[tuple[str, ...], ...]
) -> tuple[Level, ...]:
    """The levels with other `Clusters.examples` for the rows of a bag-layer."""

    def changed(level: Level) -> Level:
        bags = tuple(
            replace(bag, examples=examples) if bag.level == layer else bag for bag in level.clusters
        )
        return replace(level, space=replace(level.space, bags=bags))

    return tuple(map(changed, levels))


def rename(
    levels: Sequence[Level], level: int | str, changes: Mapping[int, str] | Mapping[str, str]
) -> tuple[Level, ...]:
    """The levels with other names for some clusters of one bag-layer, see `find_clusters`.

    `changes` maps clusters, by index or name, to new names.

    Raises:
        ValueError: if two clusters would have the same name, or one an empty name.
    """
    renamed = find_clusters(levels, level)
    result = {find_cluster(renamed, cluster): name for cluster, name in changes.items()}
    names = tuple(result.get(cluster, name) for cluster, name in enumerate(renamed.names))
    if len(set(names)) < len(names) or not all(isinstance(name, str) and name for name in names):
        raise ValueError(f"Expected a name of its own for each cluster. Received: names={names}")
    return tuple(_renamed(each, renamed.level, names) for each in levels)


def _renamed(level: Level, layer: int, names: tuple[str, ...]) -> Level:
    bags = tuple(replace(bag, names=names) if bag.level == layer else bag for bag in level.clusters)
    space = replace(level.space, bags=bags)
    conclusions = names if level.record == layer else level.rules.names
    rules = replace(level.rules, columns=space.columns, names=conclusions)
    return replace(level, space=space, rules=rules)

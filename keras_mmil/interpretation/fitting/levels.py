"""The levels of an explainer, made of the combination of numbers of clusters that was chosen."""

from collections.abc import Iterator, Sequence

import numpy as np

from keras_mmil._support.types import Array
from keras_mmil.interpretation.fitting.label import LabelledBags
from keras_mmil.interpretation.fitting.search import merge, tally
from keras_mmil.interpretation.network.nesting import clustered_weights, multiplicities
from keras_mmil.interpretation.rules.features import Feature, bag_features
from keras_mmil.interpretation.rules.learn import learn_rules
from keras_mmil.interpretation.rules.level import Level, level_symbol, level_word
from keras_mmil.interpretation.rules.rule_set import RuleSet
from keras_mmil.interpretation.rules.tree import Examples, Tree

__all__ = ["make_levels"]


def make_levels(
    train: LabelledBags,
    *,
    features: Sequence[Feature],
    projections: Sequence[Array | None],
    centroids: Sequence[Array],
    trees: Sequence[Tree],
    class_names: tuple[str, ...],
) -> tuple[Level, ...]:
    """Make the levels, with their rules. All arguments but two have one entry for each level.

    Args:
        train: the training data, labelled by these centroids only.
        features: what describes the bags.
        projections: what the rows were multiplied by, or None.
        centroids: of the clusters, float32 [k, directions].
        trees: from the features of bags to their labels.
        class_names: names of the classes of top-bags.

    Returns:
        The levels, from the instances upwards.
    """
    n_levels, counts = len(features), [len(each) for each in centroids]
    names = [tuple(_cluster_names(i, k)) for i, k in enumerate(counts)] + [class_names]
    examples = _examples(train, counts, features, trees)
    weights = clustered_weights(train.nestings)
    needed: tuple[bool, ...] = (True,) * len(class_names)
    levels: list[Level] = []
    for i in reversed(range(n_levels)):
        k = counts[i]
        learned = learn_rules(trees[i], features[i], level=i, examples=examples[i])
        rules = RuleSet(learned, member_names=names[i], names=names[i + 1], needed=needed)
        level = Level(
            word=level_word(i, n_levels),
            bag_word=level_word(i + 1, n_levels),
            projection=projections[i],
            centroids=centroids[i],
            sizes=np.bincount(train.labels[i][k], weights[i], minlength=k) / weights[i].sum(),
            feature=features[i],
            tree=trees[i],
            rules=rules,
        )
        levels.insert(0, level)
        needed = rules.needed_members
    return tuple(levels)


def _cluster_names(level: int, k: int) -> Iterator[str]:
    return (f"{level_symbol(level)}{cluster + 1}" for cluster in range(k))


def _examples(
    train: LabelledBags, counts: Sequence[int], features: Sequence[Feature], trees: Sequence[Tree]
) -> list[Examples]:
    """What each tree has learned from: bags whose members the rules below have labelled."""
    wanted = [known[k] for known, k in zip(train.labels, counts, strict=True)] + [train.classes]
    weights = multiplicities(train.nestings)
    labels, examples = wanted[0], []
    for i, tree in enumerate(trees):
        bags = bag_features(features[i], labels, counts[i], train.nestings[i])
        examples.append(tally(*merge(bags), wanted[i + 1], weights[i + 1]))
        labels = tree.predict(bags)
    return examples

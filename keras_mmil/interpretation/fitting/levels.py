"""The levels of an explainer, made of the combination of numbers of clusters that was chosen."""

from collections.abc import Sequence

import numpy as np

from keras_mmil._support.types import Array
from keras_mmil.interpretation.fitting.label import LabelledBags
from keras_mmil.interpretation.fitting.plan import Plan
from keras_mmil.interpretation.fitting.search import Trees, merge, tally
from keras_mmil.interpretation.network.nesting import clustered_weights
from keras_mmil.interpretation.rules.features import Space
from keras_mmil.interpretation.rules.learn import learn_rules
from keras_mmil.interpretation.rules.level import Clusters, Level, level_symbol, level_word
from keras_mmil.interpretation.rules.rule_set import RuleSet
from keras_mmil.interpretation.rules.tree import Examples

__all__ = ["make_levels"]


def make_levels(
    train: LabelledBags,
    plan: Plan,
    *,
    projections: Sequence[Array | None],
    centroids: Sequence[Array],
    trees: Trees,
    class_names: tuple[str, ...],
) -> tuple[Level, ...]:
    """Make the levels, with their rules.

    Args:
        train: the training data, labelled by these centroids.
        plan: which trees there are.
        projections: what the rows of each bag-layer were multiplied by, or None.
        centroids: of the clusters of these rows, float32 [k, directions].
        trees: from what is known of records to their labels.
        class_names: names of the classes of top-bags.

    Returns:
        The levels, from the instances upwards.
    """
    top, counts = len(plan.parents), tuple(map(len, centroids))
    names = [_cluster_names(i, k) for i, k in enumerate(counts)] + [class_names]
    examples = _examples(train, plan, counts, trees)
    clusters = _clusters(train, plan, centroids, projections)
    needed: dict[int, tuple[bool, ...]] = {top: (True,) * len(class_names)}
    levels: list[Level] = []
    for index, record in reversed(list(enumerate(plan.records))):
        space = Space(tuple(clusters[i] for i in plan.bags_of(record)), plan.fields[record])
        learned = learn_rules(trees[index], space, level=index, examples=examples[index])
        level = Level(
            record=record,
            word=_word(plan, record),
            path=plan.paths[record] if record < len(plan.paths) else "",
            space=space,
            tree=trees[index],
            rules=RuleSet(
                learned, columns=space.columns, names=names[record], needed=needed[record]
            ),
        )
        levels.insert(0, level)
        here = zip(level.clusters, level.needed, strict=True)
        needed |= {bag.level: of_clusters for bag, of_clusters in here}
    return tuple(levels)


def _clusters(
    train: LabelledBags,
    plan: Plan,
    centroids: Sequence[Array],
    projections: Sequence[Array | None],
) -> list[Clusters]:
    """The clusters of the rows of each bag-layer."""
    weights = clustered_weights(train.nestings, plan.parents, list(map(bool, plan.fields)))
    found = []
    for i, (points, weight) in enumerate(zip(centroids, weights, strict=True)):
        k = len(points)
        clusters = Clusters(
            level=i,
            feature=plan.features[i],
            names=_cluster_names(i, k),
            members=plan.names[i],
            path=plan.paths[i],
            word=_word(plan, i),
            projection=projections[i],
            centroids=points,
            sizes=np.bincount(train.labels[i][k], weight, minlength=k) / (weight.sum() or 1.0),
        )
        found.append(clusters)
    return found


def _cluster_names(level: int, k: int) -> tuple[str, ...]:
    return tuple(f"{level_symbol(level)}{cluster + 1}" for cluster in range(k))


def _word(plan: Plan, record: int) -> str:
    """What one record of a kind is called."""
    if plan.paths and not any(plan.paths):
        return level_word(record, len(plan.parents))
    return plan.names[record] if record < len(plan.names) else "record"


def _examples(
    train: LabelledBags, plan: Plan, counts: tuple[int, ...], trees: Trees
) -> list[Examples]:
    """What each tree has learned from: records in which the rules below have labelled all."""
    labels = train.nearest(counts)
    examples = []
    for record, tree in zip(plan.records, trees, strict=True):
        known = plan.matrix(train, record, labels, counts)
        targets = train.targets(record, counts)
        examples.append(tally(*merge(known), targets, plan.weights[record]))
        if record < len(labels):
            labels[record] = tree.predict(known)
    return examples

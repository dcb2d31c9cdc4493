"""Levels of rules without a network behind them."""

import numpy as np

from keras_mmil.rules.trees.features import OCCURRENCE, Space
from keras_mmil.rules.trees.level import Clusters, Level
from keras_mmil.rules.trees.rule_set import Rule, RuleSet


def clusters(level=0, feature=OCCURRENCE, path="", word="instance", names=("u1", "u2")):
    return Clusters(
        level=level,
        feature=feature,
        names=names,
        path=path,
        members=path,
        word=word,
        projection=None,
        centroids=np.zeros((len(names), 2)),
        sizes=np.full(len(names), 1 / len(names)),
    )


def top_level(conditions, bags=(), fields=(), record=1, word="top-bag"):
    """A level of one rule for each tuple of conditions."""
    space = Space(bags, fields)
    rules = tuple(
        Rule(0, i, each, support=0.5, precision=1.0, coverage=1.0)
        for i, each in enumerate(conditions)
    )
    names = tuple(f"class {i}" for i in range(len(conditions)))
    rules = RuleSet(rules, space.columns, names, (True,) * len(names))
    return Level(record=record, word=word, space=space, tree=None, rules=rules)

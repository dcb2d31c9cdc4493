"""Rules in words."""

from dataclasses import replace

import numpy as np
import pytest
from levels import clusters, top_level

from keras_mmil.interpretation.export.rule_book import RuleBook
from keras_mmil.interpretation.rules.features import COUNT, FREQUENCY, OCCURRENCE, WEIGHT
from keras_mmil.interpretation.rules.rule import Condition


def test_the_sentence_of_the_paper(digit_explainer):
    three, two = (
        next(c for c, x in enumerate(digit_explainer.clusters_[0].centroids) if x.argmax() == unit)
        for unit in (3, 2)
    )
    levels = digit_explainer.levels_
    digit_explainer.rename(0, {three: "7", two: "3"})
    words = digit_explainer.rules_.in_words()
    digit_explainer.levels_ = levels
    assert "positive if at least one sub-bag holds a 7 and no 3" in words
    (name,) = {c.name for c in digit_explainer.levels_[1].rules.columns} & set(
        str(words).replace(":", "").replace("'", "").split()
    )
    assert f"negative if no sub-bag is {name}" in words
    assert words[-1] == f"{name}: a sub-bag that holds a 7 and no 3"


def test_records(churn_explainer):
    assert churn_explainer.rules_.in_words() == [
        "negative if no orders are bad",
        "negative if plan = 'gold'",
        "negative if at least 2 visits are by phone",
        "positive if at most one of the visits is by phone, plan ≠ 'gold' and there are orders "
        "where days_late > 3 and there are items where returned and product.kind = 'electronics'",
        "bad: one of the orders where days_late > 3 and there are items where returned and "
        "product.kind = 'electronics'",
        "by phone: one of the visits where channel = 'phone'",
    ]


@pytest.mark.parametrize(
    ("feature", "low", "high", "expected"),
    [
        (COUNT, 0.5, np.inf, "at least one instance is u1"),
        (COUNT, 1.5, np.inf, "at least two instances are u1"),
        (COUNT, 2.5, 3.5, "exactly three instances are u1"),
        (COUNT, -np.inf, 1.5, "at most one instance is u1"),
        (COUNT, 1.5, 20.5, "two to 20 instances are u1"),
        (FREQUENCY, 0, np.inf, "at least one instance is u1"),
        (FREQUENCY, -np.inf, 0, "no instance is u1"),
        (FREQUENCY, 0, 0.5, "more than 0 % and at most 50 % of the instances are u1"),
        (FREQUENCY, 0.3, np.inf, "more than 30 % of the instances are u1"),
        (FREQUENCY, -np.inf, 0.25, "at most 25 % of the instances are u1"),
        (FREQUENCY, 0.1, 0.5, "more than 10 % and at most 50 % of the instances are u1"),
        (WEIGHT, 2.5, np.inf, "instances with a total weight of more than 2.5 are u1"),
    ],
)
def test_amounts(feature, low, high, expected):
    bounds = map(float, np.float32([low, high]))
    level = top_level([(Condition(0, *bounds),)], (clusters(feature=feature),))
    assert RuleBook((level,)).in_words() == [f"class 0 if {expected}"]


@pytest.mark.parametrize("feature", [OCCURRENCE, FREQUENCY])
def test_what_has_to_be_there_is_described(feature):
    """Whether a rule asks for an occurrence, or for a share above none."""
    edge = 0.5 if feature is OCCURRENCE else 0
    some, none = Condition(0, low=edge), Condition(1, high=edge)
    lower = top_level([(some, none)], (clusters(names=("7", "3"), feature=feature),))
    lower = replace(lower, rules=replace(lower.rules, names=("v1",)), word="sub-bag")
    bag = clusters(1, word="sub-bag", names=("v1",), feature=feature)
    top = top_level([(some,)], (bag,), record=2)
    assert RuleBook((lower, top)).in_words() == [
        "class 0 if at least one sub-bag holds a 7 and no 3"
    ]


def test_several_cases():
    lower = top_level(
        [(Condition(0, low=0.5),), (Condition(1, low=0.5), Condition(0, high=0.5)), ()],
        (clusters(names=("8", "b")),),
    )
    names = ("v1", "v2")
    rules = tuple(
        replace(rule, conclusion=conclusion)
        for rule, conclusion in zip(lower.rules.rules, (0, 0, 1), strict=True)
    )
    rules = replace(lower.rules, rules=rules, names=names, needed=(True, True))
    lower = replace(lower, rules=rules, word="sub-bag")
    top = top_level(
        [(Condition(0, low=0.5),), (Condition(1, low=0.5),), ()],
        (clusters(1, word="sub-bag", names=names),),
        record=2,
    )
    assert RuleBook((lower, top)).in_words() == [
        "class 0 if at least one sub-bag is v1",
        "class 1 if at least one sub-bag is v2",
        "always class 2",
        "v1: a sub-bag that holds an 8, or that holds a b and no 8",
        "v2: a sub-bag of any kind",
    ]

"""Conditions, rules, the rules of one level, and definitions of clusters."""

import json

import numpy as np
import pytest

from keras_mmil.rules.trees.columns import Column
from keras_mmil.rules.trees.fields import Field
from keras_mmil.rules.trees.rule_set import Condition, Definition, Rule, RuleSet


@pytest.mark.parametrize(
    ("feature", "condition", "text"),
    [
        ("occurrence", Condition(0, low=0.5), "o_u1=1"),
        ("occurrence", Condition(1, high=0.5), "o_u2=0"),
        ("frequency", Condition(1, low=0.125), "f_u2 > 12.5 %"),
        ("frequency", Condition(1, high=float(np.float32(0.0603))), "f_u2 ≤ 6.03 %"),
        (
            "frequency",
            Condition(0, *map(float, np.float32([0.0277, 0.1259]))),
            "f_u1 ∈ (2.77, 12.59] %",
        ),
        ("count", Condition(0, low=2.5), "c_u1 ≥ 3"),
        ("count", Condition(0, high=2.5), "c_u1 ≤ 2"),
        ("count", Condition(0, high=0.5), "c_u1 ≤ 0"),
        ("count", Condition(0, low=2.0, high=4.5), "c_u1 ∈ [3, 4]"),
        ("count", Condition(0, low=0.5, high=1.5), "c_u1 = 1"),
        ("weight", Condition(0, low=0.5, high=1.5), "c_u1 ∈ (0.5, 1.5]"),
        ("weight", Condition(0, low=0.75), "c_u1 > 0.75"),
    ],
)
def test_text_of_conditions(feature, condition, text):
    assert condition.text((Column(feature, "u1"), Column(feature, "u2"))) == text


def test_bounds_are_compared_as_the_tree_compares_them():
    """A float64 threshold between two neighbouring float32 must not be rounded to either."""
    below = np.float32(0.3)
    above = np.nextafter(below, np.float32(1))
    middle = (float(below) + float(above)) / 2
    bags = np.array([[below], [above]])
    np.testing.assert_array_equal(Condition(0, low=middle).holds(bags), [False, True])


OF_U = (Column("occurrence", "u1"), Column("occurrence", "u2"))


def test_rule_set_text_and_need():
    conditions = (Condition(0, low=0.5),)
    rules = (
        Rule(0, 0, conditions, support=0.25, precision=1.0, coverage=0.4),
        Rule(0, 1, (), support=0.75, precision=0.5, coverage=1.0),
    )
    rule_set = RuleSet(rules, OF_U, ("v1", "v2"), (True, False))
    assert rule_set.needed_columns == (True, False)
    needed = (
        "  1  v1 ← o_u1=1.  # precision 100.0 %, support  25.0 %, coverage of the class  40.0 %"
    )
    assert str(rule_set).splitlines() == [
        needed,
        "# Not used in any decision: 1 rule. See text(all=True).",
    ]
    assert rule_set.text(all=True).splitlines() == [
        needed,
        "  2  v2.           # precision  50.0 %, support  75.0 %, coverage of the class 100.0 %, "
        "not used",
    ]


def test_rule_set_refuses_what_is_no_bag():
    rules = (Rule(0, 0, (Condition(0, low=0.5),), support=1.0, precision=1.0, coverage=1.0),)
    with pytest.raises(ValueError, match=r"no bag has: \[0.0\]"):
        RuleSet(rules, OF_U[:1], ("v1",), (True,)).predict(np.zeros((1, 1)))


@pytest.fixture
def definition():
    """Of three clusters by a price and a kind; the last one has none."""
    fields = (
        Field("price", "number", is_optional=False),
        Field("kind", "category", ("book", "toy")),
    )
    cheap, dear, is_toy = Condition(0, high=2.5), Condition(0, low=2.5), Condition(3, low=0.5)
    no_toy = Condition(3, high=0.5)
    cases = (((cheap, no_toy), (dear,)), ((cheap, is_toy),), ())
    return Definition(fields, cases, np.array([[5.0, 1.0, 2.0], [0.0, 2.0, 0.0], [0.0] * 3]))


def test_definitions_are_said_in_field_names(definition):
    assert definition.text(0) == "price ≤ 2.5 and kind ≠ 'toy', or price > 2.5"
    assert definition.text(1) == "price ≤ 2.5 and kind = 'toy'"
    assert definition.text(2) is None
    names, shown = ("u1", "electric", "u3"), (False, True, True)
    assert list(definition.lines("items", names, shown)) == [
        "     definitions of items: accuracy 70.0 % (majority 50.0 %)",
        "     electric: price ≤ 2.5 and kind = 'toy' (precision 100.0 %, recall 66.7 %)",
        "     u3:       no short definition",
    ]
    assert list(definition.lines("items", names, (False,) * 3)) == []


def test_figures_are_those_of_the_table(definition):
    assert (definition.accuracy, definition.majority) == (0.7, 0.5)
    assert [definition.precision(i) for i in range(3)] == [5 / 8, 1.0, 0.0]
    assert [definition.recall(i) for i in range(3)] == [1.0, 2 / 3, 0.0]


def test_definitions_as_data(definition):
    data = json.loads(json.dumps(definition.to_dict(("u1", "u2", "u3"))))
    assert (data["accuracy"], data["majority"]) == (0.7, 0.5)
    first, second, third = data["clusters"]
    assert second == {
        "cluster": "u2",
        "text": "price ≤ 2.5 and kind = 'toy'",
        "cases": [
            [{"column": 0, "low": None, "high": 2.5}, {"column": 3, "low": 0.5, "high": None}]
        ],
        "precision": 1.0,
        "recall": 2 / 3,
    }
    assert len(first["cases"]) == 2
    assert (third["text"], third["cases"]) == (None, [])
    assert data["columns"][3]["name"] == "kind"
    assert data["columns"][3]["value"] == "toy"


def test_one_cluster_is_anything():
    alone = Definition((Field("price", "number"),), (((),),), np.array([[0.0]]))
    assert alone.summary(0) == "anything (precision 0.0 %, recall 0.0 %)"
    assert (alone.accuracy, alone.majority) == (0.0, 0.0)  # of no rows

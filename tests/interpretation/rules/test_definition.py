"""Definitions of clusters as text and as data."""

import json

import numpy as np
import pytest

from keras_mmil.interpretation.rules.definition import Definition
from keras_mmil.interpretation.rules.fields import Field
from keras_mmil.interpretation.rules.rule import Condition


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

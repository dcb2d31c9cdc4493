"""Deletion: the network without the members that decided."""

import json

import numpy as np
import pytest
import tensorflow as tf
from digit_networks import random_ids, vectors
from record_networks import FIELDS, churns, random_customers
from record_networks import read as read_customers

from keras_mmil import ragged
from keras_mmil.rules.evidence.deletion import DeletionRow, DeletionTest


def without_deciding(explanation, values, innermost):
    """A top-bag, as lists, without the members that decided."""
    kept = []
    for bag, part in zip(values, explanation.top_bag.children, strict=True):
        if part.role != "decides":
            kept.append(bag)
        elif innermost and any(child.role == "decides" for child in part.children):
            pairs = zip(bag, part.children, strict=True)
            kept.append([row for row, child in pairs if child.role != "decides"])
    return kept


@pytest.mark.parametrize("innermost", [False, True])
def test_against_edits_of_lists(digit_model, digit_explainer, innermost):
    x = vectors(random_ids(100, seed=2))
    found = digit_explainer.deletion(x, innermost)
    explanations, values = digit_explainer.explain(x), x.to_list()
    before = digit_model.predict(x, verbose=0)[:, 0]
    lists = [without_deciding(e, v, innermost) for e, v in zip(explanations, values, strict=True)]
    edited = ragged.from_nested_lists(lists, inner_shape=(4,), depth=2, dtype="float32")
    after = digit_model.predict(edited, verbose=0)[:, 0]
    rules = digit_explainer.predict(edited)
    names = ("negative", "positive")
    for i, row in enumerate(found.rows):
        assert row.index == i
        assert row.network == (names[int(before[i] > 0.5)], names[int(after[i] > 0.5)])
        assert row.rules == (names[explanations[i].label], names[rules[i]])
        np.testing.assert_allclose(row.output, (before[i], after[i]), atol=1e-6)
        assert bool(row.removed) == (lists[i] != values[i])
        assert all(position[0] == i for _, position in row.removed)
    positive = before > 0.5
    assert found.share == 1.0  # a top-bag is positive iff a sub-bag is, which is all that decides
    assert (found.interval.n, found.n_undecided) == (positive.sum(), (~positive).sum())
    assert json.loads(json.dumps(found.to_dict()))["share"]["n"] == positive.sum()
    assert len(found.table().splitlines()) == 100
    assert f"of {positive.sum()} top-bags" in str(found)


def test_of_a_dataset(digit_explainer):
    x = vectors(random_ids(30, seed=2))
    batches = tf.data.Dataset.from_tensor_slices(x).batch(7)
    ours, theirs = (digit_explainer.deletion(data).rows for data in (batches, x))
    assert [(a.removed, a.network, a.rules) for a in ours] == [
        (b.removed, b.network, b.rules) for b in theirs
    ]
    np.testing.assert_allclose([a.output for a in ours], [b.output for b in theirs], atol=1e-6)


@pytest.mark.slow
def test_of_records(churn_explainer):
    customers = random_customers(120, seed=3)
    found = churn_explainer.deletion(read_customers(customers))
    for row, customer in zip(found.rows, customers, strict=True):
        if row.network[0] == "positive":
            assert churns(customer)
    removed = [row for row in found.rows if row.removed]
    assert removed
    positive = [row for row in removed if row.network[0] == "positive"]
    assert all(row.changed for row in positive)  # who has no bad orders does not churn


def test_the_share_is_of_what_the_network_says():
    """Not of what the rules say, nor of top-bags where nothing was removed."""
    changes, same, member = ("yes", "no"), ("yes", "yes"), ((0, (0,)),)
    rows = [(member, changes, same)] * 3 + [(member, same, changes), ((), changes, changes)]
    found = DeletionTest(tuple(DeletionRow(i, *row, (0.9, 0.1)) for i, row in enumerate(rows)))
    assert (found.share, found.interval.n, found.n_undecided) == (0.75, 4, 1)
    assert [row.changed for row in found.rows] == [True, True, True, False, True]


@pytest.mark.slow
def test_what_the_network_says_afterwards_is_asked(rough):
    """Where rules and network disagree, each is said to say what it says."""
    values = rough.x.to_list()
    lists = [
        without_deciding(each, value, True)
        for each, value in zip(rough.explainer.explain(rough.x), values, strict=True)
    ]
    edited = ragged.from_nested_lists(lists, inner_shape=(4,), depth=2, dtype="float32")
    network = rough.ask(edited)
    rules = rough.explainer.predict(edited)
    rows = rough.explainer.deletion(rough.x, True).rows
    names = np.array(["negative", "positive"])
    for at, before, after in (("network", rough.network, network), ("rules", rough.rules, rules)):
        pairs = list(zip(names[before], names[after], strict=True))
        assert [getattr(row, at) for row in rows] == pairs
    assert (network != rules).any()


@pytest.mark.slow
def test_of_fields_against_edits_of_records(churn_explainer, customers):
    """A field that is None in all records, and bags that are empty."""

    def emptied(value, names, empty):
        """A record, or members of a bag, in which what the names lead to is empty."""
        if isinstance(value, list):
            return [emptied(each, names, empty) for each in value]
        first, *inner = names
        return {**value, first: emptied(value[first], inner, empty) if inner else empty}

    model = churn_explainer._network.model

    def classes(records):
        return model(read_customers(records)).numpy()[:, 0] > 0.5

    found = churn_explainer.deletion_of_fields(read_customers(customers))
    bags = {each.path for each in found if each.is_bag}
    assert bags == {"orders", "orders.items", "orders.items.product.tags", "visits"}
    assert {each.path for each in found} - bags == set(FIELDS)
    before = classes(customers)
    for each in found:
        edited = emptied(customers, each.path.split("."), [] if each.is_bag else None)
        assert each.changed.k == np.sum(classes(edited) != before), each.path
        assert each.changed.n == len(customers)
    counts = [each.changed.k for each in found]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] == 0
    json.dumps([each.to_dict() for each in found], allow_nan=False)


def test_of_fields_needs_fields(digit_explainer):
    with pytest.raises(ValueError, match="a network that reads fields"):
        digit_explainer.deletion_of_fields(vectors(random_ids(5)))

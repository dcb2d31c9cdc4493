"""Counterfactuals against brute force over the members themselves."""

import itertools
import json

import numpy as np
import pytest
from digit_networks import compressed_model, explainer, random_ids, truth, vectors
from record_networks import churns, random_customers
from record_networks import read as read_customers

from keras_mmil import Bags, ragged
from keras_mmil.rules.evidence import counterfactual as module
from keras_mmil.rules.explain.reading import classify


def as_bags(lists):
    return ragged.from_nested_lists(lists, inner_shape=(4,), depth=2, dtype="float32")


def smallest(fit, values, givers):
    """The size of the smallest change, by trying all sets of members; None if there is none."""
    before = fit.predict(as_bags([values]))[0]
    choices = [(False, i) for i in range(len(values))] + [(True, i) for i in range(len(givers))]
    for size in range(1, len(choices) + 1):
        tried = []
        for chosen in itertools.combinations(choices, size):
            kept = [bag for i, bag in enumerate(values) if (False, i) not in chosen]
            tried.append(kept + [givers[i] for added, i in chosen if added])
        if (fit.predict(as_bags(tried)) != before).any():
            return size
    return None


@pytest.fixture(scope="module")
def by_frequency(digit_model, digit_ids):
    """Rules on shares of clusters, so that several removals and additions count."""
    fit = explainer(n_clusters=(3, 3), features="frequency")
    return fit.fit(digit_model, vectors(digit_ids), vectors(random_ids(60, seed=1)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["digit_explainer", "by_frequency"])
def test_none_is_smaller_than_what_is_found(request, name, digit_model):
    fit = request.getfixturevalue(name)
    x, donors = vectors(random_ids(8, seed=3)), vectors(random_ids(1, seed=4))
    values, givers = x.to_list(), donors.to_list()[0]
    sizes = set()
    for i in range(8):
        for given in (None, donors):
            found = fit.counterfactual(x[i : i + 1], given)
            expected = smallest(fit, values[i], givers if given is not None else [])
            assert found.exact
            assert found.found == (expected is not None)
            sizes.add(expected)
            if not found.found:
                assert "No removal or addition" in str(found)
                continue
            assert found.size == expected
            removed = {position[1] for _, position in found.removed}
            edited = [bag for j, bag in enumerate(values[i]) if j not in removed]
            edited = as_bags([edited + [givers[position[1]] for _, position in found.added]])
            names = fit.classes_
            assert found.rules == (names[fit.predict(x)[i]], names[fit.predict(edited)[0]])
            network = int(digit_model(edited)[0, 0] > 0.5)
            assert found.network[1] == names[network]
            assert found.network_agrees == (network == fit.predict(edited)[0])
            assert ("agrees" if found.network_agrees else "NOT") in str(found)
            json.dumps(found.to_dict())
    assert sizes > {1}  # so that larger ones, or none, are among them


def test_members_of_inner_bags(digit_explainer):
    """Without its 3s, or some of them, no sub-bag is positive; those of 2s make one positive."""
    ids = random_ids(30, seed=5)
    y = truth(ids)
    for i, top in enumerate(ids.to_list()):
        found = digit_explainer.counterfactual(vectors(ids)[i : i + 1], level=0)
        if y[i]:
            expected = sum(bag.count(3) for bag in top if 2 not in bag)
        else:
            expected = min((bag.count(2) for bag in top if 3 in bag), default=None)
        assert found.exact
        assert (found.size if found.found else None) == expected
        for layer, (top_bag, *position) in found.removed:
            assert (layer, top_bag) == (0, 0)
            assert top[position[0]][position[1]] == (3 if y[i] else 2)
        assert found.network_agrees == found.found


@pytest.mark.slow
def test_greedy_where_there_are_too_many(digit_explainer, by_frequency, monkeypatch):
    x, donors = vectors(random_ids(8, seed=3)), vectors(random_ids(2, seed=4))
    for fit in (digit_explainer, by_frequency):
        exact = [fit.counterfactual(x[i : i + 1], donors) for i in range(8)]
        with monkeypatch.context() as patch:
            patch.setattr(module, "_MOST_COMBINATIONS", 0)
            greedy = [fit.counterfactual(x[i : i + 1], donors) for i in range(8)]
        for a, b in zip(exact, greedy, strict=True):
            assert a.exact
            assert not b.exact
            assert "greedy" in str(b)
            assert not b.found or (a.found and b.size >= a.size)
        assert sum(b.found for b in greedy) >= 0.8 * sum(a.found for a in exact)


def test_compressed_bags():
    model, ids = compressed_model(), random_ids(120)
    fit = explainer(max_clusters=(3, 2)).fit(model, ids, random_ids(60, seed=1))
    for i in range(6):
        plain = fit.counterfactual(ids[i : i + 1], ids[:20])
        packed = fit.counterfactual(Bags.from_ragged(ids)[i], Bags.from_ragged(ids)[:20])
        assert (packed.size, packed.rules, packed.network) == (
            plain.size,
            plain.rules,
            plain.network,
        )


@pytest.mark.slow
def test_of_records(churn_explainer):
    customers = random_customers(60, seed=3)
    x = read_customers(customers)

    def part(i, j):
        return {name: values[i:j] for name, values in x.items()}

    donors = part(40, 60)
    n_found = 0
    for i in range(4):
        found = churn_explainer.counterfactual(part(i, i + 1), donors)
        if found.found and found.network_agrees:
            n_found += 1
            customer = {**customers[i]}
            for path in ("orders", "visits"):
                at = next(c.level for c in churn_explainer.clusters_ if c.path == path)
                gone = {p[1] for layer, p in found.removed if layer == at}
                customer[path] = [r for j, r in enumerate(customer[path]) if j not in gone]
                customer[path] += [
                    customers[40 + p[0]][path][p[1]] for layer, p in found.added if layer == at
                ]
            assert churns(customer) != churns(customers[i])
    assert n_found > 1
    churning = next(i for i, customer in enumerate(customers) if churns(customer))
    nested = churn_explainer.counterfactual(part(churning, churning + 1), level="orders.items")
    assert nested.found
    assert all(len(position) == 3 for _, position in nested.removed)


def test_what_is_refused(digit_explainer, digit_ids):
    x = vectors(digit_ids)
    with pytest.raises(ValueError, match=r"one top-bag\. Received: x with 2"):
        digit_explainer.counterfactual(x[:2])
    with pytest.raises(ValueError, match=r"donors are given\. Received: level=0"):
        digit_explainer.counterfactual(x[:1], x[1:3], level="u")
    one, alone = digit_explainer.counterfactual(x[:1]), digit_explainer.counterfactual(x[0])
    assert one == alone
    assert np.isfinite(one.n_tried)


@pytest.mark.slow
def test_the_network_is_asked(rough):
    disagree = 0
    for i in range(30):
        found = rough.explainer.counterfactual(rough.x[i : i + 1])
        if not found.found:
            continue
        gone = {position[1] for _, position in found.removed}
        kept = [bag for j, bag in enumerate(rough.x[i].to_list()) if j not in gone]
        edited = ragged.from_nested_lists([kept], inner_shape=(4,), depth=2, dtype="float32")
        after = rough.ask(edited)[0]
        names = ("negative", "positive")
        assert found.network == (names[rough.network[i]], names[after])
        assert found.rules == (names[rough.rules[i]], names[rough.explainer.predict(edited)[0]])
        assert found.network_agrees == (found.network[1] == found.rules[1])
        disagree += not found.network_agrees
    assert disagree


def test_one_that_changes_the_network_is_preferred(by_frequency, monkeypatch):
    """Of changes that are equally small, where the network follows only the last."""
    tried = []

    def only_the_last_agrees(*arguments):
        by_rules, _ = classify(*arguments)
        tried.append(len(by_rules))
        return by_rules, np.append(1 - by_rules[:-1], by_rules[-1:])

    monkeypatch.setattr(module, "classify", only_the_last_agrees)
    x, donors = vectors(random_ids(8, seed=3)), vectors(random_ids(2, seed=4))
    found = [by_frequency.counterfactual(x[i : i + 1], donors) for i in range(8)]
    assert max(tried) > 1
    assert sum(each.found for each in found) == len(tried)
    assert all(each.network_agrees for each in found if each.found)

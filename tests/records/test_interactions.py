"""Pairs of facts chosen for a target, against regressions in a loop, and learnt from end to end."""

import sqlite3
from contextlib import closing
from itertools import combinations

import numpy as np
import pandas as pd
import pytest
import tensorflow as tf
from scipy import stats

from keras_mmil import NestedClassifier
from keras_mmil.records import link
from keras_mmil.records.interactions import Occurrences, interactions

RNG = np.random.default_rng(0)
N = 400


def rows_of(n_fields=4, n_rows=60):
    """Facts about numbers above two edges, or not, some of which are missing; and their fields."""
    x = RNG.normal(size=(n_rows, n_fields))
    x[RNG.random(x.shape) < 0.1] = np.nan
    facts, fields, cases = [], [], []
    for i in range(n_fields):
        for k, edge in enumerate((-0.3, 0.4)):
            facts += [x[:, i] > edge, x[:, i] <= edge]
            fields += [i, i]
            cases += [2 * i + k] * 2
    return np.stack(facts, axis=1).astype(float), np.array(fields), np.array(cases)


FACTS, FIELDS, CASES = rows_of()
# Rows of records, in bags in bags.
PLACES = [
    [RNG.integers(60, size=RNG.integers(5)).tolist() for _ in range(RNG.integers(1, 4))]
    for _ in range(N)
]


def number_with(*facts):
    """How many members of each record have all facts."""
    of_rows = FACTS[:, list(facts)].all(axis=1)
    return np.array([sum(of_rows[row] for bag in bags for row in bag) for bags in PLACES], float)


def chosen(targets, share=1.0, taken=()):
    ids = tf.ragged.constant(PLACES, inner_shape=(), dtype=tf.int32)
    found = Occurrences.of(ids, len(FACTS), targets.reshape(N, -1), share)
    return interactions(FACTS, FIELDS, CASES, found, taken)


def t_of(pair, y):
    """The statistic of a regression on the number of members, those with each fact, and both."""
    x = np.stack([np.ones(N), number_with(), *map(number_with, pair), number_with(*pair)], axis=1)
    coefficients, *_ = np.linalg.lstsq(x, y, rcond=None)
    variance = np.sum((y - x @ coefficients) ** 2) / (N - 5)
    return coefficients[-1] / np.sqrt(variance * np.linalg.inv(x.T @ x)[-1, -1])


def is_robust(pair, y, least):
    """Whether the score of the last number is significant by the residuals without it."""
    x = np.stack([np.ones(N), number_with(), *map(number_with, pair)], axis=1)
    p, e = (v - x @ np.linalg.lstsq(x, v, rcond=None)[0] for v in (number_with(*pair), y))
    return abs(p @ e) > least * np.sqrt(np.sum(p**2 * e**2))


def cosine(a, b):
    """The correlation given the number of members."""
    x = np.stack([np.ones(N), number_with()], axis=1)
    a, b = (v - x @ np.linalg.lstsq(x, v, rcond=None)[0] for v in (a, b))
    return a @ b / np.sqrt((a @ a) * (b @ b))


def by_loop(targets):
    """What is to be chosen of targets, [N, n]."""
    pairs = [(i, j) for i, j in combinations(range(len(FIELDS)), 2) if FIELDS[i] != FIELDS[j]]
    columns = list(targets.T)
    least = stats.t.isf(0.05 / (2 * len(pairs) * len(columns)), N - 5)
    groups = {}
    for pair in pairs:
        t, k = max((abs(t_of(pair, y)), k) for k, y in enumerate(columns))
        if t > least:
            size = max(abs(cosine(number_with(*pair), y)) for y in columns)
            groups.setdefault(tuple(CASES[list(pair)]), []).append((t, size, pair, columns[k]))
    found = []
    for group in sorted(groups.values(), key=lambda group: -max(t for t, *_ in group)):
        _, _, pair, y = max(group, key=lambda each: each[1])
        own = number_with(*pair)
        if is_robust(pair, y, least) and all(
            abs(cosine(own, number_with(*other))) <= 0.95 for other in found
        ):
            found.append(pair)
    return found


def test_pairs_are_those_of_regressions():
    signal = number_with(0, 5)  # x0 > -0.3, and x1 at most -0.3
    numbers = signal + RNG.normal(size=N) * 2
    other = number_with(7, 14) + RNG.normal(size=N) / 2
    for targets in (
        numbers[:, None],
        (signal + RNG.random(N) > 1.5).astype(float)[:, None],
        np.stack([numbers, other], axis=1),
        np.eye(3)[np.digitize(signal, [0.5, 1.5])],
    ):
        found = chosen(targets)
        assert found == by_loop(targets)
        assert (0, 5) in found
    assert (7, 14) in chosen(np.stack([numbers, other], axis=1))
    assert chosen(numbers * 1e3 - 7, taken=[(0, 5)]) == [
        pair for pair in by_loop(numbers[:, None]) if pair != (0, 5)
    ]


def test_nothing_is_chosen_by_chance():
    """Nor of facts that tell of the target by themselves, nor if all records have one class."""
    found = [chosen(RNG.random(N) < share) for share in (0.03, 0.2, 0.5) for _ in range(20)]
    assert sum(map(bool, found)) <= 3
    alone = number_with() + 2 * number_with(0) - number_with(5) + RNG.normal(size=N)
    assert not {(0, 4), (0, 5), (1, 4), (1, 5)} & set(chosen(alone))
    assert chosen(np.ones(N)) == []


def test_few_records_choose_nothing():
    """However large the target of one of them is."""
    both = number_with(0, 5)
    outlier = np.where(np.arange(N) == both.argmax(), 1e6, RNG.normal(size=N))
    assert chosen(outlier) == []


def shop(n=1000):
    """Customers who left: two of their items, or more, are dear and of products of low rating."""
    rng = np.random.default_rng(1)
    products = pd.DataFrame({"id": range(150), "rating": rng.uniform(1, 5, 150).round(2)})
    products.loc[rng.random(150) < 0.1, "rating"] = np.nan
    customers = np.repeat(np.arange(n), rng.integers(1, 12, n))
    price = rng.gamma(2, 15, len(customers)).round(2)
    price[rng.random(len(price)) < 0.1] = np.nan
    product = rng.integers(150, size=len(customers))
    is_bad = (price > 30) & (products["rating"].to_numpy()[product] <= 2.5)
    items = {"id": range(len(price)), "customer": customers, "product": product, "price": price}
    left = np.bincount(customers, is_bad, minlength=n) >= 2
    tables = {"customers": {"id": range(n), "left": left}, "items": items}
    return {name: pd.DataFrame(x) for name, x in {**tables, "products": products}.items()}


@pytest.mark.slow
def test_a_conjunction_of_numbers_is_learnt():
    """Of members whose numbers are partly missing; programs say the same as the rules."""
    tables = shop()
    keys = [("items.customer", "customers.id"), ("items.product", "products.id")]
    records = link(tables, "customers", keys)
    train, test = records[:700], records[700:]
    classifier = NestedClassifier(random_state=0, verbose=0, epochs=5).fit(train, "left")
    assert classifier.score(test, "left") > 0.95
    (condition,) = (each.of for each in classifier.trials_ if each.model == "one condition")
    assert "price > " in condition
    assert "products.rating ≤ " in condition

    rules = classifier.rules_
    assert "at least 2 items (price > " in rules.text()
    assert any("price > " in x["clause"] and "rating ≤ " in x["clause"] for x in rules.records())
    expected = list(map(str, classifier.predict(records, by="rules")))
    assert len(set(expected)) == 2
    rows = [{**row, "left": None} for row in records.to_pylist()]
    module = {}
    exec(rules.to_python(), module)
    assert [module["predict"](row) for row in rows] == expected
    with closing(sqlite3.connect(":memory:")) as connection:
        for name, table in tables.items():
            table.to_sql(name, connection, index=False)
        found = connection.execute(rules.to_sql()).fetchall()
    assert [label for _, label in found] == expected

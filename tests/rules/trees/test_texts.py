"""Rules as they are printed, applied by hand to the values as users know them: what rules say."""

import re
from datetime import datetime, timedelta
from fractions import Fraction

import numpy as np
import pytest

from keras_mmil._support.formatting import bound_text, double_bound, number_text
from keras_mmil.rules.trees.columns import Column
from keras_mmil.rules.trees.features import Space
from keras_mmil.rules.trees.fields import field_of
from keras_mmil.rules.trees.learn import learn_rules
from keras_mmil.rules.trees.rule_set import RuleSet
from keras_mmil.rules.trees.tree import Examples, grow

EPOCH = datetime(1970, 1, 1)
NUMBER = re.compile(r"-?[\d.]+(?:e[+-]?\d+)?")


def read(text, kind):
    """A bound, or a value, as it is written."""
    if kind == "number":
        return Fraction(text)
    time = datetime.fromisoformat(text) - EPOCH
    return Fraction(time // timedelta(microseconds=1), 10**6)


def holds(condition, value, kind):
    """Whether a printed condition on x holds for a value."""
    ranged = re.fullmatch(r"x ∈ \((.*), (.*)\]", condition)
    if ranged:
        low, high = (read(each, kind) for each in ranged.groups())
        return low < value <= high
    sign, bound = re.fullmatch(r"x (>|≤) (.*)", condition).groups()
    return (value > read(bound, kind)) == (sign == ">")


def applied(rules, values, kind):
    """The conclusion of the first rule whose printed conditions hold for each value."""
    clauses = [re.fullmatch(r"(\w) ← (.*)\.", rules.clause(rule)).groups() for rule in rules]
    return [
        next(
            name
            for name, body in clauses
            if all(holds(each, value, kind) for each in re.split(r", (?=x )", body))
        )
        for value in values
    ]


def texts_of(kind, rng, n):
    """Values as they stand in a file, by what they are."""
    if kind == "large":
        return [str(20_210_617 + k) for k in rng.integers(-40, 40, n)]
    if kind == "ids":
        return [str(1_234_567_890 + k) for k in rng.integers(-2000, 2000, n)]
    if kind == "close":
        return [f"{x:.6f}" for x in 3.14159 + rng.integers(-9, 9, n) * 1e-6]
    if kind == "prices":
        return [f"{x:.2f}" for x in rng.integers(0, 40, n) / 100]
    if kind == "tiny":
        return [f"{x}e-09" for x in rng.integers(-20, 20, n)]
    start, unit = {
        "dates": (datetime(2021, 6, 1), timedelta(days=1)),
        "minutes": (datetime(2021, 6, 1, 7, 30), timedelta(minutes=1)),
        "seconds": (datetime(2021, 6, 1, 7, 30, 1), timedelta(seconds=1)),
        "fractions": (datetime(2021, 6, 1, 7, 30, 1), timedelta(milliseconds=125)),
    }[kind]
    return [(start + unit * int(k)).isoformat() for k in rng.integers(-900, 900, n)]


NUMBERS = ("large", "ids", "close", "prices", "tiny")
TIMES = ("dates", "minutes", "seconds", "fractions")


@pytest.mark.parametrize("what", NUMBERS + TIMES)
def test_printed_rules_are_the_rules(what):
    """On 1,000 values as users write them, many of which are next to a bound."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        kind = "number" if what in NUMBERS else "time"
        values = [read(text, kind) for text in texts_of(what, rng, 1000)]
        # As `Schema.read` gives them.
        raw = np.array([float(x) for x in values], np.float32 if kind == "number" else np.float64)
        field = field_of("x", kind, raw, np.ones(1000))
        columns = len(field.columns)
        matrix = field.matrix(raw) * (np.arange(columns) == 0)  # of a time the day alone
        edges = np.sort(rng.choice(matrix[:, 0], 3, replace=False))
        labels = np.searchsorted(edges, matrix[:, 0]) % 2
        few = rng.random(1000) < 0.2
        examples = Examples(matrix[few], labels[few], np.ones(few.sum()))
        tree = grow(examples, is_measured=np.ones(columns, bool))
        rules = learn_rules(tree, Space(fields=(field,)), level=0, examples=examples)
        rules = RuleSet(rules, field.columns, ("a", "b"), (True, True))
        expected = ["ab"[label] for label in tree.predict(matrix)]
        if len(set(expected)) == 2:
            assert applied(rules, values, kind) == expected


@pytest.mark.slow
def test_printed_shares_are_the_shares():
    """Of whole numbers of members, in bags of any size up to 40."""
    shares = [Fraction(k, n) for n in range(1, 41) for k in range(n + 1)]
    known = np.array([float(x) for x in shares]).astype(np.float32)[:, None]
    for seed in range(20):
        rng = np.random.default_rng(seed)
        few = rng.choice(len(shares), 40)
        examples = Examples(known[few], rng.integers(0, 2, 40), np.ones(40))
        tree = grow(examples, is_measured=np.array([seed % 2 == 0]))
        for bound in tree.threshold[tree.feature == 0]:
            expected = known[:, 0].astype(float) > bound
            for bag in ("", "items"):
                text = Column("frequency", "u", bag).text(bound, np.inf)
                (percent,) = NUMBER.findall(text) or ["0"]
                assert [x > Fraction(percent) / 100 for x in shares] == expected.tolist()


def test_bounds_as_text_part_float32s_as_the_bounds_do():
    rng = np.random.default_rng(0)
    scales = 10.0 ** rng.integers(-30, 30, 300)
    near = (rng.normal(size=300) * scales).astype(np.float32)
    for x in near:
        following = np.nextafter(x, np.float32(np.inf))
        for bound in (float(x), (float(x) + float(following)) / 2):
            text = bound_text(bound)
            written = [Fraction(number_text(each)) for each in (x, following)]
            assert [each > Fraction(text) for each in written] == [False, True]
            # In float64, which other systems compare in.
            assert float(x) <= double_bound(bound) < float(following)
            if abs(x) < 1e7:
                assert len(text) <= len(number_text(x)) + 1
    assert bound_text(np.float32(0.3)) == "0.3"
    assert (bound_text(1 / 3, 100), bound_text(0.0), bound_text(-8.0)) == ("33.33333", "0", "-8")


def test_a_bound_just_below_a_float32_is_not_taken_for_it():
    """float32(0.1) is above 0.1, as rules compare."""
    assert double_bound(0.1) < 0.1
    assert number_text(np.float32(0.1)) == "0.1"
    assert Fraction(bound_text(0.1)) < Fraction("0.1")

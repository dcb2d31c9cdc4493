"""What all exports share."""

import numpy as np
import pytest
from levels import clusters, top_level

from keras_mmil.interpretation.export.program import program
from keras_mmil.interpretation.rules.columns import MISSING
from keras_mmil.interpretation.rules.features import COUNT, FREQUENCY
from keras_mmil.interpretation.rules.fields import Field
from keras_mmil.interpretation.rules.rule import Condition


def criterion(condition, bags=(), fields=()):
    level = top_level([(condition,)], bags or (clusters(),), fields)
    (((_, found),),) = [kind.rules for kind in program([level]).kinds if kind.level]
    return found[0] if found else None


@pytest.mark.parametrize("seed", range(3))
def test_bounds_sort_doubles_as_rules_sort_them_in_float32(seed):
    rng = np.random.default_rng(seed)
    exact = rng.normal(size=200).astype(np.float32).astype(float)
    between = (exact + np.nextafter(exact.astype(np.float32), np.float32(9)).astype(float)) / 2
    field = (Field("price", "number"),)
    for bound in [*exact, *between, *rng.normal(size=200), 0.0, 0.5, -2.0]:
        found = criterion(Condition(2, low=bound), fields=field).above
        ulp = np.spacing(np.float32(abs(bound) or 1e-30))
        near = bound + ulp * np.concatenate([np.linspace(-2, 2, 41), rng.uniform(-2, 2, 20)])
        near = np.unique([*near, *np.nextafter(found, [-9.0, 9.0]), found])
        by_rules = near.astype(np.float32).astype(float) > bound
        np.testing.assert_array_equal(near > found, by_rules)
        at_most = criterion(Condition(2, high=bound), fields=field).at_most
        np.testing.assert_array_equal(near <= at_most, ~by_rules)


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (12.5, np.inf, (True, False)),  # present, missing
        (-np.inf, 12.5, (True, True)),
        (MISSING / 2, 12.5, (True, False)),
        (MISSING / 2, np.inf, (True, False)),
        (-np.inf, MISSING / 2, (False, True)),
    ],
)
def test_what_is_missing_is_no_number(low, high, expected):
    found = criterion(Condition(2, low, high), fields=(Field("price", "number"),))
    assert (found.present, found.missing) == expected
    assert all(bound is None or abs(bound) < 1e30 for bound in (found.above, found.at_most))
    x = np.array([MISSING, 3.0, 12.5, 99.0], np.float32)
    holds = Condition(0, low, high).holds(x[:, None])
    assert holds[0] == found.missing
    for value, expected_here in zip(x[1:].tolist(), holds[1:], strict=True):
        above = found.above is None or value > found.above
        at_most = found.at_most is None or value <= found.at_most
        assert (found.present and above and at_most) == expected_here


def test_counts_have_whole_bounds():
    bag = (clusters(feature=COUNT),)
    found = criterion(Condition(1, 1.5, 3.5), bag)
    assert (found.above, found.at_most) == (1, 3)
    assert isinstance(found.above, int)
    found = criterion(Condition(0, -np.inf, 0.5), bag)
    assert (found.above, found.at_most) == (None, 0)


def test_quantities():
    fields = Field("note", "text", ("late",)), Field("since", "time"), Field("plan", "category")
    bags = (clusters(feature=FREQUENCY, path="orders"),)
    level = top_level([(Condition(0, 0.5), Condition(3, 0.5), Condition(5, 2020.5))], bags, fields)
    orders, top = program([level]).kinds
    assert (orders.name, top.name, orders.level) == ("orders", "top-bag", None)
    assert top.columns == (
        ("note",),
        ("since.day", "since.year", "since.month", "since.weekday", "since.hour"),
        ("plan",),
    )
    share, token, year = (each.quantity for each in top.rules[0][1])
    assert (share.measure, share.members, share.name) == ("frequency", "orders", "u1")
    assert (token.measure, token.column, token.value) == ("token", "note", "late")
    assert (year.measure, year.column, year.value) == ("time", "since.year", "year")
    assert program([level]).given == ["orders"]


def test_names_in_the_table_are_told_apart():
    fields = tuple(Field(name, "number") for name in ("id", "Price", "price", "PRICE_2"))
    twice = clusters(0, path="orders"), clusters(1, path="orders", names=("v1", "v2"))
    level = top_level([()], twice, fields, record=2, word="orders (u)")
    kinds = program([level]).kinds
    assert [kind.name for kind in kinds] == ["orders (u)", "orders (v)", "orders (u) (top)"]
    assert kinds[-1].columns == (("id_2",), ("Price",), ("price_2",), ("PRICE_2_2",))


def test_a_condition_that_always_holds_is_left_out():
    assert criterion(Condition(0, -0.5, 1.5)) is None
    assert criterion(Condition(0, -0.5, 0.5)).wanted is False

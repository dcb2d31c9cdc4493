"""Rules in words."""

from dataclasses import replace

import numpy as np
import pytest
from levels import clusters, top_level

from keras_mmil.rules.export.rule_book import RuleBook
from keras_mmil.rules.trees.features import COUNT, FREQUENCY, OCCURRENCE, WEIGHT
from keras_mmil.rules.trees.fields import Field
from keras_mmil.rules.trees.level import call, exemplify
from keras_mmil.rules.trees.rule_set import Condition


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
        "positive if some orders are bad, at most one of the visits is by phone and plan ≠ 'gold'",
        "bad: one of the orders where some items are hot and days_late > 3",
        "by phone: one of the visits where channel = 'phone'",
        "hot: one of the items where returned and product.kind = 'electronics'",
    ]


@pytest.mark.parametrize(
    ("feature", "low", "high", "expected"),
    [
        (COUNT, 0.5, np.inf, "at least one instance is u1"),
        (COUNT, 1.5, np.inf, "at least two instances are u1"),
        (COUNT, 2.5, 3.5, "exactly three instances are u1"),
        (COUNT, -np.inf, 1.5, "at most one instance is u1"),
        (COUNT, 1.5, 20.5, "two to 20 instances are u1"),
        (COUNT, -np.inf, 0.5, "no instance is u1"),
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
    ((_, reason),) = RuleBook((level,)).reasons()
    assert reason == expected


@pytest.mark.parametrize("feature", [OCCURRENCE, FREQUENCY])
def test_what_has_to_be_there_is_described(feature):
    """Whether a rule asks for an occurrence, or for a share above none."""
    edge = 0.5 if feature is OCCURRENCE else 0
    some, none = Condition(0, low=edge), Condition(1, high=edge)
    lower = top_level([(some, none)], (clusters(names=("7", "3"), feature=feature),))
    lower = replace(lower, rules=replace(lower.rules, names=("v1",)), word="sub-bag")
    bag = clusters(1, word="sub-bag", names=("v1",), feature=feature)
    top = top_level([(some,)], (bag,), record=2)
    ((_, reason),) = RuleBook((lower, top)).reasons()
    assert reason == "at least one sub-bag holds a 7 and no 3"


def test_what_is_there_comes_first_among_many_conditions():
    """Of up to four, the order is that of the rule."""
    names = tuple(f"u{i}" for i in range(1, 6))
    bag = clusters(names=names, feature=FREQUENCY)
    at_most = [Condition(i, high=0.25) for i in range(4)]
    for n, first in ((2, "at most"), (4, "more than")):
        level = top_level([(*at_most[:n], Condition(4, low=0.5))], (bag,))
        ((_, reason),) = RuleBook((level,)).reasons()
        assert reason.startswith(first)
        assert reason.count("at most 25 %") == n


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("7", "3", "3 (2)"), "a 7 and no 3"),
        (("7", "3", "3 (2)", "3 (3)"), "a 7, no 3 and no 3 (2)"),
    ],
)
def test_clusters_that_are_numbered_alike(names, expected):
    """All of them are what their names share."""
    case = (Condition(1, high=0.5), Condition(0, low=0.5), Condition(2, high=0.5))
    lower = top_level([case], (clusters(names=names),))
    lower = replace(lower, rules=replace(lower.rules, names=("v1",)), word="sub-bag")
    bag = clusters(1, word="sub-bag", names=("v1",))
    top = top_level([(Condition(0, low=0.5),)], (bag,), record=2)
    ((_, reason),) = RuleBook((lower, top)).reasons()
    assert reason == f"at least one sub-bag holds {expected}"


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


def test_clusters_of_many_cases_are_told_in_short_or_by_examples():
    """v1 asks for u1 or for few u2, v2 for the opposite, each in four cases."""
    bounds = [{"low": 0.5}, {"high": 0.5}]
    cases = [(Condition(0, **a), Condition(1, **b)) for a in bounds for b in bounds] * 2
    lower = top_level(cases, (clusters(feature=COUNT, names=("u1", "u2")),))
    names, conclusions = ("v1", "v2"), (0, 0, 1, 1, 0, 0, 1, 1)  # v1 wherever u1 is there
    rules = tuple(
        replace(rule, conclusion=conclusion)
        for rule, conclusion in zip(lower.rules.rules, conclusions, strict=True)
    )
    rules = replace(lower.rules, rules=rules, names=names, needed=(True, True))
    lower = replace(lower, rules=rules, word="sub-bag")
    bag = clusters(1, word="sub-bag", names=names)
    conditions = [(Condition(0, low=0.5),), (Condition(1, low=0.5),)]
    book = RuleBook((lower, top_level(conditions, (bag,), record=2)))
    words = "v1, in short: sub-bags with more u1 than others (4 rules)"
    assert words in book.in_words()
    levels = exemplify(book.levels, 1, (("a smile", "a hug"), ("a frown",)))
    levels = call(call(levels, 1, "gesture"), 2, "visit")
    book = RuleBook(levels)
    assert book.in_words() == [
        "class 0 if at least one gesture is v1",
        "class 1 if at least one gesture is v2",
        "v1: gestures like “a smile”, “a hug”",
        "v2: gestures like “a frown”",
    ]
    assert str(book).split()[0] == "visits"


def test_only_what_has_no_name_in_the_data_can_be_called():
    level = top_level([(Condition(0, low=0.5),)], (clusters(path="orders", word="orders"),))
    with pytest.raises(ValueError, match="data's name 'orders' to stay"):
        call((level,), 0, "order")
    with pytest.raises(ValueError, match="Expected a word"):
        call((level,), 1, "")
    with pytest.raises(ValueError, match="Expected a level from 0 to 0"):
        call((level,), 2, "visit")


COUNTRIES = tuple(f"country {i}" for i in range(12))


def category_level(conditions, names, **more):
    """Rules on countries, which are columns 1 to 12 (0 is that it is missing)."""
    field = (Field("country", "category", COUNTRIES, is_optional=False),)
    level = top_level([case for case, _ in conditions], (), field, **more)
    rules = tuple(
        replace(rule, conclusion=conclusion, support=0.04, coverage=0.05, precision=1 - i / 12)
        for i, (rule, (_, conclusion)) in enumerate(zip(level.rules.rules, conditions, strict=True))
    )
    needed = (True,) * len(names)
    return replace(level, rules=replace(level.rules, rules=rules, names=names, needed=needed))


def test_values_of_one_field_are_one_line():
    """Rules that differ in one value; values that are excluded; all of them where they run."""
    rest = tuple(Condition(1 + i, high=0.5) for i in range(12))
    cases = [((Condition(1 + i, low=0.5),), 0) for i in range(12)] + [(rest, 1)]
    level = category_level(cases, ("far", "near"), record=0)
    book = RuleBook((level,))
    first = ", ".join(f"'country {i}'" for i in range(8))
    assert book.in_words() == [
        f"far if country is one of {first} and 4 more",
        f"near if country is none of {first} and 4 more",
    ]
    _, far, near = book.text().splitlines()
    assert far.startswith(f"1-12  far ← country is one of {first} and 4 more.  # precision ")
    assert near.startswith(f" 13  near ← country is none of {first} and 4 more.  # precision ")
    # The figures of the twelve rules together: no country is two.
    mean = 100 * np.mean([1 - i / 12 for i in range(12)])
    assert f"precision  {mean:.1f} %, support  48.0 %, coverage of the class  60.0 %" in far
    assert len(list(book.records())) == 13
    for text in (book.to_sql(), book.to_python(), book.to_prolog(), book.to_json()):
        for country in COUNTRIES:
            assert text.count(f"'{country}'") + text.count(f'"{country}"') >= 2


def test_rules_that_differ_in_more_are_not_joined():
    two = (Condition(1, low=0.5), Condition(2, high=0.5)), (Condition(3, low=0.5),)
    level = category_level([(two[0], 0), (two[1], 0), ((), 1)], ("far", "near"), record=0)
    assert RuleBook((level,)).in_words() == [
        "far if country = 'country 0' and country ≠ 'country 1'",
        "far if country = 'country 2'",
        "always near",
    ]
    assert [each.number for each in level.rules.shown()] == ["1", "2", "3"]


@pytest.mark.parametrize("is_optional", [False, True])
def test_negations_of_all_values_but_one_say_which_is_left(is_optional):
    field = Field("author", "category", ("agent", "bot", "customer"), is_optional=is_optional)
    no_agent, no_bot = Condition(1, high=0.5), Condition(2, high=0.5)
    level = top_level([(no_agent, no_bot), (no_agent,)], (), (field,), record=0)
    left = "author is none of 'agent', 'bot'" if is_optional else "author = 'customer'"
    words = [f"class 0 if {left}", "class 1 if author ≠ 'agent'"]
    assert RuleBook((level,)).in_words() == words
    assert "author is none of 'agent', 'bot'" in RuleBook((level,)).text()  # also of new values
    assert field.shown(b"bot") == "'bot'"
    assert field.shown(b"ghost") == "'ghost' (new)"


@pytest.mark.parametrize(
    ("bag", "some", "none", "where", "nowhere"),
    [
        (
            "orders",
            "some orders are u1",
            "no orders are u1",
            "there are orders where x",
            "there are no orders where x",
        ),
        (
            "type",
            "some type is u1",
            "no type is u1",
            "there is a type where x",
            "there is no type where x",
        ),
        (
            "item",
            "some item is u1",
            "no item is u1",
            "there is an item where x",
            "there is no item where x",
        ),
        (
            "address",
            "some address is u1",
            "no address is u1",
            "there is an address where x",
            "there is no address where x",
        ),
    ],
)
def test_bags_are_called_one_or_several(bag, some, none, where, nowhere):
    lower = top_level(
        [(Condition(0, low=0.5),), (Condition(0, high=0.5),)], (), (Field("x", "boolean"),), 0
    )
    lower = replace(lower, word=bag, path=bag, rules=replace(lower.rules, names=("u1", "u2")))
    members = clusters(path=bag, word=bag)
    top = top_level([(Condition(0, low=0.5),), (Condition(0, high=0.5),)], (members,))
    assert [c.text(top.rules.columns) for r in top.rules for c in r.conditions] == [some, none]
    words = RuleBook((lower, top)).in_words()
    assert words == [f"class 0 if {where}", f"class 1 if {nowhere}"]


def test_reasons_are_data_whatever_names_hold():
    """Names that look like the words around them."""
    names = ("u1: a", "is u1: a if")
    lower = top_level(
        [(Condition(0, low=0.5),), (Condition(0, high=0.5),)], (), (Field("x", "boolean"),), 0
    )
    lower = replace(lower, word="bag", path="bag", rules=replace(lower.rules, names=names))
    members = clusters(path="bag", word="bag", names=names)
    top = top_level([(Condition(1, low=0.5),), (Condition(0, high=0.5),), ()], (members,))
    top = replace(top, rules=replace(top.rules, names=("yes if", "no: always", "x")))
    found = [text for _, text in RuleBook((lower, top)).reasons()]
    assert found == [
        "some bag is is u1: a if; is u1: a if: a bag where not x",
        "no bag is u1: a; u1: a: a bag where x",
        "always x",
    ]

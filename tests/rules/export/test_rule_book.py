"""The rules of all levels."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest
from levels import clusters, top_level

from keras_mmil.rules.export.rule_book import RuleBook
from keras_mmil.rules.trees.rule_set import Condition, Rule, RuleSet


def figures(support, precision, coverage):
    return {"support": support, "precision": precision, "coverage": coverage}


@pytest.fixture
def book():
    """Of three clusters of instances one is needed, of two of sub-bags one."""
    some, none = Condition(0, low=0.5), Condition(0, high=0.5)
    lower_rules = (
        Rule(0, 0, (some,), **figures(0.25, 1.0, 0.4)),
        Rule(0, 1, (Condition(1, high=0.5),), **figures(0.75, 0.5, 1.0)),
    )
    top_rules = (
        Rule(1, 1, (some,), **figures(0.5, 1.0, 1.0)),
        Rule(1, 0, (none,), **figures(0.5, 1.0, 1.0)),
    )
    of_instances = replace(
        clusters(names=("u1", "u2", "u3")), sizes=np.array([0.6, 0.3004, 0.0996])
    )
    of_sub_bags = replace(
        clusters(1, word="sub-bag", names=("v1", "v2")), sizes=np.array([0.25, 0.75])
    )

    def make(top_rules=top_rules):
        top = top_level([()], (of_sub_bags,), record=2)
        rules = RuleSet(top_rules, top.space.columns, ("negative", "positive"), (True, True))
        top = replace(top, rules=rules)
        lower = top_level([()], (of_instances,), record=1, word="sub-bag")
        (needed,) = top.needed
        rules = RuleSet(lower_rules, lower.space.columns, of_sub_bags.names, needed)
        return RuleBook((replace(lower, rules=rules), top))

    return make


def test_a_book_of_rules_shows_what_is_needed(book):
    rules = book()
    assert rules.constant is None
    assert (
        rules.text()
        == """\
sub-bags, by their instances: u1 60.0 %
  1  v1 ← o_u1=1.  # precision 100.0 %, support  25.0 %, coverage of the class  40.0 %

top-bags, by their sub-bags: v1 25.0 %
  1  positive ← o_v1=1.  # precision 100.0 %, support  50.0 %, coverage of the class 100.0 %
  2  negative ← o_v1=0.  # precision 100.0 %, support  50.0 %, coverage of the class 100.0 %

# Not used in any decision: 1 rule, 3 clusters. See text(all=True)."""
    )
    assert (
        str(rules)
        == """\
   top-bags  network agrees
2    50.0 %         100.0 %  negative if no sub-bag is v1
1    50.0 %         100.0 %  positive if at least one sub-bag holds a u1

v1: a sub-bag that holds a u1"""
    )
    lower = rules.text(all=True).split("\n\n")[0]
    assert (
        lower
        == """\
sub-bags, by their instances: u1 60.0 %, u2 30.0 % (not used), u3 10.0 % (not used)
  1  v1 ← o_u1=1.  # precision 100.0 %, support  25.0 %, coverage of the class  40.0 %
  2  v2 ← o_u2=0.  # precision  50.0 %, support  75.0 %, coverage of the class 100.0 %, \
not used"""
    )
    assert "left out" not in rules.text(all=True)
    assert rules.levels[0].text(all=True) == lower
    assert str(rules.levels[0]).splitlines()[-1] == (
        "# Not used in any decision: 1 rule, 2 clusters. See text(all=True)."
    )
    record = next(rules.records())
    assert (record["precision"], record["support"], record["coverage"]) == (1.0, 0.25, 0.4)


def test_representation_is_short(digit_explainer):
    book = digit_explainer.rules_
    assert repr(book) == f"<RuleBook: {len(book)} rules of 2 levels; print() shows them>"


def test_constant_rules_are_called_so(book):
    rules = book((Rule(1, 0, (), **figures(1.0, 0.8, 1.0)),))
    assert rules.constant == "negative"
    assert (
        rules.text()
        == """\
# CONSTANT: the rules put every top-bag into one class, 'negative'. They find nothing that tells \
classes apart.

# Not used in any decision: 2 rules, 5 clusters. See text(all=True)."""
    )
    assert rules.text(all=True).startswith("# CONSTANT: the rules put every top-bag")
    assert str(rules.levels[-1]).startswith("# CONSTANT: the rules put every top-bag")
    # Sub-bags that are all the same, which makes no difference to the top-bags, are not named.
    lower, top = rules.levels
    same = replace(lower.rules, rules=(Rule(0, 1, (), **figures(1.0, 0.5, 1.0)),))
    listed = RuleBook((replace(lower, rules=same), top)).text()
    assert same.constant is not None
    assert listed.count("CONSTANT") == 1
    assert listed.startswith("# CONSTANT: the rules put every top-bag")
    needed = replace(same, needed=(True,) * len(same.needed))
    assert "every sub-bag" in RuleBook((replace(lower, rules=needed), top)).text()
    two = Rule(1, 0, (Condition(0, high=2.5),), **figures(0.5, 0.8, 0.5))
    three = Rule(1, 0, (Condition(0, low=1.5),), **figures(0.5, 0.8, 0.5))
    assert book((two, three)).constant == "negative"  # of several rules, all the same


def test_rules_as_data(digit_explainer):
    data = json.loads(digit_explainer.rules_.to_json())
    assert [len(level["rules"]) for level in data["levels"]] == [3, 2]
    assert data["levels"][1]["conclusions"] == ["negative", "positive"]
    assert len(digit_explainer.rules_) == len(list(digit_explainer.rules_)) == 5
    frame = digit_explainer.to_dataframe()
    assert list(frame["clause"]) == [
        rule.clause(level.space.columns, level.rules.names)
        for level in digit_explainer.levels_
        for rule in level.rules
    ]
    assert set(frame["bags"]) == {"sub-bag", "top-bag"}
    assert list(frame["coverage"]) == [rule.coverage for rule in digit_explainer.rules_]
    assert data["levels"][1]["rules"][0]["coverage"] == list(digit_explainer.rules_)[3].coverage


def test_missing_pandas(book, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        book().to_dataframe()

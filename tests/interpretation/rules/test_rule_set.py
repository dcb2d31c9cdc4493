"""The rules of one level."""

import numpy as np
import pytest

from keras_mmil.interpretation.rules.columns import Column
from keras_mmil.interpretation.rules.rule import Condition, Rule
from keras_mmil.interpretation.rules.rule_set import RuleSet

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
    assert Rule.from_dict(rules[0].to_dict()) == rules[0]


def test_rule_set_refuses_what_is_no_bag():
    rules = (Rule(0, 0, (Condition(0, low=0.5),), support=1.0, precision=1.0, coverage=1.0),)
    with pytest.raises(ValueError, match=r"no bag has: \[0.0\]"):
        RuleSet(rules, OF_U[:1], ("v1",), (True,)).predict(np.zeros((1, 1)))

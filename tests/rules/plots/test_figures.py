"""What pictures share."""

import sys

import pytest

from keras_mmil.rules.plots.figures import new_figure, wrap_clause


def test_clauses_are_wrapped_between_conditions():
    clause = "v1 ← f_u9 ∈ (1.653, 11.22] %, f_u10 ≤ 12.7 %, o_in front=0."
    wrapped = [line.replace("\xa0", " ") for line in wrap_clause(clause, 12).splitlines()]
    conditions = ["f_u9 ∈ (1.653, 11.22] %,", "f_u10 ≤ 12.7 %,", "o_in front=0."]
    assert wrapped == ["v1 ←", *conditions]
    assert wrap_clause(clause, 80).replace("\xa0", " ") == clause


def test_missing_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"keras-mmil\[plots\]"):
        new_figure(3, 2)

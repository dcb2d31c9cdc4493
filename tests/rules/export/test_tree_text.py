"""Long books of rules, which are printed as trees."""

from dataclasses import replace

import numpy as np
import pytest
from levels import top_level

from keras_mmil.rules.export.rule_book import RuleBook
from keras_mmil.rules.export.tree_text import tree_lines
from keras_mmil.rules.trees.fields import Field
from keras_mmil.rules.trees.learn import learn_rules
from keras_mmil.rules.trees.tree import Examples, grow

NAMES = ("red", "green", "blue")


def level_of(n_squares, n=400):
    """Rules about points on a board of so many squares a side, each of some colour."""
    rng = np.random.default_rng(0)
    points = rng.integers(0, 4 * n_squares, (n, 2)).astype(np.float32) / 4
    colours = rng.integers(0, 3, (n_squares, n_squares))
    labels = colours[tuple(points.astype(int).T)]
    weights = rng.integers(1, 4, n).astype(float)
    examples = Examples(points, labels, weights)
    level = top_level([()], (), tuple(Field(x, "number", is_optional=False) for x in "xy"), 0)
    tree = grow(examples, is_measured=np.ones(2, bool))
    rules = learn_rules(tree, level.space, level=0, examples=examples)
    rules = replace(level.rules, rules=rules, names=NAMES, needed=(True,) * 3)
    return replace(level, tree=tree, rules=rules, leaves=tree.figures(examples)), examples


def program_of(lines):
    """The tree as a function in Python."""
    code = []
    for line in lines:
        text = line.text.lstrip()
        indent = "   " * ((len(line.text) - len(text)) // 3)
        text = text.replace("else if ", "elif ").replace("≤", "<=")
        head, _, name = text.rpartition(" ")
        if name in NAMES:
            text = f"{head.rstrip(':')}: found = {name!r}"
        code.append(f"{indent}{text}")

    def run(x, y):
        names = {"x": x, "y": y}
        exec("\n".join(code), names)
        return NAMES.index(names["found"])

    return run


@pytest.mark.parametrize("n_squares", [2, 3, 5])
def test_a_tree_says_what_the_rules_do(n_squares):
    level, examples = level_of(n_squares)
    lines, _ = tree_lines((level,))
    run = program_of(lines)
    found = [run(*map(float, point)) for point in examples.bags]
    assert found == level.tree.predict(examples.bags).tolist() == examples.labels.tolist()
    # Each condition stands once, and each rule at a leaf of its own.
    assert sum("if " in line.text for line in lines) == level.tree.n_leaves - 1
    assert sum(line.figures is not None for line in lines) == level.tree.n_leaves
    numbers = [line.number for line in lines if line.number is not None]
    assert set(numbers) == set(range(1, len(level.rules) + 1))
    for line in lines:
        if line.number is not None:
            rule = level.rules.rules[line.number - 1]
            assert line.text.endswith(NAMES[rule.conclusion])
            assert line.figures[0] <= rule.support + 1e-12
    shares, precisions = zip(*(line.figures for line in lines if line.figures), strict=True)
    assert sum(shares) == pytest.approx(1)
    assert set(precisions) == {1.0}


def test_long_books_are_printed_as_trees():
    short, _ = level_of(2)
    long, _ = level_of(5)
    assert len(short.rules) <= 8 < len(long.rules)
    listed = str(RuleBook((short,))).splitlines()
    assert len(listed) == 1 + len(short.rules)
    assert all(" if " in line for line in listed[1:])
    first, *others = str(RuleBook((long,))).splitlines()
    assert first.split() == ["top-bags", "network", "agrees"]
    lines, _ = tree_lines((long,))
    assert [line.text in text for line, text in zip(lines, others, strict=True)] == [True] * len(
        lines
    )
    found = next((line, text) for line, text in zip(lines, others, strict=True) if line.figures)
    assert found[1].split()[:2] == [str(found[0].number), f"{100 * found[0].figures[0]:.1f}"]
    unknown = str(RuleBook((replace(long, leaves=()),)))  # as in files of older versions
    assert " %" not in unknown
    assert len(unknown.splitlines()) == len(others)  # without a head

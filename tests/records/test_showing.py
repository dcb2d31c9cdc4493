"""Schemas as tables."""

from keras_mmil.records.fields import Field
from keras_mmil.records.showing import as_text
from keras_mmil.records.statistics import Values


def values(counts):
    return Values(count=sum(counts.values()), counts=counts, smallest=tuple(sorted(counts)))


UNCOUNTED = Values(count=1, counts=None, smallest=("x",))
PARTS = [
    Field("age", "age", "number", "numbers", "number", 0.125, values({30: 2, 7: 5})),
    Field("id", "id", "identifier", "all differ", "text", 0.0, UNCOUNTED),
    Field("orders", "orders", "bag", "up to 3 members", "bag", 1 / 3, None),
    Field("z" * 70, "z", "text", "w" * 61, "text", 0.0, values({"a b": 1})),
]


def test_the_table():
    long = "z" * 59 + "…"
    assert as_text(PARTS).splitlines() == [
        line.rstrip()
        for line in (
            f"{'path':<60}  {'kind':<10}  {'why':<60}  missing  distinct  examples",
            f"{'age':<60}  {'number':<10}  {'numbers':<60}     12 %         2  7, 30",
            f"{'id':<60}  {'identifier':<10}  {'all differ':<60}      0 %      many  x",
            f"{'orders':<60}  {'bag':<10}  {'up to 3 members':<60}     33 %",
            f"{long}  {'text':<10}  {'w' * 59}…      0 %         1  a b",
        )
    ]


def test_columns_are_as_wide_as_what_is_in_them():
    first, second = as_text(PARTS[:1]).splitlines()
    assert first == "path  kind    why      missing  distinct  examples"
    assert second == "age   number  numbers     12 %         2  7, 30"


def test_no_parts():
    assert as_text([]) == "path  kind  why  missing  distinct  examples"

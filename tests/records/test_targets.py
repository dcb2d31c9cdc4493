"""What is to be predicted of records."""

import numpy as np
import pytest

from keras_mmil.records import Schema

RECORDS = [
    {
        "n": 1.5,
        "late": True,
        "paid": False,
        "city": "Rome",
        "tags": ["new", "big"],
        "in": [{"c": 1}],
    },
    {"n": 3, "late": False, "paid": False, "city": "", "tags": [], "in": [{"c": 2}]},
    {"n": -2, "late": True, "paid": True, "city": "Rome", "tags": None, "in": [{"c": 1}]},
    {"n": 0, "late": False, "paid": True, "city": "", "tags": ["big", None, "big"], "in": []},
]
RECORDS = [record | {"code": code} for record, code in zip(RECORDS, (7, 9, 8, 7), strict=True)]
OTHER = {"n": None, "late": None, "paid": None, "city": None, "tags": ["new", "odd"]}


@pytest.fixture
def schema():
    schema = Schema.infer(RECORDS)
    for path in ("city", "code", "tags"):
        schema[path] = "category"
    return schema


@pytest.mark.parametrize(
    ("target", "classes", "expected"),
    [
        ("n", (), [1.5, 3, -2, 0]),
        ("late", (False, True), [1, 0, 1, 0]),
        ("city", ("", "Rome"), [1, 0, 1, 0]),
        ("code", (7, 8, 9), [0, 2, 1, 0]),
        ("tags", ("big", "new"), [[1, 1], [0, 0], [0, 0], [1, 0]]),
        (["late", "paid"], ("late", "paid"), [[1, 0], [0, 0], [1, 1], [0, 1]]),
        (("paid",), ("paid",), [[0], [0], [1], [1]]),
        (["n"], (), [[1.5], [3], [-2], [0]]),
    ],
)
def test_labels(schema, target, classes, expected):
    assert schema.classes(target) == classes
    x, y = schema.read(RECORDS, target)
    assert y.tolist() == expected
    assert y.dtype == (np.int64 if classes else np.float32)
    paths = {target} if isinstance(target, str) else set(target)
    assert not paths & {path.removesuffix("[]") for path in x}
    assert len(x) == 7 - len(paths)
    dataset = schema.dataset(RECORDS, 3, target=target)
    batches = [labels.numpy().tolist() for _, labels in dataset]
    assert batches == [expected[:3], expected[3:]]
    assert dataset.element_spec[1].shape.as_list() == [None, *y.shape[1:]]


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("n", "known value of 'n' in each record. Received: nothing in 1 of 5"),
        ("late", "'late'"),
        ("city", "'city' in each record.*nothing in 1 of 5"),
        ("code", "'code' in each record.*nothing in 1 of 5"),
        ("tags", r"'tags\[\]' in each record. Received: b'odd' in 1 of 7"),
        (["late", "paid"], "'late'"),
    ],
)
def test_labels_that_are_missing_or_unknown(schema, target, shown):
    with pytest.raises(ValueError, match=shown):
        schema.read([*RECORDS, OTHER], target)


@pytest.mark.parametrize(
    ("target", "shown"),
    [
        ("in", "'in', which is bag"),
        (["late", "n"], "'late', which is boolean, 'n', which is number"),
        (["late", "late"], "different paths"),
        (["city"], "'city', which is category"),
        ([], "Received: none"),
    ],
)
def test_what_is_no_target(schema, target, shown):
    with pytest.raises(ValueError, match=shown):
        schema.read(RECORDS, target)
    with pytest.raises(ValueError, match=shown):
        schema.classes(target)


def test_targets_are_in_no_bag(schema):
    for read in (schema.read, lambda *a, **k: schema.dataset(*a, 2, **k)):
        with pytest.raises(ValueError, match=r"in no bag\. Received: 'in\.c'"):
            list(read(RECORDS, target="in.c"))
    with pytest.raises(KeyError, match="Received: 'none'"):
        schema.read(RECORDS, ["late", "none"])

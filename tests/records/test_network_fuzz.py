"""Any documents at all, read by a schema and predicted: nothing crashes without a path."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nested_records import draw_values

from keras_mmil.records import Schema
from keras_mmil.records.network import Labels, records_model

KNOWN = [
    {
        "age": 31.5,
        "city": "Rome",
        "note": "asked for a refund",
        "since": "2026-01-31",
        "vip": True,
        "orders": [{"price": 9.5, "kind": "toy", "items": [{"n": 1}, {"n": 2}]}, {"price": 3}],
        "tags": ["a", "b"],
        "address": {"zip": 123, "lines": ["x y", "z"]},
        "odd": "text",
    },
    {
        "age": 40,
        "city": "Oslo",
        "note": "late again and again",
        "since": "2025-11-30T12:00:00",
        "vip": False,
        "orders": [{"price": 1.5, "kind": "book", "items": []}],
        "tags": ["b"],
        "address": {"zip": 456, "lines": []},
        "odd": 5,
    },
] * 3
NAMES = [*KNOWN[0], "price", "kind", "items", "n", "zip", "lines", "key"]
EXTRA = "not in the schema"

KEYS = st.sampled_from(NAMES) | st.text(max_size=4)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
    | st.sampled_from(["", "\0", "toy", "Rome", "2026-02-30", "2026-02-28", "x" * 70_000])
)


def nested(depth, inner):
    for i in range(depth):
        inner = [inner] if i % 2 else {"items": inner}
    return inner


VALUES = draw_values(SCALARS, KEYS) | st.builds(nested, st.integers(1, 70), SCALARS)
DOCUMENTS = st.lists(st.dictionaries(KEYS, VALUES, max_size=6), min_size=20, max_size=20)


@pytest.fixture(scope="module")
def schema():
    return Schema.infer(KNOWN)


@pytest.fixture(scope="module")
def model(schema):
    model = records_model(schema, Labels("classes", 2), units=4, seed=0)
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(0, 0.5, w.shape).astype("float32") for w in model.weights])
    return model


def predicted(schema, model, document):
    """The prediction for a document; or the error that names where it cannot be read."""
    try:
        x = schema.read([document])
    except ValueError as error:
        assert_named(error)
        return None
    return x


def assert_named(error):
    """An error says where: a path of the schema, or the levels, and the number of the record."""
    text = str(error)
    names_place = "at '" in text or "levels" in text or "Received: a key" in text
    assert names_place, text
    assert "record 0" in text, text


def check(schema, model, documents):
    readable = [each for each in documents if predicted(schema, model, each) is not None]
    if not readable:
        return
    x = schema.read(readable)
    found = model.predict_on_batch(x)
    assert np.isfinite(found).all()
    # Fields that the schema has not change nothing.
    with_more = copy.deepcopy(readable)
    for document in with_more:
        document[EXTRA] = [{"a": document.get("orders")}]
    more = schema.read(with_more)
    assert list(more) == list(x)
    np.testing.assert_array_equal(model.predict_on_batch(more), found)
    # Nor does what else is in the batch.
    alone = model.predict_on_batch(schema.read(readable[-1:]))
    np.testing.assert_allclose(alone[0], found[-1], rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*(are read as missing|nothing at)")
@settings(max_examples=5)
@given(DOCUMENTS)
def test_any_documents(schema, model, documents):
    check(schema, model, documents)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*(are read as missing|nothing at)")
@given(DOCUMENTS)
def test_two_thousand_documents(schema, model, documents):
    check(schema, model, documents)


def test_the_schema_is_of_many_kinds(schema):
    kinds = {field.kind for field in schema}
    assert kinds >= {"number", "boolean", "time", "bag", "record"}
    assert {"odd<number>", "odd<text>"} <= {field.path for field in schema}

"""Parts by path, and their kinds; more in test_schema.py."""

import pytest

from keras_mmil.records import Schema

RECORDS = [
    {"age": i, "tags": ["a", "b"][: i % 3], "orders": [{"price": i / 2, "note": None}], "n": x}
    for i, x in enumerate([1, "one", 2, "two"] * 3)
]


@pytest.fixture
def schema():
    return Schema.infer(RECORDS)


def state(schema):
    return {field.path: (field.kind, field.why) for field in schema}, str(schema)


def test_parts_are_found_by_their_paths(schema):
    paths = ["age", "tags", "tags[]", "orders", "orders.price", "orders.note", "n<number>"]
    assert [field.path for field in schema] == [*paths, "n<text>"]
    assert (len(schema), schema.n_records) == (8, 12)
    for path in paths:
        assert path in schema
        assert schema[path].path == path
    assert "n" not in schema
    with pytest.raises(KeyError, match=r"such as age, tags, .*Received: 'price'"):
        schema["price"]


def test_what_is_chosen_changes_that_part_alone(schema):
    before, _ = state(schema)
    schema["age"] = "category"
    schema["tags"] = "text"  # of its members
    after, _ = state(schema)
    changed = {path for path in before if before[path] != after[path]}
    assert changed == {"age", "tags[]"}
    assert after["age"] == ("category", "chosen")
    assert after["tags[]"] == ("text", "chosen")
    del schema["age"], schema["tags[]"]
    assert state(schema)[0] == before


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda schema: schema.__setitem__("age", "text"), ValueError),
        (lambda schema: schema.__setitem__("orders", "number"), ValueError),
        (lambda schema: schema.__setitem__("price", "number"), KeyError),
        (lambda schema: schema.__delitem__("age"), KeyError),
        (lambda schema: schema.drop("price"), KeyError),
    ],
)
def test_a_refused_change_changes_nothing(schema, change, error):
    schema["tags"] = "text"
    before, root = state(schema), schema.root
    with pytest.raises(error, match="Expected"):
        change(schema)
    assert state(schema) == before
    assert schema.root is root


def test_what_is_dropped_has_no_parts(schema):
    schema.drop("orders")
    schema.drop("n")  # of both types
    assert "orders.price" not in schema
    kinds = {field.path: field.kind for field in schema}
    assert kinds["orders"] == kinds["n<number>"] == kinds["n<text>"] == "dropped"


def test_paths_that_are_written_alike_are_named(schema):
    for act in (lambda: schema["orders.prise"], lambda: schema.read(RECORDS, "orders.prise")):
        with pytest.raises(KeyError, match=r"such as orders\.price.*\. Received: 'orders\.prise'"):
            act()


def test_what_is_dropped_with_its_parent_says_so(schema):
    schema.drop("orders")
    schema.drop("n")
    said = r"Received: 'orders\.price', which is in 'orders', dropped by the choice 'orders'"
    for act in (lambda: schema["orders.price"], lambda: schema.read(RECORDS, "orders.price")):
        with pytest.raises(KeyError, match=said):
            act()
    with pytest.raises(KeyError, match="Received: 'gone'\""):
        schema["gone"]

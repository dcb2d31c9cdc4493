import pytest

from keras_mmil.records import Schema, paths


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("price", "price"),
        ("größe", "größe"),
        ("a-b_c", "a-b_c"),
        ("a.b", '"a.b"'),
        ("", '""'),
        ("a b", '"a b"'),
        ('a"b', r'"a\"b"'),
        ("a[]", '"a[]"'),
        ("a<text>", '"a<text>"'),
        ("\n", r'"\n"'),
    ],
)
def test_names_in_paths(name, shown):
    assert paths.child("", name) == shown
    assert paths.child("orders", name) == f"orders.{shown}"
    schema = Schema.infer([{"orders": [{name: 1.5}, {name: 2}]}])
    assert schema[f"orders.{shown}"].name == name


def test_paths_of_members_and_alternatives():
    assert paths.item("orders") == "orders[]"
    assert paths.alternative("orders[]", "text") == "orders[]<text>"

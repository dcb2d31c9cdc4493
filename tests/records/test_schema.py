"""Schemas against loops over the records, however these come in batches."""

import copy
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nested_records import draw_records, draw_values, is_missing, type_of

from keras_mmil.records import Schema, profiling
from keras_mmil.records.fields import Field
from keras_mmil.records.profiling import Values

SHOP = [
    {"id": 1, "orders": [{"price": 9.5, "kind": "toy"}, {"price": 3, "kind": "toy"}]},
    {"id": 2, "orders": [{"price": 1.5, "kind": "book"}, {"kind": "book"}]},
    {"id": 3, "orders": None},
]

NUMBERS = st.integers(-(10**6), 10**6) | st.sampled_from(
    [0, 1, -0.0, 2.0, 0.5, -1e3, math.nan, math.inf, 2**53, -(10**400)]
)
TEXTS = st.text(max_size=6) | st.sampled_from(
    ["2020-01-31", "2020-01-31T10:00:00Z", "a b", "\ud800"]
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
KEYS = st.sampled_from(["a", "b", "key", "", 'a."b', *(f"n{i}" for i in range(12))]) | st.text(
    max_size=3
)
VALUES = draw_values(SCALARS, KEYS)
RECORDS = draw_records(VALUES, KEYS)


def seen_by_loop(values):
    """What `FieldProfile` holds, as a dict, from a loop over the values of a place."""
    found = {"count": len(values)}
    present = [value for value in values if not is_missing(value)]
    for type_ in dict.fromkeys(map(type_of, present)):
        these = [value for value in present if type_of(value) == type_]
        found[type_] = {"count": len(these)}
        if type_ == "record":
            keys = dict.fromkeys(key for value in these for key in value)
            found[type_] |= {k: seen_by_loop([value.get(k) for value in these]) for k in keys}
        elif type_ == "bag":
            found[type_]["members"] = seen_by_loop([x for value in these for x in value])
            found[type_]["largest"] = max(map(len, these))
        else:
            these = [clean(value) for value in these]
            found[type_]["counts"] = {x: these.count(x) for x in these}
            found[type_]["n_integers"] = sum(type_ == "number" and x == int(x) for x in these)
            found[type_]["n_words"] = sum(len(words(x)) for x in these if type_ == "text")
            if type_ == "number":
                mean = math.fsum(map(float, these)) / len(these)
                found[type_]["mean"] = mean
                found[type_]["squares"] = math.fsum((float(x) - mean) ** 2 for x in these)
    return found


def words(text):
    for blank in "\t\n\v\f\r":
        text = text.replace(blank, " ")
    return [word for word in text.split(" ") if word]


def clean(value):
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    return float(value) if not isinstance(value, bool) and abs(value) >= 2**53 else value


def as_dict(observed):
    found = {"count": observed.count}
    for type_, seen in observed.by_type.items():
        found[type_] = {"count": seen.count}
        if type_ == "record":
            found[type_] |= {name: as_dict(part) for name, part in seen.fields.items()}
        elif type_ == "bag":
            found[type_] |= {"members": as_dict(seen.members), "largest": seen.largest}
        else:
            names = ["counts", "n_integers", "n_words"] + ["mean", "squares"] * (type_ == "number")
            found[type_] |= {name: getattr(seen, name) for name in names}
            in_order = sorted(seen.counts)
            assert seen.smallest == tuple(in_order[:3])
            assert seen.largest == in_order[-1]
    return found


def assert_equal(found, expected):
    """Equal, moments to rounding."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if isinstance(value, dict):
            assert_equal(found[name], value)
        elif isinstance(value, float):
            assert found[name] == pytest.approx(value, rel=1e-6, abs=1e-3)
        else:
            assert found[name] == value, name


def as_comparable(seen):
    """Statistics as nested dicts, for `assert_equal`."""
    if not hasattr(seen, "__dataclass_fields__"):
        return seen
    found = {name: getattr(seen, name) for name in seen.__dataclass_fields__}
    for name in ("fields", "by_type"):
        if name in found:
            found[name] = {key: as_comparable(part) for key, part in found[name].items()}
    if "positions" in found:
        found["positions"] = dict(enumerate(found["positions"]))
        found["positions"] = {str(i): as_comparable(x) for i, x in found["positions"].items()}
    return {name: as_comparable(part) for name, part in found.items()}


def with_clean_keys(value):
    if isinstance(value, dict):
        return {clean(key): with_clean_keys(part) for key, part in value.items()}
    return [with_clean_keys(part) for part in value] if isinstance(value, list) else value


@given(RECORDS)
def test_statistics_are_those_of_a_loop(records):
    records = with_clean_keys(records)
    observed = Schema.infer(copy.deepcopy(records))._profile
    assert_equal(as_dict(observed), seen_by_loop(records))


@pytest.mark.parametrize("limit", ["", "MAX_FIELDS", "MAX_VALUES", "LONGEST"])
def test_batches_do_not_matter(limit, monkeypatch):
    """Nor where keys, values or long texts are no longer told apart."""
    if limit:
        monkeypatch.setattr(profiling, limit, 2)

    @given(st.lists(VALUES, min_size=1, max_size=6), st.lists(VALUES, min_size=1, max_size=6))
    def check(one, two):
        one, two = ([{"x": value} for value in with_clean_keys(values)] for values in (one, two))
        at_once = Schema.infer(one + two)
        updated = Schema.infer(one)
        updated.update(two)
        merged = Schema.merge(Schema.infer(one), Schema.infer(two))
        for schema in (updated, merged):
            assert_equal(as_comparable(schema._profile), as_comparable(at_once._profile))
            lines, expected = str(schema).splitlines(), str(at_once).splitlines()
            assert sorted(line.split()[:2] for line in lines) == sorted(
                line.split()[:2] for line in expected
            )

    check()


@given(RECORDS)
def test_saved_schemas_are_loaded(tmp_path_factory, records):
    path = tmp_path_factory.mktemp("schemas") / "schema.json"
    schema = Schema.infer(with_clean_keys(records))
    schema.save(path)
    assert Schema.load(path) == schema
    assert str(Schema.load(path)) == str(schema)


def test_the_table():
    lines = str(Schema.infer(SHOP)).splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["path", "kind"],
        ["id", "identifier"],
        ["orders", "bag"],
        ["orders.price", "number"],
        ["orders.kind", "category"],
    ]
    assert lines[3].split("  ")[-1] == "1.5, 3, 9.5"
    assert "33 %" in lines[2]
    assert "25 %" in lines[3]
    assert repr(Schema.infer(SHOP)) == "<Schema of 3 records with 4 parts>"


def test_kinds_are_chosen_and_taken_back():
    schema = Schema.infer(SHOP)
    schema["orders.kind"] = "text"
    assert (schema["orders.kind"].kind, schema["orders.kind"].why) == ("text", "chosen")
    schema["id"] = "category"
    assert list(schema.read(SHOP)) == ["id", "orders.price", "orders.kind"]
    del schema["orders.kind"]
    assert schema["orders.kind"].kind == "category"
    with pytest.raises(KeyError, match=r"a kind was chosen: id\. Received: 'orders.kind'"):
        del schema["orders.kind"]
    with pytest.raises(ValueError, match=r"for 'orders.price': number, dropped. Received: 'te"):
        schema["orders.price"] = "text"
    with pytest.raises(KeyError, match=r"such as orders.price, .*Received: 'orders.size'"):
        schema["orders.size"] = "number"
    assert schema["orders.price"].kind == "number"


def test_choices_in_what_is_dropped_are_saved(tmp_path):
    schema = Schema.infer(SHOP)
    schema.drop("orders")
    other = Schema.infer(SHOP)
    other["orders.kind"] = "text"
    merged = Schema.merge(schema, other)
    merged.save(tmp_path / "schema.json")
    assert Schema.load(tmp_path / "schema.json") == merged


def test_a_choice_that_no_longer_holds_is_refused():
    schema = Schema.infer([{"x": 1}, {"x": 2}])
    schema["x"] = "category"
    before = str(schema)
    with pytest.raises(ValueError, match=r"Expected category at 'x', as chosen. Received: number"):
        schema.update([{"x": "a"}])
    assert str(schema) == before
    with pytest.raises(ValueError, match=r"for 'x': number, dropped. Received: 'category'"):
        schema.update([{"x": 0.5}])


def test_different_choices_are_not_merged():
    one, two = Schema.infer(SHOP), Schema.infer(SHOP)
    one["orders.kind"] = "text"
    two["orders.kind"] = "category"
    with pytest.raises(ValueError, match=r"'orders.kind' is 'text' and 'category'"):
        Schema.merge(one, two)


def test_merging_leaves_both_as_they_were():
    one, two = Schema.infer(SHOP[:1]), Schema.infer(SHOP[1:])
    before = copy.deepcopy((one._profile, two._profile))
    Schema.merge(one, two).update([{"orders": [{"price": 7, "kind": "car"}]}])
    assert (one._profile, two._profile) == before


def test_keys_of_dicts_can_be_data():
    records = [{"by": {f"id{i}": {"x": i, "y": "a b"} for i in range(n)}} for n in (3, 12, 0, 0)]
    schema = Schema.infer(records)
    assert schema["by"].kind == "bag"
    assert "by key: 12 keys, each in 31 % of the records" in schema["by"].why
    assert [field.path for field in schema] == ["by", "by.key", "by.x", "by.y"]
    assert schema["by.x"].seen.count == 15
    schema["by"] = "record"
    assert schema["by.id3.x"].seen.count == 1
    schema["by"] = "bag"
    assert schema["by.key"].seen.counts["id2"] == 2


def test_a_key_named_key_has_its_place():
    records = [
        {"by": {f"id{i}": {"key": i, "_key": i % 3} for i in range(12)}},
        {"by": {}},
        {"by": {}},
    ]
    paths = [field.path for field in Schema.infer(records)]
    assert paths == ["by", "by.__key", "by.key", "by._key"]


def test_objects_in_bags_are_records_or_by_key_by_choice():
    """Also where lists hold them, whose path is that of the list."""
    sparse = [{"bag": [{f"k{i % 20}": i}, {f"k{(i + 1) % 20}": i}]} for i in range(40)]
    schema = Schema.infer(sparse)
    assert [field.path for field in schema] == ["bag", "bag[]", "bag[].key", "bag[][]"]
    assert schema["bag[]"].is_map
    schema["bag[]"] = "record"
    assert (schema["bag[]"].kind, schema["bag"].kind) == ("record", "bag")
    (one, two), (three, four) = schema.read(sparse[:2])["bag.k1"].to_list()
    assert (two, three) == (0.0, 1.0)
    assert math.isnan(one)
    assert math.isnan(four)
    schema["bag[]"] = "bag"
    assert schema["bag[].key"].kind == "category"
    full = Schema.infer([{"bag": [{f"x{i}": i + j for i in range(12)}]} for j in range(5)])
    assert [field.path for field in full] == ["bag", *(f"bag.x{i}" for i in range(12))]
    full["bag[]"] = "bag"
    assert full["bag[].key"].n_distinct == 12
    del full["bag[]"]
    assert full["bag.x3"].kind == "number"


def test_nothing_is_refused():
    for source in ([], iter(())):
        with pytest.raises(ValueError, match=r"at least one record. Received: none in a list"):
            Schema.infer(list(source))
    with pytest.raises(ValueError, match=r"at most 10000 fields .* at the top. Received: more"):
        Schema.infer([{f"x{i}": 1 for i in range(10001)}])


def test_a_failed_update_changes_nothing():
    schema = Schema.infer(SHOP)
    before = copy.deepcopy(schema._profile)
    with pytest.raises(TypeError, match=r"Received: object at orders.price, in record 1"):
        schema.update([*SHOP[:1], {"orders": [{"price": object()}]}])
    assert schema._profile == before


def test_generators_are_read_once():
    assert Schema.infer(record for record in SHOP) == Schema.infer(SHOP)


def test_the_choices_of_another_schema():
    schema = Schema.infer([{"a": i, "b": "x" * (i % 2), "c": [i]} for i in range(20)])
    schema["a"] = "category"
    schema.drop("c")
    assert schema.choices == {"a": "category", "c": "dropped"}
    schema.choices["b"] = "text"  # a copy
    assert schema["b"].kind == "category"
    again = Schema.infer([{"a": 3, "b": "x"}] * 3, choices=schema.choices)
    assert again.choices == {"a": "category"}  # there is no c
    assert again["a"].seen.counts == {3: 3}
    mixed = Schema.infer([{"a": 1}, {"a": "x"}], choices={"a": "dropped", "a<text>": "text"})
    assert mixed.choices == {"a": "dropped", "a<text>": "text"}
    with pytest.raises(ValueError, match="for 'b'"):
        Schema.infer([{"b": "x"}], choices={"b": "number"})


AGES = [
    {"age": i, "tags": ["a", "b"][: i % 3], "orders": [{"price": i / 2, "note": None}], "n": x}
    for i, x in enumerate([1, "one", 2, "two"] * 3)
]


@pytest.fixture
def schema():
    return Schema.infer(AGES)


def state(schema):
    return {field.path: (field.kind, field.why) for field in schema}, str(schema)


def test_parts_are_found_by_their_paths(schema):
    paths = ["age", "tags", "tags[]", "orders", "orders.price", "orders.note", "n<number>"]
    assert [field.path for field in schema] == [*paths, "n<text>"]
    assert (len(schema), schema.n_records) == (8, 12)
    for path in paths:
        assert path in schema
        assert schema[path].path == path
    assert schema["orders"].kind == "bag"  # not the record in it, which has the same path
    assert "n" not in schema
    with pytest.raises(KeyError, match=r"such as age, tags, .*Received: 'price'"):
        schema["price"]
    for act in (lambda: schema["orders.prise"], lambda: schema.read(AGES, "orders.prise")):
        with pytest.raises(KeyError, match=r"such as orders\.price.*\. Received: 'orders\.prise'"):
            act()


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


def test_parts_are_dropped_with_all_in_them(schema):
    assert "50 % of what is there are numbers" in schema["n<number>"].why
    schema["tags[]"] = "text"
    for path in ("orders", "tags", "n"):  # n of both types
        schema.drop(path)
    assert "orders.price" not in schema
    kinds = {field.path: field.kind for field in schema}
    assert kinds["orders"] == kinds["n<number>"] == kinds["n<text>"] == "dropped"
    assert list(schema.read(AGES)) == ["age"]
    said = r"Received: 'orders\.price', which is in 'orders', dropped by the choice 'orders'"
    for act in (lambda: schema["orders.price"], lambda: schema.read(AGES, "orders.price")):
        with pytest.raises(KeyError, match=said):
            act()
    for act in (lambda: schema["gone"], lambda: schema.drop("gone")):
        with pytest.raises(KeyError, match="Received: 'gone'\""):
            act()
    del schema["tags"]
    assert schema["tags[]"].kind == "text"


def values(counts):
    return Values(count=sum(counts.values()), counts=counts, smallest=tuple(sorted(counts)))


def test_the_columns_of_the_table():
    parts = [
        Field("age", "age", "number", "numbers", "number", 0.125, values({30: 2, 7: 5})),
        Field("id", "id", "identifier", "all differ", "text", 0.0, Values(1, None, ("x",))),
        Field("orders", "orders", "bag", "up to 3 members", "bag", 1 / 3, None),
        Field("z" * 70, "z", "text", "w" * 61, "text", 0.0, values({"a b": 1})),
    ]

    def table(parts):
        schema = Schema()
        schema.root = Field("", "", "record", "", "record", 0.0, None, tuple(parts))
        return str(schema).splitlines()

    long = "z" * 59 + "…"
    assert table(parts) == [
        line.rstrip()
        for line in (
            f"{'path':<60}  {'kind':<10}  {'why':<60}  missing  distinct  examples",
            f"{'age':<60}  {'number':<10}  {'numbers':<60}     12 %         2  7, 30",
            f"{'id':<60}  {'identifier':<10}  {'all differ':<60}      0 %      many  x",
            f"{'orders':<60}  {'bag':<10}  {'up to 3 members':<60}     33 %",
            f"{long}  {'text':<10}  {'w' * 59}…      0 %         1  a b",
        )
    ]
    assert table(parts[:1]) == [
        "path  kind    why      missing  distinct  examples",
        "age   number  numbers     12 %         2  7, 30",
    ]
    assert table([]) == ["path  kind  why  missing  distinct  examples"]


def test_records_are_called_by_their_key():
    """An identifier that every record has, and no other; of linked tables what others refer to."""
    plain = [{"group": "a", "ticket": f"T-{10 * i}", "x": i % 3} for i in range(200)]
    schema = Schema.infer(plain)
    assert schema.key == ("ticket",)
    new = [{"ticket": "N-1"}, {"x": 2}, {"ticket": None}, {"ticket": "N-4"}]
    assert schema.names(new) == ["N-1", "1", "2", "N-4"]
    assert schema.names(new, start=10) == ["N-1", "11", "12", "N-4"]
    schema.drop("ticket")
    assert schema.key == ()
    assert schema.names(new) == ["0", "1", "2", "3"]
    del schema["ticket"]
    for others in ([{"ticket": "T-10"}], [{"x": 1}]):  # twice, and missing
        assert Schema.infer(plain + others).key == ()
    shop = {
        "orders": [{"shop": s, "number": float(n)} for s in "ab" for n in (1, 2)],
        "items": [{"shop": "a", "number": 2.0, "price": 3.5}],
    }
    keys = [(("items.shop", "items.number"), ("orders.shop", "orders.number"))]
    linked = Schema.infer_tables(shop, top="orders", keys=keys)
    assert linked.key == ("shop", "number")
    assert linked.names(shop) == ["a, 1", "a, 2", "b, 1", "b, 2"]

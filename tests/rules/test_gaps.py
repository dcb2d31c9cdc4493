"""Records in which parts are empty, in some data or in all: rules are read, and are used."""

import copy

import numpy as np
import pytest
import tensorflow as tf
from executed_rules import by_python, by_sql, single

from keras_mmil import Explainer
from keras_mmil.records import Schema
from keras_mmil.records.network import Labels, records_model

# Where a part is: the keys on the way to it.
BAGS = (
    ("orders",),
    ("orders", "items"),
    ("orders", "items", "parts"),
    ("tags",),
    ("notes",),
    ("notes", "links"),
    ("children",),
    ("empties",),
)


def record(rng):
    """A record with bags of all sorts, deeply nested, of which all may hold something."""

    def some(make, n=4):
        return [make() for _ in range(rng.integers(n))]

    def item():
        parts = some(lambda: {"size": int(rng.integers(5))}, 3)
        return {"price": float(rng.integers(9)), "parts": parts}

    def order():
        return {"late": int(rng.integers(8)), "items": some(item)}

    def note():
        return {"links": some(lambda: rng.choice(["a", "b", "c"]).item(), 3)}

    return {
        "age": int(rng.integers(90)),
        "orders": some(order),
        "tags": some(lambda: rng.choice(["new", "old"]).item()),
        "notes": some(note),  # records without any field of their own
        "children": some(lambda: {}),  # of which only the number is known
        "empties": some(list, 3),  # bags of bags, of which all are empty
    }


def records(n, seed):
    rng = np.random.default_rng(seed)
    return [record(rng) for _ in range(n)]


def emptied(given, path, keep=0):
    """Records with at most so many members in each bag at a path."""
    found = copy.deepcopy(given)

    def visit(part, keys):
        if isinstance(part, list):
            for each in part:
                visit(each, keys)
        elif len(keys) == 1:
            part[keys[0]] = part[keys[0]][:keep]
        else:
            visit(part[keys[0]], keys[1:])

    for each in found:
        visit(each, path)
    return found


def alike(given):
    """As many records as are given, all of which equal the first."""
    return [copy.deepcopy(given[0]) for _ in given]


@pytest.fixture(scope="module")
def schema():
    return Schema.infer(records(60, 0))


@pytest.fixture(scope="module")
def model(schema):
    """A network of random weights, whose output depends on everything."""
    model = records_model(schema, Labels("classes", 2), units=4, seed=0)
    rng = np.random.default_rng(0)
    model.set_weights([rng.normal(0, 0.7, w.shape).astype("float32") for w in model.weights])
    return model


@pytest.fixture(scope="module")
def target(schema, model):
    """About half of the records are of each class."""
    found = model.predict(schema.read(records(60, 0)), verbose=0)
    return 0, float(np.median(found))


def check_classes(explainer, x):
    classes = [explainer.classes_[i] for i in explainer.predict(x)]
    assert by_sql(explainer, x) == classes
    assert by_python(explainer, x) == classes
    return classes


def use(explainer, x, folder):
    """All that is done with rules and other data, as far as it can be compared."""
    classes = check_classes(explainer, x)
    explanations = explainer.explain(x)
    assert len(list(map(str, explanations))) == len(classes)
    for text in (
        explainer.rules_.text(all=True),
        str(explainer.describe(x)),
        str(explainer.describe()),
    ):
        assert "nan" not in text
    assert all(explainer.rules_.in_words())
    explainer.cluster_table(x, n=2)._repr_html_()
    explainer.rules_.to_json()
    explainer.rules_.to_prolog(explainer.labels_table(x))
    page = explainer.report(x, np.zeros(len(classes), int), n_cases=3).html
    assert ">nan" not in page
    explainer.report(x, include_data=False)
    str(explainer.deletion(x))
    for row in single(x, 1):
        str(explainer.counterfactual(row, donors=x))
    explainer.save(folder)
    loaded = Explainer.load(folder, explainer._network.model)
    np.testing.assert_array_equal(loaded.predict(x), explainer.predict(x))
    assert loaded.rules_.text() == explainer.rules_.text()


def fitted(schema, model, target, train, valid, **arguments):
    explainer = Explainer(
        **{"max_clusters": 3, "n_init": 1, "verbose": 0, "target": target, "batch_size": 64}
        | arguments
    )
    return explainer.fit(model, schema.read(train), schema.read(valid))


ITEMS, CHILDREN = ("orders", "items"), ("children",)


def without_all(given):
    for path in BAGS:
        given = emptied(given, path)
    return given


ONE_OF_EACH = {
    "age": 3,
    "orders": [{"late": 1, "items": [{"price": 1.0, "parts": [{"size": 1}]}]}],
    "tags": ["new"],
    "notes": [{"links": ["a"]}],
    "children": [{}],
    "empties": [[]],
}
CASES = {
    "in training": (
        lambda x: emptied(x, ITEMS),
        lambda x: x,
        ["orders.items.parts", "orders.items"],
    ),
    "in validation": (lambda x: x, lambda x: emptied(x, ITEMS), []),
    "one member in all": (lambda x: [ONE_OF_EACH, *without_all(x[1:])], without_all, []),
    "all bags": (
        without_all,
        lambda x: x,
        [
            f"{path}"
            for path in (
                "orders.items.parts",
                "orders.items",
                "orders",
                "tags",
                "notes.links",
                "notes",
                "children",
                "empties",
            )
        ],
    ),
}
# Warnings of levels with few distinct points are tested elsewhere.
few = pytest.mark.filterwarnings("ignore:Level .* distinct points", "ignore:The rules put every")


@few
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "in training",
        pytest.param("in validation", marks=pytest.mark.nightly),
        pytest.param("one member in all", marks=pytest.mark.nightly),
        "all bags",
    ],
)
def test_parts_that_some_data_lack(schema, model, target, tmp_path, recwarn, name):
    in_train, in_valid, left_out = CASES[name]
    train, valid = in_train(records(20, 1)), in_valid(records(10, 2))
    explainer = fitted(schema, model, target, train, valid)
    told = [str(w.message) for w in recwarn if "left out of the rules" in str(w.message)]
    text = explainer.rules_.text()
    if left_out:
        names = ", ".join(map(repr, left_out))
        assert told == [f"No training record has {names}: left out of the rules."]
        assert f"LEFT OUT, as no training record has any: {', '.join(left_out)}." in text
        assert [c.path for c in explainer.clusters_ if not c.sizes.any()] == left_out
    else:
        assert not told
        assert "LEFT OUT" not in text
    some, none = records(6, 3), without_all(records(4, 3))
    if name == "all bags":
        check_classes(explainer, schema.read(some))
        use(explainer, schema.read(none), tmp_path)
        assert str(explainer.stability(n=2))
    else:
        use(explainer, schema.read(some + none), tmp_path)


@few
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:No training record has")
@pytest.mark.parametrize("n_empty", [8, pytest.param(40, marks=pytest.mark.nightly)])
def test_streams_that_begin_with_empty_batches(schema, model, target, n_empty):
    """The same rules, figures and classes as of data in memory."""

    def stream(given):
        return tf.data.Dataset.from_tensor_slices(schema.read(given)).batch(8)

    train = without_all(records(40, 1)[:n_empty]) + records(40, 1)[n_empty:]
    valid = without_all(records(8, 2)) + records(16, 4)
    arguments = {"max_clusters": 3, "n_init": 1, "verbose": 0, "target": target, "batch_size": 8}
    explainer = Explainer(**arguments)
    explainer.check(model, stream(train), stream(valid))
    explainer.fit(model, stream(train), stream(valid))
    same = Explainer(**arguments).fit(model, schema.read(train), schema.read(valid))
    assert explainer.rules_.text() == same.rules_.text()
    new = without_all(records(8, 3)) + records(8, 5)
    np.testing.assert_array_equal(explainer.predict(stream(new)), same.predict(schema.read(new)))
    assert str(explainer.certify(stream(new))) == str(same.certify(schema.read(new)))


@few
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:No training record has")
@pytest.mark.parametrize(
    "arguments",
    [
        {"metric": "sensitivity"},
        pytest.param({"n_clusters": 2}, marks=pytest.mark.nightly),
        pytest.param({"instances": "centroids"}, marks=pytest.mark.nightly),
    ],
)
def test_all_ways_of_clustering(schema, model, target, arguments):
    train, valid = emptied(records(30, 1), ITEMS), alike(records(15, 2))
    explainer = fitted(schema, model, target, train, valid, batch_size=8, **arguments)
    check_classes(explainer, schema.read(records(10, 3)))


def test_lists_that_are_always_empty_are_left_out(schema):
    assert schema["empties[]"].kind == "empty"
    assert not schema["empties[]"].is_read
    found = Schema.infer([{"a": [], "b": [{"c": []}], "n": 1}, {"a": [], "b": [], "n": 2}])
    assert {field.path: field.kind for field in found} == {
        "a": "empty",
        "b": "bag",
        "b.c": "empty",
        "n": "number",
    }
    assert set(found.read([{"a": [1], "b": [{"c": [2]}], "n": 3}])) == {"b", "n"}

"""Networks for nested records, against loops over the records."""

import datetime
import math
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import zoo
from keras_mmil.layers import FieldEncoder
from keras_mmil.records import Schema
from keras_mmil.records.network import Labels, records_model
from keras_mmil.testing import predict_in_fresh_process

NIGHTLY = (pytest.mark.slow, pytest.mark.nightly)

SMALL = {"units": 5, "seed": 0}
WORDS = ["late", "refund", "asked", "for", "a", "new", "box", "gift"]


def make_records(n=40, seed=0):
    """Customers with orders with items, of all kinds, with holes, and with many that are equal."""
    rng = np.random.default_rng(seed)

    def sometimes(value, share=0.85):
        return value if rng.random() < share else None

    def item():
        return {
            "price": sometimes(float(rng.integers(0, 3))),
            "kind": sometimes(["toy", "book", "food"][rng.integers(3)]),
            "code": sometimes(int(rng.integers(4)) * 7),
            "returned": sometimes(bool(rng.integers(2))),
        }

    def order():
        day = datetime.datetime(2026, 1, 1) + datetime.timedelta(days=int(rng.integers(3)) * 99)
        return {
            "items": sometimes([item() for _ in range(rng.integers(0, 3))]),
            "paid": {
                "on": sometimes(day.isoformat()),
                "by": sometimes(["card", "cash"][rng.integers(2)]),
            },
            "tags": sometimes(
                [["new", "big", "red"][i] for i in rng.integers(0, 3, rng.integers(3))]
            ),
            "notes": [{}] * int(rng.integers(3)),
        }

    def customer(i):
        orders = [order() for _ in range(rng.integers(0, 4))]
        scores = {f"s{k}": int(rng.integers(2)) for k in range(12) if rng.random() < 0.2}
        return {
            "age": sometimes([rng.normal(40, 9), "unknown"][int(rng.random() < 0.1)]),
            "city": sometimes(["Rome", "Oslo"][rng.integers(2)]),
            "text": sometimes(" ".join(rng.choice(WORDS, 3))),
            "orders": sometimes(orders),
            "scores": scores,
            "churned": bool(i % 2),
            "vip": bool(i % 3 == 0),
            "level": ["low", "middle", "high"][i % 3],
            "spent": float(i),
        }

    return [customer(i) for i in range(n)]


TARGETS = ("churned", "vip", "level", "spent")
RECORDS = make_records()
SCHEMA = Schema.infer(RECORDS)
SCHEMA["text"] = "text"
for _path in TARGETS[1:]:
    SCHEMA.drop(_path)


def shaken(model):
    """The same model, with weights that are not zero at the start."""
    rng = np.random.default_rng(1)
    model.set_weights([rng.normal(0, 0.4, w.shape).astype("float32") for w in model.weights])
    return model


def outputs_and_gradients(model, x):
    with tf.GradientTape() as tape:
        outputs = model(x)
        loss = tf.reduce_sum(tf.sin(3.0 * outputs))
    gradients = tape.gradient(loss, [w.value for w in model.trainable_weights])
    return outputs, [tf.convert_to_tensor(each) for each in gradients]


class Loop:
    """The network on one record at a time, from its weights."""

    def __init__(self, model, schema, aggregations):
        self.model, self.schema, self.aggregations = model, schema, aggregations

    def output(self, record):
        x = self.dense(self.vector(*self.parts(self.schema.root.parts, record)), "top")
        kernel, bias = self.weights("target")
        return 1 / (1 + np.exp(-(x @ kernel + bias)))

    def weights(self, name):
        return [w.numpy() for w in self.model.get_layer(name).weights]

    def dense(self, parts, name):
        """Of what is learned, and of the other features, which have a kernel each."""
        there = [part for part in parts if len(part)]
        *kernels, bias = self.weights(f"{name}.dense")
        x = sum(part @ kernel for part, kernel in zip(there, kernels, strict=True))
        return np.maximum(x + bias, 0)

    def parts(self, fields, record):
        """The fields and their values, by path, and the vectors of bags."""
        values, bags = {}, []
        for field in fields:
            value = record.get(field.name) if isinstance(record, dict) else None
            if field.is_read and field.path != "churned":
                self.add_part(field, value, values, bags)
        return values, bags

    def add_part(self, field, value, values, bags):
        if field.kind == "record":
            inner_values, inner_bags = self.parts(field.parts, value)
            values |= inner_values
            bags += inner_bags
        elif field.kind == "bag":
            bags.append(self.bag(field, value))
        else:
            value = value if TYPES.get(type(value)) == field.type else None
            values[field.path] = tensor_of(field, value)

    def vector(self, values, bags):
        """The vectors of encoders, in the order of their first fields, and then of bags.

        Those that are learned apart, as they can be in groups.
        """
        places = {path: i for i, path in enumerate(values)}
        encoders = [layer for layer in self.model.layers if isinstance(layer, FieldEncoder)]
        encoders = [layer for layer in encoders if layer.field[0] in places]
        encoders.sort(key=lambda layer: places[layer.field[0]])
        learned, others = [], []
        for layer in encoders:
            x = layer([values[path] for path in layer.field]).numpy()[0]
            cut = (getattr(layer, "units", None) or 0) * len(layer.field)
            learned.append(x[:cut])
            others.append(x[cut:])
        return np.concatenate([*learned, *bags, []]), np.concatenate([*others, []])

    def bag(self, field, value):
        members = []
        if field.is_map:
            members = [{"key": k, "": v} for k, v in (value or {}).items()]
        elif value is not None:
            members = [{"": each} for each in value]
        name = sane(field.path)
        rows = [self.dense(self.member(field, each), name) for each in members]
        kernel, bias, empty = self.weights(f"{name}.bag")
        if not rows:
            return empty
        rho = np.maximum(np.stack(rows) @ kernel + bias, 0)
        aggregations = self.aggregations if any(p.is_read for p in inner(field)) else ["sum"]
        parts = np.split(rho, len(aggregations), axis=1)
        return np.concatenate(
            [getattr(p, a)(axis=0) for p, a in zip(parts, aggregations, strict=True)]
        )

    def member(self, field, member):
        if not any(part.is_read for part in inner(field)):
            return np.ones(0), np.ones(1)
        values, bags = {}, []
        for part in field.parts:
            if part.is_read:
                self.add_part(part, member["key"] if part.name else member[""], values, bags)
        return self.vector(values, bags)


TYPES = {bool: "boolean", int: "number", float: "number", str: "text"}


def inner(bag):
    for part in bag.parts:
        yield from part.parts if part.kind == "record" else [part]


def sane(path):
    return path.replace("<", "_").replace(">", "_").replace("[]", "_")


def tensor_of(field, value):
    if field.kind == "time":
        seconds = math.nan
        if value is not None:
            time = datetime.datetime.fromisoformat(value).replace(tzinfo=datetime.UTC)
            seconds = time.timestamp()
        return tf.constant([seconds], tf.float64)
    if field.kind in ("number", "boolean"):
        return tf.constant([math.nan if value is None else float(value)])
    if field.type == "number":
        return tf.constant([-(2**63) if value is None else value], tf.int64)
    return tf.constant(["\0" if value is None else value])


def test_the_records_are_of_all_kinds():
    paths = {}
    for field in SCHEMA:
        paths[field.kind] = f"{paths.get(field.kind, '')} {field.path}".strip()
    assert paths == {
        "number": "age<number> orders.items.price",
        "category": "age<text> city orders.items.kind orders.items.code orders.paid.by "
        "orders.tags[] scores.key",
        "text": "text",
        "bag": "orders orders.items orders.tags orders.notes scores",
        "boolean": "orders.items.returned scores[] churned",
        "record": "orders.paid",
        "time": "orders.paid.on",
        "dropped": " ".join(TARGETS[1:]),
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("aggregation", "compress"),
    [pytest.param("max", True, marks=pytest.mark.nightly), ("sum", False), (("mean", "max"), True)],
)
def test_outputs_are_those_of_a_loop_over_the_records(aggregation, compress):
    model = shaken(
        records_model(SCHEMA, "churned", aggregation=aggregation, compress=compress, **SMALL)
    )
    x = SCHEMA.read(RECORDS, without="churned")
    aggregations = [aggregation] if isinstance(aggregation, str) else aggregation
    loop = Loop(model, SCHEMA, aggregations)
    some = range(0, len(RECORDS), 3)
    expected = [loop.output(RECORDS[i]) for i in some]
    assert np.ptp(expected) > 0.05
    np.testing.assert_allclose(model.predict(x, verbose=0)[some], expected, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "aggregation",
    ["max", "max|mean|std", *(pytest.param(a, marks=NIGHTLY) for a in ("mean", "sum"))],
)
@pytest.mark.parametrize("seed", [0, *(pytest.param(i, marks=NIGHTLY) for i in (1, 2))])
def test_gradients_are_those_of_the_plain_network(aggregation, seed):
    records = make_records(seed=seed)
    schema = Schema.infer(records)
    x = schema.read(records, without="churned")
    arguments = {"aggregation": aggregation, "dropout": 0.0, **SMALL}
    plain = shaken(records_model(schema, "churned", compress=False, **arguments))
    expected, gradients = outputs_and_gradients(plain, x)
    for compress in (True, "auto"):
        model = records_model(schema, "churned", compress=compress, **arguments)
        model.set_weights(plain.get_weights())
        found, ours = outputs_and_gradients(model, x)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert len(ours) == len(gradients) == len(plain.trainable_weights)
        for weight, a, b in zip(plain.trainable_weights, ours, gradients, strict=True):
            scale = np.abs(b).max() + 1e-3
            np.testing.assert_allclose(a / scale, b / scale, atol=2e-5, err_msg=weight.path)


def test_equal_records_and_bags_are_computed_once():
    order = {"items": [{"kind": "toy"}, {"kind": "book"}]}
    records = [{"orders": [order, {"items": order["items"][::-1]}], "y": i % 2} for i in range(20)]
    records.append({"orders": [{"items": [{"kind": "toy"}]}], "y": 0})
    schema = Schema.infer(records)
    model = records_model(schema, "y", compress=True, **SMALL)
    names = [f"{path}.{role}" for path in ("orders.items", "orders") for role in ("dense", "bag")]
    seen = keras.Model(model.input, [model.get_layer(name).output for name in names])
    assert [len(rows) for rows in seen(schema.read(records, without="y"))] == [2, 2, 2, 2]


def compressed_layers(model):
    return {layer.name for layer in model.layers if getattr(layer, "compress", False)}


def test_where_equal_things_are_looked_for():
    rng = np.random.default_rng(0)
    records = [
        {
            "some": [
                {"a": int(rng.integers(3)), "b": ["x", "y"][rng.integers(2)]} for _ in range(20)
            ],
            "all": [{"a": float(rng.normal()), "b": "x"} for _ in range(20)],
            "one": [{"a": int(rng.integers(4))}],
            "y": bool(rng.integers(2)),
        }
        for _ in range(50)
    ]
    schema = Schema.infer(records)
    assert compressed_layers(records_model(schema, "y")) == {
        "some.distinct_rows",
        "some.distinct_bags",
    }
    assert len(compressed_layers(records_model(schema, "y", compress=True))) == 6
    assert not compressed_layers(records_model(schema, "y", compress=False))


TABLES = {
    "customers": [
        {"id": i, "churned": i % 2, "city": "Rome" if i % 3 else "Oslo"} for i in range(12)
    ],
    "orders": [{"customer": i % 11, "product": i % 5, "n": i % 3} for i in range(40)],
    "products": [{"id": i, "price": 1.5 * i, "name": f"thing {i}"} for i in range(5)],
}
KEYS = [("orders.customer", "customers.id"), ("orders.product", "products.id")]


@pytest.mark.slow
def test_rows_that_others_share():
    schema = Schema.infer_tables(TABLES, top="customers", keys=KEYS)
    model = shaken(records_model(schema, "churned", min_count=1, compress=True, **SMALL))
    x = schema.read(TABLES, without="churned")
    assert "orders.products.price" in model.input  # a field of each order
    plain = records_model(schema, "churned", min_count=1, compress=False, **SMALL)
    plain.set_weights(model.get_weights())
    np.testing.assert_allclose(model(x), plain(x), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "shape", "loss"),
    [
        ("churned", (1,), "binary_crossentropy"),
        ("level", (3,), "sparse_categorical_crossentropy"),
        ("spent", (1,), "mean_squared_error"),
        (["churned", "vip"], (2,), "binary_crossentropy"),
        ("tags", (3,), "binary_crossentropy"),
    ],
)
def test_targets(target, shape, loss):
    records = [
        {**{name: r[name] for name in TARGETS}, "age": i, "tags": ["a", "b", "c"][: i % 4]}
        for i, r in enumerate(RECORDS)
    ]
    schema = Schema.infer(records)
    schema["tags"] = "category"
    x, y = schema.read(records, target)
    model = records_model(schema, target, **SMALL)
    assert sorted(model.input) == sorted(x)
    assert model.output_shape == (None, *shape)
    assert model.loss == loss
    history = model.fit(x, y, epochs=2, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    found = model.predict(x, verbose=0)
    assert found.shape == (len(records), *shape)
    if target == "level":
        np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)


@pytest.mark.slow
def test_numbers_start_at_their_mean():
    records = [{"a": i % 7, "y": 1e6 + 1e4 * (i % 7)} for i in range(70)]
    schema = Schema.infer(records)
    x, y = schema.read(records, "y")
    model = records_model(schema, "y", seed=0, learning_rate=0.03)
    np.testing.assert_allclose(model.predict(x, verbose=0)[:, 0], y, atol=1e5)
    model.fit(x, y, epochs=30, batch_size=70, verbose=0)
    np.testing.assert_allclose(model.predict(x, verbose=0)[:, 0], y, atol=1e4)


def test_labels_beside_the_records():
    schema = Schema.infer([{"a": i, "b": i % 2} for i in range(9)])
    assert sorted(records_model(schema, Labels("classes", 2)).input) == ["a", "b"]
    assert records_model(schema, Labels("classes", 4)).output_shape == (None, 4)
    assert records_model(schema, Labels("labels", 3)).loss == "binary_crossentropy"
    model = records_model(schema, Labels("numbers", 2, mean=(1.0, 2.0), scale=(0.0, 3.0)))
    assert model.get_layer("target").scale == [1.0, 3.0]


@pytest.mark.slow
def test_a_seed_makes_equal_weights_and_leaves_other_random_numbers():
    keras.utils.set_random_seed(3)
    expected = np.random.default_rng(0), np.random.rand(), keras.random.uniform((2,))  # noqa: NPY002
    keras.utils.set_random_seed(3)
    models = [records_model(SCHEMA, "churned", units=4, seed=7, dropout=0.5) for _ in range(2)]
    np.testing.assert_array_equal(np.random.rand(), expected[1])  # noqa: NPY002
    np.testing.assert_array_equal(keras.random.uniform((2,)), expected[2])
    for a, b in zip(*(model.get_weights() for model in models), strict=True):
        np.testing.assert_array_equal(a, b)
    other = records_model(SCHEMA, "churned", units=4, seed=8)
    assert not np.array_equal(other.get_weights()[-2], models[0].get_weights()[-2])
    x, y = SCHEMA.read(RECORDS, "churned")
    with_dropout = [model.train_on_batch(x, y) for model in models]
    assert with_dropout[0] == with_dropout[1]


@pytest.mark.parametrize(
    ("arguments", "error", "match"),
    [
        ({"target": "none"}, KeyError, "Received: 'none'"),
        ({"target": "text"}, ValueError, "'text', which is text"),
        ({"target": "orders"}, ValueError, "'orders', which is bag"),
        ({"target": Labels("classes", 2), "units": 0}, ValueError, "Received: units=0"),
        ({"dropout": 1.5}, ValueError, r"Received: dropout=1\.5"),
        ({"member_dropout": 1}, ValueError, "Received: rate=1"),
        ({"activation": "none"}, ValueError, "none"),
        ({"weight_decay": -1}, ValueError, "Received: weight_decay=-1"),
        ({"min_count": 0}, ValueError, "Received: min_count=0"),
        ({"compress": "always"}, ValueError, "Received: compress='always'"),
        ({"aggregation": "least"}, ValueError, "least"),
    ],
)
def test_bad_arguments(arguments, error, match):
    with pytest.raises(error, match=match):
        records_model(SCHEMA, **{"target": "churned", **arguments})


def test_nothing_to_predict_from():
    schema = Schema.infer([{"a": 1.5, "b": 3}, {"a": 2.5, "b": 3}])
    with pytest.raises(ValueError, match="nothing that is read but 'a'"):
        records_model(schema, "a")
    with pytest.raises(ValueError, match=r"Expected an int ≥ 2\. Received: n=1"):
        Labels("classes", 1)
    with pytest.raises(ValueError, match="Received: kind='sets'"):
        Labels("sets", 2)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* nothing at :UserWarning")
def test_values_that_the_schema_has_not_seen():
    model = shaken(records_model(SCHEMA, "churned", **SMALL))
    odd = [
        {},
        {"age": "x" * 100_000, "city": "Paris", "text": "", "orders": []},
        {"age": None, "city": None, "orders": [{"items": [{"kind": "car", "code": 3}]}]},
        {"age": 1e30, "scores": {"s999": 1, "s1": None}, "more": {"a": [1]}},
        {"age": math.inf, "text": "日本語 \x00 !", "orders": [{"paid": {"on": "9999-12-31"}}]},
    ]
    x = SCHEMA.read(odd, without="churned")
    found = model.predict(x, verbose=0)
    assert np.isfinite(found).all()
    unknown = [{"city": city} for city in ("Paris", "London", "")]
    found = model.predict(SCHEMA.read(unknown, without="churned"), verbose=0)
    assert np.ptp(found) == 0
    with pytest.warns(UserWarning, match="'city' is category in the schema; 1 of 1 values"):
        x = SCHEMA.read([{"city": 5}, {}], without="churned")
    found = model.predict(x, verbose=0)
    assert found[0] == found[1]


ODD_NAMES = ["a/b", "net price", "日本", "", "a.b", "a_b", "1st", "price?", "x<y>", "é/é", "top"]


def odd_records():
    rng = np.random.default_rng(0)
    rows = [{name: float(rng.normal()) for name in ODD_NAMES} for _ in range(20)]
    for row in rows:
        order = {name: int(rng.integers(5)) for name in ODD_NAMES[:4]}
        row["orders/new"] = [order] * rng.integers(3)
        row["y"] = bool(rng.integers(2))
    return rows


@pytest.mark.graphs
@pytest.mark.slow
def test_any_names_in_training_in_files_and_in_other_programs(tmp_path):
    records = odd_records()
    schema = Schema.infer(records)
    x, y = schema.read(records, "y")
    model = records_model(schema, "y", **SMALL)
    assert sorted(model.input) == sorted(x)
    model.fit(x, y, verbose=0)
    expected = model.predict(x, verbose=0)
    np.testing.assert_allclose(predict_in_fresh_process(model, x), expected, rtol=1e-5)
    model.export(tmp_path / "saved", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "saved"))
    np.testing.assert_allclose(served.serve(x), expected, rtol=1e-5)


# What a program without this package does with a SavedModel.
SERVING = """
import sys
sys.modules["keras_mmil"] = sys.modules["keras"] = None  # to import them fails
import tensorflow as tf
x = tf.data.Dataset.load(sys.argv[1] + "/inputs").get_single_element()
served = tf.saved_model.load(sys.argv[1] + "/saved")
flat = {}
for name in served.signatures["serving_default"].structured_input_signature[1]:
    flat[name] = tf.io.parse_tensor(tf.io.read_file(f"{sys.argv[1]}/{name}"), tf.as_dtype(
        served.signatures["serving_default"].structured_input_signature[1][name].dtype))
outputs = served.signatures["serving_default"](**flat)["target"]
tf.data.Dataset.from_tensors((served.serve(x), outputs)).save(sys.argv[1] + "/outputs")
"""


@pytest.mark.graphs
@pytest.mark.slow
def test_a_saved_model_takes_raw_values_without_this_package(tmp_path):
    schema = Schema.infer_tables(TABLES, top="customers", keys=KEYS)
    x = schema.read(TABLES, without="churned")
    model = shaken(records_model(schema, "churned", **SMALL))
    expected = model.predict(x, verbose=0)
    model.export(tmp_path / "saved", verbose=False)
    tf.data.Dataset.from_tensors(x).save(str(tmp_path / "inputs"))
    for path, tensor in x.items():
        name = path.replace(".", "_")
        if not isinstance(tensor, tf.RaggedTensor):
            tf.io.write_file(str(tmp_path / name), tf.io.serialize_tensor(tensor))
            continue
        tf.io.write_file(f"{tmp_path}/{name}_values", tf.io.serialize_tensor(tensor.flat_values))
        for i, splits in enumerate(tensor.nested_row_splits):
            splits = tf.io.serialize_tensor(tf.cast(splits, tf.int64))
            tf.io.write_file(f"{tmp_path}/{name}_row_splits_{i}", splits)
    result = subprocess.run(
        [sys.executable, "-c", SERVING, str(tmp_path)], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    outputs = tf.data.Dataset.load(str(tmp_path / "outputs")).get_single_element()
    for found in outputs:
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.graphs
@pytest.mark.slow
def test_a_saved_model_of_raw_records_predicts_in_a_fresh_process():
    x = SCHEMA.read(RECORDS, without="churned")
    model = shaken(records_model(SCHEMA, "churned", **SMALL))
    np.testing.assert_allclose(predict_in_fresh_process(model, x), model(x), rtol=1e-5)


@pytest.mark.slow
@pytest.mark.graphs
def test_a_step_is_traced_once(monkeypatch):
    """Which takes long: Keras makes variables in the first step, and TensorFlow starts anew."""
    traced = []
    call = keras_mmil.layers.Gather.call

    def counted(self, inputs):
        traced.append(not tf.executing_eagerly())
        return call(self, inputs)

    records = [{"a": [{"b": i}], "y": i % 2, "z": i % 3} for i in range(9)]
    schema = Schema.infer(records)
    for target in ("y", "z", ["y"]):
        schema["z"] = "number" if target == "y" else "category"
        model = records_model(schema, target, **SMALL)
        traced.clear()
        with monkeypatch.context() as patch:
            patch.setattr(keras_mmil.layers.Gather, "call", counted)
            model.fit(*schema.read(records, target), verbose=0)
        assert sum(traced) == 1


@pytest.mark.slow
def test_streams_of_records(tmp_path):
    model = records_model(SCHEMA, "churned", **SMALL)
    dataset = SCHEMA.dataset(RECORDS, 16, shuffle=40, seed=0, target="churned")
    history = model.fit(dataset, shuffle=False, verbose=0).history
    assert np.isfinite(history["loss"]).all()


@pytest.mark.data
@pytest.mark.slow
def test_device_examples(data_dir):
    path = data_dir / "records" / "device_examples.json"
    schema = Schema.infer(path)
    assert len(str(schema).splitlines()) > 50
    x = schema.read(path)
    model = records_model(schema, Labels("classes", 2), units=8, seed=0)
    assert sorted(model.input) == sorted(x)
    y = np.arange(schema.n_records) % 2
    history = model.fit(x, y, epochs=1, batch_size=64, verbose=0).history
    assert np.isfinite(history["loss"]).all()
    assert model.predict(x, verbose=0).shape == (schema.n_records, 1)


def test_it_is_in_two_packages():
    assert zoo.records_model is keras_mmil.records.records_model is records_model
    assert keras_mmil.records.Labels is Labels
    assert {"Labels", "records_model"} <= set(dir(keras_mmil.records))
    with pytest.raises(AttributeError, match="'none'"):
        zoo.none  # noqa: B018


BASKETS = [["pear", "fig"], ["fig"], ["fig", "plum", "pear"], ["plum", "plum"]]


def linear_in_baskets(**arguments):
    """A linear network of bags of words, which predicts a number."""
    records = [{"basket": x, "price": float(len(x))} for x in BASKETS]
    schema = Schema.infer(records)
    schema["basket[]"] = "category"
    arguments = {"activation": "linear", "aggregation": "sum", "min_count": 1} | SMALL | arguments
    model = records_model(schema, "price", **arguments)
    return model, lambda baskets: schema.read([{"basket": x} for x in baskets], without="price")


@pytest.mark.parametrize("compress", [False, True])
def test_a_linear_network_of_sums_adds_up(compress):
    model, read = linear_in_baskets(compress=compress)
    model.set_weights([np.random.default_rng(0).normal(size=x.shape) for x in model.get_weights()])
    x = read([["fig", "pear"], ["plum"], ["fig"], ["pear", "plum"], ["fig", "fig"]])
    fig_pear, plum, fig, pear_plum, two_figs = model.predict(x, verbose=0)
    np.testing.assert_allclose(fig_pear + plum, fig + pear_plum, rtol=1e-4)
    assert len({round(float(each[0]), 3) for each in (fig_pear, plum, fig, two_figs)}) == 4


@pytest.mark.slow
@pytest.mark.parametrize("compress", [False, True])
def test_members_are_left_out_in_training_only(compress):
    plain, read = linear_in_baskets(compress=compress)
    model, _ = linear_in_baskets(compress=compress, member_dropout=0.5)
    for layer in plain.layers:
        weights = [np.random.default_rng(0).normal(size=x.shape) for x in layer.get_weights()]
        layer.set_weights(weights)
        model.get_layer(layer.name).set_weights(weights)
    x = read([["fig", "pear"], ["fig"], ["pear"], []])
    np.testing.assert_allclose(model(x), plain(x), rtol=1e-5)
    found = {round(float(model(x, training=True)[0, 0]), 3) for _ in range(24)}
    assert found == {round(float(each), 3) for each in np.asarray(plain(x))[:, 0]}

"""Training on what was computed once, beside the network that reads records."""

import keras
import numpy as np
import pytest

from keras_mmil.records import Schema
from keras_mmil.records.network import Labels, ensemble

RNG = np.random.default_rng(0)
SHOPS = [{"city": f"city {i % 7}", "staff": i} for i in range(20)]
OPTIONS = {
    "units": 4,
    "activation": "relu",
    "aggregation": ["max", "mean", "sum"],
    "member_dropout": 0.0,
    "dropout": 0.0,
    "min_count": 1,
    "n_edges": 0,
    "learning_rate": 0.01,
    "weight_decay": 1.0,
}


def words(n):
    return " ".join(RNG.choice(["late", "fine", "broken", "box", "Paid", "never"], n))


def item():
    return {
        "sku": f"sku {RNG.integers(90)}",  # too many for one-hot vectors
        "price": float(RNG.normal(100, 20)) if RNG.random() < 0.8 else None,
        "tags": ["x"] * int(RNG.integers(3)),  # of which only the number is read
    }


def order():
    some = [item() for _ in range(RNG.integers(4))]
    shop = SHOPS[RNG.integers(20)]
    note, other = (words(RNG.integers(6)) for _ in range(2))
    # Ids are far from 0 and close together.
    id = 10_000_000 + int(RNG.integers(3))
    return {"items": some * 2, "shop": shop, "note": note, "other": other, "id": id}


@pytest.fixture(scope="module")
def data():
    records = [
        {"age": int(RNG.integers(80)), "orders": [order() for _ in range(RNG.integers(4))]}
        for _ in range(60)
    ]
    schema = Schema.infer(records)
    for path in ("orders.note", "orders.other"):
        schema[path] = "text"
    schema["orders.items.sku"] = "category"
    schema["orders.id"] = "number"
    schema.drop("orders.items.tags[]")
    return schema, schema.read(records)


@pytest.mark.parametrize(
    ("options", "labels"),
    [
        ({"compress": True}, Labels("classes", 3)),
        ({"compress": False, "dropout": 0.2}, Labels("numbers", 1, (50.0,), (9.0,))),
    ],
)
def test_outputs_are_the_same(data, options, labels):
    schema, x = data
    found = ensemble(schema, labels, 4, x, **OPTIONS | options)
    feed = found.feed(x)
    both = keras.Model(found.members.input, [found.members.output, found.features])
    y = RNG.integers(3, size=(60, 4, 1)).astype("float32")
    y = y[:, :, 0] if labels.kind == "classes" else y

    def compare():
        ours = feed.computed(feed.x)
        for one, other in zip(ours, both(x), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)
        return ours.outputs

    before = compare()
    feed.model.fit(feed.x, y, batch_size=16, verbose=0)
    assert np.abs(compare() - before).max() > 1e-3
    paths = [[variable.path for variable in model.weights] for model in (found.members, feed.model)]
    assert paths[0] == paths[1]


@pytest.mark.slow
def test_steps_are_the_same(data):
    schema, x = data
    y = RNG.integers(2, size=(60, 4, 1)).astype("float32")
    weights = []
    for is_prepared in (True, False):
        keras.utils.set_random_seed(0)
        found = ensemble(schema, Labels("classes", 2), 4, x, compress=True, **OPTIONS)
        feed = found.feed(x)
        model, inputs = (feed.model, feed.x) if is_prepared else (found.members, x)
        model.fit(inputs, y, epochs=2, batch_size=16, verbose=0, shuffle=False)
        weights.append([v.numpy() for v in found.members.trainable_variables])
    for ours, theirs in zip(*weights, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-4)

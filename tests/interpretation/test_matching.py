"""Saved rules of another network are refused, with what differs."""

import copy
from dataclasses import replace

import keras
import numpy as np
import pytest
from record_networks import churn_model

from keras_mmil import ragged
from keras_mmil.interpretation import Explainer, storage
from keras_mmil.interpretation.matching import difference
from keras_mmil.interpretation.network.capture import Network
from keras_mmil.layers import BagLayer, NumberEncoder


def changed(explainer, record, **changes):
    """The levels, with other clusters of the rows of one bag-layer, or other fields of records."""
    levels = []
    for level in explainer.levels_:
        bags, fields = level.space.bags, level.space.fields
        if "fields" in changes and level.record == record:
            fields = changes["fields"](fields)
        elif "fields" not in changes:
            bags = tuple(replace(b, **changes) if b.level == record else b for b in bags)
        levels.append(replace(level, space=replace(level.space, bags=bags, fields=fields)))
    return levels


def test_the_same_network(churn_explainer):
    assert difference(churn_explainer.levels_, churn_explainer._network) == ""
    assert difference(churn_explainer.levels_, Network(churn_model(compress=False))) == ""


@pytest.mark.parametrize(
    ("record", "changes", "expected"),
    [
        (3, {"path": "calls"}, "bag-layer 3 on 'visits' instead of 'calls'"),
        (
            2,
            {"fields": lambda fields: fields[:1]},
            "orders with days_late (number), note (text) instead of days_late (number)",
        ),
        (
            4,
            {"fields": lambda fields: (replace(fields[0], kind="text"), fields[1])},
            "top-bags with plan (category), since (time) instead of plan (text), since (time)",
        ),
        (
            1,
            {"fields": lambda fields: tuple(replace(f, name=f.name.upper()) for f in fields)},
            "instead of RETURNED (boolean), PRODUCT.KIND (category)",
        ),
    ],
)
def test_networks_of_other_records(churn_explainer, record, changes, expected):
    levels = changed(churn_explainer, record, **changes)
    assert expected in difference(levels, churn_explainer._network)


def test_another_tree_of_as_many_bag_layers(churn_explainer):
    """Visits in orders, not in the record."""
    *inner, top = churn_explainer.levels_
    orders, visits = top.space.bags
    (index,) = [i for i, level in enumerate(inner) if level.record == 2]
    space = inner[index].space
    inner[index] = replace(inner[index], space=replace(space, bags=(*space.bags, visits)))
    levels = (*inner, replace(top, space=replace(top.space, bags=(orders,))))
    assert difference(levels, churn_explainer._network) == (
        "bag-layer 3 in top-bags instead of orders"
    )


def chain(*units, fields=False):
    x = inputs = keras.Input((None,) * len(units) + (2,), ragged=True)
    for n in units:
        x = BagLayer(n)(x)
    if fields:
        age = keras.Input((), name="age")
        x = keras.layers.Concatenate()([x, NumberEncoder(field="age")(age)])
        inputs = [inputs, age]
    return keras.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))


@pytest.mark.parametrize(
    ("units", "fields", "expected"),
    [
        ((3, 5), False, "bag-layer 0 of 3 units instead of 4"),
        ((4, 6), False, "bag-layer 1 of 6 units instead of 5"),
        ((4,), False, "1 bag-layer instead of 2"),
        ((4, 5), True, "top-bags with age (number) instead of no fields"),
        ((4, 5), False, "other weights"),
    ],
)
def test_a_saved_explainer_names_what_differs(chain_explainer, tmp_path, units, fields, expected):
    explainer, model = chain_explainer
    explainer.save(tmp_path)
    assert Explainer.load(tmp_path, model).n_clusters_ == explainer.n_clusters_
    other = chain(*units, fields=fields)
    other.set_weights([weight + 1 for weight in other.get_weights()])
    with pytest.raises(ValueError, match="Expected the model whose rules were saved") as refusal:
        Explainer.load(tmp_path, other)
    assert f"with {expected}" in str(refusal.value)


@pytest.fixture(scope="module")
def chain_explainer():
    model = chain(4, 5)
    values = np.random.default_rng(0).normal(size=(90, 2)).astype("float32")
    x = ragged.from_flat(values, [[3] * 15, [2] * 45])
    median = float(np.median(model(x)))
    return Explainer(n_clusters=2, target=(0, median), n_init=1, verbose=0).fit(model, x), model


def test_equal_weights_but_other_fields(churn_explainer, tmp_path):
    """What a field is called is no weight."""
    other = copy.copy(churn_explainer)
    other.levels_ = changed(churn_explainer, 3, path="calls")
    other.save(tmp_path)
    with pytest.raises(ValueError, match="'visits' instead of 'calls'"):
        storage.read(tmp_path, churn_explainer._network, Explainer().get_params())

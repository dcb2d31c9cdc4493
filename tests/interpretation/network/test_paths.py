"""What bags are called, and what rules then say."""

import keras
import numpy as np
import pytest

import keras_mmil
from keras_mmil import Explainer, ragged
from keras_mmil.interpretation.network.paths import bag_paths
from keras_mmil.layers import BagLayer, DistinctBags, DistinctRows
from keras_mmil.model.tree import bag_tree


def input_of(depth, name=None):
    return keras.Input((*[None] * depth, 2), ragged=True, name=name)


def pooled(x, depth):
    for _ in range(depth):
        x = BagLayer(3)(x)
    return x


def of_repairs():
    """Bags of ids of a field, and their input."""
    ids = keras.Input((None,), dtype="int32", ragged=True, name="repairs")
    rows, members = DistinctRows()([ids])
    members, weights, _ = DistinctBags(compress=False, field="repairs")(members)
    return ids, BagLayer(3)(keras.layers.Embedding(4, 3)(rows), members, weights)


def joined(inputs, branches):
    x = keras.layers.Concatenate()(branches)
    return keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(x))


def test_bags_in_a_row_have_no_names():
    x = input_of(3, "patients")
    model = keras_mmil.Model(x, keras.layers.Dense(1)(pooled(x, 3)))
    assert bag_paths(bag_tree(model)) == ("", "", "")


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (
            ("series", "visits"),
            ["series", "visits", "visits.sub-bags", "visits.sub-bags.instances"],
        ),
        # Keras's own names of inputs depend on how many it has made before.
        (
            (None, None),
            ["instances", "sub-bags", "sub-bags.sub-bags", "sub-bags.sub-bags.instances"],
        ),
    ],
)
def test_bags_side_by_side_are_called_as_their_inputs(names, expected):
    series, visits = input_of(1, names[0]), input_of(3, names[1])
    model = joined([series, visits], [pooled(series, 1), pooled(visits, 3)])
    assert sorted(bag_paths(bag_tree(model))) == expected


@pytest.mark.slow
def test_rules_about_bags_of_an_input_and_of_a_field():
    rng, n = np.random.default_rng(0), 80
    series, (ids, repaired) = input_of(1, "series"), of_repairs()
    model = joined({"series": series, "repairs": ids}, [pooled(series, 1), repaired])
    assert sorted(bag_paths(bag_tree(model))) == ["repairs", "series"]
    sizes = rng.integers(1, 5, n)
    x = {
        "series": ragged.from_flat(rng.normal(size=(sizes.sum(), 2)).astype("float32"), (sizes,)),
        "repairs": ragged.from_flat(rng.integers(0, 4, sizes.sum()).astype("int32"), (sizes,)),
    }
    explainer = Explainer(n_clusters=3, verbose=0).fit(model, x, x)
    words = [*explainer.rules_.in_words(), str(explainer.rules_)]
    assert not any("  is" in text or " s " in text or " s:" in text for text in words)
    assert "by their series: " in words[-1]
    (explanation,) = explainer.explain({name: bags[:1] for name, bags in x.items()})
    assert {part.path for part in explanation.top_bag.children} == {"series", "repairs"}
    deletion = explainer.deletion(x)
    assert all(row.index < n for row in deletion.rows)

"""Batches of whole top-bags as a tf.data.Dataset."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_mmil
from keras_mmil import Bags, batches, ragged
from keras_mmil.layers import BagLayer, Distinct, bag_inputs

N = 11


def example():
    rng = np.random.default_rng(0)
    top = rng.integers(0, 4, N)
    sub = rng.integers(0, 4, top.sum())
    x = ragged.from_flat(rng.integers(0, 5, sub.sum()).astype("int32"), [top, sub])
    return x, np.arange(N)


def lists_of(dataset):
    """Batches as lists of pairs of a top-bag and its label."""
    return [list(zip(x.to_list(), y.numpy().tolist(), strict=True)) for x, y in dataset]


def joined(batches):
    return [pair for batch in batches for pair in batch]


def test_whole_top_bags_in_order():
    x, y = example()
    got = lists_of(batches.to_dataset(x, y, batch_size=4, shuffle=False))
    assert [len(batch) for batch in got] == [4, 4, 3]
    assert joined(got) == list(zip(x.to_list(), y.tolist(), strict=True))


def test_shuffles_top_bags_with_their_labels_every_epoch():
    x, y = example()
    dataset = batches.to_dataset(x, y, batch_size=4, seed=3)
    epochs = [lists_of(dataset) for _ in range(2)]
    orders = [[label for _, label in joined(epoch)] for epoch in epochs]
    assert orders[0] != orders[1]
    for epoch, order in zip(epochs, orders, strict=True):
        assert sorted(order) == y.tolist()
        assert [bag for bag, _ in joined(epoch)] == [x[i].to_list() for i in order]
    again = batches.to_dataset(x, y, batch_size=4, seed=3)
    assert [lists_of(again) for _ in range(2)] == epochs


def test_bags_are_the_dict_of_their_inputs():
    x, y = example()
    bags = Bags.from_ragged(x)
    weights = np.linspace(0, 1, N)
    dataset = batches.to_dataset(bags, (y, weights), batch_size=N, shuffle=False)
    for inputs, labels, share in dataset:
        assert inputs.keys() == bags.inputs.keys()
        for name, part in inputs.items():
            assert part.to_list() == bags.inputs[name].to_list()
        np.testing.assert_array_equal(labels, y)
        np.testing.assert_array_equal(share, weights)
    (only,) = batches.to_dataset(x, batch_size=20, shuffle=False)
    assert only.to_list() == x.to_list()


@pytest.mark.parametrize("compress", [True, False])
def test_a_training_loop_is_traced_once(compress):
    x, y = example()
    x = Bags.from_ragged(x) if compress else x
    dataset = batches.to_dataset(x, y.astype("float32"), batch_size=4, seed=0)
    traces = []

    @tf.function(input_signature=dataset.element_spec)
    def step(inputs, labels):
        traces.append(1)
        flat = [part.flat_values for part in tf.nest.flatten(inputs)]
        return sum(tf.reduce_sum(tf.cast(part, tf.float32)) for part in flat), labels

    for _ in range(3):
        for batch in dataset:
            step(*batch)
    assert len(traces) == 1


@pytest.mark.slow
def test_fit_evaluate_and_predict():
    x, y = example()
    y = (y % 2).astype("float32")
    inputs = bag_inputs(2)
    ids, *levels = Distinct()(inputs)
    rows = keras.layers.Embedding(5, 4)(ids)
    for level in levels:
        rows = BagLayer(4)(rows, *level)
    model = keras_mmil.Model(inputs, keras.layers.Dense(1, activation="sigmoid")(rows))
    model.compile("adam", "binary_crossentropy")
    bags = Bags.from_ragged(x)
    model.fit(batches.to_dataset(bags, y, 4), shuffle=False, epochs=2, verbose=0)
    held_out = batches.to_dataset(bags, y, 4, shuffle=False)
    np.testing.assert_allclose(
        model.evaluate(held_out, verbose=0), model.evaluate(x, y, verbose=0), rtol=1e-5
    )
    np.testing.assert_allclose(
        model.predict(batches.to_dataset(bags, batch_size=3, shuffle=False), verbose=0),
        model.predict(x, verbose=0),
        atol=1e-6,
    )


def orders(n_epochs, **arguments):
    """The labels, and so the top-bags, in the order of each of the first epochs."""
    x, y = example()
    endless = batches.to_dataset(x, y, batch_size=4, **arguments)
    got = lists_of(endless.take(3 * n_epochs))  # batches of 4, 4 and 3
    assert [len(batch) for batch in got] == [4, 4, 3] * n_epochs
    pairs = joined(got)
    assert [bag for bag, _ in pairs] == [x[label].to_list() for _, label in pairs]
    return np.array([label for _, label in pairs]).reshape(n_epochs, N).tolist()


@pytest.mark.slow
def test_endless_epochs_depend_on_seed_and_number():
    epochs = orders(8, seed=5, first_epoch=0)
    assert all(sorted(epoch) == list(range(N)) for epoch in epochs)
    assert len(set(map(tuple, epochs))) == 8
    assert orders(5, seed=5, first_epoch=3) == epochs[3:]
    assert orders(8, seed=6, first_epoch=0) != epochs
    assert orders(2, first_epoch=0) == orders(2, seed=0, first_epoch=0)
    assert orders(3, shuffle=False, first_epoch=2) == [list(range(N))] * 3


@pytest.mark.parametrize("batch_size", [0, -1, 2.5, True])
def test_bad_batch_size(batch_size):
    with pytest.raises(ValueError, match=f"batch_size={batch_size}"):
        batches.to_dataset(*example(), batch_size=batch_size)


def test_bad_data():
    x, y = example()
    with pytest.raises(ValueError, match=r"sizes=\[11, 10\]"):
        batches.to_dataset(x, y[:10])
    with pytest.raises(ValueError, match="0 top-bags"):
        batches.to_dataset(x[:0], y[:0])


@pytest.mark.slow
@pytest.mark.parametrize("n_parts", [1, 2, 5])
def test_parts_make_up_the_batches(n_parts):
    """As many parts as asked for, also of a batch that has fewer top-bags; all nearly as large."""
    x, y = example()
    order = {"batch_size": 4, "seed": 3, "first_epoch": 2, "shuffle": True}
    expected = lists_of(batches.to_dataset(x, y, **order).take(3))
    of_each = [
        lists_of(batches.parts_of_batches(x, y, parts=[part], n_parts=n_parts, **order).take(3))
        for part in range(n_parts)
    ]
    for parts, batch in zip(zip(*of_each, strict=True), expected, strict=True):
        sizes = [len(part) for part in parts]
        assert max(sizes) - min(sizes) <= 1
        assert joined(parts) == batch
    # The parts of one worker's replicas, in turn.
    both = batches.parts_of_batches(x, y, parts=[0, n_parts - 1], n_parts=n_parts, **order)
    of_two = [of_each[0], of_each[-1]]
    assert lists_of(both.take(6)) == [part for two in zip(*of_two, strict=True) for part in two]

"""Hashes of top-bags: of their content, and of all of it."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from record_networks import churn_model, random_customers
from record_networks import read as read_customers

from keras_mmil import Bags, ragged
from keras_mmil.layers import bag_inputs
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.network.fingerprints import fingerprints

VECTORS = keras.Input((None, None, 2), ragged=True)


def random_vectors(n=50, seed=0):
    rng = np.random.default_rng(seed)
    sizes = [rng.integers(0, 4, n)]
    sizes.append(rng.integers(0, 4, sizes[0].sum()))
    return ragged.from_flat(rng.integers(0, 2, (sizes[1].sum(), 2)).astype("f"), sizes)


def groups(hashes):
    """Which top-bags are alike: for each the first that equals it."""
    hashes = list(hashes)
    return [hashes.index(each) for each in hashes]


def test_equal_content_and_nothing_else():
    x = random_vectors()
    found = fingerprints(x, VECTORS)
    assert found.dtype == np.uint64
    assert groups(found) == groups(map(str, x.to_list()))
    assert len(set(found)) < len(found)  # some are equal, so that both ways are tested
    order = np.random.default_rng(1).permutation(50)
    np.testing.assert_array_equal(fingerprints(ragged.take(x, order), VECTORS), found[order])


def test_sizes_of_bags_are_content():
    pairs = [[[[1.0, 2], [3, 4]], []], [[[1.0, 2]], [[3, 4]]], [[[1.0, 2], [3, 4]]], [[], []], []]
    x = ragged.from_nested_lists(pairs, inner_shape=(2,), depth=2)
    assert len(set(fingerprints(x, VECTORS))) == 5


def test_forms_and_dtypes_do_not_matter():
    dense = np.random.default_rng(0).integers(0, 2, (20, 2, 3, 2)).astype("f")
    expected = fingerprints(tf.RaggedTensor.from_tensor(dense, ragged_rank=2), VECTORS)
    for same in (dense, dense.astype("float64"), tf.constant(dense, tf.int32),
                 tf.RaggedTensor.from_tensor(dense, ragged_rank=1)):  # fmt: skip
        np.testing.assert_array_equal(fingerprints(same, VECTORS), expected)


@pytest.mark.parametrize("merge", ["batch", "top_bag", None])
def test_compressed_bags_equal_plain_ones(merge):
    rng = np.random.default_rng(0)
    sizes = [rng.integers(1, 4, 60)]
    sizes.append(rng.integers(1, 4, sizes[0].sum()))
    x = ragged.from_flat(rng.integers(0, 2, sizes[1].sum()), sizes)
    expected = bag_inputs(2)
    plain = fingerprints({"bags": x}, expected)
    packed = fingerprints(Bags.from_ragged(x, merge=merge).inputs, expected)
    np.testing.assert_array_equal(plain, packed)
    as_multisets = [str(sorted(sorted(bag) for bag in top)) for top in x.to_list()]
    assert groups(plain) == groups(as_multisets)
    assert len(set(plain)) < 60


def test_texts():
    spec = keras.Input((), dtype="string")
    texts = ["ab", "a", "b", "", "ab", "ä"]
    assert groups(fingerprints(tf.constant(texts), spec)) == groups(texts)
    nested = tf.ragged.constant([["ab", "c"], ["a", "bc"], ["abc"], [], ["ab", "c"]])
    spec = keras.Input((None,), dtype="string", ragged=True)
    assert groups(fingerprints(nested, spec)) == [0, 1, 2, 3, 0]


def test_records_differ_in_any_field():
    customers = random_customers(30)
    model = churn_model()
    x = read_customers(customers)
    found = fingerprints(x, model.input)
    assert groups(found) == groups(map(str, customers))
    for name, part in x.items():
        is_ragged = isinstance(part, tf.RaggedTensor)
        flat = part.flat_values if is_ragged else part
        values = flat.numpy().copy()
        values[-1] = b"other" if values.dtype == object else 123
        changed = part.with_flat_values(tf.constant(values)) if is_ragged else tf.constant(values)
        assert (fingerprints({**x, name: changed}, model.input) != found).sum() == 1


def shuffled(part, rng):
    """Nested lists and records with the members of all bags in another order."""
    if isinstance(part, dict):
        return {name: shuffled(value, rng) for name, value in part.items()}
    if isinstance(part, list):
        return [shuffled(part[i], rng) for i in rng.permutation(len(part))]
    return part


def canonical(part):
    """The same text for the same multisets of multisets."""
    if isinstance(part, dict):
        return str([(name, canonical(value)) for name, value in part.items()])
    return str(sorted(map(canonical, part))) if isinstance(part, list) else str(part)


def test_members_have_no_order():
    rng = np.random.default_rng(0)
    customers = random_customers(60)
    model = churn_model()
    paths = Network(model).paths
    assert {"orders", "orders.items", "visits"} <= set(paths)
    found = fingerprints(read_customers(customers), model.input, paths)
    other = [shuffled(each, rng) for each in customers]
    assert str(other) != str(customers)
    np.testing.assert_array_equal(fingerprints(read_customers(other), model.input, paths), found)
    assert groups(found) == groups(map(canonical, customers))
    # Which values are of the same member is content, and so is which bag a member is in.
    pairs = [[("a", 1), ("b", 2)], [("a", 2), ("b", 1)]]
    specs = {"o.x": keras.Input((None,), dtype="string", ragged=True),
             "o.y": keras.Input((None,), ragged=True)}  # fmt: skip
    x = {name: tf.ragged.constant([[pair[i] for pair in each] for each in pairs])
         for i, name in enumerate(specs)}  # fmt: skip
    assert len(set(fingerprints(x, specs, ["o"]))) == 2
    vectors = random_vectors()
    lists = [[list(map(tuple, sub)) for sub in top] for top in vectors.to_list()]
    as_lists = [[[list(v) for v in sub] for sub in top] for top in shuffled(lists, rng)]
    again = ragged.from_nested_lists(as_lists, inner_shape=(2,), depth=2)
    hashes = fingerprints(vectors, VECTORS, ("", ""))
    assert sorted(hashes) == sorted(fingerprints(again, VECTORS, ("", "")))
    assert groups(hashes) == groups(map(canonical, lists))

"""What is read against what was written, and the orders of epochs."""

import bag_forms
import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st
from pairs import pairs
from shard_data import (
    FORMATS,
    FORMS,
    N,
    assert_same,
    bags,
    expected,
    joined,
    labels,
    nested,
    written,
)

import keras_mmil
from keras_mmil import batches, io, ragged

every_format = pytest.mark.parametrize("format", FORMATS)
# Both formats give the same batches in the same orders, as others of these tests say.
one_format = pytest.mark.parametrize(
    "format", [FORMATS[0], *(pytest.param(f, marks=pytest.mark.nightly) for f in FORMATS[1:])]
)


@pytest.mark.slow
@pytest.mark.parametrize(("format", "form"), pairs(FORMATS, FORMS))
def test_what_was_written_is_read(form, format, tmp_path):
    check_form(form, format, tmp_path)


@pytest.mark.slow
@every_format
def test_bags_with_labels_and_weights_are_read(format, tmp_path):
    check_form("bags", format, tmp_path)


def check_form(form, format, tmp_path):
    data = FORMS[form]()
    written(tmp_path, format, **data)
    dataset = io.read(tmp_path, 4)
    n = -(-(1 if form == "one top-bag" else N) // 4)
    assert dataset.cardinality() == n
    found = list(dataset)
    assert len(found) == n
    for batch in found:
        spec = tf.nest.flatten(dataset.element_spec)
        for part, each in zip(spec, tf.nest.flatten(batch), strict=True):
            assert part.is_compatible_with(each)
    assert_same(joined(found), expected(**data))
    assert_same(joined(dataset), expected(**data))  # again


DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "string"),
)
PARTS = st.tuples(
    st.integers(0, 4),
    st.sampled_from(DTYPES),
    st.lists(st.integers(1, 3), max_size=3).map(tuple),
    st.integers(0, 9),
)


@pytest.mark.slow
@every_format
@pytest.mark.parametrize("n_examples", [2, pytest.param(30, marks=pytest.mark.nightly)])
def test_any_tensors_are_read(format, n_examples, tmp_path_factory):
    @settings(max_examples=n_examples)
    @given(
        parts=st.lists(PARTS, min_size=1, max_size=5),
        n=st.integers(1, 20),
        per_file=st.integers(1, 20),
        batch_size=st.integers(1, 20),
        pieces=st.lists(st.integers(0, 7), max_size=9),
    )
    def check(**drawn):
        check_tensors(format, tmp_path_factory, **drawn)

    check()


def check_tensors(format, tmp_path_factory, parts, n, per_file, batch_size, pieces):
    x = {}
    for i, (depth, dtype, inner, seed) in enumerate(parts):
        part = nested(n, max(1, depth), seed, inner, dtype)
        x[f"part {i}"] = part if depth else tf.convert_to_tensor(dense(n, inner, dtype, seed))
    cuts = np.minimum(np.cumsum([0, *pieces, n]), n)
    stream = (keras_mmil.ragged.take(x, slice(*cuts[i : i + 2])) for i in range(len(cuts) - 1))
    folder = tmp_path_factory.mktemp("any")
    io.write(folder, stream, format=format, top_bags_per_file=per_file, verbose=0)
    assert_same(joined(io.read(folder, batch_size)), x)
    assert io.info(folder).n_top_bags == n
    shuffled = io.read(folder, batch_size, shuffle=True, seed=0, buffer_size=3)
    found = [row for batch in shuffled for row in rows_of(batch)]
    assert sorted(found) == sorted(rows_of(x))


def dense(n, inner, dtype, seed):
    whole = nested(n, 1, seed, inner, dtype).flat_values.numpy()
    values = np.resize(whole, (n, *inner)) if whole.size else np.zeros((n, *inner), whole.dtype)
    return np.where(values == 0, b"", values) if dtype == "string" else values


def rows_of(x):
    """Each top-bag as text."""
    parts = tf.nest.flatten(x)
    listed = [
        part.to_list() if hasattr(part, "to_list") else part.numpy().tolist() for part in parts
    ]
    return [repr(row) for row in zip(*listed, strict=True)]


# Orders -----------------------------------------------------------------------------------------


def numbers(dataset):
    return [batch["n"].numpy().tolist() for batch in dataset]


def in_one(batches):
    return [number for batch in batches for number in batch]


@pytest.fixture(scope="module", params=FORMATS)
def numbered(request, tmp_path_factory):
    """Top-bags with their numbers, in 13 files."""
    folder = tmp_path_factory.mktemp("numbered")
    x = {"x": nested(123, 2), "n": np.arange(123)}
    return written(folder, request.param, 10, x=x)


def test_without_shuffling_the_order_is_that_of_the_data(numbered):
    found = numbers(io.read(numbered, 32))
    assert [len(batch) for batch in found] == [32, 32, 32, 27]
    assert in_one(found) == list(range(123))


@pytest.mark.slow
@pytest.mark.parametrize("buffer_size", [1, 20, None])
def test_each_epoch_has_every_top_bag_once_in_another_order(numbered, buffer_size):
    dataset = io.read(numbered, 8, shuffle=True, seed=1, buffer_size=buffer_size)
    epochs = [numbers(dataset) for _ in range(3)]
    for epoch in epochs:
        assert [len(batch) for batch in epoch] == [8] * 15 + [3]
        assert sorted(in_one(epoch)) == list(range(123))
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]
    again = io.read(numbered, 8, shuffle=True, seed=1, buffer_size=buffer_size)
    assert [numbers(again) for _ in range(3)] == epochs
    other = io.read(numbered, 8, shuffle=True, seed=2, buffer_size=buffer_size)
    assert numbers(other) not in epochs


def epochs_of(dataset, n, n_batches=16):
    batches = iter(dataset)
    return [[next(batches)["n"].numpy().tolist() for _ in range(n_batches)] for _ in range(n)]


@pytest.mark.slow
def test_an_epoch_follows_from_its_number_and_the_seed(numbered):
    dataset = io.read(numbered, 8, shuffle=True, seed=4, first_epoch=0)
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    epochs = epochs_of(dataset, 4)
    keras.utils.set_random_seed(99)  # of no influence
    later = io.read(numbered, 8, shuffle=True, seed=4, first_epoch=2)
    assert epochs_of(later, 2) == epochs[2:]
    assert len({str(epoch) for epoch in epochs}) == 4
    for epoch in epochs:
        assert sorted(in_one(epoch)) == list(range(123))
    plain = io.read(numbered, 8, first_epoch=5)
    assert [in_one(epoch) for epoch in epochs_of(plain, 2)] == [list(range(123))] * 2


@pytest.mark.slow
def test_all_formats_have_the_same_orders(tmp_path):
    x = {"n": np.arange(200)}
    folders = [written(tmp_path / format, format, 17, x=x) for format in FORMATS]
    for options in ({"buffer_size": 40}, {"buffer_size": 3}, {"shard": (1, 2)}):
        one, two = (
            epochs_of(io.read(folder, 7, shuffle=True, seed=5, first_epoch=3, **options), 2, 14)
            for folder in folders
        )
        assert one == two


def test_top_bags_of_several_files_are_mixed(numbered):
    (first, *_) = numbers(io.read(numbered, 32, shuffle=True, seed=0, buffer_size=32))
    assert len({n // 10 for n in first}) >= 3
    assert first != sorted(first)


@pytest.mark.slow
def test_a_buffer_of_all_data_makes_all_orders_equally_likely(tmp_path):
    written(tmp_path, "tfrecord", 2, x={"n": np.arange(4)})
    dataset = io.read(tmp_path, 4, shuffle=True, seed=0, first_epoch=0, buffer_size=4)
    found = [tuple(batch["n"].numpy()) for batch in dataset.take(1200)]
    _, counts = np.unique(found, axis=0, return_counts=True)
    assert len(counts) == 24
    assert ((counts - 50) ** 2 / 50).sum() < 49.7  # chi-squared with 23 degrees: p = 0.001


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 3])
def test_workers_share_the_data(numbered, n_workers):
    found = []
    for i in range(n_workers):
        options = {"shuffle": True, "seed": 0, "first_epoch": None}
        dataset = io.read(numbered, 8, shard=(i, n_workers), **options)
        own = numbers(dataset)
        assert len(own) == dataset.cardinality()
        found += in_one(own)
        policy = dataset.options().experimental_distribute.auto_shard_policy
        is_off = policy == tf.data.experimental.AutoShardPolicy.OFF
        assert is_off == (n_workers > 1)
    assert sorted(found) == list(range(123))


@pytest.mark.parametrize("shard", [(2, 2), (-1, 2), (0, 14), (0, 0), (0.5, 1)])
def test_shards_that_there_are_not(numbered, shard):
    with pytest.raises(ValueError, match=r"Expected an int.*Received: shard\["):
        io.read(numbered, shard=shard)


@pytest.mark.parametrize(
    "options",
    [{"batch_size": 0}, {"seed": -1}, {"first_epoch": 1.5}, {"shuffle": True, "buffer_size": 0}],
)
def test_numbers_that_are_none(numbered, options):
    with pytest.raises(ValueError, match=f"Received: {list(options)[-1]}="):
        io.read(numbered, **options)


# Training ---------------------------------------------------------------------------------------


def network():
    model = bag_forms.compressed_model()
    model.compile("adam", "mse", weighted_metrics=["mae"])
    return model


@pytest.mark.slow
@one_format
def test_training_from_files_equals_training_in_memory(format, tmp_path):
    x, y, weights = bags(2), labels(), np.linspace(0.5, 1, N)
    written(tmp_path, format, x=x, y=y, sample_weight=weights)
    ours, theirs = network(), network()
    history = ours.fit(io.read(tmp_path, 6), epochs=3, shuffle=False, verbose=0).history
    in_memory = batches.to_dataset(x, (y, weights), 6, shuffle=False)
    expected_history = theirs.fit(in_memory, epochs=3, shuffle=False, verbose=0).history
    assert history == expected_history
    for one, two in zip(ours.get_weights(), theirs.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)
    found = ours.evaluate(io.read(tmp_path, N), verbose=0)
    np.testing.assert_allclose(found, theirs.evaluate(x, y, N, 0, weights), rtol=1e-6)
    np.testing.assert_allclose(
        ours.predict(io.read(tmp_path, 5), verbose=0), theirs.predict(x, verbose=0), atol=1e-6
    )


@pytest.mark.slow
@one_format
def test_an_interrupted_training_continues(format, tmp_path):
    written(tmp_path, format, x=bags(2), y=labels())

    def fit(model, first_epoch, epochs):
        options = {"shuffle": True, "seed": 7, "first_epoch": first_epoch, "buffer_size": 9}
        dataset = io.read(tmp_path, 6, **options)
        model.fit(dataset, steps_per_epoch=4, epochs=epochs, shuffle=False, verbose=0)

    whole, interrupted = network(), network()
    fit(whole, 0, 3)
    fit(interrupted, 0, 1)
    fit(interrupted, 1, 2)
    for one, two in zip(whole.get_weights(), interrupted.get_weights(), strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.slow
def test_an_explainer_reads_files(tmp_path):
    x = bag_forms.packed()
    model = bag_forms.compressed_model()
    written(tmp_path, x=x)
    settings = {"batch_size": bag_forms.BATCH}
    one, two = (bag_forms.new_explainer(model, x, n_clusters=2, **settings) for _ in range(2))
    one.fit(model, io.read(tmp_path, bag_forms.BATCH), io.read(tmp_path, bag_forms.BATCH))
    in_memory = batches.to_dataset(x, batch_size=bag_forms.BATCH, shuffle=False)
    two.fit(model, in_memory, in_memory)
    assert one.rules_.text() == two.rules_.text()
    assert one.fidelity_ == two.fidelity_


@every_format
@pytest.mark.parametrize(("batch_size", "per_file"), [(4, 5), (1, 23), (30, 2)])
def test_some_rows_are_read(batch_size, per_file, format, tmp_path):
    """In the order of the data: those at both ends of files, and none of some files."""
    data = FORMS["bags"]()
    written(tmp_path, format, per_file, **data)
    rows = np.array([22, 0, 4, 5, 6, 21])
    dataset = io.read(tmp_path, batch_size, rows=rows)
    found = list(dataset)
    assert len(found) == dataset.cardinality() == -(-len(rows) // batch_size)
    assert_same(ragged.concat(found), ragged.take(expected(**data), np.sort(rows)))


@pytest.mark.slow
def test_orders_of_some_rows_are_those_of_both_formats(tmp_path):
    """They are shuffled, each comes once an epoch, and the workers share them."""
    ids = np.arange(200)
    rows = np.flatnonzero(ids % 3)
    orders = []
    for format in FORMATS:
        folder = written(tmp_path / format, format, 40, x=ids)
        endless = io.read(folder, 10, shuffle=True, seed=1, first_epoch=2, rows=rows)
        read = [np.concatenate(list(endless.skip(14 * i).take(14))) for i in range(2)]
        parts = [io.read(folder, 10, rows=rows, shard=(i, 2)) for i in range(2)]
        assert np.sort(np.concatenate([joined(part) for part in parts])).tolist() == rows.tolist()
        orders.append(np.stack(read).tolist())
    assert orders[0] == orders[1]
    first, second = orders[0]
    assert sorted(first) == sorted(second) == rows.tolist()
    assert first != second != rows.tolist()


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], r"some at least.*\(0,\)"),
        ([0, 23], "0 to 23"),
        ([-1, 3], "-1 to 3"),
        ([1, 2, 1], "1 again"),
        ([True, False], "bool"),
        ([[1]], r"\(1, 1\)"),
    ],
)
def test_rows_that_are_no_indices_are_refused(rows, message, tmp_path):
    written(tmp_path, x=np.arange(N))
    with pytest.raises(ValueError, match=message):
        io.read(tmp_path, rows=rows)


def test_rows_of_other_workers_only_are_refused(tmp_path):
    written(tmp_path, x=np.arange(N))
    with pytest.raises(ValueError, match="rows that are in these files"):
        io.read(tmp_path, rows=[0, 1], shard=(1, 2))

"""Blocks of files as the data of an explainer: the same rules as of the same batches at hand."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow as tf
from bag_forms import BATCH, FORMS
from saved_rules import assert_same_rules

import keras_mmil
from keras_mmil import batches, distributed, io, ragged
from keras_mmil.distributed.blocks import blocks_of, files_of
from keras_mmil.distributed.engine import Pool
from keras_mmil.distributed.predictor import Predictor
from keras_mmil.distributed.rules import BlockSource
from keras_mmil.rules import Explainer
from keras_mmil.rules.network.capture import Network
from keras_mmil.rules.network.sources import Source


def dataset(x):
    return batches.to_dataset(x, None, batch_size=BATCH, shuffle=False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("block_size", "extra"),
    [
        pytest.param(BATCH, {}, marks=pytest.mark.nightly),
        pytest.param(3 * BATCH, {"max_rows": 40}, marks=pytest.mark.nightly),
        (1000, {"metric": "sensitivity"}),
    ],
)
def test_rules_of_files_are_those_of_a_dataset(saved, tmp_path, block_size, extra):
    arguments = saved.arguments | extra
    ours = distributed.fit_rules(
        saved.model_path,
        saved.folder / "one_file",
        saved.folder / "valid",
        block_size=block_size,
        **arguments,
    )
    theirs = Explainer(**arguments).fit(saved.model, dataset(saved.x), dataset(saved.x_valid))
    assert_same_rules(tmp_path, ours, theirs)
    assert ours.fidelity(saved.x) == theirs.fidelity(saved.x)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["ragged", "texts"])
def test_other_inputs(form, tmp_path):
    make_model, make_data = FORMS[form]
    model, x = make_model(), make_data()
    x = list(x) if form == "texts" else x
    model.save(tmp_path / "model.keras")
    io.write(tmp_path / "in", x, verbose=0)
    threshold = float(np.median(model.predict(x, verbose=0)))
    arguments = {
        "max_clusters": 3,
        "target": (0, threshold),
        "batch_size": BATCH,
        "ccp_alpha": 0,
        "verbose": 0,
    }
    folders = [tmp_path / "in"] * 2
    ours = distributed.fit_rules(tmp_path / "model.keras", *folders, block_size=16, **arguments)
    theirs = Explainer(**arguments).fit(model, x, x)
    assert_same_rules(tmp_path, ours, theirs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*into one class")
def test_rules_of_some_top_bags(saved, tmp_path):
    def fit(block_size=1000, **extra):
        return distributed.fit_rules(
            saved.model_path,
            saved.folder / "data",
            saved.folder / "valid",
            block_size=block_size,
            **saved.arguments | {"max_top_bags": 30} | extra,
        )

    ours, again, other = fit(), fit(), fit(random_state=1)
    assert_same_rules(tmp_path, ours, again)
    known = [ours.hashes(saved.x), ours.hashes(saved.x_valid)]
    for used in (ours._used, other._used):
        assert len(used) == 60
        assert np.isin(used, np.concatenate(known)).all()
    assert (ours._used != other._used).any()
    # Which ones are drawn does not depend on the blocks.
    np.testing.assert_array_equal(fit(block_size=7)._used, ours._used)


@pytest.fixture
def source(saved):
    predictor = Predictor(saved.model_path)
    files = files_of(saved.folder / "data", predictor.columns)
    return BlockSource(blocks_of(files, 20), BATCH, predictor, Pool(None, actors=0, threads=1))


def test_batches_are_those_of_the_blocks(saved, source):
    assert isinstance(source, Source)
    assert (source.n_batches, source.has_labels, source.is_counted) == (15, False, True)
    found = list(source.batches())
    assert [ragged.n_top_bags(x) for x in found] == [8, 8, 4, 8, 8, 4, 8] * 2 + [4]
    np.testing.assert_array_equal(
        tf.concat([x["bags"] for x in found], 0).flat_values, saved.x.bags.flat_values
    )


def test_sampled_twice(saved, source):
    some = source.sample(50, seed=3)
    few = some.sample(20, seed=4)
    assert source.sample(100, seed=0) is source
    names = {}
    for name, each, n in (("some", some, 50), ("few", few, 20)):
        found = list(each.batches())
        assert len(found) == each.n_batches
        assert sum(map(ragged.n_top_bags, found)) == n
        assert max(map(ragged.n_top_bags, found)) <= BATCH
        names[name] = {str(bag) for x in found for bag in x["bags"].to_list()}
    assert names["few"] < names["some"]
    expected = np.sort(np.random.default_rng(3).permutation(100)[:50])
    rows = tf.concat([x["bags"] for x in some.batches()], 0)
    np.testing.assert_array_equal(rows.flat_values, tf.gather(saved.x.bags, expected).flat_values)


def test_numbers_of_batches_and_steps(source):
    def step(network, found, first):
        return first, [ragged.n_top_bags(x) for x in found]

    seen = []
    results = list(source.run(step, Network(source._predictor.model), lambda: seen.append(1)))
    firsts, sizes = zip(*results, strict=True)
    assert firsts == (0, 3, 6, 7, 10, 13, 14)
    assert sum(map(sum, sizes)) == 100
    assert len(seen) == source.n_batches


def test_what_files_have_not(source):
    with pytest.raises(ValueError, match="without"):
        source.labelled()
    with pytest.raises(ValueError, match="x_valid=None"):
        source.set_aside(0.5, 0)


def test_refused_before_work(saved):
    folders = [saved.folder / "data", saved.folder / "valid"]
    with pytest.raises(ValueError, match="batch_size"):
        distributed.fit_rules(saved.model_path, *folders, batch_size=0)
    with pytest.raises(TypeError, match="max_cluster"):
        distributed.fit_rules(saved.model_path, *folders, max_cluster=3)
    with pytest.raises(FileNotFoundError, match="Expected Parquet files"):
        distributed.fit_rules(saved.model_path, folders[0], saved.folder / "none")
    with pytest.raises(ValueError, match="target"):
        distributed.fit_rules(saved.model_path, *folders, verbose=0)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:.*into one class")
def test_stability_reads_the_files_again(saved):
    arguments = saved.arguments | {"max_clusters": 2}
    folders = [saved.folder / "one_file", saved.folder / "valid"]
    ours = distributed.fit_rules(saved.model_path, *folders, **arguments)
    theirs = Explainer(**arguments).fit(saved.model, dataset(saved.x), dataset(saved.x_valid))
    assert ours.stability(n=2).to_dict() == theirs.stability(n=2).to_dict()
    assert isinstance(ours, keras_mmil.Explainer)


@pytest.mark.slow
def test_rules_of_records(tmp_path):
    """The folder of an estimator, whose columns are the fields of records."""
    rng = np.random.default_rng(0)
    prices = [rng.normal(size=n) for n in rng.integers(0, 5, 90)]
    records = [
        {"id": f"row {i}", "orders": [{"price": x} for x in p]} for i, p in enumerate(prices)
    ]
    classifier = keras_mmil.NestedClassifier(effort="low", epochs=1, random_state=0, verbose=0)
    classifier.fit(records, ["many" if len(p) > 2 else "few" for p in prices]).save(
        tmp_path / "model"
    )
    pa.parquet.write_table(pa.Table.from_pylist(records), tmp_path / "records.parquet")
    model, x = classifier.model_, classifier.schema_.read(records)
    threshold = float(np.median(model.predict(x, verbose=0)[:, 0]))
    arguments = {"max_clusters": 3, "target": (0, threshold), "batch_size": BATCH, "verbose": 0}
    files = [tmp_path / "records.parquet"] * 2
    ours = distributed.fit_rules(tmp_path / "model", *files, block_size=3 * BATCH, **arguments)
    theirs = Explainer(**arguments).fit(model, dataset(x), dataset(x))
    assert_same_rules(tmp_path, ours, theirs)

"""Trained networks in files: what is read is what was written, and nothing else is."""

import json
import shutil
from types import SimpleNamespace

import keras
import numpy as np
import pytest

import keras_mmil
from keras_mmil import zoo
from keras_mmil.builders.corpus import Corpus
from keras_mmil.datasets import synthetic
from keras_mmil.records import Schema
from keras_mmil.records.network import Labels
from keras_mmil.zoo import _weights
from keras_mmil.zoo.pretrained import write

# Random weights put all into a class or two.
pytestmark = pytest.mark.filterwarnings("ignore:.*into one class", "ignore:.*distinct points")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder in place of that of the package."""
    monkeypatch.setattr(_weights, "FOLDER", tmp_path)
    return tmp_path


def rounded(model):
    """The same model, with random weights of 16 bits: zeros would hide what is exchanged."""
    rng = np.random.default_rng(0)
    arrays = (rng.normal(size=weight.shape, scale=0.3) for weight in model.weights)
    model.set_weights([array.astype(np.float16).astype(np.float32) for array in arrays])
    return model


def no_rules(path):
    path.mkdir()
    (path / "manifest.json").write_text("{}")


def store(folder, name, model, explainer=None, **more):
    """Write a network, without rules if there are none."""
    (folder / name).mkdir()
    facts = {"name": name, "command": "keras-mmil run", "figures": {"test_accuracy": 0.5}}
    write(folder / name, explainer or SimpleNamespace(save=no_rules), model, facts, **more)
    (folder / name / "card.md").write_text("# A card\n")


def explained(model, x, **arguments):
    return keras_mmil.Explainer(max_clusters=3, verbose=0, **arguments).fit(model, x)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A folder with a network for papers: the folder, the network, its rules and papers."""
    folder = tmp_path_factory.mktemp("stored")
    network = synthetic.load_citations(n_papers=60)
    model = rounded(zoo.citation_mmil(network, bag_units=(5, 6)))
    x = network.word_bags(np.arange(60))
    explainer = explained(model, x)
    store(folder, "cora", model, explainer)
    return folder, model, explainer, x


@pytest.fixture
def papers(stored, folder):
    """The same in the place of the package's own."""
    shutil.copytree(stored[0], folder, dirs_exist_ok=True)
    return stored[1:]


@pytest.mark.slow
def test_what_is_read_is_what_was_written(papers):
    model, explainer, x = papers
    found = zoo.load("cora")
    expected = model.predict(x, verbose=0)
    np.testing.assert_array_equal(found.predict(x), expected)
    assert found.model.compiled
    assert found.explainer.rules_.text() == explainer.rules_.text()
    assert list(map(str, found.explain(x[:3]))) == list(map(str, explainer.explain(x[:3])))
    assert str(zoo.card("cora")) == repr(found.card) == "# A card\n"
    assert found.card.figures == {"test_accuracy": 0.5}
    assert repr(found) == "<Pretrained 'cora': test_accuracy 0.5000>"
    built = zoo.citation_mmil(bag_units=(5, 6), dropout=0.1, weights="pretrained")
    np.testing.assert_array_equal(built.predict(x, verbose=0), expected)


@pytest.mark.slow
def test_texts_go_in(folder):
    (texts, _), *_ = synthetic.load_reviews(n_train=30, n_valid=5, n_test=5)
    corpus = Corpus.from_texts(texts, splitter="core", verbose=0)
    x, vectors = corpus.trigrams(), np.zeros((len(corpus.vocabulary), 8))
    model = rounded(zoo.imdb_mmil(vectors, filters=6, bag_units=(8, 4)))
    store(
        folder,
        "imdb",
        model,
        explained(model, x),
        vocabulary=corpus.vocabulary,
        splitter=corpus.splitter,
    )
    found = zoo.load("imdb")
    np.testing.assert_allclose(found.predict(texts), model.predict(x, verbose=0), atol=1e-6)
    words = texts[0].split()
    assert words[0] in str(found.explain([texts[0]])[0])
    built = zoo.imdb_mmil(filters=6, bag_units=(8, 4), weights="pretrained")
    np.testing.assert_array_equal(built.predict(x, verbose=0), model.predict(x, verbose=0))
    assert not built.get_layer("word_vectors").trainable


@pytest.mark.slow
def test_records_go_in(folder):
    records = [
        {"items": [{"price": float(i * j), "kind": "ab"[j % 2]} for j in range(1 + i % 3)]}
        for i in range(40)
    ]
    schema = Schema.infer(records)
    x = schema.read(records)
    labels = Labels("classes", 2)
    model = rounded(zoo.records_model(schema, labels, units=4))
    store(folder, "mutagenicity", model, explained(model, x), schema=schema)
    found = zoo.load("mutagenicity")
    expected = model.predict(x, verbose=0)
    np.testing.assert_array_equal(found.predict(records), expected)
    np.testing.assert_array_equal(found.predict(x), expected)
    assert found.schema == schema
    assert [each.label for each in found.explain(records)] == [
        each.label for each in found.explain(x)
    ]


@pytest.mark.slow
def test_other_builders(folder):
    flora = synthetic.load_flora(n_regions=(4, 5), n_species=9)
    plants = rounded(zoo.plants_nearby(flora, bag_units=3, dense_units=5))
    _, *others = plants.get_weights()
    plants.set_weights([flora.presence, *others])
    digits = {"filters": (2, 3), "dense_units": 4, "bag_units": (5, 6)}
    clouds = {"equivariant_units": (4, 4), "dense_units": 3, "bag_units": (5,)}
    for name, model, build in (
        (
            "plants",
            plants,
            lambda **given: zoo.plants_nearby(None, bag_units=3, dense_units=5, **given),
        ),
        (
            "mnist",
            rounded(zoo.mnist_mmil(**digits)),
            lambda **given: zoo.mnist_mmil(**digits, **given),
        ),
        (
            "modelnet-p100",
            rounded(zoo.pointcloud_mmil(3, **clouds)),
            lambda **given: zoo.pointcloud_mmil(3, **clouds, **given),
        ),
    ):
        store(folder, name, model)
        for one, other in zip(build(weights="pretrained").weights, model.weights, strict=True):
            np.testing.assert_array_equal(one, other)
    assert (
        json.loads((folder / "plants" / "card.json").read_text())["weights"][0]["stored"] == "bits"
    )


def test_networks_that_the_weights_are_not_of(papers):
    wanted = r"^Expected the arguments that the pretrained network 'cora' was built with: .* "
    other = synthetic.load_citations(n_papers=60)
    for arguments, received in (
        ({"aggregation": "max"}, "other activations, aggregations or dtypes"),
        ({"bag_units": (5, 7)}, r"weights \(5, 7\) instead of \(5, 6\)"),
        ({"bag_units": (5,)}, "5 weights instead of 8"),
    ):
        with pytest.raises(ValueError, match=f"{wanted}Received: a network with {received}"):
            zoo.citation_mmil(other, **{"bag_units": (5, 6), **arguments}, weights="pretrained")


@pytest.mark.slow
def test_arguments_that_are_none(papers):
    with pytest.raises(
        ValueError, match=r"^Expected None or 'pretrained'\. Received: .*'imagenet'"
    ):
        zoo.mnist_mmil(weights="imagenet")
    for build, missing in (
        (zoo.citation_mmil, "a dataset"),
        (zoo.plants_nearby, "a dataset"),
        (zoo.imdb_mmil, "vectors"),
    ):
        with pytest.raises(ValueError, match=f"^Expected {missing}, or weights='pretrained'"):
            build()
    missing = r"^Expected the name of a pretrained network: 'cora'\. Received: 'mnist'$"
    for call in (zoo.load, zoo.card, lambda name: zoo.mnist_mmil(weights="pretrained")):
        with pytest.raises(ValueError, match=missing):
            call("mnist")


def test_there_may_be_none(folder):
    with pytest.raises(ValueError, match="none: this version has no files"):
        zoo.load("../cora")


@pytest.mark.slow
def test_damaged_files_are_refused_by_name(papers, folder):
    files = sorted(path for path in (folder / "cora").rglob("*.*") if path.suffix != ".md")
    assert {path.name.split("-")[0] for path in files} == {
        *("arrays", "card.json", "manifest.json", "network.json", "weights.npz")
    }
    for path in files:
        content = path.read_bytes()
        # Of JSON a digit: any byte may be of a name that nobody reads.
        place = next(i for i in range(len(content) // 2, 0, -1) if content[i : i + 1].isdigit())
        changed = b"8" if content[place : place + 1] == b"7" else b"7"
        path.write_bytes(content[:place] + changed + content[place + 1 :])
        with pytest.raises(ValueError, match=rf"{path.name}.*(damaged|whole)"):
            zoo.load("cora")
        path.write_bytes(content[: len(content) // 2])
        with pytest.raises(ValueError, match=path.name):
            zoo.load("cora")
        path.write_bytes(content)
    zoo.load("cora")


@pytest.mark.slow
def test_foreign_files_are_refused(papers, folder):
    model, _, x = papers
    shutil.copytree(folder / "cora", folder / "imdb")
    with pytest.raises(ValueError, match=r"imdb.card\.json, damaged: it is that of 'cora'"):
        zoo.load("imdb")
    shutil.rmtree(folder / "imdb")
    (folder / "cora" / "network.json").rename(folder / "network.json")
    with pytest.raises(ValueError, match=r"network\.json, damaged: it is missing"):
        zoo.load("cora")
    (folder / "network.json").rename(folder / "cora" / "network.json")
    other = keras.models.clone_model(model)
    other.set_weights([weight + 1 for weight in model.get_weights()])
    shutil.rmtree(folder / "cora" / "rules")
    explained(other, x).save(folder / "cora" / "rules")
    with pytest.raises(ValueError, match="Expected the model whose rules were saved"):
        zoo.load("cora")


@pytest.mark.parametrize(
    ("values", "stored"),
    [
        (np.array([[0.0, 1], [1, 1]], np.float32), "bits"),
        (np.zeros((0, 3), np.float32), "float16"),
        (np.array([0.5, -3], np.float32), "float16"),
        (np.array([0.1], np.float32), "whole"),
        (np.array([1e6], np.float32), "whole"),
        (np.array(1.0, np.float32), "float16"),
        (np.array([7, 2**40]), "whole"),
        (np.array([[127.0, 0.5], [-1, 0.75]], np.float32), "int8"),
        (np.full((2, 2, 3), 2**-140, np.float32), "whole"),  # below the smallest normal number
        (np.array([[255.0], [1]], np.float32), "float16"),
        (np.array([[1e30], [np.inf]], np.float32), "whole"),
    ],
)
def test_weights_are_packed_without_loss(tmp_path, values, stored):
    arrays, about = _weights.pack([values])
    np.savez_compressed(tmp_path / "weights.npz", **arrays)
    card = {
        "weights": about,
        "files": {"weights.npz": _weights.checksum_of_file(tmp_path / "weights.npz")},
    }
    (found,) = _weights.read_weights(tmp_path, card)
    assert about[0]["stored"] == stored
    assert found.dtype == values.dtype
    np.testing.assert_array_equal(found, values)


def test_weights_of_8_bits_are_the_nearest():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(3, 40, 6)).astype(np.float32) * [1e-9, 0.01, 1, 7, 1e9, 0]
    values = values.astype(np.float32)
    stored = _weights.in_8_bits(values)
    found = _weights.from_8_bits(stored).reshape(values.shape)
    largest = np.abs(values).max((0, 1))
    # Half of a step, which is a power of 2 and less than two 127ths of the largest.
    assert (np.abs(found - values).max((0, 1)) <= largest / 127).all()
    assert (np.abs(stored[:-1]).max(0)[:5] >= 63).all()
    np.testing.assert_array_equal(_weights.in_8_bits(found)[-1], stored[-1])

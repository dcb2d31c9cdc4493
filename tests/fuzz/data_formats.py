"""Formats of data sets: small files of each, and their loaders."""

import hashlib
import io
import json
import pickle
import tarfile
import zipfile
from collections import defaultdict

import h5py
import numpy as np
from damage import plain, write_zip
from harness import Format
from scipy.sparse import csr_matrix
from seals import reseal

from keras_mmil.builders import word_vectors
from keras_mmil.builders.corpus import Corpus
from keras_mmil.builders.flora import Flora, read_occurrences
from keras_mmil.datasets import (
    citations,
    imdb,
    mnist,
    modelnet,
    molecules,
    mutagenesis,
    plants,
    recipes,
    social,
    synthetic,
    trains,
)

__all__ = ["FORMATS"]


# Citations --------------------------------------------------------------------------------------


def make_planetoid(folder):
    rng = np.random.default_rng(0)
    words = (rng.random((10, 4)) < 0.5).astype(np.float32)
    one_hot = np.eye(3, dtype=np.int32)[rng.integers(0, 3, 10)]
    graph = defaultdict(list, {i: [(i + 1) % 10, (i + 3) % 10] for i in range(10)})
    test = [8, 9, 7]
    contents = {"x": csr_matrix(words[:2]), "y": one_hot[:2], "graph": graph}
    contents |= {"allx": csr_matrix(words[:7]), "ally": one_hot[:7]}
    contents |= {"tx": csr_matrix(words[test]), "ty": one_hot[test]}
    for part, content in contents.items():
        (folder / f"ind.own.{part}").write_bytes(pickle.dumps(content, 3))
    (folder / "ind.own.test.index").write_text("8\n9\n7\n")
    (folder / "own.years.txt").write_text("".join(f"{1990 + i}\n" for i in range(10)))
    (folder / "own.years.txt").rename(folder / "own.years")


def load_planetoid(folder):
    found = citations.read(folder, "own")
    edges = found.edges.tocoo()
    sparse = [edges.row.tolist(), edges.col.tolist(), edges.shape]
    parts = (found.words, found.n_words, found.labels, found.weights, found.years)
    return [sparse, *map(plain, parts), plain(found.transductive)]


# Graphs -----------------------------------------------------------------------------------------

_EDGES = [(1, 2), (2, 1), (2, 3), (3, 2), (1, 3), (3, 1), (3, 4), (4, 3), (5, 6), (6, 5)]
_GRAPHS = {
    "A": "".join(f"{a}, {b}\n" for a, b in _EDGES),
    "graph_indicator": "".join(f"{g}\n" for g in (1, 1, 1, 1, 2, 2, 3)),
    "graph_labels": "1\n-1\n1\n",
}
_ATOMS = {"node_labels": "0\n0\n1\n0\n2\n0\n6\n", "edge_labels": "0\n0\n1\n1\n2\n2\n0\n0\n1\n1\n"}


def make_graphs(name, files):
    def make(folder):
        (folder / "tu").mkdir()
        archive = {f"{name}/{name}_{part}.txt": text for part, text in files.items()}
        write_zip(folder / "tu" / f"{name}.zip", archive)

    return make


def load_networks(folder):
    found = social.load("COLLAB")
    return [plain(found.bags()), found.labels.tolist(), found.sizes.tolist()]


def load_molecules(folder):
    return molecules.load("MUTAG", radius=2)


# Reviews ----------------------------------------------------------------------------------------

_REVIEWS = {("train", "pos"): 30, ("train", "neg"): 30, ("train", "unsup"): 4}
_REVIEWS |= {("test", "pos"): 4, ("test", "neg"): 4}


def make_reviews(folder):
    with tarfile.open(folder / "aclImdb_v1.tar.gz", "w:gz") as archive:
        for (part, kind), n in _REVIEWS.items():
            for i in range(n):
                content = f"A {kind} film, number {i}.<br />Not good. {'bad ' * (i % 3)}".encode()
                info = tarfile.TarInfo(f"aclImdb/{part}/{kind}/{i}_7.txt")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))


def load_archive(folder):
    imdb._EXPECTED = _REVIEWS
    return [list(review) for review in imdb.read_archive(folder / "aclImdb_v1.tar.gz")]


def make_cached_reviews(folder):
    corpus = Corpus.from_texts(["Not bad. Not bad at all!", "Bad"], 1, splitter="core", verbose=0)
    labels = np.array([1, -1], np.int8)
    imdb._write(folder / "reviews.npz", imdb.Reviews(corpus, labels, labels < 0, folder))


def load_cached_reviews(folder):
    found = imdb._read(folder / "reviews.npz")
    return [plain(x) for x in (found.corpus.ids(), found.labels, found.is_test)]


# Images, clouds, plants -------------------------------------------------------------------------

_IMAGES = {"x_train": (60, 28, 28), "y_train": (60,), "x_test": (10, 28, 28), "y_test": (10,)}


def make_images(folder):
    rng = np.random.default_rng(0)
    digits = {"y_train": np.arange(60) % 10, "y_test": np.arange(10)}
    images = {k: rng.integers(0, 2, n) * 255 for k, n in _IMAGES.items() if k.startswith("x")}
    arrays = {k: x.astype("uint8") for k, x in (digits | images).items()}
    np.savez_compressed(folder / "mnist.npz", **arrays)


def load_images(folder):
    mnist._SHAPES = _IMAGES
    split = mnist.train_test_split
    mnist.train_test_split = lambda i, test_size, **options: split(i, test_size=0.2, **options)
    try:
        return [plain(x.sum(axis=(1, 2))) + plain(y) for x, y in mnist._mnist(0)]
    except ValueError as error:  # of scikit-learn, which needs two images of each digit
        if "least populated class" in str(error):
            return "few"
        raise
    finally:
        mnist.train_test_split = split


_SURFACE = "OFF\n4 2 5\n0 0 0\n2 0 0\n2 2 1\n0 2 1\n3 0 1 2\n3 0 2 3\n"


def make_surfaces(folder):
    names = ("bed/train/bed_1.off", "airplane/train/airplane_1.off", "bed/test/bed_2.off")
    write_zip(folder / "modelnet40" / "ModelNet40.zip", dict.fromkeys(names, _SURFACE))


def make_hdf5(folder):
    cloud = np.repeat(np.arange(32, dtype=np.float32).reshape(16, 2), 128, axis=0)
    cloud = np.concatenate([cloud, -cloud[:, :1]], axis=1)
    files = {}
    for part in ("train0", "test0"):
        content = io.BytesIO()
        with h5py.File(content, "w") as file:
            file.create_dataset("data", data=cloud[None], compression="gzip")
            file["label"] = np.array([[3]])
        files[f"ply_data_{part}.h5"] = content.getvalue()
    write_zip(folder / "modelnet40" / "modelnet40_ply_hdf5_2048.zip", files)


def make_points(folder):
    rng = np.random.default_rng(0)
    arrays = {f"x_{part}": rng.normal(0, 1, (2, 5, 3)) for part in ("train", "test")}
    arrays |= {f"y_{part}": np.array([1, 39]) for part in ("train", "test")}
    (folder / "modelnet40").mkdir()
    np.savez_compressed(folder / "modelnet40" / "modelnet40_5.npz", **arrays)


def load_clouds(source):
    def load(folder):
        modelnet.keras.utils.Progbar = _Quiet
        return plain(modelnet.load(5, source))

    return load


class _Quiet:
    def __init__(self, *_, **__):
        pass

    def add(self, *_):
        pass


def make_plants(folder):
    rng = np.random.default_rng(0)
    arrays = {
        "presence_packed": np.packbits(rng.random((6, 11)) < 0.5, axis=1),
        "shape": np.array([6, 11]),
        "coords": rng.random((6, 2)).astype("float32"),
        "species": np.array([f"s{i}" for i in range(11)]),
        "cells": np.array([f"c{i}" for i in range(6)]),
    }
    (folder / "plants").mkdir()
    np.savez(folder / "plants" / "afliber_species.npz", **arrays)


def make_nothing(folder):
    pass


_FLORA = []


def load_similar(folder):
    if not _FLORA:
        _FLORA.append(synthetic.load_flora((4, 5), 6))
    return plants.similar_regions(_FLORA[0], 3).to_list()


def make_occurrences(folder):
    rows = [("species", "decimalLatitude", "decimalLongitude", "remark")]
    rows += [(f"Abies {i % 3}", 40 + i / 7, i / 9, "x" * (i % 4)) for i in range(12)]
    (folder / "seen.txt").write_text("\n".join("\t".join(map(str, row)) for row in rows))


# Records ----------------------------------------------------------------------------------------

_BOND = {"bond_type": 7, "element": "c", "atom_type": 22, "charge": -0.1}
_ATOM = {"element": "h", "atom_type": 3, "charge": 0.1, "bonds": [_BOND, _BOND]}
_MOLECULE = {"ind1": 1, "inda": 0, "logp": 4.2, "lumo": -1, "mutagenic": 1, "atoms": [_ATOM] * 2}
_DUMP = """\
-- MySQL dump
INSERT INTO `cars` VALUES (1,1,1,'rectangle','short','not_double','none',2,'circle',1),\
(2,2,1,'hexagon','long','not_double','flat',3,NULL,0);
INSERT INTO `trains` VALUES (1,'east'),(2,'west');
"""


def writing(name, text):
    def make(folder):
        (folder / "records").mkdir()
        (folder / "records" / name).write_text(text)

    return make


_RECIPES = [
    {"id": i, "ingredients": ["salt", "jalapeño"][: i % 3], "cuisine": "thai"} for i in range(6)
]


# Words ------------------------------------------------------------------------------------------

_WORDS = ("_", "<unknown>", "good", "bad", "né")


def make_vectors(folder):
    rows = [(word, i, -0.5, 1e-3) for i, word in enumerate(_WORDS)]
    text = "".join(" ".join(map(str, row)) + "\n" for row in rows)
    (folder / "words.vec").write_text(f"5 3\n{text}", encoding="utf-8")


def make_binary_vectors(folder):
    rows = [
        word.encode() + b" " + np.float32([1, i, -2]).tobytes() for i, word in enumerate(_WORDS)
    ]
    (folder / "words.bin").write_bytes(b"5 3\n" + b"\n".join(rows) + b"\n")


def load_vectors(name, binary):
    def load(folder):
        return plain(word_vectors.read(folder / name, _WORDS, 3, binary=binary, verbose=0))

    return load


def make_corpus(folder):
    Corpus.from_texts(["Not bad. Not bad at all!", "Bad", ""], 1, splitter="core", verbose=0).save(
        folder / "corpus"
    )


def load_corpus(folder):
    found = Corpus.load(folder / "corpus")
    return [plain(found.ids()), found.vocabulary, found.counts.tolist()]


def seal_corpus(path):
    """Correct the checksums in `corpus.json`."""
    about_path = path.with_name("corpus.json")

    def change(about):
        if path != about_path:
            about["checksums"][path.stem] = sha256(path.read_bytes())

    reseal(about_path, change)


def seal_cache(path):
    """Correct the checksum at the end of a file of `cache.write_arrays`."""
    with zipfile.ZipFile(path, "a") as archive:
        archive.comment = b"sha256:" + b"0" * 64
    content = path.read_bytes()[:-64]
    path.write_bytes(content + sha256(content).encode())


def sha256(content):
    return hashlib.sha256(content).hexdigest()


def _flora(folder):
    return plain(plants.load(11))


def _occurrences(folder):
    found: Flora = read_occurrences(folder / "seen.txt", cell=0.5)
    return plain(found)


FORMATS = [
    Format("planetoid", make_planetoid, load_planetoid, names="ind.own"),
    Format("tu-networks", make_graphs("COLLAB", _GRAPHS), load_networks),
    Format("tu-molecules", make_graphs("MUTAG", _GRAPHS | _ATOMS), load_molecules),
    Format("imdb", make_reviews, load_archive),
    Format("mnist", make_images, load_images),
    Format("modelnet-surfaces", make_surfaces, load_clouds("surfaces")),
    Format("modelnet-hdf5", make_hdf5, load_clouds("hdf5")),
    Format("modelnet-points", make_points, load_clouds("points")),
    Format("plants", make_plants, _flora),
    Format("occurrences", make_occurrences, _occurrences),
    Format(
        "mutagenesis",
        writing("mutagenesis.json", json.dumps([_MOLECULE] * 3)),
        lambda folder: mutagenesis.load(),
    ),
    Format(
        "recipes",
        writing("recipes.jsonl", "".join(json.dumps(x) + "\n" for x in _RECIPES)),
        lambda folder: recipes.load(),
    ),
    Format("trains", writing("trains.sql", _DUMP), lambda folder: plain(tuple(trains.load()))),
    Format("vectors-text", make_vectors, load_vectors("words.vec", False)),
    Format("vectors-binary", make_binary_vectors, load_vectors("words.bin", True)),
    Format("corpus", make_corpus, load_corpus, names="corpus", seal=seal_corpus),
    Format("cache-networks", make_graphs("COLLAB", _GRAPHS), load_networks, n=200, is_cache=True),
    Format("cache-plants", make_nothing, load_similar, n=80, is_cache=True),
    Format(
        "cache-reviews", make_cached_reviews, load_cached_reviews, names="fuzz", is_checked=True
    ),
    Format(
        "cache-forged",
        make_graphs("COLLAB", _GRAPHS),
        load_networks,
        n=150,
        is_cache=True,
        seal=seal_cache,
    ),
]

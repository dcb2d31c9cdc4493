"""Citation networks: small ones in Planetoid's form, damaged and hostile ones, and the real."""

import hashlib
import pickle
import sys
import types
from collections import Counter, defaultdict

import damage
import numpy as np
import pytest
import scipy.sparse as sparse
from scipy.sparse import csr_matrix

from keras_mmil import zoo
from keras_mmil.builders import graphs
from keras_mmil.datasets import citations
from keras_mmil.datasets._io import planetoid

# Papers 0 and 1 are for training, 2 to 5 have labels, test papers are 6, 7 and 9; 8 is unknown.
WORDS = np.array(
    [
        [1, 0, 0, 1],
        [0, 1, 0, 0],
        [0, 1, 1, 0],
        [1, 1, 1, 1],
        [0, 0, 0, 0],
        [0, 0, 1, 0],
        [1, 0, 1, 0],
        [0, 0, 0, 1],
        [0, 0, 0, 0],
        [0, 1, 0, 1],
    ],
    np.float32,
)
LABELS = [0, 1, 1, 2, 0, 2, 1, 0, -1, 2]
EDGES = {0: [1, 1, 6], 1: [0, 2], 2: [1], 3: [3, 7], 4: [], 5: [9], 6: [0], 7: [3], 9: [5]}
TEST = [7, 9, 6]  # in the order of the files


def contents(words=WORDS):
    one_hot = np.array([np.arange(3) == label for label in LABELS], np.int32)
    graph = defaultdict(list, EDGES)
    return {
        "x": csr_matrix(words[:2]),
        "y": one_hot[:2],
        "allx": csr_matrix(words[:6]),
        "ally": one_hot[:6],
        "tx": csr_matrix(words[TEST]),
        "ty": one_hot[TEST],
        "graph": graph,
    }


def write(folder, name="cora", index=TEST, **changed):
    (folder / "planetoid").mkdir(exist_ok=True)
    for part, content in {**contents(), **changed}.items():
        path = folder / "planetoid" / f"ind.{name}.{part}"
        path.write_bytes(content if isinstance(content, bytes) else pickle.dumps(content, 3))
    path = folder / "planetoid" / f"ind.{name}.test.index"
    path.write_text(index if isinstance(index, str) else "".join(f"{i}\n" for i in index))


@pytest.fixture
def folder(folder, monkeypatch):
    """The folder, in which files of the official names may be any."""
    monkeypatch.setattr(planetoid, "_CHECKSUMS", {name: {} for name in citations.NAMES})
    return folder


@pytest.mark.parametrize("name", ["cora", "citeseer"])
def test_load(folder, name):
    write(folder, name)
    found = citations.load(name)
    assert found.words.to_list() == [np.flatnonzero(row).tolist() for row in WORDS]
    assert found.words.dtype == "int32"
    assert found.weights is None
    assert (found.n_words, found.n_classes) == (4, 3)
    assert found.labels.tolist() == LABELS
    expected = {(min(a, b), max(a, b)) for a, others in EDGES.items() for b in others if a != b}
    starts, ends = found.edges.nonzero()
    assert {
        (a, b) for a, b in zip(starts.tolist(), ends.tolist(), strict=True) if a < b
    } == expected
    assert found.edges.nnz == 2 * len(expected)


def test_weights_of_words(folder):
    weights = WORDS * np.arange(1, 11)[:, None] / 8
    write(folder, "pubmed", **contents(weights))
    found = citations.load("pubmed")
    assert found.weights.dtype == "float32"
    assert found.words.to_list() == [np.flatnonzero(row).tolist() for row in WORDS]
    for row, expected in zip(found.weights.to_list(), weights, strict=True):
        np.testing.assert_allclose(row, expected[expected > 0])


def test_files_of_python_2(folder, monkeypatch):
    """The real files name modules that SciPy and NumPy no longer have, and strings of bytes."""
    old = types.ModuleType("scipy.sparse.csr")
    old.csr_matrix = type("csr_matrix", (), {"__module__": "scipy.sparse.csr"})
    monkeypatch.setitem(sys.modules, "scipy.sparse.csr", old)

    def as_of_old(matrix):
        copy = old.csr_matrix()
        names = ("data", "indices", "indptr")
        copy.__dict__.update({name: getattr(matrix, name) for name in names}, _shape=matrix.shape)
        return pickle.dumps(copy, 3)

    old_ones = {part: as_of_old(contents()[part]) for part in ("x", "tx", "allx")}
    assert b"cscipy.sparse.csr\ncsr_matrix" in old_ones["x"]
    write(folder, **old_ones)
    assert citations.load("cora").words.to_list() == [np.flatnonzero(w).tolist() for w in WORDS]


class Hostile:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (self.path, "w")


@pytest.mark.parametrize("part", ["x", "ally", "graph"])
def test_hostile_files_run_nothing(folder, part):
    target = folder / "written"
    write(folder, **{part: Hostile(str(target))})
    with pytest.raises(ValueError, match=rf"ind\.cora\.{part} \(.*open is neither array nor list"):
        citations.load("cora")
    assert not target.exists()


BROKEN = csr_matrix(WORDS[:2])
BROKEN.indices = np.array([0, 9, 1], np.int32)  # there are four words
DECREASING = csr_matrix(WORDS[:2])
DECREASING.indptr = np.array([0, 2, 0], np.int32)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"x": b""}, r"ind\.cora\.x \("),
        ({"allx": pickle.dumps(csr_matrix(WORDS), 3)[:-20]}, r"ind\.cora\.allx \("),
        ({"x": BROKEN}, r"ind\.cora\.x \(.*indices"),
        ({"x": DECREASING}, r"ind\.cora\.x \(index pointers that decrease"),
        ({"x": csr_matrix(WORDS[:2] * np.nan)}, r"ind\.cora\.x \(not finite"),
        ({"y": [1, 2]}, r"ind\.cora\.y \(list instead of a matrix"),
        ({"ally": np.array([["a"]])}, r"ind\.cora\.ally \(an array of <U1 instead of numbers"),
        ({"graph": [1]}, "not a dict of lists"),
        ({"graph": {0: 1}}, "not a dict of lists"),
        ({"graph": {0: [99]}}, r"from 0 to 9. Received: .*ind\.cora\.\* with edges .* to 99"),
        ({"graph": {0: [None]}}, r"ind\.cora\.graph \(not numbers of papers"),
        ({"graph": dict.fromkeys(range(9), [1] * 999)}, "more edges than bytes"),
        ({"index": "7\nnine\n"}, r"ind\.cora\.test\.index \(.*nine"),
        ({"index": [7, 9, 3]}, "test papers from 6 up.*from 3 to 9"),
        ({"index": [7, 9]}, "with 2 test papers"),
        ({"index": [7, 9, 9]}, "with 3 test papers"),
        ({"ty": 2 * np.eye(3)}, "at most one class"),
        ({"ty": np.eye(3)[:2]}, "2 labels for them"),
        ({"ally": contents()["allx"]}, r"ind\.cora\.ally \("),
        ({"allx": contents()["ally"]}, r"ind\.cora\.allx \("),
    ],
)
def test_damaged_files(folder, changed, match):
    write(folder, **changed)
    with pytest.raises(ValueError, match=match):
        citations.load("cora")


def test_missing(folder):
    with pytest.raises(FileNotFoundError, match=r"planetoid/ind\.cora\.x"):
        citations.load("cora")
    with pytest.raises(ValueError, match=r"cora, citeseer, pubmed\. Received: name='arxiv'"):
        citations.load("arxiv")


# Splits and bags --------------------------------------------------------------------------------


@pytest.fixture
def network(folder):
    write(folder)
    found = citations.load("cora")
    return citations.Citations(**{**vars(found), "sizes": (3, 2, 4)})


@pytest.mark.parametrize("kind", ["random", "scarce"])
def test_random_splits(network, kind):
    """Random papers of known class; a scarce split has the sizes of the transductive one."""
    first, again, other = (network.split(kind, seed=seed) for seed in (0, 0, 1))
    sizes = {"random": [3, 2, 4], "scarce": [*map(len, network.split("transductive"))]}
    assert [len(part) for part in first] == sizes[kind]
    papers = np.concatenate(first)
    assert len(set(papers)) == len(papers)
    assert (network.labels[papers] >= 0).all()
    assert kind == "scarce" or sorted(papers) == [0, 1, 2, 3, 4, 5, 6, 7, 9]
    assert [part.tolist() for part in first] == [part.tolist() for part in again]
    assert [part.tolist() for part in first] != [part.tolist() for part in other]


def test_temporal_split(network):
    years = np.array([90, 91, 95, 90, 94, 96, 99, 97, 90, 95])
    train, valid, test = network.split("temporal", years=years, until=(94, 95))
    assert train.tolist() == [0, 1, 3, 4]
    assert valid.tolist() == [2, 9]
    assert test.tolist() == [5, 6, 7]


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ({"kind": "spatial"}, "kind='spatial'"),
        ({"kind": "temporal"}, r"which Planetoid does not have.*years.shape=\(0,\), until=\(1994"),
        ({"kind": "temporal", "years": range(10), "until": (5, 5)}, r"until=\(5, 5\)"),
        ({"kind": "temporal", "years": range(10), "until": (50, 60)}, r"\[9, 0, 0\] papers"),
    ],
)
def test_splits_that_are_none(network, arguments, match):
    with pytest.raises(ValueError, match=match):
        network.split(**arguments)


def test_bags(network):
    bags, weights = network.bags([0, 4, 8])
    assert bags.to_list() == [[0, 1, 6], [4], [8]]
    assert weights.to_list() == [[1, 1, 1], [1], [1]]
    assert network.bags([0, 1, 6], visible=[0, 1])[0].to_list() == [[0, 1], [1, 0], [6]]


@pytest.mark.parametrize("visible", [None, [0, 1, 6]])
def test_bags_of_papers_around(network, visible):
    """A paper, or each of its words, has the weight of its paper."""
    walk = {"restart": 0.2, "steps": 3}
    papers = [0, 6, 4]
    bags, weights = network.bags(papers, visible, walk)
    deep, flat = (network.word_bags(papers, visible, depth, walk) for depth in (2, 1))
    for i, (around, shares) in enumerate(zip(bags.to_list(), weights.to_list(), strict=True)):
        expected = Counter()
        of_papers = Counter()
        for paper, share in zip(around, shares, strict=True):
            words = network.words[paper].numpy().tolist()
            of_papers[tuple(sorted(words))] += share
            for word in words:
                expected[word] += share
        found = dict(
            zip(flat.bags[i].numpy().tolist(), flat.counts[i].numpy().tolist(), strict=True)
        )
        assert found == pytest.approx(expected)
        found = zip(deep.bags[i].to_list(), deep.level_counts[0][i].numpy().tolist(), strict=True)
        found = {tuple(words): share for words, share in found}
        assert found == pytest.approx(of_papers)


def test_splits_that_a_network_does_not_have(network):
    fields = {**vars(network), "sizes": None, "transductive": None}
    for kind in ("random", "transductive", "scarce"):
        with pytest.raises(ValueError, match=f"kind='{kind}', transductive=None, sizes=None"):
            citations.Citations(**fields).split(kind)


def test_years_from_a_file(folder):
    write(folder)
    assert citations.load("cora").years is None
    path = folder / "planetoid" / "cora.years"
    path.write_text(
        "".join(f"{year}\n" for year in (1990, 91, 1995, 1990, 1994, 1996, 99, 97, 1, 0))
    )
    found = citations.load("cora")
    train, valid, test = found.split("temporal")
    assert train.tolist() == [0, 1, 3, 4, 6, 7, 9]
    assert (valid.tolist(), test.tolist()) == ([2], [5])
    for content, match in (
        ("1990\n", "years of 10 papers.*with 1"),
        ("MCM\n", "Expected ints.*cora.years .*MCM"),
    ):
        path.write_text(content)
        with pytest.raises(ValueError, match=match):
            citations.load("cora")


def test_word_bags(network):
    bags = network.word_bags([0, 4, 8], visible=[0, 1])
    assert [sorted(bag) for bag in bags.to_ragged().to_list()] == [[[0, 3], [1]], [[]], [[]]]
    flat = network.word_bags([0, 4, 8], depth=1)
    assert [sorted(bag) for bag in flat.to_ragged().to_list()] == [[0, 0, 1, 2, 3], [], []]


def test_weights_of_words_enter_the_bags(folder):
    write(folder, "pubmed", **contents(WORDS * 0.25))
    found = citations.load("pubmed")
    bags = found.word_bags([0, 1])
    assert set(bags.counts.values.values.numpy().tolist()) == {0.25}
    merged = found.word_bags([0], depth=1)  # words 0 and 3, 1, and 0 and 2: 0 twice
    assert merged.bags.to_list() == [[0, 1, 2, 3]]
    assert merged.counts.to_list() == [[0.5, 0.25, 0.25, 0.25]]


@pytest.mark.slow
@pytest.mark.parametrize("model", [pytest.param("mmil", marks=pytest.mark.nightly), "mil"])
def test_a_network_of_papers_with_weights_trains(folder, model):
    """PubMed's form: the weights of its words reach the bag-layers."""
    write(folder, "pubmed", **contents(WORDS * 0.25))
    data = zoo.registry[f"pubmed-{model}-mean-transductive"].load()
    x, y, _ = data.train
    network = getattr(zoo, f"citation_{model}")(**data.build_arguments, aggregation="sum")
    network.fit(x, y, validation_data=data.test[:2], epochs=2, verbose=0)
    whole = citations.load("pubmed")
    unweighted = citations.Citations(**{**vars(whole), "weights": None})
    depth = 2 if model == "mmil" else 1
    found, other = (
        network.predict(each.word_bags([0, 1, 2], depth=depth), verbose=0)
        for each in (whole, unweighted)
    )
    assert found.shape == (3, 3)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)
    assert np.abs(found - other).max() > 1e-4


@pytest.mark.slow
def test_parts(network):
    """In training nobody has heard of later papers; in the transductive split everybody has."""
    papers = network.split("random", seed=3)
    for kind, seen in (
        ("random", [papers[0], np.concatenate(papers[:2]), np.concatenate(papers)]),
        ("transductive", [None] * 3),
        ("scarce", [None] * 3),
    ):
        parts = network.parts(kind, seed=3)
        for part, (x, y), visible in zip(network.split(kind, 3), parts, seen, strict=True):
            assert len(x) == len(y) == len(part)
            expected = network.word_bags(part, visible).to_ragged()
            assert x.to_ragged().to_list() == expected.to_list()
            np.testing.assert_array_equal(y, network.labels[part])
    assert [len(x) for x, _ in network.parts("random", limit=2)] == [2, 2, 2]
    assert {x.depth for x, _ in network.parts("random", depth=1)} == {1}


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"labels": np.zeros(3, int)}, r"labels.shape=\(3,\)"),
        ({"labels": np.full(10, -1)}, "all negative"),
        ({"n_words": 3}, "below 3.*words with 3"),
        ({"edges": sparse.csr_array((9, 9), dtype=bool)}, r"edges.shape=\(9, 9\)"),
    ],
)
def test_parts_of_a_network_that_do_not_fit(network, changed, match):
    with pytest.raises(ValueError, match=match):
        citations.Citations(**{**vars(network), **changed})


# Damaged files ----------------------------------------------------------------------------------


def fields_of(network):
    return damage.plain(network) | {"edges": network.edges.toarray().tolist()}


def write_years(folder):
    path = folder / "planetoid" / "cora.years"
    path.write_text("".join(f"{1990 + i}\n" for i in range(10)))
    return path


def test_damage_is_found_by_checksums(folder, monkeypatch):
    write(folder)
    paths = sorted((folder / "planetoid").iterdir())
    checksums = {
        path.name.removeprefix("ind.cora."): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in paths
    }
    monkeypatch.setattr(planetoid, "_CHECKSUMS", {"cora": checksums})
    damage.check_files(paths, lambda: fields_of(citations.load("cora")), True)


def test_damage_of_ones_own_files(folder):
    write(folder)
    paths = sorted((folder / "planetoid").iterdir())

    def load():
        return fields_of(citations.read(folder / "planetoid", "cora"))

    damage.check_files(paths, load, is_checked=False)


@pytest.mark.slow
def test_damage_of_years(folder):
    write(folder)
    path = write_years(folder)
    damage.check_files([path], lambda: fields_of(citations.load("cora")), False)


class Huge:
    """Pickled as a call of NumPy that makes an array of 2³⁴ numbers."""

    def __reduce__(self):
        return np.ndarray, ((2**34,),)


MEMO = b"\x80\x02]r\xff\xff\xff\x7f."  # an empty list, at place 2³¹ - 1 of the memo


@pytest.mark.parametrize(
    ("file", "content", "match"),
    [
        ("test.index", b"7\n2147483648\n6\n", r"most of which are described.*paper 2147483648"),
        ("graph", pickle.dumps({2**31: [1]}, 3), "with paper 2147483648"),
        ("ally", pickle.dumps(Huge(), 3), r"ind\.cora\.ally"),
        ("graph", MEMO, "place 2147483647 in a file of 9 bytes"),
        (
            "x",
            pickle.dumps(np.zeros((2, 4)), 3).replace(b"K\x02K\x04", b"J\xff\xff\xff\x7fK\x04"),
            "x ",
        ),
    ],
)
def test_huge_numbers(folder, file, content, match):
    write(folder)
    (folder / "planetoid" / f"ind.cora.{file}").write_bytes(content)
    with damage.bounded(), pytest.raises(ValueError, match=match):
        citations.load("cora")


def test_the_files_of_planetoid_are_the_official_ones(folder, monkeypatch):
    write(folder)
    write_years(folder)
    monkeypatch.undo()
    monkeypatch.setenv("KERAS_MMIL_DATA", str(folder))
    with pytest.raises(ValueError, match=r"citations\.read.*ind\.cora\.x with sha256:"):
        citations.load("cora")
    own = citations.read(folder / "planetoid", "cora")
    assert own.years.tolist() == list(range(1990, 2000))
    assert (own.class_names, own.sizes) == (None, None)
    with pytest.raises(FileNotFoundError, match=r"ind\.mine\.x"):
        citations.read(folder / "planetoid", "mine")


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "papers", "edges", "words", "classes", "unknown", "isolated"),
    [("cora", 2708, 5278, 1433, 7, 0, 0), ("citeseer", 3327, 4552, 3703, 6, 15, 48)],
)
def test_real_networks(data_dir, name, papers, edges, words, classes, unknown, isolated):
    found = citations.load(name)
    assert len(found.labels) == found.words.nrows() == papers
    assert found.edges.nnz == 2 * edges
    assert (found.n_words, found.n_classes) == (words, classes)
    assert (found.labels < 0).sum() == unknown
    assert (graphs.degrees(found.edges) == 0).sum() == isolated
    train, valid, test = found.split("transductive")
    assert np.bincount(found.labels[train]).tolist() == [20] * classes
    assert (len(valid), len(test)) == (500, 1000)
    assert isinstance(found.edges, sparse.csr_array)
    sizes = [len(part) for part in found.split("random")]
    assert sizes[:2] == list(found.sizes[:2])
    assert sum(sizes) == papers - unknown

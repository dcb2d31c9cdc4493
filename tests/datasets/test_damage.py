"""Every file that a loader reads, with bytes changed at random, cut off, or out of all proportion.

A loader gives what it gave before, or says in a `ValueError` which file is damaged. Nothing else is
raised, and nothing is allocated but what a file can hold. Caches are made anew, with a warning.
"""

import errno
import hashlib
import io
import json
import pickle
import random
import re
import tarfile
import tracemalloc
import zipfile

import h5py
import numpy as np
import pytest
from scipy.sparse import csr_matrix

from keras_mmil.builders import clouds, word_vectors
from keras_mmil.builders.corpus import Corpus
from keras_mmil.datasets import citations, imdb, modelnet, plants, social
from keras_mmil.datasets._io import archives, cache, planetoid

N_DAMAGES = 40
MOST = 2**28  # bytes that may be allocated for files of a few kilobytes
RNG = np.random.default_rng(0)


def damages(content, seed, n=N_DAMAGES):
    """Yields copies of bytes, of which some are changed or missing."""
    rng = random.Random(seed)
    for i in range(n):
        changed = bytearray(content)
        for _ in range(rng.choice([1, 1, 1, 4])):
            changed[rng.randrange(len(changed))] ^= rng.randrange(1, 256)
        yield bytes(changed[: rng.randrange(len(changed)) if i % 8 == 7 else None])


def plain(x):
    """Lists of lists, to be compared."""
    if isinstance(x, dict):
        return {name: plain(part) for name, part in x.items()}
    if isinstance(x, tuple):
        return [plain(part) for part in x]
    for method in ("to_list", "tolist"):
        if hasattr(x, method):
            return getattr(x, method)()
    return plain(vars(x)) if hasattr(x, "__dataclass_fields__") else x


# Small files of each kind, and what reads them --------------------------------------------------


def write_citations(folder):
    words = RNG.integers(0, 2, (10, 4)).astype(np.float32)
    classes = np.eye(3, dtype=np.int32)[RNG.integers(0, 3, 10)]
    parts = {"x": words[:2], "allx": words[:6], "tx": words[6:]}
    parts = {name: csr_matrix(part) for name, part in parts.items()}
    parts |= {"y": classes[:2], "ally": classes[:6], "ty": classes[6:]}
    parts["graph"] = {i: [(i + 1) % 10, (i + 3) % 10] for i in range(10)}
    folder = folder / "planetoid"
    folder.mkdir()
    for name, part in parts.items():
        (folder / f"ind.cora.{name}").write_bytes(pickle.dumps(part, 3))
    (folder / "ind.cora.test.index").write_text("7\n9\n6\n8\n")
    return sorted(folder.glob("ind.*"))


def write_years(folder):
    path = write_citations(folder)[0].with_name("cora.years")
    path.write_text("".join(f"{1990 + i}\n" for i in range(10)))
    return [path]


def citation_fields(network):
    fields = plain(network)
    return fields | {"links": network.links.toarray().tolist()}


def write_zip(path, files, method=zipfile.ZIP_DEFLATED):
    path.parent.mkdir(exist_ok=True)
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    tracemalloc.reset_peak()  # to compress takes more than to read
    return [path]


def write_social(folder, method=zipfile.ZIP_LZMA, **changed):
    links = [(1, 2), (2, 3), (3, 1), (4, 5)]
    files = {"A": "".join(f"{a}, {b}\r\n" for a, b in links)}
    files |= {"graph_indicator": "1\n1\n1\n2\n2\n\n", "graph_labels": "-1\n1\n", **changed}
    files = {f"COLLAB/COLLAB_{name}.txt": text for name, text in files.items()}
    return write_zip(folder / "tu" / "COLLAB.zip", files, method)


SURFACE = "OFF\n4 2 5\n0 0 0\n2 0 0\n2 2 1\n0 2 1\n3 0 1 2\n3 0 2 3\n"


def write_surfaces(folder):
    names = ("bed/train/bed_1.off", "airplane/train/airplane_1.off", "bed/test/bed_2.off")
    return write_zip(folder / "modelnet40" / "ModelNet40.zip", dict.fromkeys(names, SURFACE))


def write_hdf5(folder):
    files = {}
    for part in ("train0", "test0"):
        content = io.BytesIO()
        with h5py.File(content, "w") as file:
            # Few different points, so that the file is small.
            cloud = np.repeat(np.arange(32, dtype=np.float32).reshape(16, 2), 128, axis=0)
            cloud = np.concatenate([cloud, -cloud[:, :1]], axis=1)
            file.create_dataset("data", data=cloud[None], compression="gzip")
            file["label"] = np.array([[3]])
        files[f"ply_data_{part}.h5"] = content.getvalue()
    return write_zip(folder / "modelnet40" / "modelnet40_ply_hdf5_2048.zip", files)


def write_points(folder):
    arrays = {f"x_{part}": RNG.normal(0, 1, (2, 5, 3)) for part in ("train", "test")}
    arrays |= {f"y_{part}": np.array([1, 39]) for part in ("train", "test")}
    path = folder / "modelnet40" / "modelnet40_5.npz"
    path.parent.mkdir()
    np.savez_compressed(path, **arrays)
    return [path]


def write_plants(folder):
    presence = RNG.random((6, 11)) < 0.5
    path = folder / "plants" / "afliber_species.npz"
    path.parent.mkdir()
    np.savez(
        path,
        presence_packed=np.packbits(presence, axis=1),
        shape=np.array([6, 11]),
        coords=RNG.random((6, 2)),
        species=np.array([f"s{i}" for i in range(11)]),
        cells=np.array([f"c{i}" for i in range(6)]),
    )
    return [path]


def write_reviews(folder):
    path = folder / "aclImdb_v1.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for (part, kind), n in imdb._EXPECTED.items():
            for i in range(n):
                content = f"{part} {kind} {i}. {' '.join(RNG.choice(list('abcdef'), 20))}".encode()
                info = tarfile.TarInfo(f"aclImdb/{part}/{kind}/{i}_7.txt")
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
    return [path]


def write_text(name, text):
    def write(folder):
        path = folder / name
        path.write_bytes(text)
        return [path]

    return write


OCCURRENCES = (
    b"species\tdecimalLatitude\tdecimalLongitude\nAbies alba\t40.1\t0.5\nCarex nigra\t4\t5\n"
)
VECTORS = b"2 3\n" + b"".join(
    word + b" " + np.arange(i, i + 3, dtype="<f4").tobytes() + b"\n"
    for i, word in enumerate([b"a", b"be"])
)
VOCABULARY = ("_", "<unknown>", "a", "be")


def read_reviews(folder, **arguments):
    return [list(row) for row in imdb.read_archive(folder / "aclImdb_v1.tar.gz", **arguments)]


def read_off(folder):
    path = folder / "a.off"
    try:
        return plain(clouds.read_off(path.read_bytes()))
    except ValueError as error:  # which is of a text
        raise ValueError(f"{path}: {error}") from error


# Name: how the files are written, how they are read, and whether they have checksums.
LOADERS = {
    "citations": (write_citations, lambda _: citation_fields(citations.load("cora")), True),
    "own citations": (
        write_citations,
        lambda folder: citation_fields(citations.read(folder / "planetoid", "cora")),
        False,
    ),
    "years": (
        write_years,
        lambda _: citation_fields(citations.load("cora")),
        False,
    ),
    "social": (write_social, lambda _: social.load("collab").bags().to_list(), True),
    "surfaces": (write_surfaces, lambda _: plain(modelnet.load(5, "surfaces")), True),
    "hdf5": (write_hdf5, lambda _: plain(modelnet.load(5, "hdf5")), True),
    "points": (write_points, lambda _: plain(modelnet.load(5, "points")), True),
    "plants": (write_plants, lambda _: plain(plants.load(11)), True),
    "reviews": (write_reviews, read_reviews, True),
    "some reviews": (write_reviews, lambda folder: read_reviews(folder, limit=2), True),
    "occurrences": (
        write_text("a.txt", OCCURRENCES),
        lambda folder: plain(plants.read_occurrences(folder / "a.txt")),
        False,
    ),
    "commas": (
        write_text("a.txt", OCCURRENCES.replace(b"\t", b",").replace(b"Abies alba", b'"A"')),
        lambda folder: plain(plants.read_occurrences(folder / "a.txt", delimiter=",")),
        False,
    ),
    "vectors": (
        write_text("vectors", VECTORS),
        lambda folder: plain(
            word_vectors.read(folder / "vectors", VOCABULARY, 3, binary=True, verbose=0)
        ),
        False,
    ),
    "surface": (write_text("a.off", SURFACE.encode()), read_off, False),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_MMIL_DATA", str(tmp_path))
    monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
    numbers = {("train", "pos"): 3, ("train", "neg"): 3, ("train", "unsup"): 2}
    numbers |= {("test", "pos"): 2, ("test", "neg"): 2}
    monkeypatch.setattr(imdb, "_EXPECTED", numbers)
    monkeypatch.setattr(planetoid, "CHECKSUMS", {"cora": {}})
    return tmp_path


@pytest.fixture
def _bounded():
    """Files decide what is allocated by what they hold, and not by what they claim."""
    tracemalloc.start()
    yield
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < MOST


@pytest.mark.filterwarnings("ignore:Left out", "ignore:unclosed file:ResourceWarning")
@pytest.mark.usefixtures("_bounded")
@pytest.mark.parametrize("name", LOADERS)
def test_damaged_files(name, folder, monkeypatch):
    write, load, is_checked = LOADERS[name]
    paths = write(folder)
    if name == "citations":
        checksums = {
            path.name.removeprefix("ind.cora."): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in paths
        }
        monkeypatch.setattr(planetoid, "CHECKSUMS", {"cora": checksums})
    expected = load(folder)
    n_refused = 0
    for path in paths:
        whole = path.read_bytes()
        n = N_DAMAGES if len(paths) == 1 else N_DAMAGES // 4
        for damaged in damages(whole, path.name, n):
            path.write_bytes(damaged)
            try:
                found = load(folder)
            except ValueError as error:
                message = str(error)
                n_refused += 1
            else:
                message = path.stem
                assert found == expected or not is_checked
            assert path.stem[:9] in message
        path.write_bytes(whole)
    assert n_refused > N_DAMAGES / 5
    assert load(folder) == expected


# Files that ask for more than they hold ---------------------------------------------------------


class Huge:
    """Pickled as a call of NumPy that makes an array of 2³⁴ numbers."""

    def __reduce__(self):
        return np.ndarray, ((2**34,),)


MEMO = b"\x80\x02]r\xff\xff\xff\x7f."  # an empty list, at place 2³¹ - 1 of the memo


@pytest.mark.usefixtures("_bounded")
@pytest.mark.parametrize(
    ("file", "content", "match"),
    [
        ("test.index", b"7\n2147483648\n6\n8\n", r"most of which are described.*paper 2147483648"),
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
def test_citations_of_huge_numbers(folder, file, content, match):
    write_citations(folder)
    (folder / "planetoid" / f"ind.cora.{file}").write_bytes(content)
    with pytest.raises(ValueError, match=match):
        citations.load("cora")


@pytest.mark.usefixtures("_bounded")
@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"graph_indicator": "1\n1\n1\n2\n3000000000\n"}, "graphs 1 to 3000000000"),
        ({"A": "1, 3000000000\n"}, "with nodes 1 to 3000000000"),
        ({"graph_labels": f"{10**30}\n1\n"}, "graph_labels"),
        ({"A": "1, 2, 3\n4\n"}, "COLLAB_A.txt"),  # four numbers, but no pairs
        ({"A": "1\n2\n"}, "lines of 2 ints.*with 1 ints"),
        ({"graph_labels": "1, 2\n"}, "lines of 1 ints.*with 2 ints"),
        ({"graph_labels": "1 # 2\n-1\n"}, "graph_labels"),
    ],
)
def test_networks_of_huge_or_lost_numbers(folder, changed, match):
    write_social(folder, **changed)
    with pytest.raises(ValueError, match=match):
        social.load("COLLAB")


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_byte_order_marks_of_networks(folder, mark):
    write_social(folder, A=f"{mark}1, 2\n")
    assert social.load("COLLAB").links.nnz == 2


def with_size(path, size):
    """An archive whose directory claims another size of its first file."""
    content = bytearray(path.read_bytes())
    start = content.index(b"PK\x01\x02") + 24
    content[start : start + 4] = size.to_bytes(4, "little")
    path.write_bytes(content)


def test_archives_that_claim_to_be_huge(folder):
    (path,) = write_social(folder, zipfile.ZIP_DEFLATED)
    with_size(path, 2**32 - 2)
    with pytest.raises(ValueError, match=r"'COLLAB/COLLAB_A.txt' of 4,294,967,294 bytes"):
        social.load("COLLAB")


@pytest.mark.usefixtures("_bounded")
def test_arrays_that_claim_to_be_huge(tmp_path):
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        content, {"descr": "<f8", "fortran_order": False, "shape": (2**34,)}
    )
    (path,) = write_zip(tmp_path / "a.npz", {"x.npy": content.getvalue() + bytes(80)})
    with pytest.raises(
        ValueError, match=r"a\.npz \(x\.npy is said to be of shape \(17179869184,\)"
    ):
        archives.read_npz(path, {"x": None})


@pytest.mark.usefixtures("_bounded")
def test_clouds_that_claim_to_be_huge(folder):
    content = io.BytesIO()
    with h5py.File(content, "w") as file:
        file.create_dataset("data", shape=(2**30, 2048, 3), dtype="f4", chunks=True)
        file["label"] = np.zeros(2)
    files = {"ply_data_train0.h5": content.getvalue()}
    write_zip(folder / "modelnet40" / "modelnet40_ply_hdf5_2048.zip", files)
    with pytest.raises(ValueError, match=r"train0\.h5 \(is said to be of \(1073741824, 2048, 3\)"):
        modelnet.load(5, "hdf5")


@pytest.mark.parametrize(
    "text",
    [
        "OFF 999999999999 1 0\n0 0 0",
        "OFF -1 0 0\n",
        "OFF 3 -1 0\n0 0 0 1 0 0 0 1 0",
        SURFACE + "3 0 1 3",
    ],
)
def test_surfaces_that_do_not_say_what_they_hold(text):
    with pytest.raises(ValueError, match="as many as announced"):
        clouds.read_off(text)


def test_surfaces_of_unknown_kinds_are_not_left_out(folder):
    names = ("bed/train/a.off", "bed/test/b.off", "bad/train/c.off")
    write_zip(folder / "modelnet40" / "ModelNet40.zip", dict.fromkeys(names, SURFACE))
    with pytest.raises(
        ValueError, match=r"of known kinds\. Received: bad/train/c\.off of .*ModelNet40"
    ):
        modelnet.load(5, "surfaces")


def test_the_files_of_planetoid_are_the_official_ones(folder, monkeypatch):
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


# Caches -----------------------------------------------------------------------------------------

FLORA = plants.synthetic((4, 5), 6)


def load_reviews(_):
    reviews = imdb.prepare(splitter="core", verbose=0)
    return [reviews.corpus.ids().to_list(), plain(reviews.labels), plain(reviews.is_test)]


CACHES = {
    "social": (write_social, LOADERS["social"][1]),
    "surfaces": (write_surfaces, LOADERS["surfaces"][1]),
    "regions": (lambda _: None, lambda _: FLORA.similar_regions(3, cache=True).to_list()),
    "reviews": (write_reviews, load_reviews),
}


@pytest.mark.parametrize("name", CACHES)
def test_damaged_caches_are_made_anew(name, folder, monkeypatch):
    write, load = CACHES[name]
    monkeypatch.setattr(imdb, "_FEWEST", 2)
    write(folder)
    expected = load(folder)
    cached = [path for path in (folder / "keras").rglob("*") if path.is_file()]
    assert len(cached) == (6 if name == "reviews" else 1)
    assert load(folder) == expected  # of the cache, and without a warning
    for path in cached:
        whole = path.read_bytes()
        for damaged in [b"", *damages(whole, path.name, 3 if name == "reviews" else 20)]:
            path.write_bytes(damaged)
            with pytest.warns(UserWarning, match=rf"cached file .* is damaged.*{path.name}"):
                assert load(folder) == expected
            assert path.read_bytes() == whole
    assert load(folder) == expected
    assert len(list((folder / "keras").rglob("part-*"))) == 0


def no_space(*_, **__):
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("name", CACHES)
@pytest.mark.parametrize("reason", ["full", "no folder"])
def test_caches_that_cannot_be_written(name, reason, folder, monkeypatch):
    write, load = CACHES[name]
    write(folder)
    if reason == "full":
        monkeypatch.setattr(np, "savez", no_space)
    else:
        (folder / "keras").write_text("a file where the folder is to be")
    for _ in range(2):
        with pytest.warns(
            UserWarning, match=r"cannot be written.*(No space|Not a directory|exists)"
        ):
            found = load(folder)
    monkeypatch.undo()
    monkeypatch.setenv("KERAS_HOME", str(folder / "another"))
    monkeypatch.setenv("KERAS_MMIL_DATA", str(folder))
    if name != "reviews":
        assert load(folder) == found


def sealed(path, **changed):
    """Change arrays of a cached file, and give it the checksum that belongs to them."""
    with np.load(path) as arrays:
        cache.write_arrays(path, dict(arrays) | changed)


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("social", {"indices": np.array([0, 1, 2, 99, 0, 1, 2, 3], np.int32)}),
        ("social", {"labels": np.array([-1, 0])}),
        ("social", {"sizes": np.array([3, 3])}),
        ("regions", {"sizes": np.array([3, 3])}),
        ("surfaces", {"y_train": np.array([40, 0], np.uint8)}),
    ],
)
def test_caches_of_what_cannot_be(name, changed, folder):
    """Numbers out of range are refused even where the checksum is right."""
    write, load = CACHES[name]
    write(folder)
    expected = load(folder)
    (path,) = (path for path in (folder / "keras").rglob("*") if path.is_file())
    sealed(path, **changed)
    with pytest.warns(UserWarning, match="is damaged"):
        assert load(folder) == expected


@pytest.mark.parametrize("member", [-1, len(FLORA.regions)])
def test_similar_regions_that_are_none(folder, member):
    expected = FLORA.similar_regions(3, cache=True).to_list()
    (path,) = (folder / "keras").rglob("*.npz")
    with np.load(path) as arrays:
        members = arrays["members"]
    members[0] = member
    sealed(path, members=members)
    with pytest.warns(UserWarning, match=f"bags of {len(FLORA.regions)} regions"):
        assert FLORA.similar_regions(3, cache=True).to_list() == expected


def test_cached_files_are_plain_npz(tmp_path):
    arrays = {"a": np.arange(5), "b": np.array(["x", "é"])}
    cache.write_arrays(tmp_path / "a.npz", arrays)
    with np.load(tmp_path / "a.npz") as found:
        assert {name: found[name].tolist() for name in found} == plain(arrays)
    content = (tmp_path / "a.npz").read_bytes()
    assert content[-64:].decode() == hashlib.sha256(content[:-64]).hexdigest()


# Corpora ----------------------------------------------------------------------------------------


@pytest.fixture
def corpus():
    return Corpus.from_texts(["Not bad. Not bad at all!", "Bad"], 1, splitter="core", verbose=0)


def test_damaged_corpora(corpus, tmp_path):
    corpus.save(tmp_path)
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        for damaged in damages(whole, path.name):
            path.write_bytes(damaged)
            with pytest.raises(ValueError, match=re.escape(str(tmp_path))):
                Corpus.load(tmp_path)
        path.write_bytes(whole)
    assert Corpus.load(tmp_path).ids().to_list() == corpus.ids().to_list()


def test_shortened_vocabularies(corpus, tmp_path):
    corpus.save(tmp_path)
    path = tmp_path / "corpus.json"
    about = json.loads(path.read_text())
    path.write_text(json.dumps(about | {"vocabulary": about["vocabulary"][:-2]}))
    with pytest.raises(ValueError, match=r"corpus\.json with another checksum"):
        Corpus.load(tmp_path)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"vocabulary": ("_", "<unknown>", "Not")}, "counts of 3 tokens"),
        ({"vocabulary": ("_", "Not")}, "begins with '_' and '<unknown>'"),
        ({"vocabulary": ("_", "<unknown>", *"aaaaa")}, "different tokens"),
        ({"counts": np.zeros(3, int)}, r"counts.shape=\(3,\)"),
        ({"tokens": np.full(8, 7)}, "ids from 0 to 6. Received: tokens from 7 to 7"),
        ({"tokens": np.full(8, -1)}, "tokens from -1"),
        ({"tokens": np.zeros(3, int)}, r"from 0 to 3. Received: sentence_splits"),
        ({"text_splits": np.array([0, 3, 2, 3])}, "from 0 to 3. Received: text_splits"),
        ({"text_splits": np.array([0, 2])}, "Received: text_splits"),
    ],
)
def test_parts_of_a_corpus_that_do_not_fit(corpus, changed, match):
    assert len(corpus.vocabulary) == 7
    with pytest.raises(ValueError, match=match):
        Corpus(**{**vars(corpus), **changed})


def test_reviews_with_the_labels_of_others(corpus, tmp_path):
    with pytest.raises(ValueError, match=r"of 2 reviews\. Received: labels.shape=\(3,\)"):
        imdb.Reviews(corpus, np.zeros(3, np.int8), np.zeros(2, bool), tmp_path)


def test_word_vectors_are_cached_with_checksums(corpus, tmp_path, monkeypatch):
    made = []

    def train(*_, **__):
        made.append(RNG.random((7, 4)).astype(np.float32))
        return made[-1]

    monkeypatch.setattr(word_vectors, "train", train)
    reviews = imdb.Reviews(corpus, np.zeros(2, np.int8), np.zeros(2, bool), tmp_path)
    first, again = reviews.word_vectors(4), reviews.word_vectors(4)
    np.testing.assert_array_equal(first, again)
    (path,) = tmp_path.glob("word2vec-4-0.npz")
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.warns(UserWarning, match="word2vec-4-0.npz is damaged"):
        assert not np.array_equal(reviews.word_vectors(4), first)
    assert len(made) == 2


# NumPy's archives -------------------------------------------------------------------------------


def test_npz_files_are_checked(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, x=np.zeros((2, 3)), y=np.array([{}], object))
    assert archives.read_npz(path, {"x": (2, 3)})["x"].shape == (2, 3)
    for shapes, match in [
        ({"x": (2, 4)}, r"`x` of shape \(2, 4\) in .*a\.npz.*shape=\(2, 3\)"),
        ({"z": (2,)}, r"arrays \['z'\].*a\.npz"),
        ({"y": (1,)}, r"a\.npz.*Python objects"),
    ]:
        with pytest.raises(ValueError, match=match):
            archives.read_npz(path, shapes)


@pytest.mark.parametrize("cut", [0, 10, 200, 600])
def test_corrupt_npz_files(tmp_path, cut):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.random.default_rng(0).random(100))
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(ValueError, match=r"delete the file and get it again. Received: .*a\.npz"):
        archives.read_npz(path, {"x": (100,)})


def test_single_arrays_are_not_archives(tmp_path):
    with open(tmp_path / "a.npz", "wb") as file:
        np.save(file, np.zeros(3))
    with pytest.raises(ValueError, match=r"Received: .*a\.npz"):
        archives.read_npz(tmp_path / "a.npz", {"x": (3,)})


def test_damaged_npz_files(tmp_path):
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x=np.random.default_rng(0).random(100))
    content = bytearray(path.read_bytes())
    content[300:320] = bytes(20)
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"Received: .*a\.npz"):
        archives.read_npz(path, {"x": (100,)})

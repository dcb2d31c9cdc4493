"""Social networks: small archives in the TU form, damaged ones, and the real ones."""

import zipfile

import damage
import numpy as np
import pytest

from keras_mmil.datasets import social

# A triangle with a tail, one edge, and a node alone; lines repeat, and there is a loop.
EDGES = [(1, 2), (2, 1), (2, 3), (3, 2), (1, 3), (3, 1), (3, 4), (4, 3), (5, 6), (6, 5)]
FILES = {
    "A": "".join(f"{a}, {b}\n" for a, b in [*EDGES, *EDGES, (4, 4)]),
    "graph_indicator": "".join(f"{g}\n" for g in (1, 1, 1, 1, 2, 2, 3)),
    "graph_labels": "1\n-1\n1\n",
}
BAGS = [[[2, 2, 3], [2, 2, 3], [3, 2, 2, 1], [1, 3]], [[1, 1], [1, 1]], [[0]]]


def write(folder, name="COLLAB", method=zipfile.ZIP_LZMA, **changed):
    (folder / "tu").mkdir(exist_ok=True)
    path = folder / "tu" / f"{name}.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        for part, text in {**FILES, **changed}.items():
            if text is not None:
                archive.writestr(f"{name}/{name}_{part}.txt", text)
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
def test_load(folder, method):
    write(folder, method=method)
    for found in (social.load("collab"), social.load("COLLAB")):  # read, and from the cache
        assert found.sizes.tolist() == [4, 2, 1]
        assert found.labels.tolist() == [1, 0, 1]
        assert found.degrees.tolist() == [2, 2, 3, 1, 1, 1, 0]
        assert found.bags().to_list() == BAGS
        assert found.bags().dtype == "int32"
        assert len(found) == 3


def test_another_archive_is_not_taken_from_the_cache(folder):
    write(folder)
    assert len(social.load("COLLAB")) == 3
    write(folder, A="5, 6\n")
    assert social.load("COLLAB").edges.nnz == 2


def test_graphs_without_edges(folder):
    write(folder, A="")
    assert social.load("COLLAB").bags().to_list() == [[[0]] * 4, [[0]] * 2, [[0]]]


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"A": None}, r"Expected a file COLLAB/COLLAB_A\.txt"),
        ({"graph_labels": None}, r"Expected a file COLLAB/COLLAB_graph_labels\.txt"),
        ({"A": "1, 8\n"}, "between nodes 1 to 7.*with nodes 1 to 8"),
        ({"A": "0, 1\n"}, "with nodes 0 to 1"),
        ({"A": "1, 5\n"}, "edges within graphs"),
        ({"A": "1, 2, 3\n"}, r"COLLAB_A\.txt.* with 3 ints"),
        ({"A": "1, two\n"}, r"Expected ints\. Received: COLLAB/COLLAB_A\.txt"),
        ({"graph_labels": "1\n1.5\n2\n"}, r"Expected ints.*graph_labels"),
        ({"graph_labels": "1\n2\n"}, "graphs 1 to 2,.*graphs 1 to 3"),
        ({"graph_indicator": "1\n2\n1\n3\n"}, "one graph after the other"),
        ({"graph_indicator": "0\n1\n"}, "graphs 0 to 1"),
        ({"graph_indicator": ""}, "one graph after the other"),
    ],
)
def test_numbers_that_do_not_fit(folder, changed, match):
    write(folder, **changed)
    with pytest.raises(ValueError, match=match):
        social.load("COLLAB")


def test_damaged_archive(folder):
    path = write(folder)
    content = path.read_bytes()
    path.write_bytes(content[:-30])
    with pytest.raises(ValueError, match=r"a whole archive; .*COLLAB\.zip"):
        social.load("COLLAB")
    start = content.index(b"COLLAB_A.txt") + 40
    path.write_bytes(content[:start] + bytes(20) + content[start + 20 :])
    with pytest.raises(ValueError, match=r"a whole archive; .*COLLAB\.zip"):
        social.load("COLLAB")
    assert not list((folder / "keras").rglob("*.npz"))


def test_unknown_names(folder):
    for name in ("ENZYMES", 3):
        with pytest.raises(ValueError, match=f"REDDIT-MULTI-12K. Received: name={name!r}"):
            social.load(name)
    with pytest.raises(FileNotFoundError, match=r"tu/REDDIT-MULTI-5K\.zip"):
        social.load("REDDIT-MULTI-5K")


# Damaged files ----------------------------------------------------------------------------------

SMALL = {
    "A": "1, 2\r\n2, 3\r\n3, 1\r\n4, 5\r\n",
    "graph_indicator": "1\n1\n1\n2\n2\n\n",
    "graph_labels": "-1\n1\n",
}


def load_bags():
    return social.load("collab").bags().to_list()


def test_damaged_files(folder):
    damage.check_files([write(folder, **SMALL)], load_bags, is_checked=True)


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
def test_huge_or_lost_numbers(folder, changed, match):
    write(folder, **SMALL | changed)
    with damage.bounded(), pytest.raises(ValueError, match=match):
        social.load("COLLAB")


@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_byte_order_marks(folder, mark):
    write(folder, **SMALL | {"A": f"{mark}1, 2\n"})
    assert social.load("COLLAB").edges.nnz == 2


def with_size(path, size):
    """An archive whose directory claims another size of its first file."""
    content = bytearray(path.read_bytes())
    start = content.index(b"PK\x01\x02") + 24
    content[start : start + 4] = size.to_bytes(4, "little")
    path.write_bytes(content)


def test_archives_that_claim_to_be_huge(folder):
    path = write(folder, method=zipfile.ZIP_DEFLATED, **SMALL)
    with_size(path, 2**32 - 2)
    with pytest.raises(ValueError, match=r"'COLLAB/COLLAB_A.txt' of 4,294,967,294 bytes"):
        social.load("COLLAB")


@pytest.mark.slow
def test_damaged_caches_are_made_anew(folder):
    write(folder, **SMALL)
    damage.check_caches(folder / "keras", load_bags)


@pytest.mark.parametrize("reason", ["full", "no folder"])
def test_caches_that_cannot_be_written(folder, reason, monkeypatch):
    write(folder, **SMALL)
    damage.check_unwritable_cache(folder / "keras", load_bags, reason, monkeypatch)


@pytest.mark.parametrize(
    "changed",
    [
        {"indices": np.array([0, 1, 2, 99, 0, 1, 2, 3], np.int32)},
        {"labels": np.array([-1, 0])},
        {"sizes": np.array([3, 3])},
        {"sizes": np.array(["4", "3"])},
        {"indptr": np.array([0, 2, 1, 4, 5, 6, 7, 8], np.int32)},
    ],
)
def test_caches_of_what_cannot_be(folder, changed):
    write(folder, **SMALL)
    damage.check_impossible_cache(folder / "keras", load_bags, **changed)


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "nodes", "edges", "distinct", "classes"),
    [
        ("IMDB-BINARY", 19_773, 96_531, 65, [500, 500]),
        ("IMDB-MULTI", 19_502, 98_903, 59, [500, 500, 500]),
        ("REDDIT-BINARY", 859_254, 995_508, 566, [1000, 1000]),
        pytest.param(
            *("COLLAB", 372_474, 12_286_079, 369, [2600, 775, 1625]), marks=pytest.mark.nightly
        ),
    ],
)
def test_real_networks(data_dir, tmp_path, monkeypatch, name, nodes, edges, distinct, classes):
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    found = social.load(name)
    assert found.edges.shape == (nodes, nodes)
    assert found.edges.nnz == 2 * edges
    assert found.sizes.sum() == nodes
    assert np.bincount(found.labels).tolist() == classes
    assert len(np.unique(found.degrees)) == distinct

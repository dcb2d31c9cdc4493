"""Floras, against loops; and tables of occurrences, whole and damaged."""

import warnings

import damage
import numpy as np
import pytest

from keras_mmil.builders import flora as flora_module
from keras_mmil.builders.flora import Flora, read_occurrences
from keras_mmil.datasets import synthetic

FLORA = synthetic.load_flora(n_regions=(6, 7), n_species=12, seed=1)


def flora(presence, coordinates=None):
    presence = np.array(presence, bool)
    n_regions, n_species = presence.shape
    if coordinates is None:
        coordinates = np.zeros((n_regions, 2), np.float32)
    names = (
        tuple(f"{kind}{i}" for i in range(n)) for kind, n in (("s", n_species), ("r", n_regions))
    )
    return Flora(presence, coordinates, *names)


def test_most_widespread():
    small = flora([[0, 1, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0], [0, 1, 1, 1]])
    found = small.most_widespread(2)
    assert found.species == ("s1", "s2")
    assert found.regions == ("r0", "r1", "r3")
    assert found.presence.tolist() == [[True, True], [True, False], [True, True]]
    assert small.most_widespread(3).species == ("s1", "s2", "s0")  # of equal ones the first


@pytest.mark.parametrize("percent", [0, 5, 30, 50, 100])
def test_incomplete(percent):
    n_before = FLORA.presence.sum(axis=0)
    copy = FLORA.incomplete(percent, seed=3)
    assert not (copy.presence & ~FLORA.presence).any()
    expected = [n - round(n * percent / 100) for n in n_before.tolist()]
    assert copy.presence.sum(axis=0).tolist() == expected
    np.testing.assert_array_equal(copy.presence, FLORA.incomplete(percent, seed=3).presence)
    if percent in (30, 50):
        assert (copy.presence != FLORA.incomplete(percent, seed=4).presence).any()


@pytest.mark.parametrize("percent", [-1, 101, float("nan")])
def test_no_share(percent):
    with pytest.raises(ValueError, match=f"percent={percent}"):
        FLORA.incomplete(percent)


def similar_by_loop(presence, n, include_self):
    bags = []
    for region in range(len(presence)):
        bag = []
        for species in np.flatnonzero(presence[region]):
            others = [
                r for r in np.flatnonzero(presence[:, species]) if include_self or r != region
            ]
            distance = {r: int((presence[r] != presence[region]).sum()) for r in others}
            bag.append(sorted(others, key=lambda r: (distance[r], r))[:n])
        bags.append(bag)
    return bags


@pytest.mark.parametrize("include_self", [False, True])
@pytest.mark.parametrize("n", [1, 5, 100])
@pytest.mark.parametrize("block", [512, 10])
def test_similar_regions(n, include_self, block, monkeypatch):
    monkeypatch.setattr(flora_module, "_BLOCK", block)
    bags = FLORA.similar_regions(n, include_self)
    assert bags.dtype == "int32"
    assert bags.to_list() == similar_by_loop(FLORA.presence, n, include_self)


def test_species_seen_once_and_nowhere_and_regions_without_any():
    small = flora([[1, 1, 0], [1, 0, 0], [0, 0, 0]])
    assert small.similar_regions(2).to_list() == [[[1], []], [[0]], []]
    assert small.similar_regions(2, include_self=True).to_list() == [[[0, 1], [0]], [[1, 0]], []]
    nothing = flora(np.zeros((2, 3)))
    assert nothing.similar_regions(2).to_list() == [[], []]
    assert flora(np.zeros((0, 0))).similar_regions(2).to_list() == []


@pytest.mark.parametrize("n", [1, 5, 100])
@pytest.mark.parametrize("block", [512, 10])
def test_nearby_regions(n, block, monkeypatch):
    """By angles on the sphere, where the code has chords; of equally distant ones the first."""
    monkeypatch.setattr(flora_module, "_BLOCK", block)
    latitude, longitude = np.radians(FLORA.coordinates.astype(float)).T
    expected = []
    for here in range(len(latitude)):
        haversine = (
            np.sin((latitude - latitude[here]) / 2) ** 2
            + np.cos(latitude)
            * np.cos(latitude[here])
            * np.sin((longitude - longitude[here]) / 2) ** 2
        )
        chord = np.round(2 * 6371e3 * np.sqrt(haversine))
        others = [r for r in range(len(latitude)) if r != here]
        expected.append(sorted(others, key=lambda r, chord=chord: (chord[r], r))[:n])
    bags = FLORA.nearby_regions(n)
    assert bags.dtype == "int32"
    assert bags.to_list() == expected


def test_nearby_regions_where_there_are_hardly_any():
    assert flora(np.ones((1, 2))).nearby_regions().to_list() == [[]]
    assert flora(np.zeros((0, 0))).nearby_regions().to_list() == []
    assert flora(np.ones((3, 1))).nearby_regions(2).to_list() == [[1, 2], [0, 2], [0, 1]]
    with pytest.raises(ValueError, match="n_neighbours=0"):
        FLORA.nearby_regions(0)


def test_seen_species():
    found = flora([[1, 0, 1], [0, 0, 0], [0, 1, 0]]).seen_species()
    assert found.dtype == "int32"
    assert found.to_list() == [[0, 2], [], [1]]


def test_hamming_distances():
    a = FLORA.presence
    np.testing.assert_array_equal(FLORA.hamming_distances(), (a[:, None] != a[None]).sum(axis=2))
    np.testing.assert_array_equal(
        FLORA.hamming_distances(slice(3, 5)), FLORA.hamming_distances()[3:5]
    )


def test_distances():
    """A degree of latitude is 111.2 km; of longitude, it depends; and chords are hardly shorter."""
    places = np.array([[40, 0], [41, 0], [40, 1], [40, 0], [-40, 180]], np.float32)
    found = flora(np.ones((5, 1)), places).distances()
    np.testing.assert_allclose(found[0, :3], [0, 111.19, 111.19 * np.cos(np.pi * 2 / 9)], rtol=1e-3)
    assert found[0, 3] == 0  # the same place
    np.testing.assert_allclose(found[0, 4], 2 * 6371)  # the other side of the globe
    np.testing.assert_allclose(found, found.T, atol=1e-3)


OCCURRENCES = """gbifID\tspecies\tdecimalLatitude\tdecimalLongitude
1\tVicia sativa\t40.02\t-3.51
2\tVicia sativa\t40.09\t-3.59
3\tAbies alba\t42.75\t0.01
4\tVicia sativa\t42.71\t0.09
5\t\t42.71\t0.09
6\tAbies alba\t\t
7\tAbies alba\t-0.05\t0.05
"""


def test_read_occurrences(tmp_path):
    path = tmp_path / "occurrence.txt"
    path.write_text(OCCURRENCES)
    with pytest.warns(UserWarning, match="Left out 2 lines"):
        found = read_occurrences(path)
    assert found.species == ("Abies alba", "Vicia sativa")
    places = found.coordinates.tolist()
    np.testing.assert_allclose(places, [[-0.05, 0.05], [40.05, -3.55], [42.75, 0.05]], atol=1e-5)
    assert found.presence.tolist() == [[True, False], [False, True], [True, True]]
    path.write_text(OCCURRENCES.replace("\t", ";").replace("5;;42.71;0.09\n", ""))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        larger = read_occurrences(path, cell=10, delimiter=";")
    assert len(larger.regions) == 3


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "without \\['decimalLatitude'"),
        ("species\tdecimalLatitude\n", "without \\['decimalLongitude'\\]"),
        (OCCURRENCES.replace("40.02", "forty"), "line 2: 'forty'"),
        (OCCURRENCES.replace("40.02", "140.02"), "line 2: 140.02"),
        (OCCURRENCES.replace("40.02", "nan"), "line 2: nan"),
        (OCCURRENCES.splitlines()[0], "without any"),
    ],
)
def test_damaged_occurrences(tmp_path, text, match):
    path = tmp_path / "occurrence.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=match):
        read_occurrences(path)


QUOTES = """gbifID\tspecies\tdecimalLatitude\tdecimalLongitude\tremark
1\tAbies alba\t40.05\t0.05\t"near the river
2\tBetula nana\t40.05\t0.05\t
3\tCarex "rossii"\t40.05\t0.05\tsaid to be 5" tall
4\t"Draba alba\t40.05\t0.05\t
5\tErica alba\t40.05\t0.05\tend"
"""


def read_by_loop(text):
    """The species of a table, split line by line."""
    header, *rows = (line.split("\t") for line in text.splitlines() if line)
    return tuple(sorted({row[header.index("species")] for row in rows}))


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16"])
def test_occurrences_with_quotation_marks(tmp_path, encoding, end):
    """No row is lost at a mark that is never closed, no column behind a byte-order mark."""
    text = QUOTES.removeprefix("gbifID\t").replace("\n", "\n\n").replace("Erica", "Érica")
    text = "\n".join(
        line.partition("\t")[2] if line[:1].isdigit() else line for line in text.split("\n")
    )
    path = tmp_path / "occurrence.txt"
    path.write_bytes(text.replace("\n", end).encode(encoding))
    arguments = {} if encoding.startswith("utf-8") else {"encoding": encoding}
    found = read_occurrences(path, **arguments)
    assert found.species == read_by_loop(text)
    assert len(found.species) == 5


def test_occurrences_between_commas_are_quoted(tmp_path):
    path = tmp_path / "occurrence.csv"
    header = "species,remark,decimalLatitude,decimalLongitude\n"
    rows = 'Abies alba,"high, and\nold",40,0\n"Betula ""nana""",,40,0\n'
    path.write_text(header + rows)
    found = read_occurrences(path, delimiter=",")
    assert found.species == ("Abies alba", 'Betula "nana"')
    path.write_text(header + 'Abies alba,"tall,40,0\n"Betula,old,40,0\n')
    assert read_occurrences(path, delimiter=",", quoted=False).species == (
        '"Betula',
        "Abies alba",
    )


COMMAS = OCCURRENCES.replace("\t", ",")


@pytest.mark.parametrize(
    ("content", "arguments", "match"),
    [
        (OCCURRENCES.replace("3\tAbies", "3\tExtra\tAbies"), {}, r"4 columns.*line 4 with 5"),
        (OCCURRENCES.replace("\t42.75", ""), {}, "4 columns.*line 4 with 3"),
        (OCCURRENCES[:-6], {}, "line 8 with 3"),
        (OCCURRENCES.replace("gbifID", "species"), {}, r"each once.*\['species'\]"),
        (OCCURRENCES.replace("Abies", "Ábies").encode("latin-1"), {}, r"txt, line 4: invalid"),
        (OCCURRENCES.encode("utf-16"), {}, "txt, line 1: invalid"),
        (OCCURRENCES.encode() + b"\xc3", {}, "txt, line 9: the text breaks off"),
        (COMMAS.replace("Vicia", '"Vicia', 1), {"delimiter": ","}, "marks that fit.*line 2: "),
        (COMMAS.replace("Vicia", '"Vicia', 2), {"delimiter": ","}, "marks that fit.*line 2: "),
        (
            COMMAS.replace("3,Abies", '3,"Abies').replace("\n5,", '\n5",'),
            {"delimiter": ","},
            "line 4",
        ),
        (COMMAS + f"8,{'x' * 200_000},1,1\n", {"delimiter": ","}, "line 9: field larger than"),
    ],
)
@pytest.mark.filterwarnings("ignore:Left out")
def test_occurrences_that_would_be_lost(tmp_path, content, arguments, match):
    path = tmp_path / "occurrence.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=match):
        read_occurrences(path, **arguments)


def test_no_cells(tmp_path):
    with pytest.raises(ValueError, match="cell=0"):
        read_occurrences(tmp_path / "a.txt", cell=0)


@pytest.mark.parametrize(
    ("presence", "coordinates", "match"),
    [
        (np.ones((2, 3), int), np.zeros((2, 2)), "int64"),
        (np.ones((3, 3), bool), np.zeros((2, 2)), r"\(3, 3\)"),
        (np.ones((2, 3), bool), np.zeros((3, 2)), r"coordinates.shape=\(3, 2\)"),
        (np.ones((2, 3), bool), np.full((2, 2), np.nan), "finite coordinates"),
    ],
)
def test_no_flora(presence, coordinates, match):
    with pytest.raises(ValueError, match=match):
        Flora(presence, coordinates, ("a", "b", "c"), ("r", "s"))


SMALL = b"species\tdecimalLatitude\tdecimalLongitude\nAbies alba\t40.1\t0.5\nCarex nigra\t4\t5\n"


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        (SMALL, {}),
        (SMALL.replace(b"\t", b",").replace(b"Abies alba", b'"A"'), {"delimiter": ","}),
    ],
)
@pytest.mark.filterwarnings("ignore:Left out")
def test_damaged_files(tmp_path, content, arguments):
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    load = lambda: damage.plain(read_occurrences(path, **arguments))  # noqa: E731
    damage.check_files([path], load, is_checked=False)

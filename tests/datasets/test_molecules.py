"""Molecules as records: small archives in the TU form, damaged ones, and the real ones."""

import damage
import pytest

from keras_mmil.datasets import molecules

# C=C-N and O, and a molecule of one Br.
FILES = {
    "A": ["1, 2", "2, 1", "2, 3", "3, 2", "2, 3"],
    "edge_labels": [2, 2, 1, 1, 1],
    "graph_indicator": [1, 1, 1, 2],
    "graph_labels": [1, -1],
    "node_labels": [0, 0, 1, 6],
}
MOLECULES = [
    {
        "label": "mutagen",
        "atoms": [
            {"element": "C", "bonds": [{"kind": "double", "element": "C"}]},
            {
                "element": "C",
                "bonds": [
                    {"kind": "double", "element": "C"},
                    {"kind": "single", "element": "N"},
                ],
            },
            {"element": "N", "bonds": [{"kind": "single", "element": "C"}]},
        ],
    },
    {"label": "nonmutagen", "atoms": [{"element": "Br", "bonds": []}]},
]


def test_load(data_folder):
    data_folder.write_graphs("MUTAG", FILES)
    assert molecules.load("MUTAG") == molecules.load("mutag") == MOLECULES


def test_what_is_farther(data_folder):
    data_folder.write_graphs("MUTAG", FILES)
    (first, second, third), _ = (each["atoms"] for each in molecules.load("MUTAG", radius=2))
    single, double = {"kind": "single"}, {"kind": "double"}
    assert first["bonds"] == [{**double, "element": "C", "bonds": [{**single, "element": "N"}]}]
    assert second["bonds"] == [
        {**double, "element": "C", "bonds": []},
        {**single, "element": "N", "bonds": []},
    ]
    (further,) = molecules.load("MUTAG", radius=3)[0]["atoms"][2]["bonds"][0]["bonds"]
    assert further == {**double, "element": "C", "bonds": []}
    assert third["element"] == "N"
    with pytest.raises(ValueError, match="radius=0"):
        molecules.load("MUTAG", radius=0)


def test_bonds_without_kinds(data_folder):
    files = {name: lines for name, lines in FILES.items() if name != "edge_labels"}
    files |= {"node_labels": [3, 3, 1, 37], "graph_labels": [0, 1]}
    data_folder.write_graphs("NCI1", files)
    first, second = molecules.load("NCI1")
    assert (first["label"], second["label"]) == ("inactive", "active")
    assert first["atoms"][2] == {"element": "element 1", "bonds": [{"element": "element 3"}]}
    assert second["atoms"] == [{"element": "element 37", "bonds": []}]


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"node_labels": [0, 0, 1, 7]}, r"elements 0, 1, 2, 3, 4, 5, 6\. .*MUTAG\.zip with 7"),
        ({"node_labels": [0, 0, 1]}, "elements of 4 atoms.* with 3"),
        ({"edge_labels": [2, 2, 1, 1, 4]}, r"bonds 0, 1, 2, 3\. .* with 4"),
        ({"edge_labels": [2, 2, 1, 1]}, "kinds of 5 bonds.* with 4"),
        ({"edge_labels": [2, 2, 1, 1, 0]}, "each of one kind.*of atoms 2 and 3"),
        ({"edge_labels": [2, 1, 1, 1, 1]}, "in both directions.*atoms 1 and 2"),
        ({"A": ["1, 2", "2, 1", "1, 2", "2, 1", "3, 2"]}, "each of one kind.*atoms 1 and 2"),
        (
            {"A": ["1, 2", "2, 1", "2, 3"], "edge_labels": [2, 2, 1]},
            "in both directions.*atoms 2 and 3",
        ),
        ({"A": ["1, 1"] * 5}, "between two atoms.*atoms 1 and 1"),
        ({"graph_labels": [1, 0]}, r"labels 1, -1\. .* with 0"),
        ({"A": ["1, 5"]}, "between nodes 1 to 4"),
    ],
)
def test_numbers_that_do_not_fit(data_folder, changed, match):
    data_folder.write_graphs("MUTAG", {**FILES, **changed})
    with pytest.raises(ValueError, match=match):
        molecules.load("MUTAG")


@pytest.mark.parametrize("missing", ["node_labels", "edge_labels"])
def test_missing_files(data_folder, missing):
    files = {name: lines for name, lines in FILES.items() if name != missing}
    data_folder.write_graphs("MUTAG", files)
    with pytest.raises(ValueError, match=f"Expected a file MUTAG/MUTAG_{missing}"):
        molecules.load("MUTAG")


def test_unknown_names(data_folder):
    for name in ("COLLAB", None):
        with pytest.raises(ValueError, match=f"MUTAG, Mutagenicity, NCI1. Received: name={name!r}"):
            molecules.load(name)


def test_damaged(data_folder):
    path = data_folder.write_graphs("MUTAG", FILES)
    damage.check_files([path], lambda: molecules.load("MUTAG"), is_checked=True)


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "n", "n_atoms", "n_bonds", "label", "n_label"),
    [
        ("MUTAG", 188, 3371, 7442, "mutagen", 125),
        pytest.param(
            "Mutagenicity", 4337, 131_488, 266_894, "mutagen", 2401, marks=pytest.mark.slow
        ),
        pytest.param("NCI1", 4110, 122_747, 265_506, "active", 2057, marks=pytest.mark.slow),
    ],
)
def test_real(data_dir, name, n, n_atoms, n_bonds, label, n_label):
    found = molecules.load(name)
    atoms = [atom for molecule in found for atom in molecule["atoms"]]
    assert len(found) == n
    assert len(atoms) == n_atoms
    assert sum(len(atom["bonds"]) for atom in atoms) == n_bonds
    assert sum(molecule["label"] == label for molecule in found) == n_label
    if name == "Mutagenicity":  # hydrogen has one bond, and no carbon more than four
        assert max(len(atom["bonds"]) for atom in atoms if atom["element"] == "H") == 1
        assert max(len(atom["bonds"]) for atom in atoms if atom["element"] == "C") == 4

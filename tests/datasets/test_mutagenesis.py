"""Mutagenic molecules: a small file, damaged ones, and the real one."""

import damage
import pytest

from keras_mmil.datasets import mutagenesis

NAME = "records/mutagenesis.json"
BOND = {"bond_type": 7, "element": "c", "atom_type": 22, "charge": -0.1}
ATOM = {"element": "h", "atom_type": 3, "charge": 0.1, "bonds": [BOND]}
MOLECULE = {"ind1": 1, "inda": 0, "logp": 4.2, "lumo": -1, "mutagenic": 1, "atoms": [ATOM]}


def test_load(data_folder):
    molecules = [MOLECULE, MOLECULE | {"mutagenic": 0, "atoms": []}]
    data_folder.write_json(NAME, molecules)
    assert mutagenesis.load() == molecules


@pytest.mark.parametrize(
    "changed",
    [
        {"mutagenic": 2},
        {"logp": "high"},
        {"atoms": None},
        {"atoms": [ATOM | {"more": 1}]},
        {"atoms": [ATOM | {"bonds": [{"element": "c"}]}]},
        {"further": 1},
    ],
)
def test_other_documents(data_folder, changed):
    data_folder.write_json(NAME, [MOLECULE, MOLECULE | changed])
    with pytest.raises(ValueError, match=r"atoms with bonds.*mutagenesis\.json with.* document 1"):
        mutagenesis.load()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("[{", r"Expected JSON.*mutagenesis\.json"),
        ('[{"logp": NaN}]', "NaN is no JSON"),
        ("[" * 100_000, "Expected JSON"),
        ("[]", "an array of documents"),
        ("{}", "an array of documents"),
        ("[1]", "another document 0"),
    ],
)
def test_other_files(data_folder, text, match):
    data_folder.write(NAME, text)
    with pytest.raises(ValueError, match=match):
        mutagenesis.load()


def test_no_file(data_folder):
    with pytest.raises(FileNotFoundError, match=r"records/mutagenesis\.json.*CTUAvastLab"):
        mutagenesis.load()


def test_damaged(data_folder):
    path = data_folder.write_json(NAME, [MOLECULE] * 3)
    damage.check_files([path], mutagenesis.load, is_checked=False)


@pytest.mark.data
def test_real(data_dir):
    molecules = mutagenesis.load()
    assert len(molecules) == 188
    assert sum(molecule["mutagenic"] for molecule in molecules) == 125
    assert {atom["element"] for each in molecules for atom in each["atoms"]} == set("nofichb")

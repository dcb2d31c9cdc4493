"""The flora of the Iberian Peninsula: small files in its form, damaged ones, and the real one."""

import damage
import numpy as np
import pytest

from keras_mmil.builders.flora import Flora
from keras_mmil.datasets import plants, synthetic

RNG = np.random.default_rng(0)
FLORA = synthetic.load_flora(n_regions=(6, 7), n_species=12, seed=1)


def test_similar_regions_are_cached(folder, monkeypatch):
    found = plants.similar_regions(FLORA, 5).to_list()
    assert found == FLORA.similar_regions(5).to_list()
    assert plants.similar_regions(FLORA, 5, include_self=True).to_list() != found
    assert len(list((folder / "keras" / "datasets").iterdir())) == 2
    monkeypatch.setattr(Flora, "similar_regions", None)  # what is cached needs no more
    assert plants.similar_regions(FLORA, 5).to_list() == found


def write(folder, **changed):
    presence = RNG.random((6, 11)) < 0.5
    arrays = {
        "presence_packed": np.packbits(presence, axis=1),
        "shape": np.array([6, 11]),
        "coords": RNG.random((6, 2)).astype("float32"),
        "species": np.array([f"s{i}" for i in range(11)]),
        "cells": np.array([f"c{i}" for i in range(6)]),
    }
    (folder / "plants").mkdir()
    np.savez(folder / "plants" / "afliber_species.npz", **{**arrays, **changed})
    return presence


def test_load(folder):
    presence = write(folder)
    found = plants.load(11)
    order = [int(name[1:]) for name in found.species]
    rows = [int(name[1:]) for name in found.regions]
    np.testing.assert_array_equal(found.presence, presence[np.ix_(rows, order)])
    with pytest.raises(ValueError, match=r"at most 11 species.* n_species=12"):
        plants.load(12)


@pytest.mark.parametrize(
    ("changed", "match"),
    [
        ({"presence_packed": np.zeros((6, 1), "uint8")}, r"bits of \(6, 11\)"),
        ({"presence_packed": np.zeros((6, 2), bool)}, "presence_packed of bool"),
        ({"coords": np.zeros((5, 2))}, r"coordinates.shape=\(5, 2\)"),
        ({"species": np.array(["a"])}, r"afliber_species.*presence of bool \(6, 1\)"),
        ({"species": np.arange(11)}, "afliber_species.*species of int64"),
        ({"coords": np.array(["a"])}, "afliber_species.*coords of <U1"),
    ],
)
def test_damaged(folder, changed, match):
    write(folder, **changed)
    with pytest.raises(ValueError, match=match):
        plants.load(11)


def test_no_file(folder):
    with pytest.raises(FileNotFoundError, match="afliber_species"):
        plants.load()


# Damaged files and caches -----------------------------------------------------------------------


def test_damaged_files(folder):
    write(folder)
    path = folder / "plants" / "afliber_species.npz"
    damage.check_files([path], lambda: damage.plain(plants.load(11)), is_checked=True)


SMALL = synthetic.load_flora((4, 5), 6)


def load_regions():
    return plants.similar_regions(SMALL, 3).to_list()


@pytest.fixture
def home(folder):
    """The folder of the cache, which does not exist yet."""
    return folder / "keras"


@pytest.mark.slow
def test_damaged_caches_are_made_anew(home):
    damage.check_caches(home, load_regions)


@pytest.mark.parametrize("reason", ["full", "no folder"])
def test_caches_that_cannot_be_written(home, reason, monkeypatch):
    damage.check_unwritable_cache(home, load_regions, reason, monkeypatch)


def test_caches_of_what_cannot_be(home):
    damage.check_impossible_cache(home, load_regions, sizes=np.array([3, 3]))


@pytest.mark.parametrize("member", [-1, len(SMALL.regions)])
def test_similar_regions_that_are_none(home, member):
    load_regions()
    (path,) = home.rglob("*.npz")
    with np.load(path) as arrays:
        members = arrays["members"]
    members[0] = member
    match = f"bags of {len(SMALL.regions)} regions"
    damage.check_impossible_cache(home, load_regions, match, members=members)


@pytest.mark.data
def test_the_real_flora():
    whole = plants.load()
    assert whole.presence.shape == (6295, 842)
    assert whole.presence.sum() == 1_090_687
    assert {"Vicia sativa", "Vicia villosa"} & set(whole.species)
    part = Flora(whole.presence[:300], whole.coordinates[:300], whole.species, whole.regions[:300])
    bags = part.similar_regions(25)
    presence = part.presence[:, :50].copy()
    assert bags.row_lengths().numpy().tolist() == part.presence.sum(axis=1).tolist()
    region = int(presence.sum(axis=1).argmax())
    species = np.flatnonzero(part.presence[region])
    distance = (part.presence != part.presence[region]).sum(axis=1)
    for position in (0, len(species) // 2, len(species) - 1):
        others = np.setdiff1d(np.flatnonzero(part.presence[:, species[position]]), [region])
        expected = sorted(others, key=lambda r: (distance[r], r))[:25]
        assert bags[region][position].numpy().tolist() == expected

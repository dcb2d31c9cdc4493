"""The plants of the Iberian Peninsula, as a `keras_mmil.builders.flora.Flora`.

Reference: Ramos-Gutiérrez et al., Atlas of the vascular flora of the Iberian Peninsula biodiversity
hotspot (AFLIBER), 2021. The paper's data are of Germany.
"""

import hashlib
from pathlib import Path

import numpy as np
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support import archives
from keras_mmil._support.checks import positive_int
from keras_mmil.builders.flora import Flora
from keras_mmil.datasets._io import files

__all__ = ["load", "similar_regions"]

_VERSION = 2  # of what is cached
_SIMILAR = ("members", "n_species", "sizes")  # what is cached of similar regions


def load(n_species: int = 842) -> Flora:
    """The most widespread plant species of the Iberian Peninsula, on a grid of 10 km.

    Args:
        n_species: number of species; 842 in the paper.

    Returns:
        `Flora`: with 842 species, 6,295 regions.

    Raises:
        FileNotFoundError: if the file `plants/afliber_species.npz` is not there.
        ValueError: if it is damaged, or has fewer species.
    """
    path = files.find(
        "plants/afliber_species.npz", instructions="It is made of AFLIBER, doi 10.1111/geb.13363."
    )
    names = ("presence_packed", "shape", "coords", "species", "cells")
    arrays = archives.read_npz(path, dict.fromkeys(names) | {"shape": (2,)})
    if arrays["shape"].dtype.kind not in "iu":
        raise ValueError(f"Expected ints. Received: {path} with shape={arrays['shape']}")
    shape = tuple(map(int, arrays["shape"]))
    packed = arrays["presence_packed"]
    if min(shape) < 0 or packed.shape != (shape[0], -(-shape[1] // 8)) or packed.dtype != np.uint8:
        raise ValueError(
            f"Expected bits of {shape} in {path}. "
            f"Received: presence_packed of {packed.dtype} {packed.shape}"
        )
    kinds = {"coords": "f", "species": "U", "cells": "U"}
    if wrong := [name for name, kind in kinds.items() if arrays[name].dtype.kind != kind]:
        raise ValueError(
            f"Expected numbers and texts. Received: {path} with {wrong[0]} of "
            f"{arrays[wrong[0]].dtype}"
        )
    presence = np.unpackbits(packed, axis=1, count=shape[1]).astype(bool)
    try:
        flora = Flora(
            presence,
            coordinates=arrays["coords"].astype(np.float32),
            species=tuple(arrays["species"].tolist()),
            regions=tuple(arrays["cells"].tolist()),
        )
    except ValueError as error:
        raise ValueError(f"Expected a flora. Received: {path}. {error}") from error
    return flora.most_widespread(n_species)


def similar_regions(
    flora: Flora, n_neighbours: int = 25, include_self: bool = False
) -> tf.RaggedTensor:
    """Same as `flora.similar_regions(n_neighbours, include_self)`, cached by the first call."""
    positive_int("n_neighbours", n_neighbours)
    n_regions = len(flora.regions)
    about = f"{flora.presence.shape} {n_neighbours} {include_self}".encode()
    digest = hashlib.sha256(about + np.packbits(flora.presence).tobytes()).hexdigest()[:16]

    def make() -> tf.RaggedTensor:
        return flora.similar_regions(n_neighbours, include_self)

    def read(path: Path) -> tf.RaggedTensor:
        return _read_similar(path, n_regions)

    path = files.cache_folder() / f"similar-regions-{digest}-v{_VERSION}.npz"
    return files.cached(path, make=make, read=read, write=_write_similar)


def _read_similar(path: Path, n_regions: int) -> tf.RaggedTensor:
    """The bags of a cached file, which must have n_regions."""
    members, *sizes = files.read_arrays(path, _SIMILAR).values()
    is_wrong = members.size and not 0 <= members.min() <= members.max() < n_regions
    if is_wrong or members.dtype != np.int32 or len(sizes[0]) != n_regions:
        raise ValueError(
            f"Expected bags of {n_regions} regions, of numbers of regions. Received: {path} with "
            f"{len(sizes[0])} bags of numbers up to {members.max(initial=0)}"
        )
    return ragged.from_flat(members, sizes)  # raises if the sizes are inconsistent


def _write_similar(path: Path, bags: tf.RaggedTensor) -> None:
    arrays = bags.flat_values.numpy(), *ragged.nested_lengths(bags)
    files.write_arrays(path, dict(zip(_SIMILAR, arrays, strict=True)))

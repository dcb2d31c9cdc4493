"""Molecules of the TU collection as records of atoms, with the bonds of each.

Reference: Debnath et al., Structure-activity relationship of mutagenic aromatic and heteroaromatic
nitro compounds, 1991 (MUTAG); Kazius et al., Derivation and validation of toxicophores for
mutagenicity prediction, 2005 (Mutagenicity); Wale and Karypis, Comparison of descriptor spaces for
chemical compound retrieval and classification, 2006 (NCI1); Morris et al., TUDataset, 2020.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import numpy.typing as npt

from keras_mmil._support.checks import check_int
from keras_mmil.datasets._io import tu
from keras_mmil.datasets._io.files import Document

__all__ = ["NAMES", "TARGET", "load"]

TARGET = "label"
"""The path of the field to predict."""


@dataclass(frozen=True)
class _Meanings:
    """The meanings of the numbers in an archive."""

    elements: Mapping[int, str]
    bonds: Mapping[int, str] | None  # None where the archive has no kinds of bonds
    labels: Mapping[int, str]


def _numbered(names: str) -> dict[int, str]:
    return dict(enumerate(names.split()))


# From the README of each archive; that of NCI1 does not name the elements.
_MEANINGS = {
    "MUTAG": _Meanings(
        elements=_numbered("C N O F I Cl Br"),
        bonds=_numbered("aromatic single double triple"),
        labels={1: "mutagen", -1: "nonmutagen"},
    ),
    "Mutagenicity": _Meanings(
        elements=_numbered("C O Cl H N F Br S P I Na K Li Ca"),
        bonds=_numbered("single double triple"),
        labels={0: "mutagen", 1: "nonmutagen"},
    ),
    "NCI1": _Meanings(
        elements={number: f"element {number}" for number in range(1, 38)},
        bonds=None,
        labels={0: "inactive", 1: "active"},
    ),
}
NAMES = tuple(_MEANINGS)
"""The data sets that `load` knows."""


def load(name: str, radius: int = 1) -> list[Document]:
    """The molecules of a data set.

    Args:
        name: one of `NAMES`, in any case.
        radius: number of bonds up to which the surroundings of each atom are included, at least 1.

    Returns:
        List of dicts of `label`, "mutagen" or "nonmutagen", or for NCI1 "active" or "inactive"; and
        `atoms`, each with `element` and `bonds`, each with `kind` ("single", "double", "triple" or
        "aromatic") and `element`, that of the other atom; with a larger radius also with `bonds`,
        the other bonds of that atom, and so on. NCI1 has no kinds of bonds, and calls its elements
        "element 1" to "element 37".

    Raises:
        FileNotFoundError: if the archive is not there and cannot be downloaded.
        ValueError: if there is no such data set, or the archive is damaged, incomplete or
            inconsistent, or has a number of unknown meaning.
    """
    radius = check_int("radius", radius, least=1)
    by_name = {known.upper(): known for known in NAMES}
    if not isinstance(name, str) or name.upper() not in by_name:
        raise ValueError(f"Expected one of {', '.join(NAMES)}. Received: name={name!r}")
    name = by_name[name.upper()]
    archive, meanings = tu.find(name), _MEANINGS[name]
    graphs = tu.read(archive, name)
    node_labels = tu.read_ints(archive, name, "node_labels")[:, 0]
    if len(node_labels) != graphs.sizes.sum():
        raise ValueError(
            f"Expected the elements of {graphs.sizes.sum()} atoms. "
            f"Received: {archive} with {len(node_labels)}"
        )
    elements = _names(node_labels, meanings.elements, archive, "elements")
    others: list[list[tuple[int, str]]] = [[] for _ in elements]
    for (atom, other), kind in _bonds(archive, name, graphs.edges, meanings).items():
        others[atom].append((other, kind))

    def bonds(atom: int, without: int, radius: int) -> list[Document]:
        """The bonds of an atom except that to `without`, up to a radius."""
        return [
            {
                **({"kind": kind} if kind else {}),
                "element": elements[other],
                **({"bonds": bonds(other, atom, radius - 1)} if radius > 1 else {}),
            }
            for other, kind in others[atom]
            if other != without
        ]

    atoms = [
        {"element": element, "bonds": bonds(atom, -1, radius)}
        for atom, element in enumerate(elements)
    ]
    labels = _names(graphs.labels, meanings.labels, archive, "labels")
    ends = np.append(0, np.cumsum(graphs.sizes)).tolist()
    return [
        {TARGET: label, "atoms": atoms[start:end]}
        for label, (start, end) in zip(labels, pairwise(ends), strict=True)
    ]


def _bonds(
    archive: Path, name: str, edges: npt.NDArray[np.int64], meanings: _Meanings
) -> dict[tuple[int, int], str]:
    """The kinds of bonds, by their atoms in both orders; "" where there is none."""
    kinds = [""] * len(edges)
    if meanings.bonds is not None:
        edge_labels = tu.read_ints(archive, name, "edge_labels")[:, 0]
        if len(edge_labels) != len(edges):
            raise ValueError(
                f"Expected the kinds of {len(edges)} bonds. "
                f"Received: {archive} with {len(edge_labels)}"
            )
        kinds = _names(edge_labels, meanings.bonds, archive, "bonds")
    bonds: dict[tuple[int, int], str] = {}
    for (atom, other), kind in zip(edges.tolist(), kinds, strict=True):
        if atom == other or bonds.setdefault((atom, other), kind) != kind:
            raise ValueError(
                "Expected bonds between two atoms, each of one kind. "
                f"Received: {archive} with another one of atoms {atom + 1} and {other + 1}"
            )
    for (atom, other), kind in bonds.items():
        if bonds.get((other, atom)) != kind:
            raise ValueError(
                "Expected each bond in both directions, and of one kind. "
                f"Received: {archive} with atoms {atom + 1} and {other + 1} in one"
            )
    return bonds


def _names(
    numbers: npt.NDArray[np.int64], names: Mapping[int, str], archive: Path, what: str
) -> list[str]:
    unknown = sorted(set(numbers.tolist()) - names.keys())
    if unknown:
        raise ValueError(
            f"Expected {what} {', '.join(map(str, names))}. Received: {archive} with {unknown[0]}"
        )
    return [names[number] for number in numbers.tolist()]

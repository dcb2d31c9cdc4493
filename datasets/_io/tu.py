"""Archives in the format of the TU collection: many graphs side by side, as lines of ints.

Reference: Morris et al., TUDataset, 2020.
"""

import io
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from keras_mmil._support import archives
from keras_mmil._support.files import UTF_8, parse_ints
from keras_mmil.datasets._io import files

__all__ = ["Graphs", "find", "read", "read_ints"]

_URL = "https://www.chrsmrrs.com/graphkerneldatasets"


class Graphs(NamedTuple):
    """Graphs whose nodes are numbered consecutively, as in an archive."""

    edges: npt.NDArray[np.int64]  # [lines, 2], from 0; lines may repeat
    sizes: npt.NDArray[np.int64]  # number of nodes of each graph
    labels: npt.NDArray[np.int64]  # [graphs]


def find(name: str) -> Path:
    """Path of the archive of a data set, which is downloaded if it is not there."""
    return files.find(f"tu/{name}.zip", f"{_URL}/{name}.zip")


def read(archive: Path, name: str) -> Graphs:
    """The graphs of an archive; ValueError if it is damaged, incomplete or inconsistent."""
    edges = read_ints(archive, name, "A", n_columns=2) - 1
    graph_of = read_ints(archive, name, "graph_indicator")[:, 0] - 1
    labels = read_ints(archive, name, "graph_labels")[:, 0]
    n, n_graphs = len(graph_of), len(labels)
    last = graph_of.max(initial=-1)
    if not n or graph_of.min() < 0 or last >= n_graphs or (np.diff(graph_of) < 0).any():
        raise ValueError(
            f"Expected nodes of graphs 1 to {n_graphs}, one graph after the other. "
            f"Received: {archive} with nodes of graphs {graph_of.min(initial=0) + 1} to {last + 1}"
        )
    if edges.size and not 0 <= edges.min() <= edges.max() < n:
        raise ValueError(
            f"Expected edges between nodes 1 to {n}. "
            f"Received: {archive} with nodes {edges.min() + 1} to {edges.max() + 1}"
        )
    if (graph_of[edges[:, 0]] != graph_of[edges[:, 1]]).any():
        raise ValueError(f"Expected edges within graphs. Received: {archive} with others")
    return Graphs(edges, np.bincount(graph_of, minlength=n_graphs), labels)


def read_ints(archive: Path, name: str, part: str, *, n_columns: int = 1) -> npt.NDArray[np.int64]:
    """The ints of the text file `<name>_<part>.txt` of an archive: int64 [lines, n_columns]."""
    member = f"{name}/{name}_{part}.txt"
    with archives.open_zip(archive) as members:
        if member not in members.namelist():
            raise ValueError(f"Expected a file {member}. Received: {archive} without it")
        with members.open(member) as stream:
            lines = io.TextIOWrapper(stream, UTF_8)
            return parse_ints(lines, n_columns, f"{member} of {archive}")

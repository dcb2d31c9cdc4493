"""PyTorch Geometric's heterogeneous layers on linked tables, in batches of `NeighborLoader`."""

import numpy as np
import torch
from torch_geometric.data import HeteroData
from torch_geometric.loader import NeighborLoader
from torch_geometric.nn import HeteroConv, SAGEConv
from torch_geometric.nn.module_dict import ModuleDict  # it may have an entry named "items"

__all__ = ["Path", "Rounds"]


class _Trainer:
    """A network on all rows that keys lead to from the rows of a batch. Arguments as of ours."""

    def __init__(self, shop, units, batch, aggregations, learning_rate, seed):
        torch.manual_seed(seed)
        self._data, self._batch, self._top = as_graph(shop), batch, shop.top
        self.network = self.make(self._data, shop.top, units, list(aggregations))
        self.n_parameters = sum(weight.numel() for weight in self.network.parameters())
        self._optimizer = torch.optim.Adam(self.network.parameters(), learning_rate, eps=1e-7)
        rows = torch.arange(len(self._data[shop.top].y))
        is_train = rows < shop.n_train
        self._test = self._loader(rows[~is_train], shuffle=False)
        self._in_order = self._loader(rows[is_train], shuffle=False)
        self._train = self._loader(rows[is_train], shuffle=True)

    def _loader(self, rows, shuffle):
        hops = [-1] * len(self._data.edge_types)  # all that keys lead to
        return NeighborLoader(
            self._data, hops, (self._top, rows), batch_size=self._batch, shuffle=shuffle
        )

    def batches(self, n):
        """The first batches of the rows for training."""
        return [batch for batch, _ in zip(self._in_order, range(n), strict=False)]

    def step(self, batch):
        """Train on a batch."""
        self._optimizer.zero_grad()
        logits = self.network(batch.x_dict, batch.edge_index_dict)
        loss = torch.nn.functional.binary_cross_entropy_with_logits(logits, batch[self._top].y)
        loss.backward()
        self._optimizer.step()

    def epochs(self, n):
        """Train on all rows, shuffled, n times."""
        for _ in range(n):
            for batch in self._train:
                self.step(batch)

    @torch.no_grad()
    def accuracy(self):
        """That on other rows."""
        right = [
            ((self.network(batch.x_dict, batch.edge_index_dict) > 0) == (batch[self._top].y > 0.5))
            for batch in self._test
        ]
        return float(torch.cat(right).float().mean())


class _Rounds(torch.nn.Module):
    def __init__(self, data, top, units, aggregations):
        super().__init__()
        self.encoders = _encoders(data, units)
        self.rounds = torch.nn.ModuleList(
            HeteroConv({edge: SAGEConv(units, units, aggregations) for edge in data.edge_types})
            for _ in data.edge_types
        )
        self.top, self.head = top, torch.nn.Linear(units, 1)

    def forward(self, x, edges):
        x = {name: torch.relu(self.encoders[name](rows)) for name, rows in x.items()}
        for convolution in self.rounds:
            x = x | {name: torch.relu(rows) for name, rows in convolution(x, edges).items()}
        return self.head(x[self.top])[:, 0]


class Rounds(_Trainer):
    """As many rounds as there are keys, each along all of them, as is usual."""

    make = _Rounds


class _Path(torch.nn.Module):
    def __init__(self, data, top, units, aggregations):
        super().__init__()
        self.encoders = _encoders(data, units)
        self.edges = data.edge_types[::-1]  # the outermost first
        self.convolutions = torch.nn.ModuleList(
            SAGEConv(units, units, aggregations) for _ in self.edges
        )
        self.top, self.head = top, torch.nn.Linear(units, 1)

    def forward(self, x, edges):
        x = {name: torch.relu(self.encoders[name](rows)) for name, rows in x.items()}
        for edge, convolution in zip(self.edges, self.convolutions, strict=True):
            start, _, end = edge
            x[end] = torch.relu(convolution((x[start], x[end]), edges[edge]))
        return self.head(x[self.top])[:, 0]


class Path(_Trainer):
    """Each key once, from the outermost inwards: what an expert writes for trees of tables."""

    make = _Path


def _encoders(data, units):
    sizes = {name: data[name].x.shape[1] for name in data.node_types}
    return ModuleDict({name: torch.nn.Linear(n, units) for name, n in sizes.items()})


def as_graph(shop):
    """The tables as a graph: numbers are standardised, categories one-hot."""
    data, keys = HeteroData(), {column for pair in shop.keys for column in pair}
    for name, columns in shop.tables.items():
        n_rows = len(columns["id"])
        n = shop.n_train if name == shop.top else n_rows
        parts = [
            _encoded(values, n)
            for column, values in columns.items()
            if column not in ("id", shop.target) and f"{name}.{column}" not in keys
        ]
        data[name].x = torch.tensor(np.concatenate(parts, axis=1), dtype=torch.float32)
    target = shop.tables[shop.top][shop.target]
    data[shop.top].y = torch.tensor(target, dtype=torch.float32)
    reached = {shop.top}
    for key, to in shop.keys:
        (child, column), parent = key.split("."), to.split(".")[0]
        rows = np.arange(len(shop.tables[child][column]))
        ends = {child: rows, parent: shop.tables[child][column]}
        start, end = (parent, child) if child in reached else (child, parent)
        reached.add(start)
        edges = np.stack([ends[start], ends[end]])
        data[start, "to", end].edge_index = torch.tensor(edges)
    return data


def _encoded(values, n):
    if values.dtype.kind in "fiu":
        return ((values - values[:n].mean()) / values[:n].std())[:, None]
    return values[:, None] == np.unique(values[:n])

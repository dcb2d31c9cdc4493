"""Networks made for graphs, through PyTorch Geometric, as their papers set them up.

- GCN: Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, 2017.
- GraphSAGE: Hamilton, Ying and Leskovec, Inductive Representation Learning on Large Graphs, 2017,
  with 25 sampled neighbours, as in the paper on MMIL. It trained for 10 epochs of large data; here
  until the validation loss falls no more.
- GAT: Veličković et al., Graph Attention Networks, 2018.
"""

import copy
from dataclasses import dataclass

import numpy as np
import torch
from torch_geometric.nn import GATConv, GCNConv, SAGEConv

from baselines.words import features
from keras_mmil.builders import graphs
from keras_mmil.datasets.citations import visible

__all__ = ["MODELS", "fit_graph_network"]


@dataclass(frozen=True)
class Settings:
    """How a network is built and trained.

    Attributes:
        convolution: function from the sizes of input and output, and whether it is the last, to a
            layer.
        hidden: units between both layers.
        activation: between both.
        dropout: of the input of each layer.
        learning_rate, weight_decay: of Adam, the latter of the first layer only if `decay_first`.
        epochs, patience: at most so many, and so many without a lower validation loss.
        neighbours: how many of a node's neighbours are drawn each epoch; None for all.
        normalise: whether the sum of a paper's features is made 1.
        sparse: whether the first layer takes features as a sparse tensor, which is faster.
    """

    convolution: object
    hidden: int
    activation: object = torch.relu
    dropout: float = 0.5
    learning_rate: float = 0.01
    weight_decay: float = 5e-4
    decay_first: bool = False
    epochs: int = 200
    patience: int = 10
    neighbours: int | None = None
    normalise: bool = True
    sparse: bool = True


def _sage(aggregation):
    def convolution(size, units, is_last):
        return SAGEConv(size, units, aggr=aggregation, project=aggregation == "max")

    return convolution


def _attention(size, units, is_last):
    heads = 1 if is_last else 8
    units = units if is_last else units // heads
    return GATConv(size, units, heads=heads, concat=not is_last, dropout=0.6)


_SAGE = {
    "hidden": 128,
    "dropout": 0.0,
    "weight_decay": 0.0,
    "epochs": 100,
    "neighbours": 25,
    "normalise": False,
    "sparse": False,  # neighbours are averaged before they are multiplied
}
MODELS = {
    "gcn": Settings(lambda size, units, is_last: GCNConv(size, units), 16, decay_first=True),
    "graphsage-mean": Settings(_sage("mean"), **_SAGE),
    "graphsage-max": Settings(_sage("max"), **_SAGE),
    "gat": Settings(
        _attention,
        64,
        activation=torch.nn.functional.elu,
        dropout=0.6,
        learning_rate=0.005,
        epochs=1000,
        patience=100,
    ),
}


class _Network(torch.nn.Module):
    def __init__(self, settings, size, n_classes):
        super().__init__()
        self.settings = settings
        self.first = settings.convolution(size, settings.hidden, False)
        self.last = settings.convolution(settings.hidden, n_classes, True)

    def forward(self, x, edges):
        rate, training = self.settings.dropout, self.training
        x = _dropout(x, rate, training)
        x = self.settings.activation(self.first(x, edges))
        return self.last(torch.nn.functional.dropout(x, rate, training), edges)


def _dropout(x, rate, training):
    """Dropout, of a sparse tensor of its values."""
    if not x.is_sparse:
        return torch.nn.functional.dropout(x, rate, training)
    values = torch.nn.functional.dropout(x.values(), rate, training)
    return torch.sparse_coo_tensor(
        x.indices(), values, x.shape, is_coalesced=True, check_invariants=False
    )


def fit_graph_network(name, network, parts, kind, seed):
    """Test accuracy of a network of two layers, of the epoch with the lowest validation loss.

    Args:
        name: one of `MODELS`.
        network: `Citations`.
        parts: papers for training, validation and test.
        kind: of the split, which says what citations are known when.
        seed: of weights, dropout and sampled neighbours.
    """
    torch.manual_seed(seed)
    rng = np.random.RandomState(seed)
    settings = MODELS[name]
    x = features(network).toarray()
    x = x / np.maximum(x.sum(axis=1, keepdims=True), 1e-9) if settings.normalise else x
    x = torch.from_numpy(x)
    x = x.to_sparse() if settings.sparse else x
    y = torch.from_numpy(network.labels)
    train, valid, test = (torch.from_numpy(part) for part in parts)
    adjacencies = [
        network.edges if seen is None else graphs.induced_subgraph(network.edges, seen)
        for seen in visible(kind, parts)
    ]

    def edges(step):
        return _edges(adjacencies[step], settings.neighbours, rng)

    model = _Network(settings, x.shape[1], network.n_classes)
    decay = {"weight_decay": settings.weight_decay}
    last = {} if settings.decay_first else decay
    optimizer = torch.optim.Adam(
        [
            {"params": model.first.parameters(), **decay},
            {"params": model.last.parameters(), **last},
        ],
        lr=settings.learning_rate,
    )
    best, best_loss, waited = None, np.inf, 0
    for _ in range(settings.epochs):
        model.train()
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(x, edges(0))[train], y[train]).backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            loss = float(torch.nn.functional.cross_entropy(model(x, edges(1))[valid], y[valid]))
        waited += 1
        if loss < best_loss:
            best, best_loss, waited = copy.deepcopy(model.state_dict()), loss, 0
        if waited >= settings.patience:
            break
    model.load_state_dict(best)
    with torch.no_grad():
        found = model(x, edges(2))[test].argmax(axis=1)
    return float((found == y[test]).float().mean())


def _edges(adjacency, max_neighbours, rng):
    """From each neighbour, of which at most so many are drawn, to the node: int64 [2, edges]."""
    bags = graphs.neighbourhoods(
        adjacency, max_neighbours=max_neighbours, include_self=False, seed=rng
    )
    return torch.from_numpy(np.stack([bags.values.numpy(), bags.value_rowids().numpy()]))

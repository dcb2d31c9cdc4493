"""What the benchmark of training steps runs on: networks, their weights, and batches of bags.

Every workload is the same network with another encoder: instances are encoded, then two bag-layers
(ReLU) reduce them to sub-bags and top-bags, and one sigmoid unit says the label.
"""

from dataclasses import dataclass, replace

import numpy as np

__all__ = ["N_BATCHES", "WORKLOADS", "Batch", "Workload"]

N_BATCHES = 4


@dataclass(frozen=True)
class Batch:
    """Some top-bags.

    Attributes:
        instances: uint8 images [instances, 28, 28]; or int32 ids, rows of the workload's table,
            [instances], or [instances, 3] where an instance is three of them.
        sub_splits: instances `sub_splits[s]` to `sub_splits[s + 1]` are in sub-bag s, int64.
        top_splits: sub-bags `top_splits[b]` to `top_splits[b + 1]` are in top-bag b, int64.
        y: labels, float32 [top-bags, 1].
    """

    instances: np.ndarray
    sub_splits: np.ndarray
    top_splits: np.ndarray
    y: np.ndarray


@dataclass(frozen=True)
class Workload:
    """A network with its weights, and batches to train it on.

    Attributes:
        name: of the workload.
        encoder: "convolution" (of images, like the MNIST network), "words" (a frozen vector of each
            word, a convolution over each word on its own, the three side by side), "dense", or
            "one-hot" (none: the first bag-layer reads the vector with a 1 in place of the id, and
            everybody just looks up its kernel's row).
        aggregations: of both bag-layers; their units are split evenly between them.
        table: frozen features of each id, float32 [ids, features], or None.
        weights: dict of float32 arrays: `kernel_1`, `bias_1`, … of the encoder's layers,
            `bag_kernel_1`, `bag_bias_1`, … of the bag-layers, `kernel`, `bias` of the output.
        batches: list of `Batch`.
        adversarial: whether training is virtually adversarial.
    """

    name: str
    encoder: str
    aggregations: tuple
    table: np.ndarray | None
    weights: dict
    batches: list
    adversarial: bool = False


def mnist(bag_scale=1, batch_scale=1):
    """20 bags of 2-6 bags of 2-6 images; two convolutions, dense 1024, two bag-layers 200 max."""
    rng = np.random.default_rng(0)
    batches = []
    for _ in range(N_BATCHES):
        top = rng.integers(2, 7, 20 * batch_scale)
        sub = rng.integers(2, 7, top.sum()) * bag_scale
        images = rng.integers(0, 256, (sub.sum(), 28, 28), dtype=np.uint8)
        batches.append(_batch(images, sub, top, rng))
    shapes = {
        "kernel_1": (5, 5, 1, 32),
        "bias_1": (32,),
        "kernel_2": (5, 5, 32, 64),
        "bias_2": (64,),
        "kernel_3": (256, 1024),
        "bias_3": (1024,),
        **_bag_shapes(1024, 200),
    }
    return Workload("mnist", "convolution", ("max",), None, _draw(shapes, rng), batches)


def text(bag_scale=1, batch_scale=1):
    """128 reviews of 10 sentences or so; trigrams of words by Zipf's law; 250 max + 250 mean."""
    rng = np.random.default_rng(0)
    n_words, width = 50_000, 100
    ranks = 1 / np.arange(1, n_words + 1)
    batches = []
    for _ in range(N_BATCHES):
        top = np.clip(rng.poisson(10, 128 * batch_scale), 1, None)
        sub = np.clip(rng.gamma(2.5, 7.5, top.sum()).astype(int), 3, 100) * bag_scale
        # A sentence is a run of words, its trigrams overlap.
        words = rng.choice(n_words, size=sub.sum() + 2, p=ranks / ranks.sum()).astype(np.int32)
        trigrams = np.lib.stride_tricks.sliding_window_view(words, 3).copy()
        batches.append(_batch(trigrams, sub, top, rng))
    table = rng.normal(size=(n_words, width)).astype(np.float32)
    shapes = {"kernel_1": (width, 300), "bias_1": (300,), **_bag_shapes(900, 500)}
    return Workload("text", "words", ("max", "mean"), table, _draw(shapes, rng), batches)


def ego(bag_scale=1, batch_scale=1):
    """20 graphs of 75 nodes or so with 30 neighbours; random features; 250 max + 250 mean.

    Larger bags are larger graphs, in which a node has as many neighbours.
    """
    rng = np.random.default_rng(0)
    width, batches, tables = 100, [], []
    first = 0
    for _ in range(N_BATCHES):
        top = rng.integers(50, 101, 20 * batch_scale) * bag_scale
        sub = rng.integers(15, 46, top.sum())
        starts = np.repeat(np.cumsum(top) - top, top)
        # Neighbours are drawn without replacement from the nodes of the same graph.
        neighbours = [
            first + start + rng.permutation(size)[:degree]
            for start, size, degree in zip(starts, np.repeat(top, top), sub, strict=True)
        ]
        batches.append(_batch(np.concatenate(neighbours).astype(np.int32), sub, top, rng))
        tables.append(rng.normal(size=(top.sum(), width)).astype(np.float32))
        first += top.sum()
    shapes = {"kernel_1": (width, 500), "bias_1": (500,), **_bag_shapes(500, 500)}
    table = np.concatenate(tables)
    return Workload("ego", "dense", ("max", "mean"), table, _draw(shapes, rng), batches)


def collab(bag_scale=1, batch_scale=1):
    """20 graphs of COLLAB; an instance is the degree of a neighbour, coded as in the paper."""
    if bag_scale != 1:
        raise ValueError(f"Expected real bags as they are. Received: bag_scale={bag_scale}")
    # They load TensorFlow, which not every competitor needs.
    from keras_mmil import ragged
    from keras_mmil.builders import graphs
    from keras_mmil.datasets import social

    rng = np.random.default_rng(0)
    networks = social.load("COLLAB")
    bags = networks.bags()
    chosen = rng.permutation(len(networks))[: 20 * batch_scale * N_BATCHES]
    batches = []
    for rows in chosen.reshape(N_BATCHES, -1):
        part = ragged.take(bags, rows)
        top, sub = ragged.nested_lengths(part)
        batches.append(_batch(part.flat_values.numpy(), sub, top, rng))
    table = graphs.degree_features(int(networks.degrees.max()))
    shapes = {"kernel_1": (table.shape[1], 500), "bias_1": (500,), **_bag_shapes(500, 500)}
    return Workload(
        "collab",
        "dense",
        ("max", "mean"),
        table,
        _draw(shapes, rng),
        batches,
    )


def cora(bag_scale=1, batch_scale=1):
    """All papers of Cora as one batch, with those around them and their words; 250 mean."""
    if (bag_scale, batch_scale) != (1, 1):
        raise ValueError(
            "Expected the whole network of papers as it is. "
            f"Received: bag_scale={bag_scale}, batch_scale={batch_scale}"
        )
    # They load TensorFlow, which not every competitor needs.
    import tensorflow as tf

    from keras_mmil import ragged
    from keras_mmil.datasets import citations

    rng = np.random.default_rng(0)
    network = citations.load("cora")
    words = tf.gather(network.words, network.bags(np.arange(len(network.labels)))[0])
    top, sub = ragged.nested_lengths(words)
    batch = _batch(words.flat_values.numpy(), sub, top, rng)
    shapes = _bag_shapes(network.n_words, 250)
    return Workload(
        "cora",
        "one-hot",
        ("mean",),
        None,
        _draw(shapes, rng),
        [batch] * N_BATCHES,
    )


def imdb(bag_scale=1, batch_scale=1):
    """128 real movie reviews, their words' vectors trained on them; 250 max + 250 mean."""
    if bag_scale != 1:
        raise ValueError(f"Expected real bags as they are. Received: bag_scale={bag_scale}")
    # They load TensorFlow, which not every competitor needs.
    from keras_mmil import ragged
    from keras_mmil.datasets import imdb as data

    rng = np.random.default_rng(0)
    (x, y), *_ = data.load_mmil()
    table = data.load_word_vectors()
    chosen = rng.permutation(len(y))[: 128 * batch_scale * N_BATCHES].reshape(N_BATCHES, -1)
    batches = []
    for rows in chosen:
        part = ragged.take(x, rows)
        trigrams = part.flat_values.numpy()
        top_splits, sub_splits = (splits.numpy() for splits in part.nested_row_splits)
        labels = y[rows].astype(np.float32)[:, None]
        batches.append(Batch(trigrams, sub_splits, top_splits, labels))
    shapes = {"kernel_1": (table.shape[1], 300), "bias_1": (300,), **_bag_shapes(900, 500)}
    return Workload("imdb", "words", ("max", "mean"), table, _draw(shapes, rng), batches)


def imdb_vat(bag_scale=1, batch_scale=1):
    """The same reviews, and virtual adversarial training on all of them."""
    return replace(imdb(bag_scale, batch_scale), name="imdb_vat", adversarial=True)


WORKLOADS = {make.__name__: make for make in (mnist, text, ego, collab, cora, imdb, imdb_vat)}


def _batch(instances, sub, top, rng):
    y = rng.integers(0, 2, (len(top), 1)).astype(np.float32)
    sub_splits, top_splits = (np.append(0, np.cumsum(sizes)) for sizes in (sub, top))
    return Batch(instances, sub_splits, top_splits, y)


def _bag_shapes(features, units):
    return {
        "bag_kernel_1": (features, units),
        "bag_bias_1": (units,),
        "bag_kernel_2": (units, units),
        "bag_bias_2": (units,),
        "kernel": (units, 1),
        "bias": (1,),
    }


def _draw(shapes, rng):
    """He's initial kernels, and zeros."""
    return {
        name: np.zeros(shape, np.float32)
        if "bias" in name
        else rng.normal(0, np.sqrt(2 / np.prod(shape[:-1])), shape).astype(np.float32)
        for name, shape in shapes.items()
    }

"""The experiment "Point Clouds"."""

from functools import partial

import numpy as np
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil.builders import clouds
from keras_mmil.datasets import modelnet, synthetic
from keras_mmil.zoo.experiments.experiment import Data, Experiment, ReadOn, Shown
from keras_mmil.zoo.pointclouds import pointcloud_mil, pointcloud_mmil

__all__ = ["cloud_experiment"]

_N_VALID = 2000  # clouds on which the rules are chosen, in the paper


def _load_clouds(
    form, n_points, n_rotations, seed=0, limit=None, source="modelnet", unlabelled=False
):
    """Clouds for training and test; of the first, some to choose rules on."""
    if source == "synthetic":
        names, n_points = synthetic.clouds.SHAPES, min(n_points, 60)
        train, test = (synthetic.load_clouds(n, n_points, seed + n) for n in (400, 200))
    else:
        names = modelnet.CLASS_NAMES
        train, test = modelnet.load(n_points)
    rng = np.random.default_rng(seed)
    orders = [rng.permutation(len(y)) for _, y in (train, test)]  # the files' are by kind
    for_training, for_test = (order[:limit] for order in orders)
    for_rules = for_training[: min(_N_VALID, len(for_training) // 5)]
    parts = (train, for_training), (train, for_rules), (test, for_test)
    triples = [(*_FORMS[form](x[chosen], y[chosen], n_rotations), None) for (x, y), chosen in parts]
    shown = partial(_shown_clouds, triples[-1], form, names)
    x, x_valid = (triple[0] for triple in triples[:2])

    def read_on():
        return ReadOn(ragged.take(x, slice(ragged.n_top_bags(x_valid), None)), x_valid)

    return Data(
        *triples, {"n_classes": len(names)}, class_names=names, shown=shown, read_on=read_on
    )


def _as_they_are(x, y, n_rotations):
    return tf.RaggedTensor.from_tensor(x), y


def _rotated(x, y, n_rotations):
    """Each cloud as the bag of its rotations."""
    return tf.RaggedTensor.from_tensor(clouds.rotations(x, n_rotations), ragged_rank=2), y


def _flattened(x, y, n_rotations):
    """Each rotation of each cloud."""
    turned = clouds.rotations(x, n_rotations).reshape(-1, *x.shape[1:])
    return tf.RaggedTensor.from_tensor(turned), np.repeat(y, n_rotations)


_FORMS = {"bags": _rotated, "clouds": _as_they_are, "rotations": _flattened}


def _shown_clouds(test, form, names):
    """Clouds by their kinds, and points by where they are."""
    x, y, _ = test
    point_at = ragged.lookup(x)

    def show(position):
        if len(position) == x.ragged_rank + 1:
            return "(" + ", ".join(f"{coordinate:.2f}" for coordinate in point_at(position)) + ")"
        kind = f"cloud {position[0]} ({names[y[position[0]]]})"
        return kind if len(position) == 1 else f"{kind}, rotation {position[1]}"

    if form != "bags":
        return Shown(x, show, are_clouds=True)
    kinds = tf.RaggedTensor.from_row_lengths(np.repeat(y, x.row_lengths()), x.row_lengths())
    return Shown(x, show, kinds, {"sub-bag": tuple(names)}, are_clouds=True)


def cloud_experiment(entry):
    """The `Experiment` of an `Entry`, whose split is the points of a cloud, and perhaps a form."""
    points, _, rotations = entry.split.partition("-")
    n_points = int(points.removeprefix("P"))
    form = "bags" if entry.model == "mmil" else rotations or "clouds"
    is_large = n_points > 1000
    n_rotations = 16 if is_large else 5
    builder = pointcloud_mmil if form == "bags" else pointcloud_mil
    size = {"equivariant_units": (512, 512, 512), "dense_units": 512} if is_large else {}
    return Experiment(
        **vars(entry),
        build=partial(builder, **size),
        load=partial(_load_clouds, form, n_points, n_rotations),
        batch_size=80 // n_rotations if form == "bags" else 64,  # some 64 clouds, as in Deep Sets
        keeps_best=False,
        explainer={
            "max_clusters": (50, 50) if form == "bags" else 50,
            "ccp_alpha": 3e-4,  # of 1e-3, 3e-4, 1e-4 and less, the best on clouds for validation
        },
        class_names=None,
    )

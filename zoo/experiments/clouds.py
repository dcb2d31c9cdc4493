"""The experiment "Point Clouds"."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.types import Array, Ints
from keras_mmil.builders import clouds
from keras_mmil.datasets import modelnet, synthetic
from keras_mmil.interpretation.report.renderers import Clouds
from keras_mmil.zoo.experiments.catalogue import Entry
from keras_mmil.zoo.experiments.experiment import Data, Experiment, Part, RuleData
from keras_mmil.zoo.experiments.page import Page
from keras_mmil.zoo.experiments.report import Report
from keras_mmil.zoo.pointclouds import pointcloud_mil, pointcloud_mmil

__all__ = ["cloud_experiment"]

_N_VALID = 2000  # clouds on which the rules are validated, in the paper


def cloud_experiment(entry: Entry) -> Experiment:
    """The `Experiment` of an `Entry`, whose split is the points of a cloud, and perhaps a form."""
    points, _, rotations = entry.split.partition("-")
    n_points = int(points.removeprefix("P"))
    form = "bags" if entry.model == "mmil" else rotations or "clouds"
    is_large = n_points > 1000
    n_rotations = 16 if is_large else 5
    builder = pointcloud_mmil if form == "bags" else pointcloud_mil
    larger = {"equivariant_units": (512, 512, 512), "dense_units": 512}
    size: dict[str, Any] = larger if is_large else {}
    return Experiment(
        **vars(entry),
        build=partial(builder, **size),
        load=partial(_load, form=form, n_points=n_points, n_rotations=n_rotations),
        batch_size=80 // n_rotations if form == "bags" else 64,  # some 64 clouds, as in Deep Sets
        keeps_best=False,
        explainer={
            "max_clusters": (50, 50) if form == "bags" else 50,
            "ccp_alpha": 3e-4,  # of 1e-3, 3e-4, 1e-4 and less, the best on clouds for validation
        },
        class_names=None,
    )


def _load(
    *,
    form: str,
    n_points: int,
    n_rotations: int,
    seed: int = 0,
    limit: int | None = None,
    source: str = "modelnet",
    unlabelled: bool = False,
) -> Data:
    """Clouds for training and test; of the first, some to validate rules on."""
    names: Sequence[str]
    if source == "synthetic":
        names, n_points = synthetic.clouds.SHAPES, min(n_points, 60)
        known, unknown = (synthetic.load_clouds(n, n_points, seed + n) for n in (400, 200))
    else:
        names = modelnet.CLASS_NAMES
        known, unknown = modelnet.load(n_points)
    rng = np.random.default_rng(seed)
    # In random order, as those of the files are sorted by class.
    for_training, for_test = (rng.permutation(len(y))[:limit] for _, y in (known, unknown))
    for_rules = for_training[: min(_N_VALID, len(for_training) // 5)]
    train, valid, test = (
        Part(*_FORMS[form](x[chosen], y[chosen], n_rotations))
        for (x, y), chosen in ((known, for_training), (known, for_rules), (unknown, for_test))
    )

    def rule_data() -> RuleData:
        others = slice(ragged.n_top_bags(valid.x), None)
        return RuleData(ragged.take(train.x, others), valid.x)

    return Data(
        train=train,
        valid=valid,
        test=test,
        build_arguments={"n_classes": len(names)},
        class_names=names,
        rule_data=rule_data,
        page=lambda: Page(test.x, test.y, Clouds(test.x)),
        report=partial(_report, test.x, test.y, form, names),
    )


def _as_they_are(x: Array, y: Ints, n_rotations: int) -> tuple[tf.RaggedTensor, Ints]:
    return tf.RaggedTensor.from_tensor(x), y


def _rotated(x: Array, y: Ints, n_rotations: int) -> tuple[tf.RaggedTensor, Ints]:
    """Each cloud as the bag of its rotations."""
    return tf.RaggedTensor.from_tensor(clouds.rotations(x, n_rotations), ragged_rank=2), y


def _flattened(x: Array, y: Ints, n_rotations: int) -> tuple[tf.RaggedTensor, Ints]:
    """Each rotation of each cloud."""
    turned = clouds.rotations(x, n_rotations).reshape(-1, *x.shape[1:])
    return tf.RaggedTensor.from_tensor(turned), np.repeat(y, n_rotations)


_Form = Callable[[Array, Ints, int], tuple[tf.RaggedTensor, Ints]]
_FORMS: dict[str, _Form] = {"bags": _rotated, "clouds": _as_they_are, "rotations": _flattened}


def _report(x: tf.RaggedTensor, y: Ints, form: str, names: Sequence[str], report: Report) -> None:
    """Clouds by their classes, and points by where they are."""
    point_at = ragged.lookup(x)

    def show(position: tuple[int, ...]) -> str:
        if len(position) == x.ragged_rank + 1:
            return "(" + ", ".join(f"{coordinate:.2f}" for coordinate in point_at(position)) + ")"
        cloud = f"cloud {position[0]} ({names[y[position[0]]]})"
        return cloud if len(position) == 1 else f"{cloud}, rotation {position[1]}"

    report.clusters(x, show)
    report.explanations(x, show)
    report.clouds(x, show)
    if form == "bags":
        labels = tf.RaggedTensor.from_row_lengths(np.repeat(y, x.row_lengths()), x.row_lengths())
        report.sub_bags(x, labels, names)

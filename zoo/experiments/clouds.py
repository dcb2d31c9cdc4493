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
from keras_mmil.rules.report.renderers import Clouds
from keras_mmil.training import cosine_decay
from keras_mmil.zoo.experiments.catalogue import Entry
from keras_mmil.zoo.experiments.experiment import Data, Experiment, Page, RuleData, RunWriter, Split
from keras_mmil.zoo.images import pointcloud_mil, pointcloud_mmil

__all__ = ["cloud_experiment"]

# Points of a cloud, by the name of the split.
_POINTS = {"P100": 100, "P1000": 1024, "P5000": 5000}
_LARGER = {"equivariant_units": (512, 512, 512), "dense_units": 512}  # as in Deep Sets
# With random points in every step, larger networks do not overfit.
_RESAMPLED = {"dense_units": 512, "dropout": 0.2, "scale": (0.8, 1.25)}
_WIDE = {"bag_units": (512,)}  # more accurate than the paper's 40, but rules follow it less
_N_VALID = 2000  # clouds on which the rules are validated, in the paper


def cloud_experiment(entry: Entry) -> Experiment:
    """The `Experiment` of an `Entry`, whose split is the points of a cloud, and perhaps a form."""
    points, *forms = entry.split.split("-")
    form = "bags" if entry.model == "mmil" else "rotations" if "rotations" in forms else "clouds"
    n_points = _POINTS[points]
    is_large = n_points > 1000
    n_rotations = 16 if is_large else 5
    builder = pointcloud_mmil if form == "bags" else pointcloud_mil
    arguments: dict[str, Any] = _LARGER if is_large else {}
    n_drawn_from, rate = n_points, 0.001
    batch_size = 80 // n_rotations if form == "bags" else 64  # some 64 clouds, as in Deep Sets
    if "resampled" in forms:
        arguments = {**_RESAMPLED, "n_points": n_points}
        n_drawn_from, rate, batch_size = _POINTS["P1000"], 0.002, 64
    if "wide" in forms:
        arguments = {**arguments, **_WIDE}
    return Experiment(
        **vars(entry),
        build=partial(builder, **arguments),
        load=partial(
            _load,
            form=form,
            n_points=n_points,
            n_drawn_from=n_drawn_from,
            n_rotations=n_rotations,
        ),
        batch_size=batch_size,
        keeps_best=False,
        schedule=partial(cosine_decay, rate),
        explainer={
            "max_clusters": (50, 50) if form == "bags" else 50,
            "ccp_alpha": 3e-4,  # of 1e-3, 3e-4, 1e-4 and less, the best on clouds for validation
        },
        class_names=None,
        called=("point", "rotation", "object") if form == "bags" else ("point", "object"),
    )


def _load(
    *,
    form: str,
    n_points: int,
    n_drawn_from: int,
    n_rotations: int,
    seed: int = 0,
    limit: int | None = None,
    source: str = "modelnet",
    unlabelled: bool = False,
) -> Data:
    """Clouds of `n_drawn_from` points for training; others of `n_points` for rules and test."""
    names: Sequence[str]
    if source == "synthetic":
        names = synthetic.clouds.SHAPES
        n_drawn_from = 60 * n_drawn_from // n_points
        n_points = 60
        denser, unknown = (
            synthetic.load_clouds(n, n_each, seed + n)
            for n, n_each in ((400, n_drawn_from), (200, n_points))
        )
        known = denser
        if n_drawn_from > n_points:
            known = clouds.normalise(denser[0][:, :n_points]), denser[1]
    else:
        names = modelnet.CLASS_NAMES
        known, unknown = modelnet.load(n_points)
        # The same objects in the same order.
        denser = known if n_drawn_from == n_points else modelnet.load(n_drawn_from)[0]
    rng = np.random.default_rng(seed)
    # Shuffled, as the files are sorted by class.
    for_training, for_test = (rng.permutation(len(y))[:limit] for _, y in (known, unknown))
    for_rules = for_training[: min(_N_VALID, len(for_training) // 5)]
    others = for_training[len(for_rules) :]

    def part(clouds_of: tuple[Array, Ints], chosen: Ints) -> Split:
        x, y = clouds_of
        return Split(*_FORMS[form](x[chosen], y[chosen], n_rotations))

    valid, test = part(known, for_rules), part(unknown, for_test)
    return Data(
        train=part(denser, for_training),
        valid=valid,
        test=test,
        build_arguments={"n_classes": len(names)},
        class_names=names,
        rule_data=lambda: RuleData(part(known, others).x, valid.x),
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


def _report(
    x: tf.RaggedTensor, y: Ints, form: str, names: Sequence[str], report: RunWriter
) -> None:
    """Clouds by their classes, and points by their coordinates."""
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

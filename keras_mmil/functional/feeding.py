"""Data in memory for the replicas of a `tf.distribute.Strategy`, each of which gathers its own."""

import random
from collections.abc import Mapping
from typing import Any

import keras
import tensorflow as tf
from keras.src.trainers.data_adapters.array_slicing import (
    convert_to_sliceable,
    train_validation_split,
)
from keras.src.trainers.data_adapters.data_adapter_utils import class_weight_to_sample_weights

from keras_mmil import ragged
from keras_mmil.batches import feed, parts_of_batches, parts_of_rows
from keras_mmil.functional.workers import check_alike, of_chief
from keras_mmil.inputs import is_data

__all__ = ["feed_replicas", "for_evaluate", "for_fit", "for_predict"]


def feed_replicas(
    strategy: tf.distribute.Strategy,
    x: Any,
    y: Any = None,
    *,
    batch_size: int,
    shuffle: bool = False,
    seed: int | None = None,
    first_epoch: int = 0,
) -> dict[str, Any]:
    """What `batches.feed` gives, for all replicas of a strategy.

    All workers have the same data, and each replica gathers its part of each batch. A part may be
    empty, but no replica is without one: TensorFlow would fail, or all workers would have to agree
    in each step on whether it is the last.

    Args:
        strategy: which may have one replica only.
        x, y, batch_size, shuffle, seed, first_epoch: as of `batches.feed`. On several workers the
            seed must be the same, if there is any shuffling.

    Returns:
        Arguments of `fit`: `x`, an endless Dataset, `steps_per_epoch` and `shuffle`.

    Raises:
        ValueError: if the workers have different numbers of top-bags, or none.
    """
    order: dict[str, Any] = {
        "batch_size": batch_size,
        "shuffle": shuffle,
        "seed": seed,
        "first_epoch": first_epoch,
    }
    if strategy.num_replicas_in_sync == 1:
        return feed(x, y, **order)
    n_top_bags = ragged.n_top_bags(x)
    check_alike(strategy, n_top_bags)

    def parts(context: tf.distribute.InputContext) -> tf.data.Dataset:
        mine, n_parts = _numbers_of_parts(context), context.num_replicas_in_sync
        dataset = parts_of_batches(x, y, parts=mine, n_parts=n_parts, **order)
        return dataset.apply(tf.data.experimental.assert_cardinality(tf.data.INFINITE_CARDINALITY))

    return {
        "x": strategy.distribute_datasets_from_function(parts),
        "steps_per_epoch": -(-n_top_bags // batch_size),
        "shuffle": False,
    }


def for_fit(model: keras.Model, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `fit` for all replicas of a model's strategy.

    The order of the top-bags is the chief's: Keras would let each worker shuffle by itself, so that
    some were in the parts of several workers, and others in none.

    Args:
        model: which was made in a strategy of several replicas.
        arguments: of `keras.Model.fit`, by name, with data in memory or as a Dataset.

    Raises:
        ValueError: if the workers have different numbers of top-bags, for shuffle="batch", and for
            several steps in one execution.
    """
    _check_single_steps(model)
    given = dict(arguments)
    batch_size, validation = given.get("batch_size"), given.pop("validation_data", None)
    if is_data(given.get("x")):
        data = [given.pop(name, None) for name in ("x", "y", "sample_weight")]
        split, shuffle = given.pop("validation_split", 0.0), given.pop("shuffle", True)
        if shuffle not in (True, False):
            raise ValueError(
                f"Expected True or False, for several replicas. Received: shuffle={shuffle!r}"
            )
        if split and validation is None:
            data, validation = train_validation_split(data, split)
        given |= _fed(
            model,
            *data,
            class_weight=given.pop("class_weight", None),
            batch_size=given.pop("batch_size", None),
            steps=given.pop("steps_per_epoch", None),
            shuffle=shuffle,
            first_epoch=given.get("initial_epoch", 0),
        )
    if is_data(validation):
        fed = _fed(
            model,
            *validation,
            batch_size=given.pop("validation_batch_size", None) or batch_size,
            steps=given.pop("validation_steps", None),
        )
        validation, given["validation_steps"] = fed["x"], fed["steps_per_epoch"]
    return {**given, "validation_data": validation}


def for_evaluate(model: keras.Model, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `evaluate` for all replicas of a model's strategy, of data in memory."""
    _check_single_steps(model)
    given = dict(arguments)
    data = [given.pop(name, None) for name in ("x", "y", "sample_weight")]
    batch_size, steps = given.pop("batch_size", None), given.pop("steps", None)
    fed = _fed(model, *data, batch_size=batch_size, steps=steps)
    return {**given, "x": fed["x"], "steps": fed["steps_per_epoch"]}


def for_predict(model: keras.Model, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `predict` for all replicas of a model's strategy.

    Of the batches of a Dataset, each replica gets a part, too, if an empty one. TensorFlow would
    fail where one were left without.
    """
    dataset = arguments["x"]
    if not isinstance(dataset, tf.data.Dataset):
        return for_evaluate(model, arguments) if is_data(dataset) else dict(arguments)

    def parts(context: tf.distribute.InputContext) -> tf.data.Dataset:
        numbers = tf.constant(_numbers_of_parts(context), tf.int64)
        n_parts = context.num_replicas_in_sync

        def cut(*batch: Any) -> tf.data.Dataset:
            first = tf.nest.flatten(batch)[0]
            n = first.nrows() if isinstance(first, tf.RaggedTensor) else tf.shape(first)[0]
            return parts_of_rows(tf.cast(n, tf.int64), numbers, n_parts).map(
                lambda rows: tf.nest.map_structure(lambda x: tf.gather(x, rows), batch)
            )

        return dataset.flat_map(cut)

    return {**arguments, "x": model.distribute_strategy.distribute_datasets_from_function(parts)}


def _check_single_steps(model: keras.Model) -> None:
    """Raise ValueError where a model takes several steps at once: in TensorFlow's loop these fail.

    Gradients are added up between the replicas, which TensorFlow cannot do in a condition.
    """
    if model.steps_per_execution > 1:
        raise ValueError(
            "Expected steps_per_execution=1, for several replicas. "
            f"Received: steps_per_execution={model.steps_per_execution}"
        )


def _numbers_of_parts(context: tf.distribute.InputContext) -> range:
    """Those of a batch's parts that a worker's replicas get, in the order of the replicas.

    The first replica of each worker comes first, then the second of each: as Keras joins
    predictions.
    """
    n_workers = context.num_input_pipelines
    return range(context.input_pipeline_id, context.num_replicas_in_sync, n_workers)


def _fed(
    model: keras.Model,
    x: Any,
    y: Any = None,
    weights: Any = None,
    *,
    class_weight: Mapping[int, float] | None = None,
    batch_size: int | None,
    steps: int | None,
    shuffle: bool = False,
    first_epoch: int = 0,
) -> dict[str, Any]:
    """What `feed_replicas` gives, for data as Keras takes them."""
    strategy, n = model.distribute_strategy, ragged.n_top_bags(x)
    if class_weight is not None:
        if weights is not None:
            raise ValueError("Expected class_weight or sample_weight. Received: both")
        weights = class_weight_to_sample_weights(y, class_weight)
    if weights is not None and keras.tree.is_nested(y) and not keras.tree.is_nested(weights):
        weights = keras.tree.map_structure(lambda _: weights, y)
    data = keras.utils.pack_x_y_sample_weight(x, y, weights)
    fed = feed_replicas(
        strategy,
        keras.tree.lists_to_tuples(convert_to_sliceable(data, target_backend="tensorflow")),
        batch_size=batch_size or (-(-n // steps) if steps else 32),
        shuffle=shuffle,
        seed=of_chief(strategy, random.randrange(2**31)) if shuffle else None,
        first_epoch=first_epoch,
    )
    return {**fed, "steps_per_epoch": steps or fed["steps_per_epoch"]}

"""Training in a `tf.distribute.Strategy`: several replicas, perhaps on several workers.

Workers are processes that run the same program. All have the same data, and each replica gathers
its part of each batch.
"""

import concurrent.futures
import contextlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import keras
import tensorflow as tf
from keras.src.trainers.data_adapters.array_slicing import (
    convert_to_sliceable,
    train_validation_split,
)
from keras.src.trainers.data_adapters.data_adapter_utils import class_weight_to_sample_weights

from keras_mmil import ragged
from keras_mmil.bags import is_data
from keras_mmil.batches import feed, parts_of_batches, parts_of_rows
from keras_mmil.layers._types import Nested

__all__ = [
    "Step",
    "all_workers",
    "assert_not_empty",
    "check_averaged",
    "feed_replicas",
    "first_batch",
    "for_evaluate",
    "for_fit",
    "for_predict",
    "has_workers",
    "is_chief",
    "n_replicas",
    "of_chief",
    "on_this_worker",
    "weigh_gradient",
    "with_inner_axes",
    "with_rows_of_logs",
]

Step: TypeAlias = Callable[[Any], dict[str, tf.Tensor]]  # from a batch to logs

# What TensorFlow raises, by where it notices first that another worker is gone.
_GONE = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
    tf.errors.UnavailableError,
)


# Data in memory ---------------------------------------------------------------------------------


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

    A part of a batch may be empty, but every replica gets one: otherwise TensorFlow would fail, or
    all workers would have to agree in each step on whether it is the last. The other arguments are
    those of `batches.feed`. To shuffle on several workers, all need the same seed.

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
    _check_equal_sizes(strategy, n_top_bags)

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
    """Arguments of `fit`, by name, for all replicas of a model's strategy.

    The order of the top-bags is the chief's: Keras would let each worker shuffle by itself, so that
    some top-bags were in the parts of several workers, and others in none.

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
    """Arguments of `evaluate`, on data in memory, for all replicas of a model's strategy."""
    _check_single_steps(model)
    given = dict(arguments)
    data = [given.pop(name, None) for name in ("x", "y", "sample_weight")]
    batch_size, steps = given.pop("batch_size", None), given.pop("steps", None)
    fed = _fed(model, *data, batch_size=batch_size, steps=steps)
    return {**given, "x": fed["x"], "steps": fed["steps_per_epoch"]}


def for_predict(model: keras.Model, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `predict` for all replicas of a model's strategy.

    Each replica also gets a part of each batch of a Dataset, perhaps an empty one: TensorFlow would
    fail if a replica were left without.
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
    """Raise ValueError if a model takes several steps in one execution.

    Gradients are added up between the replicas, which TensorFlow cannot do in a condition.
    """
    if model.steps_per_execution > 1:
        raise ValueError(
            "Expected steps_per_execution=1, for several replicas. "
            f"Received: steps_per_execution={model.steps_per_execution}"
        )


def _numbers_of_parts(context: tf.distribute.InputContext) -> range:
    """The parts of a batch for a worker's replicas, in the order of the replicas.

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


# Replicas ---------------------------------------------------------------------------------------


def n_replicas() -> int:
    """Number of replicas that run this step: 1 outside of `Strategy.run`."""
    if tf.distribute.in_cross_replica_context():
        return 1
    return tf.distribute.get_strategy().num_replicas_in_sync


def assert_not_empty(layers: Iterable[keras.Layer], y_pred: Nested) -> None:
    """Raise, when run, if this replica has no examples and one of the layers would learn from that.

    The mean and variance of nothing are NaN, which would be averaged with those of the others.
    """
    for layer in layers:
        if isinstance(layer, keras.layers.BatchNormalization) and not layer.synchronized:
            tf.debugging.assert_positive(
                _n_examples(y_pred),
                "Expected batches with a part for every replica, for a BatchNormalization that is "
                "not synchronized: choose a batch size that leaves no small last batch, or set "
                f"synchronized=True. Received: layer={layer.name!r} without any examples",
            )


def check_averaged(losses: Any) -> None:
    """Raise ValueError if one of the compiled losses, `model.loss`, is not a mean over examples.

    Keras reports the mean loss of the replicas times their number, whatever the reduction.
    """
    for loss in keras.tree.flatten(losses):
        reduction = getattr(loss, "reduction", "mean")  # a name or function is averaged
        if reduction not in ("mean", "sum_over_batch_size"):
            raise ValueError(
                "Expected a loss that is averaged over the examples, for a strategy of several "
                f"replicas. Received: loss {loss.name!r} with reduction={reduction!r}"
            )


def weigh_gradient(loss: tf.Tensor, y_pred: Nested) -> tf.Tensor:
    """A replica's mean loss, such that the replicas' gradients add up to that of all examples.

    Keras divides the sum of the replicas' gradients by their number, which is right only if all
    have as many examples: not in a smaller last batch. So the gradient, not the value, is
    multiplied by the replica's share of all examples, and by the number of replicas.
    """
    context = tf.distribute.get_replica_context()
    n_examples = _n_examples(y_pred)
    n_all = context.all_reduce(tf.distribute.ReduceOp.SUM, n_examples)
    share = tf.math.divide_no_nan(tf.cast(n_examples, loss.dtype), tf.cast(n_all, loss.dtype))
    factor = share * context.num_replicas_in_sync
    return loss + (factor - 1) * (loss - tf.stop_gradient(loss))


def first_batch(epoch_iterator: Iterable[Any], strategy: tf.distribute.Strategy) -> Any:
    """The first replica's part of the first batch."""

    # In a graph, as eagerly TensorFlow's `get_next` fails where some replica has no part of the
    # batch (2.21: a ragged tensor's variant gets the shape (0,); a dense model fails in AddN).
    def first_part(iterator: tf.data.Iterator) -> Any:
        batch = iterator.get_next()
        return keras.tree.map_structure(lambda x: strategy.experimental_local_results(x)[0], batch)

    for _, _, iterator in epoch_iterator:
        return tf.function(first_part)(iterator)


def with_inner_axes(inputs: Any) -> Any:
    """Nested inputs of a replica: without examples, TensorFlow forgets the axes of instances."""

    def reshaped(x: Any) -> Any:
        if not isinstance(x, tf.RaggedTensor) or not x.flat_values.shape[1:].is_fully_defined():
            return x
        return x.with_flat_values(tf.reshape(x.flat_values, [-1, *x.flat_values.shape[1:]]))

    return keras.tree.map_structure(reshaped, inputs)


def _n_examples(y_pred: Nested) -> tf.Tensor:
    is_ragged = isinstance(y_pred, tf.RaggedTensor)
    return y_pred.nrows(tf.int32) if is_ragged else tf.shape(y_pred)[0]


# Workers ----------------------------------------------------------------------------------------


@contextlib.contextmanager
def all_workers(strategy: tf.distribute.Strategy) -> Iterator[None]:
    """Raise a RuntimeError that says what to do if a block fails because a worker is gone."""
    try:
        yield
    except _GONE as error:
        if not has_workers(strategy):
            raise
        raise RuntimeError(
            "Expected all workers until the end. If a worker is gone: start all workers again with "
            f"the same command. Received: {error.message}"
        ) from error


def has_workers(strategy: tf.distribute.Strategy) -> bool:
    """Whether a strategy has several processes."""
    is_of_workers = isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)
    return is_of_workers and strategy.extended._in_multi_worker_mode()


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process is the one that writes files: the chief or, without one, worker 0."""
    return not has_workers(strategy) or strategy.extended.should_checkpoint


def of_chief(strategy: tf.distribute.Strategy, number: int) -> int:
    """The chief's number, on all workers. Each waits until all have called this."""
    return _sum(strategy, number if is_chief(strategy) else 0) if has_workers(strategy) else number


def on_this_worker(function: Callable[[], None]) -> None:
    """Call a function that not all workers call, outside of the scope of a strategy.

    A variable that is made in the scope waits for all workers, and Keras makes some to save models.
    """
    if not tf.distribute.has_strategy():
        function()
        return
    with concurrent.futures.ThreadPoolExecutor(1) as threads:  # scopes are of a thread
        threads.submit(function).result()


def with_rows_of_logs(
    make: Callable[[Callable[[Any], tf.Tensor]], Callable[[Iterator[Any]], tf.Tensor]], step: Step
) -> Callable[[Iterator[Any]], dict[str, tf.Tensor]]:
    """Keras's function `make` of a step, which then averages the logs of several workers.

    Keras averages along the first axis, as if the logs were batches, but scalars have none.
    """
    names: list[str] = []

    def row(data: Any) -> tf.Tensor:
        logs = step(data)
        names[:] = logs
        return tf.stack([tf.cast(value, tf.float32) for value in logs.values()])[tf.newaxis]

    function = make(row)

    def logs(iterator: Iterator[Any]) -> dict[str, tf.Tensor]:
        values = tf.unstack(function(iterator))
        return dict(zip(names, values, strict=True))

    return logs


def _check_equal_sizes(strategy: tf.distribute.Strategy, n: int) -> None:
    """Raise ValueError if the workers have different numbers of top-bags."""
    if not has_workers(strategy):
        return
    n_workers, total, squares = (_sum(strategy, number) for number in (1, n, n * n))
    if n_workers * squares != total * total:  # their variance is not 0
        raise ValueError(
            "Expected the same data on all workers, each of which takes its part of each batch. "
            f"Received: {n} top-bags on this worker, {total} on all {n_workers}"
        )


def _sum(strategy: tf.distribute.Strategy, number: int) -> int:
    with strategy.scope():
        return int(strategy.reduce("SUM", tf.constant(number, tf.int64), axis=None))

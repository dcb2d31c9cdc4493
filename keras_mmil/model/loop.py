"""Training and evaluation on data in memory: many steps in one call of a TensorFlow graph.

Keras enters Python in each step, and slices the data outside of the graph. For networks of nested
data, both take longer than the step itself. Here the graph gets the data once, cuts each batch by
the numbers of its rows, and Python is entered about twice a second. The rows are in Keras's order,
and the results are Keras's.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from keras_mmil._support.digests import digest_of
from keras_mmil._support.keras_internals import keras_data, row_batches, short_adam
from keras_mmil.bags import is_data
from keras_mmil.batches import rows_of
from keras_mmil.model import traces

__all__ = ["evaluate", "fit", "is_possible", "make_variables"]

_SECONDS = 0.5  # between two updates of the progress bar, and until an interrupt is noticed
# Arguments of `fit` and `evaluate`, and what they must be.
_REQUIRED: Mapping[str, tuple[Any, ...]] = {
    "validation_split": (None, 0, 0.0),
    "validation_steps": (None,),
    "validation_freq": (None, 1),
    "steps": (None,),
}
_HOOKS = [f"on_{kind}batch_{end}" for kind in ("", "train_", "test_") for end in ("begin", "end")]


class _Feed(NamedTuple):
    """Data in memory, the rows of each batch, and the number of batches in an epoch.

    An epoch is one pass over the Dataset of rows, or continues it if that is endless.
    """

    data: Any
    rows: tf.data.Dataset
    n_steps: int
    is_endless: bool = False


def is_possible(model: keras.Model, arguments: Mapping[str, Any]) -> bool:
    """Whether `fit` or `evaluate` here does what Keras's would do with these arguments, by name."""
    x, validation = arguments.get("x"), arguments.get("validation_data")
    callbacks = arguments.get("callbacks") or []
    callbacks = getattr(callbacks, "callbacks", callbacks)  # of a `CallbackList`
    parts = tf.nest.flatten([x, validation]) if is_data(x) else []
    return (
        model.compiled
        and not (model.run_eagerly or model.jit_compile or model.steps_per_execution > 1)
        and model._distribute_strategy is None
        and ((is_data(x) and arguments.get("steps_per_epoch") is None) or rows_of(x) is not None)
        and (validation is None or is_data(validation))
        and not any(isinstance(part, tf.SparseTensor) for part in parts)
        and all(arguments.get(name) in values for name, values in _REQUIRED.items())
        and not any(map(_sees_batches, tf.nest.flatten(callbacks)))
    )


def _sees_batches(callback: keras.callbacks.Callback) -> bool:
    """Whether a callback does something before or after a batch."""
    if type(callback) is keras.callbacks.ModelCheckpoint:
        return bool(callback.save_freq != "epoch")
    if isinstance(callback, keras.callbacks.ProgbarLogger) or getattr(
        callback, "is_progress", False
    ):
        return False  # it is told now and then
    kind, base = type(callback), keras.callbacks.Callback
    return any(
        name in vars(callback) or getattr(kind, name) is not getattr(base, name) for name in _HOOKS
    )


def fit(
    model: keras.Model,
    x: Any,
    y: Any = None,
    batch_size: int | None = None,
    epochs: int = 1,
    verbose: str | int = "auto",
    callbacks: Any = None,
    validation_data: tuple[Any, ...] | None = None,
    shuffle: bool | str = True,
    class_weight: Mapping[int, float] | None = None,
    sample_weight: Any = None,
    initial_epoch: int = 0,
    steps_per_epoch: int | None = None,
    validation_batch_size: int | None = None,
    **defaults: Any,
) -> keras.callbacks.History:
    """`keras.Model.fit`, for arguments that are possible; `defaults` have no effect."""
    found = rows_of(x)
    if found is None:
        data = keras_data(x, y, sample_weight, class_weight)
        feed = _feed(data, batch_size, shuffle)
    else:
        n_steps = steps_per_epoch or int(found[1].cardinality())
        feed = _Feed(*found, n_steps, is_endless=steps_per_epoch is not None)
    valid = None
    if validation_data is not None:
        valid = _feed(keras_data(*validation_data), validation_batch_size or batch_size)
    make_variables(model, feed.data)
    train = _Steps(model, "train", feed)
    test = None if valid is None else _Steps(model, "test", valid)
    callbacks = _callback_list(
        model, callbacks, add_history=True, verbose=verbose, epochs=epochs, steps=feed.n_steps
    )
    model.stop_training = False
    callbacks.on_train_begin()
    logs: dict[str, Any] = {}
    for epoch in range(initial_epoch, epochs):
        callbacks.on_epoch_begin(epoch)
        for step, logs in train.epoch():
            callbacks.on_train_batch_end(step, logs)
        if test is not None:
            callbacks.on_test_begin()
            *_, (_, found_logs) = test.epoch()
            callbacks.on_test_end(found_logs)
            logs = logs | {f"val_{name}": value for name, value in found_logs.items()}
        callbacks.on_epoch_end(epoch, logs)
        if model.stop_training:
            break
    if epochs > 0:
        model.optimizer.finalize_variable_values(model.trainable_weights)
    callbacks.on_train_end(logs)
    return model.history


def evaluate(
    model: keras.Model,
    x: Any,
    y: Any = None,
    batch_size: int | None = None,
    verbose: str | int = "auto",
    sample_weight: Any = None,
    callbacks: Any = None,
    return_dict: bool = False,
    **defaults: Any,
) -> Any:
    """`keras.Model.evaluate`, for arguments that are possible; `defaults` have no effect."""
    feed = _feed(keras_data(x, y, sample_weight), batch_size)
    make_variables(model, feed.data)
    callbacks = _callback_list(model, callbacks, verbose=verbose, epochs=1, steps=feed.n_steps)
    callbacks.on_test_begin()
    logs: dict[str, Any] = {}
    for step, logs in _Steps(model, "test", feed).epoch():
        callbacks.on_test_batch_end(step, logs)
    callbacks.on_test_end(logs)
    return logs if return_dict else model._flatten_metrics_in_order(logs)


def _callback_list(
    model: keras.Model, callbacks: Any, verbose: str | int, **arguments: Any
) -> keras.callbacks.CallbackList:
    if isinstance(callbacks, keras.callbacks.CallbackList):
        return callbacks
    return keras.callbacks.CallbackList(
        callbacks, add_progbar=verbose != 0, verbose=verbose, model=model, **arguments
    )


def _feed(data: Any, batch_size: int | None, shuffle: bool | str = False) -> _Feed:
    n, size = next(part.shape[0] for part in _parts(data)), batch_size or 32
    rows = row_batches(n, size, shuffle)
    # Without shuffling, one iterator for all epochs: making one takes as long as some steps.
    return _Feed(data, rows if shuffle else rows.repeat(), -(-n // size), is_endless=not shuffle)


class _Steps:
    """Steps of training ("train") or evaluation ("test") of a model on data."""

    def __init__(self, model: keras.Model, kind: str, feed: _Feed) -> None:
        self._model, self._feed = model, feed
        tables = _tables(feed.data)
        with tf.device("CPU:0"):  # where batches are cut
            self._tensors = [table.tensors(_parts(feed.data)) for table in tables]
        self._run = _function(model, kind, feed.data, tables, self._tensors)
        self._iterator = iter(feed.rows) if feed.is_endless else None
        self._rate = 0.0  # steps a second

    def epoch(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Run an epoch; yields the number of the last step and its logs now and then."""
        self._model.reset_metrics()
        iterator = self._iterator or iter(self._feed.rows)
        done, n_steps = 0, self._feed.n_steps
        while done < n_steps:
            # The first call also traces. So the numbers grow until they take long enough.
            n = min(max(int(self._rate * _SECONDS), 1 + done), n_steps - done)
            started = time.perf_counter()
            logs = self._run(iterator, self._tensors, n)
            logs = {name: _plain(value) for name, value in logs.items()}
            self._rate = n / (time.perf_counter() - started)
            done += n
            yield done - 1, logs


class _Table(NamedTuple):
    """Parts of data with a value for each member of the same bags, as few tensors.

    Attributes:
        parts: the indices of the parts, grouped by dtype.
        is_ragged: whether the values are in bags; else there is one for each top-bag.
    """

    parts: tuple[tuple[int, ...], ...]
    is_ragged: bool

    def tensors(self, data: list[Any]) -> list[Any]:
        """The bags of the numbers of rows, if there are bags, and a matrix for each dtype.

        A single part stays as it is.
        """
        first = data[self.parts[0][0]]
        if self._is_single:
            return [tf.identity(first)]
        flat = [getattr(part, "flat_values", part) for part in data]
        matrices = [tf.stack([flat[i] for i in group], axis=1) for group in self.parts]
        if not self.is_ragged:
            return matrices
        return [first.with_flat_values(tf.range(tf.shape(matrices[0])[0])), *matrices]

    def cut(self, tensors: list[Any], rows: tf.Tensor) -> list[Any]:
        """The same tensors for some top-bags."""
        if self._is_single or not self.is_ragged:
            return [tf.gather(x, rows) for x in tensors]
        bags = tf.gather(tensors[0], rows)
        return [bags, *(tf.gather(x, bags.flat_values) for x in tensors[1:])]

    def columns(self, tensors: list[Any]) -> dict[int, Any]:
        """The parts by their indices, of tensors."""
        if self._is_single:
            return {self.parts[0][0]: tensors[0]}
        matrices = tensors[1:] if self.is_ragged else tensors
        return {
            i: tensors[0].with_flat_values(column) if self.is_ragged else column
            for group, matrix in zip(self.parts, matrices, strict=True)
            for i, column in zip(group, tf.unstack(matrix, axis=1), strict=True)
        }

    @property
    def _is_single(self) -> bool:
        return sum(map(len, self.parts)) == 1


def _tables(data: Any) -> list[_Table]:
    """All parts of data, those together that are nested alike."""
    found: dict[Any, dict[Any, list[int]]] = {}
    digests: dict[int, str] = {}  # of row splits, which parts may share
    for i, part in enumerate(_parts(data)):
        is_ragged = isinstance(part, tf.RaggedTensor)
        nesting: Any = i
        if is_ragged and part.flat_values.shape.rank == 1:
            splits = part.nested_row_splits
            digests |= {id(x): digest_of(x) for x in splits if id(x) not in digests}
            nesting = tuple(digests[id(x)] for x in splits)
        elif not is_ragged and part.shape.rank == 1:
            nesting = ()
        found.setdefault((is_ragged, nesting), {}).setdefault(part.dtype, []).append(i)
    return [
        _Table(tuple(map(tuple, by_dtype.values())), is_ragged)
        for (is_ragged, _), by_dtype in found.items()
    ]


def _function(
    model: keras.Model, kind: str, data: Any, tables: list[_Table], tensors: list[list[Any]]
) -> Callable[..., dict[str, Any]]:
    """The function that runs steps, traced once a model for all data of the same types."""
    compiled = (model.optimizer, model._compile_loss, model._compile_metrics)
    known, cache = model._graph_functions
    if any(one is not other for one, other in zip(compiled, known, strict=True)):
        cache.clear()
        known[:] = compiled
    specs = tf.nest.map_structure(_spec, tensors)
    structure = tf.nest.map_structure(lambda part: part is not None, data)
    key = repr((kind, structure, tables, specs))
    if key not in cache:

        def trace(any_model: keras.Model) -> Callable[..., dict[str, Any]]:
            return _traced(_step(any_model, kind, structure, tables), tables, specs)

        cache[key] = traces.shared(model, key, trace, lambda twin: make_variables(twin, data))
    return cache[key]


def _step(
    model: keras.Model, kind: str, structure: Any, tables: list[_Table]
) -> Callable[[Any], dict[str, Any]]:
    """The function of tables that trains or tests the model."""

    def step(tensors: list[list[Any]]) -> dict[str, Any]:
        columns: dict[int, Any] = {}
        for table, some in zip(tables, tensors, strict=True):
            columns |= table.columns(some)
        parts = iter(columns[i] for i in range(len(columns)))
        batch = tf.nest.map_structure(lambda is_there: next(parts) if is_there else None, structure)
        with short_adam(model.optimizer):
            logs: dict[str, Any] = getattr(model, f"{kind}_step")(batch)
            return logs

    return step


def _traced(
    step: Callable[[Any], dict[str, Any]], tables: list[_Table], specs: list[list[Any]]
) -> Callable[..., dict[str, Any]]:
    """The function that takes steps on batches, which it cuts from the tensors of tables."""
    function: Any = tf.function(step, autograph=False)
    rows = tf.data.IteratorSpec(tf.TensorSpec([None], tf.int64))  # also of batches of one size
    signature = [rows, specs, tf.TensorSpec([], tf.int32)]

    @tf.function(input_signature=signature, autograph=False)
    def run(iterator: Any, tensors: list[list[Any]], n: tf.Tensor) -> dict[str, Any]:
        concrete = function.get_concrete_function(specs)

        def body(i: tf.Tensor, _: Any) -> tuple[tf.Tensor, Any]:
            with tf.device("CPU:0"):
                rows = iterator.get_next()
                pairs = zip(tables, tensors, strict=True)
                some = [table.cut(of_table, rows) for table, of_table in pairs]
            return i + 1, function(some)

        nothing = tf.nest.map_structure(
            lambda spec: tf.zeros(spec.shape, spec.dtype), concrete.structured_outputs
        )
        _, logs = tf.while_loop(
            lambda i, _: i < n, body, [tf.constant(0), nothing], parallel_iterations=1
        )
        return logs

    return run


def make_variables(model: keras.Model, data: Any) -> None:
    """Make the variables of optimizer, loss and metrics that are not there, by the first top-bag.

    Keras would make them in the first step, and TensorFlow would trace that twice.
    """
    parts = (model._compile_metrics, model._compile_loss, model.optimizer)
    if all(part is None or part.built for part in parts):
        return
    first = tf.nest.map_structure(_first, data)
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(first)
    with keras.StatelessScope():  # makes variables, but assigns nothing to them
        y_pred = model(x, training=False)
        model.compute_metrics(x, y, y_pred, sample_weight)
        if model._compile_loss is not None:
            model._compile_loss(y, y_pred, sample_weight)
    if model.optimizer is not None and not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)


def _parts(data: Any) -> list[Any]:
    """The tensors of data, without what is None."""
    return [part for part in tf.nest.flatten(data) if part is not None]


def _first(part: Any) -> Any:
    return part if part is None else part[:1]


def _spec(part: Any) -> Any:
    """The type of a tensor with any number of rows."""
    if isinstance(part, tf.RaggedTensor):
        shape = [None, *part.shape[1:]]
        return tf.RaggedTensorSpec(shape, part.dtype, part.ragged_rank, part.row_splits.dtype)
    return tf.TensorSpec([None, *part.shape[1:]], part.dtype)


def _plain(value: Any) -> Any:
    """A number, of a tensor that holds one; nested logs stay as they are."""
    return value.numpy().item() if getattr(value, "shape", None) == () else value

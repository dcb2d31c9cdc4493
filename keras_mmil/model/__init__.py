"""A functional Keras model for nested bags."""

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import keras
import tensorflow as tf

from keras_mmil import ragged
from keras_mmil._support.checks import check_labels, check_weights
from keras_mmil._support.keras_internals import all_layers, operation_of
from keras_mmil._support.types import PathLike
from keras_mmil.bags import is_data
from keras_mmil.model import loop, replicas, serving
from keras_mmil.model.checks import InputChecks, check_normalisation, complete_inputs
from keras_mmil.model.run import batches_to_predict, predict_batches

__all__ = ["Model"]


@keras.saving.register_keras_serializable("keras_mmil")
class Model(keras.Model):
    """A functional `keras.Model` that reads nested bags, plain or compressed.

    Build it like `keras.Model(inputs, outputs)`, from ragged `keras.Input`s: a single one, or the
    dict of `layers.bag_inputs`. A model on the latter takes a bare RaggedTensor of ids
    [batch, (n₁), …, (n_K)], a `Bags`, or the dict `Bags.inputs` with any of its optional entries.

    `fit`, `evaluate`, `predict` and the like first check data in memory: nesting depth, sizes of
    bags that must agree, ids out of range, the numbers of labels and weights, NaN and infinity.
    Datasets and generators are not checked. Labels may be lists of numbers.

    Training in a `tf.distribute.MirroredStrategy` or `MultiWorkerMirroredStrategy` yields the same
    weights as without, even if the replicas have different numbers of top-bags in a batch. All
    workers need the same data in memory; each takes its part of each batch.

    Args:
        inputs: a `keras.Input`, or a list or dict of them.
        outputs: a `KerasTensor`, or a list or dict of them.
        name: of the model.

    Raises:
        TypeError: without inputs and outputs, as in a subclass with its own `call`: in a file,
            Keras would lose the weights of its bag-layers. Write a function that builds the model,
            or a `keras.Layer` that is called on a `keras.Input`.
        ValueError: for a `BatchNormalization` between `Distinct` and a bag-layer.

    Example:

    >>> bags = keras.Input((None, None, 4), ragged=True)
    >>> x = keras_mmil.layers.BagLayer(8)(bags)
    >>> x = keras_mmil.layers.BagLayer(8)(x)
    >>> model = keras_mmil.Model(bags, keras.layers.Dense(1, activation="sigmoid")(x))
    """

    def __init__(
        self, inputs: Any = None, outputs: Any = None, name: str | None = None, **kwargs: Any
    ) -> None:
        if inputs is None or outputs is None:
            raise TypeError(
                "Expected the inputs and outputs of a functional model. For a model with a `call` "
                "of its own, Keras loses the weights of bag-layers in a file: write a function "
                "that builds the model, or a keras.Layer that is called on a keras.Input. "
                f"Received: {type(self).__name__} with inputs={inputs!r}, outputs={outputs!r}"
            )
        with warnings.catch_warnings():
            # Keras wants a dict's keys for the names of the inputs, but allows no slash in names.
            warnings.filterwarnings("ignore", "When providing `inputs` as a dict.*key '[^']*/")
            super().__init__(inputs, outputs, name=name, **kwargs)
        check_normalisation(self)

    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the model on a RaggedTensor, `Bags`, or the dict of its inputs."""
        inputs = complete_inputs(inputs, self.input)
        if replicas.n_replicas() > 1:
            inputs = replicas.with_inner_axes(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def fit(
        self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any
    ) -> keras.callbacks.History:
        """`keras.Model.fit`, which also takes `Bags`, and checks the data first."""
        arguments = self._checked(super().fit, x, y, *args, **kwargs)
        validation_data = arguments.get("validation_data")
        if is_data(validation_data):
            if isinstance(validation_data, list):
                validation_data = tuple(validation_data)
            x_valid, y_valid, weights = keras.utils.unpack_x_y_sample_weight(validation_data)
            arguments["validation_data"] = self._checked_data(
                x_valid, y_valid, weights, "validation_data"
            )
        if loop.is_possible(self, arguments):
            return loop.fit(self, **arguments)
        if self._has_replicas:
            arguments = replicas.for_fit(self, arguments)
        steps = arguments.get("steps_per_epoch"), arguments.get("validation_steps")
        with replicas.all_workers(self.distribute_strategy), _streams_may_end(*steps):
            return super().fit(**arguments)

    def evaluate(self, x: Any = None, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """`keras.Model.evaluate`, which also takes `Bags`, and checks the data first."""
        if "_use_cached_eval_dataset" in kwargs:  # as `fit` calls it, which has checked the data
            return super().evaluate(x, y, *args, **kwargs)
        arguments = self._checked(super().evaluate, x, y, *args, **kwargs)
        if is_data(arguments.get("x")) and loop.is_possible(self, arguments):
            return loop.evaluate(self, **arguments)
        if self._has_replicas and is_data(arguments.get("x")):
            arguments = replicas.for_evaluate(self, arguments)
        with _streams_may_end(arguments.get("steps")):
            return super().evaluate(**arguments)

    def predict(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        """`keras.Model.predict`, which also takes `Bags`, and checks the data first.

        For data in memory or in a `tf.data.Dataset`, only the outputs are held in memory.
        """
        arguments = inspect.signature(super().predict).bind(x, *args, **kwargs).arguments
        arguments["x"] = self._checked_inputs(x)
        if self._has_replicas:
            return super().predict(**replicas.for_predict(self, arguments))
        if isinstance(x, tf.data.Dataset) or is_data(x):
            return predict_batches(self, **batches_to_predict(**arguments))
        return super().predict(**arguments)

    def train_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """`keras.Model.train_on_batch`, which also takes `Bags`, and checks the data first."""
        return super().train_on_batch(
            **self._checked(super().train_on_batch, x, y, *args, **kwargs)
        )

    def test_on_batch(self, x: Any, y: Any = None, *args: Any, **kwargs: Any) -> Any:
        """`keras.Model.test_on_batch`, which also takes `Bags`, and checks the data first."""
        return super().test_on_batch(**self._checked(super().test_on_batch, x, y, *args, **kwargs))

    def predict_on_batch(self, x: Any) -> Any:
        """`keras.Model.predict_on_batch`, which also takes `Bags`, and checks the data first."""
        return super().predict_on_batch(self._checked_inputs(x))

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> tf.Tensor | None:
        """`keras.Model.compute_loss`, with replicas weighted by their examples in training."""
        loss = super().compute_loss(x, y, y_pred, sample_weight, training)
        if training and replicas.n_replicas() > 1:
            replicas.check_averaged(self.loss)
            first = keras.tree.flatten(y_pred)[0]
            replicas.assert_not_empty(all_layers(self), first)
            loss = replicas.weigh_gradient(loss, first)
        return loss

    def export(
        self,
        filepath: PathLike,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        **kwargs: Any,
    ) -> None:
        """Write a SavedModel that TensorFlow loads and serves without this package.

        The result of `tf.saved_model.load` has these functions:

        - `serve` takes the inputs of the model: a RaggedTensor, or a dict or list without the
          optional ones. For a model on `bag_inputs` it takes `bags` alone.
        - `serve_flat`, the signature "serving_default", takes and returns dicts of dense tensors,
          as TensorFlow Serving needs: a ragged input `bags` of depth 2 is `bags_values`,
          `bags_row_splits_0` and `bags_row_splits_1`, int64, from the top-bags inwards; ragged
          outputs likewise. Row splits that do not fit raise an error.
        - `serve_compressed` and `serve_compressed_flat` of a model with optional inputs take all of
          them.

        A model without ragged inputs and outputs is written as by Keras.

        Args:
            filepath: folder to write to.
            format: "tf_saved_model"; Keras's other formats have no ragged tensors and no strings.
            verbose: whether to print what was written.
            kwargs: as in Keras, for a model without ragged tensors.

        Raises:
            ValueError: for another format, or further arguments, if the model has ragged tensors or
                strings; or if two inputs or two outputs would have the same name.
        """
        if format != "tf_saved_model":
            serving.check_dense(self, format)
        if not any(x.ragged for x in (*self.inputs, *self.outputs)):
            super().export(filepath, format=format, verbose=verbose, **kwargs)
            return
        if kwargs:
            raise ValueError(
                "Expected no further arguments, for a model with ragged inputs or outputs. "
                f"Received: {kwargs}"
            )
        serving.write_saved_model(self, filepath, verbose=True if verbose is None else verbose)

    @property
    def _has_replicas(self) -> bool:
        return self.distribute_strategy.num_replicas_in_sync > 1

    @functools.cached_property
    def _input_checks(self) -> InputChecks:
        return InputChecks(self)

    @functools.cached_property
    def _graph_functions(self) -> tuple[list[Any], dict[Any, Callable[..., Any]]]:
        """What the model was compiled with, and the functions of `loop` that were traced since."""
        return [None] * 3, {}

    def _checked_inputs(self, x: Any, name: str = "x") -> Any:
        """Inputs in the model's structure; only Keras can look into a Dataset or generator."""
        if not is_data(x):
            return x
        return self._input_checks(x, name)

    def _checked(self, method: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """The arguments of a method by name, with `x`, `y` and `sample_weight` checked."""
        arguments = inspect.signature(method).bind(*args, **kwargs).arguments
        arguments |= arguments.pop("kwargs", {})
        given = {name: arguments.get(name) for name in ("x", "y", "sample_weight")}
        checked = zip(given, self._checked_data(*given.values()), strict=False)
        return arguments | {name: part for name, part in checked if given[name] is not None}

    def _checked_data(
        self, x: Any, y: Any, weights: Any, name: str | None = None
    ) -> tuple[Any, ...]:
        """A tuple of x, y and, if any, weights, as Keras takes data."""
        names = ["x", "y", "sample_weight"] if name is None else [f"{name}[{i}]" for i in range(3)]
        if is_data(x):
            x = self._checked_inputs(x, names[0])
            if y is None and self.loss is not None:
                raise ValueError(
                    f"Expected labels, for the compiled loss. Received: {names[1]}=None"
                )
            n, n_outputs = ragged.n_top_bags(x), len(self.outputs)
            y = check_labels(y, n, n_outputs, names[1])
            weights = check_weights(weights, n, n_outputs, names[2])
        return (x, y) if weights is None else (x, y, weights)

    # What Keras does wrong with ragged tensors.

    def _run_through_graph(
        self,
        inputs: Any,
        operation_fn: Callable[[Any], Any] = lambda operation: operation,
        call_fn: Callable[..., Any] | None = None,
    ) -> Any:
        """Compute the outputs; for `clone_model`, which makes dense inputs, of ragged ones."""
        if operation_fn.__module__ == keras.models.clone_model.__module__:
            _mark_cloned_inputs(inputs, self.inputs)
        return super()._run_through_graph(inputs, operation_fn=operation_fn, call_fn=call_fn)

    @property
    def _default_save_signature(self) -> serving.Endpoint:
        """The function TensorFlow saves with the model; Keras's has a dense signature."""
        return serving.endpoints(self)["serve"]

    def _maybe_symbolic_build(
        self, iterator: Iterator[Any] | None = None, data_batch: Any = None
    ) -> None:
        """Make variables of metrics and optimizer for the replicas; Keras's fails on ragged x."""
        parts = (self._compile_metrics, self._compile_loss, self.optimizer)
        if self._distribute_strategy is None or all(p is None or p.built for p in parts):
            return
        if iterator is not None:
            data_batch = replicas.first_batch(iterator, self._distribute_strategy)
        with self._distribute_strategy.scope():
            loop.make_variables(self, data_batch)

    def _make_function(self, step_function: replicas.Step) -> Callable[[Iterator[Any]], Any]:
        """The function of an iterator that trains or evaluates, on several workers, too."""
        if not replicas.has_workers(self.distribute_strategy):
            return super()._make_function(step_function)
        return replicas.with_rows_of_logs(super()._make_function, step_function)


def loss_tracker(model: keras.Model) -> keras.metrics.Mean:
    """The metric by which a compiled model averages its loss over an epoch."""
    return model._loss_tracker


def _mark_cloned_inputs(inputs: Any, originals: list[keras.KerasTensor]) -> None:
    """Make new symbolic inputs ragged and optional like the originals, as `clone_model` does not.

    Inputs of another name than the original were chosen by the caller, and stay as they are.
    """
    for new, old in zip(keras.tree.flatten(inputs), originals, strict=True):
        if new.name == old.name:
            layer, original = operation_of(new), operation_of(old)
            new._ragged = layer.ragged = old.ragged
            layer.optional = original.optional


def output_dtype() -> str:
    """Dtype of the layer of the outputs, at least float32, also with half precision elsewhere.

    In half precision a probability of 0.998 would be 1, where the loss has no gradient.
    """
    return keras.backend.result_type(keras.config.dtype_policy().variable_dtype, "float32")


@contextlib.contextmanager
def _streams_may_end(*steps: int | None) -> Iterator[None]:
    """Without Keras's warning where a Dataset of unknown length ends, unless steps were given.

    That it "ran out of data" is how each such epoch ends; the warning is of use only to those who
    asked for more steps.
    """
    with warnings.catch_warnings():
        if not any(steps):
            warnings.filterwarnings("ignore", "Your input ran out of data")
        yield

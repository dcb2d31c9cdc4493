"""What Keras calls in a model, or keeps there, that is no part of its public interface."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import keras

from keras_mmil.functional.graph import operation_of
from keras_mmil.functional.replicas import first_batch
from keras_mmil.functional.serving import Endpoint, endpoints
from keras_mmil.functional.workers import Step, has_workers, with_rows_of_logs

__all__ = ["KerasHooks", "is_called_by_fit", "loss_tracker"]


class KerasHooks(keras.Model):
    """A `keras.Model` without what Keras does wrong with ragged tensors."""

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
    def _default_save_signature(self) -> Endpoint:
        """The function TensorFlow saves with the model; Keras's has a dense signature."""
        return endpoints(self)["serve"]

    def _maybe_symbolic_build(
        self, iterator: Iterator[Any] | None = None, data_batch: Any = None
    ) -> None:
        """Make variables of metrics and optimizer for the replicas; Keras's fails on ragged x."""
        parts = (self._compile_metrics, self._compile_loss, self.optimizer)
        if self._distribute_strategy is None or all(p is None or p.built for p in parts):
            return
        if iterator is not None:
            data_batch = first_batch(iterator, self._distribute_strategy)
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data_batch)
        with self._distribute_strategy.scope():
            with keras.StatelessScope():  # makes variables, but assigns nothing to them
                y_pred = self(x, training=False)
                self.compute_metrics(x, y, y_pred, sample_weight)
                if self._compile_loss is not None:
                    self._compile_loss(y, y_pred, sample_weight)
            if self.optimizer is not None and not self.optimizer.built:
                self.optimizer.build(self.trainable_variables)

    def _make_function(self, step_function: Step) -> Callable[[Iterator[Any]], Any]:
        """The function of an iterator that trains or evaluates, on several workers, too."""
        if not has_workers(self.distribute_strategy):
            return super()._make_function(step_function)
        return with_rows_of_logs(super()._make_function, step_function)


def is_called_by_fit(arguments: Mapping[str, Any]) -> bool:
    """Whether the named arguments of `Model.evaluate` are those by which `Model.fit` calls it."""
    return "_use_cached_eval_dataset" in arguments


def loss_tracker(model: keras.Model) -> keras.metrics.Mean:
    """The metric by which a compiled model averages its loss over an epoch."""
    return model._loss_tracker


def _mark_cloned_inputs(inputs: Any, originals: list[keras.KerasTensor]) -> None:
    """Make inputs ragged and optional as the originals are, which `clone_model` of Keras forgets.

    Args:
        inputs: symbolic inputs, new and not used yet. Of another name than the original, somebody
            chose them, and they stay as they are.
        originals: the inputs of the model that is cloned.
    """
    for new, old in zip(keras.tree.flatten(inputs), originals, strict=True):
        if new.name == old.name:
            layer, original = operation_of(new), operation_of(old)
            new._ragged = layer.ragged = old.ragged
            layer.optional = original.optional

"""Virtual adversarial training."""

from collections.abc import Callable
from typing import Any, TypeAlias

import keras
import tensorflow as tf

from keras_mmil._support.checks import positive_int
from keras_mmil._support.keras_internals import operation_of, seed_generators
from keras_mmil._support.types import PathLike
from keras_mmil.model import Model, loss_tracker
from keras_mmil.model.checks import complete_inputs
from keras_mmil.model.replicas import n_replicas
from keras_mmil.model.run import Cut, moved, rows_of

__all__ = ["VirtualAdversarialModel"]

_Divergence: TypeAlias = Callable[[tf.Tensor, tf.Tensor], tf.Tensor]

_TINY = 1e-12


class VirtualAdversarialModel(Model):
    """Train a model to keep its predictions when the output of a layer is perturbed.

    The loss on labelled examples plus the divergence KL(p(y | h) ‖ p(y | h + r)) on all examples is
    minimised. h is the output of a layer, such as an embedding, and r = ε g / |g| the perturbation
    that changes the prediction most, to first order: g = ∂/∂d KL(p(y | h) ‖ p(y | h + d)) at
    d = ξ u, with u random and normalised. Each instance of h (a row: a word, a node) has its own r,
    of norm ε. Examples with negative labels are unlabelled: only the divergence counts them.

    This wrapper shares layers, weights and optimizer with the model that it trains, and saves that
    model.

    Args:
        model: a compiled functional model, with one output of sigmoid units or a softmax.
        layer: name of the layer whose output is perturbed.
        epsilon: ε, the norm of the perturbation of an instance, in units of the layer's output.
        xi: ξ, the norm of the step to find the direction.
        iterations: of the power method that improves the direction.
        weight: of the divergence in the loss.
        seed: of the random directions.
        name: of the wrapper.

    Raises:
        ValueError: if the model is not compiled, its output is not one of probabilities, or it has
            no such layer.

    Example:

    >>> model = zoo.imdb_mmil(vectors)
    >>> vat = keras_mmil.training.VirtualAdversarialModel(model, layer="word_vectors")
    >>> vat.fit(x, y)  # y = -1: unlabelled
    >>> vat.save("model.keras")  # the plain model

    Reference:
        Miyato, Dai and Goodfellow, Adversarial Training Methods for Semi-Supervised Text
        Classification, 2017.
    """

    def __init__(
        self,
        model: keras.Model,
        layer: str,
        epsilon: float = 2.2,
        xi: float = 0.1,
        iterations: int = 1,
        weight: float = 1.0,
        seed: int | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(model.input, model.output, name=name or f"adversarial_{model.name}")
        iterations = positive_int("iterations", iterations)
        for argument, value in {"epsilon": epsilon, "xi": xi}.items():
            if not value > 0:
                raise ValueError(f"Expected a positive number. Received: {argument}={value!r}")
        if not model.compiled:
            raise ValueError(f"Expected a compiled model. Received: model={model.name!r}")
        self.epsilon, self.xi, self.iterations, self.weight = epsilon, xi, iterations, weight
        self._divergence = _divergence_of(model)
        self._cut = Cut(model, layer)
        # Hidden from Keras, which would track its variables twice.
        self._plain: Callable[[], keras.Model] = lambda: model
        # Of dropout and the like, so that all passes of a step use the same random numbers.
        self._random_states = [generator.state for generator in seed_generators(model)]
        self._directions = keras.random.SeedGenerator(seed)
        self._supervised_mean = keras.metrics.Mean(name="supervised_loss")
        self._adversarial_mean = keras.metrics.Mean(name="adversarial_loss")
        self.compile_from_config(model.get_compile_config())
        self.optimizer = model.optimizer

    def train_step(self, data: Any) -> dict[str, tf.Tensor]:
        """One step on a batch; some of its examples may be unlabelled."""
        if n_replicas() > 1:
            raise ValueError(
                "Expected training without a strategy of several replicas. "
                f"Received: {n_replicas()} replicas"
            )
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if y is None:
            raise ValueError("Expected labels, negative for unlabelled examples. Received: y=None")
        inputs = complete_inputs(x, self.input)
        states = [tf.identity(state) for state in self._random_states]
        n = tf.shape(y)[0]
        labelled = tf.reduce_all(tf.reshape(y, [n, -1]) >= 0, axis=1)
        with tf.GradientTape() as tape:
            h, values = self._cut.below(inputs, training=True)

            def predict(perturbation: tf.Tensor | None = None) -> tf.Tensor:
                for state, before in zip(self._random_states, states, strict=True):
                    state.assign(before)
                perturbed = h if perturbation is None else moved(h, perturbation)
                return self._cut.above(perturbed, values, training=True)

            y_pred = predict()
            supervised = self._supervised_loss(
                x, y, y_pred, sample_weight=sample_weight, labelled=labelled
            )
            adversarial = tf.cast(self._adversarial_loss(predict, h, y_pred), supervised.dtype)
            loss = supervised + self.weight * adversarial
            scaled = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled, self.trainable_variables)
        self.optimizer.apply(gradients, self.trainable_variables)
        loss_tracker(self).update_state(loss, sample_weight=n)
        n_labelled = tf.math.count_nonzero(labelled)
        self._supervised_mean.update_state(supervised, sample_weight=n_labelled)
        self._adversarial_mean.update_state(adversarial, sample_weight=n)
        known = [
            None if part is None else tf.boolean_mask(part, labelled)
            for part in (y, y_pred, sample_weight)
        ]
        return self.compute_metrics(x, *known)

    def test_step(self, data: Any) -> dict[str, tf.Tensor]:
        """As in Keras: the supervised loss and the metrics."""
        logs = super().test_step(data)
        terms = (self._supervised_mean.name, self._adversarial_mean.name)
        return {name: value for name, value in logs.items() if name not in terms}

    def save(self, filepath: PathLike, **kwargs: Any) -> None:
        """Save the plain model, with the state of the optimizer."""
        model = self._plain()
        model.compile_from_config(self.get_compile_config())
        model.optimizer = self.optimizer
        model.save(filepath, **kwargs)

    def _supervised_loss(
        self,
        x: Any,
        y: tf.Tensor,
        y_pred: tf.Tensor,
        *,
        sample_weight: tf.Tensor | None,
        labelled: tf.Tensor,
    ) -> tf.Tensor:
        """The compiled loss, averaged over the labelled examples; 0 without any."""
        weights = tf.cast(labelled, y_pred.dtype)
        weights *= tf.cast(tf.size(labelled), weights.dtype) / tf.maximum(tf.reduce_sum(weights), 1)
        if sample_weight is not None:
            weights *= tf.cast(sample_weight, weights.dtype)
        # A negative label would be an error to some losses, however small its weight.
        return self.compute_loss(x, tf.maximum(y, tf.zeros_like(y)), y_pred, weights)

    def _adversarial_loss(
        self, predict: Callable[[tf.Tensor], tf.Tensor], h: tf.Tensor, y_pred: tf.Tensor
    ) -> tf.Tensor:
        """KL between the predictions and those at the worst perturbation, averaged."""
        target = tf.stop_gradient(y_pred)
        flat = rows_of(h)
        dtype = _at_least_float32(flat)
        direction = _normalized(
            keras.random.normal(tf.shape(flat), dtype=dtype, seed=self._directions)
        )
        for _ in range(self.iterations):
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(direction)
                divergence = tf.reduce_sum(self._divergence(target, predict(self.xi * direction)))
            direction = _normalized(tf.stop_gradient(tape.gradient(divergence, direction)))
        return tf.reduce_mean(self._divergence(target, predict(self.epsilon * direction)))


def _at_least_float32(x: tf.Tensor) -> str:
    return keras.backend.result_type(x.dtype, "float32")


def _normalized(x: tf.Tensor) -> tf.Tensor:
    """x with each row, of any rank, scaled to norm 1; rows of zeros stay."""
    axes = list(range(1, x.shape.rank))
    largest = tf.reduce_max(tf.abs(x), axis=axes, keepdims=True)
    x = x / (largest + _TINY)  # squares of what is left are representable
    return x / tf.sqrt(tf.reduce_sum(tf.square(x), axis=axes, keepdims=True) + _TINY)


def _divergence_of(model: keras.Model) -> _Divergence:
    """The function (p, q) → KL(p ‖ q) of a model's outputs, ValueError if not probabilities."""
    outputs = keras.tree.flatten(model.output)
    activation = getattr(operation_of(outputs[0]), "activation", None)
    if len(outputs) == 1 and activation is keras.activations.sigmoid:
        return _bernoulli
    if len(outputs) == 1 and activation is keras.activations.softmax:
        return _categorical
    raise ValueError(
        "Expected one output of sigmoid units or of a softmax. "
        f"Received: {len(outputs)} outputs, the first with activation={activation!r}"
    )


def _bernoulli(p: tf.Tensor, q: tf.Tensor) -> tf.Tensor:
    return _categorical(p, q) + _categorical(1 - p, 1 - q)


def _categorical(p: tf.Tensor, q: tf.Tensor) -> tf.Tensor:
    p, q = (tf.cast(x, _at_least_float32(x)) for x in (p, q))
    p, q = (tf.clip_by_value(x, keras.config.epsilon(), 1.0) for x in (p, q))
    return tf.reduce_sum(p * (tf.math.log(p) - tf.math.log(q)), axis=-1)

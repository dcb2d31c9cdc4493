"""Which class of top-bags the rules are about: from a network's outputs to class labels."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import keras
import numpy as np
import numpy.typing as npt

from keras_mmil._support.checks import is_int
from keras_mmil._support.keras_internals import operation_of
from keras_mmil._support.types import Array, Config, Ints

__all__ = ["Outputs", "Target", "TargetChoice", "TargetFunction", "activation", "resolve_target"]

# What a network returns for some top-bags: one array [top-bags, ...], or several.
Outputs: TypeAlias = Array | Sequence[Array] | Mapping[str, Array]
# From the outputs of some top-bags to their int labels [top-bags].
TargetFunction: TypeAlias = Callable[[Any], npt.ArrayLike]
# How users choose the classes of top-bags, see `Explainer`.
TargetChoice: TypeAlias = int | tuple[int, float] | TargetFunction | None


@dataclass(frozen=True)
class Target:
    """How outputs become labels.

    Attributes:
        kind: "argmax", the largest output; "is_argmax", whether that is `index`; "threshold",
            whether output `index` is above `threshold`; "function".
        n_outputs: number of outputs; None for a function.
        index: an output.
        threshold: a value of that output.
        function: maps the outputs of some top-bags to their int labels [top-bags].
    """

    kind: str
    n_outputs: int | None = None
    index: int | None = None
    threshold: float | None = None
    function: TargetFunction | None = None

    def labels(self, outputs: Outputs) -> Ints:
        """The class of each top-bag by the network: outputs [top-bags, n] to int32 [top-bags]."""
        if self.function is not None:
            labels = np.asarray(self.function(outputs))
            n_top_bags = len(keras.tree.flatten(outputs)[0])
            if labels.shape != (n_top_bags,) or labels.dtype.kind not in "iub" or labels.min() < 0:
                raise ValueError(
                    f"Expected target to return {n_top_bags} integer labels ≥ 0. "
                    f"Received: shape={labels.shape}, dtype={labels.dtype}, labels={labels}"
                )
            return labels.astype(np.int32)
        (array,) = keras.tree.flatten(outputs)
        array = array.reshape(len(array), -1)
        if self.kind == "threshold":
            return (array[:, self.index] > self.threshold).astype(np.int32)
        labels = array.argmax(axis=1)
        return (labels if self.kind == "argmax" else labels == self.index).astype(np.int32)

    def n_classes(self, *labels: Ints) -> int:
        """Number of classes; for a function, of those that `labels`, its results, show."""
        if self.kind == "function":
            return max(2, *(int(each.max()) + 1 for each in labels))
        return 2 if self.kind != "argmax" or self.n_outputs is None else self.n_outputs

    def true_labels(self, y: npt.ArrayLike, n_top_bags: int, n_classes: int) -> Ints:
        """True labels, [top-bags] or [top-bags, 1], one-hot or one column per output, as classes.

        Returns:
            int32 [top-bags].

        Raises:
            ValueError: if they do not fit the numbers of top-bags and classes.
        """
        labels = np.asarray(y)
        if labels.ndim and len(labels) != n_top_bags:
            raise ValueError(
                f"Expected one label for each of {n_top_bags} top-bags. "
                f"Received: y with {len(labels)} labels"
            )
        if labels.ndim == 2 and labels.shape[1] == 1:
            labels = labels[:, 0]
        n_columns = n_classes
        if self.kind == "is_argmax" and self.n_outputs is not None:
            n_columns = self.n_outputs
        if labels.ndim == 2 and self.kind == "threshold" and labels.shape[1] == self.n_outputs:
            labels = labels[:, self.index]
        elif labels.ndim == 2 and labels.shape[1] == n_columns:
            labels = labels.argmax(axis=1)
        is_number = labels.dtype.kind in "iubf"
        if labels.ndim != 1 or not is_number or (labels != np.floor(labels)).any():
            raise ValueError(
                "Expected one class label for each top-bag, or one-hot rows. "
                f"Received: y of shape {labels.shape} and dtype {labels.dtype}"
            )
        if self.kind == "is_argmax":
            # Booleans are likely to say already whether it is that class.
            if labels.dtype == bool and n_columns > 2:
                raise ValueError(
                    f"Expected labels from 0 to {n_columns - 1}, of which class {self.index} is "
                    "the target. Received: booleans"
                )
            _check_range(labels, n_columns)
            labels = labels == self.index
        _check_range(labels, n_classes)
        return labels.astype(np.int32)

    def to_dict(self) -> Config:
        """As JSON. A function is not saved."""
        return {name: value for name, value in vars(self).items() if name != "function"}


def resolve_target(model: keras.Model, target: TargetChoice = None) -> Target:
    """The `Target` of a model.

    Args:
        model: a functional Keras model.
        target: see `Explainer`.

    Raises:
        ValueError: if `target` is None and the outputs are those of a regression, of several
            labels, or several tensors; or if it does not fit the outputs.
    """
    if callable(target):
        return Target("function", function=target)
    if len(model.outputs) != 1:
        raise ValueError(
            "Expected a target, a function, for a model of several outputs. "
            f"Received: target={target!r}, {len(model.outputs)} outputs"
        )
    shape = model.outputs[0].shape
    units = 1 if len(shape) == 1 else shape[-1]
    link = _link(model)
    if len(shape) > 2:
        raise ValueError(f"Expected one vector of outputs a top-bag. Received: shape {shape}")
    if target is None:
        if units == 1 and link in _THRESHOLDS:
            return Target("threshold", 1, 0, _THRESHOLDS[link])
        if units > 1 and link == "softmax":
            return Target("argmax", units)
        raise ValueError(
            "Expected a target: the index of an output, (index, threshold), or a function, where "
            "the outputs are not those of one sigmoid unit or a softmax. "
            f"Received: target=None, {units} outputs, {link or 'no'} activation known"
        )
    if isinstance(target, tuple) and len(target) == 2 and isinstance(target[1], Real):
        index, threshold = target
        return Target("threshold", units, _checked_index(index, units), float(threshold))
    index = _checked_index(target, units)
    if link == "softmax":
        return Target("is_argmax", units, index)
    if link in _THRESHOLDS:
        return Target("threshold", units, index, _THRESHOLDS[link])
    raise ValueError(
        "Expected target=(index, threshold) for outputs that are not probabilities or logits. "
        f"Received: target={target!r}"
    )


def _check_range(labels: Array, n_classes: int) -> None:
    if len(labels) and not 0 <= labels.min() <= labels.max() < n_classes:
        raise ValueError(
            f"Expected class labels from 0 to {n_classes - 1}. "
            f"Received: y from {labels.min()} to {labels.max()}"
        )


# What is the boundary between no and yes, for outputs of each kind.
_THRESHOLDS = {"sigmoid": 0.5, "hard_sigmoid": 0.5, "logit": 0.0}
_BINARY_LOSSES = (keras.losses.BinaryCrossentropy, keras.losses.BinaryFocalCrossentropy)


def activation(model: keras.Model) -> str | None:
    """Name of the activation that a model's outputs come from; None if there is none."""
    layer = operation_of(model.outputs[0])
    if isinstance(layer, keras.layers.Softmax):
        return "softmax"
    if not hasattr(layer, "activation"):
        return type(layer).__name__.lower()  # an operation such as keras.ops.sigmoid
    name = getattr(layer.activation, "__name__", None)
    return None if name == "linear" else name


def _link(model: keras.Model) -> str | None:
    """What the outputs are: "sigmoid", "softmax", "logit" (binary), or another activation.

    Logits of a softmax, as the loss says, count as one.
    """
    if (name := activation(model)) is not None:
        return name
    loss = getattr(model, "loss", None)
    if not getattr(loss, "from_logits", False):
        return None
    return "logit" if isinstance(loss, _BINARY_LOSSES) else "softmax"


def _checked_index(index: Any, units: int) -> int:
    if not is_int(index) or not 0 <= index < units:
        raise ValueError(
            f"Expected the index of one of {units} outputs, (index, threshold), or a function. "
            f"Received: target={index!r}"
        )
    return int(index)

"""What layers and inputs need that is private to Keras: the graph of a model, and raw inputs."""

import contextlib
import inspect
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn, TypeAlias

import keras
import numpy as np
import tensorflow as tf
from keras.src.trainers.data_adapters.array_data_adapter import ArrayDataAdapter
from keras.src.trainers.data_adapters.array_slicing import convert_to_sliceable

from keras_mmil._support.types import Shape

Node: TypeAlias = Any  # Keras's, one for each call of a layer or operation; its class is not public


def is_functional(layer: Any) -> bool:
    """Whether a layer is a functional model, whose graph is known."""
    return hasattr(layer, "_nodes_by_depth")


def operation_of(tensor: keras.KerasTensor) -> Any:
    """The layer or operation that a symbolic tensor is the output of."""
    return tensor._keras_history.operation


def producer_of(tensor: keras.KerasTensor) -> Node:
    """The node, a call of a layer or operation, that a symbolic tensor is the result of."""
    operation, index, _ = tensor._keras_history
    return operation._inbound_nodes[index]


def is_optional(tensor: keras.KerasTensor) -> bool:
    """Whether a symbolic tensor is an input made with `optional=True`."""
    history = getattr(tensor, "_keras_history", None)
    return history is not None and getattr(history.operation, "optional", False)


def all_layers(layer: keras.Layer) -> list[keras.Layer]:
    """All layers within a layer or model, at any depth, without itself."""
    return list(layer._flatten_layers(include_self=False))


def seed_generators(model: keras.Model) -> list[keras.random.SeedGenerator]:
    """All random number generators of a model's layers, such as that of a `Dropout`."""
    return [
        generator for layer in [model, *all_layers(model)] for generator in layer._seed_generators
    ]


def call_arguments(node: Node) -> dict[str, Any]:
    """The arguments of the call at a node that are not None, but `training`, by name."""
    arguments = inspect.signature(node.operation.call).bind(
        *node.arguments.args, **node.arguments.kwargs
    )
    pairs = arguments.arguments.items()
    return {name: x for name, x in pairs if x is not None and name != "training"}


def nodes_under(
    tensors: Iterable[keras.KerasTensor], inputs: Iterable[keras.KerasTensor]
) -> list[Node]:
    """All nodes that `tensors` are computed by, down to `inputs`."""
    stop = {id(x) for x in inputs}
    found: dict[int, Node] = {}
    pending = list(tensors)
    while pending:
        tensor = pending.pop()
        node = producer_of(tensor)
        if id(tensor) not in stop and id(node) not in found:
            found[id(node)] = node
            pending += node.input_tensors
    return list(found.values())


def ordered_nodes(model: keras.Model) -> list[Node]:
    """All nodes of a functional model but its inputs, each after those it depends on."""
    by_depth = model._nodes_by_depth
    nodes = [node for depth in sorted(by_depth, reverse=True) for node in by_depth[depth]]
    return [node for node in nodes if not node.is_input]


def keras_data(x: Any, y: Any = None, sample_weight: Any = None, class_weight: Any = None) -> Any:
    """Data in memory as Keras feeds them: tensors, or a tuple (x, y) or (x, y, sample_weight).

    Raises:
        ValueError: if the parts differ in length, or weights do not fit the labels.
    """
    adapter = ArrayDataAdapter(x, y, sample_weight, class_weight=class_weight)
    data = convert_to_sliceable(adapter._inputs, target_backend="tensorflow")
    return keras.tree.map_structure(
        lambda part: tf.convert_to_tensor(part) if isinstance(part, np.ndarray) else part, data
    )


def row_batches(n: int, batch_size: int, shuffle: bool | str) -> tf.data.Dataset:
    """A Dataset of the rows of each batch of n, int64, in the order in which Keras takes them."""
    return ArrayDataAdapter(np.arange(n), batch_size=batch_size, shuffle=shuffle).get_tf_dataset()


@contextlib.contextmanager
def short_adam(optimizer: Any) -> Iterator[None]:
    """Let Keras's Adam compute what all variables share only once, while a graph is traced.

    The numbers are the same. Keras's own graph is twice as large, and larger than many a network.
    """
    is_plain = type(optimizer) in (keras.optimizers.Adam, keras.optimizers.AdamW)
    if not is_plain or optimizer.amsgrad or optimizer.gradient_accumulation_steps:
        yield
        return
    shared: dict[Any, tuple[tf.Tensor, ...]] = {}

    def update_step(gradient: Any, variable: tf.Variable, learning_rate: tf.Tensor) -> None:
        dtype = variable.dtype
        if dtype not in shared:
            step = tf.cast(optimizer.iterations + 1, dtype)
            power_1, power_2 = (
                tf.pow(tf.constant(beta, dtype), step)
                for beta in (optimizer.beta_1, optimizer.beta_2)
            )
            alpha = tf.cast(learning_rate, dtype) * tf.sqrt(1 - power_2) / (1 - power_1)
            rest = [1 - optimizer.beta_1, 1 - optimizer.beta_2, optimizer.epsilon]
            shared[dtype] = (alpha, *(tf.constant(x, dtype) for x in rest))
        alpha, rest_1, rest_2, epsilon = shared[dtype]
        gradient = tf.cast(tf.convert_to_tensor(gradient), dtype)
        index = optimizer._get_variable_index(variable)
        m, v = optimizer._momentums[index].value, optimizer._velocities[index].value
        m.assign_add((gradient - m) * rest_1)
        v.assign_add((tf.square(gradient) - v) * rest_2)
        variable.assign_sub(m * alpha / (tf.sqrt(v) + epsilon))

    vars(optimizer)["update_step"] = update_step
    try:
        yield
    finally:
        del vars(optimizer)["update_step"]


class RawInputs(keras.Layer):
    """Base of layers on ragged tensors, ids or strings. It comes before any Keras layer.

    Keras does not cast the inputs: it would cast ids as if they were features, and symbolic inputs
    would no longer be ragged. A model with such a layer is not compiled by XLA, which cannot run
    it. A Keras mask is refused, since it would be ignored.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._convert_input_args = False
        self.supports_jit = False
        self.supports_masking = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the layer; a positional dense argument may be a NumPy array.

        Raises:
            ValueError: if an argument has a Keras mask.
        """
        tensors = [tf.convert_to_tensor(x) if isinstance(x, np.ndarray) else x for x in args]
        check_no_mask(self, (tensors, kwargs), "inputs")
        return super().__call__(*tensors, **kwargs)

    def compute_output_shape(self, *shapes: Shape, **named_shapes: Shape) -> NoReturn:
        """Not supported: a shape does not say whether a tensor is ragged.

        Keras's wrappers, such as `TimeDistributed`, ask for it before they cut their input.
        """
        raise NotImplementedError(
            f"Expected {type(self).__name__} '{self.name}' to be called itself, and not by a "
            "wrapper such as TimeDistributed: it takes bags of any depth, ragged or dense. "
            f"Received: shapes={[*shapes, *named_shapes.values()]}"
        )


def check_no_mask(layer: keras.Layer, tensors: Any, what: str) -> None:
    """Raise ValueError if one of nested tensors, the inputs or outputs of a layer, is masked."""
    for x in keras.tree.flatten(tensors):
        if getattr(x, "_keras_mask", None) is not None:
            raise ValueError(
                f"{type(layer).__name__} '{layer.name}' expected {what} without a Keras mask, as "
                "of Masking or Embedding(mask_zero=True): it would be ignored. Leave out of the "
                "bags what shall not count (tf.ragged.boolean_mask), or give it weight 0 in a "
                f"BagLayer. Received: a mask on {what} of shape {tuple(x.shape)}"
            )

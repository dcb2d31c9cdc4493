"""What a trained network computes at its bag-layers. The one place where the network runs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import keras
import tensorflow as tf

from keras_mmil._support.types import Array, Tensors
from keras_mmil.functional.chain import bag_nodes, functional
from keras_mmil.functional.graph import call_arguments
from keras_mmil.functional.input_checks import InputChecks
from keras_mmil.functional.rowwise import check_rowwise
from keras_mmil.inputs import complete_inputs
from keras_mmil.interpretation.network.data import Source, TopBags, top_bags
from keras_mmil.interpretation.network.nesting import Nesting, Occurrences
from keras_mmil.interpretation.network.single import as_batch
from keras_mmil.interpretation.network.targets import Outputs
from keras_mmil.layers import BagLayer, TextBags

__all__ = ["Network", "Observation", "nest"]


@dataclass(frozen=True, eq=False)
class Observation:
    """What a network computed on some top-bags.

    Attributes:
        nestings: one for each bag-layer, from the instances upwards.
        representations: ρ of the rows, float32 [rows, units], one for each bag-layer.
        outputs: the model's outputs, float32 [top-bags, ...].
    """

    nestings: tuple[Nesting, ...]
    representations: tuple[Array, ...]
    outputs: Outputs

    def projected(self, projections: Iterable[Array | None]) -> "Observation":
        """The same with the rows of each level multiplied by a matrix, if there is one."""
        pairs = zip(self.representations, projections, strict=True)
        rows = tuple(rows if matrix is None else rows @ matrix for rows, matrix in pairs)
        return replace(self, representations=rows)


def nest(values: Array, occurrences: Sequence[Occurrences]) -> tf.RaggedTensor:
    """Values of the occurrences at a level, nested in bags like the data: a RaggedTensor.

    Args:
        values: [occurrences].
        occurrences: those of this level and the levels above.
    """
    splits = [level.row_splits for level in reversed(occurrences)]
    return tf.RaggedTensor.from_nested_row_splits(values, splits)


class Network:
    """A trained model, opened at its bag-layers. The model itself is left as it is.

    Args:
        model: a functional Keras model with bag-layers one above the other.

    Raises:
        TypeError: if it is not a Keras model.
        ValueError: if its bag-layers are none, or not a chain that all inputs go through.
    """

    def __init__(self, model: keras.Model) -> None:
        self.model = functional(model)
        self._bag_nodes = bag_nodes(self.model)
        self.layers: tuple[BagLayer, ...] = tuple(node.operation for node in self._bag_nodes)
        self._checks = InputChecks(self.model)
        self._capture = keras.Model(
            self.model.input,
            {
                "arguments": [call_arguments(node) for node in self._bag_nodes],
                "above": [node.outputs[0] for node in self._bag_nodes],
                "outputs": self.model.output,
            },
        )
        self._is_checked = False

    def __reduce__(self) -> tuple[type["Network"], tuple[keras.Model]]:
        """Copies and pickles contain the model, as Keras copies it, and open it again."""
        return Network, (self.model,)

    @property
    def text_layer(self) -> TextBags | None:
        """The `TextBags` layer of a model that reads texts, else None."""
        layers = [layer for layer in self.model.layers if isinstance(layer, TextBags)]
        return layers[0] if layers else None

    @property
    def aggregations(self) -> tuple[set[str], ...]:
        """Names of the aggregations of each bag-layer."""
        return tuple({a.identifier for a in layer.aggregations} for layer in self.layers)

    def data(self, x: TopBags, batch_size: int, name: str = "x") -> Source:
        """Check top-bags, and make batches of them: see `data.top_bags`."""
        return top_bags(x, self._checks, batch_size, name)

    def as_batch(self, x: Any) -> TopBags:
        """A single top-bag as a batch of one; anything else as it is."""
        return as_batch(x, self.model.input)

    def batches(
        self, batches: Iterable[Tensors], on_batch: Callable[[], None] | None = None
    ) -> Iterator[Observation]:
        """Run the network batch by batch, and yield what it computed on each.

        Args:
            batches: checked inputs, such as `data(...).batches()`.
            on_batch: called without arguments after each batch.
        """
        for batch in batches:
            yield self._observe(self.complete(batch))
            if on_batch:
                on_batch()

    def complete(self, batch: Tensors) -> Tensors:
        """A batch of checked inputs with all inputs that the model itself takes."""
        return complete_inputs(batch, self.model.input)

    def _observe(self, batch: Tensors) -> Observation:
        seen = self._capture(batch, training=False)
        pairs = zip(self.layers, seen["arguments"], strict=True)
        captured = [layer.capture(**tensors) for layer, tensors in pairs]
        representations = tuple(tf.cast(rows, tf.float32).numpy() for rows, _ in captured)
        nestings = tuple(grouping.numpy() for _, grouping in captured)
        outputs = keras.tree.map_structure(
            lambda y: tf.cast(y, tf.float32).numpy(), seen["outputs"]
        )
        self._check_chain(nestings, len(keras.tree.flatten(outputs)[0]))
        if not self._is_checked:
            check_rowwise(self.model, self._bag_nodes, seen["above"])
            self._is_checked = True
        return Observation(nestings, representations, outputs)

    def _check_chain(self, nestings: Sequence[Nesting], n_top_bags: int) -> None:
        above = [nesting.n_rows for nesting in nestings[1:]] + [n_top_bags]
        for layer, nesting, n_rows in zip(self.layers, nestings, above, strict=True):
            if nesting.n_bags != n_rows:
                raise ValueError(
                    "Expected each bag of a bag-layer to be one row of the next, or one top-bag. "
                    f"Received: layer={layer.name!r} with {nesting.n_bags} bags, {n_rows} above"
                )

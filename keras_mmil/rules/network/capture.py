"""What a trained network computes at its bag-layers. The one place where the network runs."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.keras_internals import Node, call_arguments, nodes_under, operation_of
from keras_mmil._support.types import Array, Tensors
from keras_mmil.layers import BagLayer, TextBags
from keras_mmil.layers._types import Nested
from keras_mmil.model.checks import InputChecks, complete_inputs
from keras_mmil.model.run import rows_of, run_in_order
from keras_mmil.model.tree import (
    BagTree,
    FieldRead,
    Read,
    bag_tree,
    boundaries,
    check_own_features,
    check_rowwise,
    functional,
    instance_features,
    row_index,
)
from keras_mmil.rules.network.nesting import Nesting, Occurrences, take_bags
from keras_mmil.rules.network.targets import Outputs

__all__ = ["Network", "Observation", "bag_paths", "nest"]

# What Keras calls inputs without a name, by how many it has made before.
_AUTOMATIC = re.compile(r"(?:input_layer|keras_tensor)(?:_\d+)?")


@dataclass(frozen=True, eq=False)
class Observation:
    """What a network computed on some top-bags.

    Attributes:
        nestings: one for each bag-layer, from the instances upwards.
        representations: ρ of the rows, float32 [rows, units], one for each bag-layer.
        outputs: the model's outputs, float32 [top-bags, ...].
        values: the raw values of the fields of the rows of each bag-layer, [rows] each, and last of
            the top-bags; () for those without fields.
        features: the raw features of instances that have names: [rows, features], by the index of
            the bag-layer whose rows they are.
    """

    nestings: tuple[Nesting, ...]
    representations: tuple[Array, ...]
    outputs: Outputs
    values: tuple[tuple[Array, ...], ...]
    features: Mapping[int, Array] = field(default_factory=dict)

    @property
    def n_top_bags(self) -> int:
        """Number of top-bags."""
        return len(keras.tree.flatten(self.outputs)[0])

    @property
    def n_bytes(self) -> int:
        """The memory it takes."""
        groupings = [x for n in self.nestings for x in (n.members, n.row_splits, n.weights)]
        arrays = (groupings, self.representations, self.outputs, self.values, self.features)
        return sum(np.asarray(x).nbytes for x in keras.tree.flatten(arrays))

    def values_of(self, layer: int) -> tuple[Array, ...]:
        """The raw values of the fields, or of the features with names, of a bag-layer's rows."""
        if layer in self.features:
            return tuple(self.features[layer].T)
        return self.values[layer]

    def projected(self, projections: Iterable[Array | None]) -> "Observation":
        """The same with the rows of each level multiplied by a matrix, if there is one."""
        pairs = zip(self.representations, projections, strict=True)
        rows = tuple(rows if matrix is None else rows @ matrix for rows, matrix in pairs)
        return replace(self, representations=rows)


def nest(values: Array, occurrences: Sequence[Occurrences]) -> tf.RaggedTensor:
    """Values [occurrences] of a level, nested in bags like the data: a RaggedTensor.

    `occurrences` are those of this level and the levels above.
    """
    splits = [level.row_splits for level in reversed(occurrences)]
    return tf.RaggedTensor.from_nested_row_splits(values, splits)


class Network:
    """A trained model, opened at its bag-layers. The model itself is left as it is.

    Args:
        model: a functional Keras model with bag-layers.
        feature_names: names of the features of the instances; None where they have no names.

    Attributes:
        model: the same, as a functional model.
        layers: the bag-layers, each after those that are below it.
        parents: for each of them the index of the one above it; their number for the top-bags.
        paths: the names of their bags in the data, see `bag_paths`.
        fields: of the rows of each bag-layer, and last of the top-bags.
        has_other: whether these rows, or the top-bags, depend on more than fields.
        feature_names: names of the features of the instances, or None.
        named: index of the bag-layer that reads these instances, or None.
        checks: of the model's inputs.

    Raises:
        TypeError: if it is not a Keras model.
        ValueError: if it has no bag-layers; if they are no tree that all inputs but fields go
            through; or if its instances are not vectors with one feature for each name.
    """

    def __init__(self, model: keras.Model, feature_names: Sequence[str] | None = None) -> None:
        self.model = functional(model)
        self._tree = bag_tree(self.model)
        self.layers: tuple[BagLayer, ...] = tuple(node.operation for node in self._tree.nodes)
        self.parents = self._tree.parents
        self.paths = bag_paths(self._tree)
        self.fields: tuple[tuple[FieldRead, ...], ...] = tuple(
            record.fields for record in self._tree.records
        )
        self.has_other = tuple(record.has_other for record in self._tree.records)
        self.feature_names = None if feature_names is None else tuple(feature_names)
        self.named: int | None = None
        self._features: keras.KerasTensor | None = None
        if self.feature_names is not None:
            self.named, self._features = instance_features(
                self.model, self._tree, self.feature_names
            )
        self.checks = InputChecks(self.model)
        self._boundaries = boundaries(self._tree)
        self._capture = keras.Model(
            self.model.input,
            {
                "arguments": [call_arguments(node) for node in self._tree.nodes],
                "boundaries": self._boundaries,
                "fields": [read.values for of_record in self.fields for read in of_record],
                "features": [] if self._features is None else self._features,
                "outputs": self.model.output,
            },
        )
        self._is_checked = False

    def __reduce__(self) -> tuple[type["Network"], tuple[Any, ...]]:
        """Copies and pickles contain the model, as Keras copies it, and open it again."""
        return Network, (self.model, self.feature_names)

    @property
    def text_layer(self) -> TextBags | None:
        """The `TextBags` layer of a model that reads texts, else None."""
        layers = [layer for layer in self.model.layers if isinstance(layer, TextBags)]
        return layers[0] if layers else None

    @property
    def has_fields(self) -> tuple[bool, ...]:
        """Whether the rows of each bag-layer have fields, and last the top-bags."""
        return tuple(map(bool, self.fields))

    @property
    def is_chain(self) -> bool:
        """Whether each bag-layer is above the one before, and nothing has fields."""
        return _is_in_a_row(self.parents) and not any(self.fields)

    @property
    def aggregations(self) -> tuple[set[str], ...]:
        """Names of the aggregations of each bag-layer."""
        return tuple({a.identifier for a in layer.aggregations} for layer in self.layers)

    @property
    def codebooks(self) -> tuple[Array | None, ...]:
        """The symbols of each bag-layer, float32 [k, units]; None where it has none."""
        return tuple(
            None if layer.symbols is None else layer.symbols.codebook.numpy()
            for layer in self.layers
        )

    def observe(
        self, batches: Iterable[Tensors], projections: Sequence[Array | None]
    ) -> Iterator[Observation]:
        """The same as `batches`, with the rows of each bag-layer multiplied by a matrix, or not."""
        return (batch.projected(projections) for batch in self.batches(batches))

    def batches(
        self,
        batches: Iterable[Tensors],
        on_batch: Callable[[], None] | None = None,
        in_order: bool = False,
    ) -> Iterator[Observation]:
        """Run the network batch by batch, and yield what it computed on each.

        Args:
            batches: checked inputs, such as `top_bags(...).batches()`.
            on_batch: called after each batch.
            in_order: whether to keep bags that `DistinctBags` merges apart, and their members in
                the order of the data.
        """
        for batch in batches:
            yield self._observe(self.complete(batch), in_order)
            if on_batch:
                on_batch()

    def complete(self, batch: Tensors) -> Tensors:
        """A batch of checked inputs with all inputs of the model itself."""
        return complete_inputs(batch, self.model.input)

    def _observe(self, batch: Tensors, in_order: bool) -> Observation:
        if in_order:
            seen = run_in_order(self._capture, batch)
        else:
            seen = self._capture(batch, training=False)
        found = {id(x): y for x, y in zip(self._boundaries, seen["boundaries"], strict=True)}
        pairs = zip(self.layers, seen["arguments"], strict=True)
        captured = [layer.capture(**tensors) for layer, tensors in pairs]
        representations = tuple(tf.cast(rows, tf.float32).numpy() for rows, _ in captured)
        nestings = self._of_records([grouping.numpy() for _, grouping in captured], found)
        outputs = keras.tree.map_structure(
            lambda y: tf.cast(y, tf.float32).numpy(), seen["outputs"]
        )
        self._check_rows(nestings, len(keras.tree.flatten(outputs)[0]))
        if not self._is_checked:
            check_rowwise(self.model, self._tree, found)
            if self.named is not None:
                node = self._tree.nodes[self.named]
                check_own_features(self.model, self._features, node, batch)
            self._is_checked = True
        features = {}
        if self.named is not None:
            rows = rows_of(seen["features"]).numpy()
            features[self.named] = rows.reshape(-1, rows.shape[-1])
        return Observation(
            nestings=nestings,
            representations=representations,
            outputs=outputs,
            values=self._values(seen["fields"], found),
            features=features,
        )

    def _of_records(
        self, nestings: Sequence[Nesting], found: Mapping[int, Nested]
    ) -> tuple[Nesting, ...]:
        """The bags of each bag-layer, one for each record that holds one."""
        reads: dict[int, Read] = {
            id(read.node): read for record in self._tree.records for read in record.bags
        }
        index = [row_index(reads[id(node)].ids, found) for node in self._tree.nodes]
        pairs = zip(nestings, index, strict=True)
        return tuple(each if bags is None else take_bags(each, bags) for each, bags in pairs)

    def _values(
        self, raw: Sequence[Nested], found: Mapping[int, Nested]
    ) -> tuple[tuple[Array, ...], ...]:
        """The raw values of the fields of all records."""
        arrays = iter(raw)
        values = []
        for record in self._tree.records:
            of_record, known = [], {}  # hundreds of statistics have one index
            for read in record.fields:
                ids = tuple(map(id, read.ids))
                if ids not in known:
                    known[ids] = row_index(read.ids, found)
                x, bags = rows_of(next(arrays)).numpy(), known[ids]
                x = x.reshape(-1) if read.column is None else x[:, read.column]
                of_record.append(x if bags is None else x[bags])
            values.append(tuple(of_record))
        return tuple(values)

    def _check_rows(self, nestings: Sequence[Nesting], n_top_bags: int) -> None:
        n_rows = [*(nesting.n_rows for nesting in nestings), n_top_bags]
        for layer, nesting, parent in zip(self.layers, nestings, self.parents, strict=True):
            if nesting.n_bags != n_rows[parent]:
                raise ValueError(
                    "Expected each bag of a bag-layer to be one row of the next, or one top-bag. "
                    f"Received: layer={layer.name!r} with {nesting.n_bags} bags, {n_rows[parent]} "
                    "above"
                )


def bag_paths(tree: BagTree) -> tuple[str, ...]:
    """The name of the bags of each bag-layer in the data; empty if they have none.

    Bags of records are named by the paths of their fields. In a chain of bag-layers, others have no
    name, as their depth says what they are. In any other tree they are named after their input, and
    the bags inside them by their depth.
    """
    fields = [_field(node) for node in tree.nodes]
    if _is_in_a_row(tree.parents):
        return tuple(fields)
    paths = dict(enumerate(fields))
    for layer in reversed(range(len(fields))):  # those around others first
        if not paths[layer]:
            outer = paths.get(tree.parents[layer], "")
            word = "sub-bags" if layer in tree.parents else "instances"
            paths[layer] = f"{outer}.{word}" if outer else _input(tree.nodes[layer]) or word
    return tuple(paths.values())


def _is_in_a_row(parents: Sequence[int]) -> bool:
    """Whether each bag-layer is above the one before."""
    return tuple(parents) == tuple(range(1, len(parents) + 1))


def _field(node: Node) -> str:
    """The path of the field whose bags a bag-layer reads; empty if they belong to none."""
    members = call_arguments(node).get("members")
    return "" if members is None else getattr(operation_of(members), "field", "")


def _input(node: Node) -> str:
    """The name of the only input that a bag-layer depends on; empty if it has none."""
    nodes = nodes_under(node.input_tensors, ())
    names = [each.operation.name for each in nodes if each.is_input]
    return names[0] if len(names) == 1 and not _AUTOMATIC.fullmatch(names[0]) else ""

"""The tree of a functional model's bag-layers, and checks that rules can follow it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.keras_internals import (
    Node,
    all_layers,
    call_arguments,
    is_functional,
    nodes_under,
    operation_of,
    ordered_nodes,
    producer_of,
)
from keras_mmil._support.types import Array, Ints
from keras_mmil.layers import BagLayer, DistinctRows, FieldEncoder, Gather
from keras_mmil.layers._types import Nested
from keras_mmil.model.checks import id_limits
from keras_mmil.model.run import input_values, moved, rows_of, run_nodes

__all__ = [
    "BagTree",
    "FieldRead",
    "Read",
    "Record",
    "bag_tree",
    "boundaries",
    "check_own_features",
    "check_rowwise",
    "functional",
    "instance_features",
    "row_index",
]

_NEGLIGIBLE = 1e-3  # change of a row, relative to the largest value


@dataclass(frozen=True, eq=False)
class Read:
    """What a record is computed from: the bags of a bag-layer, or the values of a field.

    Attributes:
        node: the call of the bag-layer or `FieldEncoder`.
        ids: which row of it belongs to each record: indices, and indices into these, as they are
            gathered; empty if row i belongs to record i.
    """

    node: Node
    ids: tuple[keras.KerasTensor, ...] = ()


@dataclass(frozen=True, eq=False, kw_only=True)
class FieldRead(Read):
    """One of the fields that an encoder encodes.

    Attributes:
        path: of the field.
        kind: of its values, see `FieldEncoder.kind`; "statistic" for one column of a matrix.
        values: as the encoder gets them.
        column: of several fields in one matrix, the index of this one; else None.
    """

    path: str
    kind: str
    values: keras.KerasTensor
    column: int | None = None


@dataclass(frozen=True, eq=False)
class Record:
    """What one row of a bag-layer, or one top-bag, is computed from.

    Attributes:
        name: of its reader in errors.
        tensors: the rows of the bag-layer, or the model's outputs.
        reads: all bag-layers and encoders among that.
        bags: the bags in the record, one of each of these bag-layers.
        fields: the values in the record that are encoded, in the order of the model's inputs; once,
            if several encoders read the same.
        has_other: whether it is also computed from an input that is no field.
    """

    name: str
    tensors: tuple[keras.KerasTensor, ...]
    reads: tuple[Read, ...]
    bags: tuple[Read, ...]
    fields: tuple[FieldRead, ...]
    has_other: bool

    @property
    def boundary(self) -> list[keras.KerasTensor]:
        """What is read: the outputs of bag-layers and encoders, and the ids that gather them."""
        return [x for read in self.reads for x in (*read.node.outputs, *read.ids)]


@dataclass(frozen=True, eq=False)
class BagTree:
    """The bag-layers of a model.

    Attributes:
        nodes: their calls, each after those that it depends on.
        records: those of each bag-layer's rows, in the same order, and last that of the top-bags.
    """

    nodes: tuple[Node, ...]
    records: tuple[Record, ...]

    @property
    def parents(self) -> tuple[int, ...]:
        """For each bag-layer, the index of the records that hold its bags."""
        return tuple(
            next(i for i, r in enumerate(self.records) if any(x.node is node for x in r.bags))
            for node in self.nodes
        )


def functional(model: Any) -> keras.Model:
    """The functional form of a Keras model; TypeError or ValueError if it has none."""
    if not isinstance(model, keras.Model):
        raise TypeError(f"Expected a Keras model. Received: model of type {type(model).__name__}")
    if isinstance(model, keras.Sequential) and model.built:
        model = model._functional
    if not is_functional(model):
        raise ValueError(
            "Expected a functional model, whose bag-layers can be found. "
            f"Received: model={model.name!r} of type {type(model).__name__}"
        )
    return model


def bag_tree(model: keras.Model) -> BagTree:
    """The tree of a functional model's bag-layers; a model on fields alone has none.

    Raises:
        ValueError: if there are no bag-layers and other inputs than fields; if a bag-layer is
            called twice, read twice, or hidden in a nested model or a layer; or if anything but
            fields joins what is above a bag-layer.
    """
    nodes = nodes_under(model.outputs, model.inputs)
    _check_nothing_hidden(node.operation for node in nodes)
    layers = [node.operation for node in nodes if isinstance(node.operation, BagLayer)]
    if not layers:
        flat = _record(model, "the model's output", model.outputs)
        if flat.fields and not flat.has_other:
            return BagTree((), (flat,))
        raise ValueError(f"Expected a model with bag-layers. Received: model={model.name!r}")
    for layer in layers:
        if layers.count(layer) > 1:
            raise ValueError(
                "Expected bag-layers that are called once each, for one that is called twice "
                f"has no level of its own. Received: layer={layer.name!r}"
            )
    nodes, records = [], []

    def visit(name: str, tensors: Sequence[keras.KerasTensor]) -> Record:
        record = _record(model, name, tensors)
        for read in record.bags:
            if any(read.node is node for node in nodes):
                raise ValueError(
                    "Expected each bag-layer to be read by one other, or by the model's output. "
                    f"Received: layer={read.node.operation.name!r}, read by {name} and another"
                )
            layer = read.node.operation
            inner = visit(f"bag-layer {layer.name!r}", [call_arguments(read.node)["inputs"]])
            nodes.append(read.node)
            records.append(inner)
        _check_nothing_beside(model, record)
        return record

    top = visit("the model's output", model.outputs)
    if unread := [layer.name for layer in layers if layer not in [n.operation for n in nodes]]:
        raise ValueError(
            "Expected bag-layers whose outputs are rows of others, or reach the model's output. "
            f"Received: {unread}, which only say what is in a bag, or how much it counts"
        )
    return BagTree(tuple(nodes), (*records, top))


def _check_nothing_hidden(operations: Iterable[Any]) -> None:
    for layer in operations:
        if not isinstance(layer, keras.Layer) or isinstance(layer, BagLayer):
            continue
        for inner in all_layers(layer):
            if isinstance(inner, BagLayer):
                raise ValueError(
                    "Expected bag-layers in the model itself, not inside one of its layers. "
                    f"Received: layer={inner.name!r} in {layer.name!r}"
                )


def _record(model: keras.Model, name: str, tensors: Sequence[keras.KerasTensor]) -> Record:
    """What some tensors are computed from, down to the next bag-layers, fields and inputs."""
    found: dict[tuple[int, ...], Read] = {}
    seen: set[tuple[int, ...]] = set()
    has_other = False
    pending: list[tuple[keras.KerasTensor, tuple[keras.KerasTensor, ...]]] = [
        (x, ()) for x in reversed(tensors)
    ]
    inputs = {id(x) for x in model.inputs}
    while pending:
        tensor, ids = pending.pop()
        node = producer_of(tensor)
        key = (id(node), *map(id, ids))
        if id(tensor) in inputs:
            has_other = True
        elif key in seen:
            continue
        elif isinstance(node.operation, (BagLayer, FieldEncoder)):
            found[key] = Read(node, ids)
        elif isinstance(node.operation, Gather):
            rows, index = call_arguments(node)["inputs"]
            pending.append((rows, (index, *ids)))
        else:
            pending += [(x, ids) for x in reversed(node.input_tensors)]
        seen.add(key)
    reads = list(found.values())
    _check_read_once(reads, name)
    return Record(
        name,
        tuple(tensors),
        tuple(reads),
        tuple(read for read in reads if isinstance(read.node.operation, BagLayer)),
        _fields(model, reads),
        has_other,
    )


def _fields(model: keras.Model, reads: Iterable[Read]) -> tuple[FieldRead, ...]:
    """The fields among what is read."""
    found = []
    for read in reads:
        encoder = read.node.operation
        if isinstance(encoder, FieldEncoder):
            columns = keras.tree.flatten(call_arguments(read.node)["values"])
            is_matrix = len(columns) < len(encoder.fields)
            found += [
                FieldRead(
                    read.node,
                    read.ids,
                    path=path,
                    kind="statistic" if is_matrix else encoder.kind,
                    values=columns[0 if is_matrix else i],
                    column=i if is_matrix else None,
                )
                for i, path in enumerate(encoder.fields)
            ]
    # A field may be read twice: by learned vectors, and as categories or words.
    found = list({(each.path, id(each.values), each.column): each for each in found}.values())
    # Keras sorts `inputs` by their names in a dict, but keeps the order of the dict.
    inputs = model.input.values() if isinstance(model.input, dict) else model.inputs
    places = {id(x): i for i, x in enumerate(inputs)}
    # What is no input, such as statistics of bags, comes last.
    return tuple(sorted(found, key=lambda each: places.get(id(_source(each.values)), len(places))))


def _source(values: keras.KerasTensor) -> keras.KerasTensor:
    """The column that the values of a field in distinct rows are taken from."""
    node = producer_of(values)
    while isinstance(node.operation, DistinctRows):
        (i,) = (i for i, x in enumerate(node.outputs) if x is values)
        values = call_arguments(node)["columns"][i]
        node = producer_of(values)
    return values


def _check_read_once(reads: Sequence[Read], reader: str) -> None:
    nodes = [read.node for read in reads]
    for node in nodes:
        if sum(other is node for other in nodes) > 1:
            raise ValueError(
                "Expected a record to hold one bag of each bag-layer, and one value of each field. "
                f"Received: {reader} reads {node.operation.name!r} by several indices"
            )


def _check_nothing_beside(model: keras.Model, record: Record) -> None:
    """Raise ValueError if a record with bags is also computed from what rules cannot read.

    Rules read the clusters of a bag's members, and the fields of a record. The `members` and
    `weights` of a bag-layer are read as they are, whatever they are computed from.
    """
    if not record.bags or not record.has_other:
        return
    names = " and ".join(repr(read.node.operation.name) for read in record.bags)
    plural = "s" if len(record.bags) > 1 else ""
    raise ValueError(
        f"Expected {record.name} to be computed from bag-layer{plural} {names} alone, "
        f"for rules cannot read what joins it. Received: {'; '.join(_joins(model, record))}"
    )


def _joins(model: keras.Model, record: Record) -> Iterator[str]:
    """Where something joins the bags of a record on the way to its tensors: descriptions."""
    known = [x for read in record.reads for x in read.node.outputs]
    bags = [read.node for read in record.bags]

    def is_of_bags(x: keras.KerasTensor) -> bool:
        return any(node in nodes_under([x], model.inputs) for node in bags)

    readers = [(record.name, record.tensors)]
    for upper in nodes_under(record.tensors, known):
        if any(map(is_of_bags, upper.input_tensors)):
            readers.append((f"layer {upper.operation.name!r}", upper.input_tensors))
    for name, read in readers:
        for x in read:
            below = nodes_under([x], known)
            inputs = sorted(lower.operation.name for lower in below if lower.is_input)
            if inputs and not is_of_bags(x):
                source = operation_of(x).name
                is_input = inputs == [source]
                what = f"input {source!r}" if is_input else f"{source!r}, computed from {inputs}"
                yield f"{name} reads {what}"


# Instances with named features ------------------------------------------------------------------


def instance_features(
    model: keras.Model, tree: BagTree, names: Sequence[str]
) -> tuple[int, keras.KerasTensor]:
    """The index of the bag-layer that reads the instances, and the input with their features.

    Raises:
        ValueError: if there is not exactly one kind of instances that are no records with fields;
            or if they are not computed from one input of numbers, [top-bags, (n), …, features],
            with a feature for each name.
    """
    plain = [
        i
        for i, record in enumerate(tree.records[:-1])
        if record.has_other and not record.bags and not record.fields
    ]
    if len(plain) != 1:
        readers = [tree.nodes[i].operation.name for i in plain]
        raise ValueError(
            "Expected one bag-layer of instances that are vectors, for feature_names; fields of "
            f"records have names of their own. Received: {readers}"
        )
    (index,) = plain
    node = tree.nodes[index]
    tensor = call_arguments(node)["inputs"]
    sources = [each.outputs[0] for each in nodes_under([tensor], ()) if each.is_input]
    rank = 3 + _n_above(tree, index)  # top-bags, instances, features, and the bags between
    shapes = {x.name: (tuple(x.shape), x.dtype) for x in sources}
    are_vectors = (
        len(sources) == 1
        and "members" not in call_arguments(node)
        and len(tensor.shape) == len(sources[0].shape) == rank
        and sources[0].shape[-1] == len(names)
        and keras.backend.standardize_dtype(sources[0].dtype).startswith(("float", "int", "uint"))
        and [id(x) for x in model.inputs].index(id(sources[0])) not in id_limits(model)
    )
    if not are_vectors:
        raise ValueError(
            f"Expected instances that are computed from one input of {len(names)} numbers for "
            f"each, which {len(names)} feature_names can be of. Received: bag-layer "
            f"{node.operation.name!r}, whose instances are computed from {shapes}"
        )
    return index, sources[0]


def _n_above(tree: BagTree, index: int) -> int:
    """The number of bag-layers above one."""
    parent = tree.parents[index]
    return 0 if parent == len(tree.nodes) else 1 + _n_above(tree, parent)


# Whether each row is computed from its own content ----------------------------------------------


def boundaries(tree: BagTree) -> list[keras.KerasTensor]:
    """The tensors that records are computed from, whose values `check_rowwise` needs."""
    found = [x for record in tree.records for x in record.boundary]
    return list({id(x): x for x in found}.values())


def row_index(ids: Sequence[keras.KerasTensor], values: Mapping[int, Nested]) -> Ints | None:
    """The row of each record, by `Read.ids`; None if row i belongs to record i."""
    index: Ints | None = None
    for each in ids:
        here = rows_of(values[id(each)]).numpy().reshape(-1)
        index = here if index is None else index[here]
    return index


def check_rowwise(model: keras.Model, tree: BagTree, values: Mapping[int, Nested]) -> None:
    """Move half the rows of each bag-layer's output, and see whether others change above it.

    Rules label a record by its content. They do not know what a network adds from other records,
    such as by attention between them.

    `values` are those of the `boundaries` for a batch, by their ids.

    Raises:
        ValueError: if rows are mixed between a bag-layer and the next, or the model's outputs.
    """
    for record in tree.records:
        between = _between(model, record)
        start = {id(x): values[id(x)] for x in record.boundary}
        for read in record.bags:
            (output,) = read.node.outputs
            h = values[id(output)]
            is_moved, other = _half_moved(h)
            before, after = (
                _rows_above(between, record.tensors, {**start, id(output): x}) for x in (h, other)
            )
            index = row_index(read.ids, values)
            is_above = is_moved if index is None else is_moved[index]
            for old, new in zip(before, after, strict=True):
                if len(old) == len(is_above) and _differ(old, new, ~is_above):
                    raise ValueError(
                        "Expected each bag to be computed from its members alone, for rules read "
                        f"nothing else. Received: {_above(between, read.node)} above bag-layer "
                        f"{read.node.operation.name!r}, by which bags change with others"
                    )


def check_own_features(
    model: keras.Model, source: keras.KerasTensor, node: Node, inputs: Any
) -> None:
    """Move half the instances of an input, and see whether others change below a bag-layer.

    `source` is the input, [top-bags, (n), …, features], `node` that of the bag-layer, and `inputs`
    a batch. ValueError if the bag-layer has other rows than the input, or an instance is not
    computed from its own features alone.
    """
    tensor = call_arguments(node)["inputs"]
    under = nodes_under([tensor], [source])
    between = [each for each in ordered_nodes(model) if each in under]
    values = input_values(model, inputs)
    is_moved, other = _half_moved(values[id(source)])
    (before,), (after,) = (
        _rows_above(between, [tensor], {**values, id(source): x})
        for x in (values[id(source)], other)
    )
    if len(before) != len(is_moved) or _differ(before, after, ~is_moved):
        raise ValueError(
            "Expected instances that are each computed from their own features alone, for "
            f"feature_names. Received: {[each.operation.name for each in between]} below bag-layer "
            f"{node.operation.name!r}, by which instances change with others"
        )


def _half_moved(h: Nested) -> tuple[Array, Nested]:
    """A random half of the rows, bool [rows], and the output with these moved at random."""
    rows = rows_of(h)
    n = int(np.prod(rows.shape[:-1]))
    rng = np.random.default_rng(0)
    is_moved = rng.permutation(n) < n // 2
    step = rng.normal(size=(n, rows.shape[-1])) * is_moved[:, None]
    step = step * (1 + np.abs(tf.cast(rows, tf.float32)).max(initial=0))
    return is_moved, moved(h, step.reshape(rows.shape))


def _differ(old: Array, new: Array, at: Array) -> bool:
    """Whether one of the rows at `at` has changed by more than rounding."""
    change = np.abs(new - old)[at].max(initial=0)
    return bool(change > _NEGLIGIBLE * np.abs(old).max(initial=0))


def _between(model: keras.Model, record: Record) -> list[Node]:
    """The nodes from what a record holds to its tensors, in an order in which they can run."""
    under = nodes_under(record.tensors, record.boundary)
    return [each for each in ordered_nodes(model) if each in under]


def _above(between: Sequence[Node], node: Node) -> list[str]:
    """The names of those nodes between that depend on a node."""
    dependent = {id(x) for x in node.outputs}
    names = []
    for each in between:
        if any(id(x) in dependent for x in each.input_tensors):
            dependent |= {id(x) for x in each.outputs}
            names.append(each.operation.name)
    return names


def _rows_above(
    between: Sequence[Node], tensors: Sequence[keras.KerasTensor], values: Mapping[int, Nested]
) -> list[Array]:
    """What nodes compute from values: each tensor as float32 [rows, features]."""
    computed = dict(values)
    run_nodes(between, computed, training=False)
    parts = [tf.cast(rows_of(computed[id(x)]), tf.float32).numpy() for x in tensors]
    units = [part.shape[-1] if part.ndim > 1 else 1 for part in parts]
    return [part.reshape(-1, size) for part, size in zip(parts, units, strict=True)]

"""The bag-layers of a functional model, and how they are connected: a tree."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import keras

from keras_mmil.functional.graph import (
    Node,
    all_layers,
    call_arguments,
    is_functional,
    nodes_under,
    operation_of,
    producer_of,
)
from keras_mmil.layers import BagLayer, FieldEncoder, Gather

__all__ = ["BagTree", "Read", "Record", "bag_tree", "functional"]


@dataclass(frozen=True, eq=False)
class Read:
    """What a record is computed from: the bags of a bag-layer, or the values of a field.

    Attributes:
        node: where the bag-layer, or the `FieldEncoder`, is called.
        ids: which row of it belongs to each record: indices, and those into these, as they are
            gathered; empty where row i belongs to record i.
    """

    node: Node
    ids: tuple[keras.KerasTensor, ...] = ()


@dataclass(frozen=True, eq=False)
class Record:
    """What one row of a bag-layer, or one top-bag, is computed from.

    Attributes:
        name: what to call its reader in errors.
        tensors: the rows of the bag-layer, or the model's outputs.
        bags: the bags in the record, one of each of these bag-layers.
        fields: the values in the record that are encoded.
        has_other: whether it is also computed from an input that is no field.
    """

    name: str
    tensors: tuple[keras.KerasTensor, ...]
    bags: tuple[Read, ...]
    fields: tuple[Read, ...]
    has_other: bool

    @property
    def boundary(self) -> list[keras.KerasTensor]:
        """What is read: the outputs of bag-layers and encoders, and the ids that gather them."""
        reads = (*self.bags, *self.fields)
        return [x for read in reads for x in (*read.node.outputs, *read.ids)]


@dataclass(frozen=True, eq=False)
class BagTree:
    """The bag-layers of a model.

    Attributes:
        nodes: where they are called, each after those that it depends on.
        records: of the rows of each bag-layer, in the same order; the last is of the top-bags.
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
    """The functional form of a Keras model.

    Raises:
        TypeError: if it is not a Keras model.
        ValueError: if it is not functional.
    """
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
    """The tree of a functional model's bag-layers; records at the top may hold fields alone.

    Raises:
        ValueError: if it has none, and is not computed from fields alone; if one is called twice,
            or read twice; if a nested model or a layer hides some; or if anything but fields joins
            what is above a bag-layer.
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
        tuple(read for read in reads if isinstance(read.node.operation, BagLayer)),
        tuple(read for read in reads if isinstance(read.node.operation, FieldEncoder)),
        has_other,
    )


def _check_read_once(reads: Sequence[Read], reader: str) -> None:
    nodes = [read.node for read in reads]
    for node in nodes:
        if sum(other is node for other in nodes) > 1:
            raise ValueError(
                "Expected a record to hold one bag of each bag-layer, and one value of each field. "
                f"Received: {reader} reads {node.operation.name!r} by several indices"
            )


def _check_nothing_beside(model: keras.Model, record: Record) -> None:
    """Raise ValueError where a record with bags is also computed from what rules cannot read.

    Rules read of a bag the clusters of its members, and of a record its fields. How bags are made
    of rows, the `members` and `weights` of a bag-layer, is read as it is, whatever it is computed
    from.
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
    known = [x for read in (*record.bags, *record.fields) for x in read.node.outputs]
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

"""Whether the network's class changes when the members that decided, or fields, are removed."""

import itertools
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import keras
import numpy as np

from keras_mmil._support.types import Config, Floats, Ints, Tensors
from keras_mmil.ragged import concat, n_top_bags, take
from keras_mmil.rules.evidence.certificate import Interval, interval
from keras_mmil.rules.evidence.edits import Editor, Member, UneditableError
from keras_mmil.rules.explain.explanation import Part, explain
from keras_mmil.rules.explain.reading import read
from keras_mmil.rules.network.capture import Network, Observation
from keras_mmil.rules.network.sources import Source
from keras_mmil.rules.network.targets import Outputs, Target
from keras_mmil.rules.trees.level import Level

__all__ = [
    "DeletionRow",
    "DeletionTest",
    "FieldDeletion",
    "deciding",
    "deletion",
    "deletion_of_fields",
]

_MOST_FIELDS = 100
_MOST_READ = 6_000  # top-bags, as often as one is read without a field
_LEAST, _MOST = 50, 500  # top-bags, if there are as many
_IN_VECTOR = re.compile(r"(\[[0-9]+\])+$")


@dataclass(frozen=True)
class DeletionRow:
    """One top-bag with and without the members that decided.

    Attributes:
        index: of the top-bag.
        removed: for each removed member the index of the bag-layer whose row it is, and its
            position; empty where nothing decided by being present.
        network: names of the network's class before and after.
        rules: names of the rules' class before and after.
        output: the network's output for its original class, before and after; NaN where the target
            is a function.
    """

    index: int
    removed: tuple[Member, ...]
    network: tuple[str, str]
    rules: tuple[str, str]
    output: tuple[float, float]

    @property
    def changed(self) -> bool:
        """Whether the network's class changed."""
        return self.network[0] != self.network[1]


@dataclass(frozen=True)
class DeletionTest:
    """How often the network's class changes when the members that decided are removed.

    Attributes:
        rows: one for each top-bag.
    """

    rows: tuple[DeletionRow, ...]

    @property
    def interval(self) -> Interval:
        """The share, with its interval at 95 %."""
        tested = [row for row in self.rows if row.removed]
        return interval(sum(row.changed for row in tested), len(tested))

    @property
    def share(self) -> float:
        """Of the top-bags with members that decided, the share whose class by the network changes
        without these; NaN if there are none."""
        return self.interval.estimate

    @property
    def n_undecided(self) -> int:
        """Number of top-bags where no member decided: the rule only requires some to be absent."""
        return sum(not row.removed for row in self.rows)

    def text(self) -> str:
        """The share, in a line."""
        result = self.interval
        text = (
            f"Without the members that decided, the network's class is another for {result} of "
            f"{result.n} top-bags."
        )
        if self.n_undecided:
            text += f" In {self.n_undecided} others, no member decides by being there."
        return text

    def __str__(self) -> str:
        return self.text()

    def to_dict(self) -> Config:
        """For JSON."""
        rows = []
        for row in self.rows:
            output = [None if math.isnan(x) else x for x in row.output]
            rows.append(vars(row) | {"output": output, "changed": row.changed})
        return {"share": self.interval.to_dict(), "n_undecided": self.n_undecided, "rows": rows}

    def table(self) -> str:
        """A line for each top-bag."""
        return "\n".join(
            f"{row.index:5}  {len(row.removed):3} removed  network {' → '.join(row.network)}  "
            f"rules {' → '.join(row.rules)}  output {row.output[0]:.4f} → {row.output[1]:.4f}"
            for row in self.rows
        )


@dataclass(frozen=True)
class FieldDeletion:
    """How often the network's class changes when a field is missing, or a bag is empty.

    Attributes:
        path: of the field or bag.
        is_bag: whether it is a bag, with all that is in its members.
        changed: the share of top-bags whose class changes, with its interval at 95 %.
    """

    path: str
    is_bag: bool
    changed: Interval

    def to_dict(self) -> Config:
        """For JSON."""
        return vars(self) | {"changed": self.changed.to_dict()}


def deciding(part: Part, innermost: bool = False) -> list[Member]:
    """The members of a part that decide.

    With `innermost`, members that decide replace the deciding bag that they are in.
    """
    members: list[Member] = []
    for child in part.children:
        if child.deciding:
            inner = deciding(child, innermost) if innermost else []
            members += inner or [(child.level, child.position)]
    return members


def deletion(
    levels: Sequence[Level],
    classes: Sequence[str],
    target: Target,
    network: Network,
    observe: Callable[[Iterable[Tensors], bool], Iterable[Observation]],
    data: Source,
    innermost: bool,
) -> DeletionTest:
    """Remove the members that decided from each top-bag, and ask the network again.

    `observe` runs the network on batches of checked top-bags, in order or not; for `innermost` see
    `deciding`.

    Raises:
        ValueError: if members cannot be removed, see `Editor`.
    """
    editor, rows = Editor(network), list[DeletionRow]()
    for batch in map(editor.plain, data.batches()):
        (seen,) = observe([batch], True)
        reading = read(levels, target, [seen])
        depth = math.inf if innermost else 1
        explanations = explain(levels, classes, reading, depth=depth)
        removed = [deciding(each.top_bag, innermost) for each in explanations]
        (edited,) = observe([editor.without(batch, [m for each in removed for m in each])], False)
        after = read(levels, target, [edited])
        before_output = _outputs(target, seen.outputs, reading.network)
        after_output = _outputs(target, edited.outputs, reading.network)
        offset = len(rows)
        rows += [
            DeletionRow(
                index=offset + i,
                removed=tuple((layer, (offset + at[0], *at[1:])) for layer, at in members),
                network=(classes[reading.network[i]], classes[after.network[i]]),
                rules=(classes[reading.labels[-1][i]], classes[after.labels[-1][i]]),
                output=(float(before_output[i]), float(after_output[i])),
            )
            for i, members in enumerate(removed)
        ]
    return DeletionTest(tuple(rows))


def deletion_of_fields(target: Target, network: Network, data: Source) -> list[FieldDeletion]:
    """Take one field from all top-bags, and ask the network again; those that matter most first.

    Positions of a vector count as one field, and the values in a bag of values as the bag.

    Raises:
        UneditableError: if there are no inputs that are fields.
    """
    editor = Editor(network)
    batches = [editor.plain(batch) for batch in data.batches()]
    fields: dict[str, list[str]] = {}
    for of_record in network.fields:
        for name in [field.path for field in of_record]:
            if editor.has_field(name) and not name.endswith("[]"):
                fields.setdefault(_IN_VECTOR.sub("", name), []).append(name)
    bags = {path: layer for layer, path in enumerate(network.paths) if path}
    if not fields and not bags:
        raise UneditableError(
            "Expected a network that reads fields, each an input with its name. "
            f"Received: {network.model.name!r}, which does not"
        )
    fields = dict(itertools.islice(fields.items(), max(_MOST_FIELDS - len(bags), 0)))
    inputs = concat(batches)
    n_all = n_top_bags(inputs)
    n = min(n_all, max(_LEAST, min(_MOST, _MOST_READ // (len(fields) + len(bags)))))
    some = take(inputs, np.linspace(0, n_all - 1, n).astype(int))

    without = [editor.without_fields(some, names) for names in fields.values()]
    without += [editor.without_bags(some, layer) for layer in bags.values()]
    edited = network.complete(concat([some, *without]))
    # At once, which takes half of the time, and so does not to trace a graph.
    outputs = keras.tree.map_structure(np.asarray, network.model(edited, training=False))
    before, *after = target.labels(outputs).reshape(-1, n)
    found = [
        FieldDeletion(path, path in bags, interval(int((labels != before).sum()), n))
        for path, labels in zip([*fields, *bags], after, strict=True)
    ]
    return sorted(found, key=lambda each: -each.changed.k)


def _outputs(target: Target, outputs: Outputs, labels: Ints) -> Floats:
    """The output of the class of each top-bag, or the only one; NaN for a function."""
    if target.function is not None:
        return np.full(len(labels), math.nan)
    (array,) = keras.tree.flatten(outputs)
    array = array.reshape(len(array), -1)
    columns = labels if target.kind == "argmax" else np.full(len(labels), target.index)
    return np.asarray(array[np.arange(len(array)), columns])

"""The table that rules which run elsewhere read: a row for every record."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from keras_mmil._support.files import atomic_write
from keras_mmil._support.rows import bags_of_members
from keras_mmil._support.types import Array, Ints, PathLike
from keras_mmil.interpretation.export.program import COLUMNS, Kind, program
from keras_mmil.interpretation.network.nesting import expand
from keras_mmil.interpretation.readout.reading import Reading
from keras_mmil.interpretation.rules.level import Level

__all__ = ["labels_table"]


def labels_table(
    levels: Sequence[Level], reading: Reading, path: PathLike | None = None
) -> pa.Table:
    """The table of some top-bags; see `Explainer.labels_table`.

    Args:
        levels: from the instances upwards.
        reading: the top-bags, as rules and network label them.
        path: of a Parquet file to write; None for none.
    """
    kinds = program(levels).kinds
    types = {"kind": pa.string(), "id": pa.int64(), "bag": pa.int64(), "weight": pa.float64()}
    types["cluster"] = pa.string()
    for kind in kinds:
        fields = kind.level.space.fields if kind.level else ()
        for field, names in zip(fields, kind.columns, strict=True):
            is_text = field.kind in ("category", "text")
            types |= dict.fromkeys(names, pa.string() if is_text else pa.float64())
    schema = pa.schema(types)
    parts = [
        pa.table({name: pa.array(x, types[name]) for name, x in part.items()})
        for part in _parts(kinds, reading)
    ]
    # Of columns that a kind of records does not have, all is missing.
    table = pa.concat_tables(parts, promote_options="default").select(list(types)).cast(schema)
    if path is not None:
        with atomic_write(path) as part:
            pyarrow.parquet.write_table(table, part)
    return table


def _parts(kinds: Sequence[Kind], reading: Reading) -> list[dict[str, Any]]:
    """The columns of each kind of records."""
    found = []
    for here, kind in zip(expand(reading.nestings, reading.parents), kinds, strict=False):
        bags = bags_of_members(here.row_splits)
        found.append(_columns(kind, here.rows, reading, bag=bags, weight=here.weights))
    top = np.arange(len(reading.network))
    nothing = np.full(len(top), None)
    found.append(_columns(kinds[-1], top, reading, bag=nothing, weight=np.ones(len(top))))
    return found


def _columns(
    kind: Kind, rows: Ints, reading: Reading, *, bag: Array, weight: Array
) -> dict[str, Any]:
    cluster = np.full(len(rows), None)
    if kind.level is None and kind.clusters is not None:
        nearest = reading.nearest[kind.clusters.level][rows]
        cluster = np.array(kind.labels, object)[nearest]
    values = (np.full(len(rows), kind.name, object), np.arange(len(rows)), bag, weight, cluster)
    found: dict[str, Any] = dict(zip(COLUMNS, values, strict=True))
    if kind.level is None:
        return found
    raw = reading.values[kind.level.record]
    for field, names, of_rows in zip(kind.level.space.fields, kind.columns, raw, strict=True):
        found |= zip(names, (x[rows] for x in field.exported(of_rows)), strict=True)
    return found

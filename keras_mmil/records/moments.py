"""Records as they were at a moment: without what came later."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from keras_mmil._support.formatting import percent
from keras_mmil._support.types import Array, Floats, Ints
from keras_mmil.records import arrow
from keras_mmil.records.fields import Field
from keras_mmil.records.keys import Key
from keras_mmil.records.reading import numbers_at, seconds_in
from keras_mmil.records.schema import Schema
from keras_mmil.records.sources import read_all

__all__ = ["Later", "Past", "as_of", "like_those"]

_DAY = 86400.0  # seconds
_AGE = "days_since_"


def as_of(
    records: Any,
    moment: str,
    times: Mapping[str, str | None] | None = None,
    *,
    verbose: bool = True,
) -> pa.StructArray:
    """Records as they were at a moment: what came later could tell the target, so it is left out.

    Members of bags are kept if their time is before the moment of their record; those without that
    time are left out, too. Other times that are after the moment, such as when an order was
    returned, become missing. Times become numbers of days before the moment: `placed` becomes
    `days_since_placed`. Other fields of a member are kept as they are, although they may have
    changed after the moment: see `find_leaks`.

    Args:
        records: in any form that `Schema.infer` accepts, such as the result of `link`.
        moment: path of the time in each record when its target was, or is to be, predicted.
        times: dict from paths of bags to the time that says since when a member is there, or to
            None for members to be kept. By default that is the first of the times of a member that
            are missing least; members without a time are kept if what they are in is.
        verbose: whether to print which times are taken, and how much is left out.

    Returns:
        StructArray, which `Schema.infer` and estimators take. Do the same with records to predict.

    Raises:
        KeyError: if there is no such path, or time.
        ValueError: if the moment is in a bag, no time, or missing in a record, or if bags with
            times are samples (`at_most` of `link`), whose sizes would tell what comes later.

    Example:

    >>> records = link(tables, top="labels", keys=keys)
    >>> records = as_of(records, "when")
    customers.orders: those placed before `when`, 93.1 % (no time: 0)
    """
    array = read_all(records)
    past = Past(Schema.infer(array), moment, times or {})
    found = past.of(array)
    if verbose:
        print("\n".join(past.said))
    return found


def like_those(records: pa.Array, schema: Schema, moment: str, times: Any) -> pa.StructArray:
    """New records as they were, like those of a schema that `as_of` returned with these times."""
    known = (each for each in schema if each.name.startswith(_AGE))
    paths = [x.path.removesuffix(x.name) + x.name.removeprefix(_AGE) for x in known]
    found = Schema.infer(records, dict.fromkeys(paths, "time"))
    bags = {part.path for part in found if part.type == "bag"}
    own = {path: name for path, name in times.items() if path in bags}
    return Past(found, moment, own).of(records)


@dataclass(frozen=True)
class Later:
    """Members or values after the moment.

    Attributes:
        path: of the bag, or of the time.
        time: path of the time of members; the same as `path` of values.
        n: members, or values that are there.
        by_record: how many of them are after the moment, int [records].
    """

    path: str
    time: str
    n: int
    by_record: Ints


@dataclass(eq=False)
class Past:
    """Leaves out what is after a moment: see `as_of`.

    Attributes:
        is_inclusive: whether members that come at the very moment are kept.
        chosen: the times of the members of each bag.
        later: what was left out of the last records.
        said: lines about these.
    """

    schema: Schema
    moment: str
    times: Mapping[str, str | None]
    is_inclusive: bool = False
    chosen: dict[str, str | None] = field(default_factory=dict)
    later: list[Later] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def of(self, records: pa.Array) -> pa.StructArray:
        """The records as they were."""
        bags = {part.path for part in self.schema if part.type == "bag"}
        if unknown := self.times.keys() - bags:
            raise KeyError(
                f"Expected paths of bags, such as {', '.join(sorted(bags)) or '(there are none)'}. "
                f"Received: {min(unknown)!r}"
            )
        if self.schema[self.moment].kind == "constant":
            self.schema[self.moment] = "time"
        moments = numbers_at(self.schema, records, self.moment)
        if (n_missing := int(np.isnan(moments).sum())) > 0:
            raise ValueError(
                f"Expected a moment for each record. Received: none at {self.moment!r} in "
                f"{n_missing} of {len(records)} records"
            )
        self.later, self.said, self._n = [], [], len(records)
        return self._record(records, self.schema.root, moments, np.arange(len(records)))

    def _record(
        self, records: pa.StructArray, around: Field, moments: Floats, top: Ints
    ) -> pa.StructArray:
        """Records with their moments, each in one of the records at the top."""
        columns: dict[str, tuple[pa.Array, pa.Field]] = {}
        for column, its_field in zip(records.flatten(), records.type, strict=True):
            name, parts = its_field.name, [x for x in around.parts if x.name == its_field.name]
            part = parts[0] if len(parts) == 1 else None
            if part is not None and part.kind == "time" and part.path != self.moment:
                column, name = self._age(column, part, moments, top), _AGE + name
            elif part is not None and part.type == "record" and pa.types.is_struct(column.type):
                column = self._record(column, part, moments, top)
            elif part is not None and _holds_records(part, column):
                column = self._bag(column, its_field, part, moments, top)
            if name in columns:
                raise ValueError(f"Expected no field {name!r} beside times. Received: one")
            if _key_to(its_field):  # the part is no longer what is in a table
                its_field = its_field.remove_metadata()
            columns[name] = column, its_field.with_name(name).with_type(column.type)
        arrays, fields = zip(*columns.values(), strict=True) if columns else ((), ())
        mask = records.is_null() if records.null_count else None
        return pa.StructArray.from_arrays(list(arrays), fields=list(fields), mask=mask)

    def _age(self, column: pa.Array, part: Field, moments: Floats, top: Ints) -> pa.Array:
        """Days from times to moments, missing for times after these."""
        seconds = seconds_in(part, column)
        is_later = seconds > moments
        self._tell(part.path, part.path, seconds, is_later, top)
        days = np.where(is_later, np.nan, (moments - seconds) / _DAY)
        return pa.array(days, mask=np.isnan(days))

    def _bag(
        self, lists: pa.Array, of: pa.Field, part: Field, moments: Floats, top: Ints
    ) -> pa.Array:
        """Bags of the members that were there before the moments."""
        (item,) = part.parts
        lengths = arrow.as_numpy(pc.fill_null(pc.list_value_length(lists), 0))
        members, at = lists.flatten(), np.repeat(np.arange(len(lists)), lengths)
        time = self._time_of(part, item)
        self.chosen[part.path] = None if time is None else time.name
        if time is None:
            self.said.append(f"{part.path}: all members, which have no time")
        else:
            _, most = _key_to(of) or (None, None)
            if most is not None:
                # How many of a sample came before the moment tells how many come after it.
                raise ValueError(
                    f"Expected all members of {part.path!r}, of which those before a moment are "
                    f"kept. Received: samples, of at_most={most}"
                )
            seconds = seconds_in(time, pc.struct_field(members, [time.name]))
            is_seen = seconds <= moments[at] if self.is_inclusive else seconds < moments[at]
            is_later = ~is_seen
            self._tell(part.path, time.path, seconds, is_later & ~np.isnan(seconds), top[at])
            until = "not after" if self.is_inclusive else "before"
            self.said.append(
                f"{part.path}: those with {time.name} {until} {self.moment}, "
                f"{percent(1 - is_later.mean() if len(at) else 1)} "
                f"(no time: {np.isnan(seconds).sum():,})"
            )
            members, at = members.filter(pa.array(~is_later)), at[~is_later]
        kept = self._record(members, item, moments[at], top[at])
        return arrow.lists(kept, at, len(lists), lists.is_null() if lists.null_count else None)

    def _time_of(self, part: Field, item: Field) -> Field | None:
        """The time since which members of a bag are there."""
        known = [each for each in item.parts if each.kind == "time"]
        if part.path not in self.times:
            return min(known, key=lambda each: each.share_missing, default=None)
        name = self.times[part.path]
        if name is not None and name not in {each.name for each in known}:
            raise KeyError(
                f"Expected one of the times {', '.join(each.name for each in known) or '(none)'} "
                f"in {part.path!r}. Received: {name!r}"
            )
        return next((each for each in known if each.name == name), None)

    def _tell(self, path: str, time: str, seconds: Floats, is_later: Array, top: Ints) -> None:
        n = int((~np.isnan(seconds)).sum())
        by_record = np.bincount(top[is_later], minlength=self._n)
        self.later.append(Later(path, time, n, by_record))
        if path == time and is_later.any():
            share = percent(is_later.sum() / n)
            self.said.append(f"{path}: {share} are after {self.moment}, and become missing")


def _key_to(part: pa.Field) -> tuple[Key, int | None] | None:
    """The key that leads to a part of linked tables, and the size of samples there."""
    return Key.marked((part.metadata or {}).get(arrow.KEY, b"").decode())


def _holds_records(part: Field, column: pa.Array) -> bool:
    is_list = pa.types.is_list(column.type) or pa.types.is_large_list(column.type)
    return bool(
        part.type == "bag"
        and is_list
        and pa.types.is_struct(column.type.value_type)
        and len(part.parts) == 1
        and part.parts[0].type == "record"
    )

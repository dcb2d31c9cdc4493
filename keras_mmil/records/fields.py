"""The parts of records with what they are taken for: a tree, made of what was seen."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from keras_mmil._support.formatting import number_text, time_text
from keras_mmil.records import kinds, paths
from keras_mmil.records.kinds import Decision
from keras_mmil.records.paths import alternative, child, item, position
from keras_mmil.records.statistics import Bags, Observed, Records, Scalar, Seen, Values

__all__ = ["KEY", "Field", "scalar_types", "tree", "walk"]

KEY = "key"  # of the field that holds the keys of a bag by key
_N_SHOWN = 3
_LARGE = 1e30  # number, near the end of float32
_WIDEST = 24  # characters of an example
_EARLIEST, _LATEST = -(10**10), 10**11  # seconds since 1970 that are shown as times


@dataclass(frozen=True)
class Field:
    """One part of the records.

    Attributes:
        path: such as `orders.items.price`.
        name: of the field in its record; empty for members of a bag, and for alternatives.
        kind: "number", "category", "boolean", "text", "time", "record", "vector" or "bag"; or why
            it is left out: "constant", "identifier", "empty" (nothing was ever there) or "dropped".
        why: what the kind was chosen for.
        type: that of the values it is of, one of `statistics.TYPES`; empty if there were none.
        share_missing: share of the places that hold no such value.
        seen: statistics of the values, None if there were none.
        parts: the fields of a record; the positions of a vector, fields named "[0]", "[1]" and so
            on; or the members of a bag, several `Field`s if they are of several types. A bag by key
            has the keys as a further one, and the values.
        is_keyed: whether it is a bag of which the data hold records, with a key for each member.
        chosen_at: the path at which its kind is chosen: `bag[]` of records in a bag, else its own.
        form: the form in which its texts are read, as numbers, booleans or times, or `kinds.DIGITS`
            or one of `kinds.EPOCHS`, of integers; else empty: see `kinds.Decision`.
        texts: statistics of the texts that are there besides, and read as values of the type.
    """

    path: str
    name: str
    kind: str
    why: str
    type: str
    share_missing: float
    seen: Seen | None
    parts: tuple["Field", ...] = ()
    is_keyed: bool = False
    chosen_at: str = ""
    form: str = ""
    texts: Values | None = None

    @property
    def place(self) -> str:
        """The path of where it is, alone or beside fields of values of other types."""
        return paths.place(self.chosen_at or self.path)

    @property
    def values(self) -> Values | None:
        """Statistics of the values as they are read, such as of numbers where they are texts."""
        if not isinstance(self.seen, Values):
            return None
        if self.form == kinds.DIGITS:
            counts = self.seen.counts
            as_texts = None if counts is None else {str(x): n for x, n in counts.items()}
            return replace(self.seen, counts=as_texts)
        if self.form in kinds.EPOCHS:
            return _as_seconds(self.seen, kinds.EPOCHS[self.form])
        read = [self.seen] if self.type != "text" or not self.form else []
        texts = self.texts or self.seen
        if self.form in texts.as_forms:
            read.append(texts.as_forms[self.form].values)
        return functools.reduce(Values.merged, read, Values())

    @property
    def is_two_words(self) -> bool:
        """Whether it is read as booleans, of two texts such as 'yes' and 'no'."""
        if not isinstance(self.seen, Values) or self.type != "text" or self.texts is not None:
            return False
        return self.kind == "boolean" and self.seen.n_distinct == 2

    @property
    def is_left_out(self) -> bool:
        """Whether it is not read."""
        return self.kind in kinds.LEFT_OUT

    @property
    def has_fields(self) -> bool:
        """Whether its parts are fields beside each other: it is a record, or a vector."""
        return self.kind in ("record", "vector")

    @property
    def is_read(self) -> bool:
        """Whether tensors come of it: of a bag in any case, of a record if it has such parts."""
        if self.has_fields:
            return any(part.is_read for part in self.parts)
        return not self.is_left_out

    @property
    def is_shared(self) -> bool:
        """Whether it is a row of a linked table that several rows may refer to."""
        return isinstance(self.seen, Records) and any(
            each.key.startswith("of ") for each in self.seen.fields.values()
        )

    @property
    def n_distinct(self) -> int | None:
        """Number of distinct values; None if they are not values, or too many to be counted."""
        return self.seen.n_distinct if isinstance(self.seen, Values) else None

    @property
    def examples(self) -> str:
        """Some values: the most frequent ones, where they are counted."""
        if not isinstance(self.seen, Values):
            return ""
        values, counts = list(self.seen.smallest), self.seen.counts
        if self.type == "number" and self.seen.n_integers < self.seen.count:
            # Large integers are floats, too, where they are read together with others.
            values = list(map(float, values))
            counts = None if counts is None else {float(x): n for x, n in counts.items()}
        if counts is not None:
            order = sorted(counts.items(), key=lambda pair: (-pair[1], str(pair[0])))
            values = [value for value, _ in order[:_N_SHOWN]]
        if self.type == "time" or self.form in kinds.EPOCHS:
            values = [_as_time(value / kinds.EPOCHS.get(self.form, 1)) for value in values]
        return ", ".join(map(_shown, values))


def _as_seconds(seen: Values, per_second: float) -> Values:
    """The statistics of times that are integers, in seconds."""
    counts = seen.counts
    return replace(
        seen,
        counts=None if counts is None else {x / per_second: n for x, n in counts.items()},
        smallest=tuple(x / per_second for x in seen.smallest),
        largest=seen.largest / per_second,
        mean=seen.mean / per_second,
        squares=seen.squares / per_second**2,
        n_integers=0,
    )


def tree(observed: Observed, choices: Mapping[str, str]) -> Field:
    """The records at the top, with all parts.

    Args:
        observed: what was seen at the top.
        choices: kinds by path that were chosen by people, or "dropped".
    """
    seen = observed.by_type.get("record")
    if not isinstance(seen, Records):
        seen = Records()
    return Field("", "", "record", "the top", "record", 0.0, seen, _fields(seen, "", choices))


def walk(field: Field, also_left_out: bool = False) -> Iterator[Field]:
    """A part and all parts in it; those that are left out are entered only on request."""
    yield field
    if also_left_out or not field.is_left_out:
        for part in field.parts:
            yield from walk(part, also_left_out)


def _fields(seen: Records, path: str, choices: Mapping[str, str]) -> tuple[Field, ...]:
    return tuple(
        field
        for name, observed in seen.fields.items()
        for field in _place(observed, child(path, name), name, choices)
    )


def _place(
    observed: Observed,
    path: str,
    name: str,
    choices: Mapping[str, str],
    path_of_records: str | None = None,
) -> Iterator[Field]:
    """What is at one place: a `Field` for each type of value that was seen there."""
    if not observed.by_type:
        kind, why = choices.get(path, "empty"), "nothing was ever there"
        yield Field(path, name, kind, why, "", 1.0, None, chosen_at=path)
    together = _together(observed, path, name, choices)
    if together is not None:
        yield together
        return
    for type_, seen in observed.by_type.items():
        is_only = len(observed.by_type) == 1
        here = path if is_only else alternative(path, type_)
        inner = here if path_of_records is None else path_of_records
        decision, parts, is_keyed = _decided(observed, seen, here, type_, name, choices, inner)
        kind, why, form = decision
        if observed.key:
            kind, why, form = "identifier", f"key {observed.key}", ""
        elif not is_only:
            why += f"; {seen.count / observed.n_present * 100:.0f} % of what is there are {type_}s"
        chosen = choices.get(here, "dropped" if choices.get(path) == "dropped" else None)
        if chosen:
            kind, why = chosen, "chosen"
            form = kinds.form_chosen(kind, type_, seen) if isinstance(seen, Values) else ""
        shown = inner if type_ == "record" and not is_keyed else here
        field = Field(shown, name, kind, why, type_, 0.0, seen, parts, is_keyed, here, form)
        yield _with_missing(field, observed)


def _together(observed: Observed, path: str, name: str, choices: Mapping[str, str]) -> Field | None:
    """Values of a type with texts that are read as such; None where they are parts of their own."""
    texts = observed.by_type.get("text")
    types = [type_ for type_ in observed.by_type if type_ != "text"]
    if not isinstance(texts, Values) or len(types) != 1 or observed.key:
        return None
    (type_,) = types
    seen, chosen = observed.by_type[type_], choices.get(path)
    is_apart = any(alternative(path, each) in choices for each in observed.by_type)
    if not isinstance(seen, Values) or is_apart:
        return None
    decision = kinds.with_texts(name, type_, seen, texts)
    if chosen in kinds.OF_TEXTS or (chosen and decision):
        form = kinds.form_chosen(chosen, type_, seen, texts)
        decision = Decision(chosen, "chosen", form)
    if decision is None:
        return None
    kind, why, form = decision
    field = Field(path, name, kind, why, type_, 0.0, seen, chosen_at=path, form=form, texts=texts)
    return _with_missing(field, observed)


def _with_missing(field: Field, observed: Observed) -> Field:
    """A part at a place, with the share of what is missing there."""
    seen = field.values or field.seen
    count = 0 if seen is None else seen.count
    return replace(field, share_missing=1 - count / observed.count)


def _decided(
    observed: Observed,
    seen: Seen,
    path: str,
    type_: str,
    name: str,
    choices: Mapping[str, str],
    path_of_records: str,
) -> tuple[Decision, tuple[Field, ...], bool]:
    """What values of one type are taken for, the parts in them, and whether they are by key."""
    if isinstance(seen, Values):
        return kinds.decide(name, type_, seen, seen.count == observed.count), (), False
    if isinstance(seen, Bags):
        decision = kinds.of_lists(seen)
        if decision.kind == "vector" and _chosen_in(seen.members, item(path), choices):
            decision = Decision("bag", "by the choice of a kind for its members")
        kind = choices.get(path, decision.kind)
        if kind == "vector" or (kind == "dropped" and decision.kind == "vector"):
            return decision, _positions(seen, path, choices), False
        return decision, _members(seen.members, path, choices), False
    decision = kinds.is_keyed(seen)
    kind = choices.get(path, decision.kind)
    if kind == "record" or (kind == "dropped" and decision.kind == "record"):
        return decision, _fields(seen, path_of_records, choices), False
    entries = seen.entries()
    parts = _members(entries.each, path, choices)
    taken = {part.name for member in parts for part in (member, *member.parts)}
    key = KEY
    while key in taken:
        key = f"_{key}"
    keys = Observed(entries.keys.count, {"text": entries.keys} if entries.keys.count else {})
    return decision, (*_place(keys, child(path, key), key, choices), *parts), True


def _members(observed: Observed, path: str, choices: Mapping[str, str]) -> tuple[Field, ...]:
    """What the members of a bag are; records among them have its own path."""
    return tuple(_place(observed, item(path), "", choices, path_of_records=path))


def _positions(seen: Bags, path: str, choices: Mapping[str, str]) -> tuple[Field, ...]:
    return tuple(
        field
        for i, observed in enumerate(seen.positions)
        for field in _place(observed, position(path, i), position("", i), choices)
    )


def _chosen_in(members: Observed, path: str, choices: Mapping[str, str]) -> bool:
    """Whether a kind was chosen for members of a bag."""
    return path in choices or any(alternative(path, type_) in choices for type_ in members.by_type)


def _as_time(seconds: float) -> str:
    """A time as people write it."""
    if not _EARLIEST <= seconds <= _LATEST:
        return str(seconds)
    return time_text(seconds).replace("T", " ")


def _shown(value: Scalar) -> str:
    text = str(value)
    if isinstance(value, float):  # what is no whole number in float32, as networks read it
        is_long = not value.is_integer() and abs(value) < _LARGE
        text = number_text(float(str(np.float32(value))) if is_long else value)
    text = " ".join(text.split()) or repr(text)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def scalar_types(fields: Iterable[Field]) -> dict[str, str]:
    """The types of the values of some fields by their names, where they are of one type only."""
    of_name: dict[str, set[str]] = {}
    for each in fields:
        of_name.setdefault(each.name, set()).add(each.type)
    single = {name: types.pop() for name, types in of_name.items() if len(types) == 1}
    return {name: type_ for name, type_ in single.items() if type_ not in ("", "record", "bag")}

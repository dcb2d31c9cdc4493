"""The parts of records with what they are taken for: a tree, made of a profile."""

import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from keras_mmil._support.formatting import number_text, time_text
from keras_mmil.records import kinds, paths
from keras_mmil.records.kinds import Decision
from keras_mmil.records.paths import alternative, child, item, position
from keras_mmil.records.profiling import (
    MAX_FIELDS,
    TYPES,
    Bags,
    FieldProfile,
    Records,
    Scalar,
    Seen,
    Values,
)
from keras_mmil.records.scalars import DIGITS, EPOCHS

__all__ = [
    "Field",
    "applicable",
    "by_choice",
    "by_path",
    "check_choices",
    "scalar_types",
    "tree",
    "walk",
]

_KEY = "key"  # the name of the keys of a bag by key
_N_SHOWN = 3
_LARGE = 1e30  # number, near the end of float32
_WIDEST = 24  # characters of an example
_EARLIEST, _LATEST = -(10**10), 10**11  # seconds since 1970 that are shown as times


@dataclass(frozen=True)
class Field:
    """One part of the records.

    Attributes:
        path: such as `orders.items.price`.
        name: of the field in its record; empty for members of a bag.
        kind: "number", "category", "boolean", "text", "time", "record", "vector" or "bag"; or why
            it is left out: "constant", "identifier", "empty" (nothing was ever there) or "dropped".
        why: the reason for the kind.
        type: of its values: "number", "boolean", "text", "time", "record" or "bag"; empty if there
            are none.
        share_missing: share of the places that hold no such value.
        seen: statistics of the values, None if there were none.
        parts: the fields of a record; the positions of a vector, fields named "[0]", "[1]" and so
            on; or the members of a bag, one `Field` for each type. A bag by key has its keys, too.
        is_map: whether it is a bag by key: in the data a record, with a key for each member.
        chosen_at: the path at which its kind is chosen: `bag[]` of records in a bag, else its own.
        form: how its texts, or integers, are read as numbers, booleans or times, such as
            "thousands"; else empty.
        texts: statistics of the texts beside its values, which are read as such values.
    """

    path: str
    name: str
    kind: str
    why: str
    type: str
    share_missing: float
    seen: Seen | None
    parts: tuple["Field", ...] = ()
    is_map: bool = False
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
        if self.form == DIGITS:
            counts = self.seen.counts
            as_texts = None if counts is None else {str(x): n for x, n in counts.items()}
            return replace(self.seen, counts=as_texts)
        if self.form in EPOCHS:
            return _as_seconds(self.seen, EPOCHS[self.form])
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
        """Whether it is a record or a vector, whose parts are fields side by side."""
        return self.kind in ("record", "vector")

    @property
    def is_read(self) -> bool:
        """Whether it gives tensors: every bag does, a record if one of its parts does."""
        if self.has_fields:
            return any(part.is_read for part in self.parts)
        return not self.is_left_out

    @property
    def n_distinct(self) -> int | None:
        """Number of distinct values; None if they are not scalars, or too many to be counted."""
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
        if self.type == "time" or self.form in EPOCHS:
            values = [_time(value / EPOCHS.get(self.form, 1)) for value in values]
        return ", ".join(map(_example, values))


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


def _time(seconds: float) -> str:
    if not _EARLIEST <= seconds <= _LATEST:
        return str(seconds)
    return time_text(seconds).replace("T", " ")


def _example(value: Scalar) -> str:
    text = str(value)
    if isinstance(value, float):  # what is no whole number in float32, as networks read it
        is_long = not value.is_integer() and abs(value) < _LARGE
        text = number_text(float(str(np.float32(value))) if is_long else value)
    text = " ".join(text.split()) or repr(text)
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"


def tree(profile: FieldProfile, choices: Mapping[str, str]) -> Field:
    """The records at the top, with all parts.

    Args:
        profile: of the top.
        choices: kinds by path, or "dropped", that a user has chosen.
    """
    seen = profile.by_type.get("record")
    if not isinstance(seen, Records):
        seen = Records(0, {})
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
        for name, profile in seen.fields.items()
        for field in _place(profile, child(path, name), name, choices)
    )


def _place(
    profile: FieldProfile,
    path: str,
    name: str,
    choices: Mapping[str, str],
    path_of_records: str | None = None,
) -> Iterator[Field]:
    """The fields of one place: a `Field` for each type of value that was seen there."""
    if not profile.by_type:
        kind, why = choices.get(path, "empty"), "nothing was ever there"
        yield Field(path, name, kind, why, "", 1.0, None, chosen_at=path)
    together = _together(profile, path, name, choices)
    if together is not None:
        yield together
        return
    for type_, seen in profile.by_type.items():
        is_only = len(profile.by_type) == 1
        here = path if is_only else alternative(path, type_)
        inner = here if path_of_records is None else path_of_records
        is_map, parts = False, tuple[Field, ...]()
        if isinstance(seen, Values):
            decision = kinds.decide(name, type_, seen, seen.count == profile.count)
        elif isinstance(seen, Bags):
            decision, parts = _lists(seen, here, choices)
        else:
            decision, parts, is_map = _records(seen, here, choices, inner)
        kind, why, form = decision
        if profile.is_key:
            kind, why, form = "identifier", f"key {profile.key}", ""
        elif profile.copied and isinstance(seen, Values) and kinds.are_many(seen):
            kind, why, form = "identifier", f"always that of {profile.copied}", ""
        elif not is_only:
            why += f"; {seen.count / profile.n_present * 100:.0f} % of what is there are {type_}s"
        chosen = choices.get(here, "dropped" if choices.get(path) == "dropped" else None)
        if chosen:
            kind, why = chosen, "chosen"
            form = kinds.form_chosen(kind, type_, seen) if isinstance(seen, Values) else ""
        own = inner if type_ == "record" and not is_map else here
        field = Field(own, name, kind, why, type_, 0.0, seen, parts, is_map, here, form)
        yield _with_missing(field, profile)


def _together(
    profile: FieldProfile, path: str, name: str, choices: Mapping[str, str]
) -> Field | None:
    """Values of a type with texts that are read as such; None where they are parts of their own."""
    texts = profile.by_type.get("text")
    types = [type_ for type_ in profile.by_type if type_ != "text"]
    if not isinstance(texts, Values) or len(types) != 1 or profile.is_key:
        return None
    (type_,) = types
    seen, chosen = profile.by_type[type_], choices.get(path)
    is_apart = any(alternative(path, each) in choices for each in profile.by_type)
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
    return _with_missing(field, profile)


def _with_missing(field: Field, profile: FieldProfile) -> Field:
    """A part at a place, with the share of what is missing there."""
    seen = field.values or field.seen
    count = 0 if seen is None else seen.count
    return replace(field, share_missing=1 - count / profile.count)


def _lists(seen: Bags, path: str, choices: Mapping[str, str]) -> tuple[Decision, tuple[Field, ...]]:
    """What lists are taken for, and their positions or members."""
    decision, inner = kinds.of_lists(seen), item(path)
    types = seen.members.by_type
    if decision.kind == "vector" and (
        inner in choices or any(alternative(inner, type_) in choices for type_ in types)
    ):
        decision = Decision("bag", "by the choice of a kind for its members")
    if not _is_taken_for("vector", decision, path, choices):
        return decision, _members(seen.members, path, choices)
    return decision, tuple(
        field
        for i, profile in enumerate(seen.positions)
        for field in _place(profile, position(path, i), position("", i), choices)
    )


def _records(
    seen: Records, path: str, choices: Mapping[str, str], path_of_records: str
) -> tuple[Decision, tuple[Field, ...], bool]:
    """What records are taken for, their fields or members, and whether they are a bag by key."""
    decision = kinds.of_records(seen)
    if _is_taken_for("record", decision, path, choices):
        return decision, _fields(seen, path_of_records, choices), False
    entries = seen.entries()
    parts = _members(entries.each, path, choices)
    taken = {part.name for member in parts for part in (member, *member.parts)}
    key = _KEY
    while key in taken:
        key = f"_{key}"
    of_keys = {"text": entries.keys} if entries.keys.count else {}
    keys = FieldProfile(entries.keys.count, dict(of_keys))
    return decision, (*_place(keys, child(path, key), key, choices), *parts), True


def _is_taken_for(kind: str, decision: Decision, path: str, choices: Mapping[str, str]) -> bool:
    chosen = choices.get(path, decision.kind)
    return chosen == kind or (chosen == "dropped" and decision.kind == kind)


def _members(profile: FieldProfile, path: str, choices: Mapping[str, str]) -> tuple[Field, ...]:
    """The members of a bag; records among them have its own path."""
    return tuple(_place(profile, item(path), "", choices, path_of_records=path))


def scalar_types(fields: Iterable[Field]) -> dict[str, str]:
    """The types of the scalars of some fields by name, where there is only one type."""
    of_name: dict[str, set[str]] = {}
    for each in fields:
        of_name.setdefault(each.name, set()).add(each.type)
    single = {name: types.pop() for name, types in of_name.items() if len(types) == 1}
    return {name: type_ for name, type_ in single.items() if type_ not in ("", "record", "bag")}


def by_path(root: Field, also_left_out: bool = False) -> dict[str, Field]:
    """The parts of records by path; those in left-out ones only on request."""
    parts: dict[str, Field] = {}
    for field in walk(root, also_left_out):
        parts.setdefault(field.path, field)  # records in a bag have the bag's path
    del parts[""]
    return parts


def by_choice(root: Field, also_left_out: bool = False) -> dict[str, Field]:
    """Same as `by_path`, with records in bags also by `chosen_at`: `orders[]`."""
    parts = by_path(root, also_left_out)
    for field in walk(root, also_left_out):
        if field.chosen_at:
            parts.setdefault(field.chosen_at, field)
    return parts


def applicable(profile: FieldProfile, choices: Mapping[str, str]) -> dict[str, str]:
    """The choices for parts that the records have."""
    parts = by_choice(tree(profile, choices), also_left_out=True)
    return {
        path: kind
        for path, kind in choices.items()
        if path in parts or (kind == "dropped" and _types_at(path, parts))
    }


def check_choices(profile: FieldProfile, choices: Mapping[str, str]) -> None:
    """Raise ValueError where records cannot be read, or cannot be of the kinds that were chosen."""
    top = profile.by_type.get("record")
    if isinstance(top, Records) and top.by_key is not None:
        raise ValueError(
            f"Expected at most {MAX_FIELDS} fields of the records at the top. Received: more. "
            "Leave some out, or put those that are alike into one field: a list, or an object, "
            "which is a bag by key"
        )
    if not choices:
        return
    parts = by_choice(tree(profile, choices), also_left_out=True)
    for path, kind in choices.items():
        types = _types_at(path, parts)
        if types and kind == "dropped":
            continue
        if path not in parts:
            what = f"{' and '.join(types)} values" if types else "nothing"
            raise ValueError(f"Expected {kind} at {path!r}, as chosen. Received: {what} there")
        allowed = _allowed(parts[path])
        if kind not in allowed:
            raise ValueError(
                f"Expected one of these kinds for {path!r}: {', '.join(allowed)}. "
                f"Received: {kind!r}"
            )


def _types_at(path: str, parts: Mapping[str, Field]) -> list[str]:
    """The types of the values at a path, where they are of several."""
    return [type_ for type_ in TYPES if alternative(path, type_) in parts]


def _allowed(field: Field) -> tuple[str, ...]:
    """The kinds that may be chosen for a part."""
    if isinstance(field.seen, Values):
        return (*kinds.possible(field.type, field.seen, field.texts), "dropped")
    if isinstance(field.seen, Records):
        return ("bag", *(["record"] if field.seen.by_key is None else []), "dropped")
    if isinstance(field.seen, Bags):
        return ("bag", *(["vector"] if field.seen.positions else []), "dropped")
    return ("dropped",)

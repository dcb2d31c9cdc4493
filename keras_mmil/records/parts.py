"""The parts of records by path, and the choice of their kinds."""

import difflib
from collections.abc import Iterator, Mapping
from functools import cached_property

from keras_mmil.records import kinds
from keras_mmil.records.choices import by_choice, by_path, check
from keras_mmil.records.fields import Field, tree, walk
from keras_mmil.records.paths import alternative, item, place
from keras_mmil.records.showing import as_html, as_text
from keras_mmil.records.statistics import TYPES, Observed

__all__ = ["Parts"]


def _is_in(path: str, part: Field) -> bool:
    return any(each.path == path for each in walk(part, also_left_out=True))


class Parts:
    """Parts that are found by their paths, and whose kinds can be set: the base of `Schema`.

    `schema[path]` is a `Field`, `for field in schema` goes over all of them that are read or could
    be, and `schema[path] = kind` chooses a kind.
    """

    def __init__(self) -> None:
        self._observed = Observed()
        self._choices: dict[str, str] = {}

    @property
    def choices(self) -> dict[str, str]:
        """The kinds that were chosen, and "dropped", by path: a copy."""
        return dict(self._choices)

    @property
    def n_records(self) -> int:
        """Number of records that were seen."""
        return self._observed.n_present

    @cached_property
    def root(self) -> Field:
        """The records at the top, with all their parts."""
        return tree(self._observed, self._choices)

    @cached_property
    def _by_path(self) -> dict[str, Field]:
        return by_path(self.root)

    @cached_property
    def _by_choice(self) -> dict[str, Field]:
        return by_choice(self.root)

    def __iter__(self) -> Iterator[Field]:
        return iter(self._by_path.values())

    def __len__(self) -> int:
        return len(self._by_path)

    def __contains__(self, path: str) -> bool:
        return path in self._by_choice

    def __getitem__(self, path: str) -> Field:
        """The part with a path.

        Raises:
            KeyError: if there is none.
        """
        try:
            return self._by_choice[path]
        except KeyError:
            raise KeyError(
                f"Expected a path of the schema, such as {', '.join(self._like(path))}. "
                f"Received: {path!r}{self._dropped_with(path)}"
            ) from None

    def _like(self, path: object) -> list[str]:
        """Paths of one type of values there, or that are written alike, or else the first ones."""
        by_type = [each for each in self._by_path if each.startswith(f"{path}<")]
        close = by_type or difflib.get_close_matches(str(path), self._by_path, 3)
        return close or list(self._by_path)[:5]

    def _dropped_with(self, path: str) -> str:
        """What is said of a part that is in one which was dropped."""
        if path not in by_path(self.root, also_left_out=True):
            return ""
        dropped = (part for part in self if part.kind == "dropped" and _is_in(path, part))
        around = next(dropped).path
        chosen = around if around in self._choices else place(around)
        return f", which is in {around!r}, dropped by the choice {chosen!r}: 'dropped'"

    def __setitem__(self, path: str, kind: str) -> None:
        """Choose the kind of a part; of a bag of values, that of its values.

        Raises:
            KeyError: if there is no such path.
            ValueError: if what was seen there cannot be of that kind.
        """
        choices = self._choices | {path: kind}
        if path not in by_choice(tree(self._observed, choices)):  # texts beside numbers become so
            self[path]  # raises
        elif path in self and self[path].kind == "bag" and kind in kinds.SCALARS:
            path = item(path) if item(path) in self else path
        self._take(self._observed, self._choices | {path: kind})

    def __delitem__(self, path: str) -> None:
        """Take back what was chosen for a part, which is then what the schema takes it for.

        Raises:
            KeyError: if nothing was chosen.
        """
        if path not in self._choices:
            raise KeyError(
                f"Expected a path for which a kind was chosen: {', '.join(self._choices)}. "
                f"Received: {path!r}"
            )
        self._take(self._observed, {k: v for k, v in self._choices.items() if k != path})

    def drop(self, path: str) -> None:
        """Leave out a part, with all that is in it.

        Args:
            path: where values of several types were seen, also their common path, such as `volume`
                for `volume<number>` and `volume<text>`.

        Raises:
            KeyError: if there is no such path.
        """
        if not any(alternative(path, type_) in self for type_ in TYPES):
            self[path]  # raises
        self._take(self._observed, self._choices | {path: "dropped"})

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        """For notebooks."""
        return as_html(self)

    def _take(self, observed: Observed, choices: Mapping[str, str]) -> None:
        """Have these statistics and choices, if they go together."""
        check(observed, choices)
        self._observed, self._choices = observed, dict(choices)
        self.__dict__.pop("root", None)
        self.__dict__.pop("_by_path", None)
        self.__dict__.pop("_by_choice", None)

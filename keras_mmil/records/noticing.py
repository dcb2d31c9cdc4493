"""What was not read of records as the schema has it, counted for one warning."""

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from keras_mmil.records.fields import Field

__all__ = ["Noticed"]

_CHANCE = 0.005  # at most, that a part which is nowhere is so by chance
_N_SHOWN = 12


@dataclass
class _Place:
    """What was at a place of the records: how often its values could be there, and were."""

    n: int = 0
    n_there: int = 0


@dataclass
class Noticed:
    """What is to be said of records that were read, in one batch or in many.

    Args:
        quiet: paths of which it is not said that they are nowhere.

    Attributes:
        n_records: how many were read.
        places: by the places of the schema, what was there.
        unseen: how many values were read as missing, by place, what the schema has, and what they
            are.
    """

    quiet: Sequence[str] = ()
    n_records: int = 0
    places: dict[str, _Place] = field(default_factory=dict)
    unseen: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    _usual: dict[str, float] = field(default_factory=dict)

    def count(self, fields: Sequence[Field], n: int, n_there: int) -> None:
        """Count what is at a place, of one or several types.

        Args:
            fields: of the place, one for each type.
            n: how often something could be there.
            n_there: how often something is.
        """
        name = fields[0].place
        counts = self.places.setdefault(name, _Place())
        counts.n += n
        counts.n_there += n_there
        if name not in self._usual:
            is_quiet = any(each.path in self.quiet for each in fields)
            self._usual[name] = 0.0 if is_quiet else _usual_share(fields)

    def warn(self, stacklevel: int = 3) -> None:
        """Warn of values of types that the schema has not, and of parts that are nowhere.

        A part may be nowhere in few records by chance: so it counts how often it was missing when
        the schema was inferred. Members of one bag may be alike, and count as one record.
        """
        for (name, expected, found), n in self.unseen.items():
            warnings.warn(
                f"{name!r} is {expected} in the schema; {n:,} of {self.places[name].n_there:,} "
                f"values there are {found}, and are read as missing.",
                stacklevel=stacklevel,
            )
        nowhere = [
            f"{name!r} (expected in {100 * self._usual[name]:.3g} %)"
            for name, counts in self.places.items()
            if counts.n
            and not counts.n_there
            and (1 - self._usual[name]) ** min(counts.n, self.n_records) < _CHANCE
        ]
        if nowhere:
            who = (
                "The record has" if self.n_records == 1 else f"All {self.n_records:,} records have"
            )
            shown, more = ", ".join(nowhere[:_N_SHOWN]), len(nowhere) - _N_SHOWN
            warnings.warn(
                f"{who} nothing at {shown}{f' and {more} more' if more > 0 else ''}. "
                "Such parts count as missing; if they have other names here, rename them.",
                stacklevel=stacklevel,
            )


def _usual_share(fields: Sequence[Field]) -> float:
    """How often something is there, as far as the schema has seen: the rule of succession."""
    shares = [1 - each.share_missing for each in fields]
    seen = [each.seen.count for each in fields if each.seen is not None]
    there = sum(seen)
    share = sum(shares)
    if not there or not share:
        return 0.0
    return (there + 1) / (there / share + 2)

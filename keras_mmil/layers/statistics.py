"""Statistics of the members of bags, such as a mean price or the number of items."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

import keras
import numpy as np
import tensorflow as tf

from keras_mmil._support.keras_internals import RawInputs
from keras_mmil._support.types import Config, Shape
from keras_mmil.layers._types import Nested
from keras_mmil.layers.distinct import hash_rows, mix
from keras_mmil.layers.encoders import Lookup, TextEncoder, multi_hot
from keras_mmil.layers.grouping import bag_of_each, drop_absent, flat_columns, group
from keras_mmil.layers.segments import gather_rows, segment_sum

__all__ = ["FEW", "SIGNS", "BagStatistics", "Formula", "Pattern", "Summarized", "Test"]

_ROUNDING = 1e-12  # share of the mean square that, as a variance, can be rounding
FEW = 64
"""Categories of a field, at most, that are part of a pattern; and categories and words in pairs."""

SIGNS = {"number": " > {:g}", "category": " = {!r}", "text": " containing {!r}", "boolean": ""}
"""What is said of a field, after its path, by its kind."""

Pattern: TypeAlias = tuple[Sequence[Any], Sequence[Any]]
"""What members of bags have in common: their booleans and categories, None for missing and other
ones; and for each bag in them the patterns of its members, each with how many have it."""

Test: TypeAlias = Config
"""What may be true of a member. Of the field with a "path": that it "is" a value or missing (None),
is "above" a number, or "at_most" one, contains a "word", or is none of some "other" values. That
"all" of some tests are true. That a "bag" "holds" so many members for which each of some tests is
true, and no others.
"""

_MOMENTS = ("mean", "minimum", "maximum", "standard deviation", "sum")


class Summarized(NamedTuple):
    """A field of the members of bags, of which statistics are made.

    Attributes:
        path: of the field.
        kind: "number", "boolean", "category" or "text".
        mean, scale: of numbers, which are standardised while they are summed, so that sums are
            exact.
        values: categories, or words of texts, that are counted.
        edges: of numbers, thresholds.
    """

    path: str
    kind: str
    mean: float = 0.0
    scale: float = 1.0
    values: Sequence[Any] = ()
    edges: Sequence[float] = ()

    @property
    def cases(self) -> Sequence[Any]:
        """What members are counted by."""
        return [True] if self.kind == "boolean" else self.edges or self.values

    @property
    def facts(self) -> list[Test]:
        """What may be true of a member, in the order of `BagStatistics.facts`."""
        facts = [_fact(self, case) for case in self.cases[:FEW]]
        opposites = [{"path": self.path, "at_most": edge} for edge in self.edges[:FEW]]
        return [*facts, *opposites]

    @property
    def is_keyed(self) -> bool:
        """Whether it is part of the pattern of a member: not an id, nor a name."""
        return self.kind == "boolean" or (self.kind == "category" and len(self.values) <= FEW)


class Formula(NamedTuple):
    """How a statistic is computed.

    Attributes:
        of: "number" or "share" of members, or "mean", "minimum", "maximum", "standard deviation" or
            "sum" of a field.
        bag: path of the bag.
        test: which members are counted; None for all.
        field: whose numbers are described; None of counts.
    """

    of: str
    bag: str
    test: Test | None = None
    field: Summarized | None = None


class _Part(NamedTuple):
    """A part of the state of bags, and where it begins among what is summed and maximised.

    Attributes:
        bag: path of the bag whose members it is about.
        fields: all numbers, one other field, or none for the number of members.
        sums: of the state.
        maxima: of the state.
        texts: which members are counted: descriptions of patterns, or pairs.
        tests: the same as tests.
    """

    bag: str
    fields: Sequence[Summarized]
    sums: slice
    maxima: slice
    texts: Sequence[str] = ()
    tests: Callable[[], Iterable[Test]] = tuple

    @property
    def has_moments(self) -> bool:
        """Whether it is about moments of numbers."""
        return self.maxima.start < self.maxima.stop

    @property
    def names(self) -> list[str]:
        """Of its statistics."""
        if self.texts:
            return [f"number of {self.bag} ({text})" for text in self.texts]
        if not self.fields:
            return [f"number of {self.bag}"]
        if self.has_moments:
            return [f"{of} of {_plain(each.path)}" for each in self.fields for of in _MOMENTS]
        (field,) = self.fields
        name = _plain(field.path.removeprefix(self.bag).removeprefix("."))
        members = f"{self.bag} with {name}" if name else self.bag
        cases = [members + SIGNS[field.kind].format(each) for each in field.cases]
        return [f"{what} of {case}" for what in ("number", "share") for case in cases]

    @property
    def formulas(self) -> list[Formula]:
        """Of its statistics, in the same order."""
        if self.texts:
            return [Formula("number", self.bag, test) for test in self.tests()]
        if not self.fields:
            return [Formula("number", self.bag)]
        if self.has_moments:
            return [Formula(of, self.bag, None, x) for x in self.fields for of in _MOMENTS]
        (field,) = self.fields
        tests = [_fact(field, case) for case in field.cases]
        return [Formula(of, self.bag, test) for of in ("number", "share") for test in tests]


def _plain(path: str) -> str:
    return path.removesuffix("[]")


@keras.saving.register_keras_serializable("keras_mmil")
class BagStatistics(RawInputs):
    """Describe bags of records by statistics of what is in them, at any depth.

    There are the number of members; the mean, minimum, maximum, standard deviation and sum of each
    number; and for each boolean, category and word, and each edge that a number is greater than,
    how many members have it, and their share.
    Fields in bags of the members are pooled, as if all were in one bag. And members are counted by
    pattern: those with equal booleans and categories (of fields with up to 64), whose bags have
    equal numbers of members of each pattern, have the same one. And by pairs of facts: that a
    boolean is true, a category equal to one of the values, a word in a text, or a number greater
    than an edge, or at most as great.

    Args:
        bag: path of the bag.
        fields: `Summarized` fields of a member, in the order of the columns.
        inner: configs of the `BagStatistics` of the bags in a member.
        names: of the statistics in the output; None for all.
        patterns: the key of each pattern to count, see `keys`, its description, and the `Pattern`.
        pairs: the numbers of two `facts`, and a description, of each pair to count.

    Call arguments:
        columns: values of the fields, [rows] each, as encoders read them; without fields any one
            column, for the number of rows.
        members, weights: as in `BagLayer`.
        states: of the bags in a member, one after the other, [rows, n] each.

    Output:
        A list: the statistics, float32 [bags, n], NaN where a bag has no such value; and the state
        of the bags, for the bag around them: one or two tensors, float64 [bags, n]; and the key of
        each, int64 [bags, 1], if there are booleans or few categories in it.
    """

    def __init__(
        self,
        bag: str,
        fields: Sequence[Sequence[Any]] = (),
        inner: Sequence[Config] = (),
        names: Sequence[str] | None = None,
        patterns: Sequence[tuple[int, str, Pattern]] = (),
        pairs: Sequence[tuple[int, int, str]] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.bag = bag
        self.fields = tuple(Summarized(*each) for each in fields)
        self.inner = [dict(each) for each in inner]
        self.names = None if names is None else list(names)
        self._lookups = {
            field.path: Lookup([field.values]) for field in self.fields if field.values
        }
        self.patterns = [(int(key), str(text), pattern) for key, text, pattern in patterns]
        self.pairs = [(int(i), int(j), str(text)) for i, j, text in pairs]
        self._lookup_patterns = Lookup([[key for key, *_ in self.patterns]]) if patterns else None

    @property
    def all_names(self) -> list[str]:
        """The names of all statistics, in their order."""
        return [name for part in self._parts for name in part.names]

    @property
    def formulas(self) -> dict[str, Formula]:
        """How each statistic is computed, by name."""
        return {
            name: formula
            for part in self._parts
            for name, formula in zip(part.names, part.formulas, strict=True)
        }

    @cached_property
    def _parts(self) -> list[_Part]:
        return list(_parts(self.get_config(), [0, 0]))

    def build(self, *shapes: Shape) -> None:
        """Nothing to create."""

    def call(
        self,
        columns: Sequence[Nested],
        members: Nested,
        weights: Nested | None = None,
        states: Sequence[tf.Tensor] = (),
    ) -> list[tf.Tensor]:
        columns = flat_columns(columns)
        keys = self.keys(columns, states)
        sums, maxima = self._of_rows(columns, states, keys)
        _, bags, _ = group(members, 0, weights, n_rows=tf.shape(sums)[0])
        row_ids, rows, weights = bag_of_each(bags.row_splits), bags.members, bags.weights
        if weights is not None:
            rows, row_ids, weights = drop_absent(rows, row_ids, weights)
        n_bags = tf.shape(bags.row_splits)[0] - 1
        state = [segment_sum(sums, row_ids, n_bags, weights, rows)]
        if maxima is not None:
            most = tf.math.segment_max(gather_rows(maxima, rows), row_ids)
            most = tf.pad(most, [[0, n_bags - tf.shape(most)[0]], [0, 0]])
            state.append(tf.where(state[0][:, :1] > 0, most, -np.inf))
        statistics = tf.cast(self._statistics(*state), tf.float32)
        if keys is not None:
            keys = gather_rows(mix(keys), rows)
            if weights is not None:
                keys *= tf.cast(tf.round(weights), tf.int64)
            state.append(tf.math.unsorted_segment_sum(keys, row_ids, n_bags)[:, None])
        return [statistics, *state]

    def keys(self, columns: Sequence[tf.Tensor], states: Sequence[tf.Tensor]) -> tf.Tensor | None:
        """A hash of the pattern of each row, int64; None if there is none to tell apart."""
        pairs = zip(self.fields, columns, strict=False)
        of_fields = [self._category(field, x) for field, x in pairs if field.is_keyed]
        inner = [of_bag[-1][:, 0] for of_bag in self._states(states) if of_bag[-1].dtype.is_integer]
        parts = [tf.stack(each) for each in (of_fields, inner) if each]
        return hash_rows(parts) if parts else None

    def _category(self, field: Summarized, x: tf.Tensor) -> tf.Tensor:
        """The index of each value of a boolean or category, int32; -1 for others."""
        if field.kind == "boolean":
            return tf.cast(tf.where(tf.math.is_nan(x), -1.0, tf.round(x)), tf.int32)
        return self._lookups[field.path](x, 0)

    def _states(self, states: Sequence[tf.Tensor]) -> list[Sequence[tf.Tensor]]:
        """The state of each bag in a member."""
        sizes = [len(_dtypes(config)) for config in self.inner]
        ends = np.cumsum(sizes, dtype=int)
        return [states[end - size : end] for size, end in zip(sizes, ends, strict=True)]

    def _of_rows(
        self, columns: Sequence[tf.Tensor], states: Sequence[tf.Tensor], keys: tf.Tensor | None
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """What is summed, and what is maximised, of each row."""
        # In float32, the deviation of ids or years, far from 0 and close together, would be noise.
        ones = tf.ones([tf.shape([*columns, *states][0])[0], 1], tf.float64)
        sums, maxima = [ones], []
        pairs = list(zip(self.fields, columns, strict=False))
        numbers = [(field, x) for field, x in pairs if field.kind == "number"]
        if numbers:
            x = tf.stack([tf.cast(x, tf.float64) for _, x in numbers], axis=1)
            means, scales = _scaling([field for field, _ in numbers])
            x = (x - means) / scales
            is_there = tf.math.is_finite(x)
            there = tf.where(is_there, x, tf.zeros_like(x))
            of_sums = tf.stack([tf.cast(is_there, x.dtype), there, there * there], axis=2)
            of_maxima = tf.stack([tf.where(is_there, y, -np.inf) for y in (-x, x)], axis=2)
            sums.append(tf.reshape(of_sums, [-1, 3 * len(numbers)]))
            maxima.append(tf.reshape(of_maxima, [-1, 2 * len(numbers)]))
        indicators = [self._indicators(field, x) for field, x in pairs]
        sums += indicators
        if self._lookup_patterns is not None:
            assert keys is not None  # if there are patterns
            sums.append(_one_hot(self._lookup_patterns(keys, 0), len(self.patterns)))
        if self.pairs:
            facts = self._facts(columns, indicators)
            both = [tf.gather(facts, [pair[k] for pair in self.pairs], axis=1) for k in (0, 1)]
            sums.append(both[0] * both[1])
        for of_sums, *others in self._states(states):
            sums.append(of_sums)
            maxima += [x for x in others if x.dtype.is_floating]
        return tf.concat(sums, axis=1), tf.concat(maxima, axis=1) if maxima else None

    def facts(self, columns: Sequence[tf.Tensor]) -> tf.Tensor:
        """Which facts are true of each row, 1.0 or 0.0: [rows, n].

        Those of each field in turn: the number greater than each edge, then at most as great (a
        missing one is neither); the boolean; or each of the first 64 values.
        """
        pairs = zip(self.fields, columns, strict=False)
        return self._facts(columns, [self._indicators(field, x) for field, x in pairs])

    def _facts(self, columns: Sequence[tf.Tensor], indicators: Sequence[tf.Tensor]) -> tf.Tensor:
        facts: list[tf.Tensor] = []
        for field, x, found in zip(self.fields, columns, indicators, strict=False):
            facts.append(found[:, :FEW])
            if field.kind == "number":
                is_there = tf.cast(~tf.math.is_nan(x), tf.float64)
                facts.append(is_there[:, None] - facts[-1])
        return tf.concat(facts, axis=1)

    def _indicators(self, field: Summarized, x: tf.Tensor) -> tf.Tensor:
        """1 for each edge that a row is above, or value that it has, else 0: [rows, n]."""
        if field.kind == "number":
            edges = tf.constant(field.edges, tf.float64, [len(field.edges)])
            return tf.cast(tf.cast(x, tf.float64)[:, None] > edges, tf.float64)
        if field.kind == "boolean":
            return tf.cast(x > 0.5, tf.float64)[:, None]
        n = len(field.values)
        if field.kind == "category":
            return _one_hot(self._category(field, x), n)
        words, texts = TextEncoder.flat_words(x)
        ids = self._lookups[field.path](words, 0)
        return tf.cast(multi_hot(ids, texts, tf.size(x, tf.int64), n), tf.float64)

    def _statistics(self, sums: tf.Tensor, maxima: tf.Tensor | None = None) -> tf.Tensor:
        found, size = [], sums[:, :1]
        for part in self._parts:
            of_part = sums[:, part.sums]
            if part.texts:
                found.append(of_part)
            elif not part.fields:
                size = of_part
                found.append(of_part)
            elif not part.has_moments:
                found += [of_part, tf.where(size > 0, of_part / size, np.nan)]
            else:
                assert maxima is not None  # there are numbers
                found.append(_moments(part.fields, of_part, maxima[:, part.maxima]))
        statistics = tf.concat(found, axis=1)
        if self.names is None:
            return statistics
        places = {name: i for i, name in enumerate(self.all_names)}
        return tf.gather(statistics, [places[name] for name in self.names], axis=1)

    def compute_output_spec(
        self,
        columns: Sequence[keras.KerasTensor],
        members: keras.KerasTensor,
        weights: keras.KerasTensor | None = None,
        states: Sequence[keras.KerasTensor] = (),
    ) -> list[keras.KerasTensor]:
        n = len(self.all_names if self.names is None else self.names)
        last = self._parts[-1]
        sizes = [last.sums.stop, *([last.maxima.stop] if last.maxima.stop else []), 1]
        state = [
            keras.KerasTensor((None, size), dtype=dtype)
            for size, dtype in zip(sizes, _dtypes(self.get_config()), strict=False)
        ]
        return [keras.KerasTensor((None, n), dtype="float32"), *state]

    def get_config(self) -> Config:
        fields = [list(field) for field in self.fields]
        config: Config = {"bag": self.bag, "fields": fields, "inner": self.inner}
        counted = {"names": self.names, "patterns": self.patterns, "pairs": self.pairs}
        return {**super().get_config(), **config, **counted}


def _parts(config: Config, begin: list[int]) -> Iterator[_Part]:
    """The parts of a state, of the members and then of the bags in them; moves `begin`."""

    def part(fields: Sequence[Summarized], n_sums: int, n_maxima: int = 0, **counted: Any) -> _Part:
        ends = [begin[0] + n_sums, begin[1] + n_maxima]
        sums, maxima = (slice(a, b) for a, b in zip(begin, ends, strict=True))
        begin[:] = ends
        return _Part(config["bag"], fields, sums, maxima, **counted)

    fields = _fields(config)
    numbers = [field for field in fields if field.kind == "number"]
    yield part((), 1)
    if numbers:
        yield part(numbers, 3 * len(numbers), 2 * len(numbers))
    for field in fields:
        if field.cases:
            yield part((field,), len(field.cases))
    if patterns := config["patterns"]:
        texts = [text for _, text, _ in patterns]
        yield part((), len(patterns), texts=texts, tests=partial(_of_patterns, config))
    if pairs := config["pairs"]:
        texts = [text for *_, text in pairs]
        yield part((), len(pairs), texts=texts, tests=partial(_of_pairs, config))
    for inner in config["inner"]:
        yield from _parts(inner, begin)


def _of_patterns(config: Config) -> list[Test]:
    return [_has(config, pattern) for *_, pattern in config["patterns"]]


def _has(config: Config, pattern: Pattern) -> Test:
    """That a member has a pattern."""
    values, bags = pattern
    fields = [field for field in _fields(config) if field.is_keyed]
    inner = [each for each in config["inner"] if _has_keys(each)]
    tests = [_is(field, value) for field, value in zip(fields, values, strict=True)]
    for each, members in zip(inner, bags, strict=True):
        holds = [[n, _has(each, pattern)] for n, pattern in members]
        tests.append({"bag": each["bag"], "holds": holds})
    return {"all": tests}


def _is(field: Summarized, value: Any) -> Test:
    if value is None and field.kind == "category":
        return {"path": field.path, "other": list(field.values)}
    return {"path": field.path, "is": value}


def _of_pairs(config: Config) -> list[Test]:
    """That both facts of a pair are true: see `BagStatistics.facts`."""
    facts = [fact for field in _fields(config) for fact in field.facts]
    return [{"all": [facts[i], facts[j]]} for i, j, _ in config["pairs"]]


def _fact(field: Summarized, case: Any) -> Test:
    """That a member has a value, or is above an edge."""
    sign = {"number": "above", "text": "word"}.get(field.kind, "is")
    return {"path": field.path, sign: case}


def _fields(config: Config) -> list[Summarized]:
    return [Summarized(*each) for each in config["fields"]]


def _dtypes(config: Config) -> list[str]:
    """Of the state of a bag: what is summed, what is maximised, and keys."""
    has_maxima = any(part.maxima.stop for part in _parts(config, [0, 0]))
    return ["float64"] * (1 + has_maxima) + ["int64"] * _has_keys(config)


def _has_keys(config: Config) -> bool:
    return any(field.is_keyed for field in _fields(config)) or any(map(_has_keys, config["inner"]))


def _one_hot(ids: tf.Tensor, n: int) -> tf.Tensor:
    return tf.cast(tf.equal(ids[:, None], tf.range(n)), tf.float64)


def _scaling(fields: Sequence[Summarized]) -> list[tf.Tensor]:
    means, scales = [each.mean for each in fields], [each.scale or 1.0 for each in fields]
    return [tf.constant(x, tf.float64) for x in (means, scales)]


def _moments(fields: Sequence[Summarized], sums: tf.Tensor, maxima: tf.Tensor) -> tf.Tensor:
    """The statistics of numbers, [bags, fields * 5], of their state."""
    means, scales = _scaling(fields)
    n, total, squares = tf.unstack(tf.reshape(sums, [-1, len(fields), 3]), axis=2)
    negative, greatest = tf.unstack(tf.reshape(maxima, [-1, len(fields), 2]), axis=2)
    mean = total / n
    variance = squares / n - mean * mean
    deviation = tf.sqrt(tf.where(variance > _ROUNDING * squares / n, variance, 0.0))
    moments = [
        means + scales * mean,
        means - scales * negative,
        means + scales * greatest,
        scales * deviation,
        means * n + scales * total,
    ]
    x = tf.where(n[:, :, None] > 0, tf.stack(moments, axis=2), np.nan)
    return tf.reshape(x, [-1, len(fields) * len(_MOMENTS)])

"""The rules of all levels, and their forms: text, tables, sentences and programs."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from keras_mmil._support.formatting import percent, preformatted
from keras_mmil._support.types import Config
from keras_mmil.rules.export.languages import to_dict, to_prolog, to_python, to_sql
from keras_mmil.rules.export.on_tables import sql_of
from keras_mmil.rules.export.program import program
from keras_mmil.rules.export.sentences import of_rules, reasons, sentences
from keras_mmil.rules.export.standalone import Source, javascript_of, plan, python_of
from keras_mmil.rules.export.tree_text import tree_lines
from keras_mmil.rules.trees.level import Level, listing
from keras_mmil.rules.trees.rule_set import Rule

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["RuleBook"]

_MOST_LISTED = 8  # rules in words; more are a tree

# Of rules in words: the number of the rule, its figures, and the text.
_Row: TypeAlias = tuple[str, str, str, str]


def _row(number: int | None, figures: tuple[float, float] | None, text: str) -> _Row:
    share, agreeing = map(percent, figures) if figures else ("", "")
    return str(number or ""), share, agreeing, text


@dataclass(frozen=True, repr=False)
class RuleBook:
    """The rules of all levels, from the instances upwards. Iterating yields each `Rule`.

    Attributes:
        levels: from the instances upwards.
        source: how what rules read is computed from records; None where that is not known, as for a
            network whose inputs are arrays. Rules of estimators know it.
    """

    levels: tuple[Level, ...]
    source: Source | None = None

    def __iter__(self) -> Iterator[Rule]:
        return (rule for level in self.levels for rule in level.rules)

    def __len__(self) -> int:
        return sum(len(level.rules) for level in self.levels)

    @property
    def constant(self) -> str | None:
        """Name of the class if the rules put all top-bags into one; None otherwise."""
        return self.levels[-1].rules.constant

    def text(self, all: bool = False) -> str:
        """The rules in formal syntax, level by level. As a string, a rule book is in words.

        Args:
            all: whether to list also the rules and clusters that no class of top-bags depends on;
                otherwise the last line gives their number.
        """
        return listing(self.levels, all)

    def __repr__(self) -> str:
        return f"<RuleBook: {len(self)} rules of {len(self.levels)} levels; print() shows them>"

    def __str__(self) -> str:
        """The rules of top-bags in words, with the share of the top-bags that each holds for, and
        of these the share on which the network agrees.

        More than eight are the tree that they were made of; its shares are those of its branches.
        """
        if self.constant is not None:
            return self.in_words()[0]
        rows, defined = self._as_tree() if self._is_long else self._as_list()
        if any(row[1] for row in rows):  # else they are unknown
            rows.insert(0, ("", self.levels[-1].words, "network agrees", ""))
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        known = [i for i in range(3) if widths[i]]
        lines = [
            "  ".join([*(row[i].rjust(widths[i]) for i in known), row[3]]).rstrip() for row in rows
        ]
        return "\n".join([*lines, *(["", *defined] if defined else [])])

    @property
    def _is_long(self) -> bool:
        """Whether rules in words are a tree, in which no condition is repeated."""
        return len(self.levels[-1].rules) > _MOST_LISTED

    def _as_list(self) -> tuple[list[_Row], Iterable[str]]:
        top = self.levels[-1]
        found = of_rules(program(self.levels))
        numbered = zip(range(1, len(found) + 1), top.rules, found, strict=True)
        ordered = sorted(numbered, key=lambda x: (x[1].conclusion, -x[1].support))
        rows = [
            _row(number, (rule.support, rule.precision), str(sentence))
            for number, rule, (sentence, _) in ordered
        ]
        return rows, dict.fromkeys(str(each) for _, _, (_, these) in ordered for each in these)

    def _as_tree(self) -> tuple[list[_Row], Iterable[str]]:
        lines, defined = tree_lines(self.levels)
        return [_row(line.number, line.figures, line.text) for line in lines], defined

    def _repr_html_(self) -> str:
        """For notebooks: the same as a string."""
        return preformatted(str(self))

    def records(self) -> Iterator[Config]:
        """One dict for each rule, from the instances upwards."""
        for level in self.levels:
            rules = level.rules
            for number, rule in enumerate(rules, 1):
                yield {
                    "level": rule.level,
                    "bags": level.word,
                    "number": number,
                    "conclusion": rules.names[rule.conclusion],
                    "conditions": [c.text(rules.columns) for c in rule.conditions],
                    "precision": rule.precision,
                    "support": rule.support,
                    "coverage": rule.coverage,
                    "needed": rules.needed[rule.conclusion],
                    "clause": rules.clause(rule),
                }

    def in_words(self) -> list[str]:
        """The rules as sentences, one for each rule of top-bags.

        Rules that differ only in the value of one field share a sentence. Sentences follow for the
        clusters that these mention without describing them. If the rules put all top-bags into one
        class, the only sentence says that there is no finding.
        """
        return sentences(program(self.levels))

    def reasons(self) -> list[tuple[Rule, str]]:
        """Each rule of top-bags with its conditions in words.

        After a semicolon, the clusters that it mentions are described.
        """
        top = self.levels[-1]
        found = reasons(program(self.levels))[top.record]
        return list(zip(top.rules, map(str, found), strict=True))

    def to_dict(self) -> Config:
        """All rules for JSON, with their names and texts, in the format of docs/evidence.md."""
        return to_dict(program(self.levels))

    def to_json(self, indent: int | None = 1) -> str:
        """`to_dict` as a JSON text."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    def to_sql(self, labels: bool | str = False, dialect: str = "sqlite") -> str:
        """One query for the classes of top-bags.

        Of an estimator's rules on linked tables it reads these: its rows are the key of a row of
        the table at the top, and the `class`. Otherwise it reads the table that
        `Explainer.labels_table` writes: its rows are `id` and `class`, in the order of the ids, and
        SQLite and DuckDB run it unchanged.

        Args:
            labels: whether to read the latter, also of an estimator's rules; or its name.
            dialect: "sqlite", "duckdb" or "postgresql", for times in linked tables.

        Raises:
            ValueError: if rules on linked tables read what a query does not say, such as words of
                texts; it names what. If a name, category or token contains "\\0".
        """
        if self.source is None or self.source.tables is None or labels:
            name = labels if isinstance(labels, str) else "labels"
            return to_sql(program(self.levels), name)
        return sql_of(self.on_records(), self.source.tables, dialect)

    def to_python(self, labels: bool = False) -> str:
        """A Python module without dependencies.

        Of an estimator's rules its function `predict(record)` returns the class of a record, a dict
        as `json.loads` makes it, and `explain(record)` the rule that holds. Otherwise
        `predict(rows)` maps the rows of the table that `Explainer.labels_table` writes, as dicts,
        to a dict from the ids of top-bags to their classes.

        Args:
            labels: whether to read that table, also of an estimator's rules.

        Raises:
            ValueError: if rules on records need the network, or read values that a program without
                libraries does not, such as dates like 31/12/2020; it names what.
        """
        if self.source is None or labels:
            return to_python(program(self.levels))
        return python_of(self.on_records())

    def to_javascript(self) -> str:
        """An ECMAScript module without dependencies: `predict(record)` and `explain(record)`.

        A record is an object as `JSON.parse` makes it.

        Raises:
            ValueError: as `to_python`; and if it is not known how rules read records.
        """
        return javascript_of(self.on_records())

    def on_records(self) -> Config:
        """The rules, and how what they read is computed from a record, for JSON.

        Raises:
            ValueError: as `to_javascript`.
        """
        if self.source is None:
            raise ValueError(
                "Expected rules of an estimator, which knows its records. Received: rules of a "
                "network, which read a table of labels"
            )
        return plan(program(self.levels), self.source)

    def to_prolog(self, facts: pa.Table | None = None) -> str:
        """A program for SWI-Prolog, where `class(Id, Class)` gives the classes of top-bags.

        Args:
            facts: what `Explainer.labels_table` returned, to be written as facts into the program;
                None for the clauses only, which say what facts they expect.
        """
        return to_prolog(program(self.levels), facts)

    def to_dataframe(self) -> "pd.DataFrame":
        """One row for each rule, see `records`.

        Raises:
            ImportError: without pandas.
        """
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("Expected pandas to make a DataFrame: pip install pandas") from error
        return pd.DataFrame(list(self.records()))

"""Rules as a query on the linked tables that records are made of.

Each bag is a common table expression: a row for each member, with what is counted or summed of it.
The rows around read its sums, grouped by the key, and so on up to the rows at the top.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from keras_mmil._support.types import Config
from keras_mmil.rules.export.languages import sql_name, sql_number, sql_text
from keras_mmil.rules.export.program import one_line

__all__ = ["DIALECTS", "sql_of"]

_ROUNDING = "1e-12"  # share of the mean square that, as a variance, can be rounding
_EXTRACTED = {
    **{part: f"EXTRACT({part} FROM {{}})" for part in ("year", "month", "hour")},
    "weekday": "EXTRACT(isodow FROM {})",
    "day": "EXTRACT(epoch FROM {}) / 86400",
}
_PARTS = {  # of a time; "day" is a number of days since 1970
    "sqlite": {
        "year": "CAST(strftime('%Y', {}) AS INTEGER)",
        "month": "CAST(strftime('%m', {}) AS INTEGER)",
        "hour": "CAST(strftime('%H', {}) AS INTEGER)",
        "weekday": "(CAST(strftime('%w', {}) AS INTEGER) + 6) % 7 + 1",
        "day": "CAST(strftime('%s', {}) AS REAL) / 86400",
    },
    "duckdb": _EXTRACTED,
    "postgresql": _EXTRACTED,
}
DIALECTS = tuple(_PARTS)


def sql_of(rules: Config, tables: Config, dialect: str) -> str:
    """A query for the class of each row of the table at the top, after the key of the row.

    Args:
        rules: see `standalone.plan`.
        tables: see `records.routes.tables`.
        dialect: one of `DIALECTS`, which differ in how they read times.

    Raises:
        ValueError: if the query cannot say what the rules read; it names what.
    """
    if dialect not in DIALECTS:
        expected = ", ".join(map(repr, DIALECTS))
        raise ValueError(f"Expected one of {expected}. Received: dialect={dialect!r}")
    if not tables["ids"]:
        raise ValueError(
            "Expected a column that tells the rows of the table at the top apart. "
            f"Received: none in {tables['table']!r}"
        )
    top = _Rows(rules, tables, dialect, rules["kinds"][-1])
    keys = [top.column(names) for names in tables["ids"]]
    selected = [*keys, f"{top.label()} AS class"]
    below = [
        f"-- {one_line(rows.table['table'])}\n{name} AS (\n{rows.text(columns)}\n)"
        for name, rows, columns in top.named()
    ]
    return "\n".join(
        [
            f"-- The class of each row of {one_line(tables['table'])}, by rules.",
            *(["WITH", ",\n".join(below)] if below else []),
            top.text(selected),
            f"ORDER BY {', '.join(keys)}",
        ]
    )


@dataclass
class _Bag:
    """The members of a bag in each row of a table, summed up.

    Attributes:
        members: the rows of their table.
        keys: the columns of the row around that theirs are equal to.
        own: these columns of theirs.
        alias: of the table of sums.
        sums: expressions on what is computed of each member.
        name: of the members' common table expression.
    """

    members: "_Rows"
    keys: Sequence[str]
    own: Sequence[str]
    alias: str
    sums: list[str] = field(default_factory=list)
    name: str = ""

    def sum(self, text: str) -> str:
        """The name of a sum; NULL where there is no member."""
        if text not in self.sums:
            self.sums.append(text)
        return f"{self.alias}.f{self.sums.index(text) + 1}"

    @property
    def columns(self) -> list[str]:
        """What is selected of the members."""
        keys = [f"{own} AS k{i}" for i, own in enumerate(self.own, 1)]
        return keys + [f"{text} AS {name}" for text, name in self.members.computed.items()]

    @property
    def join(self) -> str:
        """The sums beside the rows around."""
        of_keys = {f"k{i}": key for i, key in enumerate(self.keys, 1)}
        keys, on = [*of_keys], " AND ".join(f"{self.alias}.{k} = {x}" for k, x in of_keys.items())
        sums = [f"{text} AS f{i}" for i, text in enumerate(self.sums, 1)]
        return (
            f"LEFT JOIN (\n  SELECT {', '.join([*keys, *sums])}\n  FROM {self.name}\n"
            f"  GROUP BY {', '.join(keys)}\n) AS {self.alias} ON {on}"
        )


@dataclass
class _Rows:
    """The rows of a table that keys lead to in one way, and what is computed of each.

    Attributes:
        rules, dialect: as in `sql_of`.
        table: see `records.routes.tables`.
        kind: whose rules put the rows into clusters; None if none do.
        joins: aliases of the tables that keys lead to, one row of each.
        bags: the bags in a row.
        computed: names of what is computed of each row, by its expression.
    """

    rules: Config
    table: Config
    dialect: str
    kind: Config | None = None
    joins: dict[tuple[str, ...], str] = field(default_factory=dict)
    bags: dict[tuple[str, ...], _Bag] = field(default_factory=dict)
    computed: dict[str, str] = field(default_factory=dict)

    def text(self, columns: Sequence[str]) -> str:
        """The query for some columns."""
        joins = []
        for steps, alias in self.joins.items():
            table = self._table_at(steps)
            pairs = [(self.column(x, steps[:-1]), _name_of(y, table)) for x, y in table["on"]]
            on = " AND ".join(f"{alias}.{own} = {outer}" for outer, own in pairs)
            joins.append(f"LEFT JOIN {sql_name(table['table'])} AS {alias} ON {on}")
        joins += [bag.join for bag in self.bags.values()]
        selected = ",\n".join(f"  {each}" for each in columns)
        return "\n".join(["SELECT", selected, f"FROM {sql_name(self.table['table'])} AS r", *joins])

    def named(self, path: str = "") -> Iterator[tuple[str, "_Rows", list[str]]]:
        """The members of bags, each after those in them, with a name and their columns."""
        for i, bag in enumerate(self.bags.values(), 1):
            inner = f"{path}_{i}"
            yield from bag.members.named(inner)
            bag.name = f"members{inner}"
            yield bag.name, bag.members, bag.columns

    def compute(self, text: str) -> str:
        """The name of an expression that is computed of each row."""
        return self.computed.setdefault(text, f"c{len(self.computed) + 1}")

    # Columns -----------------------------------------------------------------------------------

    def column(self, names: Sequence[str], steps: Sequence[str] = ()) -> str:
        """A column of the table, or of that which steps lead to."""
        steps = tuple(steps)
        for n in range(1, len(steps) + 1):
            self.joins.setdefault(steps[:n], f"t{len(self.joins) + 1}")
        alias = self.joins[steps] if steps else "r"
        return f"{alias}.{_name_of(names, self._table_at(steps))}"

    def _table_at(self, steps: Sequence[str]) -> Config:
        table = self.table
        for step in steps:
            if step not in table["parts"]:
                raise _inside(steps)
            table = table["parts"][step]
        return table

    def value(self, read: Config) -> str:
        """The value of a field; NULL if it is missing."""
        at = read["at"]
        if not at or not all(isinstance(step, str) for step in at):
            raise _inside(at)
        if read["kind"] == "text":
            raise _refused(f"words of {at[-1]!r}")
        x = self.column(at[-1:], at[:-1])
        if read["kind"] == "time":
            return x
        if read["form"]:
            raise _refused(f"{at[-1]!r}, whose values are read as {read['form']}")
        return f"CAST({x} AS INTEGER)" if read["kind"] == "boolean" else x

    def double(self, read: Config) -> str:
        """A number, whatever the type of the column."""
        return f"CAST({self.value(read)} AS DOUBLE PRECISION)"

    # Bags --------------------------------------------------------------------------------------

    def bag(self, bag: Config) -> _Bag:
        """The members of a bag."""
        at = tuple(bag["at"])
        if bag["by_key"] or not at or not all(isinstance(step, str) for step in at):
            raise _inside(at)
        if at not in self.bags:
            *steps, name = at
            around = self._table_at(steps)
            if name not in around["parts"]:
                raise _inside(at)
            table = around["parts"][name]
            if table["at_most"] is not None:
                raise _refused(f"samples of at most {table['at_most']} rows of {name!r}")
            keys = [self.column(outer, steps) for outer, _ in table["on"]]
            members = _Rows(self.rules, table, self.dialect)
            own = [members.column(names) for _, names in table["on"]]
            self.bags[at] = _Bag(members, keys, own, f"m{len(self.bags) + 1}")
        return self.bags[at]

    def total(self, way: Sequence[Config], of: Callable[["_Rows"], str], how: str = "SUM") -> str:
        """The sum, or MIN or MAX, of the members that a way of bags leads to; NULL if none."""
        bag, rest = self.bag(way[0]), way[1:]
        inner = bag.members
        return bag.sum(f"{how}({inner.compute(inner.total(rest, of, how)) if rest else of(inner)})")

    def number(self, way: Sequence[Config], is_one: Callable[["_Rows"], str] | None = None) -> str:
        """How many of these members are such that an expression is true; or all."""

        def one(rows: "_Rows") -> str:
            return "1" if is_one is None else f"CASE WHEN {is_one(rows)} THEN 1 ELSE 0 END"

        return f"COALESCE({self.total(way, one)}, 0)"

    # Rules -------------------------------------------------------------------------------------

    def label(self) -> str:
        """The cluster or class of a row, by the rules of its kind."""
        assert self.kind is not None
        cases = [
            f"    -- {one_line(rule['text'])}\n"
            f"    WHEN {self._all(rule['all'])} THEN {sql_text(rule['label'])}"
            for rule in self.kind["rules"]
        ]
        return "\n".join(["CASE", *cases, "  END"]) if cases else "NULL"

    def _all(self, conditions: Sequence[Config]) -> str:
        return "\n      AND ".join(map(self._condition, conditions)) or "TRUE"

    def _condition(self, condition: Config) -> str:
        if "members" in condition:
            x = self._measure(condition)
            if "wanted" in condition:
                return f"{x} {'>' if condition['wanted'] else '='} 0"
            return _within(x, condition) or "TRUE"
        assert self.kind is not None
        column = self.kind["columns"][condition["column"]]
        if "wanted" in condition:
            return self._wanted(condition, column)
        x = self._number(column, condition["value"])
        if column.get("of") == "standard deviation":
            squares = {key: _square(condition[key]) for key in ("above", "at_most")}
            condition = {**condition, **squares}
        if not condition["present"]:
            return f"{x} IS NULL"
        within = _within(x, condition)
        if condition["missing"] and column.get("of") != "number":
            return f"({x} IS NULL OR {within})" if within else "TRUE"
        return within or f"{x} IS NOT NULL"

    def _wanted(self, condition: Config, column: Config) -> str:
        x, wanted = self.value(column), condition["wanted"]
        if condition["value"] is None:
            return f"{x} IS {'' if wanted else 'NOT '}NULL"
        literal = _literal(condition["value"], column)
        return f"{x} = {literal}" if wanted else f"({x} IS NULL OR {x} <> {literal})"

    def _measure(self, condition: Config) -> str:
        """How many members of a bag are in a cluster, or their share."""
        kind = self.rules["kinds"][condition["members"]]
        self.bag(kind["bag"]).members.kind = kind

        def is_one(rows: "_Rows") -> str:
            return f"{rows.compute(rows.label())} = {sql_text(condition['label'])}"

        n = self.number([kind["bag"]], is_one)
        if condition["measure"] != "frequency":
            return n
        return f"COALESCE({n} * 1e0 / NULLIF({self.number([kind['bag']])}, 0), 0)"

    def _number(self, column: Config, part: Any) -> str:
        """A number or statistic, or the part of a time."""
        if "of" in column:
            return self._statistic(column)
        x = self.value(column)
        if column["kind"] != "time":
            return x
        if column["form"] not in ("", "time"):
            raise _refused(f"{column['at'][-1]!r}, a time in {column['form']}")
        if column["form"] and self.dialect != "sqlite":
            x = f"CAST({x} AS TIMESTAMP)"
        return f"({_PARTS[self.dialect][part].format(x)})"

    def _statistic(self, column: Config) -> str:
        """A statistic of a bag; of a standard deviation the square, as not all have SQRT."""
        way, of, read, test = (column[name] for name in ("in", "of", "read", "test"))
        if read is None:
            if test is None:
                return self.number(way)
            n = self._number_with(way, test)
            return n if of == "number" else f"({n} * 1e0 / NULLIF({self.number(way)}, 0))"
        if of in ("minimum", "maximum"):
            return self.total(way, lambda rows: rows.compute(rows.double(read)), of[:3].upper())
        total = self.total(way, lambda rows: rows.compute(rows.double(read)))
        if of == "sum":
            return total
        n = self.number(way, lambda rows: f"{rows.compute(rows.double(read))} IS NOT NULL")
        if of == "mean":
            return f"({total} / NULLIF({n}, 0))"
        # Of standardized numbers, so that little is lost where a mean is far from 0.
        scale = sql_number(float(read["scale"] or 1))
        z = f"({{}} - {sql_number(float(read['mean']))}) / {scale}"

        def moment(power: int) -> str:
            def of_row(rows: "_Rows") -> str:
                return " * ".join([f"({z.format(rows.compute(rows.double(read)))})"] * power)

            return f"{self.total(way, of_row)} / NULLIF({n}, 0)"

        mean, square = moment(1), moment(2)
        variance = f"({square} - ({mean}) * ({mean}))"
        kept = f"CASE WHEN {variance} > {_ROUNDING} * {square} THEN {variance} ELSE 0 END"
        return f"(CASE WHEN {n} > 0 THEN {scale} * {scale} * {kept} END)"

    def _number_with(self, way: Sequence[Config], test: Config) -> str:
        return self.number(way, lambda rows: rows.compute(f"({rows.holds(test)})"))

    def holds(self, test: Config) -> str:
        """Whether something is true of a row."""
        if "all" in test:
            return " AND ".join(map(self.holds, test["all"])) or "TRUE"
        if "holds" in test:
            return " AND ".join(self._holding(test["bag"], test["holds"]))
        read = test["read"]
        x = self.value(read)
        if "other" in test:
            literals = ", ".join(_literal(each, read) for each in test["other"])
            return f"({x} IS NULL OR {x} NOT IN ({literals}))"
        if "above" in test:
            return f"{x} > {sql_number(test['above'])}"
        if "at_most" in test:
            return f"{x} <= {sql_number(test['at_most'])}"
        value = test["is"]
        return f"{x} IS NULL" if value is None else f"{x} = {_literal(value, read)}"

    def _holding(self, bag: Config, members: Sequence[tuple[int, Config]]) -> Iterator[str]:
        """That a bag holds as many members of some tests, and no others."""
        yield f"{self.number([bag])} = {sum(n for n, _ in members)}"
        for n, test in members:
            yield f"{self._number_with([bag], test)} = {n}"


def _square(bound: float | None) -> float | None:
    """What the square of a number that is not negative is compared with."""
    return None if bound is None else bound * abs(bound)


def _within(x: str, condition: Config) -> str:
    pairs = (condition["above"], ">"), (condition["at_most"], "<=")
    bounds = [f"{x} {sign} {sql_number(bound)}" for bound, sign in pairs if bound is not None]
    return " AND ".join(bounds)


def _literal(value: str | int, read: Config) -> str:
    """A value of a category, or of a boolean as an integer."""
    return str(value) if isinstance(value, int) or "number" in read["types"] else sql_text(value)


def _name_of(names: Sequence[str], table: Config) -> str:
    if len(names) > 1:
        raise _refused(f"the key {'.'.join([table['table'], *names])!r}, which is inside a column")
    return sql_name(names[0])


def _inside(steps: Sequence[Any]) -> ValueError:
    return _refused(f"{'.'.join(map(str, steps))!r}, which is inside a column")


def _refused(received: str) -> ValueError:
    return ValueError(
        "Expected rules on columns of tables, for a query on these. "
        f"Received: {received} (a table of labels has it: labels=True)"
    )

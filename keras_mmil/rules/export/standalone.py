"""Rules as data, which a program evaluates on a record without the network: see `_runtime`."""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pprint import pformat

from keras_mmil._support.formatting import double_bound
from keras_mmil._support.types import Config
from keras_mmil._version import __version__
from keras_mmil.layers.statistics import Formula, Test
from keras_mmil.rules.export.program import Criterion, Kind, Program, Quantity, one_line
from keras_mmil.rules.trees.fields import name_in

__all__ = ["Source", "javascript_of", "plan", "python_of", "runtime"]

# Of texts and integers that stand for something else; not dates such as 31/12/2020.
_FORMS = ("", "number", "thousands", "boolean", "time", "digits", "seconds", "milliseconds")


@dataclass(frozen=True)
class Source:
    """How what rules read is computed from a record.

    Attributes:
        bags, fields: how they are found in a record, see `records.routes.reads`.
        formulas: of statistics by name, for each bag at the top of those that they are about.
        tables: the linked tables that records are made of, see `records.routes.tables`.
    """

    bags: Mapping[str, Config]
    fields: Mapping[str, Config]
    formulas: Mapping[str, Mapping[str, Formula]]
    tables: Config | None = None

    def read(self, path: str, bag: str) -> Config:
        """How a field of the members of a bag is read; of the record, for the bag ""."""
        read = self.fields.get(path, {"bag": None})
        if read["bag"] != bag:
            raise _refused(f"{path!r}", "a field of the records")
        if read["form"] not in _FORMS:
            raise _refused(f"{path!r}, read as {read['form']}", "dates in ISO 8601")
        return {key: value for key, value in read.items() if key != "bag"}

    def bag(self, path: str) -> Config:
        """How the members of a bag are found in a member of the one around."""
        found = self.bags[path]
        return {"at": found["at"], "by_key": found["by_key"]}

    def statistic(self, formula: Formula, outer: str) -> Config:
        """How a statistic is computed of a member of a bag; of the record, for the bag ""."""
        way, bag = [], formula.bag
        while bag != outer:
            way.append(self.bag(bag))
            bag = self.bags[bag]["outer"]
        read = None
        if field := formula.field:
            read = self.read(field.path, formula.bag) | {"mean": field.mean, "scale": field.scale}
        test = formula.test and self._test(formula.test, formula.bag)
        return {"of": formula.of, "in": way[::-1], "test": test, "read": read}

    def _test(self, test: Test, bag: str) -> Test:
        """A test of a member of a bag, with how its fields are read."""
        if "all" in test:
            return {"all": [self._test(each, bag) for each in test["all"]]}
        if "holds" in test:
            inner = test["bag"]
            holds = [[n, self._test(each, inner)] for n, each in test["holds"]]
            return {"bag": self.bag(inner), "holds": holds}
        read = self.read(test["path"], bag)
        ((sign, value),) = ((key, x) for key, x in test.items() if key != "path")
        if sign in ("above", "at_most"):
            value = double_bound(value)  # numbers are compared as float32
        elif read["kind"] == "category":
            value = list(map(str, value)) if sign == "other" else str(value)
        elif isinstance(value, bool):
            value = int(value)
        return {"read": read, sign: value}


def plan(rules: Program, source: Source) -> Config:
    """The rules, and how what they read is computed, in the format that `_runtime.rule_of` takes.

    Raises:
        ValueError: if they need the network, or a value that these programs do not read; it names
            what.
    """
    if rules.given:
        given = ", ".join(map(repr, rules.given))
        raise _refused(f"clusters of {given}, which the network decides", "clusters that rules say")
    named = {q.members for kind in rules.labelled for q in kind.quantities} | {rules.top.name}
    kinds = [kind for kind in rules.kinds if kind.name in named or kind in rules.labelled]
    places = {kind.name: i for i, kind in enumerate(kinds)}
    return {
        "top": rules.top.name,
        "classes": list(rules.top.labels),
        "kinds": [_Planner(source, kind, places).of_kind() for kind in kinds],
    }


@dataclass
class _Planner:
    """What one kind of records needs."""

    source: Source
    kind: Kind
    places: Mapping[str, int]

    def __post_init__(self) -> None:
        self.path = self.kind.clusters.path if self.kind.clusters else ""
        of_fields = [path for path, x in self.source.fields.items() if x["bag"] == self.path]
        self.fields = {name_in(self.path, path): path for path in of_fields}
        self.formulas = {
            name_in(self.path, name): formula
            for bag, x in self.source.bags.items()
            if x["outer"] == self.path
            for name, formula in self.source.formulas.get(bag, {}).items()
        }

    def of_kind(self) -> Config:
        found = list(self.kind.needed)
        of_fields = [q for q in self.kind.quantities if q.members is None]
        columns = {(q.name, q.measure == "statistic"): self._column(q) for q in of_fields}
        at = {key: i for i, key in enumerate(columns)}
        rules = [
            {
                "number": number,
                "label": label,
                "text": text,
                "all": [self._condition(each, at) for each in criteria],
            }
            for number, (label, text, criteria) in enumerate(found, 1)
        ]
        bag = {"bag": self.source.bag(self.path)} if self.path else {}
        return {"name": self.kind.name, **bag, "columns": list(columns.values()), "rules": rules}

    def _condition(self, criterion: Criterion, at: Mapping[tuple[str, bool], int]) -> Config:
        q = criterion.quantity
        about: Config = {"measure": q.measure}
        if q.members is not None:
            about |= {"members": self.places[q.members], "label": q.name}
        else:
            value = str(q.value) if q.measure == "category" and q.is_value else q.value
            about |= {"column": at[q.name, q.measure == "statistic"], "value": value}
        if criterion.wanted is not None:
            return {**about, "wanted": criterion.wanted}
        bounds: Config = {name: getattr(criterion, name) for name in ("above", "at_most")}
        if q.measure == "statistic" and self.formulas[q.name].of == "number":
            bounds = {name: x if x is None else math.floor(x) for name, x in bounds.items()}
        return {**about, **bounds, "present": criterion.present, "missing": criterion.missing}

    def _column(self, q: Quantity) -> Config:
        if q.measure != "statistic":
            if q.name not in self.fields:
                raise _refused(f"{q.name!r}", "a field of the records")
            return self.source.read(self.fields[q.name], self.path)
        if q.name not in self.formulas:
            raise _refused(f"{q.name!r}", "a statistic of fields")
        return self.source.statistic(self.formulas[q.name], self.path)


def _refused(received: str, expected: str) -> ValueError:
    return ValueError(
        f"Expected rules on {expected}, to be read from records. Received: {received} "
        "(a table of labels has it: labels=True)"
    )


# Of both languages: what the file begins with, and what follows the rules.
_HEAD = "The class of each {top}, by rules. Written by keras-mmil {version}."
_PYTHON = '''

def predict(record):
    """The class of a record, a dict as `json.loads` makes it."""
    rule = rule_of(RULES, record)
    return rule and rule["label"]


def explain(record):
    """The rule that holds for a record."""
    rule = rule_of(RULES, record)
    return rule and rule["text"]
'''
_JAVASCRIPT = """
// The class of a record, an object as `JSON.parse` makes it.
export function predict(record) {
  const rule = ruleOf(RULES, record);
  return rule && rule.label;
}

// The rule that holds for a record.
export function explain(record) {
  const rule = ruleOf(RULES, record);
  return rule && rule.text;
}
"""


def python_of(rules: Config) -> str:
    """A Python module of a `plan`, which imports the standard library alone."""
    head = _HEAD.format(top=one_line(rules["top"]), version=__version__)
    data = pformat(rules, width=100, sort_dicts=False)
    return f"# {head}\n{runtime('_runtime.py')}\n\nRULES = {data}\n{_PYTHON}"


def javascript_of(rules: Config) -> str:
    """An ECMAScript module of a `plan`, which imports nothing."""
    head = _HEAD.format(top=one_line(rules["top"]), version=__version__)
    data = json.dumps(rules, ensure_ascii=False, indent=1, allow_nan=False)
    return f"// {head}\n{runtime('_runtime.js')}\nconst RULES = {data};\n{_JAVASCRIPT}"


def runtime(name: str) -> str:
    """The source of `_runtime.py` or `_runtime.js`."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")

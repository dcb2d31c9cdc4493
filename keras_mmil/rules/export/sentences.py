"""Rules as sentences in the terms of the data."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from keras_mmil._support.formatting import bound_text, number_text
from keras_mmil.rules.explain.explanation import Reason
from keras_mmil.rules.export.program import Criterion, Kind, Program, Quantity
from keras_mmil.rules.trees.columns import ALL, alike, excluded, is_plural, one_of
from keras_mmil.rules.trees.level import Clusters, is_symbol
from keras_mmil.rules.trees.rule_set import Rule

__all__ = ["Sentence", "definitions", "of_rules", "reasons", "sentences"]

_LONGEST = 3  # conditions of a cluster that may be described where it is mentioned
_FEW_CONDITIONS = 4  # whose order is that of the rule
_MOST_CASES = 3  # of a cluster that are described
_IN_SHORT = 3  # clusters of members that tell what a cluster of many cases is
_NUMBER = re.compile(r" \(\d+\)$")
_NUMERALS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Sentence:
    """A sentence on a class of top-bags, or on a cluster.

    Attributes:
        subject: name of the class or of the cluster.
        body: its conditions, or what it is.
        link: the words in between, such as " if " or ": ".
        mentions: the clusters that it names without describing them, each by its kind of records
            and its name.
        kind: of the records in a cluster.
    """

    subject: str
    body: str
    link: str
    mentions: tuple[tuple[str, str], ...] = ()
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.subject}{self.link}{self.body}" if self.body else f"always {self.subject}"


def sentences(rules: Program) -> list[str]:
    """A sentence for each rule of top-bags, and for each cluster that needs one.

    Rules that differ only in the value of one field share a sentence. If the rules are constant,
    the only sentence says that there is no finding.
    """
    labels = {label for label, _, _ in rules.top.needed}
    if len(labels) == 1:
        return [f"no finding: every {rules.top.word} is taken for {labels.pop()!r}, whatever it is"]
    writer = _Writer(rules)
    result = [
        writer.of_class(label, criteria)
        for label in dict.fromkeys(label for label, _, _ in rules.top.needed)
        for criteria in _merged([each for name, _, each in rules.top.needed if name == label])
    ]
    return list(map(str, result + writer.defined(result)))


def of_rules(rules: Program) -> list[tuple[Sentence, list[Sentence]]]:
    """For each rule of top-bags its sentence, and those on the clusters that it mentions."""
    writer = _Writer(rules)
    result = [writer.of_class(label, criteria) for label, _, criteria in rules.top.needed]
    return [(each, writer.defined([each])) for each in result]


def reasons(rules: Program) -> dict[int, list[Reason]]:
    """The conditions of each rule in words, by the kind of records whose rules they are.

    The latter is `Level.record`.
    """
    writer = _Writer(rules)
    return {
        kind.level.record: [writer.reason(kind, rule, criteria) for rule, criteria in kind.rules]
        for kind in rules.kinds
        if kind.level is not None
    }


def definitions(rules: Program) -> dict[tuple[int, int], str]:
    """What each cluster is, by the indices of its bag-layer and its own, where that is known."""
    result = {}
    for level, kind in enumerate(rules.kinds[:-1]):
        for index, name in enumerate(kind.labels):
            sentence = _Writer(rules).definition(kind, name)
            if sentence is not None:
                result[level, index] = sentence.body
    return result


class _Writer:
    """Writes sentences; remembers the clusters that it has mentioned without describing them."""

    def __init__(self, rules: Program) -> None:
        self._kinds = {kind.name: kind for kind in rules.kinds}
        self._fields = {
            column: field
            for kind in rules.kinds
            if kind.level is not None
            for field, columns in zip(kind.level.space.fields, kind.columns, strict=True)
            for column in columns
        }
        self._open: dict[tuple[str, str], None] = {}
        self._definitions: dict[tuple[str, str], Sentence | None] = {}
        # Of each cluster that any class of top-bags can depend on.
        self._rules: dict[tuple[str, str], list[tuple[Rule, tuple[Criterion, ...]]]] = {}
        for kind in rules.kinds:
            for rule, criteria in kind.rules:
                if kind.level is not None and kind.level.rules.needed[rule.conclusion]:
                    key = kind.name, kind.labels[rule.conclusion]
                    self._rules.setdefault(key, []).append((rule, criteria))

    def defined(self, result: Sequence[Sentence]) -> list[Sentence]:
        """One for each cluster that some sentences, or sentences about these, mention."""
        wanted = list(dict.fromkeys(each for sentence in result for each in sentence.mentions))
        definitions = []
        for kind, name in wanted:  # which grows
            sentence = self.definition(self._kinds[kind], name)
            if sentence is not None:
                wanted += [each for each in sentence.mentions if each not in wanted]
                definitions.append(sentence)
        return definitions

    def of_class(self, label: str, criteria: Sequence[Criterion]) -> Sentence:
        """One for a rule of top-bags."""
        self._open.clear()
        body = self._all(criteria)
        return Sentence(label, body, " if ", tuple(self._open))

    def reason(self, kind: Kind, rule: Rule, criteria: Sequence[Criterion]) -> Reason:
        """The conditions of a rule on records of a kind."""
        self._open.clear()
        if not criteria:
            text = f"always {kind.labels[rule.conclusion]}"
        elif kind.clusters and not _is_named(kind) and _of_bags_alone(criteria, self._kinds):
            text = f"it holds {self._held(criteria)}"
        else:
            text = self._all(criteria)
        mentions = tuple(self._open)
        return Reason(
            text=text,
            mentions=frozenset(map(self._key, mentions)),
            definitions={
                self._key((each.kind, each.subject)): str(each)
                for each in self.defined([Sentence("", text, "", mentions)])
            },
        )

    def _key(self, mention: tuple[str, str]) -> tuple[int, str]:
        """A cluster by the index of its bag-layer and its name."""
        clusters = self._kinds[mention[0]].clusters
        assert clusters is not None  # it is one of members
        return clusters.level, mention[1]

    def _all(self, criteria: Sequence[Criterion]) -> str:
        """Conditions that all have to hold; those that describe a cluster come last.

        Of many, those that ask for something come before those that exclude or limit something.
        """
        merged = list(self._without_values(criteria))
        if len(merged) > _FEW_CONDITIONS:
            merged.sort(key=_only_excludes)
        found = sorted(map(self._condition, merged), key=lambda x: x[1])
        return _listed([text for text, _ in found])

    def _where(self, criteria: Sequence[Criterion]) -> str:
        """What members of a bag are like: "where paid and late, with items where returned"."""
        own, inside = list[str](), list[str]()
        for each in self._without_values(criteria):
            text, n_inside = self._condition(each, there="with", nowhere="without")
            (inside if n_inside else own).append(text)
        parts = [f"where {_listed(own)}"] if own else []
        return ", ".join([*parts, *([" and ".join(inside)] if inside else [])])

    def _condition(
        self, criterion: Criterion, there: str = "there are", nowhere: str = "there are no"
    ) -> tuple[str, int]:
        """A condition in words, and how many conditions on members it contains.

        Args:
            criterion: the condition.
            there, nowhere: what comes before members that have to be, or must not be there.
        """
        q = criterion.quantity
        if q.members is None:
            return criterion.text, 0
        kind = self._kinds[q.members]
        body = self._body(kind, q.name, criterion)
        if body is None:
            self._open[q.members, q.name] = None
        n_inside = 0 if body is None else len(body)
        if _is_named(kind):
            if body is None:
                return criterion.text, 0
            called, verb = _called(kind), there if _requires(criterion) else nowhere
            if not is_plural(called):
                verb = verb.replace("are", "is")
                called = called if verb.endswith("no") else _article(called)
            return f"{verb} {called} {self._where(body)}", n_inside
        subject, several = _subject(criterion, kind)
        if body is None:
            return f"{subject} {'are' if several else 'is'} {q.name}", 0
        return f"{subject} {'hold' if several else 'holds'} {self._held(body)}", n_inside

    def _without_values(self, criteria: Sequence[Criterion]) -> Iterator[Criterion]:
        """Criteria that all have to hold; those that exclude values of one field are merged."""
        groups: dict[Criterion | str, list[Criterion]] = {}
        for each in criteria:
            q = each.quantity
            key = q.column if q.is_value and not each.wanted else each
            groups.setdefault(key, []).append(each)
        for key, group in groups.items():
            if isinstance(key, str):
                field = self._fields[key]
                values = _values([each.quantity for each in group])
                text = excluded(field.name, values, field.values, field.is_optional)
                yield replace(group[0], text=text)
            else:
                yield group[0]

    def _body(self, kind: Kind, name: str, criterion: Criterion) -> tuple[Criterion, ...] | None:
        """The only rule for a cluster, if it is short; None otherwise, or for a name of the user.

        Only for members that have to be present: "no sub-bag holds a 7 and no 3" would be unclear;
        and for such as must not be there, if the data have a name for them.
        """
        found = [criteria for _, criteria in self._rules.get((kind.name, name), ())]
        is_absent = _is_named(kind) and _occurs(criterion) is False
        if not (_requires(criterion) or is_absent) or (_is_named(kind) and not is_symbol(name)):
            return None
        if len(found) != 1 or not 1 <= len(found[0]) <= _LONGEST:
            return None
        return found[0] if _is_named(kind) or _of_bags_alone(found[0], self._kinds) else None

    def _held(self, criteria: Sequence[Criterion]) -> str:
        """The contents of a bag whose members have no name."""
        absent: dict[str, list[str]] = {}
        said = []
        for each in criteria:
            q = each.quantity
            self._open[str(q.members), q.name] = None
            if _occurs(each) is False:
                absent.setdefault(str(q.members), []).append(q.name)
            else:
                said.append(_object(each))
        for members, names in absent.items():
            said += [f"no {name}" for name in _in_one(names, self._kinds[members].labels)]
        return _listed(said)

    def definition(self, kind: Kind, name: str) -> Sentence | None:
        """What a cluster is; None where that is unknown."""
        if kind.clusters is None:
            return None
        if (key := (kind.name, name)) not in self._definitions:
            self._open.clear()
            link, body = self._defined(kind, kind.clusters, name)
            found = Sentence(name, body, link, tuple(self._open), kind.name) if body else None
            self._definitions[key] = found
        return self._definitions[key]

    def _defined(self, kind: Kind, clusters: Clusters, name: str) -> tuple[str, str]:
        """What comes between a cluster's name and its description, and this, if there is one."""
        index = kind.labels.index(name)
        if clusters.examples and clusters.examples[index]:
            shown = ", ".join(f"“{each}”" for each in clusters.examples[index])
            return ": ", f"{clusters.words} like {shown}"
        of_rules = self._rules.get((kind.name, name))
        if of_rules is None:
            definition = clusters.definition
            return ", in short: ", "" if definition is None else definition.summary(index)
        cases = _merged([criteria for _, criteria in of_rules])
        if len(cases) > _MOST_CASES and _of_bags_alone(sum(cases, ()), self._kinds):
            return ", in short: ", self._in_short(kind, clusters, name)
        said = list(map(partial(self._case, kind), cases[:_MOST_CASES]))
        if (n_more := len(cases) - _MOST_CASES) > 0:
            said.append(f"in {_numeral(n_more)} more {'case' if n_more == 1 else 'cases'}")
        return ": ", f"{_one(kind)} {', or '.join(said)}"

    def _case(self, kind: Kind, criteria: Sequence[Criterion]) -> str:
        if not criteria:
            return "of any kind"
        if not _is_named(kind) and _of_bags_alone(criteria, self._kinds):
            return f"that holds {self._held(criteria)}"
        return self._where(criteria)

    def _in_short(self, kind: Kind, clusters: Clusters, name: str) -> str:
        """Of what many rules on the members of a bag require more than those of other clusters.

        Each rule counts as much as it covers of its cluster.
        """
        found = {label: self._required(kind.name, label) for label in kind.labels}
        keys = dict.fromkeys(key for each in found.values() for key in each)
        means = {key: sum(x.get(key, 0.0) for x in found.values()) / len(found) for key in keys}
        more = {key: found[name].get(key, 0.0) - means[key] for key in keys}
        order = [key for key in sorted(keys, key=lambda key: -more[key]) if more[key] > 0]
        self._open.update(dict.fromkeys(order[:_IN_SHORT]))
        said = _listed([name for _, name in order[:_IN_SHORT]])
        n_rules = len(self._rules[kind.name, name])
        return f"{clusters.words} with more {said} than others ({n_rules} rules)"

    def _required(self, kind: str, name: str) -> dict[tuple[str, str], float]:
        """How much the rules for a cluster require each cluster of members, or less of it."""
        found: dict[tuple[str, str], float] = {}
        rules = self._rules.get((kind, name), [])
        for rule, criteria in rules:
            for each in criteria:
                key = str(each.quantity.members), each.quantity.name
                sign = 1 if _occurs(each) or each.above is not None else -1
                found[key] = found.get(key, 0.0) + sign * rule.coverage
        total = sum(rule.coverage for rule, _ in rules) or 1.0
        return {key: value / total for key, value in found.items()}


def _one(kind: Kind) -> str:
    """One of the members."""
    if not _is_named(kind):
        return _article(kind.clusters.word if kind.clusters else kind.name)
    called = _called(kind)
    return f"one of the {called}" if is_plural(called) else _article(called)


def _merged(cases: Sequence[tuple[Criterion, ...]]) -> list[tuple[Criterion, ...]]:
    """Cases; those that differ only in the value of one field are merged."""
    result = []
    for group, varying in alike(cases, _field_of):
        case = cases[group[0]]
        if varying is not None:
            compared = [x.quantity for index in group for x in cases[index] if _field_of(x)]
            text = f"{varying.quantity.name} is one of {one_of(_values(compared))}"
            case = tuple(replace(x, text=text) if x == varying else x for x in case)
        result.append(case)
    return result


def _field_of(criterion: Criterion) -> str | None:
    """The column that has to have one value; None where the criterion says something else."""
    q = criterion.quantity
    return q.column if q.is_value and criterion.wanted else None


def _values(quantities: Sequence[Quantity]) -> list[str | int]:
    return [q.value for q in quantities if q.value is not None]


def _is_named(kind: Kind) -> bool:
    """Whether the data have a name for such members."""
    return kind.clusters is not None and bool(kind.clusters.members)


def _called(kind: Kind) -> str:
    """What the data call several of them in the record that holds them."""
    return kind.clusters.members if kind.clusters else kind.name


def _of_bags_alone(criteria: Sequence[Criterion], kinds: dict[str, Kind]) -> bool:
    """Whether all conditions are about members without a name."""
    members = [criterion.quantity.members for criterion in criteria]
    return all(name is not None and not _is_named(kinds[name]) for name in members)


def _requires(criterion: Criterion) -> bool:
    is_some = criterion.above == 0 and criterion.at_most is None
    return _occurs(criterion) or (is_some and criterion.quantity.measure == "count")


def _occurs(criterion: Criterion) -> bool | None:
    """Whether there has to be one (or none); None where it is about a number or a share."""
    measure, most = criterion.quantity.measure, criterion.at_most
    if criterion.wanted is None and measure == "count" and most is not None and most < 1:
        return False
    if criterion.wanted is not None or measure != "frequency":
        return criterion.wanted
    if criterion.at_most is None and criterion.above == 0:
        return True
    return False if criterion.at_most == 0 else None


def _only_excludes(criterion: Criterion) -> bool:
    """Whether it holds for what is not there."""
    return criterion.wanted is False or (criterion.wanted is None and criterion.above is None)


def _subject(criterion: Criterion, kind: Kind) -> tuple[str, bool]:
    """Which members, and whether they are several."""
    word = kind.clusters.word if kind.clusters else kind.name
    words = kind.clusters.words if kind.clusters else f"{kind.name}s"
    occurs = _occurs(criterion)
    if occurs is not None:
        return f"{'at least one' if occurs else 'no'} {word}", False
    q, amount = criterion.quantity, _amount(criterion)
    if q.measure == "frequency":
        return f"{amount} of the {words}", True
    if q.measure == "weight":
        return f"{words} with a total weight of {amount}", True
    is_one = amount.endswith("one")
    return f"{amount} {word if is_one else words}", not is_one


def _in_one(names: Sequence[str], labels: Sequence[str]) -> list[str]:
    """Names of clusters; where all that are numbered alike are there, only what they share.

    "3", "3 (2)" and "3 (3)" are "3" if there is no "3 (4)"; see `LevelDescription.majority_names`.
    """
    result: dict[str, None] = {}
    for name in names:
        shared = _NUMBER.sub("", name)
        alike = {label for label in labels if _NUMBER.sub("", label) == shared}
        result[shared if alike <= set(names) else name] = None
    return list(result)


def _object(criterion: Criterion) -> str:
    """Contents that are there: "a 7", "at least two 5"."""
    q = criterion.quantity
    if _occurs(criterion):
        return _article(q.name)
    if q.measure == "weight":
        return f"{q.name} with a total weight of {_amount(criterion)}"
    return f"{_amount(criterion)} {q.name}"


def _amount(criterion: Criterion) -> str:
    """A number in words."""
    low, high = criterion.above, criterion.at_most
    if criterion.quantity.measure == "count":
        least = 0 if low is None else int(low) + 1
        if high is None:
            return f"at least {_numeral(least)}"
        if least == high:
            return f"exactly {_numeral(least)}"
        most = _numeral(int(high))
        return f"{_numeral(least)} to {most}" if least else f"at most {most}"
    bound = high if low is None else low
    if criterion.quantity.measure == "frequency" and bound is not None and ALL <= bound < 1:
        return "not all" if low is None else "all"
    show: Callable[[float], str] = bound_text
    unit = ""
    if criterion.quantity.measure == "frequency":
        show, unit = _rounded, " %"
    above = "" if low is None else f"more than {show(low)}{unit}"
    at_most = "" if high is None else f"at most {show(high)}{unit}"
    return " and ".join(part for part in (above, at_most) if part)


def _rounded(fraction: float) -> str:
    """A share in per cent to three digits; formal syntax has all that tell bags apart."""
    return number_text(float(f"{100 * fraction:.3g}"))


def _numeral(n: int) -> str:
    return _NUMERALS[n] if 0 < n < len(_NUMERALS) else str(n)


def _article(name: str) -> str:
    is_vowel = name[:1].lower() in "aeio" or name.split(" ")[0] in ("8", "11", "18")
    return f"{'an' if is_vowel else 'a'} {name}"


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} and {parts[-1]}"

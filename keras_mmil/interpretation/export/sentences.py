"""Rules as sentences in the reader's terms."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from keras_mmil._support.formatting import bound_text
from keras_mmil.interpretation.export.program import Criterion, Kind, Program, Quantity
from keras_mmil.interpretation.rules.wording import alike, is_plural, one_of

__all__ = ["Sentence", "definitions", "of_rules", "sentences"]

_LONGEST = 3  # conditions of a cluster that is described where it is mentioned
_NUMERALS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


@dataclass(frozen=True)
class Sentence:
    """A sentence on a class of top-bags, or on a cluster.

    Attributes:
        subject: name of the class or of the cluster.
        body: what is said of it.
        link: what is between the two, such as " if " or ": ".
        mentions: the clusters that it names without saying what they are, each by its kind of
            records and its name.
    """

    subject: str
    body: str
    link: str
    mentions: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        return f"{self.subject}{self.link}{self.body}" if self.body else f"always {self.subject}"


def sentences(rules: Program) -> list[str]:
    """A sentence for each rule of top-bags, and for each cluster that needs one.

    Rules that differ in the value of one field are one sentence. Rules that are constant are no
    finding, which is then the only sentence.
    """
    labels = {label for label, _, _ in rules.top.needed}
    if len(labels) == 1:
        return [f"no finding: every {rules.top.word} is taken for {labels.pop()!r}, whatever it is"]
    writer = _Writer(rules)
    found = list(writer.of_classes())
    return [*map(str, found), *(str(each) for _, each in writer.defined(found))]


def of_rules(rules: Program) -> list[tuple[Sentence, list[Sentence]]]:
    """For each rule of top-bags its sentence, and those on the clusters that it mentions."""
    writer = _Writer(rules)
    found = map(writer.of_rule, rules.top.needed)
    return [(each, [text for _, text in writer.defined([each])]) for each in found]


def definitions(rules: Program) -> dict[tuple[int, int], str]:
    """What each cluster is, by the index of its bag-layer and its own; without those unknown."""
    found = {}
    for level, kind in enumerate(rules.kinds[:-1]):
        for index, name in enumerate(kind.labels):
            sentence = _Writer(rules).definition(kind, name)
            if sentence is not None:
                found[level, index] = sentence.body
    return found


class _Writer:
    """Writes; remembers which clusters it has mentioned without saying what they are."""

    def __init__(self, rules: Program) -> None:
        self._top = rules.top
        self._kinds = {kind.name: kind for kind in rules.kinds}
        self._open: dict[tuple[str, str], None] = {}

    def of_classes(self) -> Iterator[Sentence]:
        """One for each rule of top-bags, or for several that differ in the value of one field."""
        for label in dict.fromkeys(label for label, _, _ in self._top.needed):
            cases = [criteria for name, _, criteria in self._top.needed if name == label]
            for criteria in _merged(cases):
                yield self._of_class(label, criteria)

    def of_rule(self, rule: tuple[str, str, tuple[Criterion, ...]]) -> Sentence:
        """One for a rule of top-bags."""
        label, _, criteria = rule
        return self._of_class(label, criteria)

    def defined(self, found: Sequence[Sentence]) -> Iterator[tuple[tuple[str, str], Sentence]]:
        """One for each cluster that sentences mention, and that these then mention."""
        wanted = dict.fromkeys(each for sentence in found for each in sentence.mentions)
        said: set[tuple[str, str]] = set()
        while left := [each for each in wanted if each not in said]:
            said.add(left[0])
            sentence = self.definition(self._kinds[left[0][0]], left[0][1])
            if sentence is not None:
                wanted |= dict.fromkeys(sentence.mentions)
                yield left[0], sentence

    def _of_class(self, label: str, criteria: Sequence[Criterion]) -> Sentence:
        self._open.clear()
        body = self._all(criteria)
        return Sentence(label, body, " if ", tuple(self._open))

    def _all(self, criteria: Sequence[Criterion]) -> str:
        """Conditions that all hold; those that describe a cluster come last."""
        found = sorted(map(self._condition, _without_values(criteria)), key=lambda x: x[1])
        return _listed([text for text, _ in found])

    def _condition(self, criterion: Criterion) -> tuple[str, int]:
        """A condition in words, and how many conditions on members are in it."""
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
            called = _called(kind)
            there = f"are {called}" if is_plural(called) else f"is {_article(called)}"
            return f"there {there} where {self._all(body)}", n_inside
        subject, several = _subject(criterion, kind)
        if body is None:
            return f"{subject} {'are' if several else 'is'} {q.name}", 0
        return f"{subject} {'hold' if several else 'holds'} {self._held(body)}", n_inside

    def _body(self, kind: Kind, name: str, criterion: Criterion) -> tuple[Criterion, ...] | None:
        """The one short rule that says what a cluster is; None where there is none.

        Only of members that have to be there: "no sub-bag holds a 7 and no 3" would be unclear.
        """
        found = [criteria for label, _, criteria in kind.needed if label == name]
        if not _requires(criterion) or len(found) != 1 or not 1 <= len(found[0]) <= _LONGEST:
            return None
        return found[0] if _is_named(kind) or _of_bags_alone(found[0], self._kinds) else None

    def _held(self, criteria: Sequence[Criterion]) -> str:
        """What a bag holds whose members have no name."""
        for each in criteria:
            self._open[str(each.quantity.members), each.quantity.name] = None
        present_first = sorted(criteria, key=lambda each: _occurs(each) is False)
        return _listed([_object(each) for each in present_first])

    def definition(self, kind: Kind, name: str) -> Sentence | None:
        """What a cluster is; None where nobody knows."""
        if kind.clusters is None:
            return None
        self._open.clear()
        found = [criteria for label, _, criteria in kind.needed if label == name]
        if not found:
            definition = kind.clusters.definition
            if definition is None:
                return None
            return Sentence(name, definition.summary(kind.labels.index(name)), ", in short: ")
        cases = []
        for criteria in _merged(found):
            if not criteria:
                cases.append("of any kind")
            elif not _is_named(kind) and _of_bags_alone(criteria, self._kinds):
                cases.append(f"that holds {self._held(criteria)}")
            else:
                cases.append(f"where {self._all(criteria)}")
        body = f"{_one(kind)} {', or '.join(cases)}"
        return Sentence(name, body, ": ", tuple(self._open))


def _one(kind: Kind) -> str:
    """One of the members."""
    if not _is_named(kind):
        return _article(kind.clusters.word if kind.clusters else kind.name)
    called = _called(kind)
    return f"one of the {called}" if is_plural(called) else _article(called)


def _merged(cases: Sequence[tuple[Criterion, ...]]) -> list[tuple[Criterion, ...]]:
    """Cases; those that differ in the value of one field alone are one."""
    found = []
    for group, varying in alike(cases, _field_of):
        case = cases[group[0]]
        if varying is not None:
            compared = [x.quantity for index in group for x in cases[index] if _field_of(x)]
            text = f"{varying.quantity.name} is one of {one_of(_values(compared))}"
            case = tuple(replace(x, text=text) if x == varying else x for x in case)
        found.append(case)
    return found


def _without_values(criteria: Sequence[Criterion]) -> Iterator[Criterion]:
    """Criteria that all hold; those on values that one field may not have are one."""
    groups: dict[Criterion | str, list[Criterion]] = {}
    for each in criteria:
        is_value = each.quantity.measure == "category" and each.quantity.value is not None
        groups.setdefault(
            each.quantity.column if is_value and not each.wanted else each, []
        ).append(each)
    for first, *others in groups.values():
        quantities = [each.quantity for each in (first, *others)]
        text = f"{first.quantity.name} is none of {one_of(_values(quantities))}"
        yield replace(first, text=text) if others else first


def _field_of(criterion: Criterion) -> str | None:
    """The column that has to be of one value; None where the criterion says something else."""
    q = criterion.quantity
    is_value = q.measure == "category" and q.value is not None
    return q.column if is_value and criterion.wanted else None


def _values(quantities: Sequence[Quantity]) -> list[str | int]:
    return [q.value for q in quantities if q.value is not None]


def _is_named(kind: Kind) -> bool:
    """Whether the data have a name for such members."""
    return kind.clusters is not None and bool(kind.clusters.members)


def _called(kind: Kind) -> str:
    """What the data call several of them in the record around them."""
    return kind.clusters.members if kind.clusters else kind.name


def _of_bags_alone(criteria: Sequence[Criterion], kinds: dict[str, Kind]) -> bool:
    """Whether all conditions are about members without a name, which are held."""
    members = [criterion.quantity.members for criterion in criteria]
    return all(name is not None and not _is_named(kinds[name]) for name in members)


def _requires(criterion: Criterion) -> bool:
    is_some = criterion.above == 0 and criterion.at_most is None
    return _occurs(criterion) or (is_some and criterion.quantity.measure == "count")


def _occurs(criterion: Criterion) -> bool | None:
    """Whether there has to be one, or may be none; None where it is about a number or a share."""
    if criterion.wanted is not None or criterion.quantity.measure != "frequency":
        return criterion.wanted
    if criterion.at_most is None and criterion.above == 0:
        return True
    return False if criterion.at_most == 0 else None


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


def _object(criterion: Criterion) -> str:
    """What is held: "a 7", "no 3", "at least two 5"."""
    q = criterion.quantity
    occurs = _occurs(criterion)
    if occurs is not None:
        return _article(q.name) if occurs else f"no {q.name}"
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
    say = _percent if criterion.quantity.measure == "frequency" else bound_text
    above = "" if low is None else f"more than {say(low)}"
    at_most = "" if high is None else f"at most {say(high)}"
    return " and ".join(part for part in (above, at_most) if part)


def _percent(share: float) -> str:
    return f"{bound_text(share, 100)} %"


def _numeral(n: int) -> str:
    return _NUMERALS[n] if 0 < n < len(_NUMERALS) else str(n)


def _article(name: str) -> str:
    is_vowel = name[:1].lower() in "aeio" or name.split(" ")[0] in ("8", "11", "18")
    return f"{'an' if is_vowel else 'a'} {name}"


def _listed(parts: Sequence[str]) -> str:
    return " and ".join(parts) if len(parts) < 3 else f"{', '.join(parts[:-1])} and {parts[-1]}"

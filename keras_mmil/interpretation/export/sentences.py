"""Rules as sentences in the reader's terms."""

from collections.abc import Iterator, Sequence

from keras_mmil._support.numbers import bound_text
from keras_mmil.interpretation.export.program import Criterion, Kind, Program

__all__ = ["definitions", "sentences"]

_LONGEST = 3  # conditions of a cluster that is described where it is mentioned
_NUMERALS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def sentences(rules: Program) -> list[str]:
    """A sentence for each rule of top-bags, and for each cluster that needs one."""
    return list(_Writer(rules).sentences())


def definitions(rules: Program) -> dict[tuple[int, int], str]:
    """What each cluster is, by the index of its bag-layer and its own; without those unknown."""
    found = {}
    for level, kind in enumerate(rules.kinds[:-1]):
        for index, name in enumerate(kind.labels):
            texts = list(_Writer(rules).definition(kind, name))
            if texts:
                found[level, index] = texts[0]
    return found


class _Writer:
    """Writes; remembers which clusters it has still to say something about."""

    def __init__(self, rules: Program) -> None:
        self._top = rules.top
        self._kinds = {kind.name: kind for kind in rules.kinds}
        self._open: dict[tuple[str, str], None] = {}

    def sentences(self) -> Iterator[str]:
        """All of them."""
        for label, _, criteria in self._top.needed:
            yield f"{label} if {self._all(criteria)}" if criteria else f"always {label}"
        said: set[tuple[str, str]] = set()
        while left := [each for each in self._open if each not in said]:
            said.add(left[0])
            yield from self.definition(self._kinds[left[0][0]], left[0][1])

    def _all(self, criteria: Sequence[Criterion]) -> str:
        """Conditions that all hold; those that describe a cluster come last."""
        found = sorted((self._condition(each) for each in criteria), key=lambda x: x[1])
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
            return f"there are {_called(kind)} where {self._all(body)}", n_inside
        subject, is_plural = _subject(criterion, kind)
        if body is None:
            return f"{subject} {'are' if is_plural else 'is'} {q.name}", 0
        return f"{subject} {'hold' if is_plural else 'holds'} {self._held(body)}", n_inside

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

    def definition(self, kind: Kind, name: str) -> Iterator[str]:
        """What a cluster is."""
        if kind.clusters is None:
            return
        found = [criteria for label, _, criteria in kind.needed if label == name]
        if not found:
            definition = kind.clusters.definition
            if definition is not None:
                yield f"{name}, in short: {definition.summary(kind.labels.index(name))}"
            return
        one = f"one of the {_called(kind)}" if _is_named(kind) else _article(kind.clusters.word)
        cases = []
        for criteria in found:
            if not criteria:
                cases.append("of any kind")
            elif not _is_named(kind) and _of_bags_alone(criteria, self._kinds):
                cases.append(f"that holds {self._held(criteria)}")
            else:
                cases.append(f"where {self._all(criteria)}")
        yield f"{name}: {one} {', or '.join(cases)}"


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

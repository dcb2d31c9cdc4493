"""Symbolic rules as data. Text comes last."""

from dataclasses import dataclass, replace

import numpy as np

from keras_mmil._support.percent import percent
from keras_mmil.interpretation.rules import features
from keras_mmil.interpretation.rules.simplify import simplify

__all__ = ["Condition", "Rule", "RuleSet", "learn_rules", "left_out"]

_WIDEST = 80  # clauses behind which figures still align: a few longer ones need not move them all


@dataclass(frozen=True)
class Condition:
    """`low < x ≤ high` for how much of one cluster is in a bag.

    Attributes:
        feature: name of what is measured, see `features.get`.
        cluster: index of the cluster.
        low: -inf for none.
        high: inf for none.
    """

    feature: str
    cluster: int
    low: float = -np.inf
    high: float = np.inf

    @property
    def requires(self):
        """Whether members of the cluster must be there, not only be absent or few."""
        return self.low >= 0

    def holds(self, bags):
        """For feature vectors [bags, k], bool [bags]."""
        x = bags[:, self.cluster]
        # As float64, because NumPy would round a Python float to the dtype of x.
        return (x > np.float64(self.low)) & (x <= np.float64(self.high))

    def text(self, names):
        """The condition in the syntax of the paper, with the names of the clusters."""
        return features.get(self.feature).text(names[self.cluster], self.low, self.high)

    def to_dict(self):
        """As JSON knows it: None for infinity."""
        low, high = (bound if np.isfinite(bound) else None for bound in (self.low, self.high))
        return {"feature": self.feature, "cluster": self.cluster, "low": low, "high": high}

    @classmethod
    def from_dict(cls, data):
        """The inverse of `to_dict`."""
        low = -np.inf if data["low"] is None else data["low"]
        high = np.inf if data["high"] is None else data["high"]
        return cls(data["feature"], data["cluster"], low, high)


@dataclass(frozen=True)
class Rule:
    """Bags for which all conditions hold are of the class `conclusion`.

    Attributes:
        level: index of the level whose clusters the conditions speak of: 0 for instances.
        conclusion: index of the cluster of the level above, or of the class of top-bags.
        conditions: tuple of `Condition`, at most one a cluster.
        support: fraction of the training bags that the rule matches.
        precision: fraction of those which the network puts into the class.
        coverage: fraction of the training bags which the network puts into the class that the rule
            matches, its recall.
    """

    level: int
    conclusion: int
    conditions: tuple
    support: float
    precision: float
    coverage: float

    def matches(self, bags):
        """Whether all conditions hold for feature vectors [bags, k]: bool [bags]."""
        holds = [np.ones(len(bags), bool), *(c.holds(bags) for c in self.conditions)]
        return np.logical_and.reduce(holds)

    def clause(self, member_names, names):
        """The rule in the syntax of the paper: "v1 ← o_u1=1, o_u3=0."."""
        if not self.conditions:
            return f"{names[self.conclusion]}."
        body = ", ".join(condition.text(member_names) for condition in self.conditions)
        return f"{names[self.conclusion]} ← {body}."

    def to_dict(self):
        """As JSON knows it."""
        conditions = [condition.to_dict() for condition in self.conditions]
        return {**vars(self), "conditions": conditions}

    @classmethod
    def from_dict(cls, data):
        """The inverse of `to_dict`."""
        conditions = tuple(Condition.from_dict(each) for each in data["conditions"])
        return cls(**{**data, "conditions": conditions})


@dataclass(frozen=True)
class RuleSet:
    """The rules of one level: from the labels of its members to the label of a bag.

    Rules that match the same bag agree, and every bag is matched.

    Attributes:
        rules: tuple of `Rule`.
        member_names: names of the clusters that the conditions speak of.
        names: names of the conclusions.
        needed: whether a rule that is needed concludes each of these, tuple of bool: a cluster is
            needed if a needed rule above has a condition on it; the classes of top-bags are.
    """

    rules: tuple
    member_names: tuple
    names: tuple
    needed: tuple

    def __iter__(self):
        return iter(self.rules)

    def __len__(self):
        return len(self.rules)

    @property
    def needed_members(self):
        """Which clusters a needed rule has a condition on, tuple of bool."""
        used = {c.cluster for r in self.rules if self.needed[r.conclusion] for c in r.conditions}
        return tuple(cluster in used for cluster in range(len(self.member_names)))

    def predict(self, bags):
        """The conclusion for feature vectors [bags, k]: int [bags].

        Raises:
            ValueError: if no rule matches, which no bag's features do.
        """
        labels = np.full(len(bags), -1)
        for rule in self.rules:
            labels[rule.matches(bags)] = rule.conclusion
        if (labels < 0).any():
            raise ValueError(
                "Expected the features of bags. Received a vector that no bag has: "
                f"{bags[labels < 0][0].tolist()}"
            )
        return labels

    @property
    def constant(self):
        """Name of what all rules conclude, whatever is in a bag; None if they differ."""
        conclusions = {rule.conclusion for rule in self.rules}
        return self.names[conclusions.pop()] if len(conclusions) == 1 else None

    @property
    def n_needed(self):
        """Number of rules that are needed."""
        return sum(self.needed[rule.conclusion] for rule in self.rules)

    def clause(self, rule):
        """A rule of this set in the syntax of the paper."""
        return rule.clause(self.member_names, self.names)

    def lines(self, all=False):
        """A line for each rule that is needed, or for each of all; numbered as in the set."""
        needed = [self.needed[rule.conclusion] for rule in self.rules]
        shown = [
            (number, rule, self.clause(rule), "" if here else ", not needed")
            for number, (rule, here) in enumerate(zip(self.rules, needed, strict=True), 1)
            if all or here
        ]
        width = min(max((len(clause) for _, _, clause, _ in shown), default=0), _WIDEST)
        return [
            f"{number:3}  {clause:<{width}}  # precision {percent(rule.precision, width=5)}, "
            f"support {percent(rule.support, width=5)}, "
            f"coverage of the class {percent(rule.coverage, width=5)}{note}"
            for number, rule, clause, note in shown
        ]

    def text(self, all=False):
        """The rules that are needed, a line each, and how many are not; or all of them."""
        note = left_out(0 if all else len(self) - self.n_needed)
        return "\n".join([*self.lines(all), *note])

    def __str__(self):
        return self.text()


def left_out(n_rules, n_clusters=0):
    """Lines that say how much of a listing is not shown, and how to see it: one line, or none."""
    counts = {"rule": n_rules, "cluster": n_clusters}
    named = [f"{n} {word}{'s' if n > 1 else ''}" for word, n in counts.items() if n]
    return [f"# Not needed, and left out: {', '.join(named)}. See text(all=True)."] if named else []


def learn_rules(tree, feature, level, bags, labels, weights):
    """Turn a tree into simplified rules.

    Args:
        tree: the `Tree`.
        feature: the `Feature` it tests.
        level: index of the level.
        bags: the training bags, float32 [n, k].
        labels: their labels by the network, int [n].
        weights: how many bags each stands for, [n].

    Returns:
        Tuple of `Rule`: ordered by conclusion, then the shortest and best supported first.
    """
    rules = []
    clauses = simplify(tree.boxes(), feature.feasible)
    for (low, high), label in zip(clauses.bounds, clauses.labels, strict=True):
        bounded = np.flatnonzero(np.isfinite(low) | np.isfinite(high))
        conditions = tuple(
            Condition(feature.name, int(c), float(low[c]), float(high[c])) for c in bounded
        )
        rule = Rule(level, int(label), conditions, 0.0, 0.0, 0.0)
        matched = weights * rule.matches(bags)
        right = matched @ (labels == label)
        figures = {
            "support": matched.sum() / weights.sum(),
            "precision": right / matched.sum(),
            "coverage": right / (weights @ (labels == label)),
        }
        rules.append(replace(rule, **{name: float(figure) for name, figure in figures.items()}))
    return tuple(sorted(rules, key=lambda r: (r.conclusion, len(r.conditions), -r.support)))

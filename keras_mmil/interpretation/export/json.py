"""Rules as JSON knows them, for programs that execute them."""

from keras_mmil._support.types import Config
from keras_mmil.interpretation.export.program import Kind, Program

__all__ = ["FORMAT", "VERSION", "to_dict"]

FORMAT, VERSION = "keras-mmil-rules", 1


def to_dict(rules: Program) -> Config:
    """All rules, each kind of records after those that are in it."""
    return {
        "format": FORMAT,
        "version": VERSION,
        "top": rules.top.name,
        "classes": list(rules.top.labels),
        "given": rules.given,
        "levels": [_level(kind, rules) for kind in rules.kinds if kind.level is not None],
    }


def _level(kind: Kind, rules: Program) -> Config:
    assert kind.level is not None
    of_level = kind.level.rules
    return {
        "kind": kind.name,
        "bags": kind.level.word,
        "path": kind.level.path,
        "members": [
            {
                "kind": rules.kinds[bag.level].name,
                "rows": bag.word,
                "path": bag.path,
                "clusters": list(bag.names),
                "needed": list(needed),
                "definition": bag.definition and bag.definition.to_dict(bag.names),
            }
            for bag, needed in zip(kind.level.clusters, kind.level.needed, strict=True)
        ],
        "conclusions": list(kind.labels),
        "rules": [
            {
                "conclusion": kind.labels[rule.conclusion],
                "needed": of_level.needed[rule.conclusion],
                "conditions": [criterion.to_dict() for criterion in criteria],
                "support": rule.support,
                "precision": rule.precision,
                "coverage": rule.coverage,
                "clause": of_level.clause(rule),
            }
            for rule, criteria in kind.rules
        ],
    }

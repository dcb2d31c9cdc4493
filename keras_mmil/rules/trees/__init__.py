"""Rules as data: features, trees, rules, the rules of a level."""

__all__ = []

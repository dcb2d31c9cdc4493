"""Evidence for rules: intervals, stability, deletion tests and counterfactuals."""

__all__ = []

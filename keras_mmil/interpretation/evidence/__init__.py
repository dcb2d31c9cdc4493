"""Figures about rules that one can trust: intervals, stability, faithfulness, counterfactuals."""

__all__ = []

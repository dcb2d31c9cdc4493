"""Explanations of top-bags, and descriptions of clusters."""

__all__ = []

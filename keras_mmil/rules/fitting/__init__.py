"""From what a network shows to the levels of an explainer."""

__all__ = []

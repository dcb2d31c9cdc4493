"""The paper's experiments: what to load, how to train, what to show."""

__all__ = []

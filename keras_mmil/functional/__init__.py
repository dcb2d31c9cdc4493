"""Surgery on functional models: the one room that touches private parts of Keras."""

__all__ = []

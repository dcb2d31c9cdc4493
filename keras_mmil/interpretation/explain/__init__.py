"""What a fitted explainer tells people."""

__all__ = []

"""What a trained network shows of itself."""

__all__ = []

"""Rules that run elsewhere, and what they read there: SQL, Prolog, Python, JSON and sentences."""

__all__ = []

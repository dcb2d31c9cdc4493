"""Rules in other languages (SQL, Prolog, Python, JSON, English), and the table that they read."""

__all__ = []

"""A page about rules: one HTML file to open, send and print."""

__all__ = []

"""A page about rules that one can open, send and print: one file of HTML."""

__all__ = []

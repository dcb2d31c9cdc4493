"""The one place where the version is written; `setup.cfg` reads it from here."""

__version__ = "0.2.0"
"""The version of the library, a string such as "0.2.0"."""

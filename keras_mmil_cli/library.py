"""The library's version and experiments, read without importing the library."""

from __future__ import annotations

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_mmil.zoo.experiments.catalogue import Entry

__all__ = ["catalogue", "version"]


def catalogue() -> tuple[Entry, ...]:
    """The experiments of the zoo."""
    zoo = _package() / "zoo"
    if not zoo.is_dir():  # in a checkout, see keras_mmil/_checkout.py
        zoo = _package().parent / "zoo"
    return _alone(zoo / "experiments" / "catalogue.py").catalogue()


def version() -> str:
    """The version of the library."""
    return _alone(_package() / "_version.py").__version__


def _package() -> Path:
    spec = find_spec("keras_mmil")
    if spec is None or spec.origin is None:
        raise ModuleNotFoundError("Expected the package keras_mmil beside keras_mmil_cli.")
    return Path(spec.origin).parent


def _alone(path: Path) -> ModuleType:
    """A module that imports only the standard library, run without its package."""
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"Expected a module of Python. Received: {path}")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

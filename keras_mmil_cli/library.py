"""What the library says of itself, read without importing it."""

from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

__all__ = ["catalogue", "version"]


def catalogue():
    """The experiments of the zoo: tuple of `keras_mmil.zoo.experiments.catalogue.Entry`."""
    zoo = _package() / "zoo"
    if not zoo.is_dir():  # in a checkout, see keras_mmil/_checkout.py
        zoo = _package().parent / "zoo"
    return _alone(zoo / "experiments" / "catalogue.py").catalogue()


def version():
    """The version of the library: str."""
    return _alone(_package() / "_version.py").__version__


def _package():
    return Path(find_spec("keras_mmil").origin).parent


def _alone(path):
    """A module that needs no more than Python, by itself."""
    spec = spec_from_file_location(path.stem, path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

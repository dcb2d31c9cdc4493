"""Finds `zoo/` and `datasets/` beside the package when it is imported from a checkout.

An installed copy holds both as sub-packages. In a checkout they are top-level folders, which Python
would not find, or find in another installation of the package.
"""

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType

_FOLDERS = {"keras_mmil.zoo": "zoo", "keras_mmil.datasets": "datasets"}


class CheckoutFinder(MetaPathFinder):
    """Finds `keras_mmil.zoo` and `keras_mmil.datasets`, and nothing else, in a checkout."""

    def __init__(self, root: Path):
        self.root = root

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        """The spec of one of the two packages, None for any other name."""
        folder = _FOLDERS.get(fullname)
        if folder is None:
            return None
        # The loader makes a package of it, since the file is called `__init__.py`.
        return spec_from_file_location(fullname, self.root / folder / "__init__.py")


def is_checkout(root: Path) -> bool:
    """Whether a folder is the root of a checkout of this project."""
    setup = root / "setup.cfg"
    return setup.is_file() and "\nname = keras-mmil\n" in setup.read_text(encoding="utf-8")


def install_finder(root: Path) -> None:
    """Put a `CheckoutFinder` first on `sys.meta_path` if `root` is a checkout of this project."""
    if is_checkout(root):
        # First: an editable installation's finder would answer with another checkout's folders.
        sys.meta_path.insert(0, CheckoutFinder(root))


install_finder(Path(__file__).resolve().parent.parent)

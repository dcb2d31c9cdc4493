"""Packages that import a name when it is first used."""

import importlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["lazy"]


def lazy(
    package: str, homes: Mapping[str, str | None], names: Iterable[str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Returns the `__getattr__` and `__dir__` of a package.

    Args:
        package: its `__name__`.
        homes: the module, relative to the package, that defines each name; None where the name is
            a module of the package itself.
        names: all public names of the package.
    """

    def get(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        module = importlib.import_module(f"{package}.{home or name}")
        return module if home is None else getattr(module, name)

    return get, lambda: sorted(names)

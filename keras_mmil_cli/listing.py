"""What the command line reads of the library without importing it; and the table of experiments."""

from __future__ import annotations

import itertools
import textwrap
from collections.abc import Iterable, Iterator
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from keras_mmil.zoo.experiments.catalogue import Entry

__all__ = ["catalogue", "listing", "options_module", "version"]

_WIDTH = 100
_METRICS = {"accuracy": "test_accuracy", "rules": "rule_accuracy", "fidelity": "fidelity"}
_INTRODUCTION = """\
keras-mmil run EXPERIMENT OPTIONS reproduces an experiment; without options, its first line below.
The paper's figures, in per cent, are the test accuracy, that of the rules, and their fidelity.
"""


def version() -> str:
    """The version of the library."""
    return _alone(_package() / "_version.py").__version__


def options_module() -> ModuleType:
    """The module `keras_mmil.cli.options`."""
    return _alone(_package() / "cli" / "options.py")


def catalogue() -> tuple[Entry, ...]:
    """The experiments of the zoo."""
    zoo = _package() / "zoo"
    if not zoo.is_dir():  # in a checkout, see keras_mmil/_checkout.py
        zoo = _package().parent / "zoo"
    return _alone(zoo / "experiments" / "catalogue.py").catalogue()


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


def listing(entries: Iterable[Entry]) -> str:
    """The experiments by name, with options and the paper's figures, in lines of 100 characters."""
    rows = [(_command(entry), entry) for entry in entries]
    width = max(len(command) for command, _ in rows)
    heads = "".join(f"  {head}" for head in _METRICS)
    lines = [_INTRODUCTION, f"  {'':{width}}  epochs  {'':6}{heads}"]
    for name, group in itertools.groupby(rows, key=lambda row: row[1].name):
        of_name = list(group)
        lines += ["", *_heading(name, of_name[0][1])]
        for command, entry in of_name:
            lines.append(f"  {command:{width}}  {entry.epochs:6}  {_figures(entry)}".rstrip())
    return "\n".join(lines)


def _command(entry: Entry) -> str:
    options = ("model", "aggregation", "split")
    given = ((option, getattr(entry, option)) for option in options)
    return " ".join(f"--{option} {value}" for option, value in given if value)


def _heading(name: str, entry: Entry) -> Iterator[str]:
    """What the experiments of a name have in common."""
    yield from textwrap.wrap(f"{name}: {entry.title}", _WIDTH, subsequent_indent="  ")
    first, *others = entry.sources
    more = ["--vat"] if entry.adversarial is not None else []
    more += [f"cross-validated: {entry.rounds} x {entry.folds} folds"] if entry.folds else []
    sources = " | ".join([f"{first} (default)", *others])
    yield "; ".join([f"  --source {sources}", *more])


def _figures(entry: Entry) -> str:
    if not entry.paper:
        return ""
    cells = []
    for head, metric in _METRICS.items():
        figure = f"{100 * entry.paper[metric]:.2f}" if metric in entry.paper else ""
        cells.append(f"  {figure:>{len(head)}}")
    return "paper:" + "".join(cells)

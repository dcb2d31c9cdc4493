"""Every public name of the library, and whether it is documented, read from its syntax trees.

A name is public if it is in the `__all__` of a public package of `setup.cfg`, or of a module that
is itself in such an `__all__`. What public methods return is public, too: `RETURNED` lists it.
"""

import ast
import functools
from collections.abc import Iterator
from configparser import ConfigParser
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {"keras_mmil.zoo": "zoo", "keras_mmil.datasets": "datasets", "keras_mmil": "keras_mmil"}

RETURNED = {
    "keras_mmil.rules": (
        "export.rule_book.RuleBook",
        "trees.rule_set.Rule",
        "trees.rule_set.Condition",
        "trees.rule_set.RuleSet",
        "trees.level.Level",
        "trees.level.Clusters",
        "trees.rule_set.Definition",
        "fitting.search.GridPoint",
        "explain.explanation.Explanation",
        "explain.texts.TextExplanation",
        "explain.explanation.Part",
        "explain.clusters.Description",
        "explain.clusters.LevelDescription",
        "explain.clusters.Representative",
        "explain.clusters.ClusterTable",
        "explain.clusters.ClusterView",
        "evidence.certificate.Certificate",
        "evidence.certificate.RulePrecision",
        "evidence.certificate.Interval",
        "evidence.stability.Stability",
        "evidence.stability.RuleStability",
        "evidence.deletion.DeletionTest",
        "evidence.deletion.DeletionRow",
        "evidence.counterfactual.Counterfactual",
        "report.page.Report",
        "report.renderers.Renderer",
    ),
}
# Keras documents these methods of layers, models and callbacks.
KERAS_METHODS = {
    "build",
    "build_from_config",
    "call",
    "compute_loss",
    "compute_output_shape",
    "compute_output_spec",
    "from_config",
    "get_build_config",
    "get_config",
    "train_step",
    "test_step",
}


@dataclass(frozen=True)
class Name:
    """A public name: where users find it, and where it is defined."""

    module: str
    name: str
    home: str  # the module that defines it
    seen: str  # a module that defines or imports it, as a reader of sources sees
    node: ast.AST
    docstring: str | None

    @property
    def path(self) -> str:
        """What users write, such as `keras_mmil.layers.BagLayer`."""
        return f"{self.module}.{self.name}"

    @property
    def definition(self) -> str:
        """The full name where it is defined."""
        return f"{self.home}.{self.name}"

    @property
    def address(self) -> str:
        """A full name under which mkdocstrings finds it."""
        return f"{self.seen}.{self.name}"

    @property
    def shown(self) -> str:
        """What stands in headings: the path, or the name alone where users import nothing."""
        returned = {f"{m}.{path}" for m, paths in RETURNED.items() for path in paths}
        return self.name if self.path in returned else self.path

    @property
    def methods(self) -> tuple[str, ...]:
        """The public methods of a class, in their order, without what it inherits."""
        body = self.node.body if isinstance(self.node, ast.ClassDef) else []
        found = [each.name for each in body if isinstance(each, ast.FunctionDef)]
        return tuple(dict.fromkeys(name for name in found if not name.startswith("_")))

    @property
    def summary(self) -> str:
        """The first paragraph of the docstring, in one line."""
        return " ".join((self.docstring or "").partition("\n\n")[0].split())


@functools.cache
def source_of(module: str) -> Path | None:
    """The file of a module, None if there is none."""
    package = next((each for each in FOLDERS if f"{module}.".startswith(f"{each}.")), None)
    if package is None:
        return None
    path = ROOT.joinpath(FOLDERS[package], *module.removeprefix(package).split(".")[1:])
    return next((p for p in (path / "__init__.py", path.with_suffix(".py")) if p.is_file()), None)


@functools.cache
def tree_of(module: str) -> ast.Module:
    """The syntax tree of a module."""
    path = source_of(module)
    if path is None:
        raise LookupError(f"Expected a module of the library. Received: module={module!r}")
    return ast.parse(path.read_text(encoding="utf-8"))


def targets(node: ast.AST) -> list[str]:
    """The names that an assignment assigns."""
    if isinstance(node, ast.Assign):
        return [e.id for t in node.targets for e in ast.walk(t) if isinstance(e, ast.Name)]
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return [node.target.id]
    return [node.name.id] if isinstance(node, getattr(ast, "TypeAlias", ())) else []


@functools.cache
def exported(module: str) -> tuple[str, ...]:
    """What is in the `__all__` of a module, which may refer to constants above it."""
    constants: dict[str, object] = {"__builtins__": {}}
    for node in tree_of(module).body:
        if isinstance(node, ast.Assign):
            try:
                value = eval(compile(ast.Expression(node.value), module, "eval"), constants)
            except Exception:  # what is no constant is not needed
                continue
            constants[targets(node)[0]] = value
    return tuple(constants.get("__all__", ()))


def submodules(package: str) -> Iterator[str]:
    """The public modules right below a package."""
    path = source_of(package)
    if path is not None and path.name == "__init__.py":
        for each in sorted(path.parent.iterdir()):
            name = f"{package}.{each.stem}"
            if not each.name.startswith("_") and source_of(name) is not None:
                yield name
    if package == "keras_mmil":
        yield from ("keras_mmil.datasets", "keras_mmil.zoo")


def documented(body: list[ast.stmt], i: int) -> str | None:
    """The docstring of the statement at `i`: within it, or right after an assignment."""
    if isinstance(body[i], ast.ClassDef | ast.FunctionDef):
        return ast.get_docstring(body[i])
    if i + 1 < len(body) and isinstance(body[i + 1], ast.Expr):
        value = body[i + 1].value
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            return value.value
    return None


def imports(module: str, name: str) -> Iterator[tuple[str, str]]:
    """The module and the name there that a module imports as `name`, if only for type checkers."""
    body = tree_of(module).body
    for node in (*body, *(each for part in body if isinstance(part, ast.If) for each in part.body)):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("keras_mmil"):
            for alias in node.names:
                if (alias.asname or alias.name) == name and node.module != module:
                    yield str(node.module), alias.name


def module_at(module: str, name: str) -> str | None:
    """The full name of the module that is known as `name` in a module, None if it is none."""
    places = [(module, name), *imports(module, name)]
    return next((f"{m}.{n}" for m, n in places if source_of(f"{m}.{n}") is not None), None)


def find(module: str, name: str) -> tuple[str, str, ast.AST, str | None] | None:
    """The modules that define and that show a name, its node and its docstring."""
    body = tree_of(module).body
    for i, node in enumerate(body):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and node.name == name:
            return module, module, node, documented(body, i)
        if name in targets(node):
            return module, module, node, documented(body, i)
    for origin in imports(module, name):
        found = find(*origin)
        return found and (found[0], module, *found[2:])
    for other in submodules(module):  # what a package loads when it is asked for it
        if name in exported(other):
            return find(other, name)
    return None


def packages() -> list[str]:
    """The public packages of `setup.cfg`."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg", encoding="utf-8")
    names = setup["options"]["packages"].split()
    return [name for name in names if name.startswith("keras_mmil") and "._" not in name]


@functools.cache
def public_names() -> dict[str, tuple[Name, ...]]:
    """The public names by module, each once: where its path is shortest."""
    waiting = [name for name in packages() if source_of(name) is not None]
    modules: list[str] = []
    found: dict[str, Name] = {}
    for module in waiting:  # grows
        if module in modules:
            continue
        modules.append(module)
        for name in (*exported(module), *RETURNED.get(module, ())):
            inner_module = module_at(module, name)
            if inner_module is not None:
                waiting.append(inner_module)
                continue
            inner, _, last = f"{module}.{name}".rpartition(".")
            place = find(inner, last)
            if place is None:
                raise LookupError(f"{module}.__all__ has {name!r}, which is not found")
            new = Name(inner, last, *place)
            old = found.get(new.definition)
            if old is None or new.path.count(".") < old.path.count("."):
                found[new.definition] = new
    by_module = {module: [] for module in sorted(modules)}
    for name in found.values():
        section = next(
            (m for m, each in RETURNED.items() if name.path in {f"{m}.{path}" for path in each}),
            name.module,
        )
        by_module[section].append(name)
    return {module: tuple(names) for module, names in by_module.items() if names}


def is_documented(home: str, node: ast.ClassDef, method: str) -> bool:
    """Whether a method has a docstring, here or in a base class of the library."""
    if method in KERAS_METHODS or method.startswith(("_", "on_")):
        return True
    for each in node.body:
        if isinstance(each, ast.FunctionDef) and each.name == method and ast.get_docstring(each):
            return True
    places = (find(home, base.id) for base in node.bases if isinstance(base, ast.Name))
    return any(
        is_documented(place[0], place[2], method)
        for place in places
        if place is not None and isinstance(place[2], ast.ClassDef)
    )


def undocumented() -> list[str]:
    """Public modules, names and methods without a docstring."""
    missing = [m for m in public_names() if not ast.get_docstring(tree_of(m))]
    for name in (name for names in public_names().values() for name in names):
        if not name.docstring:
            missing.append(name.path)
        if isinstance(name.node, ast.ClassDef):
            missing += [
                f"{name.path}.{method}"
                for method in name.methods
                if not is_documented(name.home, name.node, method)
            ]
    return missing

"""The structure of the library, read from its syntax trees without importing it."""

import ast
import inspect
import re
import sys
from collections.abc import Iterator
from configparser import ConfigParser
from importlib.util import find_spec, resolve_name
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    "keras_mmil": "keras_mmil",
    "keras_mmil_cli": "keras_mmil_cli",
    "zoo": "keras_mmil.zoo",
    "datasets": "keras_mmil.datasets",
}

# The package that needs no TensorFlow, and what it runs of the library by itself.
FRONT = "keras_mmil_cli"
ALONE = {
    "keras_mmil.cli.options",
    "keras_mmil.zoo.experiments.catalogue",
    "keras_mmil._version",
}

ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


ROOMS = ARCHITECTURE.split("## What a room may import")[1].split("\n## ")[0]


def in_code(text: str) -> list[str]:
    return re.findall(r"`(.+?)`", text)


# What each room may import: the table of docs/architecture.md, which goes from the ground up.
GROUND = in_code(re.search(r"^\*Ground\* is .*$", ARCHITECTURE, re.MULTILINE).group())
DIRECTIONS = {
    room: {*in_code(imports), *(GROUND if "ground" in imports else ())}
    for rooms, imports in re.findall(r"^\| (`.+`) \| .+ \| (.*)\|$", ROOMS, re.MULTILINE)
    for room in in_code(rooms)
}
ORDER = list(DIRECTIONS)
# The package itself registers the serializable classes, and loads the rest only when asked to.
EAGER = {
    "_backend",
    "_checkout",
    "_support",
    "_version",
    "bags",
    "layers",
    "layers.aggregations",
    "losses",
    "metrics",
    "model",
}

DISTRIBUTIONS = {"sklearn": "scikit-learn", "tensorflow_text": "tensorflow-text"}
PICKLING = {"pickle", "_pickle", "cloudpickle", "dill", "marshal", "shelve"}
# The room of all that is private to Keras and TensorFlow, and the part of it that layers need.
MODEL = ROOT / "keras_mmil" / "model"
KERAS_INTERNALS = ROOT / "keras_mmil" / "_support" / "keras_internals.py"
SKLEARN_INTERNALS = KERAS_INTERNALS.with_name("sklearn_internals.py")
# What `Model` overrides on purpose.
OVERRIDDEN = {
    "_default_save_signature",
    "_make_function",
    "_maybe_symbolic_build",
    "_run_through_graph",
}
PRIVATE_PACKAGES = ("keras.src", "tensorflow.python")
# The source, in keras/src, of what models and layers inherit.
KERAS_BASES = (
    "models",
    "trainers",
    "layers/layer.py",
    "ops/function.py",
    "ops/operation.py",
    "backend/tensorflow/layer.py",
    "backend/tensorflow/trainer.py",
)
# Modules that may, with their reasons: Planetoid has nothing else, and only arrays get through.
ALLOWED_TO_PICKLE = {"keras_mmil.datasets._io.planetoid"}


def module_name(path: Path) -> str:
    folder, *parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join([FOLDERS[folder], *(part for part in parts if part != "__init__")])


MODULES = {
    module_name(path): path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))
}


def every_module(check):
    """One test of all modules, which names each that fails: a test for each would be thousands."""

    def test(request):
        parameters = [name for name in inspect.signature(check).parameters if name != "module"]
        fixtures = {name: request.getfixturevalue(name) for name in parameters}
        wrong = {}
        for module in MODULES:
            try:
                check(module, **fixtures)
            except AssertionError as error:
                wrong[module] = str(error)
        assert not wrong, "\n".join(f"{module}: {error}" for module, error in wrong.items())

    test.__name__, test.__doc__ = check.__name__, check.__doc__
    return test


def room_of(name: str) -> str | None:
    """Returns the room that `name` belongs to, `None` outside of the library.

    A name that the package defines itself, such as `keras_mmil.Bags`, is of the room `keras_mmil`.
    """
    package, *rest = name.split(".")
    if package != "keras_mmil":
        return FRONT if package == FRONT else None
    starts = (".".join(rest[:n]) for n in range(len(rest), 0, -1))
    return next((start for start in starts if start in DIRECTIONS), package)


def import_statements(node: ast.AST) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yields every import under `node` that is ever executed: not those for type checkers only."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            yield from import_statements(ast.Module(child.orelse, []))
        else:
            yield from import_statements(child)


def imported_names(source: str, package: str) -> Iterator[str]:
    """Yields the full name of everything that `source`, a module of `package`, imports."""
    for statement in import_statements(ast.parse(source)):
        prefix = ""
        if isinstance(statement, ast.ImportFrom):
            prefix = resolve_name("." * statement.level + (statement.module or ""), package) + "."
        yield from (prefix + alias.name for alias in statement.names)


def imports_of(module: str) -> list[str]:
    path = MODULES[module]
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return list(imported_names(path.read_text(encoding="utf-8"), package))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import keras_mmil.model as m, os", ["keras_mmil.model", "os"]),
        ("from keras_mmil.model import Model", ["keras_mmil.model.Model"]),
        ("from keras_mmil import model, Bags", ["keras_mmil.model", "keras_mmil.Bags"]),
        ("from . import max", ["keras_mmil.layers.max"]),
        ("from .. import zoo", ["keras_mmil.zoo"]),
        ("from ..model import *", ["keras_mmil.model.*"]),
        ("def f():\n  if x:\n    import pickle", ["pickle"]),
        ("try:\n  import a\nexcept ImportError:\n  import b", ["a", "b"]),
        ("if TYPE_CHECKING:\n  import a\nelse:\n  import b", ["b"]),
        ("if typing.TYPE_CHECKING:\n  from ..zoo import a", []),
    ],
)
def test_imports_are_found(source, expected):
    assert list(imported_names(source, "keras_mmil.layers")) == expected


@pytest.mark.parametrize(
    ("name", "room"),
    [
        ("keras_mmil.zoo.images.build", "zoo"),
        ("keras_mmil.zoo.experiments.digits", "zoo.experiments"),
        ("keras_mmil.layers.bag_layer.BagLayer", "layers"),
        ("keras_mmil.Bags", "keras_mmil"),
        ("keras_mmil", "keras_mmil"),
        ("keras_mmil_extra.zoo", None),
        ("keras_mmil_cli.main.main", "keras_mmil_cli"),
        ("keras.layers", None),
    ],
)
def test_names_belong_to_rooms(name, room):
    assert room_of(name) == room


@pytest.mark.parametrize("room", DIRECTIONS)
def test_the_table_of_rooms_goes_one_way(room):
    above = ORDER[: ORDER.index(room)]
    assert set(above) >= DIRECTIONS[room] - {room}


@every_module
def test_imports_go_one_way(module):
    room = room_of(module)
    # The face of a package, such as `zoo/__init__.py`, shows what is in it, wherever that lies.
    is_face = MODULES[module].name == "__init__.py"
    wrong = []
    for name in imports_of(module):
        other = room_of(name)
        if other in (None, room) or (is_face and other.startswith(f"{room}.")):
            continue
        allowed = EAGER if room == "keras_mmil" else DIRECTIONS[room]
        wrong += [name] * (other not in allowed)
    assert not wrong, f"{room} may import of the library only {sorted(allowed)}"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name != "_"


def private_attributes(source: str) -> Iterator[str]:
    """Yields every private attribute that `source` reads or sets, of whatever object."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith("attr"):
            # Those of getattr, hasattr, setattr.
            names = [arg.value for arg in node.args if isinstance(arg, ast.Constant)]
        else:
            names = []
        yield from (name for name in names if isinstance(name, str) and is_private(name))


def own_attributes(source: str) -> Iterator[str]:
    """Yields the private attributes that the classes of `source` define."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ClassDef):
            continue
        defined = [child.name for child in node.body if isinstance(child, ast.FunctionDef)]
        for child in ast.walk(node):
            if isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store):
                defined += [child.attr] * (ast.unparse(child.value) == "self")
        for child in node.body:
            targets = child.targets if isinstance(child, ast.Assign) else [child]
            targets = [getattr(target, "target", target) for target in targets]
            defined += [target.id for target in targets if isinstance(target, ast.Name)]
        yield from filter(is_private, defined)


@pytest.mark.parametrize(
    ("source", "private"),
    [
        ("model._inputs_struct", {"_inputs_struct"}),
        ("class A:\n  def f(self): return self._compile_loss", {"_compile_loss"}),
        ("class A:\n  def f(self): return super()._build()", {"_build"}),
        ("getattr(x, '_keras_mask', None)", {"_keras_mask"}),
        ("if hasattr(x, '_a'):\n  setattr(x, '_b', 1)", {"_a", "_b"}),
        ("def f():\n  _x = 1\n  return _x, x.__class__", set()),
        ("class A:\n  def __init__(self, other): self._a = other._b", {"_b"}),
        ("class A:\n  _a: int = 0\n  def _f(self, o): return self._a + o._f()", set()),
    ],
)
def test_private_attributes_are_found(source, private):
    assert set(private_attributes(source)) - set(own_attributes(source)) == private


@pytest.fixture(scope="module")
def own():
    """The private attributes that the library defines outside that room, by module."""
    return {
        module: set(own_attributes(path.read_text(encoding="utf-8")))
        for module, path in MODULES.items()
        if MODEL not in path.parents and path not in (KERAS_INTERNALS, SKLEARN_INTERNALS)
    }


@every_module
def test_what_is_private_to_keras_is_used_in_one_room(module, own):
    if module not in own:
        return
    names = set(private_attributes(MODULES[module].read_text(encoding="utf-8")))
    assert names <= set().union(*own.values())
    imported = [name for name in imports_of(module) if name.startswith(PRIVATE_PACKAGES)]
    assert not imported


def test_no_private_attribute_of_keras_is_taken(own):
    """Neither to override it, nor by chance. The first would be no use of it by its syntax."""
    (keras,) = find_spec("keras").submodule_search_locations
    paths = [Path(keras) / "src" / base for base in KERAS_BASES]
    files = [file for path in paths for file in ([path] if path.is_file() else path.glob("*.py"))]
    found = {
        name
        for file in files
        for names in re.findall(r"\bself\.(\w+)|\bdef (\w+)", file.read_text(encoding="utf-8"))
        for name in names
        if is_private(name)
    }
    assert found >= {"_inputs_struct", "_flatten_layers", "_maybe_symbolic_build"}
    taken = {module: names & found for module, names in own.items() if names & found}
    assert not taken
    of_model = set(own_attributes(MODULES["keras_mmil.model"].read_text(encoding="utf-8")))
    assert of_model & found <= OVERRIDDEN


@every_module
def test_nothing_is_imported_by_star(module):
    assert not [name for name in imports_of(module) if name.endswith(".*")]


@every_module
def test_nothing_pickles(module):
    if module in ALLOWED_TO_PICKLE:
        return
    assert not {name.split(".")[0] for name in imports_of(module)} & PICKLING
    allowing = [
        node.lineno
        for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8")))
        if isinstance(node, ast.keyword) and node.arg == "allow_pickle"
        if not (isinstance(node.value, ast.Constant) and node.value.value is False)
    ]
    assert not allowing, "NumPy must not unpickle in these lines"


@every_module
def test_public_modules_say_what_is_public(module):
    if any(part.startswith("_") for part in module.split(".")):
        return
    assigned = {
        target.id
        for statement in ast.parse(MODULES[module].read_text(encoding="utf-8")).body
        if isinstance(statement, ast.Assign)
        for target in statement.targets
        if isinstance(target, ast.Name)
    }
    assert "__all__" in assigned


@pytest.fixture(scope="module")
def setup_cfg():
    parser = ConfigParser()
    assert parser.read(ROOT / "setup.cfg", encoding="utf-8")
    return parser


def test_every_package_is_listed(setup_cfg):
    # Any folder with Python files: one that lacks its `__init__.py` is reported, too.
    found = {module_name(path.parent / "__init__.py") for path in MODULES.values()}
    listed = setup_cfg["options"]["packages"].split()
    assert sorted(listed) == sorted(found)
    assert found <= {name for name, path in MODULES.items() if path.name == "__init__.py"}


def test_every_third_party_import_is_declared(setup_cfg):
    extras = setup_cfg["options.extras_require"]
    optional = [extras[name] for name in ("graphs", "plots", "text")]
    declared = "\n".join([setup_cfg["options"]["install_requires"], *optional])
    # Data frames are whoever's that has them; no extra installs pandas.
    distributions = {*re.findall(r"^[\w-]+", declared, re.MULTILINE), "pandas"}
    imported = {name.split(".")[0] for module in MODULES for name in imports_of(module)}
    third_party = imported - sys.stdlib_module_names - {"keras_mmil", FRONT}
    assert {DISTRIBUTIONS.get(name, name) for name in third_party} <= distributions


def test_every_dependency_says_what_it_is_for(setup_cfg):
    section = ARCHITECTURE.split("## What the library is built on")[1].split("\n## ")[0]
    told = re.findall(r"^\| ([a-z0-9, \\[\]-]+) \|", section, re.MULTILINE)
    names = {name.strip("\\[]") for cell in told for name in cell.split(", ")}
    needed = re.findall(r"^[\w-]+", setup_cfg["options"]["install_requires"], re.MULTILINE)
    extras = {*setup_cfg["options.extras_require"]} - {"all"}
    assert names - {"needed", "extra", "---"} == {*needed, *extras}


@pytest.mark.parametrize("module", [m for m in MODULES if m in ALONE or room_of(m) == FRONT])
def test_the_front_of_the_command_line_needs_only_python(module):
    """What is imported in its functions is needed only when a command runs."""
    tree = ast.parse(MODULES[module].read_text(encoding="utf-8"))
    tree.body = [child for child in tree.body if not isinstance(child, ast.FunctionDef)]
    imported = {name.split(".")[0] for name in imported_names(ast.unparse(tree), module)}
    assert imported <= sys.stdlib_module_names | {FRONT}

"""What is shipped, and where the package's parts are found: installed, from a checkout, or both."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from email import message_from_string
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = {
    "keras_mmil": "keras_mmil",
    "keras_mmil_cli": "keras_mmil_cli",
    "zoo": "keras_mmil/zoo",
    "datasets": "keras_mmil/datasets",
}

# Prints which modules the package loads by itself, and then with the zoo; where each part was
# loaded from, how many finders of ours were in use, and a pretrained network.
REPORT = """
import json, sys
import keras_mmil
own = lambda: [name for name in sys.modules if name.startswith("keras_mmil.")]
loaded = own()
from keras_mmil import zoo
with_zoo = own()
from keras_mmil import datasets
from keras_mmil._checkout import CheckoutFinder
files = {module.__name__: module.__file__ for module in (keras_mmil, zoo, datasets)}
finders = sum(isinstance(finder, CheckoutFinder) for finder in sys.meta_path)
report = {"loaded": loaded, "with_zoo": with_zoo, "files": files, "finders": finders}
report |= {"cora": str(zoo.load("cora")), "n": len(zoo.registry)}
print(json.dumps(report), flush=True)
"""

# Makes that report in copies of one process, which has imported Keras and nothing of ours: that
# takes most of the time. Each copy has a folder that it is in, and a path as its PYTHONPATH.
REPORTS = """
import json, os, sys, traceback
import keras
for folder, path in json.loads(sys.argv[2]):
    if os.fork() == 0:
        try:
            os.chdir(folder)
            sys.path[1:1] = [path] * bool(path)
            exec(sys.argv[1])
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    if os.wait()[1]:
        sys.exit(1)
"""

# Runs the command that is installed, and prints its exit code and what it has imported.
COMMAND = """
import sys
from importlib.metadata import entry_points
(script,) = {e for e in entry_points(group="console_scripts") if e.name == "keras-mmil"}
try:
    code = script.load()(sys.argv[1:])
except SystemExit as end:  # of argparse
    code = end.code
module = sys.modules[script.module]
heavy = sorted({"keras_mmil", "keras", "tensorflow", "numpy"} & sys.modules.keys())
print(code, heavy, module.__file__, file=sys.stderr)
"""


def run(code, folder, path="", arguments=(), **environment):
    """Runs `code` in a fresh process, started in `folder`, with `path` as its PYTHONPATH."""
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(path)} | environment,
        capture_output=True,
        text=True,
    )


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    """A copy of what is shipped, so that nothing is built in the real checkout."""
    copy = tmp_path_factory.mktemp("packaging") / "checkout"
    copy.mkdir()
    for name in (*FOLDERS, "tests"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for path in ROOT.iterdir():
        if path.suffix in (".cfg", ".in", ".md", ".toml") or path.name == "LICENSE":
            shutil.copy(path, copy)
    return copy


@pytest.fixture(scope="module")
def built(checkout):
    """The folder with the sdist, and with the wheel that is built from the sdist."""
    folder = checkout.parent / "dist"
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, checkout]
    result = subprocess.run(command, cwd=checkout.parent, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.fixture(scope="module")
def wheel(built):
    (path,) = built.glob("*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


@pytest.fixture(scope="module")
def installed(wheel, checkout):
    """A folder that holds the wheel's content, as `pip install` would unpack it."""
    folder = checkout.parent / "installed"
    wheel.extractall(folder)
    return folder


@pytest.fixture(scope="module")
def reports(checkout, installed, tmp_path_factory):
    """Of a checkout, of one beside an installed copy, and of an installed copy."""
    empty = tmp_path_factory.mktemp("empty")
    places = [(checkout, ""), (checkout, installed), (empty, installed)]
    arguments = [REPORT, json.dumps([list(map(str, place)) for place in places])]
    result = run(REPORTS, empty, arguments=arguments)
    assert result.returncode == 0, result.stderr
    names = ("a checkout", "beside an installed copy", "an installed copy")
    return dict(zip(names, map(json.loads, result.stdout.splitlines()), strict=True))


@pytest.fixture(scope="module")
def metadata(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
    return message_from_string(wheel.read(name).decode())


@pytest.mark.slow
def test_wheel_holds_the_library_and_nothing_else(wheel, checkout):
    expected = {
        f"{target}/{path.relative_to(checkout / folder).as_posix()}"
        for folder, target in FOLDERS.items()
        for path in (checkout / folder).rglob("*")
        if path.is_file()
    }
    assert {name for name in wheel.namelist() if ".dist-info/" not in name} == expected


@pytest.mark.slow
def test_wheel_holds_the_license(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith("LICENSE"))
    assert wheel.read(name).decode() == (ROOT / "LICENSE").read_text(encoding="utf-8")


@pytest.mark.slow
def test_sdist_holds_the_tests(built):
    (path,) = built.glob("*.tar.gz")
    with tarfile.open(path) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names >= {
        "LICENSE",
        "CHANGELOG.md",
        "tests/conftest.py",
        "tests/project/test_packaging.py",
        "zoo/pretrained/cora/weights.npz",
    }


@pytest.mark.slow
def test_pretrained_networks_are_found_where_they_are_installed(reports):
    for report in reports.values():
        assert report["cora"].startswith("<Pretrained 'cora': test_accuracy 0.")


@pytest.mark.slow
def test_version_is_written_once(metadata):
    version = runpy.run_path(str(ROOT / "keras_mmil" / "_version.py"))["__version__"]
    assert metadata["Version"] == version
    writers = [
        path.relative_to(ROOT).as_posix()
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"^__version__\s*=", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]
    assert writers == ["keras_mmil/_version.py"]


@pytest.mark.slow
def test_newest_version_is_in_the_changelog(metadata):
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(.+?)\]", changelog, re.MULTILINE)[0] == metadata["Version"]


@pytest.mark.slow
def test_extras(metadata):
    assert set(metadata.get_all("Provides-Extra")) == {
        "all",
        "bench",
        "dev",
        "docs",
        "graphs",
        "plots",
        "ray",
        "serve",
        "test",
        "test-all",
        "text",
    }


@pytest.mark.slow
def test_console_script_exists(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith("entry_points.txt"))
    assert "keras-mmil = keras_mmil_cli.main:main" in wheel.read(name).decode().splitlines()
    assert "\ndef main(" in wheel.read("keras_mmil_cli/main.py").decode()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--help"], 0, "reproduce an experiment"),
        (["--version"], 0, "keras-mmil 0"),
        (["run", "--help"], 0, "--record"),
        (["list"], 0, "--model mil --aggregation max --split temporal"),
        (["run", "mnits"], 2, "experiment='mnits'"),
        (["run", "mnist", "--epochs", "0"], 2, "--epochs 0"),
        (["run", "mnist", "--jobs", "2"], 2, "--jobs 2"),
    ],
)
def test_installed_command_answers_without_tensorflow(installed, tmp_path, arguments, code, said):
    result = run(COMMAND, tmp_path, installed, arguments)
    *said_first, last = result.stderr.splitlines()
    assert last == f"{code} [] {installed / 'keras_mmil_cli' / 'main.py'}"
    assert said in (result.stderr if code else result.stdout)
    assert bool(said_first) == bool(code)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("with_installed", [False, True], ids=["alone", "beside an installed copy"])
def test_checkout_lists_its_own_experiments(checkout, installed, with_installed):
    path = checkout / "zoo" / "experiments" / "catalogue.toml"
    before = path.read_text(encoding="utf-8")
    changed = before.replace("bags of bags of digits", "digits of this checkout")
    code = "import sys; from keras_mmil_cli.main import main; sys.exit(main(['list']))"
    path.write_text(changed, encoding="utf-8")
    try:
        result = run(code, checkout, installed if with_installed else "")
    finally:
        path.write_text(before, encoding="utf-8")
    assert result.returncode == 0, result.stderr
    assert "digits of this checkout" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a checkout", "beside an installed copy"])
def test_checkout_finds_its_own_folders(checkout, reports, name):
    assert reports[name]["files"] == {
        "keras_mmil": str(checkout / "keras_mmil" / "__init__.py"),
        "keras_mmil.zoo": str(checkout / "zoo" / "__init__.py"),
        "keras_mmil.datasets": str(checkout / "datasets" / "__init__.py"),
    }
    assert reports[name]["finders"] == 1


@pytest.mark.slow
def test_installed_copy_needs_no_finder(installed, reports):
    package = installed / "keras_mmil"
    assert reports["an installed copy"]["files"] == {
        "keras_mmil": str(package / "__init__.py"),
        "keras_mmil.zoo": str(package / "zoo" / "__init__.py"),
        "keras_mmil.datasets": str(package / "datasets" / "__init__.py"),
    }
    assert reports["an installed copy"]["finders"] == 0


@pytest.mark.slow
def test_the_package_loads_no_more_than_it_needs(reports):
    lazy = {
        "builders",
        "cli",
        "datasets",
        "rules",
        "io",
        "records",
        "testing",
        "training",
        "zoo",
    }
    for report in reports.values():
        loaded = {name.split(".")[1] for name in report["loaded"]}
        assert "model" in loaded
        assert not loaded & lazy
        # Builders of networks need no rules, reports, plots or data.
        assert "keras_mmil.zoo.images" in report["with_zoo"]
        for room in ("zoo.experiments", "zoo.pretrained", "rules", "datasets", "training"):
            assert f"keras_mmil.{room}" not in report["with_zoo"]
        assert report["n"] > 40


@pytest.mark.parametrize("name", ["zoo", "datasets"])
def test_mapped_folders_refuse_to_be_top_level(checkout, name):
    result = run(f"import {name}", checkout)
    assert result.returncode == 1
    message = result.stderr.splitlines()[-1]
    assert re.match(rf"ImportError: .*\bkeras_mmil\b.*\b{name}\b", message)


def test_finder_knows_two_names_only(tmp_path):
    from keras_mmil._checkout import CheckoutFinder

    finder = CheckoutFinder(tmp_path)
    spec = finder.find_spec("keras_mmil.zoo")
    assert spec.origin == str(tmp_path / "zoo" / "__init__.py")
    assert spec.submodule_search_locations == [str(tmp_path / "zoo")]
    for name in ("zoo", "datasets", "keras_mmil", "keras_mmil.layers", "keras_mmil.zoo.images"):
        assert finder.find_spec(name) is None


@pytest.mark.parametrize(
    ("setup", "finders"),
    [(None, 0), ("[metadata]\nname = other\n", 0), ("[metadata]\nname = keras-mmil\n", 1)],
)
def test_finder_is_installed_in_a_checkout_only(tmp_path, monkeypatch, setup, finders):
    from keras_mmil._checkout import CheckoutFinder, install_finder

    monkeypatch.setattr(sys, "meta_path", [])
    if setup is not None:
        (tmp_path / "setup.cfg").write_text(setup, encoding="utf-8")
    install_finder(tmp_path)
    assert [type(finder) for finder in sys.meta_path] == [CheckoutFinder] * finders


@pytest.mark.parametrize("backend", ["numpy", "jax", "torch"])
def test_other_backends_are_refused(backend):
    result = run("import keras_mmil", ROOT, KERAS_BACKEND=backend)  # which need not be installed
    assert result.returncode == 1
    message = result.stderr.splitlines()[-1]
    assert message.startswith("ImportError: keras_mmil needs Keras to run on TensorFlow")
    assert "set KERAS_BACKEND=tensorflow before importing keras" in message
    assert message.endswith(f"Received: backend={backend!r}")


def test_backend_of_an_imported_keras_counts(monkeypatch):
    from keras_mmil._backend import require_tensorflow

    monkeypatch.setenv("KERAS_BACKEND", "jax")
    require_tensorflow()
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    with pytest.raises(ImportError, match="Received: backend='jax'"):
        require_tensorflow()

"""What all tests share: quiet imports, fixed seeds, a clean Keras, and the folder of real data."""

import gc
import importlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# Before anything imports TensorFlow, Keras or matplotlib.
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ["MPLBACKEND"] = "Agg"

import pytest
from hypothesis import settings

# The first call of a layer traces a graph, so that a time limit per example says nothing. In CI the
# examples are the same each time: a change fails for what it does, not for what was drawn.
settings.register_profile(
    "keras-mmil", max_examples=25, deadline=None, derandomize="CI" in os.environ
)
settings.load_profile("keras-mmil")


# Tests in these folders are of what is around TensorFlow's functions. Short runs take three times
# as long if these are traced, so that they run eagerly, but for tests marked `graphs`. In all other
# folders functions are traced, as in users' programs, but for tests marked `eager`.
EAGER = {
    "benchmarks",
    "cli",
    "distributed",
    "estimators",
    "rules",
    "io",
    "keras_mmil_cli",
    "records",
    "zoo",
}


def missing_data() -> str | None:
    """Returns why tests of real data cannot run, `None` if they can."""
    folder = os.environ.get("KERAS_MMIL_DATA")
    if not folder:
        return "needs real data: set KERAS_MMIL_DATA to its folder"
    if not Path(folder).is_dir():
        return f"needs real data: no such folder, KERAS_MMIL_DATA={folder!r}"
    return None


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("nightly") and not item.get_closest_marker("slow"):
            raise pytest.UsageError(f"a nightly test must be marked slow, too: {item.nodeid}")
    if reason := missing_data():
        for item in items:
            if item.get_closest_marker("data"):
                item.add_marker(pytest.mark.skip(reason=reason))


def pytest_report_header(config):
    if config.option.markexpr == "not slow and not nightly":
        return (
            "fast tests: about six minutes and a half on two cores, with -n auto --dist loadfile; "
            "the others, some 23 minutes: -m 'slow and not nightly'"
        )
    return None


@pytest.hookimpl(wrapper=True, optionalhook=True)
def pytest_xdist_auto_num_workers():
    """A process more than pytest-xdist would start: some always wait for another process."""
    n = yield
    return n if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ else n + 1


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Chooses between graphs and none, before fixtures of any scope."""
    if "tensorflow" in sys.modules:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        marked = [mark.name for mark in item.iter_markers() if mark.name in ("eager", "graphs")]
        eager = marked[0] == "eager" if marked else folder in EAGER  # the closest mark counts
        sys.modules["tensorflow"].config.run_functions_eagerly(eager)


def pytest_collection_finish():
    """Spares the garbage collector what lives as long as the process: modules and tests."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def data_dir() -> Path:
    """The folder of real data; skips the test where there is none."""
    if reason := missing_data():
        pytest.skip(reason)
    return Path(os.environ["KERAS_MMIL_DATA"])


@pytest.fixture(autouse=True)
def _seeds():
    # Tests of the packaging never import Keras and shall not wait for it.
    if "keras" in sys.modules:
        sys.modules["keras"].utils.set_random_seed(0)


@pytest.fixture(autouse=True, scope="module")
def _clean_keras():
    """Frees a module's models and graphs, and starts the automatic names of layers anew."""
    yield
    if "keras" in sys.modules:
        # TensorFlow never forgets the gradient of a `tf.custom_gradient` in a graph, nor, with it,
        # the graph: gigabytes, which each garbage collection would go through.
        from tensorflow.python.framework.ops import gradient_registry

        for name in list(gradient_registry.list()):
            if name.startswith("CustomGradient-"):
                del gradient_registry._registry[name]
        sys.modules["keras"].utils.clear_session()


@pytest.fixture
def load_benchmark(monkeypatch):
    """Import a module of the benchmarks."""
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")
    return importlib.import_module


@pytest.fixture(scope="session")
def postgres():
    """The URL of a PostgreSQL server, which is started here."""
    pytest.importorskip("psycopg")
    found = [*Path("/usr/lib/postgresql").glob("*/bin/initdb"), shutil.which("initdb")]
    if found[0] is None:
        pytest.skip("needs a PostgreSQL server: apt install postgresql")
    folder = Path(tempfile.mkdtemp(prefix="pg"))
    who = {}
    if os.getuid() == 0:  # as whom the server refuses to run
        owner = pwd.getpwnam("nobody")
        os.chown(folder, owner.pw_uid, owner.pw_gid)
        who = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
    programs, data = Path(found[0]).parent, folder / "data"

    def call(program, *arguments):
        command = [programs / program, "-D", data, *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=folder, **who)

    try:
        call("initdb", "--username=tester", "--auth=trust", "--encoding=UTF8", "--locale=C")
        call("pg_ctl", "-w", "-o", f"-c listen_addresses='' -k {folder}", "start")
        yield f"postgresql+psycopg://tester@/postgres?host={folder}"
    finally:
        if (data / "postmaster.pid").exists():
            call("pg_ctl", "-m", "immediate", "stop")
        shutil.rmtree(folder)

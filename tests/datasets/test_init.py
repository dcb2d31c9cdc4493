"""The package of data sets: what it lists, and when it loads it."""

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from keras_mmil import builders, datasets
from keras_mmil.datasets import mnist

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow
def test_modules_are_loaded_when_asked_for():
    assert set(datasets.__all__) <= set(dir(datasets))
    assert datasets.mnist is mnist
    with pytest.raises(AttributeError, match=r"'keras_mmil\.datasets' has no attribute 'letters'"):
        datasets.letters  # noqa: B018
    code = "import sys; from keras_mmil import datasets; print('sklearn.datasets' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert result.stdout == "False\n", result.stderr


@pytest.mark.parametrize(
    ("package", "folder"),
    [
        (datasets, "datasets"),
        (datasets.synthetic, "datasets/synthetic"),
        (builders, "keras_mmil/builders"),
    ],
)
def test_lists_of_modules_are_complete(package, folder):
    modules = {path.stem for path in (ROOT / folder).glob("[!_]*.py")}
    modules |= {path.parent.name for path in (ROOT / folder).glob("[!_]*/__init__.py")}
    assert modules <= set(package.__all__) <= set(dir(package))
    for name in package.__all__:
        assert getattr(package, name) is not None
    with pytest.raises(AttributeError, match=f"'{package.__name__}' has no attribute 'letters'"):
        package.letters  # noqa: B018


def test_not_importable_as_top_level_datasets():
    spec = importlib.util.spec_from_file_location("datasets", ROOT / "datasets" / "__init__.py")
    with pytest.raises(ImportError, match="Received: `import datasets`"):
        spec.loader.exec_module(importlib.util.module_from_spec(spec))

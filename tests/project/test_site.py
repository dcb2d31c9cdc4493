"""The site: all public names are documented, and its pages fit on narrow and wide screens."""

import ast
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from chromium import chromium

ROOT = Path(__file__).resolve().parents[2]
WIDTHS = (390, 900, 1400)

# In the page: whether it can be scrolled sideways, which tables can (those of results and notebooks
# may), which pictures are broken, and what it loads.
MEASURE = """
const root = document.documentElement;
const isWide = frame => frame.scrollWidth > frame.clientWidth && !frame.closest(".notebook-output");
const isOfResults = location.href.includes("/benchmarks/");
const tables = isOfResults ? [] : document.querySelectorAll(".md-typeset__scrollwrap");
const loaded = performance.getEntriesByType("resource").map(r => r.name);
return {
  overflow: root.scrollWidth - root.clientWidth,
  wide: [...tables].filter(isWide).map(frame => frame.innerText.slice(0, 80)),
  broken: [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src),
  foreign: loaded.filter(name => !name.startsWith("file:")),
};
"""


@pytest.fixture
def names(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs" / "_site")
    import public_names

    yield public_names
    sys.modules.pop("public_names")


def test_all_public_names_are_documented(names):
    assert names.undocumented() == []


def test_public_names_are_those_of_the_library(names):
    found = {name.path for each in names.public_names().values() for name in each}
    for package in ("keras_mmil.layers", "keras_mmil.layers.aggregations", "keras_mmil.training"):
        (exported,) = (
            ast.literal_eval(node.value)
            for node in names.tree_of(package).body
            if isinstance(node, ast.Assign) and names.targets(node) == ["__all__"]
        )
        assert {f"{package}.{name}" for name in exported} - found <= {
            "keras_mmil.layers.aggregations",
            "keras_mmil.layers.segments",
        }
    lazy = {"keras_mmil.Explainer", "keras_mmil.records.records_model", "keras_mmil.ragged.split"}
    assert lazy <= found


def test_a_name_without_a_docstring_is_found(names, monkeypatch):
    tree = ast.parse("class Layer:\n    def call(self): ...\n    def read(self): ...")
    monkeypatch.setattr(names, "tree_of", lambda module: tree)
    monkeypatch.setattr(names, "RETURNED", {})
    name = names.Name("keras_mmil.layers", "Layer", "a", "a", tree.body[0], None)
    monkeypatch.setattr(names, "public_names", lambda: {"keras_mmil.layers": (name,)})
    missing = ["keras_mmil.layers", "keras_mmil.layers.Layer", "keras_mmil.layers.Layer.read"]
    assert names.undocumented() == missing


# The site without what takes long: the reference, which is made of docstrings, and the search.
PROSE = """\
INHERIT: {root}/mkdocs.yml
docs_dir: {root}/docs
strict: false
plugins: []
hooks: [{root}/docs/_site/notebook_pages.py, {root}/docs/_site/repository.py]
"""


def build(folder, *arguments):
    if find_spec("material") is None or find_spec("mkdocstrings") is None:
        pytest.skip("needs the extra docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", folder, *arguments]
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return sorted(path for path in folder.rglob("*.html") if path.name != "404.html")


def faults_of(pages, widths):
    faults = {}
    for driver in chromium():
        for page in pages:
            driver.get(page.as_uri())
            for width in widths:
                screen = {"width": width, "height": 1200, "deviceScaleFactor": 1, "mobile": False}
                driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
                found = driver.execute_script(MEASURE)
                if any(found.values()):
                    faults[f"{page}, {width}"] = found
    return faults


@pytest.mark.slow
def test_pages_fit_on_narrow_screens(tmp_path):
    (tmp_path / "prose.yml").write_text(PROSE.format(root=ROOT), encoding="utf-8")
    pages = build(tmp_path / "site", "--config-file", tmp_path / "prose.yml")
    assert len(pages) > 50
    assert faults_of(pages, WIDTHS[:1]) == {}


@pytest.mark.slow
@pytest.mark.nightly  # its strict build is a step of .ci/run
def test_all_pages_fit_on_all_screens(tmp_path):
    pages = build(tmp_path / "site", "--strict")
    assert len(pages) > 180
    assert faults_of(pages, WIDTHS) == {}

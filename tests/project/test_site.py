"""The site: all public names are documented, its pages fit on all screens, and its search finds."""

import ast
import importlib
import os
import subprocess
import sys
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import quote

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


# A repository that the pages link to, with a key that they must not show.
REMOTE = {
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "remote.origin.url",
    "GIT_CONFIG_VALUE_0": "https://user:secret@forge.example.org/owner/name.git",
}


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the site, built strictly."""
    if find_spec("material") is None or find_spec("mkdocstrings") is None:
        pytest.skip("needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", folder]
    environment = {**os.environ, **REMOTE, "NO_MKDOCS_2_WARNING": "1"}
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def pages_of(site):
    pages = sorted(path for path in site.rglob("*.html") if path.name != "404.html")
    assert len(pages) > 180
    return pages


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture
def address(site):
    """Of a server of the site, which browsers need for the search and the clipboard."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


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
def test_pages_fit_on_narrow_screens(site):
    pages = [page for page in pages_of(site) if "reference" not in page.parts]
    assert faults_of(pages, WIDTHS[:1]) == {}


@pytest.mark.slow
@pytest.mark.nightly  # at more widths, and the reference, too
def test_all_pages_fit_on_all_screens(site):
    assert faults_of(pages_of(site), WIDTHS) == {}


# What people search for, and a page that must be among the first three that are found.
SEARCHED = {
    "json": "records.html",
    "tensorboard": "faq.html",
    "imbalanced": "howto/imbalanced.html",
    "sqlite": "howto/database.html",
    "parquet": "records.html",
    "probability": "records.html",
    "missing values": "faq.html",
    "gpu": "howto/workers.html",
    "shap": "faq.html",
    "export": "records.html",
    "BagLayer": "reference/layers/BagLayer.html",
}
FOUND = """
const links = document.querySelectorAll(".md-search-result__item > a, .md-search-result__link");
return [...new Set([...links].map(link => new URL(link.href).pathname.slice(1)))].slice(0, 3);
"""


@pytest.mark.slow
def test_search_finds_what_people_look_for(address):
    from selenium.webdriver.support.wait import WebDriverWait

    for driver in chromium():
        found = {}
        for words in SEARCHED:
            driver.get(f"{address}index.html?q={quote(words)}")
            wait = WebDriverWait(driver, 20)
            found[words] = wait.until(lambda page: page.execute_script(FOUND), words)
        missing = {words: each for words, each in found.items() if SEARCHED[words] not in each}
        assert missing == {}


# The button of the first block of code that holds a text.
BUTTON = """
const blocks = [...document.querySelectorAll(".highlight")];
return blocks.find(block => block.innerText.includes(arguments[0])).querySelector("button");
"""


@pytest.mark.slow
def test_code_is_copied_without_prompts_and_what_it_prints(address):
    from selenium.webdriver import ActionChains

    for driver in chromium():
        driver.execute_cdp_cmd(
            "Browser.grantPermissions", {"permissions": ["clipboardReadWrite"], "origin": address}
        )
        driver.get(f"{address}concepts.html")
        button = driver.execute_script(BUTTON, "x_train.shape")
        ActionChains(driver).scroll_to_element(button).move_to_element(button).click().perform()
        copied = driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
        lines = [line for line in copied.splitlines() if line.strip()]
        assert [line.partition("#")[0].strip() for line in lines] == [
            "x_train.shape",
            "x_train[0].row_lengths()",
        ]


@pytest.mark.slow
def test_pages_link_to_the_repository_and_to_their_neighbours(site):
    """Without the key, and without the script that asks the host of the repository."""
    text = (site / "concepts.html").read_text(encoding="utf-8")
    assert 'href="https://forge.example.org/owner/name"' in text
    assert "secret" not in text
    assert 'data-md-component="source"' not in text
    assert 'class="md-footer__link md-footer__link--prev"' in text
    assert 'class="md-footer__link md-footer__link--next"' in text


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("git@forge.org:owner/name.git", "https://forge.org/owner/name"),
        ("ssh://git@forge.org:2222/owner/name.git", "https://forge.org/owner/name"),
        ("https://user:secret@forge.org/group/owner/name/", "https://forge.org/group/owner/name"),
        ("/home/me/name", None),
        ("../name", None),
        ("file:///home/me/name", None),
        ("", None),
    ],
)
def test_the_repository_is_linked_to_if_it_has_a_page(monkeypatch, remote, address):
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    monkeypatch.syspath_prepend(ROOT / "docs" / "_site")
    assert importlib.import_module("repository").web_address(remote) == address
    sys.modules.pop("repository")

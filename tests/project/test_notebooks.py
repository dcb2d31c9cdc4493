"""The notebooks of the documentation: what is stored is what they show, and the site has them."""

import importlib
import re
import sys
from pathlib import Path

import pytest

CellExecutionError = pytest.importorskip(
    "nbclient.exceptions", reason="needs the extra test-all"
).CellExecutionError
ROOT = Path(__file__).resolve().parents[2]
STORED = sorted(ROOT.glob("docs/notebooks/*.ipynb"))
NAMES = ("clouds", "graphs", "images", "own_network", "records", "text")
MOST_BYTES = 300_000
LINK = re.compile(r"\]\(([^)#]+)")
# What is replaced in every run of the tests, so that a network of few clouds is trained, briefly.
SMALLER = {
    "load_clouds(600, n_points=60,": "load_clouds(60, n_points=12,",
    "[350, 100, 150]": "[30, 10, 20]",
    "max_clusters=6": "max_clusters=2",
    " & (predicted == TABLE)": "",
}
every_notebook = pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)


@pytest.fixture(scope="module")
def load():
    """Imports a module of docs/_site."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs" / "_site")
        yield importlib.import_module
    for name in ("notebooks", "notebook_pages"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def notebooks(load):
    return load("notebooks")


def test_there_are_these_notebooks():
    assert [path.name for path in STORED] == [f"{name}.ipynb" for name in NAMES]


@every_notebook
def test_stored_outputs_are_complete(path, notebooks):
    assert notebooks.faults(notebooks.read(path)) == []
    assert path.stat().st_size <= MOST_BYTES


@every_notebook
def test_only_what_is_shown_is_stored(path, notebooks):
    stored = notebooks.read(path)
    assert stored == notebooks.cleaned(stored)


@every_notebook
def test_notebook_is_in_the_navigation(path):
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nvalidation:")[0]
    assert f": notebooks/{path.name}.md\n" in navigation


@every_notebook
def test_links_lead_somewhere(path, notebooks):
    cells = notebooks.read(path).cells
    links = [link for cell in cells for link in LINK.findall(cell.source) if "://" not in link]
    links = [link for link in links if link.endswith((".md", ".py", ".ipynb"))]
    assert links
    assert [link for link in links if not (path.parent / link).is_file()] == []


@pytest.mark.slow
@pytest.mark.eager
@pytest.mark.filterwarnings("ignore:.*into one class", "ignore:.*is non-interactive")
def test_code_of_a_notebook_runs(notebooks, one_epoch, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    cells = notebooks.read(ROOT / "docs" / "notebooks" / "clouds.ipynb").cells
    source = "\n".join(cell.source for cell in cells if cell.cell_type == "code")
    for old, new in SMALLER.items():
        assert old in source
        source = source.replace(old, new)
    exec(source, {"__name__": "notebook", "display": print})
    sys.modules["matplotlib.pyplot"].close("all")


@pytest.mark.slow
@pytest.mark.nightly
@every_notebook
def test_notebook_shows_what_is_stored(path, notebooks):
    stored = notebooks.read(path)
    fresh = notebooks.executed(stored)
    assert notebooks.faults(fresh) == []
    shown = {cell.id: notebooks.kinds(cell) for cell in fresh.cells}
    assert shown == {cell.id: notebooks.kinds(cell) for cell in stored.cells}


def small(notebooks, *cells):
    """A notebook of cells of code: of each, what it shows."""
    nbformat = notebooks.nbformat
    found = nbformat.v4.new_notebook()
    for number, outputs in enumerate(cells, start=1):
        cell = nbformat.v4.new_code_cell("x", id=f"cell-{number}", execution_count=number)
        cell.outputs = list(map(nbformat.from_dict, outputs))
        found.cells.append(cell)
    return found


def stream(name, text):
    return {"output_type": "stream", "name": name, "text": text}


def data(**content):
    return {
        "output_type": "display_data",
        "metadata": {"width": 1},
        "data": {kind.replace("_", "/"): value for kind, value in content.items()},
    }


LOGGED = """\
WARNING: All log messages before absl::InitializeLog() is called are written to STDERR
I0000 00:00:1795627308.761400    5718 port.cc:153] oneDNN custom operations are on.
2025-01-01 10:00:00.123: I tensorflow/core/platform/cpu_feature_guard.cc:210] This binary
To enable the following instructions: AVX2 FMA, in other operations, rebuild TensorFlow.
"""


def test_logs_and_second_forms_are_not_stored(notebooks):
    outputs = [
        stream("stderr", LOGGED),
        stream("stderr", LOGGED + "UserWarning: few points\n"),
        data(text_plain="Table at 0x7f0123456789", text_html="<table></table>"),
        data(text_plain="<Figure>", image_png="abc"),
    ]
    notebook = small(notebooks, outputs)
    notebook.metadata["widgets"] = {"state": {}}
    notebook.cells[0].metadata = {"execution": {"iopub.status.busy": "10:00"}, "alt": "A figure."}
    cleaned = notebooks.cleaned(notebook)
    assert cleaned.metadata == notebooks.METADATA
    (cell,) = cleaned.cells
    assert cell.metadata == {"alt": "A figure."}
    assert notebooks.kinds(cell) == ["stderr", "text/html", "image/png"]
    assert cell.outputs[0].text == "UserWarning: few points\n"
    assert all(output.get("metadata", {}) == {} for output in cell.outputs)


@pytest.mark.parametrize(
    ("output", "fault"),
    [
        (stream("stderr", "UserWarning: few points\n"), "cell 'cell-1' shows stderr"),
        (
            {"output_type": "error", "ename": "E", "evalue": "", "traceback": []},
            "cell 'cell-1' shows error",
        ),
        (data(image_jpeg="abc"), "cell 'cell-1' shows image/jpeg"),
        (data(image_png="abc"), "cell 'cell-1' has a picture, but no text for it"),
        (
            stream("stdout", "wrote /tmp/xyz/report.html"),
            "shows something of this machine: '/tmp/'",
        ),
        (data(text_plain="PosixPath('/home/me')"), "shows something of this machine: '/home/'"),
        (data(text_html="<Layer at 0x7f01234567>"), "shows something of this machine: '0x7f0"),
    ],
)
def test_faults_are_found(notebooks, output, fault):
    (found,) = notebooks.faults(small(notebooks, [output]))
    assert fault in found


def test_what_was_not_executed_is_found(notebooks):
    notebook = small(notebooks, [stream("stdout", "1, /path/of/a/url and a/tmp/b\n")], [])
    assert notebooks.faults(notebook) == []
    notebook.cells[1].execution_count = None
    assert notebooks.faults(notebook) == ["cell 'cell-2' was not executed as number 2"]
    assert notebooks.faults(small(notebooks, [])) == ["no cell has outputs"]


def test_a_notebook_becomes_a_page(load):
    pytest.importorskip("mkdocs", reason="needs the extra docs")
    table = '<style scoped>td {}</style>\n<table border="1" class="dataframe"></table>'
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": ["1\n", "2\n"]},
        {"output_type": "display_data", "data": {"text/html": table}},
        {"output_type": "display_data", "data": {"image/png": "YWJj\n"}},
        {"output_type": "execute_result", "data": {"text/plain": "(3,)"}},
    ]
    code = {"cell_type": "code", "id": "one", "source": ["x = 1\n", "x"], "outputs": outputs}
    code["metadata"] = {"alt": "A curve."}
    cells = [
        {"cell_type": "markdown", "source": ["# A question\n", "\n", "A [link](../a.md)."]},
        code,
    ]
    page, pictures = load("notebook_pages").as_page({"cells": cells}, "name")
    assert pictures == {"name-one-2.png": b"abc"}
    assert page.splitlines() == [
        "# A question",
        "",
        "A [link](../a.md).",
        "",
        "````` { .python }",
        "x = 1",
        "x",
        "`````",
        "",
        "````` { .text .notebook-output .no-copy }",
        "1",
        "2",
        "`````",
        "",
        '<div class="notebook-output">',
        "",
        "<table></table>",
        "</div>",
        "",
        "![A curve.](name-one-2.png)",
        "",
        "````` { .text .notebook-output .no-copy }",
        "(3,)",
        "`````",
        "",
        '<a href="name.ipynb" download>Download this notebook</a>, to run it in Jupyter.',
    ]


@pytest.mark.slow
def test_a_notebook_runs_by_itself(notebooks):
    notebook = small(notebooks, [], [])
    notebook.cells[0].source = "import os\nos.getenv('KERAS_MMIL_DATA'), os.listdir()"
    notebook.cells[1].source = "import warnings\nwarnings.warn('few points')"
    fresh = notebooks.executed(notebook)
    assert fresh.cells[0].outputs[0].data == {"text/plain": "(None, [])"}
    assert notebook.cells[0].outputs == []
    assert any("few points" in fault for fault in notebooks.faults(fresh))
    notebook.cells[1].source = "1 / 0"
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        notebooks.executed(notebook)

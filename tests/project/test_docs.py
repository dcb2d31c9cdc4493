"""The documentation is true: its code runs and its links lead somewhere, and so do the examples."""

import doctest
import os
import re
import runpy
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted(ROOT.glob("examples/*.py"))
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md"))]

# Every run of the tests trains the networks of a page for an epoch or two, and asks nothing of them
# that has to be learned. What is on the left is replaced, for few data and clusters. At night each
# page runs as it is.
SMALLER = {
    "README.md": {
        "load_churn(2000)": "load_churn(120)",
        "1500": "80",
        "load_reviews()": "load_reviews(30, 20, 20)",
        "NestedClassifier(": "NestedClassifier(effort='low', explainer={'max_clusters': 2}, ",
        "max_clusters=6": "max_clusters=2",
    },
    "evidence.md": {
        "(1000, 500)": "(100, 50)",
        "NestedClassifier(": "NestedClassifier(effort='low', explainer={'max_clusters': 2}, ",
        "stability(n=5)": "stability(n=2)",
    },
    "faq.md": {
        "range(400)": "range(90)",
        "records[:300], records[300:]": "records[:60], records[60:]",
        "NestedClassifier(": "NestedClassifier(effort='low', explainer={'max_clusters': 2}, ",
    },
    "graphs.md": {"folds=4": "folds=2", "folds=3": "folds=2", "(1, 4)": "(1, 2)", "\n3\n": "\n2\n"},
    "howto/database.md": {
        "load_churn(300)": "load_churn(80)",
        "NestedClassifier(": "NestedClassifier(effort='low', explainer={'max_clusters': 2}, ",
    },
    "howto/time.md": {"NestedClassifier(": "NestedClassifier(effort='low', epochs=3, "},
    "howto/imbalanced.md": {
        "n_train=1000": "n_train=120, n_valid=60, n_test=60",
        "max_clusters=4": "max_clusters=2",
    },
    "howto/regression.md": {
        "some_bags(600)": "some_bags(80)",
        "some_bags(200)": "some_bags(60)",
        "max_clusters=5": "max_clusters=2",
        "max_clusters=4": "max_clusters=2",
    },
    "howto/report.md": {
        "n_train=300": "n_train=60, n_valid=40, n_test=40",
        "max_clusters=4": "max_clusters=2",
    },
    "howto/streaming.md": {"parts(12,": "parts(4,", "max_clusters=3": "max_clusters=2"},
    "index.md": {
        "(1000, 500)": "(100, 50)",
        "NestedClassifier(": "NestedClassifier(effort='low', explainer={'max_clusters': 2}, ",
        "n_train=500": "n_train=60, n_valid=40, n_test=40",
        "max_clusters=4": "max_clusters=2",
    },
    "interpretation.md": {
        "n_train=500": "n_train=100, n_valid=60",
        '"u", "u3"': '"u", "u2"',
    },
    "migrating/tables.md": {
        "NestedClassifier(": "NestedClassifier(effort='low', explainer={'max_clusters': 2}, ",
    },
    "point_clouds.md": {
        "load_clouds(120, n_points=30,": "load_clouds(24, n_points=10,",
        "[120, 5, 30, 3]": "[24, 5, 10, 3]",
        "90": "16",
        "94": "20",
        "n_clusters=(8, 6)": "n_clusters=(3, 2)",
    },
    "readable.md": {"n_train=500": "n_train=60, n_valid=40, n_test=40"},
    "records.md": {
        "max_clusters=4": "max_clusters=2",
        '"--out", "toys",': '"--out", "toys", "--max-clusters", "2",',
    },
    "text.md": {
        "n_train=400": "n_train=60, n_valid=30, n_test=30",
        "[400, None": "[60, None",
        "n_train=200": "n_train=20",
        "max_clusters=5": "max_clusters=2",
    },
}
# These export, which is slower without graphs; all others train too little for them.
GRAPHS = ("layers.md", "serving.md")
# Examples that are run at night: docs/serving.md does what the first does, but in one process, and
# tests/examples runs the other.
LONG = ("export_and_serve.py", "http_service.py")
FAST = ("concepts.md",)  # run with the fast tests

# A fenced block whose info string is "python"; with "python no-run" it is only shown.
CODE = re.compile(r"^( *)```python\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
PUNCTUATION = re.compile(r"[^\w\- ]")
# Of a network that is trained: what it says, comparisons of figures, chosen numbers of clusters.
ANSWER = re.compile(r"\.(evaluate|mean|predict|score)\(| <=? | > |\.n_clusters_")
OUTPUTS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
UNASKED = doctest.register_optionflag("UNASKED")


class Checker(doctest.OutputChecker):
    """Lets anything be printed that is not asked."""

    def check_output(self, want, got, optionflags):
        return bool(optionflags & UNASKED) or super().check_output(want, got, optionflags)


def name_of(page):
    return page.relative_to(ROOT).as_posix().removeprefix("docs/")


PAGES_BY_NAME = {name_of(page): page for page in PAGES}
TRAINED = [
    name
    for name, page in PAGES_BY_NAME.items()
    if name not in FAST
    and any(".fit(" in block[2] for block in CODE.finditer(page.read_text(encoding="utf-8")))
]


def run_page(text, name, is_trained=True):
    """Execute the Python code of a page from top to bottom, as one program.

    A block of `>>>` lines has to print what the page says. What networks that are hardly trained
    say is not compared.
    """
    namespace = {"__name__": name}
    for block in CODE.finditer(text):
        code = textwrap.dedent(block[2])
        line = text.count("\n", 0, block.start()) + 1
        if code.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(code, namespace, name, name, line)
            for example in test.examples:
                is_asked = is_trained or not ANSWER.search(example.source)
                example.options[UNASKED] = not is_asked
            runner = doctest.DebugRunner(Checker(), optionflags=OUTPUTS)
            try:
                runner.run(test, clear_globs=False)
            except doctest.DocTestFailure as failure:
                message = (
                    f"{name}, line {line + failure.example.lineno + 1}: {failure.example.source}"
                )
                raise AssertionError(f"{message}printed {failure.got}") from None
            except doctest.UnexpectedException as failure:
                raise failure.exc_info[1] from None
            namespace.update(test.globs)
        else:
            exec(compile("\n" * line + code, name, "exec"), namespace)


def smaller(text, name):
    """Returns the text of a page with few data and clusters."""
    for old, new in SMALLER.get(name, {}).items():
        assert old in text, f"{name} has no {old!r} any more: change SMALLER"
        text = text.replace(old, new)
    return text


def page_marks(page):
    marks = [] if name_of(page) in FAST else [pytest.mark.slow]
    return marks if name_of(page) in (*GRAPHS, *FAST) else [*marks, pytest.mark.eager]


# So little training may leave a network, and so its rules, with a single class.
@pytest.mark.filterwarnings("ignore:.*into one class", "ignore:.*distinct points")
@pytest.mark.filterwarnings("ignore:Keys that the database does not declare")  # as a page says
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=page_marks(page)) for page in PAGES],
    ids=[name_of(page) for page in PAGES],
)
def test_code_of_page_runs(page, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, text = name_of(page), page.read_text(encoding="utf-8")
    if name in FAST:
        run_page(text, name)
    else:
        request.getfixturevalue("one_epoch")
        run_page(smaller(text, name), name, is_trained=False)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore:Keys that the database does not declare")  # as a page says
@pytest.mark.parametrize("name", TRAINED)
def test_trained_networks_of_a_page_answer_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page(PAGES_BY_NAME[name].read_text(encoding="utf-8"), name)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_of_page_lead_somewhere(page):
    for path, heading in LINK.findall(page.read_text(encoding="utf-8")):
        target = page.parent / path if path else page
        assert target.exists(), path
        if heading:
            headings = HEADING.findall(target.read_text(encoding="utf-8"))
            slugs = [PUNCTUATION.sub("", each.lower()).replace(" ", "-") for each in headings]
            assert heading in slugs, heading


@pytest.mark.eager  # two epochs are few: tracing would take longer
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*into one class", "ignore:.*distinct points")
@pytest.mark.parametrize(
    "example",
    [
        pytest.param(each, id=each.name, marks=[pytest.mark.nightly] * (each.name in LONG))
        for each in EXAMPLES
    ],
)
def test_example_runs(example, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(example), "--quick"])
    runpy.run_path(str(example), run_name="__main__")
    assert capfd.readouterr().out


@pytest.mark.slow
@pytest.mark.nightly  # all of them run in one process, in every run of the tests
def test_an_example_runs_in_a_process_of_its_own(tmp_path):
    result = subprocess.run(
        [sys.executable, ROOT / "examples" / "mnist_picture.py", "--quick"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        timeout=600,
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_example_says_how_to_run_it(example):
    docstring = example.read_text(encoding="utf-8").split('"""')[1]
    assert f"    python examples/{example.name} " in docstring


PAGE = """
```python
x = 1
```
```bash
exit 1
```
```python no-run
raise SystemExit
```
```python
>>> x + 1
{printed}
>>> y = x
```
- an item with code
  ```python
  assert y == 1
  {last}
  ```
"""


def test_a_page_is_one_program():
    run_page(PAGE.format(printed=2, last=""), "page")


def test_other_output_is_found():
    with pytest.raises(AssertionError, match=r"page, line 12: x \+ 1\nprinted 2"):
        run_page(PAGE.format(printed=3, last=""), "page")


def test_only_trained_networks_are_asked():
    page = PAGE.format(printed=True, last="").replace("x + 1", "x > 1")
    run_page(page, "page", is_trained=False)
    with pytest.raises(AssertionError, match="printed False"):
        run_page(page, "page")


def test_an_error_has_its_line():
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(PAGE.format(printed=2, last="1 / 0"), "page")
    assert caught.traceback[-1].lineno + 1 == 19

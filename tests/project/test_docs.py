"""The documentation is true: its code runs and its links lead somewhere, and so do the examples."""

import doctest
import functools
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

# With few data and little training; docs/index.md trains the network of evidence.md to the end.
LITTLE = ("README.md", "evidence.md")
# With one epoch in every run of the tests, but for what a trained network answers, and as they are
# at night.
ONE_EPOCH = ("index.md", "graphs.md", "images.md", "text.md")
FAST = ("concepts.md",)  # run with the fast tests

# A fenced block whose info string is "python"; with "python no-run" it is only shown.
CODE = re.compile(r"^( *)```python\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?!https?:)([^)#]*)#?([^)]*)\)")
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
PUNCTUATION = re.compile(r"[^\w\- ]")
ANSWER = re.compile(r"\.(evaluate|mean|predict|score)\(")  # of a network that is trained
OUTPUTS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def name_of(page):
    return page.relative_to(ROOT).as_posix().removeprefix("docs/")


def run_page(text, name, is_trained=True):
    """Execute the Python code of a page from top to bottom, as one program.

    A block of `>>>` lines has to print what the page says. Of networks that are hardly trained
    nothing is asked.
    """
    namespace = {"__name__": name}
    for block in CODE.finditer(text):
        code = textwrap.dedent(block[2])
        line = text.count("\n", 0, block.start()) + 1
        if code.startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(code, namespace, name, name, line)
            for example in test.examples:
                is_asked = is_trained or not ANSWER.search(example.source)
                example.options[doctest.SKIP] = not is_asked
            runner = doctest.DebugRunner(optionflags=OUTPUTS)
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


@pytest.fixture
def few_data(monkeypatch):
    """Let a page load few customers and reviews."""
    from keras_mmil.datasets import synthetic

    few_customers = functools.partial(synthetic.load_churn, 1600)
    few_reviews = functools.partial(synthetic.load_reviews, n_train=60, n_valid=40, n_test=40)
    monkeypatch.setattr(synthetic, "load_churn", lambda *_: few_customers())
    monkeypatch.setattr(synthetic, "load_reviews", few_reviews)


@pytest.fixture
def one_epoch(monkeypatch):
    """Let a page train for one epoch."""
    import keras_mmil

    fit = keras_mmil.Model.fit
    monkeypatch.setattr(
        keras_mmil.Model,
        "fit",
        lambda self, *data, **arguments: fit(self, *data, **{**arguments, "epochs": 1}),
    )


def page_marks(page):
    marks = [] if name_of(page) in FAST else [pytest.mark.slow]
    # One epoch is short: tracing would take longer.
    return [*marks, pytest.mark.eager] if name_of(page) in ONE_EPOCH else marks


# So little training may leave a network, and so its rules, with a single class.
@pytest.mark.filterwarnings("ignore:.*into one class", "ignore:.*distinct points")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=page_marks(page)) for page in PAGES],
    ids=[name_of(page) for page in PAGES],
)
def test_code_of_page_runs(page, request, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name = name_of(page)
    if name in LITTLE:
        request.getfixturevalue("few_data")
    if name in (*LITTLE, *ONE_EPOCH):
        request.getfixturevalue("one_epoch")
    run_page(page.read_text(encoding="utf-8"), name, is_trained=name not in ONE_EPOCH)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("name", ONE_EPOCH)
def test_trained_networks_of_a_page_answer_what_it_says(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_page((ROOT / "docs" / name).read_text(encoding="utf-8"), name)


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
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
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
    run_page(PAGE.format(printed=3, last="").replace("x + 1", "x.mean()"), "page", is_trained=False)


def test_an_error_has_its_line():
    with pytest.raises(ZeroDivisionError) as caught:
        run_page(PAGE.format(printed=2, last="1 / 0"), "page")
    assert caught.traceback[-1].lineno + 1 == 19

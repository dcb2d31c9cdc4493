"""Executes the notebooks of the documentation, and stores them with what they show.

A notebook is its own source: change it in Jupyter or in an editor, and then run

    python docs/_site/notebooks.py [NAME...]

It executes the notebooks of these names, or all in `docs/notebooks/`, from top to bottom, each in a
process and an empty folder of its own. What differs from run to run is not stored. A notebook with
an error, a warning or an absolute path in its outputs is left as it was.
"""

import argparse
import os
import re
import tempfile
import time
from copy import deepcopy
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from keras_mmil._support.files import atomic_write

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ROOT / "docs" / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
PICTURE = "image/png"
SHOWN = ("text/html", PICTURE, "text/plain")  # a viewer shows the first of these that is there
# What TensorFlow's libraries write while they are loaded, whatever their level of logging.
LOG = re.compile(
    r"^(?:WARNING: All log messages before absl::InitializeLog\(\)|To enable the following instr"
    r"|[IWE]\d{4} [\d:.]+ +\d+ \S+:\d+\]|\d{4}-\d\d-\d\d [\d:.]+: [IWE] ).*\n?",
    re.MULTILINE,
)
# Absolute paths, and the addresses of objects.
OF_THIS_MACHINE = re.compile(
    rf"(?<![\w.:/<])/(?:home|root|tmp|usr|var|Users)/|{re.escape(str(ROOT))}|0x[0-9a-f]{{6,}}"
)


def read(path: Path) -> NotebookNode:
    """A stored notebook."""
    return nbformat.read(path, as_version=4)


def executed(notebook: NotebookNode) -> NotebookNode:
    """A notebook as it is after its execution, without what differs from run to run.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell raises an error.
    """
    result = deepcopy(notebook)
    # No notebook needs real data. Matplotlib's backend is that of the kernel.
    hidden = ("KERAS_MMIL_DATA", "MPLBACKEND")
    environment = {name: value for name, value in os.environ.items() if name not in hidden}
    environment |= {
        "PYTHONPATH": str(ROOT),
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            result,
            kernel_name="python3",
            timeout=600,
            coalesce_streams=True,
            record_timing=False,
            resources={"metadata": {"path": folder}},
        )
        client.execute(env=environment)
    return cleaned(result)


def cleaned(notebook: NotebookNode) -> NotebookNode:
    """A notebook with the metadata that pages need, and of each output the form that is shown."""
    result = deepcopy(notebook)
    result.metadata = nbformat.from_dict(METADATA)
    for cell in result.cells:
        kept = {name: cell.metadata[name] for name in ("alt",) if name in cell.metadata}
        cell.metadata = nbformat.from_dict(kept)
        if cell.cell_type == "code":
            cell.outputs = [output for output in map(_cleaned, cell.outputs) if output is not None]
    return result


def _cleaned(output: NotebookNode) -> NotebookNode | None:
    if output.output_type == "stream":
        if output.name == "stderr":
            output.text = LOG.sub("", output.text)
        return output if output.text else None
    if "data" in output:
        shown = next((kind for kind in SHOWN if kind in output.data), None)
        output.metadata = nbformat.from_dict({})
        if shown is not None:
            output.data = nbformat.from_dict({shown: output.data[shown]})
    return output


def kinds(cell: NotebookNode) -> list[str]:
    """What a cell shows: "stdout", "stderr", "error" or the MIME type, for each output."""
    return [
        output.name
        if output.output_type == "stream"
        else ", ".join(output.get("data", [output.output_type]))
        for output in cell.get("outputs", ())
    ]


def faults(notebook: NotebookNode) -> list[str]:
    """What is wrong with the outputs of a notebook, in words."""
    found = []
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    for number, cell in enumerate(code, start=1):
        if cell.execution_count != number:
            found.append(f"cell {cell.id!r} was not executed as number {number}")
        if wrong := [kind for kind in kinds(cell) if kind not in ("stdout", *SHOWN)]:
            found.append(f"cell {cell.id!r} shows {', '.join(wrong)}: {cell.outputs}")
        if PICTURE in kinds(cell) and not cell.metadata.get("alt"):
            found.append(f"cell {cell.id!r} has a picture, but no text for it, 'alt' in metadata")
        texts = [output.get("text", "") for output in cell.outputs]
        texts += [
            text
            for output in cell.outputs
            for kind, text in output.get("data", {}).items()
            if kind != PICTURE
        ]
        if match := OF_THIS_MACHINE.search("\n".join(texts)):
            found.append(f"cell {cell.id!r} shows something of this machine: {match[0]!r}")
    if not any(map(kinds, code)):
        found.append("no cell has outputs")
    return found


def main() -> None:
    """Executes notebooks, and stores them."""
    parser = argparse.ArgumentParser(description="Execute the notebooks of the documentation.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="such as images; default: all")
    names = parser.parse_args().names
    for path in [NOTEBOOKS / f"{name}.ipynb" for name in names] or sorted(
        NOTEBOOKS.glob("*.ipynb")
    ):
        start = time.perf_counter()
        notebook = executed(read(path))
        seconds = time.perf_counter() - start
        if found := faults(notebook):
            raise SystemExit(f"{path.name} was left as it was: {'; '.join(found)}")
        with atomic_write(path) as part:
            nbformat.write(notebook, part)
        print(f"{path.name}: {seconds:.0f} s, {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()

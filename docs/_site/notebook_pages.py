"""A hook of MkDocs: a page for each notebook, with its code, what it showed, and its pictures.

Cells of Markdown become part of a page of Markdown, so that their links are checked, and headings,
code and names of the library look as they do on other pages. The notebooks are only read; they are
executed by `notebooks.py`.
"""

import base64
import html
import json
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

# What pandas adds to its tables, which the site has styles of its own for.
STYLE = re.compile(
    r"<style scoped>.*?</style>|(?<=<table) border=\"1\" class=\"dataframe\"", re.DOTALL
)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds a page for each notebook, and its pictures. The notebook itself can be downloaded."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        notebook = json.loads(Path(file.abs_src_path).read_text(encoding="utf-8"))
        stem = Path(file.src_uri).stem
        text, pictures = as_page(notebook, stem)
        files.append(File.generated(config, f"{file.src_uri}.md", content=text))
        folder = file.src_uri.removesuffix(file.name + ".ipynb")
        for name, content in pictures.items():
            files.append(File.generated(config, folder + name, content=content))
    return files


def as_page(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and its pictures by the names of their files.

    Args:
        notebook: as JSON knows it.
        name: of its file, without the ending.
    """
    parts, pictures = [], {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(fenced(source, "python"))
        for number, output in enumerate(cell["outputs"]):
            if output["output_type"] == "stream":
                parts.append(fenced("".join(output["text"]), "text"))
                continue
            ((kind, content),) = output["data"].items()
            if kind == "image/png":
                file = f"{name}-{cell['id']}-{number}.png"
                pictures[file] = base64.b64decode("".join(content))
                parts.append(f"![{cell['metadata']['alt']}]({file})")
            elif kind == "text/html":
                table = STYLE.sub("", "".join(content))
                parts.append(f'<div class="notebook-output">\n{table}\n</div>')
            else:
                parts.append(fenced("".join(content), "text"))
    link = f'<a href="{html.escape(name)}.ipynb" download>Download this notebook</a>'
    return "\n\n".join([*parts, f"{link}, to run it in Jupyter."]) + "\n", pictures


def fenced(text: str, language: str) -> str:
    """A block of code, or of what it printed."""
    style = " .notebook-output .no-copy" if language == "text" else ""
    return f"````` {{ .{language}{style} }}\n{text.rstrip()}\n`````"

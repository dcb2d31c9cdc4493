"""A hook of MkDocs: the API reference, made of docstrings, and links to it from all pages.

Each part of the library has a page, with a section for each of its public modules. A public name
without a docstring fails the build. The sources are only read, so TensorFlow need not be installed.
"""

import atexit
import html
import re
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

import public_names
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.plugins import event_priority
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

PACKAGE = "keras_mmil"
CODE = re.compile(r"^([A-Za-z_][\w.]*)(\(.*\))?$")
NOT_IN = {"a", "pre", "h1", "h2", "h3", "h4", "h5", "h6", "autoref"}


@event_priority(100)  # before mkdocstrings reads its options
def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Checks that all is documented, and shows mkdocstrings the library as it is installed."""
    if missing := public_names.undocumented():
        raise PluginError(f"Expected a docstring. Missing: {', '.join(missing)}")
    folder = Path(tempfile.mkdtemp(prefix="keras-mmil-site-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    (folder / PACKAGE).mkdir()
    parts = {path.name: path for path in (public_names.ROOT / PACKAGE).iterdir()}
    parts |= {name: public_names.ROOT / name for name in ("zoo", "datasets")}
    for name, path in parts.items():
        (folder / PACKAGE / name).symlink_to(path)
    config.plugins["mkdocstrings"].config.handlers["python"]["paths"] = [str(folder)]
    return config


def page_of(module: str) -> str:
    """The page of a module: that of the part of the library which it belongs to."""
    return f"reference/{module.split('.')[1] if '.' in module else PACKAGE}.md"


def section(module: str, level: int) -> list[str]:
    """A module's heading, docstring and names."""
    lines = [f"::: {module}", "    options:", "      show_root_heading: true"]
    lines += [
        f"      heading_level: {level}",
        f"      heading: {module}",
        "      members: false",
        "",
    ]
    for name in public_names.public_names().get(module, ()):
        lines += [f"::: {name.address}", "    options:", f"      heading: {name.shown}"]
        lines += [f"      toc_label: {name.name}", f"      heading_level: {level + 1}", ""]
    return lines


def index() -> str:
    """The first page: all names, with the first sentences of their docstrings."""
    lines = [
        "# Reference",
        "",
        "All public names. Arguments, shapes and errors are on the pages of the parts.",
        "",
    ]
    for module, names in public_names.public_names().items():
        lines += [f"## {module}", "", "| name | what it is |", "| --- | --- |"]
        for name in sorted(names, key=lambda each: each.name.lower()):
            summary = name.summary.replace("|", "\\|")
            lines.append(f"| [`{name.name}`][{name.address}] | {summary} |")
        lines.append("")
    return "\n".join(lines)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of the reference."""
    pages: dict[str, list[str]] = defaultdict(list)
    for module in public_names.public_names():
        page = pages[page_of(module)]
        part = ".".join(module.split(".")[:2])
        if not page:
            page += section(part, 1)
        if module != part:
            page += section(module, 2)
    pages["reference/index.md"] = [index()]
    for uri, lines in pages.items():
        files.append(File.generated(config, uri, content="\n".join(lines)))
    return files


def known() -> dict[str, str]:
    """What may be written in a text, and the full name that it stands for, if it is one."""
    names = [name for names in public_names.public_names().values() for name in names]
    written: dict[str, set[str]] = defaultdict(set)
    for module in public_names.public_names():
        for form in (module, module.removeprefix(f"{PACKAGE}.")):
            if "." in form:
                written[form].add(module)
    for name in names:
        short = name.shown.removeprefix(f"{PACKAGE}.")
        forms = {name.shown, short}
        if name.name[0].isupper() and not name.name.isupper():  # a class alone
            forms.add(name.name)
        for form in forms:
            written[form].add(name.address)
        for method in name.methods:
            for form in forms:
                written[f"{form}.{method}"].add(f"{name.address}.{method}")
    return {form: targets.pop() for form, targets in written.items() if len(targets) == 1}


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links the first mention of each public name to the reference."""
    places, seen, inside = known(), set(), []
    pieces = re.split(r"(<[^>]+>)", content)
    for i, piece in enumerate(pieces):
        tag = re.match(r"<(/?)(\w+)", piece)
        if tag and tag[2] in NOT_IN:
            inside.pop() if tag[1] else inside.append(tag[2])
        if piece != "<code>" or inside or pieces[i + 2] != "</code>":
            continue
        match = CODE.match(html.unescape(pieces[i + 1]))
        target = places.get(match[1]) if match else None
        if target and target not in seen:
            seen.add(target)
            pieces[i] = f'<autoref identifier="{target}" optional><code>'
            pieces[i + 2] = "</code></autoref>"
    return "".join(pieces)

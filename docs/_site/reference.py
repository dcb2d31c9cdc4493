"""A hook of MkDocs: the API reference, made of docstrings, and links to it from all pages.

Each public module has a page, and so has each class; functions are on the pages of their modules. A
public name without a docstring fails the build. The sources are only read, so TensorFlow need not
be installed.
"""

import ast
import atexit
import functools
import html
import re
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any

import navigation
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


def short(module: str) -> str:
    """A module's name without that of the package, which stands for itself alone."""
    return module.removeprefix(f"{PACKAGE}.")


def page_of(module: str, name: str = "index") -> str:
    """The page of a module, or of a class of it."""
    return f"reference/{short(module).replace('.', '/')}/{name}.md"


def classes(module: str) -> list[public_names.Name]:
    """The classes of a module, in alphabetical order."""
    found = public_names.public_names().get(module, ())
    return sorted((n for n in found if isinstance(n.node, ast.ClassDef)), key=lambda n: n.name)


def block(name: public_names.Name, level: int) -> list[str]:
    """What mkdocstrings makes of a name."""
    lines = [f"::: {name.address}", "    options:", f"      heading: {name.shown}"]
    return [*lines, f"      toc_label: {name.name}", f"      heading_level: {level}", ""]


def module_page(module: str) -> list[str]:
    """A module's heading, docstring and names, and its functions."""
    lines = [f"::: {module}", "    options:", "      show_root_heading: true"]
    lines += ["      heading_level: 1", f"      heading: {module}", "      members: false", ""]
    inner = [each for each in modules() if each.startswith(f"{module}.") and module != PACKAGE]
    if inner:
        links = ", ".join(f"[`{short(each)}`][{each}]" for each in inner)
        lines += [f"Modules: {links}.", ""]
    names = public_names.public_names().get(module, ())
    if len(names) > 1:
        lines += ["| name | what it is |", "| --- | --- |"]
        for name in sorted(names, key=lambda each: each.name.lower()):
            summary = name.summary.replace("|", "\\|")
            lines.append(f"| [`{name.name}`][{name.address}] | {summary} |")
        lines.append("")
    for name in names:
        if not isinstance(name.node, ast.ClassDef):
            lines += block(name, 2)
    return lines


def modules() -> list[str]:
    """The public modules, and those that have none but inner ones."""
    found = list(public_names.public_names())
    parts = {".".join(module.split(".")[:2]) for module in found}
    return sorted({*found, *parts})


def index() -> list[str]:
    """The first page: all names."""
    lines = ["# Reference", "", "All public names of all modules.", ""]
    lines += ["| module | names |", "| --- | --- |"]
    for module in modules():
        names = sorted(public_names.public_names().get(module, ()), key=lambda n: n.name.lower())
        links = ", ".join(f"[`{name.name}`][{name.address}]" for name in names)
        if links:
            lines.append(f"| [`{short(module)}`][{module}] | {links} |")
    return lines


def nav() -> list[dict[str, Any]]:
    """The entries of the navigation: parts of the library, and in them modules and classes."""

    def entry(module: str) -> dict[str, Any]:
        pages = [{name.name: page_of(module, name.name)} for name in classes(module)]
        if module != PACKAGE:
            depth = module.count(".") + 1
            pages += [
                entry(each)
                for each in modules()
                if each.startswith(f"{module}.") and each.count(".") == depth
            ]
        title, page = short(module), page_of(module)
        return {title: [{title: page}, *pages] if pages else page}

    return [entry(module) for module in modules() if module.count(".") < 2]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the pages of the reference."""
    pages = {"reference/index.md": index()}
    for module in modules():
        pages[page_of(module)] = module_page(module)
        pages |= {page_of(module, name.name): block(name, 1) for name in classes(module)}
    for uri, lines in pages.items():
        files.append(File.generated(config, uri, content="\n".join(lines) + "\n"))
    navigation.section_with("reference/index.md", config.nav).extend(nav())
    return files


@functools.cache
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

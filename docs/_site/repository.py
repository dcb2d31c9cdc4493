"""A hook of MkDocs: the repository on the site, and no page that fetches from elsewhere.

On a forge, pages link to files of the repository by relative paths. Here these files become part of
the site: Markdown as pages, pictures as they are, programs as pages that show them. The links are
rewritten, also those to notebooks, which `notebook_pages.py` turns into pages.
"""

import posixpath
import re
import shutil
import subprocess
from pathlib import Path

import navigation
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
LINK = re.compile(r"(?<=\]\()(?!\w+:|#)([^)\s#]+)")
CELL = re.compile(r"<t[dh].*?</t[dh]>", re.DOTALL)
NAME = re.compile(r"(?<=<code>)[^<]+(?=</code>)")
# Where a long name may be broken: after dots and underscores, and before the words of a class.
BREAK = re.compile(r"(?<=[._(/])(?=\w)|(?<=[a-z])(?=[A-Z])")
# A session in a block of Python, whose prompts are not copied.
SESSION = re.compile(r"^( *```)python(?=\n *>>>)", re.MULTILINE)
# Where Git fetches from: over HTTP or SSH, as a URL or as a host and a path.
_HOST, _USER = r"(\w[\w.-]*\.\w+)", r"(?:[^@/]+@)?"
REMOTE = re.compile(
    rf"(?:(?:https?|ssh)://{_USER}{_HOST}(?::\d+)?/|{_USER}{_HOST}:)(.+?)(?:\.git)?/?"
)
# Found after pages that explain.
LISTS = (
    "architecture",
    "benchmarks/",
    "CHANGELOG",
    "CONTRIBUTING",
    "examples/",
    "reference/",
    "zoo/",
)
PICTURE = re.compile(r'<img [^>]*src="([^"]*\.png)"[^>]*>')
# What a browser loads without being asked to.
LOADED = re.compile(
    r"<(?:script|img|iframe|source|video|audio)\b[^>]*\bsrc=[\"']?(?:https?:)?//[^>]*>"
)
STYLES = re.compile(r"<link\b[^>]*\bhref=[\"']?(?:https?:)?//[^>]*>")
RESULTS = "benchmarks/RESULTS.md"
# Pages that no page of docs/ links to, but the navigation.
PAGES = ("CONTRIBUTING.md", "CHANGELOG.md", RESULTS)


def path_of(uri: str) -> str:
    """The path in the repository of a file of the site."""
    path = uri.removesuffix(".md") if uri.endswith(".py.md") else uri
    return path if path in _added else f"docs/{path}"


def uri_of(path: str) -> str:
    """The place in the site of a file of the repository."""
    return path.removeprefix("docs/") + (".md" if path.endswith((".py", ".ipynb")) else "")


_added: set[str] = set()


def links(text: str, path: str) -> set[str]:
    """The files of the repository that a page links to."""
    targets = {
        posixpath.normpath(posixpath.join(posixpath.dirname(path), link))
        for link in LINK.findall(text)
    }
    return {target for target in targets if (ROOT / target).is_file()}


def web_address(remote: str) -> str | None:
    """The page of a repository, without the name or the key of a user; None for a local one.

    Args:
        remote: where Git fetches from.
    """
    match = REMOTE.fullmatch(remote)
    return f"https://{match[1] or match[2]}/{match[3]}" if match else None


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Links to the repository that this checkout comes from, if it comes from a host."""
    if shutil.which("git"):
        command = ["git", "-C", ROOT, "config", "remote.origin.url"]
        result = subprocess.run(command, capture_output=True, text=True)
        config.repo_url = web_address(result.stdout.strip())
        config.repo_name = (config.repo_url or "").split("/", 3)[-1]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds the files outside of `docs/` that pages link to, and those that these link to.

    The pages that the page of results links to are added to the navigation, below it.
    """
    _added.clear()
    pages = [
        f"docs/{file.src_uri}" for file in files.documentation_pages() if not file.generated_by
    ]
    waiting = [
        *PAGES,
        *(f"examples/{path.name}" for path in sorted((ROOT / "examples").glob("*.py"))),
    ]
    for page in pages:
        waiting += sorted(links((ROOT / page).read_text(encoding="utf-8"), page))
    for path in waiting:  # grows
        if path in _added or path.startswith("docs/"):
            continue
        _added.add(path)
        text = (ROOT / path).read_text(encoding="utf-8") if path.endswith((".md", ".py")) else ""
        if path.endswith(".md"):
            waiting += sorted(links(text, path))
        elif path.endswith(".py"):
            text = f"# {path}\n\n````python\n{text}````\n"
        if text:
            files.append(File.generated(config, uri_of(path), content=text))
        else:
            files.append(File.generated(config, uri_of(path), abs_src_path=str(ROOT / path)))
    results = LINK.findall((ROOT / RESULTS).read_text(encoding="utf-8"))
    navigation.section_with(RESULTS, config.nav).extend(
        {Path(link).stem.replace("_", " "): posixpath.join(posixpath.dirname(RESULTS), link)}
        for link in results
    )
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrites links to files of the repository, and the first lines of blocks."""
    if page.file.src_uri.startswith(LISTS):
        page.meta["search"] = {"boost": 0.2}
    path = path_of(page.file.src_uri)

    def rewrite(link: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(path), link[1]))
        is_inside = target.startswith("docs/") and path.startswith("docs/")
        is_page = is_inside and not target.endswith(".ipynb")
        if is_page or not (ROOT / target).is_file():
            return link[1]
        return posixpath.relpath(uri_of(target), posixpath.dirname(page.file.src_uri) or ".")

    # What follows the language of a block is for the tests.
    markdown = LINK.sub(rewrite, markdown).replace("```python no-run", "```python")
    return SESSION.sub(r"\1pycon", markdown)


def on_page_content(content: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Shows `|` in tables as forges do, and pictures in their full size when clicked."""
    content = CELL.sub(lambda cell: cell[0].replace(r"\|", "|"), content)
    return PICTURE.sub(r'<a href="\1" title="Full size">\g<0></a>', content)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Says where names in narrow columns may be broken, and asks no host about the repository."""

    def breakable(cell: re.Match[str]) -> str:
        return NAME.sub(lambda name: BREAK.sub("<wbr>", name[0]), cell[0])

    return CELL.sub(breakable, output).replace(' data-md-component="source"', "")


def on_post_build(config: MkDocsConfig) -> None:
    """Checks that no page loads anything from another host."""
    for page in Path(config.site_dir).rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        styles = [each for each in STYLES.findall(text) if "canonical" not in each]
        if found := LOADED.findall(text) + styles:
            raise PluginError(
                f"Expected a page that loads nothing from elsewhere. Received: {page}, {found[0]}"
            )

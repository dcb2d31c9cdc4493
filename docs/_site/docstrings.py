"""An extension of Griffe: docstrings in the style of Keras, in the form that Griffe reads."""

import re
import textwrap
from typing import Any

import griffe

# Lines of a session, up to a blank line.
SESSION = re.compile(r"^>>> .*(?:\n(?!\n).+)*", re.MULTILINE)
SECTION = re.compile(r"^([A-Z][a-z ]+):\n((?:[ ]{4}.*(?:\n|$)|\n)+)", re.MULTILINE)
ENTRY = re.compile(r"^ {4}([\w*][^:]*?):(?: |\n +)(.*(?:\n(?: {5,}.*|$))*)", re.MULTILINE)


def names_of(obj: griffe.Object) -> tuple[set[str], str | None]:
    """The parameters of a class or function, and the one that takes all others."""
    parameters = obj.parameters if isinstance(obj, griffe.Class | griffe.Function) else []
    others = [each.name for each in parameters if str(each.kind) == "variadic keyword"]
    return {each.name for each in parameters}, others[0] if others else None


def one_each(entries: str, obj: griffe.Object) -> str:
    """Entries for several arguments, `a, b: text`, become one each, as Griffe checks the names."""
    known, rest = names_of(obj)

    def split(entry: re.Match[str]) -> str:
        names = [name.strip() for name in entry[1].split(",") if name.strip() not in ("", "…")]
        first, *others = [name for name in names if name in known or rest is None] or [names[0]]
        unknown = [name for name in names if name not in known and rest is not None]
        lines = [f"    {first}: {entry[2]}"] if first in known or rest is None else []
        lines += [f"    {name}: see `{first}`." for name in others]
        if unknown:
            text = f"{', '.join(f'`{name}`' for name in unknown)}: {entry[2]}"
            lines.append(f"    {rest}: {text}")
        return "\n".join(line.rstrip("\n") for line in lines) + "\n"

    return ENTRY.sub(split, entries)


def as_markdown(docstring: str, obj: griffe.Object) -> str:
    """Fences sessions; lists arguments; leaves prose as it is, although it may have colons."""

    def rewrite(section: re.Match[str]) -> str:
        title, body = section.groups()
        if title == "Args":
            return f"Args:\n{one_each(body, obj)}\n"
        if title == "Call arguments":
            items = ENTRY.sub(r"- **`\1`** – \2", body)
            return f"**{title}:**\n\n{items}\n"
        if title in ("Returns", "Yields"):
            return f"**{title}:**\n\n{textwrap.dedent(body)}\n"
        return section[0]

    return SECTION.sub(rewrite, SESSION.sub(r"```pycon\n\g<0>\n```", docstring))


class Docstrings(griffe.Extension):
    """Rewrites docstrings before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Rewrites the docstring of an object."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value, obj)

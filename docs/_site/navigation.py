"""Pages that hooks of MkDocs add to the navigation."""

from typing import Any


def section_with(page: str, nav: list[Any]) -> list[Any]:
    """The section of a navigation that lists a page, to which others may be added.

    Args:
        page: its path, which stands in the section without a title.
        nav: as `mkdocs.yml` has it.
    """
    if page in nav:
        return nav
    for entry in nav:
        for inner in entry.values() if isinstance(entry, dict) else ():
            if isinstance(inner, list) and (found := section_with(page, inner)):
                return found
    return []

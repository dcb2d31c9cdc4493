"""Files of state that were changed by hand, with checksums that fit all the same."""

import hashlib
import json

__all__ = ["reseal"]


def reseal(path, change=None):
    """Change the content of a file of `write_state`, by a function or a dict, and its checksum."""
    content = json.loads(path.read_text(encoding="utf-8"))
    head = {name: content.pop(name, None) for name in ("format", "version", "sha256")}
    if callable(change):
        change(content)
    else:
        content |= change or {}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(head | {"sha256": digest} | content), encoding="utf-8")

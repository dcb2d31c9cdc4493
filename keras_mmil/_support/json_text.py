"""Text that every reader of JSON takes."""

import json
import math
from typing import Any

__all__ = ["finite", "to_json"]


def to_json(content: object, *, indent: int | None = None, sort_keys: bool = False) -> str:
    """Content as JSON, in which NaN and infinity are null, as JSON has no such numbers."""
    return json.dumps(finite(content), indent=indent, sort_keys=sort_keys, allow_nan=False)


def finite(content: Any) -> Any:
    """Content for JSON, None in place of NaN and infinity. Tuples are lists in it."""
    if isinstance(content, dict):
        return {key: finite(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [finite(value) for value in content]
    return None if isinstance(content, float) and not math.isfinite(content) else content

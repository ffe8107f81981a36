"""Values as TOML, as far as the file of a sweep needs it."""

from __future__ import annotations

import json
from typing import Any, Mapping


def value_text(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, Mapping):
        pairs = (f"{value_text(str(key))} = {value_text(item)}" for key, item in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, (list, tuple, range)):
        return "[" + ", ".join(map(value_text, value)) + "]"
    raise TypeError(f"a sweep cannot have the value {value!r} of the type {type(value).__name__}")


def document(values: Mapping[str, Any]) -> str:
    """Return keys and values as a TOML document. None is left out."""
    lines = (f"{key} = {value_text(item)}\n" for key, item in values.items() if item is not None)
    return "".join(lines)

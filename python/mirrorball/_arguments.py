"""Arguments of the command line, made of the parameters of a call."""

from __future__ import annotations

from os import PathLike
from typing import Any, Iterable, List, Optional, Union

#: The name of a built-in array or job, or the path of a file.
Name = Union[str, "PathLike[str]"]


def path_text(name: Name) -> str:
    """Return a name or a path as an argument of the binary."""
    text = str(name)
    # A file called `-o.fio` would be read as an option.
    return f"./{text}" if text.startswith("-") else text


def option(name: str, value: Any) -> List[str]:
    """Return an option of the command line, or nothing if it has no value."""
    return [] if value is None else [f"{name}={value}"]


def comma_list(values: Union[str, Iterable[str], None]) -> Optional[str]:
    """Return a list as the command line takes it, or None if there is none."""
    if values is None or isinstance(values, str):
        return values
    return ",".join(values)

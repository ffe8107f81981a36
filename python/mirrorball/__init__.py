"""Compare read policies of mirrored storage on simulated arrays.

    >>> import mirrorball as mb
    >>> result = mb.compare("hdd-ssd-raid1", "rand-4k-qd32", repeats=3)  # doctest: +SKIP
    >>> result.frame()  # doctest: +SKIP

The names are those of the `mirrorball` command, which does all work and is part of this package.
`compare` runs policies on an array, and `open` returns saved results. docs/python.md is the guide.
"""

from __future__ import annotations

from pathlib import Path
from typing import Optional

from ._arguments import Name
from ._binary import CommandError, find_binary
from ._comparison import Comparison, compare, open_comparison
from ._frames import histograms, percentiles
from ._histogram import Histogram

__all__ = [
    "CommandError",
    "Comparison",
    "Histogram",
    "compare",
    "find_binary",
    "histograms",
    "open",
    "percentiles",
]


def open(path: Name, *, rank: Optional[str] = None, baseline: Optional[str] = None) -> Comparison:
    """Return the saved results of a comparison, by the path of their folder.

    `rank` and `baseline` are those of `mirrorball report`.
    """
    return open_comparison(Path(path), rank, baseline)

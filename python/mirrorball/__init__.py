"""Compare read policies of mirrored storage on simulated arrays.

    >>> import mirrorball as mb
    >>> result = mb.compare("hdd-ssd-raid1", "rand-4k-qd32", repeats=3)  # doctest: +SKIP
    >>> result.frame()  # doctest: +SKIP

The names are those of the `mirrorball` command, which does all work and is part of this package.
`compare` runs policies on an array, `league` on random arrays, `Sweep` runs grids of many thousand
cells, and `open` returns saved results. docs/scale.md is the guide.
"""

from __future__ import annotations

from pathlib import Path
from typing import Optional, Union

from ._arguments import Name
from ._binary import CommandError, find_binary
from ._comparison import Comparison, compare, open_comparison
from ._frames import histograms, percentiles
from ._histogram import Histogram
from ._league import League, league
from ._shards import run_shard
from ._sweep import Input, Sweep, array, grid, job
from ._sweep_results import SweepResults, is_sweep

__all__ = [
    "CommandError",
    "Comparison",
    "Histogram",
    "Input",
    "League",
    "Sweep",
    "SweepResults",
    "array",
    "compare",
    "find_binary",
    "grid",
    "histograms",
    "job",
    "league",
    "open",
    "percentiles",
    "run_shard",
]


def open(
    path: Name, *, rank: Optional[str] = None, baseline: Optional[str] = None
) -> Union[Comparison, SweepResults]:
    """Return the saved results of a comparison or a sweep, by the path of their folder.

    `rank` and `baseline` are those of `mirrorball report`, and are for comparisons.
    """
    if is_sweep(Path(path)):
        if rank is not None or baseline is not None:
            raise TypeError("`rank` and `baseline` are for comparisons, not for sweeps")
        return SweepResults(Path(path))
    return open_comparison(Path(path), rank, baseline)

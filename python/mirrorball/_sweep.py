"""Sweeps: grids of arrays, jobs, policies and seeds, run by any executor.

The binary plans, runs and packs. `_shards` has the tasks of executors.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, SupportsIndex, Union

from ._arguments import Name
from ._binary import run
from ._sweep_results import SweepResults
from ._toml import document


@dataclass(frozen=True)
class Input:
    """An array or a job, and the parameters that vary."""

    #: The name of a built-in one, or the path of a file.
    name: str
    #: Values of each parameter.
    varied: Mapping[str, List[Any]] = field(default_factory=dict)

    def vary(
        self, parameters: Optional[Mapping[str, Iterable[Any]]] = None, **more: Iterable[Any]
    ) -> Input:
        """Return this with parameters that take several values; all combinations are run.

        A parameter of an array is a path of keys, such as `host.overhead` or `member.2.model`; one
        of a job is an option, `iodepth`, or `section.iodepth`. As a keyword, `__` stands for a dot.
        """
        named = {name.replace("__", "."): values for name, values in more.items()}
        added = {name: list(values) for name, values in {**(parameters or {}), **named}.items()}
        return Input(self.name, {**self.varied, **added})

    def _value(self) -> Any:
        return {"name": self.name, "vary": dict(self.varied)} if self.varied else self.name


#: What stands for one or several arrays or jobs.
Inputs = Union[Name, Input, Iterable[Union[Name, Input]]]


def array(name: Name) -> Input:
    """Return an array for a sweep, by the name of a built-in one or the path of a file."""
    return Input(str(name))


def job(name: Name) -> Input:
    """Return a job for a sweep, by the name of a built-in one or the path of a file."""
    return Input(str(name))


def grid(
    *,
    array: Inputs,
    job: Inputs,
    policy: Union[str, Iterable[str]] = "all",
    repeats: Optional[int] = None,
    seed: Union[SupportsIndex, Iterable[int], None] = None,
    duration: Optional[str] = None,
    oracle: bool = False,
    sample: Optional[int] = None,
) -> Dict[str, Any]:
    """Return a grid: every job on every array under every policy, with every seed.

    The parameters are the keys of the file that `mirrorball sweep plan` reads. `seed` may be
    several seeds, such as a range. `sample` draws so many cells of the grid at random.
    """
    if isinstance(seed, Iterable):
        seeds = [int(number) for number in seed]
        if repeats is not None:
            raise ValueError("give several seeds and no `repeats`, or a number as `seed`")
        if seeds and seeds == list(range(seeds[0], seeds[0] + len(seeds))):
            seed, repeats = seeds[0], len(seeds)
        else:
            seed = seeds
    elif seed is not None:
        seed = int(seed)  # JSON does not know numpy's integers.
    return {
        "array": _inputs(array),
        "job": _inputs(job),
        "policy": policy if isinstance(policy, str) else list(policy),
        "repeats": repeats,
        "seed": seed,
        "duration": duration,
        "oracle": oracle,
        "sample": sample,
    }


def _inputs(given: Inputs) -> List[Any]:
    items = given if isinstance(given, (list, tuple)) else [given]
    return [item._value() if isinstance(item, Input) else str(item) for item in items]


class Sweep:
    """A sweep: what `mirrorball sweep` plans and runs."""

    def __init__(self, grid: Mapping[str, Any]) -> None:
        #: The file that describes it.
        self.text = document(grid)

    def plan(self, out: Name) -> SweepResults:
        """Check the sweep and write its plan to the folder `out`, unless it is there."""
        folder = Path(out).absolute()
        run(["sweep", "plan", f"--output={folder}", "-"], stdin=self.text)
        return SweepResults(folder)

    def run(
        self,
        out: Name,
        executor: Optional[Any] = None,
        *,
        shards: Optional[int] = None,
        threads: Optional[int] = None,
        on_progress: Optional[Callable[[int, int], None]] = None,
    ) -> SweepResults:
        """Plan the sweep into the folder `out` and run it: see `SweepResults.run`."""
        return self.plan(out).run(executor, shards=shards, threads=threads, on_progress=on_progress)

    def __repr__(self) -> str:
        return f"<Sweep\n{self.text}>"

"""Sweeps: grids of arrays, jobs, policies and seeds, run by any executor.

The binary plans, runs and packs. An executor only starts it: a task is one shard, so engines that
repeat tasks, lose workers or run a task twice do no harm.
"""

from __future__ import annotations

import concurrent.futures
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Optional, Union

from ._arguments import Name, option, path_text
from ._binary import run
from ._sweep_results import SweepResults
from ._toml import document

#: Cells of a shard, if the caller gives no number of shards.
_CELLS_PER_SHARD = 2000
#: Number of shards that keeps most clusters busy.
_SHARDS = 64
#: Seconds between looks at jobs that cannot call back.
_POLL_S = 0.2


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
    seed: Union[int, range, None] = None,
    duration: Optional[str] = None,
    oracle: bool = False,
    sample: Optional[int] = None,
) -> Dict[str, Any]:
    """Return a grid: every job on every array under every policy, with every seed.

    The parameters are the keys of the file that `mirrorball sweep plan` reads. `seed` may be a
    range of seeds. `sample` draws so many cells of the grid at random.
    """
    if isinstance(seed, range):
        if repeats is not None or seed.step != 1:
            raise ValueError("give `seed` as a range with step 1 and no `repeats`, or as a number")
        repeats = len(seed)
        seed = seed.start
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
        """Run the cells that the folder `out` does not hold yet, and return the results.

        Without an executor the binary runs them, on all CPUs or on `threads` of them. An executor,
        such as `concurrent.futures.ProcessPoolExecutor`, Dask's `client.get_executor()` or one of
        submitit, gets `shards` tasks, each of which runs the binary with one thread, or `threads`.
        All workers must see the folder and have this package. After each task `on_progress` is
        called with the number of tasks that are done and of all.

        A task that fails is reported after the others have ended. The same call again runs what is
        missing, whatever happened to the processes before.
        """
        results = self.plan(out)
        if executor is None:
            run(["sweep", "run", *option("--threads", threads), path_text(results.folder)])
            return results
        cells = results.status()["cells"]
        count = min(cells, shards or max(_SHARDS, cells // _CELLS_PER_SHARD))
        folder = str(results.folder)
        tasks = [
            executor.submit(run_shard, folder, number, count, threads or 1)
            for number in range(1, count + 1)
        ]
        failure: Optional[BaseException] = None
        for done, task in enumerate(_as_completed(tasks), 1):
            error = _error_of(task)
            failure = failure or error
            if on_progress is not None:
                on_progress(done, count)
        if failure is not None:
            raise failure
        return results

    def __repr__(self) -> str:
        return f"<Sweep\n{self.text}>"


@dataclass(frozen=True)
class Shard:
    """What a task returns."""

    #: Its number, from one.
    number: int
    #: Wall-clock time of the binary.
    seconds: float


def run_shard(folder: str, number: int, count: int, threads: int = 1) -> Shard:
    """Run the shard `number` of `count` of the sweep in `folder`: the task of an executor.

    Cells that are done are not run again, so a task may be repeated.
    """
    start = time.monotonic()
    run(["sweep", "run", f"--shard={number}/{count}", f"--threads={threads}", path_text(folder)])
    return Shard(number, time.monotonic() - start)


def _as_completed(tasks: List[Any]) -> Iterator[Any]:
    """Yield tasks as they end. Those of submitit are no futures of `concurrent.futures`."""
    if all(isinstance(task, concurrent.futures.Future) for task in tasks):
        yield from concurrent.futures.as_completed(tasks)
        return
    pending = list(tasks)
    while pending:
        ended = [task for task in pending if task.done()]
        pending = [task for task in pending if task not in ended]
        yield from ended
        if pending and not ended:
            time.sleep(_POLL_S)


def _error_of(task: Any) -> Optional[BaseException]:
    try:
        task.result()
    except Exception as error:
        return error
    return None

"""Shards of a planned sweep, run by any executor.

An executor only starts the binary: a task is one shard, so engines that repeat tasks, lose workers
or run a task twice do no harm.
"""

from __future__ import annotations

import concurrent.futures
import time
from dataclasses import dataclass
from typing import Any, Callable, Iterator, List, Optional

from ._binary import run

#: Cells of a shard, if the caller gives no number of shards.
_CELLS_PER_SHARD = 2000
#: Number of shards that keeps most clusters busy.
_SHARDS = 64
#: Seconds between looks at jobs that cannot call back.
_POLL_S = 0.2


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
    run(["sweep", "run", f"--shard={number}/{count}", f"--threads={threads}", folder])
    return Shard(number, time.monotonic() - start)


def run_shards(
    folder: str,
    executor: Any,
    *,
    cells: int,
    shards: Optional[int],
    threads: int,
    on_progress: Optional[Callable[[int, int], None]],
) -> None:
    """Run all shards of the sweep in `folder`, and raise the first error after the last of them."""
    count = min(cells, shards or max(_SHARDS, cells // _CELLS_PER_SHARD))
    tasks = [
        executor.submit(run_shard, folder, number, count, threads) for number in range(1, count + 1)
    ]
    failure: Optional[BaseException] = None
    for done, task in enumerate(_as_completed(tasks), 1):
        error = _error_of(task)
        failure = failure or error
        if on_progress is not None:
            on_progress(done, count)
    if failure is not None:
        raise failure


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

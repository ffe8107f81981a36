#!/usr/bin/env python3
"""The random league as a sweep, by processes: its table, its cost, and the speed-up of workers.

    benches/league-sweep.py [--arrays 1000] [--jobs 4] [--seed 23] [--policy LIST] [--quick]
                            [--workers 1,2,4] [--speed-up 24] [--speed-up-only] [--folder DIR]

Arrays and jobs are drawn at random. The sweep of all of them is run by as many processes as there
are CPUs; the first `--speed-up` arrays are run by each number of workers, in a folder of its own,
and must give the same bytes. Prints the results as Markdown, with the table of the league last.
`--folder` keeps the sweep: the same command again resumes it. `--speed-up-only` runs no more than
the first arrays.

A pairing of array and job is run by one worker without a pause, so few pairings would measure the
longest of them, and the start of processes. Therefore fewer than eight for each of the shards are
refused, and there are two shards for each of the most workers.

MIRRORBALL names the program; without it the release build with sweeps is made and used.
"""

import argparse
import hashlib
import os
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "python"))
# Workers import the package, too.
os.environ["PYTHONPATH"] = str(ROOT / "python")
import mirrorball as mb  # noqa: E402

# Fewer would measure the longest pairing, which one worker runs.
PAIRINGS_PER_SHARD = 8


def league(options, arrays, folder, *more):
    """Plans the sweep of a random league, or prints its tables if all cells are done."""
    command = [mb.find_binary(), "league", f"--sample={arrays * options.jobs}"]
    command += [f"--jobs-per-array={options.jobs}", f"--seed={options.seed}", f"--sweep={folder}"]
    command += ["--quick"] if options.quick else []
    command += [f"--policy={options.policy}"] if options.policy else []
    command += more
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def timed(work):
    """The seconds of wall-clock and of CPU time that `work` takes."""
    wall, cpu = time.monotonic(), cpu_s()
    work()
    return time.monotonic() - wall, cpu_s() - cpu


def run(folder, workers, shards=None):
    """Runs a planned sweep by processes."""
    results = mb.open(folder)
    with ProcessPoolExecutor(workers) as executor:
        results.run(executor, shards=shards)
    return results


def speed_up(options, folder):
    """Runs the first arrays by each number of workers, and prints a row for each."""
    cpus, most = os.cpu_count(), max(options.workers)
    print(f"The first {options.speed_up} arrays, in {shards(options)} shards", end="")
    print(f"; only {cpus} workers can run at a time:\n" if most > cpus else ":\n")
    print("| workers | wall-clock s | CPU s | CPU ms a cell | speed-up |")
    print("|--:|--:|--:|--:|--:|", flush=True)
    first, digests = None, set()
    for workers in options.workers:
        own = Path(folder) / f"workers-{workers}"
        league(options, options.speed_up, own)
        wall, cpu = timed(lambda folder=own, workers=workers: run(folder, workers, shards(options)))
        first = first or wall
        digests.add(hashlib.sha256(mb.open(own).pack().read_bytes()).hexdigest())
        each = cpu * 1000 / mb.open(own).status()["cells"]
        row = f"| {workers} | {wall:.1f} | {cpu:.1f} | {each:.2f} | {first / wall:.2f} |"
        print(row, flush=True)
    if len(digests) != 1:
        sys.exit("the packed results of different numbers of workers differ")


def shards(options):
    """The number of shards of the speed-up, the same for all numbers of workers."""
    return 2 * max(options.workers)


def whole_league(options, folder):
    """Runs the sweep of all arrays, and prints what it costs."""
    planned, before = (0.0, 0.0), 0
    if (folder / "sweep.json").exists():
        before = mb.open(folder).status()["done"]
    else:
        planned = timed(lambda: league(options, options.arrays, folder))
    ran = timed(lambda: run(folder, os.cpu_count()))
    status = mb.open(folder).status()
    print(f"{status['cells']} cells, of which a run saves", end=" ")
    print(f"{status['bytes'] / status['cells']:.0f} bytes each; {before} were done before.\n")
    print("| step | wall-clock s | CPU s | CPU ms a cell |\n|---|--:|--:|--:|")
    for step, (wall, cpu) in (("plan", planned), ("run", ran)):
        each = cpu * 1000 / max(status["cells"] - before, 1)
        print(f"| {step} | {wall:.1f} | {cpu:.1f} | {each:.2f} |")
    print(flush=True)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--arrays", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=4, help="jobs on each array")
    parser.add_argument("--seed", type=int, default=23)
    parser.add_argument(
        "--workers", type=lambda text: list(map(int, text.split(","))), default="1,2,4"
    )
    parser.add_argument("--speed-up", type=int, default=24, help="arrays of the speed-up")
    parser.add_argument("--speed-up-only", action="store_true", help="run no other arrays")
    parser.add_argument("--policy", help="rivals [default: all, or twelve with --quick]")
    parser.add_argument("--quick", action="store_true", help="short runs")
    parser.add_argument("--folder", help="folder of the sweep [default: a temporary one]")
    options = parser.parse_args()
    least = -(-PAIRINGS_PER_SHARD * shards(options) // options.jobs)
    if options.speed_up < least:
        parser.error(f"--speed-up {options.speed_up}: too few arrays; give {least} at least")
    return options


def main():
    options = arguments()
    if "MIRRORBALL" not in os.environ:
        build = ["cargo", "build", "--quiet", "--locked", "--release", "--features", "sweeps"]
        subprocess.run(build, cwd=ROOT, check=True)
        target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
        os.environ["MIRRORBALL"] = str(target / "release/mirrorball")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(options.folder or Path(scratch) / "all")
        arrays = options.speed_up if options.speed_up_only else options.arrays
        what = f"{arrays} arrays, {options.jobs} jobs on each, seed {options.seed}"
        print(f"# The random league as a sweep: {what}\n\n{os.cpu_count()} CPUs.\n", flush=True)
        if not options.speed_up_only:
            whole_league(options, folder)
        speed_up(options, scratch)
        if not options.speed_up_only:
            print()
            print(league(options, options.arrays, folder, "--format=markdown"), end="")


main()

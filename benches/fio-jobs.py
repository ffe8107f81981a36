#!/usr/bin/env python3
"""Compare how mirrorball and fio's null engine read a folder of job files.

    cargo build -p mirrorball-sim --example requests
    benches/fio-jobs.py FOLDER [MIRRORBALL] [ARRAY]

Prints a line for each file of the folder and of those in it: whether fio parses it and
`mirrorball check` accepts it, and the requests and bytes of both; then the totals. A job that fio
parses counts unless it does no block I/O, needs a second host, a zoned device, or a trace that is
not there. Variables that are not set get a value that fits their option, from VALUES.

Both run a copy without engine, files and rates, which ends by its size: without limits of time, and
with sizes of SIZE_MAX at most, or a few blocks, and few clones and loops. fio's copy lacks options
of engines, too. Those that make more than REQUESTS_MAX requests all the same are not compared.
Requests and bytes must be equal in number. If they are not and sizes are random, or a direction is
drawn, the means of SEEDS runs must be within four deviations. Requests for less than 4 KiB are
widened in a simulation, which `check` notes: their bytes differ.

The addresses of each section and kind, writes and discards included, are those of the first clone:
fio's log and the example `requests`. The sets of addresses and lengths must be equal. If they are
not and addresses are drawn, two distributions are compared: that of the addresses, unless the place
of the most frequent one is drawn, too, and that of the shares of the most frequent ones; they must
differ by no more than two samples of one distribution do once in 10,000 times. The same is done on
a file that goes on behind the sizes, with fio's psync engine: jobs may end elsewhere there.

Of sections with a rate or pauses the requests per second are compared, without the other sections,
each for TIMED_S, on an array that takes no time.
"""

import collections
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

# fio's null engine makes as many in a few seconds, and a simulation in not many more.
REQUESTS_MAX = 300_000
SECONDS_MAX = 60
SEEDS = 24
# Two samples differ by more than this share of sqrt(1 / n + 1 / m) once in 10,000 times.
KOLMOGOROV = 2.23
REQUESTS = pathlib.Path(__file__).parent.parent / "target/debug/examples/requests"

# Times are compared within this share, of fewer sections and of rates that the null engine keeps.
TIMED_S = 2
TIMED_SECTIONS_MAX = 8
TIMED_IOPS_MAX = 20_000
TIMED_SHARE = 0.05
TIMED_TRIES = 4

INSTANT = """name = "instant"
profile = "single"
[host]
overhead = "0us"
[[member]]
model = "delay"
size = "64TiB"
set = { service = "1us", servers = 4096 }
"""

SIZE_MAX = 16 << 20
# Bytes of the volume, and of a file that is there before a job.
VOLUME_BYTES = 1 << 50
FILE_BYTES = 1 << 30
CLONES_MAX = 3

DROPPED = re.compile(
    r"^\s*(ioengine|filename|directory|thinktime\w*|rate\w*|write_\w+_log|log_\w+|time_based|runtime|"
    r"timeout|ramp_time|startdelay|new_group|nrfiles|openfiles|opendir|filename_format|fill_device|"
    r"create_\w+|pre_read|unlink\w*|\w*verify\w*|exitall|exit_what|numa_\w+|cpu\w+|offset\s*=.*%)"
    r"\s*(=.*)?$", re.M)
TIME = re.compile(
    r"^\s*(runtime|timeout|time_based|ramp_time|startdelay|group_reporting|loops|number_ios|io_size|"
    r"io_limit|rate_min\w*|write_\w+_log|log_\w+|ioengine|exitall|exit_what|filename\w*|directory|"
    r"nrfiles|openfiles|size|filesize|offset\w*|io_submit_mode)\s*(=.*)?$", re.M)
PACE = re.compile(r"^\s*(rate|rate_iops|thinktime)\s*=\s*(?!0\s*$)", re.M)
SIZE = re.compile(r"^(\s*(?:size|io_size|io_limit|filesize|number_ios)\s*=\s*)(.*)$", re.M)
CLONES = re.compile(r"^(\s*(?:numjobs|loops)\s*=\s*)(\d+)\s*$", re.M)
SECTION = re.compile(r"^\s*\[(?!global)[^\]]+\].*$", re.M)
UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
OTHER = re.compile(r"^\s*(read_iolog|ioscheduler|exec_\w+)\b", re.M)
# With more in flight the null engine logs requests twice that it was too busy to begin.
DEPTH = re.compile(r"^\s*iodepth\w*\s*=.*$", re.M)
DIRECT = re.compile(r"^\s*(direct|buffered)\s*=.*$", re.M)
BLOCK = re.compile(r"^\s*(?:bs|blocksize|bsrange|blocksize_range|bssplit)\s*=(.*)$", re.M)
AMOUNT = re.compile(r"(\d+)([kmg]?)", re.I)
RANDOM_SIZES = re.compile(r"^\s*(bssplit|bsrange|blocksize_range)\s*=|^\s*(bs|blocksize)\s*=.*,", re.M)
SKEWED = re.compile(r"^\s*random_distribution\s*=", re.M)
DRAWN = re.compile(r"^\s*(rw|readwrite)\s*=\s*(rand\w*|rw|readwrite)", re.M)
NO_BLOCKS = re.compile(
    r"^\s*ioengine\s*=\s*(cpuio|exec|net|netsplice|rdma|librpma\w*|ftruncate|file\w+|dir\w+|falloc|"
    r"e4defrag|rados|http|libhdfs|page_fault|libzbc|mtd)\s*$|^\s*zonemode\s*=\s*zbd", re.M)
VARIABLE = re.compile(r"^(\s*)(\w+)(\s*=.*)\$\{(\w+)\}", re.M)
VALUES = {"rw": "randrw", "readwrite": "randrw", "bs": "4k", "blocksize": "4k", "size": "16m",
          "filesize": "16m", "io_size": "16m", "ioengine": "libaio", "filename": "/dev/sdb",
          "directory": "data", "direct": "1", "rwmixread": "70"}


def ended(text):
    """The job with an end that comes soon."""
    blocks = [int(number) << UNITS[unit.lower()] for block in BLOCK.findall(text)
              for number, unit in AMOUNT.findall(block)]
    largest = max(SIZE_MAX, 4 * max(blocks, default=0))
    def size(match):
        value = re.fullmatch(r"(\d+)([kmgtp]?)(i?b)?", match[2].strip().lower())
        small = value and int(value[1]) << UNITS[value[2]] <= largest
        return match[0] if small else f"{match[1]}{largest}"
    text = SIZE.sub(size, DROPPED.sub("", text))
    text = CLONES.sub(lambda it: f"{it[1]}{min(int(it[2]), CLONES_MAX)}", text)
    parts = re.split(r"(?=^\s*\[)", text, flags=re.M)
    has_size = any(part.lstrip().startswith("[global]") and SIZE.search(part) for part in parts)
    extra = "\nfilename=a" if has_size else f"\nfilename=a\nsize={largest}"
    return SECTION.sub(lambda it: it[0] + ("\nfilename=a" if has_size else extra), text)


def run(*command, cwd, env=None):
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace",
                              timeout=SECONDS_MAX, cwd=cwd, env=env)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", "timeout")


def totals(sections, requests, size):
    kinds = [section[kind] for section in sections for kind in ("read", "write", "trim")
             if section.get(kind)]
    return sum(kind[requests] for kind in kinds), sum(kind[size] for kind in kinds)


def of_fio(text, folder, env, more="", engine="null"):
    """Requests and bytes of an engine of fio, or why it has none."""
    numbers = iter(range(10_000))
    own = SECTION.sub(lambda it: f"{it[0]}\nioengine={engine}{more.format(next(numbers))}", text)
    for _ in range(9):
        (folder / "null.fio").write_text(own)
        done = run("fio", "--output-format=json", "null.fio", cwd=folder, env=env)
        unknown = re.search(r"Bad option <(\w+)", done.stderr)
        if not unknown:
            break
        own = re.sub(rf"^\s*{unknown[1]}\b.*$", "", own, flags=re.M)
    try:
        jobs = json.loads(done.stdout[done.stdout.index("{"):])["jobs"]
    except (ValueError, KeyError):
        return (done.stderr.strip().split("\n") or [""])[-1]
    return totals(jobs, "total_ios", "io_bytes")


def of_mirrorball(binary, array, text, folder, env, seeds=1):
    """Requests and bytes of each seed, or why there are none."""
    (folder / "job.fio").write_text(text)
    shutil.rmtree(folder / "results", ignore_errors=True)
    done = run(binary, "compare", array, "job.fio", "--policy", "btrfs/pid", "-n", str(seeds),
               "--no-oracle", "-o", "results", cwd=folder, env=env)
    cells = [json.loads(cell.read_text()) for cell in folder.glob("results/cells/*.json")]
    return [totals(cell["sections"], "ios", "bytes") for cell in cells] or done.stderr.split("\n")[0]


def widened(offset, length):
    """A request of whole sectors of 4 KiB."""
    start = offset & ~4095
    return start, (offset + length + 4095 & ~4095) - start


def requests_of(text, folder, env, is_there):
    """Lists of (offset, length) by section and kind: fio's and ours."""
    text = CLONES.sub(lambda it: f"{it[1]}1", DEPTH.sub("", text))
    for log in folder.glob("log.*"):
        log.unlink()
    if is_there:
        text = DIRECT.sub("", text)
        with open(folder / "a", "wb") as file:
            file.truncate(FILE_BYTES)
    engine = "psync" if is_there else "null"
    if isinstance(of_fio(text, folder, env, "\nwrite_iolog=log.{}", engine), str):
        return {}, {}
    theirs, ours = {}, {}
    for log in folder.glob("log.*"):
        for it in map(str.split, log.read_text().splitlines()):
            if len(it) >= 4 and it[-3] in ("read", "write", "trim"):
                key = int(log.suffix[1:]), it[-3]
                theirs.setdefault(key, []).append(widened(int(it[-2]), int(it[-1])))
    (folder / "job.fio").write_text(re.sub("^filename=a$", "filename=/dev/a", text, flags=re.M)
                                    if is_there else text)
    bytes_of = str(FILE_BYTES if is_there else VOLUME_BYTES)
    done = run(REQUESTS, "job.fio", "1", bytes_of, cwd=folder, env=env)
    for line in done.stdout.splitlines():
        section, kind, offset, length = line.split()
        kind = {"Read": "read", "Write": "write", "Discard": "trim"}.get(kind)
        if kind:
            ours.setdefault((int(section), kind), []).append((int(offset), int(length)))
    return theirs, ours


def distance(mine, theirs):
    """The largest difference of two distributions, in deviations of two samples."""
    values = sorted([(value, 0) for value in mine] + [(value, 1) for value in theirs])
    ends, largest = [0, 0], 0
    for index, (value, side) in enumerate(values):
        ends[side] += 1
        if index + 1 == len(values) or values[index + 1][0] != value:
            largest = max(largest, abs(ends[0] / len(mine) - ends[1] / len(theirs)))
    return largest / (1 / len(mine) + 1 / len(theirs)) ** 0.5


def ranks(offsets):
    """Each offset by its place among all, the most frequent first."""
    counts = sorted(collections.Counter(offsets).values(), reverse=True)
    return [rank for rank, count in enumerate(counts) for _ in range(count)]


def compared_addresses(text, folder, env, is_there=False):
    """Which sections and kinds differ, as text; or None if there is nothing to compare."""
    theirs, ours = requests_of(text, folder, env, is_there)
    if not theirs or not ours:
        return None
    differ = []
    for key in sorted({*theirs, *ours}):
        mine, its = ours.get(key, []), theirs.get(key, [])
        if not mine or not its:
            differ += [f"{key[0]} {key[1]}"] * (abs(len(mine) - len(its)) > 3)
        elif sorted(mine) != sorted(its):
            mine, its = [it[0] for it in mine], [it[0] for it in its]
            near = distance(ranks(mine), ranks(its)) < KOLMOGOROV
            near &= bool(SKEWED.search(text)) or distance(mine, its) < KOLMOGOROV
            differ += [f"{key[0]} {key[1]}"] * (not DRAWN.search(text) or not near)
    return ", ".join(differ)


def compared(binary, array, text, env):
    """The comparison as text, and whether the job is read alike."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        fio = of_fio(text, folder, env)
        if isinstance(fio, str) or not 0 < fio[0] <= REQUESTS_MAX:
            return f", not compared: {fio}", None
        ours = of_mirrorball(binary, array, text, folder, env)
        if isinstance(ours, str):
            return f", not run: {ours}", None
        what = f", requests {ours[0][0]} of fio's {fio[0]}, bytes {ours[0][1]} of {fio[1]}"
        is_alike = ours[0][0] == fio[0]
        if not is_alike and (RANDOM_SIZES.search(text) or DRAWN.search(text)):
            mine = of_mirrorball(binary, array, text, folder, env, SEEDS)
            its = [of_fio(text, folder, env, "\nrandrepeat=0") for _ in range(SEEDS)]
            counts = [[it[0] for it in runs if not isinstance(it, str)] for runs in (mine, its)]
            if min(map(len, counts)) < SEEDS / 2:
                return what + ", seeds not run", None
            means = [statistics.mean(of) for of in counts]
            error = sum(statistics.variance(of) / len(of) for of in counts) ** 0.5
            is_alike = abs(means[0] - means[1]) <= 4 * error
            what += f", means {means[0]:.0f} of {means[1]:.0f} (error {error:.0f})"
        for place, is_there in ("", False), (" in a larger file", True):
            addresses = compared_addresses(text, folder, env, is_there)
            if addresses is not None:
                result = f"of {addresses} differ" if addresses else "alike"
                what += f", addresses{place} {result}"
                is_alike &= not addresses
    return what + ("" if is_alike else " DIFFERS"), is_alike


def timed(text):
    """Those sections that have a rate or pauses, of a short time; none if there is none."""
    text = TIME.sub("", text)
    parts = re.split(r"(?=^\s*\[)", text, flags=re.M)
    all_have = any(part.lstrip().startswith("[global]") and PACE.search(part) for part in parts)
    is_timed = lambda part: not SECTION.match(part) or all_have or PACE.search(part)
    parts = [part for part in parts if is_timed(part)]
    if not 0 < sum(bool(SECTION.match(part)) for part in parts) <= TIMED_SECTIONS_MAX:
        return None
    text = "".join(parts)
    extra = f"time_based\nruntime={TIMED_S}\nioengine=null\nfilename=a\nsize=1g"
    return SECTION.sub(lambda it: f"{it[0]}\n{extra}", text)


def rates(sections, name, requests):
    """Requests of the sections of each name."""
    sums = {}
    for section in sections:
        ios = sum(section[kind][requests] for kind in ("read", "write", "trim") if section.get(kind))
        sums[section[name]] = sums.get(section[name], 0) + ios
    return sums


def compared_times(binary, text, env):
    """The best of several comparisons of times: fio is late on a busy machine."""
    for _ in range(TIMED_TRIES):
        what, is_alike = compared_times_once(binary, text, env)
        if is_alike is not False:
            break
    return what, is_alike


def compared_times_once(binary, text, env):
    """The comparison of times as text, and whether they are alike."""
    text = timed(text)
    if not text:
        return "", None
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "job.fio").write_text(text)
        (folder / "instant.toml").write_text(INSTANT)
        out = run("fio", "--output-format=json", "job.fio", cwd=folder, env=env).stdout
        run(binary, "compare", "instant.toml", "job.fio", "--policy", "btrfs/pid", "-n", "1",
            "--no-oracle", "-o", "results", cwd=folder, env=env)
        cells = list(folder.glob("results/cells/*.json"))
        if not cells or "{" not in out:
            return ", times not run", None
        theirs = rates(json.loads(out[out.index("{"):])["jobs"], "jobname", "total_ios")
        ours = rates(json.loads(cells[0].read_text())["sections"], "name", "ios")
    if not 0 < max(theirs.values()) <= TIMED_IOPS_MAX * TIMED_S:
        return "", None
    is_alike = all(abs(ours.get(name, 0) - ios) <= max(TIMED_SHARE * ios, 6 * ios ** 0.5 if "poisson"
                   in text else 3) for name, ios in theirs.items())
    what = " ".join(f"{name} {ours.get(name)} of {ios}" for name, ios in theirs.items())
    return f", in {TIMED_S} s {what}" + ("" if is_alike else " DIFFERS"), is_alike


def with_variables(text):
    """An environment in which the variables of a job are set, and its text with their values."""
    env = dict(os.environ)
    left = text
    for _ in range(4):
        for match in VARIABLE.finditer(left):
            env.setdefault(match[4], VALUES.get(match[2].lower(), "4"))
        left = VARIABLE.sub(lambda it: f"{it[1]}{it[2]}{it[3]}", left)
    return env, re.sub(r"\$\{(\w+)\}", lambda it: env.get(it[1], it[0]), text)


def main():
    source = pathlib.Path(sys.argv[1])
    binary = str(pathlib.Path((sys.argv[2:] + ["target/release/mirrorball"])[0]).resolve())
    array = (sys.argv[3:] + ["two-ssd-raid1"])[0]
    counts = {}
    def count(what):
        counts[what] = counts.get(what, 0) + 1
    for path in sorted(it for it in source.rglob("*") if it.is_file()):
        text = path.read_text(errors="replace")
        if not SECTION.search(text):
            continue
        env, text = with_variables(text)
        parse = run("fio", "--parse-only", path.name, cwd=path.parent, env=env)
        parses = parse.returncode == 0 and "unable to open" not in parse.stderr
        checked = run(binary, "check", path.name, cwd=path.parent, env=env)
        accepts = checked.returncode == 0
        what = "accepted" if accepts else checked.stderr.strip().split("\n")[0]
        is_alike = None
        if parses and accepts and not OTHER.search(text):
            compares, is_alike = compared(binary, array, ended(text), env)
            what += compares
            times, is_timely = compared_times(binary, text, env)
            what += times
            if is_timely is not None:
                count("times: " + ("alike" if is_timely else "differ"))
        lacks_trace = "cannot read the trace" in checked.stderr
        counts_for = parses and not lacks_trace and not NO_BLOCKS.search(text)
        count(("fio parses" if parses else "fio refuses") + (", we accept" if accepts else ", we refuse"))
        if counts_for:
            count("block I/O: " + ("accepted" if accepts else "refused"))
        if is_alike is not None:
            count("compared: " + ("alike" if is_alike else "differs"))
        mark = "fio" if counts_for else "(-)" if parses else "-"
        print(f"{mark:4}{path.relative_to(source)}: {what}", flush=True)
    for what, number in sorted(counts.items()):
        print(f"{what}: {number}")


if __name__ == "__main__":
    main()

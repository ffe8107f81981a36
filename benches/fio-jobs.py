#!/usr/bin/env python3
"""Compare how mirrorball and fio's null engine read a folder of job files.

    benches/fio-jobs.py FOLDER [MIRRORBALL] [ARRAY]

Prints a line for each file: whether fio parses it and `mirrorball check` accepts it, and the
requests and bytes of both. Both get a copy of the file without engine, files and rates, which ends
by its size: without limits of time, and with sizes of SIZE_MAX at most and few clones. Those that
make more than REQUESTS_MAX requests all the same are not compared. Requests for less than 4 KiB are
widened in a simulation, which `check` notes: their bytes differ.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

# fio's null engine makes as many in a few seconds, and a simulation in not many more.
REQUESTS_MAX = 300_000
SECONDS_MAX = 20

SIZE_MAX = 16 << 20
CLONES_MAX = 3

DROPPED = re.compile(
    r"^\s*(ioengine|filename|directory|thinktime\w*|rate\w*|write_\w+_log|log_\w+|time_based|runtime|"
    r"timeout|ramp_time|startdelay|new_group|nrfiles|openfiles|opendir|filename_format|fill_device|"
    r"create_\w+|pre_read|unlink\w*|\w*verify\w*)\s*(=.*)?$", re.M)
SIZE = re.compile(r"^(\s*(?:size|io_size|io_limit|filesize|number_ios)\s*=\s*)(.*)$", re.M)
CLONES = re.compile(r"^(\s*numjobs\s*=\s*)(\d+)\s*$", re.M)
UNITS = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40, "p": 50}
OTHER = re.compile(r"^\s*(read_iolog|loops|ioscheduler|exec_\w+)\b", re.M)


def ended(text):
    """The job with an end that comes soon."""
    def size(match):
        value = re.fullmatch(r"(\d+)([kmgtp]?)(i?b)?", match[2].strip().lower())
        small = value and int(value[1]) << UNITS[value[2]] <= SIZE_MAX
        return match[0] if small else f"{match[1]}{SIZE_MAX}"
    text = SIZE.sub(size, DROPPED.sub("", text))
    text = CLONES.sub(lambda it: f"{it[1]}{min(int(it[2]), CLONES_MAX)}", text)
    if not SIZE.search(text):
        text = re.sub(r"^(\s*\[(?!global)[^\]]+\])", rf"\1\nsize={SIZE_MAX}", text, flags=re.M)
    return re.sub(r"^(\s*\[(?!global)[^\]]+\])", r"\1\nfilename=a", text, flags=re.M)


def run(*command, cwd):
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace",
                              timeout=SECONDS_MAX, cwd=cwd)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", "timeout")


def totals(sections, requests, size):
    kinds = [section[kind] for section in sections for kind in ("read", "write", "trim")
             if section.get(kind)]
    return sum(kind[requests] for kind in kinds), sum(kind[size] for kind in kinds)


def of_fio(text, folder):
    text = re.sub(r"^(\s*\[(?!global)[^\]]+\])", r"\1\nioengine=null", text, flags=re.M)
    (folder / "null.fio").write_text(text)
    out = run("fio", "--output-format=json", "null.fio", cwd=folder).stdout
    try:
        jobs = json.loads(out[out.index("{"):])["jobs"]
    except (ValueError, KeyError):
        return None
    return totals(jobs, "total_ios", "io_bytes")


def of_mirrorball(binary, array, text, folder):
    (folder / "job.fio").write_text(text)
    done = run(binary, "compare", array, "job.fio", "--policy", "btrfs/pid", "-n", "1",
               "--no-oracle", "-o", "results", cwd=folder)
    cells = list(folder.glob("results/cells/*.json"))
    if not cells:
        return done.stderr.strip().split("\n")[0]
    sections = json.loads(cells[0].read_text())["sections"]
    return totals(sections, "ios", "bytes")


def main():
    source = pathlib.Path(sys.argv[1])
    binary = str(pathlib.Path((sys.argv[2:] + ["target/release/mirrorball"])[0]).resolve())
    array = (sys.argv[3:] + ["two-ssd-raid1"])[0]
    counts = {}
    for path in sorted(it for it in source.iterdir() if it.is_file()):
        parses = run("fio", "--parse-only", path.name, cwd=source).returncode == 0
        checked = run(binary, "check", path.name, cwd=source)
        accepts = checked.returncode == 0
        what = "accepted" if accepts else checked.stderr.strip().split("\n")[0]
        text = path.read_text(errors="replace")
        if parses and accepts and not OTHER.search(text):
            text = ended(text)
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                fio = of_fio(text, folder)
                is_small = fio and 0 < fio[0] <= REQUESTS_MAX
                ours = of_mirrorball(binary, array, text, folder) if is_small else None
            if isinstance(ours, str):
                what += f", not run: {ours}"
            elif ours:
                ratio = ours[0] / fio[0]
                what += f", requests {ours[0]} of fio's {fio[0]}, bytes {ours[1]} of {fio[1]}"
                what += "" if 0.97 < ratio < 1.03 else " DIFFERS"
        counts[parses, accepts] = counts.get((parses, accepts), 0) + 1
        print(f"{'fio' if parses else '-':4}{path.name}: {what}", flush=True)
    for (parses, accepts), count in sorted(counts.items()):
        verdicts = "parses" if parses else "refuses", "accept" if accepts else "refuse"
        print(f"fio {verdicts[0]}, we {verdicts[1]}: {count}")


if __name__ == "__main__":
    main()

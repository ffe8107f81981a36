#!/usr/bin/env python3
"""Compare how mirrorball and fio's null engine read a folder of job files.

    benches/fio-jobs.py FOLDER [MIRRORBALL] [ARRAY]

Prints a line for each file: whether fio parses it and `mirrorball check` accepts it, and for finite
jobs the requests and bytes of both. fio runs copies without engine, files and time limits.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

DROPPED = re.compile(
    r"^\s*(ioengine|filename|directory|thinktime|rate\w*|write_\w+_log)\s*=.*$", re.M)
ENDLESS = re.compile(r"^\s*(time_based|runtime|read_iolog|loops|fill_device)\b|size\s*=.*%", re.M)


def run(*command, cwd):
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace",
                              timeout=120, cwd=cwd)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", "timeout")


def totals(sections, requests, size):
    kinds = [section[kind] for section in sections for kind in ("read", "write", "trim")
             if section.get(kind)]
    return sum(kind[requests] for kind in kinds), sum(kind[size] for kind in kinds)


def of_fio(text, folder):
    text = DROPPED.sub("", text)
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
    run(binary, "compare", array, "job.fio", "--policy", "btrfs/pid", "-n", "1", "--no-oracle",
        "-o", "results", cwd=folder)
    cells = list(folder.glob("results/cells/*.json"))
    return totals(json.loads(cells[0].read_text())["sections"], "ios", "bytes") if cells else None


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
        if parses and accepts and not ENDLESS.search(text):
            with tempfile.TemporaryDirectory() as name:
                folder = pathlib.Path(name)
                fio, ours = of_fio(text, folder), of_mirrorball(binary, array, text, folder)
            if fio and ours and fio[0]:
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

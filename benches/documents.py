#!/usr/bin/env python3
"""Runs the examples of documents, and shows each line that is no longer printed.

    benches/documents.py PROGRAM [DOCUMENT...]

An example is a `console` block that begins with `$ mirrorball`. Its lines must be printed in their
order, `…` stands for any lines, white space and folders of results do not count. Examples that
need a disk, root or a file of the reader fail with code 2, and services do not end: both are not
counted as run.
"""

import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
MACHINE = ROOT / "tests/sysroots/md-raid1-hdd-ssd"


def words(line):
    line = re.sub(r"(advice|compare)-[0-9a-f]{12}", r"\1-X", line.replace("…", " "))
    return line.replace(f" --sysroot {MACHINE}", "").split()


def examples(path):
    """Commands and the lines below them."""
    for block in re.findall(r"```console\n(.*?)```", path.read_text(), re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = part.replace("\\\n", " ").partition("\n")
            if command.startswith("mirrorball ") and "|" not in command and "<" not in command:
                yield command, [line for line in printed.splitlines() if line.strip("… ")]


def main():
    program = pathlib.Path(sys.argv[1]).resolve()
    paths = [pathlib.Path(name) for name in sys.argv[2:]] or sorted(ROOT.glob("docs/*.md"))
    wrong = run = skipped = 0
    for path in paths:
        for command, expected in examples(path):
            given = shlex.split(command, comments=True)[1:]
            if {"/srv/data", "md0"} & set(given):
                given += ["--sysroot", str(MACHINE)]
            with tempfile.TemporaryDirectory() as folder:
                try:
                    done = subprocess.run(
                        [program, *given], cwd=folder, capture_output=True, text=True, timeout=300
                    )
                except subprocess.TimeoutExpired:
                    # A service, which goes on until it is stopped.
                    skipped += 1
                    continue
            if done.returncode == 2:
                skipped += 1
                continue
            run += 1
            # Terminals and pipes are of different widths: words are compared, not lines.
            text = " ".join(words((done.stderr + done.stdout).replace("\n", " ")))
            at = 0
            for line in expected:
                found = text.find(" ".join(words(line)), at)
                if found < 0:
                    wrong += 1
                    print(f"{path.name}: $ {command}\n    {line.strip()}", flush=True)
                else:
                    at = found
    print(f"{run} examples were run, {skipped} not; {wrong} lines are not printed")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()

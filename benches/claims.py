#!/usr/bin/env python3
"""Repeats what documents claim, and compares the output with the one that is expected.

    benches/claims.py PROGRAM [--most SECONDS] [--write]

`claims.tsv` has a claim in each line: the document and what it says, the command that shows it, its
CPU time in seconds, and the SHA-256 of what it prints on standard output at 100 columns. Results do
not depend on the machine, the compiler or the number of threads, so a hash that differs says that
other sources made it: the first line of the file names the commit that the hashes are of. Commands that take more than --most seconds (default 120) are left out.
--write replaces times and hashes by those of now.
"""

import argparse
import hashlib
import os
import pathlib
import resource
import shlex
import subprocess
import sys
import tempfile

CLAIMS = pathlib.Path(__file__).with_name("claims.tsv")


def run(program, command):
    """CPU seconds of a command, and the hash of its output."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    variables = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    with tempfile.TemporaryDirectory() as folder:
        words = [program, *shlex.split(command)]
        done = subprocess.run(words, cwd=folder, env=variables, capture_output=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        sys.exit(f"{command}: {done.stderr.decode()}")
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return used, hashlib.sha256(done.stdout).hexdigest()


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("program", type=pathlib.Path)
    arguments.add_argument("--most", type=float, default=120)
    arguments.add_argument("--write", action="store_true")
    args = arguments.parse_args()
    program = args.program.resolve()
    commit = ["git", "-C", CLAIMS.parent, "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(commit, capture_output=True, text=True, check=True).stdout.strip()
    first, head, *lines = CLAIMS.read_text().splitlines()
    rows, differ = [], 0
    for line in lines:
        document, claim, command, seconds, expected = line.split("\t")
        if float(seconds) > args.most:
            print(f"left out  {command}  ({seconds} s)")
        else:
            used, found = run(program, command)
            differ += found != expected
            verdict = "the same" if found == expected else "DIFFERS"
            print(f"{verdict:8}  {command}  ({used:.0f} s)", flush=True)
            if args.write:
                line = "\t".join([document, claim, command, f"{used:.0f}", found])
        rows.append(line)
    if args.write:
        CLAIMS.write_text("\n".join([f"# {commit}", head, *rows]) + "\n")
    elif differ:
        sys.exit(f"{differ} of {len(lines)} differ; the hashes are of {first.lstrip('# ')}")


if __name__ == "__main__":
    main()

"""Compares what a setting brought in a guest with what it brings in simulation, as Markdown.

    advise-gains.py MIRRORBALL MEASURED.csv JOBS ARRAYS WORK

MEASURED.csv is that of advise-in-qemu.sh, JOBS its job files, ARRAYS its array files. Of each array
the host overhead is fitted, to members alone: what a read at depth 1 took longer on the fast member
than its model says; and for the sequential reader, whose reads cost an emulated CPU more, the
overhead with which the simulated first member is as fast as the measured one.
"""
import csv
import pathlib
import re
import shutil
import subprocess
import sys

mirrorball, measured, jobs, arrays, work = sys.argv[1:]
# Of a system: the setting that others are compared with.
BASELINES = {"md": "before", "lvm": "before", "nvme": "numa"}
NAMES = {"md": "md RAID1", "lvm": "LVM raid1", "nvme": "NVMe multipath"}
FIT = "rand-4k-qd1"
READER = "seq-read"


def with_overhead(text, microseconds):
    line = f'overhead = "{microseconds}us"'
    if "[host]" in text:
        return re.sub(r"(?m)^overhead = .*$", line, text)
    return text.replace("[[member]]", f"[host]\n{line}\n\n[[member]]", 1)


def variant(text, system, setting):
    """The array file and the policy that stand for a setting of a system."""
    if system == "nvme":
        return text, "nvme/numa" if setting == "undone" else f"nvme/{setting}"
    head, first, second = text.split("[[member]]")
    if setting == "write-mostly":
        first = "\nwrite_mostly = true" + first
    if setting == "order":
        first, second = second.rstrip("\n") + "\n\n", first
    return "[[member]]".join((head, first, second)), "md/raid1"


def simulate(text, policy, job):
    """IOPS, mean latency in us and the share of each member, over two seeds."""
    folder = pathlib.Path(work)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    array = folder / "array.toml"
    array.write_text(text)
    run = subprocess.run(
        [mirrorball, "compare", array, f"{jobs}/{job}.fio", "--policy", policy, "--baseline",
         policy, "--repeats", "2", "--duration", "30s", "--format", "csv", "--output",
         folder / "results"],
        capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"advise-gains: {run.stderr}")
    cells = [row for row in csv.DictReader(run.stdout.splitlines()) if row["policy"] != "oracle"]
    mean = lambda column: sum(float(cell[column]) for cell in cells) / len(cells)
    shares = [dict(part.split(":") for part in cell["share_by_devid"].split(";")) for cell in cells]
    devids = {devid for share in shares for devid in share}
    share = {d: sum(float(s.get(d, 0)) for s in shares) / len(shares) for d in devids}
    return mean("iops"), mean("mean_us"), share


def fit(rows, text):
    """The host overhead in us: the reads of the fast member alone, less those of its model."""
    found = {(r["system"], r["setting"]): r for r in rows if r["job"] == FIT}
    if ("nvme", "numa") in found:
        row, (_, model, _) = found["nvme", "numa"], simulate(
            with_overhead(text, 0), "nvme/numa", FIT)
    else:
        fast, policy = variant(text, "md", "write-mostly")
        row, (_, model, _) = found["member 2", "alone"], simulate(
            with_overhead(fast, 0), policy, FIT)
    return round(float(row["mean_us"]) - model)


def fit_reader(rows, text):
    """The host overhead in us of the sequential reader; None if it was not run alone."""
    found = [r for r in rows if (r["system"], r["job"]) == ("member 1", READER)]
    if not found:
        return None
    head, first, second = text.split("[[member]]")
    alone = "[[member]]".join((head, first, "\nwrite_mostly = true" + second))
    low, high = 0, 4000
    while high - low > 10:
        middle = (low + high) // 2
        iops = simulate(with_overhead(alone, middle), "md/raid1", READER)[0]
        low, high = (middle, high) if iops > float(found[0]["iops"]) else (low, middle)
    return high


def percent(part, whole):
    return f"{100 * part / whole:.0f}" if whole else "-"


def report(array, rows):
    text = pathlib.Path(arrays, f"{array}.toml").read_text()
    overhead = fit(rows, text)
    reader = fit_reader(rows, text)
    texts = {READER: with_overhead(text, overhead if reader is None else reader)}
    text = with_overhead(text, overhead)
    fitted = "" if reader is None else f" ({reader} us for the sequential reader)"
    print(f"\n## {array}, host overhead {overhead} us{fitted}\n")
    print("| system | job | setting | IOPS, measured | IOPS, simulated | gain, measured "
          "| gain, simulated | off by | first member, measured | first member, simulated |")
    print("|---|---|---|--:|--:|--:|--:|--:|--:|--:|")
    results, outside = {}, 0
    for row in rows:
        system, job, setting = row["system"], row["job"], row["setting"]
        if system not in BASELINES:
            continue
        iops, _, share = simulate(*variant(texts.get(job, text), system, setting), job)
        results[system, job, setting] = float(row["iops"]), iops
        theirs, ours = results[system, job, BASELINES[system]]
        gain, ours_gain = float(row["iops"]) / theirs, iops / ours
        off = 100 * (ours_gain / gain - 1)
        outside += abs(off) > 15
        # With the order changed, the first member of the array is the second disk.
        devid = "2" if setting == "order" else "1"
        reads = int(row["reads_1"]), int(row["reads_2"])
        print(f"| {NAMES[system]} | {job} | {setting} | {row['iops']} | {iops:.0f} | {gain:.2f} "
              f"| {ours_gain:.2f} | {off:+.0f} % | {percent(reads[0], sum(reads))} % "
              f"| {100 * share.get(devid, 0):.0f} % |")
    return outside


rows = list(csv.DictReader(open(measured)))
outside = sum(report(array, [r for r in rows if r["array"] == array])
              for array in dict.fromkeys(r["array"] for r in rows))
print(f"\nGains that are off by more than 15 %: {outside}")

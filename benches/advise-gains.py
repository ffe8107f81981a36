"""Compares what a setting brought in a guest with what it brings in simulation, as Markdown.

    advise-gains.py models ARRAY.toml FOLDER
    advise-gains.py gains MIRRORBALL OUTPUT JOBS ARRAYS WORK

`models` writes the lines of each member's model to FOLDER/ARRAY-DEVID. For `gains`, OUTPUT has the
measured.csv of advise-in-qemu.sh and the array files that were written in the guest, JOBS its job
files, ARRAYS its array files. Of each array and system the host overhead is fitted, to members
alone under the system: what a read at depth 1 took longer on the fast member than its model says;
and for the sequential reader, whose reads cost an emulated CPU more, the overhead with which the
simulated first member is as fast as the measured one. Nothing is fitted to the arrays, but for
NVMe, whose `numa` reads the fast path alone.
"""
import csv
import json
import pathlib
import re
import shutil
import subprocess
import sys

# Of a system: the setting that others are compared with.
BASELINES = {"md": "before", "lvm": "before", "nvme": "numa"}
NAMES = {"md": "md RAID1", "lvm": "LVM raid1", "nvme": "NVMe multipath"}
FIT = "rand-4k-qd1"
READER = "seq-read"
# The setting that the command of `mirrorball advise` makes.
ADVISED = {"md": "write-mostly", "lvm": "write-mostly", "nvme": "queue-depth"}


def models(array, folder):
    path = pathlib.Path(array)
    for devid, member in enumerate(path.read_text().split("[[member]]")[1:], start=1):
        lines = [line for line in member.splitlines() if re.match("(model|set) = ", line)]
        pathlib.Path(folder, f"{path.stem}-{devid}").write_text("\n".join(lines) + "\n")


def with_overhead(text, microseconds):
    line = f'overhead = "{microseconds}us"'
    if "[host]" in text:
        text = re.sub(r"(?m)^overhead = .*\n", "", text)
        return text.replace("[host]\n", f"[host]\n{line}\n", 1)
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


def fit(rows, system, text):
    """The host overhead in us: the reads of the fast member alone, less those of its model."""
    found = {r["setting"]: r for r in rows if (r["system"], r["job"]) == (system, FIT)}
    if system == "nvme":
        row, policy = found[BASELINES[system]], "nvme/numa"
    else:
        row, policy = found["alone-2"], "md/raid1"
        text, _ = variant(text, system, "write-mostly")
    return round(float(row["mean_us"]) - simulate(with_overhead(text, 0), policy, FIT)[1])


def fit_reader(rows, system, text):
    """The host overhead in us of the sequential reader; None if it was not run alone."""
    found = [r for r in rows if (r["system"], r["setting"]) == (system, "alone-1")]
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


def advised(array, system, overheads):
    """The command of `mirrorball advise` and its gain for each job, by the guest's array file.

    None instead of a gain where advise offers nothing for the jobs with that overhead."""
    text = pathlib.Path(output, f"{array}-{system}.toml").read_text()
    path = pathlib.Path(work, "advised.toml")
    path.parent.mkdir(parents=True, exist_ok=True)
    commands, gains = set(), {}
    for overhead in dict.fromkeys(overheads.values()):
        path.write_text(with_overhead(text, overhead))
        asked = [f"{jobs}/{job}.fio" for job in overheads if overheads[job] == overhead]
        run = subprocess.run(
            [mirrorball, "advise", path, *asked, "--repeats", "2", "--duration", "30s",
             "--format", "json"],
            capture_output=True, text=True, cwd=work)
        if run.returncode:
            sys.exit(f"advise-gains: {run.stderr}")
        answer = json.loads(run.stdout)["array"]
        offered = answer["advice"]["offered"]
        commands.update(offered["commands"]["set"])
        for job in answer["jobs"]:
            relative = {p["policy"]: p["relative"] for p in job["policies"]}
            offers = bool(offered["commands"]["set"])
            gains[job["job"]] = relative[offered["spec"]] if offers else None
    [command] = commands
    return command, gains


def percent(part, whole):
    return f"{100 * part / whole:.0f}" if whole else "-"


def report(array, system, rows):
    text = pathlib.Path(arrays, f"{array}.toml").read_text()
    overhead, reader = fit(rows, system, text), fit_reader(rows, system, text)
    jobs_run = list(dict.fromkeys(r["job"] for r in rows if r["setting"] == BASELINES[system]))
    overheads = {job: reader if job == READER and reader else overhead for job in jobs_run}
    fitted = f", {reader} us for the sequential reader" if reader else ""
    print(f"\n## {NAMES[system]} on {array}: host overhead {overhead} us{fitted}\n")
    print("| job | setting | IOPS, measured | IOPS, simulated | gain, measured "
          "| gain, simulated | off by | first member, measured | first member, simulated |")
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|")
    results, outside = {}, 0
    for row in rows:
        job, setting = row["job"], row["setting"]
        if setting.startswith("alone"):
            continue
        iops, _, share = simulate(
            *variant(with_overhead(text, overheads[job]), system, setting), job)
        results[job, setting] = float(row["iops"]), iops
        theirs, ours = results[job, BASELINES[system]]
        gain, ours_gain = float(row["iops"]) / theirs, iops / ours
        off = 100 * (ours_gain / gain - 1)
        outside += abs(off) > 15
        # With the order changed, the first member of the array is the second disk.
        devid = "2" if setting == "order" else "1"
        reads = int(row["reads_1"]), int(row["reads_2"])
        print(f"| {job} | {setting} | {row['iops']} | {iops:.0f} | {gain:.2f} "
              f"| {ours_gain:.2f} | {off:+.0f} % | {percent(reads[0], sum(reads))} % "
              f"| {100 * share.get(devid, 0):.0f} % |")
    command, gains = advised(array, system, overheads)
    measured = {job: results[job, ADVISED[system]][0] / results[job, BASELINES[system]][0]
                for job in jobs_run}
    advice = [(NAMES[system], array, job, command, measured[job], gains[job]) for job in jobs_run]
    return outside, advice


if sys.argv[1] == "models":
    models(*sys.argv[2:])
    sys.exit()
mirrorball, output, jobs, arrays, work = sys.argv[2:]
rows = list(csv.DictReader(open(pathlib.Path(output, "measured.csv"))))
reports = [report(array, system, [r for r in rows if (r["array"], r["system"]) == (array, system)])
           for array, system in dict.fromkeys((r["array"], r["system"]) for r in rows)]
print(f"\nGains that are off by more than 15 %: {sum(outside for outside, _ in reports)}")
print("\n## What `mirrorball advise` printed\n")
print("| system | array | job | command | gain, measured | gain, predicted | off by |")
print("|---|---|---|---|--:|--:|--:|")
for system, array, job, command, measured, predicted in sum((p for _, p in reports), []):
    cells = "offers nothing | " if predicted is None else (
        f"{predicted:.2f} | {100 * (predicted / measured - 1):+.0f} %")
    print(f"| {system} | {array} | {job} | `{command}` | {measured:.2f} | {cells} |")

"""The arrays, jobs and recipe of kernel-in-qemu.

    kernel-recipe.py array SETUP|ARRAY.toml FOLDER     writes the array file
    kernel-recipe.py jobs JOB,JOB SECONDS MIB FOLDER   writes the job files, also of a disk alone
    kernel-recipe.py system ARRAY.toml                 prints what the guest calls its system
    kernel-recipe.py rates ARRAY.toml                  prints the rotation rate of each member
    kernel-recipe.py path ARRAY.toml SERVED.toml       adds path disks, and prints their times
    kernel-recipe.py late <STATS.json                  prints the worst p99 in us, and if it counts
    kernel-recipe.py recipe MIRRORBALL OUTPUT WORK KERNEL TITLE

`recipe` reads WORK/measured.csv and writes a recipe folder: a table for each job, a row for each
setting of each array, with the IOPS and each member's share of the reads as means over the runs.
The host overhead of an array is what a disk alone, under the same system, took longer for a request
than its model says; it is measured apart for requests of 4 KiB and for large ones, which cost an
emulated CPU more. Nothing is fitted to the rows.

The disk is the first member at depth 1. Arrays of md with other members than delays have disks for
this of their own, the path disks, each of which takes the same time for each of any number of
requests at a time. They are read before and after each round of a job: the slow one at depth 1,
and the fast one at depth 1 and at that of the job. A CPU that is seldom idle takes less for a
request than one that wakes up for each. So the overhead of a row is interpolated at the rate that
the simulation gives with it, between the rates that the path disks had.

Profiles in WORK/models take the place of models of the same name. What they were fitted to was read
over the host, so the overhead is what the guest takes longer than the host does: WORK/host.csv.
"""
import csv
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tomllib

DELAYS = {2: (2, 6), 3: (2, 4, 8), 4: (2, 4, 6, 8)}
# Of each job: title, lines of the job file, and the job that measures its host overhead.
JOBS = {
    "rand-qd1": ("Random 4 KiB reads, one in flight", "rw=randread bs=4k iodepth=1", "4k"),
    "rand-qd8": ("Random 4 KiB reads, eight in flight", "rw=randread bs=4k iodepth=8", "4k"),
    "rand-qd4x4": ("Random 4 KiB reads, four jobs with four in flight each",
                   "rw=randread bs=4k iodepth=4 numjobs=4", "4k"),
    "read-64k": ("Sequential reads of 64 KiB, one in flight", "rw=read bs=64k iodepth=1", "64k"),
    "read-128k": ("Sequential reads of 128 KiB, four in flight",
                  "rw=read bs=128k iodepth=4", "128k"),
    "read-3x256k": ("Three sequential readers of 256 KiB, two in flight each",
                    "rw=read bs=256k iodepth=2 numjobs=3 offset_increment=64m size=64m", "256k"),
    "read-3x256k-same": ("Three readers of the same 256 KiB requests, two in flight each",
                         "rw=read bs=256k iodepth=2 numjobs=3", "256k"),
    "randrw-qd8": ("Random 4 KiB reads and as many writes, eight in flight",
                   "rw=randrw bs=4k iodepth=8", "4k"),
}
# Times that the path disks take for a request, in us.
PATHS_US = (1000, 8000)
# Longest run of a path disk, in seconds: its time does not vary.
PATH_SECONDS = 3
LAYOUTS = {"near": "md-raid10-near:2", "far": "md-raid10-far:2", "offset": "md-raid10-offset:2"}


def job_file(words, seconds, mib):
    size = [] if "size=" in words else [f"size={mib}M"]
    lines = ["[job]", "ioengine=io_uring", "direct=1", *size, "time_based", f"runtime={seconds}"]
    return "\n".join([f"; For {seconds} s.", *lines, *words.split()]) + "\n"


def depth_of(job):
    """Number of requests that a job has in flight."""
    found = dict(re.findall(r"(iodepth|numjobs)=(\d+)", JOBS[job][1]))
    return int(found["iodepth"]) * int(found.get("numjobs", 1))


def jobs(names, seconds, mib, folder):
    def write(name, words, length=seconds):
        pathlib.Path(folder, f"{name}.fio").write_text(job_file(words, length, mib))

    for name in names.split(","):
        if name not in JOBS:
            sys.exit(f"{name}: unknown job; there are {', '.join(JOBS)}")
        _, words, size = JOBS[name]
        write(name, words)
        write(f"alone-{size}", f"rw=randread bs={size} iodepth=1")
        order = "randread" if size == "4k" else "read"
        write(f"host-{size}", f"rw={order} bs={size} iodepth=1", min(int(seconds), PATH_SECONDS))
        fast, slow = PATHS_US
        for us, depth in {(slow, 1), (fast, 1), (fast, depth_of(name))}:
            write(f"path-{name}-{us}-{depth}", f"rw={order} bs={size} iodepth={depth}",
                  min(int(seconds), PATH_SECONDS))


def has_path_disks(array):
    return system_of(array).startswith("md") and any(
        member["model"] != "delay" for member in array["member"])


def path(given, served):
    """Writes the array to serve; path disks are its last members."""
    array = read_array(given)
    if has_path_disks(array):
        size = {k: v for k, v in array["member"][0].items() if k == "size"}
        array["member"] += [
            {"model": "delay", "rotational": False, **size,
             "set": {"service": f"{us}us", "servers": 64}} for us in PATHS_US]
        print(*PATHS_US)
    pathlib.Path(served).write_text(array_text(array))


def setup(name):
    """The array of a setup: a delay for each member, the first one the fastest."""
    kinds = "rotational|mixed|solid"
    array = {"name": name}
    if found := re.fullmatch(rf"md-raid1-([234])-({kinds})", name):
        count, kind = int(found[1]), found[2]
        array["layout"] = "md-raid1"
    elif found := re.fullmatch(r"md-raid10-(near|far|offset)", name):
        count, kind = 4, "rotational"
        array |= {"layout": LAYOUTS[found[1]], "chunk": "512K"}
    elif found := re.fullmatch(rf"lvm-raid1-({kinds})", name):
        count, kind = 2, found[1]
        array["layout"] = "lvm-raid1"
    elif found := re.fullmatch(r"(dm|dm-mirror|nvme)-([23])", name):
        count, kind = int(found[2]), "solid"
        array |= {"layout": "gmirror", "source": {"system": found[1]}}
    elif name == "btrfs-raid1-4":
        count, kind = 4, "rotational"
        array["profile"] = "raid1"
    else:
        sys.exit(f"{name}: unknown setup; see the head of kernel-in-qemu")
    # Chunks of btrfs have 1 GiB on disks of this size.
    size = "16GiB" if name.startswith("btrfs") else "4GiB"
    rotates = {"rotational": lambda _: True, "mixed": lambda n: n > 0, "solid": lambda _: False}
    array["member"] = [
        {"model": "delay", "size": size, "rotational": rotates[kind](n),
         "set": {"service": f"{delay}ms", "servers": 1}}
        for n, delay in enumerate(DELAYS[count])]
    return array


def read_array(path):
    array = tomllib.loads(pathlib.Path(path).read_text())
    members = []
    for member in array["member"]:
        count = member.pop("count", 1)
        members += [dict(member) for _ in range(count)]
    return array | {"member": members}


def inline(value):
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {inline(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(inline(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def array_text(array):
    tables = {k: v for k, v in array.items() if isinstance(v, (dict, list))}
    blocks = [[f"{k} = {inline(v)}" for k, v in array.items() if k not in tables]]
    for key, value in tables.items():
        head = f"[[{key}]]" if isinstance(value, list) else f"[{key}]"
        for table in value if isinstance(value, list) else [value]:
            blocks.append([head] + [f"{k} = {inline(v)}" for k, v in table.items()])
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def array(given, folder):
    path = pathlib.Path(given)
    found = read_array(path) if given.endswith(".toml") else setup(given)
    pathlib.Path(folder, f"{path.stem}.toml").write_text(array_text(found))


def system_of(array):
    layout = array.get("layout", "btrfs")
    system = array.get("source", {}).get("system")
    if system in ("dm", "dm-mirror", "nvme"):
        return system
    if found := re.match(r"md-raid10-(near|far|offset)(?::(\d))?", layout):
        return f"md:{found[1][0]}{found[2] or 2}"
    names = {"md-raid1": "md", "lvm-raid1": "lvm", "btrfs": "btrfs"}
    if layout not in names:
        sys.exit(f"no kernel is measured with the layout {layout}")
    return names[layout]


def rates(array):
    for member in array["member"]:
        rotates = member.get("rotational", member["model"].startswith("hdd"))
        print(7200 if rotates else 1, end=" ")


def late():
    # A member without a request has no lateness.
    members = [member["lateness"] for member in json.load(sys.stdin)["members"]
               if member.get("lateness")]
    worst = max((member["p99_ns"] for member in members), default=0) / 1e3
    print(f"{worst:.0f},{'yes' if all(member['within_bound'] for member in members) else 'no'}")


class Recipe:
    """Writes a recipe from what a guest measured."""

    def __init__(self, mirrorball, output, work, kernel, title):
        self.mirrorball, self.kernel = mirrorball, kernel
        self.output, self.work = pathlib.Path(output), pathlib.Path(work)
        self.output.mkdir(exist_ok=True)
        with open(self.work / "measured.csv", encoding="utf-8") as file:
            self.runs = list(csv.reader(file))
        self.names = list(dict.fromkeys(run[0] for run in self.runs))
        self.arrays = {name: read_array(self.work / "arrays" / f"{name}.toml")
                       for name in self.names}
        self.models = sorted((self.work / "models").glob("*.toml"))
        for model in self.models:
            shutil.copy(model, self.output)
            for array in self.arrays.values():
                for member in array["member"]:
                    if member["model"] == model.stem:
                        member["model"] = model.name
        self.title = title or f"Linux {kernel} in a guest: {', '.join(self.names)}"
        self.overheads, self.spread, self.refused = {}, 0.0, []
        self.seconds = re.search(r"runtime=(\d+)", next(
            (self.work / "jobs").iterdir()).read_text())[1]

    def good(self, array, job, setting):
        """The runs of a row that were not refused: IOPS of reads and writes, reads of members."""
        rows = [run for run in self.runs if (run[0], run[1], run[2]) == (array, job, setting)]
        return [(float(run[4]), float(run[5]), [int(n) for n in run[6].split(";")])
                for run in rows if run[9] == "yes"], rows

    def host_us(self, us, size):
        """What the host takes for a read of a path disk, in us."""
        file = self.work / "host.csv"
        if not file.exists():
            return us
        with open(file, encoding="utf-8") as lines:
            return float(dict(csv.reader(lines))[f"{us}-{size}"])

    def points(self, name, job):
        """Rates at which a read of a job was measured apart from the array, and what it costs the
        guest then, in us."""
        if (name, job) not in self.overheads:
            find = self.path_points if has_path_disks(self.arrays[name]) else self.alone_points
            self.overheads[name, job] = sorted(find(name, job))
        return self.overheads[name, job]

    def path_points(self, name, job):
        pattern = re.compile(rf"path-{job}-(\d+)-(\d+)")
        for run in sorted({run[1] for run in self.runs}):
            found = pattern.fullmatch(run)
            good = self.good(name, run, "alone")[0] if found else []
            if good:
                us, depth = int(found[1]), int(found[2])
                rate = sum(run[0] for run in good) / len(good)
                cost = 1e6 * depth / rate - self.host_us(us, JOBS[job][2])
                yield rate, round(max(0.0, cost), -1)

    def alone_points(self, name, job):
        size = JOBS[job][2]
        good, _ = self.good(name, f"alone-{size}", "alone")
        if good:
            one = {"profile": "single", "host": {"overhead": {"mean": "0us", "jitter": "0%"}},
                   "member": [self.arrays[name]["member"][0]]}
            ours = self.simulate(array_text(one), f"alone-{size}", "first")
            rate = sum(run[0] for run in good) / len(good)
            yield rate, round(max(0.0, 1e6 / rate - 1e6 / ours), -1)

    def overhead(self, name, setting, job):
        """What a request of a row costs the guest, in us; none if that was not measured."""
        points = self.points(name, job)
        if not points:
            return None
        us, policy = points[0][1], self.policy(name, setting)[0]
        if len(points) == 1:
            return us
        for _ in range(8):
            rate = self.simulate(self.array_of(name, setting, us), job, policy)
            before, us = us, round(interpolated(points, rate), -1)
            if us == before:
                break
        return us

    def overheads_of(self, name):
        found = {}
        for (of, job), points in self.overheads.items():
            if of == name and len(points) == 1:
                found[JOBS[job][2]] = f"{points[0][1]:.0f} us"
            elif of == name:
                found[job] = ", ".join(f"{us:.0f} us at {rate:.0f}/s" for rate, us in points)
        return ", ".join(f"{value} for {what}" for what, value in found.items())

    def simulate(self, text, job, policy):
        path = self.work / "alone.toml"
        path.write_text(text)
        for model in self.models:
            shutil.copy(model, self.work)
        shutil.rmtree(self.work / "alone", ignore_errors=True)
        run = subprocess.run(
            [self.mirrorball, "compare", path, self.work / "jobs" / f"{job}.fio", "--policy",
             policy, "--baseline", policy, "--repeats", "1", "--format", "csv", "--output",
             self.work / "alone"], capture_output=True, text=True, check=False)
        if run.returncode:
            sys.exit(f"kernel-recipe: {run.stderr}")
        cells = [row for row in csv.DictReader(run.stdout.splitlines())
                 if row["policy"] != "oracle"]
        return float(cells[0]["iops"])

    def array_of(self, name, setting, overhead):
        """The array of a row as text, with the host overhead and the flags."""
        array = dict(self.arrays[name], host=self.arrays[name].get("host", {}) | {
            "overhead": f"{overhead:.0f}us"})
        array["member"] = [dict(member) for member in array["member"]]
        if found := re.fullmatch(r"write-mostly:([\d+]+)", setting):
            for devid in found[1].split("+"):
                array["member"][int(devid) - 1]["write_mostly"] = True
        members = array.pop("member")
        source = array.pop("source", None)
        return array_text(array | ({"source": source} if source else {}) | {"member": members})

    def array_file(self, name, setting, job, overhead):
        """Writes the array file of a row, and gives its name."""
        size = JOBS[job][2]
        file = name
        if found := re.fullmatch(r"write-mostly:([\d+]+)", setting):
            file += f"-wm{found[1].replace('+', '')}"
        if len(self.points(name, job)) > 1:
            file += f"-{job}"
        elif size != "4k":
            file += f"-{size}"
        path = self.output / f"{file}.toml"
        text = self.array_of(name, setting, overhead)
        path.write_text(f"# Measured under Linux {self.kernel} in QEMU.\n{text}")
        return path.name

    def policy(self, name, setting):
        system = system_of(self.arrays[name])
        if system == "dm-mirror":
            return "mirrorball/first", {}
        if system in ("dm", "nvme"):
            return f"{system}/{setting}", {}
        if system == "btrfs":
            if setting.startswith("pid-"):
                return "btrfs/pid", {"process": setting.removeprefix("pid-")}
            return f"btrfs/{setting}", {}
        return ("md/raid10" if system.startswith("md:") else "md/raid1"), {}

    def row(self, name, setting, job):
        good, rows = self.good(name, job, setting)
        label = f"{name}, {setting}" if setting != "none" else name
        policy, more = self.policy(name, setting)
        row = {"name": label, "policy": policy, **more}
        overhead = self.overhead(name, setting, job) if good else None
        if overhead is None:
            self.refused.append(f"{label} under {job}")
            return None
        if len(good) < len(rows):
            self.refused.append(f"one run of {label} under {job}")
        row["array"] = self.array_file(name, setting, job, overhead)
        rate = [reads for reads, _, _ in good]
        total = [reads + writes for reads, writes, _ in good]
        self.spread = max(self.spread, (max(total) - min(total)) * len(total) / sum(total))
        row["read_iops"] = round(sum(rate) / len(rate))
        if "rw=randrw" in JOBS[job][1]:
            row["write_iops"] = round(sum(writes for _, writes, _ in good) / len(good))
        reads = [sum(column) for column in zip(*(reads for _, _, reads in good))]
        for devid, count in enumerate(reads, start=1):
            row[f"share_{devid}"] = round(100 * count / max(1, sum(reads)), 1)
        return row

    def tables(self):
        blocks = []
        present = [job for job in JOBS if any(run[1] == job for run in self.runs)]
        for job in present:
            (self.output / f"{job}.fio").write_text(
                (self.work / "jobs" / f"{job}.fio").read_text())
            keys = dict.fromkeys((run[0], run[2]) for run in self.runs if run[1] == job)
            rows = [row for row in (self.row(name, setting, job) for name, setting in keys) if row]
            counts = {len(self.arrays[name]["member"]) for name, _ in keys}
            for count in sorted(counts):
                of_count = [row for row in rows
                            if sum(key.startswith("share_") for key in row) == count]
                if of_count:
                    blocks.append(self.table(job, of_count, count, len(counts) > 1))
        return blocks

    @staticmethod
    def table(job, rows, count, several):
        # The mix of reads and writes is drawn by fio: with the same writes, reads are chance.
        mixed = "write_iops" in rows[0]
        columns = ["read_iops", "write_iops"] if mixed else ["read_iops"]
        shares = [f"share_{devid}" for devid in range(1, count)]
        tolerance = {c: 0.05 for c in columns[-1:]} | {c: 3.0 for c in shares}
        # As the simulator ranks: pairs of rows that are more than 10 % apart.
        rates = [row[columns[-1]] for row in rows]
        apart = any(b > 1.1 * a for a in rates for b in rates)
        title = JOBS[job][0] + (f", {count} members" if several else "")
        lines = ["[[table]]", f"title = {inline(title)}", 'of = "array, setting"',
                 f"job = {inline(job + '.fio')}", f"columns = {inline(columns + shares)}",
                 # The simulated figures are to be the mean; the measured ones are one draw.
                 *(["repeats = 5"] if "rw=rand" in JOBS[job][1] else []),
                 f"ranked = {inline(columns[-1:])}",
                 *(["tau_at_least = 1.0"] if apart else []),
                 *(["ratio_error_at_most = 0.05"] if len(rows) > 1 else []),
                 f"tolerance = {inline(tolerance)}"]
        for row in rows:
            row.pop(f"share_{count}")
            lines += ["", "[[table.row]]", *(f"{k} = {inline(v)}" for k, v in row.items())]
        return "\n".join(lines)

    def write(self):
        tables = self.tables()
        late = [float(run[8]) for run in self.runs if run[9] == "yes"]
        rounds = max(int(run[3]) for run in self.runs)
        refused = ("Refused, because the emulated disks were late: " + "; ".join(self.refused)
                   if self.refused else "No run was refused for lateness")
        if not late:
            sys.exit("kernel-recipe: all runs were refused: the emulated disks were late; run it "
                     "with real-time priority or on an idle machine")
        overheads = "; ".join(f"{name} {self.overheads_of(name)}" for name in self.names)
        about = (
            f"Linux {self.kernel} in QEMU with an emulated CPU, on emulated disks; fio, direct, "
            f"io_uring, {self.seconds} s each, {rounds} runs of each row in the order A B B A. "
            f"Requests are not merged. The runs of a row differ by {100 * self.spread:.1f} % at "
            f"most. 99 % of the requests of the disks completed within {max(late):.0f} us of their "
            f"simulated time. {refused}.")
        disk = "the first member"
        if all(has_path_disks(array) for array in self.arrays.values()):
            disk = f"disks that take {' and '.join(map(str, PATHS_US))} us for each request,"
        chosen = f"{disk} alone, under the same system: {overheads}"
        text = "\n".join([
            f"title = {inline(self.title)}", 'sources = ["measured by benches/kernel-in-qemu"]',
            f'about = """\n{wrap(about)}"""', 'mismatch = """\nNot examined."""', "",
            "[[free]]", 'parameter = "host overhead"', 'value = "as measured"',
            f'chosen = """\n{wrap(chosen)}"""'])
        (self.output / "recipe.toml").write_text(text + "\n\n" + "\n\n".join(tables) + "\n")
        for line in self.refused:
            print(f"refused: {line}")
        return any(not line.startswith("one run") for line in self.refused)


def interpolated(points, rate):
    """The overhead at a rate, from those at other rates; outside of these that of the nearest."""
    if rate <= points[0][0]:
        return points[0][1]
    for (below, low), (above, high) in zip(points, points[1:]):
        if rate <= above:
            return low + (high - low) * (rate - below) / (above - below)
    return points[-1][1]


def wrap(text, width=98):
    lines = [""]
    for word in text.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > width:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return "\n".join(lines)


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["array", given, folder]:
            array(given, folder)
        case ["jobs", names, seconds, mib, folder]:
            jobs(names, seconds, mib, folder)
        case ["system", path]:
            print(system_of(read_array(path)))
        case ["rates", path]:
            rates(read_array(path))
        case ["path", given, served]:
            path(given, served)
        case ["late"]:
            late()
        case ["recipe", *words]:
            sys.exit(1 if Recipe(*words).write() else 0)
        case _:
            sys.exit(__doc__)

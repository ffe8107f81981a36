#!/usr/bin/env python3
"""`mirrorball watch` of real btrfs arrays on emulated hard disks, of which some become slow.

    benches/watch-on-emulated.py FOLDER [HISTORIES [AT_ONCE]]    [default: 100, 9 at once]

As root, because of loop devices; needs fio and btrfs-progs. MIRRORBALL names the program. Each
history is drawn from its number: two to four equal disks with a copy on each, a load of fio that
changes every half to one and a half minutes, and in every second history a disk that becomes 2 to
10 times as slow after two minutes or so; it ends 100 s later. 100 take three quarters of an hour
if nine run at once; each takes a tenth of a CPU and 0.3 GB. FOLDER keeps a line for each
(`results.jsonl`), and the samples, which `watch --replay` judges again. A fault counts if its disk
completed I/O in 30 s of the time that it was slow.
"""

import concurrent.futures
import json
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

MIRRORBALL = os.environ.get("MIRRORBALL", "mirrorball")
MODELS = ["hdd-7k2-ent", "hdd-7k2-desktop", "hdd-7k2-4tb", "hdd-5k4", "hdd-10k"]
FACTORS = [2.0, 3.0, 5.0, 10.0]
SLOW_S = 100
# What measures or keeps time goes before other work of the machine.
AHEAD = ["chrt", "--rr", "10"]


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


def draw_load(rng):
    """Options of fio: direct I/O of four processes, since btrfs chooses devices by their
    numbers."""
    kind = rng.choice(["randread", "randread", "randrw", "read"])
    options = ["--numjobs=4", f"--iodepth={rng.choice([1, 1, 2, 4])}", f"--rw={kind}"]
    if kind == "read":
        return options + ["--bs=256k", "--size=32m", "--offset_increment=32m"]
    return options + [f"--bs={rng.choice(['4k', '4k', '16k', '64k'])}", "--rwmixread=80"]


class History:
    def __init__(self, number):
        self.rng = rng = random.Random(number)
        self.number = number
        self.members = rng.choice([2, 2, 3, 4])
        self.model = rng.choice(MODELS)
        self.onset_s = rng.uniform(110, 140)
        self.slow = rng.randrange(self.members) if number % 2 else None
        self.factor = rng.choice(FACTORS) if number % 2 else 1.0
        self.used_s = 0
        self.alarms = []

    def array_text(self):
        text = f'name = "h{self.number}"\nprofile = "raid1"\n'
        for member in range(self.members):
            text += f'[[member]]\nmodel = "{self.model}"\nsize = "16G"\n'
            if member == self.slow:
                text += f"fault = [{{ slow = {self.factor}, "
                text += f'from = "{self.onset_s:.1f}s", until = "9000s" }}]\n'
        return text

    def elapsed_s(self):
        return time.monotonic() - self.began

    def run(self, folder):
        with tempfile.TemporaryDirectory(prefix="watch-") as place:
            place = pathlib.Path(place)
            (place / "array.toml").write_text(self.array_text())
            server = subprocess.Popen(
                [*AHEAD, MIRRORBALL, "emulate", place / "array.toml", "--members", "--loop",
                 "--export", f"fuse:{place / 'disks'}"],
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            try:
                devices = []
                while not (line := server.stdout.readline()).startswith("ready"):
                    assert line, "the disks are not emulated"
                    if line.startswith("member-"):
                        devices.append(line.split()[-1])
                self.began = time.monotonic()
                self.watch(folder, place / "mount", devices)
            finally:
                server.send_signal(signal.SIGINT)
                server.wait()
        return self.result()

    def watch(self, folder, mount, devices):
        mount.mkdir()
        profile = {2: "raid1", 3: "raid1c3", 4: "raid1c4"}[self.members]
        run("mkfs.btrfs", "--quiet", "--force", "-d", profile, "-m", profile, *devices)
        run("mount", "-o", "nodatacow,noatime", devices[0], mount)
        try:
            run("fio", "--name=fill", f"--filename={mount}/data", "--rw=write", "--bs=1m",
                "--size=128m", "--direct=1", "--iodepth=4", "--ioengine=libaio")
            watch = subprocess.Popen(
                [*AHEAD, MIRRORBALL, "watch", mount, "--json", "--record",
                 folder / f"{self.number}.samples"], stdout=subprocess.PIPE, text=True)
            names = [device.removeprefix("/dev/") for device in devices]
            reader = threading.Thread(target=self.note_alarms, args=(watch.stdout, names))
            reader.start()
            self.load(mount / "data", names)
            watch.send_signal(signal.SIGINT)
            watch.wait()
            reader.join()
        finally:
            run("umount", mount)

    def note_alarms(self, lines, names):
        for line in lines:
            disk = json.loads(line)
            if disk["state"] == "slow":
                self.alarms.append((names.index(disk["disk"]), self.elapsed_s()))

    def load(self, data, names):
        """Loads one after the other; counts the seconds in which the slow disk was used."""
        while (left_s := self.onset_s + SLOW_S - self.elapsed_s()) > 2:
            runtime = f"--runtime={min(left_s, self.rng.uniform(30, 90)):.0f}"
            fio = subprocess.Popen(
                [*AHEAD, "fio", "--name=load", f"--filename={data}", "--size=128m", runtime,
                 "--time_based", "--direct=1", "--ioengine=libaio", "--randrepeat=0",
                 *draw_load(self.rng)], stdout=subprocess.DEVNULL)
            done = None
            while fio.poll() is None:
                time.sleep(1)
                if self.slow is None or self.elapsed_s() < self.onset_s:
                    continue
                stat = pathlib.Path(f"/sys/block/{names[self.slow]}/stat").read_text().split()
                before, done = done, int(stat[0]) + int(stat[4])
                self.used_s += before is not None and done > before
            assert fio.returncode == 0, "fio failed"

    def result(self):
        found = [at for disk, at in self.alarms if disk == self.slow and at > self.onset_s]
        false = [(disk, round(at)) for disk, at in self.alarms
                 if disk != self.slow or at <= self.onset_s]
        return {
            "history": self.number, "model": self.model, "members": self.members,
            "factor": self.factor, "slow": self.slow, "used_s": self.used_s,
            "onset_s": round(self.onset_s), "false": false,
            "found_after_s": round(found[0] - self.onset_s) if found else None,
        }


def table(results):
    faults = [it for it in results if it["slow"] is not None and it["used_s"] >= 30]
    found = [it for it in faults if it["found_after_s"] is not None]
    false = sum(len(it["false"]) for it in results)
    delays = [it["found_after_s"] for it in found]
    print("| histories | faults that count | found | recall | false alarms | precision | "
          "median delay |\n|--:|--:|--:|--:|--:|--:|--:|")
    print(f"| {len(results)} | {len(faults)} | {len(found)} | {len(found) / len(faults):.3f} | "
          f"{false} | {len(found) / max(1, len(found) + false):.3f} | "
          f"{statistics.median(delays) if delays else '-'} s |\n\n| factor | found |\n|--:|--:|")
    for factor in FACTORS:
        of_factor = [it for it in faults if it["factor"] == factor]
        number = sum(it["found_after_s"] is not None for it in of_factor)
        print(f"| {factor:g} | {number} of {len(of_factor)} |")


def main():
    folder = pathlib.Path(sys.argv[1])
    histories = int(sys.argv[2]) if len(sys.argv) > 2 else 100
    at_once = int(sys.argv[3]) if len(sys.argv) > 3 else 9
    folder.mkdir(parents=True, exist_ok=True)
    results = []
    with open(folder / "results.jsonl", "w") as kept, \
            concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        running = [pool.submit(History(number).run, folder) for number in range(histories)]
        for done in concurrent.futures.as_completed(running):
            results.append(done.result())
            print(json.dumps(results[-1]), file=kept, flush=True)
    table(results)


main()

#!/usr/bin/env python3
"""Kills `mirrorball serve` at random moments, and checks what its volumes hold then.

    cargo build --release && benches/real-crashes.py [--kills 200] [--parallel 4] [--minutes 120]

Needs nbdkit, nbdfuse (libnbd-bin) and fio with its nbd engine; about 15 minutes on two CPUs. The
members of a volume are files behind nbdkit's cache filter in writeback mode: writes stay in the
memory of nbdkit until they are flushed. Half of the volumes use these exports as members on other
machines; the other half, through nbdfuse, as files. In half of the rounds nbdkit is killed with the
service, as in a loss of power: what was not flushed is lost.

A round, of which several run in parallel on volumes of their own:

1. the volume starts by itself; fio writes an area with checksums, and flushes it;
2. fio writes at random to a second area, and a client that keeps a model to a third;
3. the service gets SIGKILL; it is started again without any option;
4. fio verifies its first area; the client reads its blocks: each must hold the last flushed value
   or a later one, and the same again once the mirrors are synchronised;
5. a scrub finds no difference; the service stops; the files are compared byte by byte.

Prints a table in Markdown. The exit code is 1 if anything was wrong.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time

MIB = 1 << 20
BLOCK = 4096
MEMBER_BYTES = 96 * MIB
# Areas of the volume: that of fio's flushed data, of fio's random writes, of the client.
FLUSHED, RANDOM, MODEL = (0, 8 * MIB), (16 * MIB, 32 * MIB), (56 * MIB, 32 * MIB)
MODEL_BLOCKS = 64
DEPTH = 8


class Failure(Exception):
    """Something that must not happen."""


def run(*command, timeout=900):
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    if done.returncode != 0:
        raise Failure(f"{' '.join(map(str, command))}: {done.stdout[-500:]}{done.stderr[-1500:]}")
    return done.stdout


def wait_for(what, condition, timeout=900):
    end = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > end:
            raise Failure(f"{what} does not come")
        time.sleep(0.02)


def listens(path):
    """Says whether a server takes connections at a socket, which is there before it does."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(path) == 0


class Client:
    """An NBD client that writes known values, and keeps what each block may hold."""

    READ, WRITE, FLUSH, FUA = 0, 1, 3, 1

    def __init__(self, rng):
        self.rng = rng
        self.values = [[0] for _ in range(MODEL_BLOCKS)]
        self.acknowledged = [0] * MODEL_BLOCKS
        self.last = 0

    def connect(self, path):
        """Attaches to the volume; again if this machine is too busy for the 10 s of a handshake."""
        for _ in range(10):
            try:
                return self.attach(path)
            except ConnectionError:
                pass
        raise Failure("the server closes each connection")

    def attach(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.receive(18)
        self.socket.sendall(struct.pack(">IQIIIH", 3, 0x49484156454F5054, 7, 6, 0, 0))
        kind = 0
        while kind != 1:
            _, _, kind, length = struct.unpack(">QIII", self.receive(20))
            self.receive(length)
            if kind >> 31:
                raise Failure("the export is refused")
        self.in_flight = {}

    def receive(self, length):
        data = bytearray()
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            if not part:
                raise ConnectionError
            data += part
        return bytes(data)

    @staticmethod
    def offset(block):
        return MODEL[0] + block * (MODEL[1] // MODEL_BLOCKS)

    @staticmethod
    def contents(block, value):
        return struct.pack("<Q", value << 16 | block if value else 0) * (BLOCK // 8)

    def send(self, kind, flags, block, value, data=b""):
        cookie = self.cookie = getattr(self, "cookie", 0) + 1
        length, offset = (0, 0) if kind == self.FLUSH else (BLOCK, self.offset(block))
        head = struct.pack(">IHHQQI", 0x25609513, flags, kind, cookie, offset, length)
        self.in_flight[cookie] = (kind, flags, block, value, list(self.acknowledged))
        self.socket.sendall(head + data)
        return cookie

    def take_reply(self):
        magic, error, cookie = struct.unpack(">IIQ", self.receive(16))
        kind, flags, block, value, acknowledged = self.in_flight.pop(cookie)
        if magic != 0x67446698 or error:
            raise Failure(f"request {kind} of block {block} fails with error {error}")
        if kind == self.WRITE:
            self.acknowledged[block] = max(self.acknowledged[block], value)
            if flags & self.FUA:
                self.forget_before(block, value)
        elif kind == self.FLUSH:
            for block, value in enumerate(acknowledged):
                self.forget_before(block, value)
        return self.receive(BLOCK) if kind == self.READ else None

    def forget_before(self, block, value):
        if value in self.values[block]:
            del self.values[block][: self.values[block].index(value)]

    def load(self, stop):
        """Writes and flushes until the connection breaks. Returns the number of writes."""
        writes = 0
        try:
            while not stop.is_set():
                while len(self.in_flight) < DEPTH:
                    if self.rng.random() < 0.05:
                        self.send(self.FLUSH, 0, 0, 0)
                        continue
                    block = self.rng.randrange(MODEL_BLOCKS)
                    self.last += 1
                    self.values[block].append(self.last)
                    flags = self.FUA if self.rng.random() < 0.1 else 0
                    self.send(self.WRITE, flags, block, self.last, self.contents(block, self.last))
                    writes += 1
                self.take_reply()
        except (ConnectionError, OSError):
            pass
        return writes

    def crash(self):
        self.acknowledged = [values[0] for values in self.values]

    def read_all(self):
        """The value of each block, which must be one that it may hold."""
        found = []
        for block in range(MODEL_BLOCKS):
            self.send(self.READ, 0, block, 0)
            data = self.take_reply()
            sectors = set()
            for at in range(0, BLOCK, 512):
                words = set(struct.unpack("<64Q", data[at : at + 512]))
                word = words.pop()
                if words or word and word & 0xFFFF != block:
                    raise Failure(f"block {block} holds foreign or torn data: {word:x}")
                sectors.add(word >> 16)
            if not sectors <= set(self.values[block]):
                values = self.values[block]
                raise Failure(f"block {block} holds {sectors}, and may hold {values}")
            found.append(sectors)
        return found

    def settle(self, found):
        """Flushes; what was read is durable then."""
        self.send(self.FLUSH, 0, 0, 0)
        self.take_reply()
        for block, sectors in enumerate(found):
            if len(sectors) == 1:
                self.values[block] = list(sectors)
                self.acknowledged[block] = self.values[block][0]


class Volume:
    """A volume with its folder, the processes that serve it, and what happened."""

    def __init__(self, number, options, folder):
        self.options = options
        self.rng = random.Random(options.seed * 1000 + number)
        self.folder = folder / f"volume-{number}"
        self.folder.mkdir()
        self.has_files = number % 2 == 1
        self.count = 2 + number // 2 % 2
        self.has_checksums = options.checksums or number % 4 in (0, 3)
        self.rows = range(1, self.count + 1)
        self.processes = []
        self.service = None
        self.client = Client(self.rng)
        self.tally = dict(kills=0, power_cuts=0, writes=0, synchronised=0)

    def path(self, name):
        return str(self.folder / name)

    def start_layers(self):
        for row in self.rows:
            image, sock = self.path(f"{row}.img"), self.path(f"{row}.sock")
            pathlib.Path(sock).unlink(missing_ok=True)
            layer = ["nbdkit", "-f", "-U", sock, "--filter=cache", "file", image]
            self.spawn(layer + ["cache=writeback"])
            wait_for("nbdkit", lambda: listens(sock))
            if self.has_files:
                mount = self.folder / f"{row}"
                mount.mkdir(exist_ok=True)
                self.spawn(["nbdfuse", str(mount), f"nbd+unix:///?socket={sock}"])
                wait_for("nbdfuse", lambda: (mount / "nbd").exists())

    def spawn(self, command):
        quiet = dict(stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.processes.append(subprocess.Popen(command, **quiet))

    def kill_layers(self):
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.wait()
        self.processes = []
        for row in self.rows if self.has_files else []:
            unmount = ["umount", "-l"] if os.geteuid() == 0 else ["fusermount3", "-u", "-z"]
            subprocess.run([*unmount, self.path(f"{row}")], capture_output=True)

    def devices(self):
        if self.has_files:
            return [self.path(f"{row}/nbd") for row in self.rows]
        return [f"nbd+unix:///?socket={self.path(f'{row}.sock')}" for row in self.rows]

    def create(self):
        for row in self.rows:
            with open(self.path(f"{row}.img"), "wb") as image:
                image.truncate(MEMBER_BYTES)
        self.start_layers()
        key = "path" if self.has_files else "uri"
        text = 'profile = "%s"\n' % ("raid1" if self.count == 2 else "raid1c3")
        for device in self.devices():
            text += f'[[member]]\n{key} = "{device}"\n'
        pathlib.Path(self.path("array.toml")).write_text(text)
        extra = ["--checksums"] if self.has_checksums else []
        run(self.options.binary, "create", self.path("array.toml"), "--name", "volume", *extra)

    def serve(self):
        sock, control = self.path("volume.sock"), self.path("volume.ctl")
        command = [self.options.binary, "serve", *self.devices()]
        command += ["--export", f"nbd:unix:{sock}", "--control", control]
        log = open(self.path("serve.log"), "w+")
        self.service = subprocess.Popen(command, stdout=log, stderr=log)

        def is_ready():
            text = pathlib.Path(self.path("serve.log")).read_text()
            if self.service.poll() is not None:
                raise Failure(f"the volume does not start: {text}")
            return "ready" in text

        wait_for("the volume", is_ready)
        self.client.connect(sock)

    def fio(self, name, area, *options):
        uri = f"nbd+unix:///?socket={self.path('volume.sock')}"
        command = ["fio", f"--name={name}", "--ioengine=nbd", f"--uri={uri}", "--bs=4k"]
        command += [f"--offset={area[0]}", f"--size={area[1]}", "--iodepth=16", "--verify=crc32c"]
        return command + [f"--randseed={self.options.seed}", *options]

    def status(self):
        command = ["ctl", "--control", self.path("volume.ctl"), "status", "--format", "json"]
        return json.loads(run(self.options.binary, *command))

    def round(self):
        flushed = ["--rw=write", f"--verify_pattern={self.rng.getrandbits(31)}"]
        flushed = self.fio("flushed", FLUSHED, *flushed)
        run(*flushed, "--do_verify=0", "--end_fsync=1")
        load = self.fio("load", RANDOM, "--rw=randwrite", "--do_verify=0", "--fsync=32")
        load = subprocess.Popen(
            load + ["--time_based", "--runtime=60", "--verify_state_save=0"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        stop = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            writes = pool.submit(self.client.load, stop)
            time.sleep(self.rng.uniform(0.2, 2.5))
            is_power_cut = self.rng.random() < 0.5
            if is_power_cut:
                # The service must not see that its members are gone.
                self.service.send_signal(signal.SIGSTOP)
                self.kill_layers()
            self.service.kill()
            self.service.wait()
            load.kill()
            load.wait()
            # nbdkit may end by itself when its client is killed, and is not quick about it.
            time.sleep(0.5)
            if any(layer.poll() is not None for layer in self.processes):
                print(f"{self.folder.name}: a layer ended by itself", file=sys.stderr)
                self.kill_layers()
                is_power_cut = True
            self.tally["writes"] += writes.result()
        self.tally["kills"] += 1
        self.tally["power_cuts"] += is_power_cut
        self.client.crash()
        if is_power_cut:
            self.start_layers()
        self.serve()
        first = self.client.read_all()
        status = self.status()
        self.tally["synchronised"] += status["unsynced_bytes"]
        run(*flushed, "--verify_only")
        wait_for("the synchronisation", lambda: self.status()["health"] == "in sync")
        if self.client.read_all() != first:
            raise Failure("a block changed by itself")
        self.client.settle(first)
        self.scrub()
        self.client.socket.close()
        self.service.send_signal(signal.SIGTERM)
        if self.service.wait(60) != 0:
            raise Failure("the service does not stop in good order")
        self.compare()
        print(f"{self.folder.name}: {self.tally}", file=sys.stderr)

    def scrub(self):
        ctl = [self.options.binary, "ctl", "--control", self.path("volume.ctl"), "scrub"]
        run(*ctl, "start")
        is_over = lambda: "finished" in run(*ctl, "status")
        wait_for("the end of the scrub", is_over)
        run(*ctl, "status", "--check")

    def compare(self):
        images = [pathlib.Path(self.path(f"{row}.img")).read_bytes()[MIB:] for row in self.rows]
        end = MEMBER_BYTES - MIB - (2 * MIB if self.has_checksums else 0)
        for image in images[1:]:
            if image[:end] != images[0][:end]:
                at = next(at for at in range(end) if image[at] != images[0][at])
                raise Failure(f"the mirrors differ at byte {at + MIB} after the service stopped")

    def run(self, kills):
        try:
            self.create()
            self.serve()
            for number in range(kills):
                if number > 0:
                    if time.monotonic() > self.options.end:
                        break
                    self.serve()
                self.round()
        except Exception as error:  # The folder is kept, so that the failure can be examined.
            return self, f"{self.folder}: {type(error).__name__}: {error}"
        finally:
            if self.service and self.service.poll() is None:
                self.service.kill()
            self.kill_layers()
        return self, None


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--parallel", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=120, help="no round starts later")
    parser.add_argument("--checksums", action="store_true", help="on all volumes, not only on half")
    parser.add_argument("--binary", default="target/release/mirrorball")
    options = parser.parse_args()
    options.binary = os.path.abspath(options.binary)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="mirrorball-crashes-"))
    # fio leaves files where it runs.
    os.chdir(folder)
    volumes = [Volume(number, options, folder) for number in range(options.parallel)]
    begin = time.monotonic()
    options.end = begin + 60 * options.minutes
    with concurrent.futures.ThreadPoolExecutor(options.parallel) as pool:
        share = -(-options.kills // options.parallel)
        done = list(pool.map(lambda volume: volume.run(share), volumes))
    titles = ["volume", "kills", "with loss of unflushed writes", "writes", "MiB to synchronise"]
    print(f"| {' | '.join(titles)} |")
    print("|---|---|---|---|---|")
    for volume, _ in done:
        tally = volume.tally
        figures = [str(tally[key]) for key in ("kills", "power_cuts", "writes")]
        kind = f"{volume.count} {'files' if volume.has_files else 'NBD exports'}"
        kind += ", checksums" if volume.has_checksums else ""
        figures.append(str(tally["synchronised"] // MIB))
        print(f"| {kind} | {' | '.join(figures)} |")
    kills = sum(volume.tally["kills"] for volume, _ in done)
    print(f"\n{kills} kills in {time.monotonic() - begin:.0f} s, seed {options.seed}")
    failures = [failure for _, failure in done if failure]
    for failure in failures:
        print(f"FAILED: {failure}")
    if not failures:
        shutil.rmtree(folder)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

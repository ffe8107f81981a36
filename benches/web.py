#!/usr/bin/env python3
"""Measures the page that answers in a browser, in headless Chromium, and the program for comparison.

    packaging/web && cargo build --release && benches/web.py

Prints the table of benches/results/web.md: size, time until the page can be used, until the first
and the whole answer after a paste, and simulated reads per second on two solid-state disks. Needs
chromium and chromedriver. MIRRORBALL names the program (target/release/mirrorball if not set).
"""

import gzip
import json
import os
import re
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "target/web-page/index.html"
PROGRAM = os.environ.get("MIRRORBALL", ROOT / "target/release/mirrorball")
PASTED = """md0 : active raid1 sdb1[1] sda1[0]
      976630464 blocks super 1.2 [2/2] [UU]
NAME     SIZE ROTA MODEL
sda    931.5G    1 ST1000NM0033
sdb    931.5G    0 Samsung SSD 870 EVO 1TB
"""
SECONDS = 5
# One cell after the other in one worker, as `compare` runs them on one thread.
CELLS = """
const found = array.catalogue.arrays.find((it) => it.name === "two-ssd-raid1");
const job = array.catalogue.jobs.find((it) => it.name === "rand-4k-qd32");
const worker = open_worker();
ask(worker, { do: "ask", name: found.name, text: found.text, system: "md", build: "bench",
  repeats: 2, duration: "SECONDSs", jobs: [[job.name, job.text]] }).then(async () => {
  const lines = (await cells(worker, { do: "run", seed: 0, job: 0 })).split("\\n");
  const ios = lines.map((line) => JSON.parse(line.split("\\t")[1]).member_ios);
  done([ios.reduce((sum, it) => sum + it, 0), ios.length]);
});
"""


def cpu_seconds(root):
    """CPU time of a process and all below it: other processes do not count."""
    stats = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        stats[int(path.parent.name)] = (int(fields[1]), int(fields[11]) + int(fields[12]))
    family = {root}
    while more := {pid for pid, (parent, _) in stats.items() if parent in family} - family:
        family |= more
    return sum(stats[pid][1] for pid in family if pid in stats) / os.sysconf("SC_CLK_TCK")


class Browser:
    """A session of chromedriver."""

    def __init__(self, driver):
        found = (re.search(r"successfully on port (\d+)", line) for line in driver.stdout)
        port = next(filter(None, found))[1]
        self.base = f"http://127.0.0.1:{port}/session"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu"]
        wanted = {"alwaysMatch": {"goog:chromeOptions": {"args": arguments}}}
        session = self.send("", {"capabilities": wanted})["sessionId"]
        self.base += f"/{session}"
        self.send("/timeouts", {"script": 600000})

    def send(self, path, body):
        head = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.base + path, json.dumps(body).encode(), head)
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)["value"]

    def run(self, script):
        return self.send("/execute/sync", {"script": script, "args": []})

    def run_async(self, script):
        script = f"const done = arguments[0]; {script}"
        return self.send("/execute/async", {"script": script, "args": []})

    def wait(self, condition):
        while not self.run(f"return {condition};"):
            time.sleep(0.05)


def in_browser(browser, driver):
    browser.send("/url", {"url": PAGE.as_uri()})
    browser.wait("document.documentElement.dataset.ready === 'true'")
    ready = browser.run("return performance.now();") / 1000
    begun, used = time.monotonic(), cpu_seconds(driver.pid)
    browser.run(f"array.paste(page.worker, {json.dumps(PASTED)});")
    browser.wait("document.querySelectorAll('#disks li').length === 2")
    browser.run("document.getElementById('ask').click();")
    browser.wait("/answer/.test(document.getElementById('status').textContent)")
    first = (time.monotonic() - begun, cpu_seconds(driver.pid) - used)
    browser.wait("!document.getElementById('downloads').hidden")
    whole = (time.monotonic() - begun, cpu_seconds(driver.pid) - used)
    before = cpu_seconds(driver.pid)
    ios, count = browser.run_async(CELLS.replace("SECONDS", str(SECONDS)))
    return ready, first, whole, ios / (cpu_seconds(driver.pid) - before), count


def native():
    """Member I/O per CPU second of the program for the same cells, on one thread."""
    words = ["advise", "two-ssd-raid1", "rand-4k-qd32", "--system", "md", "-t", "1"]
    with tempfile.TemporaryDirectory() as folder:
        before = sum(os.times()[2:4])
        command = [PROGRAM, *words, "-n", "2", "-d", f"{SECONDS}s"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        seconds = sum(os.times()[2:4]) - before
        cells = Path(folder).glob("mirrorball-results/*/cells/*.json")
        return sum(json.loads(cell.read_text())["member_ios"] for cell in cells) / seconds


def main():
    driver = subprocess.Popen(
        ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        ready, first, whole, rate, count = in_browser(Browser(driver), driver)
    finally:
        driver.kill()
    size = len(gzip.compress(PAGE.read_bytes(), 9)) / 2**20
    print(f"| size, compressed | {size:.2f} MiB |")
    print(f"| until the page can be used | {ready:.1f} s |")
    told = "{:.1f} s, {:.1f} CPU s"
    print(f"| first answer after a paste (2 repeats) | {told.format(*first)} |")
    print(f"| whole answer (6 repeats, scrub, rebuild and flush) | {told.format(*whole)} |")
    print(f"| simulated I/O per CPU second, {count} cells in one worker | {rate / 1e6:.2f} M |")
    print(f"| the same cells in the program, one thread | {native() / 1e6:.2f} M |")
    print(f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs")


main()

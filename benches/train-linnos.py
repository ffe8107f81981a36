#!/usr/bin/env python3
"""Trains the network of `research/linnos` and writes its table of weights.

Draws 200 pairings of an array and a job from `league --seed 1`, and has `explain` simulate each
under three policies that spread reads. Each decision gives, for every mirror, what a policy may
know there, and the time that the read would take by the disk model. Pairings whose number ends in
0, 1 or 2 are held out: the figures printed are those of the written integers on them.

    benches/train-linnos.py PROGRAM

Needs numpy; five minutes, and 1 GB of temporary files.
"""

import argparse
import concurrent.futures
import heapq
import json
import pathlib
import subprocess
import tempfile

import numpy as np

TABLE = "crates/core/src/policies/research_linnos/weights.rs"
PAIRINGS = 200
POLICIES = ["mirrorball/random", "research/p2c", "research/sed"]
READS = 3000
RECENT = 4
HIDDEN = 16
STEPS = 4000
MIRRORS = 4
EXPIRES_NS = 1_000_000_000
# As in network.rs: logarithms are in 1/32, inputs are held to +-512 of these, weights are in 1/256.
LOG_ONE, INPUT_MAX, WEIGHT_ONE = 32, 512, 256


def log2(value):
    value = max(value, 1)
    exponent = value.bit_length() - 1
    return (exponent << 5) + ((value << 5 >> exponent) & 31)


class History:
    """The same as `History` in research_linnos.rs."""

    def __init__(self):
        self.sampled_at = None

    def add(self, wait, depth, length, now):
        wait, depth, length = log2(wait), log2(depth + 1), log2(length)
        if not self.is_fresh(now):
            self.wait, self.depth, self.length = 16 * wait, 16 * depth, 16 * length
            self.recent = [(wait, depth)] * RECENT
        else:
            self.wait += wait - (self.wait >> 4)
            self.depth += depth - (self.depth >> 4)
            self.length += length - (self.length >> 4)
            self.recent = [(wait, depth)] + self.recent[:-1]
        self.sampled_at = now

    def is_fresh(self, now):
        return self.sampled_at is not None and now - self.sampled_at <= EXPIRES_NS

    def inputs(self, depth, length, now):
        mean = self.wait >> 4
        inputs = [log2(depth + 1), log2(length) - (self.length >> 4)]
        inputs += [log2(now - self.sampled_at) - mean, self.depth >> 4]
        inputs += [wait - mean for wait, _ in self.recent] + [depth for _, depth in self.recent]
        return [max(-INPUT_MAX, min(INPUT_MAX, value)) for value in inputs]


def decisions(explained):
    """Inputs, mean and log of the time to expect, for the mirrors of each decision."""
    members, running, rows = {}, [], []
    for number, choice in enumerate(json.loads(explained)["choices"]):
        now = choice["at_ns"]
        while running and running[0][0] <= now:
            ends_at, _, devid, *read = heapq.heappop(running)
            members.setdefault(devid, History()).add(*read, ends_at)
        row = []
        for mirror in choice["mirrors"]:
            history = members.get(mirror["devid"])
            if history and history.is_fresh(now) and mirror["expected_ns"]:
                inputs = history.inputs(mirror["in_flight"], choice["length"], now)
                row.append((inputs, history.wait >> 4, log2(mirror["expected_ns"])))
            if mirror["taken"] == "first" and (took := choice["took_ns"]):
                read = (took, mirror["in_flight"], choice["length"])
                heapq.heappush(running, (now + took, number, mirror["devid"], *read))
        if 2 <= len(row) == len(choice["mirrors"]) <= MIRRORS:
            rows.append(row)
    return rows


def simulate(task):
    program, folder, pairing, policy = task
    drawn = ["league", "--seed", "1", "--sample", str(PAIRINGS), "--pairing", str(pairing)]
    place = pathlib.Path(folder, f"{pairing}-{policy.replace('/', '-')}")
    place.mkdir()
    subprocess.run([program, *drawn], cwd=place, check=True, capture_output=True)
    files = [f"sample-1-{pairing}.toml", f"sample-1-{pairing}.fio"]
    command = [program, "explain", *files, "-p", policy, "--format", "json"]
    command += ["--reads", str(READS), "--seed", str(pairing)]
    # Jobs on flash are short.
    for begin in ["500ms", "40ms"]:
        done = subprocess.run([*command, "--at", begin], cwd=place, capture_output=True)
        if done.returncode == 0:
            return pairing, decisions(done.stdout)
    return pairing, []


class Data:
    def __init__(self, program):
        x, mean, y, known, pairing = [], [], [], [], []
        with tempfile.TemporaryDirectory() as folder, \
                concurrent.futures.ProcessPoolExecutor() as pool:
            tasks = [(program, folder, number + 1, policy)
                     for number in range(PAIRINGS) for policy in POLICIES]
            for number, rows in pool.map(simulate, tasks):
                for row in rows:
                    blank = MIRRORS - len(row)
                    x.append([mirror[0] for mirror in row] + [[0] * len(row[0][0])] * blank)
                    mean.append([mirror[1] for mirror in row] + [0] * blank)
                    y.append([mirror[2] for mirror in row] + [0] * blank)
                    known.append([True] * len(row) + [False] * blank)
                    pairing.append(number)
        self.x = np.array(x, np.int16)
        self.mean = np.array(mean, np.float32) / LOG_ONE
        self.y = np.array(y, np.float32) / LOG_ONE
        self.known = np.array(known)
        self.pairing = np.array(pairing)
        # Without this, pairings of few decisions would not count.
        self.weight = 1 / np.sqrt(np.bincount(self.pairing))[self.pairing]
        self.best = np.where(self.known, self.y, np.inf).min(1)

    def excess(self, rows, score):
        """Mean of log2 of the time at the mirror of the lowest score over the best."""
        chosen = np.where(self.known[rows], score, np.inf).argmin(1)
        excess = self.y[rows, chosen] - self.best[rows]
        return np.average(excess, weights=self.weight[rows])


def train(data, rows):
    """Adam on two losses: the error of each prediction, and the excess of a soft minimum."""
    random = np.random.default_rng(7)
    inputs = data.x.shape[2]
    network = {
        "w1": random.normal(0, inputs**-0.5, (inputs, HIDDEN)), "b1": np.zeros(HIDDEN),
        "w2": random.normal(0, HIDDEN**-0.5, HIDDEN), "b2": np.zeros(()),
    }
    first = {name: np.zeros_like(value) for name, value in network.items()}
    second = {name: np.zeros_like(value) for name, value in network.items()}
    share = data.weight[rows] / data.weight[rows].sum()
    for step in range(1, STEPS + 1):
        batch = random.choice(rows, 512, p=share)
        x, known = data.x[batch] / LOG_ONE, data.known[batch]
        hidden = np.maximum(x @ network["w1"] + network["b1"], 0)
        score = hidden @ network["w2"] + network["b2"] + data.mean[batch]
        grade = np.clip(score - data.y[batch], -1, 1) * known / known.sum()
        score = np.where(known, score, np.inf)
        chance = np.exp(-4 * (score - score.min(1, keepdims=True)))
        chance /= chance.sum(1, keepdims=True)
        cost = np.where(known, np.minimum(data.y[batch] - data.best[batch, None], 4), 0)
        grade -= 4 * chance * (cost - (chance * cost).sum(1, keepdims=True)) / len(batch)
        back = grade[..., None] * network["w2"] * (hidden > 0)
        slope = {
            "w1": np.tensordot(x, back, ([0, 1], [0, 1])), "b1": back.sum((0, 1)),
            "w2": (hidden * grade[..., None]).sum((0, 1)), "b2": grade.sum(),
        }
        rate = 0.004 * (1 - step / STEPS) + 1e-5
        for name in network:
            first[name] = 0.9 * first[name] + 0.1 * slope[name]
            second[name] = 0.999 * second[name] + 0.001 * slope[name]**2
            scale = np.sqrt(second[name] / (1 - 0.999**step)) + 1e-8
            network[name] = network[name] - rate * first[name] / (1 - 0.9**step) / scale
    # Sums of the first layer are in 1/(32 * 256), and so is the result.
    unit = LOG_ONE * WEIGHT_ONE
    scales = {"w1": WEIGHT_ONE, "b1": unit, "w2": WEIGHT_ONE, "b2": unit}
    return {name: np.round(network[name] * scale).astype(int) for name, scale in scales.items()}


def predict(network, x):
    """The integers that network.rs computes: log2 over the mean wait, in 1/8192."""
    hidden = np.clip((x.astype(int) @ network["w1"] + network["b1"]) >> 8, 0, 32767)
    return hidden @ network["w2"] + network["b2"]


def report(data, rows, predicted):
    random = np.random.default_rng(1).random(data.y[rows].shape)
    scores = {
        "a random mirror": random,
        "the shortest queue": data.x[rows, :, 0] + random / 2,
        "the lowest mean wait": data.mean[rows],
        "the network": predicted + data.mean[rows],
    }
    print(f"held out: {len(rows)} decisions of {len(set(data.pairing[rows]))} pairings")
    for name, score in scores.items():
        print(f"{2 ** data.excess(rows, score):.3f} of the time at the best mirror: {name}")
    known = data.known[rows]
    weight = np.repeat(data.weight[rows, None], MIRRORS, 1)[known]
    is_slow = (data.y[rows] - data.mean[rows])[known] > 1
    is_right = is_slow == (predicted[known] > 1)
    print(f"{100 * np.average(is_slow, weights=weight):.1f} % slow, over twice the mean wait; "
          f"{100 * np.average(is_right, weights=weight):.1f} % classified correctly")


def table(network):
    example = 25 * np.arange(len(network["w1"])) - 100
    lines = [
        "//! Weights of the network, which `benches/train-linnos.py` writes.",
        "",
        "/// Number of neurons of the hidden layer.",
        f"pub(super) const HIDDEN: usize = {HIDDEN};",
        "",
        "/// By input and neuron, in 1/256.",
        "#[rustfmt::skip]",
        f"pub(super) const FIRST: [[i16; HIDDEN]; {len(network['w1'])}] = [",
        *(f"    [{', '.join(map(str, row))}]," for row in network["w1"]),
        "];",
        "",
        "/// By neuron, in 1/8192.",
        "#[rustfmt::skip]",
        "pub(super) const FIRST_BIAS: [i32; HIDDEN] = [",
        *(f"    {', '.join(map(str, half))}," for half in np.split(network["b1"], 2)),
        "];",
        "",
        "/// By neuron, in 1/256.",
        "#[rustfmt::skip]",
        "pub(super) const SECOND: [i16; HIDDEN] = [",
        f"    {', '.join(map(str, network['w2']))},",
        "];",
        "",
        "/// In 1/8192.",
        f"pub(super) const SECOND_BIAS: i32 = {network['b2']};",
        "",
        "/// Inputs, and the prediction from them.",
        "#[cfg(test)]",
        "#[rustfmt::skip]",
        f"pub(super) const EXAMPLE: ([i32; {len(example)}], i32) = (",
        f"    [{', '.join(map(str, example))}], {predict(network, example)},",
        ");",
    ]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program", type=lambda path: str(pathlib.Path(path).resolve()))
    data = Data(parser.parse_args().program)
    is_held_out = data.pairing % 10 < 3
    network = train(data, np.flatnonzero(~is_held_out))
    held_out = np.flatnonzero(is_held_out)
    report(data, held_out, predict(network, data.x[held_out]) / (LOG_ONE * WEIGHT_ONE))
    root = pathlib.Path(__file__).resolve().parent.parent
    (root / TABLE).write_text(table(network))


if __name__ == "__main__":
    main()

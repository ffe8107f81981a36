"""Sweeps: the same bytes through every executor, also when a worker is killed."""

from __future__ import annotations

import concurrent.futures
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, List

import numpy
import pytest

import mirrorball as mb
from mirrorball import _shards
from mirrorball._toml import document

ROOT = Path(__file__).resolve().parents[2]


def forty(duration: str = "50ms") -> mb.Sweep:
    """Two arrays, two depths, five policies and two seeds: 40 cells."""
    return mb.Sweep(
        mb.grid(
            array=mb.array("two-ssd-raid1").vary(host__overhead=["5us", "15us"]),
            job=mb.job("rand-4k-qd32").vary(iodepth=[1, 8]),
            policy=["btrfs/pid", "kakra/queue", "md/raid1", "random", "zfs/mirror"],
            seed=range(3, 5),
            duration=duration,
        )
    )


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> mb.SweepResults:
    """The sweep, run by the binary alone."""
    results = forty().run(tmp_path_factory.mktemp("sweep") / "out")
    assert results.status()["done"] == 40
    return results


def packed(results: mb.SweepResults) -> bytes:
    return results.pack().read_bytes()


def test_the_standard_library_gives_the_same_bytes(
    expected: mb.SweepResults, own_folder: Path
) -> None:
    seen: List[Any] = []
    with concurrent.futures.ProcessPoolExecutor(2) as executor:
        results = forty().run(
            "out", executor, shards=6, on_progress=lambda done, all: seen.append((done, all))
        )
    assert seen == [(n, 6) for n in range(1, 7)]
    assert packed(results) == packed(expected)
    assert results.folder == own_folder / "out"
    assert results.verify(0.2).endswith("0 differ")


def test_rows_are_those_of_compare(expected: mb.SweepResults) -> None:
    pytest.importorskip("polars")
    job = Path("rand-4k-qd32.fio")
    texts = (ROOT / "jobs" / job).read_text()
    job.write_text(texts)
    compared = mb.compare(
        "two-ssd-raid1", job, ["md/raid1", "random"], repeats=2, seed=3, duration="50ms"
    )
    plain = mb.Sweep(
        mb.grid(
            array="two-ssd-raid1",
            job=job,
            policy=["md/raid1", "random"],
            repeats=2,
            seed=3,
            duration="50ms",
            oracle=True,
        )
    )
    frame = plain.run("plain").frame("polars")
    wanted = compared.frame("polars")
    order = ["policy", "seed"]
    ours = frame.select(wanted.columns).sort(order)
    assert ours.to_dicts() == wanted.sort(order).to_dicts()


def test_a_killed_worker_of_dask_changes_nothing(expected: mb.SweepResults) -> None:
    distributed = pytest.importorskip("distributed")
    killed: List[int] = []
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, host="127.0.0.1"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):

        def kill_one(done: int, count: int) -> None:
            if not killed and done < count:
                killed.extend(list(client.run(os.getpid).values())[:1])
                os.kill(killed[0], signal.SIGKILL)

        executor = client.get_executor(retries=3)
        results = forty().run("out", executor, shards=20, on_progress=kill_one)
    assert killed
    assert results.status()["done"] == 40
    assert packed(results) == packed(expected)


def test_submitit_gives_the_same_bytes(expected: mb.SweepResults, own_folder: Path) -> None:
    submitit = pytest.importorskip("submitit")
    executor = submitit.LocalExecutor(folder=own_folder / "logs")
    executor.update_parameters(timeout_min=5)
    results = forty().run("out", executor, shards=2)
    assert packed(results) == packed(expected)


def test_the_adapter_of_the_guide_runs_a_sweep_by_ray(
    expected: mb.SweepResults, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    guide = (ROOT / "docs" / "scale.md").read_text()
    adapter = re.search(r"```python\n(import concurrent\.futures, ray\n.*?)```", guide, re.DOTALL)
    assert adapter
    names: Dict[str, Any] = {}
    exec(adapter.group(1), names)
    # Workers of this machine only, which need no token and report nothing.
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    ray.init(num_cpus=2, include_dashboard=False)
    try:
        results = forty().run("out", names["RayExecutor"](), shards=5)
    finally:
        ray.shutdown()
    assert packed(results) == packed(expected)


def test_a_task_that_fails_is_raised_and_what_is_missing_is_run_again(
    expected: mb.SweepResults, own_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    binary = mb.find_binary()
    flaky = own_folder / "flaky"
    flaky.write_text(
        f'#!/bin/sh\ncase "$*" in *--shard=2/4*) echo "error: no luck" >&2; exit 1;; esac\n'
        f'exec {binary} "$@"\n'
    )
    flaky.chmod(0o755)
    monkeypatch.setenv("MIRRORBALL", str(flaky))
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        with pytest.raises(mb.CommandError, match="no luck"):
            forty().run("out", executor, shards=4)
        monkeypatch.setenv("MIRRORBALL", str(binary))
        assert mb.open("out").status()["done"] == 30  # type: ignore[union-attr]
        results = forty().run("out", executor, shards=4)
    assert packed(results) == packed(expected)


@pytest.mark.parametrize("library", ["polars", "pandas", "duckdb"])
def test_results_are_opened_as_a_frame(expected: mb.SweepResults, library: str) -> None:
    pytest.importorskip(library)
    opened = mb.open(expected.folder)
    assert isinstance(opened, mb.SweepResults)
    assert repr(opened) == f"<SweepResults: 40 of 40 cells in {expected.folder}>"
    frame = opened.frame(library)
    by = ["vary_iodepth", "policy"]
    merged = mb.percentiles(frame, by=by, at=[0.5])
    rows: List[Dict[str, Any]]
    if library == "duckdb":
        rows = [dict(zip(merged.columns, row)) for row in merged.fetchall()]
    else:
        rows = merged.to_dicts() if library == "polars" else merged.to_dict("records")
    assert [row["vary_iodepth"] for row in rows] == [1.0] * 5 + [8.0] * 5
    assert all(row["requests"] > 100 and row["p50_ns"] > 1000 for row in rows)


def test_errors_are_those_of_the_command(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # As wide as a terminal, which breaks no line of an error.
    monkeypatch.setenv("COLUMNS", "40")
    with pytest.raises(mb.CommandError, match="there is no entry `9`"):
        mb.Sweep(
            mb.grid(array=mb.array("two-ssd-raid1").vary({"member.9.model": ["x"]}), job="a.fio")
        ).plan("out")
    with pytest.raises(ValueError, match="several seeds and no `repeats`"):
        mb.grid(array="a", job="b", seed=range(3), repeats=2)
    assert mb.grid(array="a", job="b", seed=(n * n for n in range(3)))["seed"] == [0, 1, 4]
    assert json.dumps(mb.grid(array="a", job="b", seed=numpy.int64(7))["seed"]) == "7"
    with pytest.raises(TypeError, match="the value None"):
        mb.Sweep(mb.grid(array=mb.array("a").vary(x=[None]), job="b"))
    forty().plan("out")
    with pytest.raises(mb.CommandError, match="40 of 40 cells are not done"):
        mb.open("out").frame()
    with pytest.raises(TypeError, match="are for comparisons"):
        mb.open("out", rank="p99")
    with pytest.raises(mb.CommandError, match="holds another sweep"):
        forty("60ms").run("out")


def test_values_are_written_as_toml() -> None:
    values = {"a": [1, True, 2.5, 'q"\\\n'], "b": {"x.y": [{"slow": 4.0}]}, "c": None}
    expected = 'a = [1, true, 2.5, "q\\"\\\\\\n"]\nb = { "x.y" = [{ "slow" = 4.0 }] }\n'
    assert document(values) == expected


def test_scripts_for_clusters_are_well_formed() -> None:
    yaml = pytest.importorskip("yaml")
    slurm = ROOT / "packaging" / "clusters" / "slurm-array.sh"
    subprocess.run(["bash", "-n", str(slurm)], check=True)
    if shutil.which("shellcheck"):
        subprocess.run(["shellcheck", str(slurm)], check=True)
    assert '--shard "$SLURM_ARRAY_TASK_ID/$shards"' in slurm.read_text()
    text = (ROOT / "packaging" / "clusters" / "kubernetes-job.yaml").read_text()
    spec = yaml.safe_load(text)["spec"]
    assert spec["completionMode"] == "Indexed"
    arguments = spec["template"]["spec"]["containers"][0]["args"]
    assert arguments[-1] == f"$(JOB_COMPLETION_INDEX)/{spec['completions']}"


def test_the_job_of_kubernetes_has_the_schema_of_its_api() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    yaml = pytest.importorskip("yaml")
    job = yaml.safe_load((ROOT / "packaging" / "clusters" / "kubernetes-job.yaml").read_text())
    # The first version in which all of its keys are stable.
    validate.validate(job, "1.33", strict=True)
    job["spec"]["backofLimit"] = 3
    with pytest.raises(validate.ValidationError):
        validate.validate(job, "1.33", strict=True)


def test_the_slurm_script_runs_its_shard(own_folder: Path) -> None:
    results = forty().plan("out")
    script = ROOT / "packaging" / "clusters" / "slurm-array.sh"
    (own_folder / "mirrorball").symlink_to(mb.find_binary())
    path = f"{own_folder}{os.pathsep}{os.environ['PATH']}"
    for number in [1, 2]:
        array = {"SLURM_ARRAY_TASK_ID": str(number)}
        variables = {**os.environ, "PATH": path, "SLURM_CPUS_PER_TASK": "1", **array}
        subprocess.run(["bash", str(script), "out", "2"], env=variables, check=True)
    assert results.status()["done"] == 40


def test_a_planned_sweep_is_run_by_an_executor(own_folder: Path) -> None:
    forty().plan("out")
    results = mb.open("out")
    assert isinstance(results, mb.SweepResults)
    with concurrent.futures.ThreadPoolExecutor(2) as executor:
        assert results.run(executor, shards=2).status()["done"] == 40


def test_a_shard_is_importable_by_workers() -> None:
    assert _shards.run_shard is mb.run_shard
    code = "import pickle, mirrorball as mb; pickle.loads(pickle.dumps(mb.run_shard))"
    subprocess.run([sys.executable, "-c", code], check=True)

"""What the tests share: a folder of their own, and one small comparison."""

from __future__ import annotations

from pathlib import Path

import pytest

import mirrorball as mb

POLICIES = ["btrfs/pid", "kakra/queue", "zfs/mirror+hedge"]

#: A job of two sections, one of them background load, that read and write.
JOB = """\
[global]
ioengine=libaio
direct=1
bs=4k
runtime=60
time_based

[mixed]
rw=randrw
rwmixread=70
iodepth=8

[reader]
; mirrorball: counts=no
rw=randread
rate_iops=200
"""


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Each test runs in an empty folder, where results go by default."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> mb.Comparison:
    """Three policies under two jobs, with two seeds of more than 53 bits."""
    folder = tmp_path_factory.mktemp("small")
    job = folder / "mixed.fio"
    job.write_text(JOB)
    return mb.compare(
        "hdd-ssd-raid1",
        ["rand-4k-qd32", job],
        POLICIES,
        repeats=2,
        seed=2**53 + 1,
        duration="200ms",
        output=folder / "results",
    )

"""Where the binary is found, and how its end is reported."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import mirrorball as mb
from mirrorball import _binary


def fake(path: Path, script: str) -> Path:
    """An executable file with a shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_the_variable_comes_first(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = fake(own_folder / "named", "exit 0")
    monkeypatch.setenv("MIRRORBALL", "named")
    assert mb.find_binary() == named
    named.chmod(0o644)
    if os.geteuid() != 0 or not os.access(named, os.X_OK):
        with pytest.raises(FileNotFoundError, match=r"\$MIRRORBALL is named, which is not an exec"):
            mb.find_binary()
    monkeypatch.setenv("MIRRORBALL", str(own_folder))
    with pytest.raises(FileNotFoundError, match="which is not an executable file"):
        mb.find_binary()


def test_the_wheel_comes_before_the_path(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIRRORBALL", raising=False)
    scripts = own_folder / "scripts"
    monkeypatch.setattr(_binary, "_script_folders", lambda: iter([scripts]))
    monkeypatch.setenv("PATH", str(own_folder / "path"))
    with pytest.raises(FileNotFoundError, match="set the environment variable MIRRORBALL"):
        mb.find_binary()
    in_path = fake(own_folder / "path" / "mirrorball", "exit 0")
    assert mb.find_binary() == in_path
    in_wheel = fake(scripts / "mirrorball", "exit 0")
    assert mb.find_binary() == in_wheel


def test_scripts_of_this_python_are_looked_at() -> None:
    assert Path(sys.executable).parent in _binary._script_folders()


def test_an_error_can_be_sent_to_another_process() -> None:
    with pytest.raises(mb.CommandError) as caught:
        _binary.run(["policies", "no-such-policy"])
    copy = pickle.loads(pickle.dumps(caught.value))
    assert str(copy) == str(caught.value)
    assert copy.exit_code == 2


def test_a_signal_is_reported(own_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MIRRORBALL", str(fake(own_folder / "m", "kill -9 $$")))
    with pytest.raises(mb.CommandError, match="printed no error\n  exit code -9 of: .*/m compare"):
        mb.compare()


def test_the_package_runs_as_the_command() -> None:
    printed = subprocess.run(
        [sys.executable, "-m", "mirrorball", "policies", "nothing"], capture_output=True, text=True
    )
    assert printed.returncode == 2
    assert printed.stderr.startswith("error: ")

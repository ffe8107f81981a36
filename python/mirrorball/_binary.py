"""The `mirrorball` binary: where it is, and how it is run.

All work is done by the binary, in a process of its own. Inputs are checked there too, so an error
of the Python package reads like the error of the command line.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator, Optional, Sequence

#: The environment variable that names the binary.
VARIABLE = "MIRRORBALL"


class CommandError(Exception):
    """A `mirrorball` command that failed, with the error that it printed."""

    def __init__(self, command: Sequence[str], exit_code: int, message: str) -> None:
        super().__init__(command, exit_code, message)
        #: The command and its arguments.
        self.command = list(command)
        #: The exit code: 1 for a failure, 2 for an invalid argument or input.
        self.exit_code = exit_code
        #: The error that the command printed.
        self.message = message

    def __str__(self) -> str:
        shown = self.message or "the command printed no error"
        return f"{shown}\n  exit code {self.exit_code} of: {shlex.join(self.command)}"


@dataclass(frozen=True)
class Output:
    """What a command printed."""

    stdout: str
    stderr: str


def find_binary() -> Path:
    """Return the path of the `mirrorball` binary.

    The environment variable `MIRRORBALL` names it. Without it, the binary is looked for where the
    wheel of this package installs it, and then in `PATH`.
    """
    named = os.environ.get(VARIABLE)
    if named:
        if not os.access(named, os.X_OK) or os.path.isdir(named):
            raise FileNotFoundError(f"${VARIABLE} is {named}, which is not an executable file")
        return Path(named).absolute()
    folders = list(_script_folders())
    for folder in folders:
        if os.access(folder / "mirrorball", os.X_OK):
            return folder / "mirrorball"
    found = shutil.which("mirrorball")
    if found:
        return Path(found).absolute()
    raise FileNotFoundError(
        f"cannot find the mirrorball binary in {', '.join(map(str, folders))} or PATH: "
        f"install it, or set the environment variable {VARIABLE} to its path"
    )


def _script_folders() -> Iterator[Path]:
    """Folders in which pip installs the binaries of a wheel."""
    yield Path(sysconfig.get_path("scripts"))
    user = os.name + "_user"
    if user in sysconfig.get_scheme_names():
        yield Path(sysconfig.get_path("scripts", scheme=user))
    # `pip install --target FOLDER` has FOLDER/mirrorball and FOLDER/bin.
    yield Path(__file__).resolve().parent.parent / "bin"


def run(
    arguments: Sequence[str],
    *,
    stdin: str = "",
    accepted: Sequence[int] = (0,),
    columns: Optional[str] = None,
) -> Output:
    """Run the binary with `arguments` to its end, and return what it printed.

    Lines of tables and errors are broken after `columns`, or else not at all.
    Raises `CommandError` if the exit code is not one of `accepted`. An interrupt is passed on to
    the binary, which keeps what it has finished.
    """
    command = [str(find_binary()), *arguments]
    # The binary takes this width of a terminal even where it writes to a pipe, for errors as well.
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    if columns is not None:
        environment["COLUMNS"] = columns
    with subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    ) as process:
        try:
            stdout, stderr = process.communicate(stdin)
        except KeyboardInterrupt:
            process.send_signal(signal.SIGINT)
            process.communicate()
            raise
    if process.returncode not in accepted:
        raise CommandError(command, process.returncode, _error_text(stderr))
    return Output(stdout, stderr)


def _error_text(stderr: str) -> str:
    """Standard error from the line of the error on, without the word `error:`."""
    lines = stderr.strip().splitlines()
    for number, line in enumerate(lines):
        if line.startswith("error: "):
            return "\n".join([line[len("error: ") :], *lines[number + 1 :]])
    return "\n".join(lines)

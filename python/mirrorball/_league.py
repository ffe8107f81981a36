"""The league: `mirrorball league`, a policy on arrays and jobs drawn at random."""

from __future__ import annotations

import json
import os
from functools import cached_property
from typing import Any, Dict, Iterable, List, Optional, Sequence, Union

from ._arguments import Name, comma_list, option
from ._binary import run
from ._frames import choose_library, frame_of_columns


def league(
    subject: Union[str, Iterable[str], None] = None,
    policies: Union[str, Iterable[str], None] = None,
    *,
    sample: Optional[int] = None,
    seed: Optional[int] = None,
    quick: bool = False,
    keep_rivals: bool = False,
    threads: Optional[int] = None,
    output: Optional[Name] = None,
) -> League:
    """Run `subject` and its rivals, `policies`, on random pairings of an array and a job.

    The parameters have the names and the meaning of the options of `mirrorball league`, and its
    defaults if they are left out. Pairings are saved, so the same call again returns at once.
    """
    arguments = [
        "league",
        *option("--subject", comma_list(subject)),
        *option("--policy", comma_list(policies)),
        *option("--sample", sample),
        *option("--seed", seed),
        *(["--quick"] if quick else []),
        *(["--keep-rivals"] if keep_rivals else []),
        *option("--threads", threads),
        *option("--output", output),
    ]
    return League(arguments, json.loads(run([*arguments, "--format=json"]).stdout))


class League:
    """Standings of a league."""

    def __init__(self, arguments: Sequence[str], standings: Dict[str, Any]) -> None:
        #: What `league --format json` prints; docs/result-schema.json describes it (`Standings`).
        self.standings = standings
        self._arguments = list(arguments)

    @property
    def subjects(self) -> List[str]:
        """The policies that were evaluated, by their canonical names."""
        return list(self.standings["subjects"])

    @cached_property
    def rows(self) -> Dict[str, Dict[str, Any]]:
        """Figures over all pairings, by policy."""
        return {row["policy"]: row for row in self.standings["rows"]}

    def frame(self, library: Optional[str] = None) -> Any:
        """Return a frame with a row for each pairing and policy: its score, ratio and tails."""
        columns: Dict[str, List[Any]] = {}
        for pairing in self.standings["pairings"]:
            for entry in pairing["entries"]:
                row = {"pairing": pairing["number"], "best": pairing["best"], **entry}
                row.pop("last_build", None)
                for name, value in row.items():
                    columns.setdefault(name, []).append(value)
        kinds = {"p99_ratio": "DOUBLE", "p99_9_ratio": "DOUBLE"}
        return frame_of_columns(columns, kinds, choose_library(library))

    def __str__(self) -> str:
        """The tables that `mirrorball league` prints."""
        return run(self._arguments, columns=os.environ.get("COLUMNS")).stdout

    def __repr__(self) -> str:
        count = len(self.standings["pairings"])
        return f"<League of {', '.join(self.subjects)} in {count} pairings>"

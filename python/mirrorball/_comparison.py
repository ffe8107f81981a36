"""Comparisons of policies on one array: `mirrorball compare`, and its saved results."""

from __future__ import annotations

import json
import os
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Dict, Iterable, List, Optional, Sequence, Union

from . import _plots
from ._arguments import Name, comma_list, option, path_text
from ._binary import run
from ._frames import choose_library, frame_of_columns
from ._histogram import Histogram, merge
from ._html import comparison_html
from ._rows import COLUMNS, Row, columns_of, histogram_of, rows_of

_FOLDER_LINE = "results are in "


def compare(
    array: Optional[Name] = None,
    jobs: Union[Name, Iterable[Name], None] = None,
    policies: Union[str, Iterable[str], None] = None,
    *,
    repeats: Optional[int] = None,
    seed: Optional[int] = None,
    duration: Optional[str] = None,
    rank: Optional[str] = None,
    baseline: Optional[str] = None,
    system: Optional[str] = None,
    threads: Optional[int] = None,
    output: Optional[Name] = None,
) -> Comparison:
    """Run every job under every policy on an array, as `mirrorball compare` does.

    The parameters have the names and the meaning of the options of that command, and its defaults
    if they are left out. Finished cells are saved, in the folder `output` or in the one that the
    command chooses, so the same call again returns at once.
    """
    job_names = _names(jobs)
    if job_names and array is None:
        raise TypeError("`jobs` without `array`: the command takes the array first")
    ranking = [*option("--rank", rank), *option("--baseline", baseline)]
    printed = run(
        [
            *("compare", "--format=json", *ranking),
            *option("--policy", comma_list(policies)),
            *option("--repeats", repeats),
            *option("--seed", seed),
            *option("--duration", duration),
            *option("--system", system),
            *option("--threads", threads),
            *option("--output", output),
            *_names(array),
            *job_names,
        ]
    )
    folder = output
    for line in printed.stderr.splitlines():
        if line.startswith(_FOLDER_LINE):
            folder = line[len(_FOLDER_LINE) :]
    if folder is None:
        raise RuntimeError("`mirrorball compare` did not say where its results are")
    return Comparison(Path(folder), json.loads(printed.stdout), ranking)


def open_comparison(folder: Path, rank: Optional[str], baseline: Optional[str]) -> Comparison:
    """Return the saved results of a comparison."""
    ranking = [*option("--rank", rank), *option("--baseline", baseline)]
    printed = run(["report", "--format=json", *ranking, path_text(folder)])
    return Comparison(folder, json.loads(printed.stdout), ranking)


class Comparison:
    """Results of `mirrorball compare`: the study that it prints, and the cells that it saved."""

    def __init__(self, folder: Path, study: Dict[str, Any], ranking: Sequence[str] = ()) -> None:
        #: The results folder.
        self.folder = folder
        #: What `compare --format json` prints; docs/result-schema.json describes it (`Study`).
        self.study = study
        self._ranking = list(ranking)

    @property
    def command(self) -> str:
        """The command that runs this comparison again."""
        return str(self.study["plan"]["command"])

    @property
    def verdict(self) -> str:
        """Which policy to use, in words."""
        return str(self.study["verdict"]["sentence"])

    @property
    def policies(self) -> List[str]:
        """The policies by their geometric mean over the jobs, the best first; the oracle last."""
        return [row["policy"] for row in self.study["matrix"]["rows"]]

    @property
    def jobs(self) -> List[str]:
        """The jobs, in the order in which they were named."""
        return list(self.study["matrix"]["jobs"])

    @cached_property
    def cells(self) -> List[Dict[str, Any]]:
        """The saved cells, sorted by job, policy and seed (`CellRecord` in the schema)."""
        paths = sorted((self.folder / "cells").glob("*.json"))
        cells = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
        known = {(cell["job"], cell["policy"], cell["seed"]) for cell in self.study["cells"]}

        def place(record: Dict[str, Any]) -> Any:
            return tuple(record["cell"][name] for name in ("job", "policy", "seed"))

        return sorted((cell for cell in cells if place(cell) in known), key=place)

    @cached_property
    def _rows(self) -> List[Row]:
        plan = self.study["plan"]
        fingerprints = {entry["name"]: entry["fingerprint"] for entry in plan["jobs"]}
        return list(rows_of(self.cells, {**fingerprints, "array": plan["array"]["fingerprint"]}))

    def frame(self, library: Optional[str] = None) -> Any:
        """Return a frame with a row for each cell, section of its job, and kind of requests.

        `library` is `polars`, `pandas` or `duckdb`; by default the first that can be imported.
        """
        return frame_of_columns(columns_of(self._rows), COLUMNS, choose_library(library))

    def matrix(self, library: Optional[str] = None) -> Any:
        """Return a frame with a row for each policy: percent of the best policy's score by job."""
        rows = self.study["matrix"]["rows"]
        columns: Dict[str, List[Any]] = {"policy": [row["policy"] for row in rows]}
        for place, name in enumerate(self.jobs):
            columns[name] = [row["percent"][place] for row in rows]
        for name in ("geometric_mean", "worst_job", "worst_percent"):
            columns[name] = [row[name] for row in rows]
        return frame_of_columns(columns, {}, choose_library(library))

    def histogram(
        self,
        *,
        policy: Optional[str] = None,
        job: Optional[str] = None,
        section: Optional[str] = None,
        direction: str = "read",
        seed: Optional[int] = None,
    ) -> Histogram:
        """Return the merged latency histogram of the cells with these values.

        Sections of background load are left out unless `section` names one.
        """
        wanted = {"policy": policy, "job": job, "section": section, "seed": seed}
        rows = self._rows
        for name, value in {**wanted, "direction": direction}.items():
            if value is None:
                continue
            left = [row for row in rows if row[name] == value]
            if not left:
                there = ", ".join(sorted({f"`{row[name]}`" for row in rows}))
                raise ValueError(f"no results with {name} `{value}`; there are {there}")
            rows = left
        if section is None:
            rows = [row for row in rows if not row["is_background"]]
        return merge(histogram_of(row) for row in rows)

    def plot_matrix(self, library: Optional[str] = None) -> Any:
        """Draw the matrix: percent of the best policy's score, by policy and job.

        `library` is `matplotlib` or `altair`; by default one that the notebook has imported, else
        the first that can be imported. Returns its axes or its chart.
        """
        rows = self.study["matrix"]["rows"]
        values = [row["percent"] for row in rows]
        return _plots.heat_map(self.jobs, self.policies, values, library)

    def plot_latency(
        self,
        policies: Optional[Iterable[str]] = None,
        *,
        job: Optional[str] = None,
        section: Optional[str] = None,
        direction: str = "read",
        library: Optional[str] = None,
    ) -> Any:
        """Draw, for each policy, the fraction of requests that are slower than a latency.

        Both axes are logarithmic, so that tails are seen. `library` as for `plot_matrix`.
        """
        lines = {
            policy: self.histogram(policy=policy, job=job, section=section, direction=direction)
            for policy in (self.policies if policies is None else policies)
        }
        return _plots.tails(lines, library)

    def __str__(self) -> str:
        """The tables that `mirrorball report` prints."""
        arguments = ["report", "--format=table", *self._ranking, path_text(self.folder)]
        return run(arguments, columns=os.environ.get("COLUMNS")).stdout

    def __repr__(self) -> str:
        return f"<Comparison of {len(self.policies)} policies in {self.folder}>"

    def _repr_html_(self) -> str:
        return comparison_html(self.study)


def _names(given: Union[Name, Iterable[Name], None]) -> List[str]:
    """The names of arrays or jobs as arguments."""
    if given is None:
        return []
    names = [given] if isinstance(given, (str, PathLike)) else list(given)
    return [path_text(name) for name in names]

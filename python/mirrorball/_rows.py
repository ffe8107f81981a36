"""Rows of saved cells: one for each section of a job and each kind of requests."""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Mapping

from ._histogram import Histogram

#: The columns, and their SQL types.
COLUMNS: Dict[str, str] = {
    "key": "VARCHAR",
    "schema_version": "UBIGINT",
    "program_version": "VARCHAR",
    "program_build": "VARCHAR",
    "array_name": "VARCHAR",
    "array_fingerprint": "VARCHAR",
    "job": "VARCHAR",
    "job_fingerprint": "VARCHAR",
    "policy": "VARCHAR",
    "policy_family": "VARCHAR",
    "modifiers": "VARCHAR",
    "seed": "UBIGINT",
    "repeat": "UBIGINT",
    "duration_ns": "UBIGINT",
    "section": "VARCHAR",
    "direction": "VARCHAR",
    "is_background": "BOOLEAN",
    "has_rate": "BOOLEAN",
    "requests": "UBIGINT",
    "bytes": "UBIGINT",
    "errors": "UBIGINT",
    "measured_ns": "UBIGINT",
    "iops": "DOUBLE",
    "mib_per_s": "DOUBLE",
    "mean_ns": "UBIGINT",
    "p50_ns": "UBIGINT",
    "p90_ns": "UBIGINT",
    "p95_ns": "UBIGINT",
    "p99_ns": "UBIGINT",
    "p99_9_ns": "UBIGINT",
    "p99_99_ns": "UBIGINT",
    "lat_bin": "UBIGINT[]",
    "lat_count": "UBIGINT[]",
    "lat_sum_ns": "UBIGINT",
    "lat_min_ns": "UBIGINT",
    "lat_max_ns": "UBIGINT",
    "extra_reads": "UBIGINT",
    "m_devid": "UBIGINT[]",
    "m_reads": "UBIGINT[]",
    "m_wait_mean_ns": "UBIGINT[]",
    "m_share": "DOUBLE[]",
}

#: The kinds of requests, as fields of a section and as values of `direction`.
DIRECTIONS = {"read": "read", "write": "write", "trim": "trim", "flush": "fsync"}

#: What a section without any request has in place of its figures.
_NOTHING: Dict[str, Any] = {
    "ios": 0,
    "bytes": 0,
    "errors": 0,
    "iops": 0.0,
    "mib_per_s": 0.0,
    "latency": {"bins": [], "counts": [], "sum_ns": 0, "min_ns": 0, "max_ns": 0},
    "percentiles": {},
}

Row = Dict[str, Any]


def rows_of(cells: Iterable[Mapping[str, Any]], fingerprints: Mapping[str, str]) -> Iterator[Row]:
    """Yield a row for each section and direction of each cell.

    `fingerprints` are those of the array and of the jobs, by `array` and the names of the jobs.
    """
    for cell in cells:
        common = {**_identity(cell, fingerprints), **_members(cell)}
        seen: Dict[str, int] = {}
        for section in cell["sections"]:
            name = section["name"]
            seen[name] = seen.get(name, 0) + 1
            if seen[name] > 1:
                name = f"{name}#{seen[name]}"
            made = [(d, section[field]) for field, d in DIRECTIONS.items() if section.get(field)]
            for direction, figures in made or [("none", _NOTHING)]:
                row = {
                    **common,
                    "section": name,
                    "direction": direction,
                    "is_background": section.get("is_background", False),
                    "has_rate": section.get("has_rate", False),
                    "measured_ns": section["measured_ns"],
                    **_figures(figures),
                }
                yield {column: row[column] for column in COLUMNS}


def columns_of(rows: Iterable[Row]) -> Dict[str, List[Any]]:
    """Return rows as columns."""
    columns: Dict[str, List[Any]] = {name: [] for name in COLUMNS}
    for row in rows:
        for name, values in columns.items():
            values.append(row[name])
    return columns


def histogram_of(row: Row) -> Histogram:
    """Return the latency histogram of a row."""
    bins = dict(zip(row["lat_bin"], row["lat_count"]))
    if not bins:
        return Histogram()
    return Histogram(bins, row["lat_sum_ns"], row["lat_min_ns"], row["lat_max_ns"])


def _identity(record: Mapping[str, Any], fingerprints: Mapping[str, str]) -> Row:
    cell = record["cell"]
    policy = cell["policy"]
    family, has_family, _ = policy.partition("/")
    return {
        "key": record["key"],
        "schema_version": record["schema_version"],
        "program_version": record["build"]["version"],
        "program_build": record["build"]["hash"],
        "array_name": cell["array"],
        "array_fingerprint": fingerprints.get("array"),
        "job": cell["job"],
        "job_fingerprint": fingerprints.get(cell["job"]),
        "policy": policy,
        "policy_family": family if has_family else "oracle",
        "modifiers": policy.partition("+")[2],
        "seed": cell["seed"],
        "repeat": cell["repeat"],
        "duration_ns": cell.get("duration_ns"),
        "extra_reads": sum(member.get("extra_reads", 0) for member in record["members"]),
    }


def _members(record: Mapping[str, Any]) -> Row:
    members = record["members"]
    return {
        "m_devid": [member["devid"] for member in members],
        "m_reads": [member["foreground_reads"] for member in members],
        "m_wait_mean_ns": [member["read_wait_mean_ns"] for member in members],
        "m_share": [member["share"] for member in members],
    }


def _figures(figures: Mapping[str, Any]) -> Row:
    latency = figures["latency"]
    percentiles = ("mean_ns", "p50_ns", "p90_ns", "p95_ns", "p99_ns", "p99_9_ns", "p99_99_ns")
    return {
        "requests": figures["ios"],
        "bytes": figures["bytes"],
        "errors": figures["errors"],
        "iops": figures["iops"],
        "mib_per_s": figures["mib_per_s"],
        **{name: figures["percentiles"].get(name, 0) for name in percentiles},
        "lat_bin": latency["bins"],
        "lat_count": latency["counts"],
        "lat_sum_ns": latency["sum_ns"],
        "lat_min_ns": latency["min_ns"],
        "lat_max_ns": latency["max_ns"],
    }

"""Frames of three libraries: polars, pandas and DuckDB, none of which is required.

A function that returns a frame takes the name of the library, or uses the first of these that can
be imported. All work on rows happens in the library; only merged histograms reach Python.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import json
import tempfile
from typing import Any, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Union

from ._histogram import Histogram

#: The libraries, in the order in which they are tried.
LIBRARIES = ("polars", "pandas", "duckdb")

#: Columns that `percentiles` reads.
_HISTOGRAM = ("lat_bin", "lat_count", "lat_sum_ns", "lat_min_ns", "lat_max_ns")

#: Numbers for the names of DuckDB's tables.
_TABLES = itertools.count(1)

#: Values of a column that says which rows make a group.
Key = Tuple[Any, ...]


def choose_library(name: Optional[str]) -> str:
    """Return the name of the library to use: `name`, or the first that can be imported."""
    if name is not None:
        if name not in LIBRARIES:
            raise ValueError(f"unknown library `{name}`; known are {', '.join(LIBRARIES)}")
        return name
    for library in LIBRARIES:
        if importlib.util.find_spec(library):
            return library
    raise ImportError("no library for frames is installed: install polars, pandas or duckdb")


def library_of(frame: Any) -> str:
    """Return the name of the library that `frame` belongs to."""
    for base in type(frame).__mro__:
        name = base.__module__.split(".")[0].lstrip("_")
        if name in LIBRARIES:
            return name
    raise TypeError(
        f"`{type(frame).__name__}` is not a frame of polars or pandas, nor a relation of DuckDB"
    )


def frame_of_columns(
    columns: Mapping[str, Sequence[Any]], kinds: Mapping[str, str], library: str
) -> Any:
    """Return a frame with `columns`.

    `kinds` names the SQL type of columns whose values do not show it, because all are missing.
    """
    types = {name: _kind(values) or kinds.get(name, "VARCHAR") for name, values in columns.items()}
    module = importlib.import_module(library)
    if library == "polars":
        schema = {name: _polars_type(module, kind) for name, kind in types.items()}
        return module.DataFrame(dict(columns), schema=schema)
    if library == "pandas":
        # Nullable integers: with a missing value, others would become floats and lose digits.
        nullable = {"UBIGINT": "UInt64", "BIGINT": "Int64", "BOOLEAN": "boolean"}
        series = {
            name: module.Series(list(values), dtype=nullable.get(types[name]))
            for name, values in columns.items()
        }
        return module.DataFrame(series)
    return _duckdb_table(module, columns, types)


def _duckdb_table(duckdb: Any, columns: Mapping[str, Sequence[Any]], types: Dict[str, str]) -> Any:
    """Return a relation over a new temporary table of DuckDB's default connection.

    Other relations can be joined with it only on the same connection, and the one that
    `duckdb.sql` uses is open as long as the process runs.
    """
    name = _table_name()
    fields = ", ".join(f"{_quoted(column)} {kind}" for column, kind in types.items())
    duckdb.execute(f"CREATE TEMP TABLE {name} ({fields})")
    with tempfile.NamedTemporaryFile("w", suffix=".ndjson", encoding="utf-8") as file:
        for row in zip(*columns.values()):
            file.write(json.dumps(dict(zip(columns, row))) + "\n")
        file.flush()
        kinds = ", ".join(f"{_quoted(column)}: '{kind}'" for column, kind in types.items())
        read = f"read_json(?, format = 'newline_delimited', columns = {{{kinds}}})"
        duckdb.execute(f"INSERT INTO {name} SELECT * FROM {read}", [file.name])
    return duckdb.table(name)


def _quoted(name: str) -> str:
    """A name as SQL quotes it."""
    return '"' + name.replace('"', '""') + '"'


def _table_name() -> str:
    """A name that no table of this process has yet."""
    return f"mirrorball_{next(_TABLES)}"


def _kind(values: Iterable[Any]) -> Optional[str]:
    """The SQL type of a column; none if no value shows it."""
    kind = None
    for value in values:
        if isinstance(value, list):
            inner = _kind(value)
            if inner is not None:
                return inner + "[]"
        elif isinstance(value, bool):
            return "BOOLEAN"
        elif isinstance(value, int):
            if value < 0:
                return "BIGINT"
            kind = "UBIGINT"
        elif isinstance(value, float):
            return "DOUBLE"
        elif value is not None:
            return "VARCHAR"
    return kind


def _polars_type(polars: Any, kind: str) -> Any:
    if kind.endswith("[]"):
        return polars.List(_polars_type(polars, kind[:-2]))
    names = {
        "BOOLEAN": "Boolean",
        "BIGINT": "Int64",
        "UBIGINT": "UInt64",
        "DOUBLE": "Float64",
        "VARCHAR": "String",
    }
    return getattr(polars, names[kind])


def histograms(frame: Any, by: Union[str, Sequence[str]]) -> Dict[Key, Histogram]:
    """Return the merged histogram of each group of rows, by the values of the columns `by`."""
    columns = _group_columns(by)
    library = library_of(frame)
    if library == "polars":
        bins, totals = _merge_polars(frame, columns)
    elif library == "pandas":
        bins, totals = _merge_pandas(frame, columns)
    else:
        bins, totals = _merge_duckdb(frame, columns)
    width = len(columns)
    merged = {}
    for row in totals:
        sum_ns, least, greatest = row[width:]
        merged[tuple(row[:width])] = Histogram({}, sum_ns, int(least), int(greatest))
    for row in bins:
        merged[tuple(row[:width])].bins[int(row[width])] = int(row[width + 1])
    return dict(sorted(merged.items(), key=lambda item: [(v is None, v) for v in item[0]]))


def percentiles(
    frame: Any,
    by: Union[str, Sequence[str]],
    at: Sequence[float] = (0.5, 0.9, 0.99, 0.999, 0.9999),
) -> Any:
    """Return the number of requests, the mean and percentiles of the latency of each group of rows.

    `by` names the columns that make a group, such as `["policy", "job"]`. The histograms of a group
    are merged first, so a percentile is that of all its requests. Rows of reads and of writes are
    merged too if `direction` is not in `by` and the frame has both.

    The result is a frame of the same library, with a row for each group.
    """
    columns = _group_columns(by)
    groups = histograms(frame, columns)
    result: Dict[str, List[Any]] = {
        name: [key[place] for key in groups] for place, name in enumerate(columns)
    }
    result["requests"] = [histogram.count for histogram in groups.values()]
    result["mean_ns"] = [histogram.mean_ns for histogram in groups.values()]
    for fraction in at:
        name = percentile_column(fraction)
        result[name] = [histogram.quantile(fraction) for histogram in groups.values()]
    return frame_of_columns(result, {}, library_of(frame))


def percentile_column(fraction: float) -> str:
    """Return the name of the column of a percentile: `p99_9_ns` for 0.999."""
    return f"p{100 * fraction:.10g}_ns".replace(".", "_")


def _group_columns(by: Union[str, Sequence[str]]) -> List[str]:
    columns = [by] if isinstance(by, str) else list(by)
    if not columns:
        raise ValueError("`by` names no column: give at least one, such as `policy`")
    return columns


# Each of these returns (group, bin, count) rows and (group, sum, least, greatest) rows. Sums are of
# floats, because those of 64-bit integers wrap around from ten million long cells on.


def _merge_polars(frame: Any, by: List[str]) -> Tuple[Iterable[Any], Iterable[Any]]:
    polars = importlib.import_module("polars")
    column = polars.col
    rows = frame.lazy().select(*by, *_HISTOGRAM).filter(column("lat_bin").list.len() > 0)
    bins = (
        rows.select(*by, "lat_bin", "lat_count")
        .explode("lat_bin", "lat_count")
        .group_by(*by, "lat_bin")
        .agg(column("lat_count").sum())
    )
    totals = rows.group_by(*by).agg(
        column("lat_sum_ns").cast(polars.Float64).sum(),
        column("lat_min_ns").min(),
        column("lat_max_ns").max(),
    )
    return bins.collect().rows(), totals.collect().rows()


def _merge_pandas(frame: Any, by: List[str]) -> Tuple[Iterable[Any], Iterable[Any]]:
    rows = frame[[*by, *_HISTOGRAM]]
    rows = rows[rows["lat_bin"].map(len) > 0]
    exploded = rows[[*by, "lat_bin", "lat_count"]].explode(["lat_bin", "lat_count"])
    exploded = exploded.astype({"lat_bin": "int64", "lat_count": "uint64"})
    bins = exploded.groupby([*by, "lat_bin"], dropna=False)["lat_count"].sum().reset_index()
    totals = (
        rows.astype({"lat_sum_ns": "float64"})
        .groupby(by, dropna=False)
        .agg({"lat_sum_ns": "sum", "lat_min_ns": "min", "lat_max_ns": "max"})
        .reset_index()
    )
    return _pandas_rows(bins), _pandas_rows(totals)


def _pandas_rows(frame: Any) -> Iterable[Any]:
    """Rows with None for missing values."""
    pandas = importlib.import_module("pandas")
    for row in frame.itertuples(index=False, name=None):
        yield tuple(None if pandas.isna(value) else value for value in row)


def _merge_duckdb(frame: Any, by: List[str]) -> Tuple[Iterable[Any], Iterable[Any]]:
    names = ", ".join(map(_quoted, by))
    lists = f"SELECT {names}, unnest(lat_bin) AS bin, unnest(lat_count) AS count FROM rows"
    bins = frame.query(
        "rows", f"SELECT {names}, bin, sum(count) FROM ({lists}) GROUP BY {names}, bin"
    )
    totals = frame.query(
        "rows",
        f"SELECT {names}, sum(lat_sum_ns::DOUBLE), min(lat_min_ns), max(lat_max_ns) "
        f"FROM rows WHERE len(lat_bin) > 0 GROUP BY {names}",
    )
    return bins.fetchall(), totals.fetchall()

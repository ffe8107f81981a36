"""Frames of each library, and the percentiles of groups of rows."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, Dict, List

import pytest

import mirrorball as mb
from mirrorball import _frames, _rows


@pytest.fixture(params=_frames.LIBRARIES)
def library(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return str(request.param)


def records(frame: Any) -> List[Dict[str, Any]]:
    """The rows of any frame."""
    library = _frames.library_of(frame)
    if library == "polars":
        return list(frame.to_dicts())
    if library == "pandas":
        import pandas

        return [
            {n: None if v is pandas.NA or v != v else v for n, v in zip(frame.columns, row)}
            for row in frame.itertuples(index=False, name=None)
        ]
    return [dict(zip(frame.columns, row)) for row in frame.fetchall()]


def test_a_frame_has_every_figure_of_every_cell(small: mb.Comparison, library: str) -> None:
    frame = small.frame(library)
    assert _frames.library_of(frame) == library
    assert list(frame.columns) == list(_rows.COLUMNS)
    rows = records(frame)
    # Of `mixed`: reads and writes of one section, and reads of the other.
    assert len(rows) == 4 * 2 * (1 + 3)
    assert rows == small._rows


def test_large_seeds_keep_their_digits(small: mb.Comparison, library: str) -> None:
    seeds = {row["seed"] for row in records(small.frame(library))}
    assert seeds == {2**53 + 1, 2**53 + 2}


def test_columns_without_values_keep_their_type(library: str) -> None:
    rows = {name: [None, None] for name in ("duration_ns", "policy")}
    frame = _frames.frame_of_columns(rows, _rows.COLUMNS, library)
    assert records(frame) == [{"duration_ns": None, "policy": None}] * 2
    types = [str(kind).lower() for kind in getattr(frame, "types", frame.dtypes)]
    assert types[0] in ("uint64", "ubigint"), types


def test_percentiles_merge_histograms(small: mb.Comparison, library: str) -> None:
    frame = small.frame(library)
    rows = records(mb.percentiles(frame, by=["job", "policy", "section", "direction"]))
    assert len(rows) == 4 * (1 + 3)
    for row in rows:
        keys = {name: row[name] for name in ("job", "policy", "section", "direction")}
        merged = small.histogram(**keys)
        assert row["requests"] == merged.count
        assert row["mean_ns"] == pytest.approx(merged.mean_ns, rel=1e-12)
        assert row["p99_9_ns"] == merged.quantile(0.999)
        assert row["p50_ns"] == merged.quantile(0.5)


def test_percentiles_of_one_column_and_of_other_fractions(
    small: mb.Comparison, library: str
) -> None:
    rows = records(mb.percentiles(small.frame(library), by="direction", at=[0.25, 0.99999]))
    assert [row["direction"] for row in rows] == ["read", "write"]
    assert list(rows[0]) == ["direction", "requests", "mean_ns", "p25_ns", "p99_999_ns"]
    assert rows[0]["p25_ns"] < rows[0]["p99_999_ns"]


def test_missing_values_are_a_group(small: mb.Comparison, library: str) -> None:
    columns = _rows.columns_of(small._rows)
    columns["seed"] = [None if n == 0 else seed for n, seed in enumerate(columns["seed"])]
    frame = _frames.frame_of_columns(columns, _rows.COLUMNS, library)
    groups = mb.histograms(frame, by="seed")
    assert list(groups) == [(2**53 + 1,), (2**53 + 2,), (None,)]
    assert groups[(None,)] == _rows.histogram_of(small._rows[0])


def test_rows_without_requests_are_no_group(library: str) -> None:
    row: Dict[str, Any] = {
        name: [] if kind.endswith("[]") else 0 for name, kind in _rows.COLUMNS.items()
    }
    row.update(policy="first", lat_min_ns=7)
    full = {**row, "lat_bin": [7], "lat_count": [2], "lat_sum_ns": 14, "lat_max_ns": 7}
    columns = _rows.columns_of([row, {**full, "policy": "second"}, {**row, "policy": "second"}])
    frame = _frames.frame_of_columns(columns, _rows.COLUMNS, library)
    groups = mb.histograms(frame, by="policy")
    assert groups == {("second",): mb.Histogram({7: 2}, 14.0, 7, 7)}


def test_names_of_columns_are_quoted(library: str) -> None:
    columns: Dict[str, List[Any]] = {"it's": [1], 'the "job"': ["a"]}
    assert records(_frames.frame_of_columns(columns, {}, library)) == [
        {"it's": 1, 'the "job"': "a"}
    ]


def test_relations_of_duckdb_can_be_joined(small: mb.Comparison) -> None:
    duckdb = pytest.importorskip("duckdb")
    cells, matrix = small.frame("duckdb"), small.matrix("duckdb")
    joined = duckdb.sql("SELECT count(*) FROM cells JOIN matrix USING (policy)")
    assert cells.count("*").fetchall() == joined.fetchall()
    assert len(matrix) == 4


def test_percentiles_need_a_frame_and_a_column(small: mb.Comparison) -> None:
    with pytest.raises(TypeError, match="`list` is not a frame of polars or pandas"):
        mb.percentiles([], by="policy")
    with pytest.raises(ValueError, match="`by` names no column"):
        mb.percentiles(small, by=[])


def test_the_library_is_chosen_by_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"pandas", "duckdb"}

    def find_spec(name: str) -> object:
        return name if name in installed else None

    monkeypatch.setattr("importlib.util.find_spec", find_spec)
    assert _frames.choose_library(None) == "pandas"
    assert _frames.choose_library("polars") == "polars"
    with pytest.raises(ValueError, match="unknown library `numpy`; known are polars"):
        _frames.choose_library("numpy")
    installed.clear()
    with pytest.raises(ImportError, match="install polars, pandas or duckdb"):
        _frames.choose_library(None)


def test_the_package_imports_no_library() -> None:
    code = "import mirrorball, sys; print(sorted({'polars','pandas','numpy'} & set(sys.modules)))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert printed.stdout == "[]\n", printed.stderr

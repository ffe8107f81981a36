"""Percentiles, against those of the binary."""

from __future__ import annotations

import pytest

import mirrorball as mb
from mirrorball import _histogram


def test_bins_are_those_of_fio() -> None:
    # fio's keys in `json+`: exact below 128 ns, then the middles of 64 bins to the octave.
    assert [_histogram.bin_middle_ns(n) for n in (0, 127, 128, 129, 191, 192)] == [
        *(0, 127, 129, 131, 255, 258),
    ]
    assert _histogram.bin_middle_ns(_histogram.BINS - 1) == 17_112_760_320
    with pytest.raises(ValueError, match="there is no bin 1856"):
        _histogram.bin_middle_ns(_histogram.BINS)


def test_percentiles_of_a_cell_are_those_of_the_binary(small: mb.Comparison) -> None:
    checked = 0
    for cell in small.cells:
        for section in cell["sections"]:
            read = section["read"]
            histogram = small.histogram(
                policy=cell["cell"]["policy"],
                job=cell["cell"]["job"],
                seed=cell["cell"]["seed"],
                section=section["name"],
            )
            percentiles = read["percentiles"]
            assert histogram.count == read["ios"]
            assert int(histogram.mean_ns) == percentiles["mean_ns"]
            for name, fraction in [("50", 0.5), ("95", 0.95), ("99_9", 0.999), ("99_99", 0.9999)]:
                assert histogram.quantile(fraction) == percentiles[f"p{name}_ns"]
            checked += 1
    assert checked == 4 * 2 * 3, "four policies with the oracle, two seeds, three sections"


def test_repeats_are_merged_as_the_binary_merges_them(small: mb.Comparison) -> None:
    for job in small.study["jobs"]:
        for row in job["rows"]:
            figures = row["sections"][0]["figures"]
            merged = small.histogram(policy=row["policy"], job=job["job"])
            assert merged.quantile(0.999) / 1000 == figures["p99_9_us"]["value"]
            assert merged.quantile(0.5) / 1000 == figures["p50_us"]["value"]


def test_background_load_counts_only_by_name(small: mb.Comparison) -> None:
    main = small.histogram(job="mixed", section="mixed")
    background = small.histogram(job="mixed", section="reader")
    assert small.histogram(job="mixed") == main
    assert background.count > 0
    assert (main + background).count == main.count + background.count


def test_an_empty_histogram_has_zeros() -> None:
    empty = mb.Histogram()
    assert (empty.count, empty.mean_ns, empty.quantile(0.5)) == (0, 0.0, 0)
    assert (empty + empty).quantile(1.0) == 0
    with pytest.raises(ValueError, match="fraction from 0 to 1, not 99.9"):
        empty.quantile(99.9)


def test_unknown_values_are_named_with_the_known(small: mb.Comparison) -> None:
    with pytest.raises(ValueError, match="no results with policy `pid`; there are `btrfs/pid`, "):
        small.histogram(policy="pid")

"""`compare`, `open`, and how a comparison is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import mirrorball as mb


def test_results_are_saved_and_opened(small: mb.Comparison) -> None:
    opened = mb.open(small.folder)
    assert isinstance(opened, mb.Comparison)
    assert opened.study == small.study
    assert opened.cells == small.cells
    assert [cell["cell"]["policy"] for cell in small.cells[:2]] == ["btrfs/pid"] * 2


def test_the_same_call_again_runs_nothing(own_folder: Path) -> None:
    def call() -> mb.Comparison:
        return mb.compare("two-ssd-raid1", "rand-4k-qd1", ["btrfs/*"], repeats=1, duration="50ms")

    first = call()
    assert first.folder.parts[0] == "mirrorball-results", "the command's own default"
    saved = {path: path.stat().st_mtime_ns for path in first.folder.glob("cells/*")}
    assert saved
    again = call()
    assert again.folder == first.folder
    assert {path: path.stat().st_mtime_ns for path in first.folder.glob("cells/*")} == saved
    assert again.cells == first.cells


def test_the_command_repeats_the_comparison(small: mb.Comparison) -> None:
    assert small.command.startswith("mirrorball compare hdd-ssd-raid1 rand-4k-qd32 ")
    assert f"--seed {2**53 + 1} --duration 200ms" in small.command


def test_rank_and_baseline_reach_the_report(small: mb.Comparison) -> None:
    ranked = mb.open(small.folder, rank="p99", baseline="kakra/queue")
    assert isinstance(ranked, mb.Comparison)
    assert ranked.study["criteria"]["baseline"] == "kakra/queue"
    assert ranked.study["criteria"]["goal"]["figure"] == "p99"
    assert str(ranked) != str(small)


def test_errors_are_those_of_the_command() -> None:
    with pytest.raises(mb.CommandError) as caught:
        mb.compare("tow-ssd-raid1")
    assert caught.value.exit_code == 2
    assert caught.value.message.startswith("there is no file and no built-in array `tow-ssd-raid1`")
    assert "did you mean `two-ssd-raid1`?" in str(caught.value)
    with pytest.raises(mb.CommandError, match="unknown policy `btrfs/pit`"):
        mb.compare("two-ssd-raid1", policies="btrfs/pit")
    with pytest.raises(mb.CommandError):
        mb.open("no-such-folder")


def test_jobs_need_an_array() -> None:
    with pytest.raises(TypeError, match="`jobs` without `array`"):
        mb.compare(jobs="rand-4k-qd1")


def test_a_file_whose_name_begins_with_a_dash_is_no_option(own_folder: Path) -> None:
    Path("-o.fio").write_text("[a]\nrw=randread\nbs=4k\nruntime=1\n")
    result = mb.compare(
        "two-ssd-raid1", "-o.fio", "btrfs/pid", repeats=1, duration="10ms", output="-results"
    )
    assert result.jobs == ["-o"]
    assert result.folder.name == "-results"
    assert "btrfs/pid" in str(result)


def test_the_matrix_is_a_frame(small: mb.Comparison) -> None:
    pytest.importorskip("polars")
    matrix = small.matrix("polars")
    assert matrix.columns == [
        *("policy", "rand-4k-qd32", "mixed", "geometric_mean", "worst_job", "worst_percent")
    ]
    assert matrix["policy"].to_list() == small.policies
    assert small.policies[-1] == "oracle"


def test_html_has_the_verdict_and_the_matrix_and_no_markup_of_others(small: mb.Comparison) -> None:
    html = small._repr_html_()
    assert "<th>rand-4k-qd32</th><th>mixed</th>" in html
    assert "★ " + str(small.study["verdict"]["policy"]) in html
    study = json.loads(json.dumps(small.study))
    study["plan"]["array"]["name"] = "<script>"
    study["matrix"]["rows"][0]["policy"] = "<b>&"
    html = mb.Comparison(small.folder, study)._repr_html_()
    assert "<b>&lt;script&gt;</b>" in html
    assert "&lt;b&gt;&amp;" in html
    assert "<script" not in html


def test_text_is_that_of_the_report(small: mb.Comparison) -> None:
    assert "zfs/mirror+hedge" in str(small)
    assert repr(small) == f"<Comparison of 4 policies in {small.folder}>"


def test_plots_of_matplotlib(small: mb.Comparison) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    axes = small.plot_latency(["btrfs/pid", "kakra/queue"], job="mixed", library="matplotlib")
    assert [line.get_label() for line in axes.lines] == ["btrfs/pid", "kakra/queue"]
    latencies_ms, fractions = axes.lines[0].get_data()
    histogram = small.histogram(policy="btrfs/pid", job="mixed")
    at = next(n for n, fraction in enumerate(fractions) if fraction <= 0.01)
    assert latencies_ms[at] == histogram.quantile(0.99) / 1e6
    assert min(fractions) > 0
    axes = small.plot_matrix("matplotlib")
    assert len(axes.texts) == 4 * 2


def test_plots_of_altair(small: mb.Comparison) -> None:
    pytest.importorskip("altair")
    chart = small.plot_latency(["btrfs/pid"], library="altair").to_dict()
    assert chart["encoding"]["x"]["scale"] == {"type": "log"}
    assert chart["data"]["values"][0]["policy"] == "btrfs/pid"
    assert len(small.plot_matrix("altair").to_dict()["layer"]) == 2

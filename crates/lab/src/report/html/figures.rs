//! The figures of a job: a row per policy with its rate, its latencies and their intervals.
//!
//! The bar in front is the ranked figure; the whisker across its end is the 95 % interval over
//! repeats. Where two whiskers overlap, look for the tie mark: ties are told by paired differences,
//! which see more than two intervals side by side.

use super::View;
use super::gather::{JobSet, JobView, PolicyRun};
use super::matrix::mark;
use crate::experiment::study::{Estimate, IoKind, JobStudy, Row, RowFigures, Standing, Yardstick};
use crate::report::chart::number::{duration, plain};
use crate::report::chart::scale::Scale;
use crate::report::chart::{SIDE, path};
use maud::{Markup, html};

/// A column of the table.
struct FigureColumn {
    heading: &'static str,
    pick: fn(&RowFigures) -> Estimate,
    write: fn(f64) -> String,
}

const COLUMNS: [FigureColumn; 7] = [
    FigureColumn { heading: "IOPS", pick: |figures| figures.iops, write: plain },
    FigureColumn { heading: "MiB/s", pick: |figures| figures.mib_per_s, write: plain },
    FigureColumn { heading: "mean", pick: |figures| figures.mean_us, write: duration },
    FigureColumn { heading: "p50", pick: |figures| figures.p50_us, write: duration },
    FigureColumn { heading: "p99", pick: |figures| figures.p99_us, write: duration },
    FigureColumn { heading: "p99.9", pick: |figures| figures.p99_9_us, write: duration },
    FigureColumn { heading: "p99.99", pick: |figures| figures.p99_99_us, write: duration },
];

/// The table of one set.
pub(super) fn draw(view: &View<'_>, job: &JobView<'_>, set: &JobSet<'_>) -> Markup {
    let mut runs: Vec<&PolicyRun<'_>> = set.runs.iter().collect();
    let slowness = |run: &PolicyRun<'_>| match set.study.yardstick {
        Yardstick::Iops | Yardstick::Score => -run.row.score.value,
        Yardstick::MeanLatency => set.study.main_figures(run.row).mean_us.value,
    };
    runs.sort_by(|left, right| {
        let is_oracle = |run: &PolicyRun<'_>| run.row.standing == Standing::Reference;
        let by_speed = slowness(left).total_cmp(&slowness(right));
        is_oracle(left).cmp(&is_oracle(right)).then(by_speed)
    });
    let caption = format!("{}{}", ranked_by(set), view.of_set(set.part));
    html! {
        div.scroll tabindex="0" role="group" aria-label={ (job.name) ": " (caption) } {
            table.figures data-kind="figures" data-job=(job.number) {
                caption { (caption) }
                thead {
                    tr {
                        th scope="col" { "policy" }
                        th.bar scope="col" { (bar_heading(set)) }
                        @for column in &COLUMNS { th.number scope="col" { (column.heading) } }
                        th.number scope="col" title="in percent of the oracle's" { "oracle" }
                    }
                }
                tbody { @for run in runs { (row(view, job, set, run)) } }
            }
        }
    }
}

fn row(view: &View<'_>, job: &JobView<'_>, set: &JobSet<'_>, run: &PolicyRun<'_>) -> Markup {
    let entry = view.styles.get(run.policy);
    let figures = set.study.main_figures(run.row);
    html! {
        tr data-policy=(run.policy) {
            th scope="row" {
                span class={ "swatch " (entry.classes) } {}
                (entry.name) " " span.mark { (mark(run.row.standing)) }
            }
            td.bar { (bar(job, ranked(set.study, run.row), &entry.classes)) }
            @for column in &COLUMNS { (cell((column.pick)(figures), column.write)) }
            td.number {
                @if let Some(fraction) = run.row.fraction_of_oracle {
                    (format!("{:.0} %", 100.0 * fraction))
                }
            }
        }
        @if figures.errors > 0 {
            tr.failed data-policy=(run.policy) {
                td colspan=(COLUMNS.len() + 3) { (figures.errors) " requests failed" }
            }
        }
    }
}

fn cell(estimate: Estimate, write: fn(f64) -> String) -> Markup {
    let title = estimate
        .low
        .zip(estimate.high)
        .map(|(low, high)| format!("95 % interval {} to {}", write(low), write(high)));
    html! {
        td.number title=[title] {
            (write(estimate.value))
            @if let Some(relative) = estimate.relative() {
                small { "±" (format!("{:.0}", 100.0 * relative)) " %" }
            }
        }
    }
}

/// A bar from nothing to the value, and its whisker.
fn bar(job: &JobView<'_>, estimate: Estimate, classes: &str) -> Markup {
    let longest = job.sets.iter().flat_map(|set| {
        set.runs.iter().map(|run| {
            let Estimate { value, high, .. } = ranked(set.study, run.row);
            high.unwrap_or(value).max(value)
        })
    });
    let scale = Scale::up_to(longest.fold(0.0, f64::max));
    let end = scale.place(estimate.value);
    let whisker = estimate.low.zip(estimate.high).map(|ends| whisker(scale, ends));
    html! {
        svg viewBox={ "0 0 " (SIDE) " " (SIDE) } preserveAspectRatio="none" aria-hidden="true" {
            path class={ "length " (classes) } d=(path::boxes([(0.0, end, 0.15, 0.85)])) {}
            @if let Some(whisker) = whisker { path.whisker d=(whisker) {} }
        }
    }
}

/// An interval across a bar: a line with a cap at either end.
pub(super) fn whisker(scale: Scale, (low, high): (f64, f64)) -> String {
    let (low, high) = (scale.place(low), scale.place(high));
    let caps = [low, high].into_iter().flat_map(|at| [Some((at, 0.3)), Some((at, 0.7)), None]);
    path::line([Some((low, 0.5)), Some((high, 0.5)), None].into_iter().chain(caps))
}

fn ranked(job: &JobStudy, row: &Row) -> Estimate {
    match job.yardstick {
        Yardstick::Iops => job.main_figures(row).iops,
        Yardstick::MeanLatency => job.main_figures(row).mean_us,
        Yardstick::Score => row.score,
    }
}

fn bar_heading(set: &JobSet<'_>) -> &'static str {
    match set.study.yardstick {
        Yardstick::Iops => "IOPS, more is better",
        Yardstick::MeanLatency => "mean latency, less is better",
        Yardstick::Score => "score, more is better",
    }
}

fn ranked_by(set: &JobSet<'_>) -> String {
    let section = &set.study.sections[set.study.main_section()];
    let requests = match section.main_kind {
        IoKind::Read => "Reads",
        IoKind::Write => "Writes",
        IoKind::Trim => "Trims",
        IoKind::Fsync => "Flushes",
    };
    match (set.study.yardstick, section.asked_iops) {
        (Yardstick::Score, _) => format!("{requests} of {}, ranked by score", section.name),
        (Yardstick::Iops, _) => format!("{requests}, ranked by requests per second"),
        (Yardstick::MeanLatency, None) => {
            format!("{requests}, ranked by mean latency: the job sets its own rate")
        }
        (Yardstick::MeanLatency, Some(asked)) => {
            format!("{requests}, ranked by mean latency: the job asks for {} IOPS", plain(asked))
        }
    }
}

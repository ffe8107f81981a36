//! Further sets against the first, policy by policy: how many times as fast, and how sure that is.
//!
//! The bar grows from equal speed to the left (slower) or right (faster) on a logarithmic axis, so
//! that twice and half as fast are as long; the whisker is the 95 % interval. What the study cannot
//! tell from equal is said to be so, however long its bar.

use super::View;
use super::figures::whisker;
use crate::experiment::study::{Change, ComparisonRow, JobComparison, Significance, Yardstick};
use crate::report::chart::number::{duration, plain};
use crate::report::chart::scale::Scale;
use crate::report::chart::{SIDE, path};
use maud::{Markup, html};

/// The axis reaches at least to this speed-up.
const REACH_MIN: f64 = 1.25;
/// And at most: longer bars are cut.
const REACH_MAX: f64 = 32.0;

/// What the sets amount to against the first, and what else differs between them.
pub(super) fn summary(view: &View<'_>) -> Markup {
    html! {
        @if let Some(comparison) = &view.comparison {
            section.differences {
                h2 { "Against " (comparison.labels[0]) }
                @for overall in &comparison.overall {
                    p.verdict { (overall.sentence.replace('`', "")) }
                }
                @for remark in &comparison.remarks { p.note { (remark.replace('`', "")) } }
            }
        }
    }
}

/// The table of a job; nothing if there is one set only, or no other has the job.
pub(super) fn of_job(view: &View<'_>, name: &str) -> Markup {
    let Some(comparison) = &view.comparison else { return html! {} };
    let Some(job) = comparison.jobs.iter().find(|job| job.job == name) else { return html! {} };
    let first = &comparison.labels[0];
    html! {
        @for (place, label) in comparison.labels[1..].iter().enumerate() {
            (table(view, job, place, (first, label)))
        }
    }
}

fn table(
    view: &View<'_>,
    job: &JobComparison,
    place: usize,
    (first, label): (&str, &str),
) -> Markup {
    let caption = format!("{label} against {first}: more than 1 is faster");
    let scale = scale(job, place);
    html! {
        div.scroll tabindex="0" role="group" aria-label={ (job.job) ": " (caption) } {
            table.figures data-kind="differences" {
                caption {
                    (caption)
                    @if let Some(agreement) = job.rank_agreement[place] {
                        ". Order of policies: Kendall’s τ " (format!("{agreement:.2}"))
                    }
                }
                thead {
                    tr {
                        th scope="col" { "policy" }
                        th.number scope="col" { (first) }
                        th.number scope="col" { (label) }
                        th.bar scope="col" { "slower  |  faster" }
                        th.number scope="col" { "times as fast" }
                        th scope="col" { "which is" }
                    }
                }
                tbody {
                    @for row in &job.rows {
                        @if let Some(change) = &row.changes[place] {
                            (line(view, job.yardstick, scale, row, change))
                        }
                    }
                }
            }
        }
    }
}

fn line(
    view: &View<'_>,
    yardstick: Yardstick,
    scale: Scale,
    row: &ComparisonRow,
    change: &Change,
) -> Markup {
    let number = view.styles.number(&row.policy);
    let entry = view.styles.get(number);
    let write = |value: f64| match yardstick {
        Yardstick::Iops => format!("{} IOPS", plain(value)),
        Yardstick::MeanLatency => duration(value),
        Yardstick::Score => plain(value),
    };
    let relative = |estimate: crate::experiment::study::Estimate| {
        estimate.relative().map(|relative| format!("±{:.0} %", 100.0 * relative))
    };
    let (class, words) = match change.significance {
        Significance::Faster => ("better", "faster"),
        Significance::Slower => ("worse", "slower"),
        Significance::Tied => ("", "tied: the interval contains equality"),
        Significance::Unknown => ("", "one repeat: perhaps by chance"),
    };
    html! {
        tr data-policy=(number) {
            th scope="row" { span class={ "swatch " (entry.classes) } {} (entry.name) }
            td.number {
                (write(row.first.value))
                small { (relative(row.first).unwrap_or_default()) }
            }
            td.number {
                (write(change.figure.value))
                small { (relative(change.figure).unwrap_or_default()) }
            }
            td.bar { (bar(scale, change, &entry.classes)) }
            td.number {
                @if let Some(speed) = change.speed {
                    b { (plain(speed.value)) }
                    @if let Some((low, high)) = speed.low.zip(speed.high) {
                        small { (plain(low)) " to " (plain(high)) }
                    }
                }
            }
            td class=(class) { (words) }
        }
    }
}

/// A bar from equal speed in the middle, and its whisker.
fn bar(scale: Scale, change: &Change, classes: &str) -> Markup {
    let Some(speed) = change.speed else { return html! {} };
    let end = scale.place(speed.value);
    let (left, right) = (end.min(0.5), end.max(0.5));
    let whisker = speed.low.zip(speed.high).map(|ends| whisker(scale, ends));
    html! {
        svg viewBox={ "0 0 " (SIDE) " " (SIDE) } preserveAspectRatio="none" aria-hidden="true" {
            path class={ "length " (classes) } d=(path::boxes([(left, right, 0.15, 0.85)])) {}
            path.middle d=(path::line([Some((0.5, 0.0)), Some((0.5, 1.0))])) {}
            @if let Some(whisker) = whisker { path.whisker d=(whisker) {} }
        }
    }
}

/// Around equal speed, as far as any change reaches.
fn scale(job: &JobComparison, place: usize) -> Scale {
    let speeds = job.rows.iter().filter_map(|row| row.changes[place].as_ref()?.speed);
    let reach = speeds
        .flat_map(|speed| [Some(speed.value), speed.low, speed.high])
        .flatten()
        .filter(|speed| *speed > 0.0)
        .map(|speed| speed.max(1.0 / speed))
        .fold(REACH_MIN, f64::max)
        .min(REACH_MAX);
    Scale::Log { from: 1.0 / reach, to: reach }
}

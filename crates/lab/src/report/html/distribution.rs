//! Latency of a job by policy: the distribution with its tail stretched, for each section.
//!
//! A cumulative distribution: the horizontal axis is the fraction of requests that were faster,
//! each further nine as wide as the one before; the vertical axis is the latency, logarithmic. On
//! it the slowest request in ten thousand is as wide as the median, and lines end at the right,
//! next to their names. (The form is that of HdrHistogram's percentile plots.)

use super::View;
use super::gather::{JobSet, JobView, PolicyRun};
use super::overlay::{Overlay, PolicyLine};
use crate::report::chart::frame::{Axis, Frame, Steps, Unit, values};
use crate::report::chart::scale::{Scale, WIDE};
use crate::report::chart::{number, path};
use maud::html;
use mirrorball_core::histogram::Histogram;

/// Points of a line for each nine, the first of which stands for half of all requests and more.
const POINTS_PER_NINE: f64 = 12.0;
/// Nines that are shown at most: beyond, even long runs have no requests.
const NINES_MAX: f64 = 5.0;
/// And at least: shorter axes would show next to no tail.
const NINES_MIN: f64 = 2.0;

/// The charts of one set: one per section.
pub(super) fn charts(view: &View<'_>, job: &JobView<'_>, set: &JobSet<'_>) -> Vec<Overlay> {
    (0..set.study.sections.len()).map(|section| chart(view, job, set, section)).collect()
}

/// All sets share the scales of a section.
fn chart(view: &View<'_>, job: &JobView<'_>, set: &JobSet<'_>, section: usize) -> Overlay {
    let name = &set.study.sections[section].name;
    let is_only = set.study.sections.len() == 1;
    let of_section = if is_only { String::new() } else { format!(", section {name}") };
    // The job of another set may have fewer sections.
    let latency = |run: &PolicyRun<'_>| run.latencies.get(section).cloned().unwrap_or_default();
    let nines = nines(job.most(|run| latency(run).count() as f64));
    let fractions = fractions(nines);
    let tail = Scale::Tail { nines };
    let shown = job.runs().filter(|run| view.styles.get(run.policy).is_shown);
    let least = micros(shown.map(|run| floor_ns(&latency(run))).min().unwrap_or(0));
    let most = job.most(|run| micros(latency(run).max().unwrap_or_default().0));
    let y = Scale::around(least, most);
    let frame = Frame {
        kind: "distribution",
        job: job.number,
        part: set.part,
        section: (!is_only).then_some(section),
        policy: None,
        label: format!("Latency distribution of {}{of_section}{}", job.name, view.of_set(set.part)),
        caption: html! { "Latency distribution" (of_section) (view.set_mark(set.part)) },
        x: Axis::new(tail, WIDE, number::nines).titled("of requests are faster"),
        y: Axis::new(y, WIDE, number::short_duration),
        steps: Steps::Places(
            fractions.iter().map(|&at| (tail.place(at), format!("p{}", percentile(at)))).collect(),
        ),
        unit: Unit::Micros,
    };
    let line = |run: &PolicyRun<'_>| {
        let line = latencies(&latency(run), &fractions);
        let end = y.place(line.iter().flatten().last().copied()?);
        let places = fractions.iter().zip(&line);
        let places = places.map(|(&at, value)| Some((tail.place(at), y.place((*value)?))));
        let path = path::line(places);
        let shapes = html! {
            g data-policy=(run.policy) data-values=(values(line)) {
                path class={ "line " (view.styles.get(run.policy).classes) } d=(path) {}
            }
        };
        Some(PolicyLine { policy: run.policy, shapes, end })
    };
    Overlay { frame, lines: set.runs.iter().filter_map(line).collect() }
}

/// The first percentile: lower latencies would take half the axis. A policy that is not shown
/// initially may begin lower, on the axis itself.
fn floor_ns(latency: &Histogram) -> u64 {
    if latency.count() == 0 { u64::MAX } else { latency.quantile(0.01).0 }
}

/// Number of nines that the longest run can show: one request is slower than the last.
fn nines(count: f64) -> f64 {
    count.max(1.0).log10().clamp(NINES_MIN, NINES_MAX)
}

/// Fractions at equal distances on the stretched axis.
fn fractions(nines: f64) -> Vec<f64> {
    (0..=(nines * POINTS_PER_NINE + 1e-9) as usize)
        .map(|point| 1.0 - 10f64.powf(-(point as f64) / POINTS_PER_NINE))
        .collect()
}

/// Latencies in microseconds; none where fewer than one request lies beyond.
fn latencies(histogram: &Histogram, fractions: &[f64]) -> Vec<Option<f64>> {
    let count = histogram.count() as f64;
    let is_known = |fraction: f64| count > 0.0 && (1.0 - fraction) * count >= 1.0 - 1e-9;
    let latency = |&at: &f64| is_known(at).then(|| micros(histogram.quantile(at.max(0.01)).0));
    fractions.iter().map(latency).collect()
}

/// A fraction as a percentile, with enough digits to differ from the next.
fn percentile(fraction: f64) -> String {
    let rest = 100.0 * (1.0 - fraction);
    let decimals = (1.0 - rest.log10()).ceil().clamp(0.0, 6.0) as usize;
    let text = format!("{:.decimals$}", 100.0 * fraction);
    if text.contains('.') {
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        text
    }
}

fn micros(ns: u64) -> f64 {
    ns as f64 / 1e3
}

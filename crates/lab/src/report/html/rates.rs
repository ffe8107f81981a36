//! Requests and bytes per second over time, every shown policy in one chart.
//!
//! A line is the mean over repeats, the shade around it reaches from the least repeat to the most.

use super::View;
use super::gather::{JobSet, JobView, PolicyRun};
use super::overlay::{Overlay, PolicyLine};
use super::series::{RateRange, Series};
use crate::experiment::study::IoKind;
use crate::report::chart::frame::{Axis, Frame, Steps, Unit, values};
use crate::report::chart::number;
use crate::report::chart::path;
use crate::report::chart::scale::{Scale, WIDE};
use maud::{Markup, html};

/// One of the two quantities.
struct Rate {
    kind: &'static str,
    unit: &'static str,
    caption: [&'static str; 2],
    pick: fn(&Series) -> &[Option<RateRange>],
}

/// The charts of rates. Writes over time are recorded per member only.
const RATES: [Rate; 2] = [
    Rate {
        kind: "iops",
        unit: "IOPS",
        caption: ["Reads per second", "Writes to members per second"],
        pick: |series| &series.iops,
    },
    Rate {
        kind: "throughput",
        unit: "MiB/s",
        caption: ["Throughput", "Throughput of members"],
        pick: |series| &series.mib_per_s,
    },
];

/// The charts of each quantity, set by set; quantities without data over time have none.
pub(super) fn charts(view: &View<'_>, job: &JobView<'_>) -> Vec<Overlay> {
    let has_any = |rate: &&Rate| job.most(|run| most(run, rate)) > 0.0;
    let of_sets = |rate| job.sets.iter().map(move |set| chart(view, job, set, rate));
    RATES.iter().filter(has_any).flat_map(of_sets).collect()
}

fn most(run: &PolicyRun<'_>, rate: &Rate) -> f64 {
    let ranges = (rate.pick)(&run.series).iter().flatten();
    ranges.map(|range| range.most).fold(0.0, f64::max)
}

fn chart(view: &View<'_>, job: &JobView<'_>, set: &JobSet<'_>, rate: &Rate) -> Overlay {
    let y = Scale::up_to_a_tick(job.most(|run| most(run, rate)), WIDE);
    let caption = rate.caption[usize::from(job.judged_by != IoKind::Read)];
    let frame = Frame {
        kind: rate.kind,
        job: job.number,
        part: set.part,
        section: None,
        policy: None,
        label: format!("{caption} over time under {}{}", job.name, view.of_set(set.part)),
        caption: html! { (caption) " " span.unit { (rate.unit) } (view.set_mark(set.part)) },
        x: time_axis(job),
        y: Axis::new(y, WIDE, number::short),
        steps: columns(job),
        unit: Unit::Word(rate.unit),
    };
    let line = |run: &PolicyRun<'_>| {
        let ranges = (rate.pick)(&run.series);
        let end = y.place(ranges.iter().flatten().last()?.mean);
        let shapes = shapes(run, ranges, y, &view.styles.get(run.policy).classes);
        Some(PolicyLine { policy: run.policy, shapes, end })
    };
    Overlay { frame, lines: set.runs.iter().filter_map(line).collect() }
}

fn shapes(run: &PolicyRun<'_>, ranges: &[Option<RateRange>], y: Scale, classes: &str) -> Markup {
    let middle = |column: usize| (column as f64 + 0.5) / ranges.len() as f64;
    let means = path::through_columns(ranges.iter().map(|it| Some(y.place((*it)?.mean))));
    let spans: Vec<Option<(f64, f64, f64)>> = ranges
        .iter()
        .enumerate()
        .map(|(at, range)| range.map(|r| (middle(at), y.place(r.least), y.place(r.most))))
        .collect();
    let spans = path::band(&spans);
    html! {
        g data-policy=(run.policy)
            data-values=(values(ranges.iter().map(|range| Some((*range)?.mean))))
        {
            path class={ "band " (classes) } d=(spans) {}
            path class={ "line " (classes) } d=(means) {}
        }
    }
}

/// The horizontal axis of everything over time.
pub(super) fn time_axis(job: &JobView<'_>) -> Axis {
    let scale = Scale::Linear { from: 0.0, to: job.grid.seconds().max(1e-6) };
    Axis::new(scale, WIDE, |seconds| number::short_duration(1e6 * seconds))
}

/// Hovering over anything over time.
pub(super) fn columns(job: &JobView<'_>) -> Steps {
    Steps::Columns { count: job.grid.count, seconds: job.grid.column_us as f64 / 1e6 }
}

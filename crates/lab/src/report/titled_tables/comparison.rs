//! The tables that compare further sets of results with the first: one per job and further set.

use super::{TitledTable, clipped, micros, number};
use crate::experiment::study::{Comparison, Estimate, JobComparison, Significance, Yardstick};
use crate::report::grid::{Column, Emphasis, Grid};
use mirrorball_core::policies::short_policy_name;

/// Longest label above a column, in characters.
const LABEL_MAX: usize = 14;

pub(in crate::report) fn all(comparison: &Comparison, width: usize) -> Vec<TitledTable> {
    let places = 0..comparison.overall.len();
    let of_set = |place| {
        let jobs = comparison.jobs.iter();
        jobs.filter_map(move |job| table(comparison, job, place, width))
    };
    places.flat_map(of_set).collect()
}

/// What the marks mean.
pub(in crate::report) fn legend() -> Vec<Vec<&'static str>> {
    vec![
        vec!["+ faster, - slower (the 95 % interval of the difference excludes zero)", "= tied"],
        vec!["? not testable: one repeat only", "± half that interval"],
    ]
}

/// `None` if the set shares no policy under the job.
fn table(
    comparison: &Comparison,
    job: &JobComparison,
    place: usize,
    width: usize,
) -> Option<TitledTable> {
    let (first, other) = (&comparison.labels[0], &comparison.labels[place + 1]);
    let what = match job.yardstick {
        Yardstick::Iops => "IOPS",
        Yardstick::MeanLatency => "mean\nlatency",
        Yardstick::Score => "score",
    };
    let figure = |label: &str| Column::right(what).under(clipped(label, LABEL_MAX));
    let half_width = |label: &str| Column::right("±").under(clipped(label, LABEL_MAX)).droppable(2);
    let value = |estimate: &Estimate| match job.yardstick {
        Yardstick::Iops | Yardstick::Score => number(estimate.value),
        Yardstick::MeanLatency => micros(estimate.value),
    };
    let changes = job.rows.iter().filter_map(|row| Some((row, row.changes[place].as_ref()?)));
    let grid = Grid::of(changes)
        .marked(|(_, change)| emphasis(change.significance))
        .column(Column::left("policy"), |(row, _)| short_policy_name(&row.policy))
        .column(figure(first), |(row, _)| value(&row.first))
        .column(half_width(first), |(row, _)| relative(&row.first))
        .column(figure(other), |(_, change)| value(&change.figure))
        .column(half_width(other), |(_, change)| relative(&change.figure))
        .column(Column::right("speed"), |(_, change)| {
            let speed = change.speed.map(|speed| format!("{:+.1}%", 100.0 * (speed.value - 1.0)));
            speed.unwrap_or("-".to_owned())
        })
        .column(Column::right("±").droppable(1), |(_, change)| {
            let half = change.speed.and_then(|speed| Some((speed.high? - speed.low?) / 2.0));
            half.map_or("-".to_owned(), |width| format!("{:.1}%", 100.0 * width))
        })
        .build();
    if grid.rows.is_empty() {
        return None;
    }
    let heading = format!("{}, {other} against {first}", job.job);
    let mut table = TitledTable::fitted(heading, grid, width);
    table.remarks.extend(job.rank_agreement[place].map(|tau| {
        format!("order of the policies: Kendall's tau {tau:.2} (1 the same, -1 the reverse)")
    }));
    Some(table)
}

fn relative(estimate: &Estimate) -> String {
    estimate.relative().map_or("-".to_owned(), |width| format!("{:.0}%", 100.0 * width))
}

fn emphasis(significance: Significance) -> Emphasis {
    match significance {
        Significance::Faster => Emphasis::Faster,
        Significance::Slower => Emphasis::Slower,
        Significance::Tied => Emphasis::Tied,
        Significance::Unknown => Emphasis::Unsure,
    }
}

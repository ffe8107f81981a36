//! Percentiles of the latency over time as a heat map: a row per percentile, a column per moment.

use super::View;
use super::gather::JobView;
use super::series::HEAT_ROWS;
use super::subject::Subject;
use crate::report::chart::frame::{Axis, Unit, values};
use crate::report::chart::scale::Scale;
use crate::report::chart::{number, path};
use maud::{Markup, html};

/// Colours of heat in the style sheet, `h0` (fast) and so on.
const LEVELS: usize = 9;

/// The heat map of one policy; none without latencies over time.
pub(super) fn panel(view: &View<'_>, subject: &Subject<'_, '_>) -> Option<Markup> {
    let Subject { job, run, .. } = subject;
    let columns_known = &run.series.percentiles;
    if columns_known.iter().all(Option::is_none) {
        return None;
    }
    let scale = job.heat;
    let names: Vec<String> = HEAT_ROWS.iter().map(|(name, _)| (*name).to_owned()).collect();
    let what = ("heat", "Percentiles of read latency over time");
    let mut frame = subject.frame(view, what, Axis::rows(&names), Unit::Micros);
    if run.series.is_of_means {
        frame.caption = html! { span.unit { "of means, as fio’s log has them" } };
    }
    let row = |row: usize| columns_known.iter().map(move |column| Some((*column)?[row]));
    Some(frame.draw(&html! {
        @for (level, shape) in shapes(columns_known, scale).iter().enumerate() {
            @if !shape.is_empty() { path class={ "heat h" (level) } d=(shape) {} }
        }
        @for (place, (name, _)) in HEAT_ROWS.iter().enumerate().rev() {
            g data-name=(name) data-values=(values(row(place))) {}
        }
    }))
}

/// The colours and the latencies at the ends of the scale.
pub(super) fn legend(job: &JobView<'_>) -> Markup {
    let Scale::Log { from, to } = job.heat else { unreachable!("heat is logarithmic") };
    html! {
        p.legend {
            span { (number::duration(from)) }
            span.ramp { @for level in 0..LEVELS { i class={ "h" (level) } {} } }
            span { (number::duration(to)) }
        }
    }
}

/// A path per level; neighbours of one level in a row are one box.
pub(super) fn shapes(columns: &[Option<[f64; 5]>], scale: Scale) -> Vec<String> {
    let edge = |column: usize| column as f64 / columns.len() as f64;
    let border = |row: usize| row as f64 / HEAT_ROWS.len() as f64;
    let level = |micros: f64| ((scale.place(micros) * LEVELS as f64) as usize).min(LEVELS - 1);
    let mut boxes: Vec<Vec<(f64, f64, f64, f64)>> = vec![Vec::new(); LEVELS];
    for row in 0..HEAT_ROWS.len() {
        let levels: Vec<Option<usize>> =
            columns.iter().map(|column| Some(level((*column)?[row]))).collect();
        let mut first = 0;
        for stretch in levels.chunk_by(|left, right| left == right) {
            let until = first + stretch.len();
            if let Some(level) = stretch[0] {
                boxes[level].push((edge(first), edge(until), border(row), border(row + 1)));
            }
            first = until;
        }
    }
    boxes.into_iter().map(path::boxes).collect()
}

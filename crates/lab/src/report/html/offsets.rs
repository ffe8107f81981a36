//! Where on each member reads went, over time, and how often its head had to move: seekwatcher's
//! picture.
//!
//! Each member is a lane from its nearest read to its farthest. The dots are drawn on a canvas by
//! the script, since a few hundred elements per panel would make the page slow; they come as
//! numbers in `data-dots`, four per dot in the order of time: milliseconds since the dot before,
//! lane, place in the lane in 1/10000, and the wait in microseconds to three digits.

use super::View;
use super::gather::JobView;
use super::heat;
use super::members::lines;
use super::series::Dot;
use super::subject::Subject;
use crate::report::chart::frame::{Axis, Unit};
use crate::report::chart::number;
use crate::report::chart::scale::Scale;
use maud::{Markup, html};

/// Places in a lane: more than it has pixels.
const PLACES: u64 = 10_000;

/// The picture of one policy; none if no read was sampled.
pub(super) fn panel(view: &View<'_>, subject: &Subject<'_, '_>) -> Option<Markup> {
    let Subject { job, run, .. } = subject;
    if run.series.dots.is_empty() {
        return None;
    }
    let names: Vec<String> = job.devids.iter().map(|devid| format!("devid {devid}")).collect();
    let what = ("offsets", "Offset of sampled reads over time");
    let frame = subject.frame(view, what, Axis::rows(&names), Unit::Word("dots"));
    let canvas = html! {
        canvas data-reach=(reach(job)) data-heat=(heat_ends(job))
            data-dots=(dots(job, &run.series.dots)) {}
    };
    let what = ("seeks", "Seeks per second and member");
    let seeks = lines(view, subject, what, "seeks/s", |member| &member.seeks);
    Some(html! {
        (frame.draw_with(&html! {}, Some(&canvas), &html! {}))
        @if let Some(seeks) = seeks {
            p.between { "seeks per second" }
            (seeks)
        }
    })
}

/// What the dots' colours mean: the wait, on the scale of the heat map.
pub(super) fn legend(job: &JobView<'_>) -> Markup {
    heat::legend(job)
}

fn dots(job: &JobView<'_>, dots: &[Dot]) -> String {
    let mut sorted = dots.to_vec();
    sorted.sort_by_key(|dot| (dot.at_us, dot.devid));
    let mut before_ms = 0;
    let numbers = sorted.iter().filter_map(|dot| {
        let lane = job.devids.iter().position(|&devid| devid == dot.devid)?;
        let (nearest, farthest) = job.reach_kib[lane];
        let place = PLACES * (dot.offset_kib - nearest) / (farthest - nearest).max(1);
        let at_ms = dot.at_us / 1000;
        let since_ms = at_ms - before_ms;
        before_ms = at_ms;
        Some(format!("{since_ms},{lane},{place},{}", three_digits(dot.wait_us)))
    });
    numbers.collect::<Vec<String>>().join(",")
}

/// From where to where each lane reaches, in MiB.
fn reach(job: &JobView<'_>) -> String {
    let ends = job.reach_kib.iter().flat_map(|&(nearest, farthest)| [nearest, farthest]);
    let mebibytes = ends.map(|kib| number::bare(kib as f64 / 1024.0));
    mebibytes.collect::<Vec<String>>().join(",")
}

/// The ends of the scale of heat in microseconds.
fn heat_ends(job: &JobView<'_>) -> String {
    let Scale::Log { from, to } = job.heat else { unreachable!("heat is logarithmic") };
    format!("{},{}", number::bare(from), number::bare(to))
}

/// Rounds to three digits, which is all that is shown, to keep the page small.
fn three_digits(value: u64) -> u64 {
    let unit = 10u64.pow(value.max(1).ilog10().saturating_sub(2));
    (value + unit / 2) / unit * unit
}

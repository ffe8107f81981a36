//! The picture of a run: where on the disks it read and how much each moved, over time, as
//! seekwatcher draws it.
//!
//! The dots are the sampled reads of the record, the steps below them the bytes of its intervals,
//! reads and writes: where there are steps and no dots, the run wrote.

use crate::report::chart::frame::{Axis, Frame, Steps, Unit};
use crate::report::chart::scale::{SMALL, Scale, WIDE};
use crate::report::chart::{number, path};
use maud::{Markup, html};
use mirrorball_core::units::KIB;
use mirrorball_sim::record::RunRecord;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most dots in a picture; more would not be distinguishable.
const DOTS_MAX: usize = 600;
/// Colours of disks in the style sheet, `m0` and so on.
const COLOURS: usize = 8;

/// What a picture shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Picture {
    /// The row whose run it is.
    pub row: String,
    /// How long the run took.
    pub seconds: f64,
    /// The disks, in their order.
    pub devids: Vec<u64>,
    /// Some of the reads, in their order.
    pub reads: Vec<Dot>,
    /// The intervals of the run.
    pub rates: Vec<RateStep>,
}

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Dot {
    /// When it was submitted to the disk.
    pub at_seconds: f64,
    /// The place of the disk in the list.
    pub disk: usize,
    /// Where on the disk.
    pub offset_gb: f64,
}

/// One interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RateStep {
    /// When it starts.
    pub from_seconds: f64,
    /// What each disk read and wrote in it.
    pub mb_s: Vec<f64>,
}

impl Picture {
    /// The picture of a run that is shown in `row`.
    pub(super) fn new(row: &str, record: &RunRecord) -> Picture {
        let RunRecord { intervals, samples, members, .. } = record;
        let seconds = |microseconds: u64| microseconds as f64 / 1e6;
        let devids: Vec<u64> = members.iter().map(|member| member.devid).collect();
        let disk = |devid| devids.iter().position(|it| *it == devid).expect("a member was read");
        let stride = samples.at_us.len().div_ceil(DOTS_MAX).max(1);
        let dots = (0..samples.at_us.len()).step_by(stride).map(|index| Dot {
            at_seconds: seconds(samples.at_us[index]),
            disk: disk(samples.devid[index]),
            offset_gb: (samples.offset_kib[index] * KIB) as f64 / 1e9,
        });
        let steps = (0..intervals.from_us.len()).map(|index| {
            let width = seconds(intervals.width_us[index]).max(1e-9);
            let mb_s = intervals.members.iter().map(|it| it.bytes[index] as f64 / 1e6 / width);
            RateStep { from_seconds: seconds(intervals.from_us[index]), mb_s: mb_s.collect() }
        });
        let (last_from, last_width) = (intervals.from_us.last(), intervals.width_us.last());
        Picture {
            row: row.to_owned(),
            seconds: last_from.zip(last_width).map_or(0.0, |(&from, &width)| seconds(from + width)),
            reads: dots.collect(),
            rates: steps.collect(),
            devids,
        }
    }
}

/// The charts of one run. Pictures of one recipe share the ends of their axes.
pub(super) fn draw(picture: &Picture, ends: Ends) -> Markup {
    let x = Scale::up_to(ends.seconds);
    html! {
        h4 { (picture.row) }
        p.legend {
            @for (index, devid) in picture.devids.iter().enumerate() {
                span { span class={ "swatch " (class(picture, index)) } {} "devid " (devid) }
            }
        }
        (offsets(picture, x, Scale::up_to(ends.offset_gb)))
        (rates(picture, x, Scale::up_to_a_tick(ends.mb_s, SMALL)))
    }
}

fn offsets(picture: &Picture, x: Scale, y: Scale) -> Markup {
    let dots = |disk: usize| {
        let of_disk = picture.reads.iter().filter(move |dot| dot.disk == disk);
        path::dots(of_disk.map(|dot| (x.place(dot.at_seconds), y.place(dot.offset_gb))))
    };
    frame(picture, "offsets", "Offsets of reads, GB", x, y).draw(&html! {
        @for disk in 0..picture.devids.len() {
            path class={ "dots " (class(picture, disk)) } d=(dots(disk)) {}
        }
    })
}

fn rates(picture: &Picture, x: Scale, y: Scale) -> Markup {
    let steps = |disk: usize| {
        let ends = picture.rates.iter().skip(1).map(|step| step.from_seconds);
        let steps = picture.rates.iter().zip(ends.chain([picture.seconds]));
        path::line(steps.flat_map(|(step, end)| {
            let height = y.place(step.mb_s[disk]);
            [Some((x.place(step.from_seconds), height)), Some((x.place(end), height))]
        }))
    };
    frame(picture, "rates", "Read and written, MB/s", x, y).draw(&html! {
        @for disk in 0..picture.devids.len() {
            path class={ "line thin " (class(picture, disk)) } d=(steps(disk)) {}
        }
    })
}

fn frame(picture: &Picture, kind: &'static str, what: &str, x: Scale, y: Scale) -> Frame {
    Frame {
        kind,
        job: 0,
        part: 0,
        section: None,
        policy: None,
        label: format!("{what}, over time: {}", picture.row),
        caption: html! { (what) },
        x: Axis::new(x, WIDE, |seconds| number::short_duration(1e6 * seconds)),
        y: Axis::new(y, SMALL, number::short),
        // Without a script nothing is shown on hovering.
        steps: Steps::Places(Vec::new()),
        unit: Unit::Word(""),
    }
}

/// The colour of a disk: disks are spread over the whole range of colours.
fn class(picture: &Picture, disk: usize) -> String {
    let last = picture.devids.len().saturating_sub(1).max(1);
    format!("m{}", disk * (COLOURS - 1) / last)
}

/// Common ends of the axes of pictures shown together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    seconds: f64,
    offset_gb: f64,
    mb_s: f64,
}

impl Ends {
    pub(super) fn of<'a>(pictures: impl Iterator<Item = &'a Picture>) -> Ends {
        let mut ends = Ends { seconds: 1e-9, offset_gb: 1e-9, mb_s: 1e-9 };
        for picture in pictures {
            ends.seconds = ends.seconds.max(picture.seconds);
            let offsets = picture.reads.iter().map(|dot| dot.offset_gb);
            ends.offset_gb = offsets.fold(ends.offset_gb, f64::max);
            let rates = picture.rates.iter().flat_map(|step| step.mb_s.iter().copied());
            ends.mb_s = rates.fold(ends.mb_s, f64::max);
        }
        ends
    }
}

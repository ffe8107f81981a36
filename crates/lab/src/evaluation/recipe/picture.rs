//! The picture of a run: where on the disks it read and how much each moved, over time, as
//! seekwatcher draws it.
//!
//! The dots are the sampled reads of the record, the steps below them the bytes of its intervals,
//! reads and writes: where there are steps and no dots, the run wrote. The picture is plain SVG,
//! drawn on two panes of fixed size, with a colour for each of up to six disks.

use maud::{Markup, html};
use mirrorball_core::units::Nanos;
use mirrorball_sim::record::RunRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Most dots in a picture; more would not be distinguishable.
const DOTS_MAX: usize = 600;
/// Width of both panes.
const WIDTH: f64 = 560.0;
/// Height of the pane of offsets.
const OFFSETS_HEIGHT: f64 = 130.0;
/// Height of the pane of rates.
const RATES_HEIGHT: f64 = 70.0;

/// What a picture shows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
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
    pub rates: Vec<Step>,
}

/// One read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Dot {
    /// When it was submitted to the disk.
    pub at_seconds: f64,
    /// The place of the disk in the list.
    pub disk: usize,
    /// Where on the disk.
    pub offset_gb: f64,
}

/// One interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// When it starts.
    pub from_seconds: f64,
    /// What each disk read and wrote in it.
    pub mb_s: Vec<f64>,
}

impl Picture {
    /// The picture of a run that is shown in `row`.
    pub(super) fn new(row: &str, record: &RunRecord) -> Picture {
        let seconds = |at: Nanos| at.as_secs_f64();
        let stride = record.samples.len().div_ceil(DOTS_MAX).max(1);
        let dots = record.samples.iter().step_by(stride).map(|sample| Dot {
            at_seconds: seconds(sample.at),
            disk: sample.member.get(),
            offset_gb: sample.offset as f64 / 1e9,
        });
        let steps = record.intervals.iter().map(|interval| {
            let width = seconds(interval.width).max(1e-9);
            let mb_s = interval.members.iter().map(|it| it.bytes as f64 / 1e6 / width);
            Step { from_seconds: seconds(interval.from), mb_s: mb_s.collect() }
        });
        let end = record.intervals.last().map_or(0.0, |it| seconds(it.from) + seconds(it.width));
        Picture {
            row: row.to_owned(),
            seconds: end,
            devids: record.members.iter().map(|member| member.devid).collect(),
            reads: dots.collect(),
            rates: steps.collect(),
        }
    }

    /// The picture, for a page. Pictures of one recipe share the ends of their axes.
    pub(super) fn draw(&self, ends: Ends) -> Markup {
        let label = format!("Offsets read and MB/s over time, {}", self.row);
        html! {
            figure {
                figcaption { b { (self.row) } " " @for (index, devid) in
                    self.devids.iter().enumerate() {
                        span class=(format!("key disk{index}")) { "devid " (devid) } " "
                    }
                }
                svg role="img" aria-label=(label) width=(WIDTH + 70.0)
                    height=(OFFSETS_HEIGHT + RATES_HEIGHT + 40.0) {
                    g transform="translate(60,8)" { (self.offsets(ends)) }
                    g transform=(format!("translate(60,{})", OFFSETS_HEIGHT + 16.0)) {
                        (self.steps(ends))
                    }
                }
            }
        }
    }

    fn offsets(&self, ends: Ends) -> Markup {
        let place = |dot: &Dot| {
            let x = WIDTH * dot.at_seconds / ends.seconds;
            (x, OFFSETS_HEIGHT * (1.0 - dot.offset_gb / ends.offset_gb))
        };
        html! {
            (pane(OFFSETS_HEIGHT, &format!("{:.0} GB", ends.offset_gb)))
            @for dot in &self.reads {
                @let (x, y) = place(dot);
                circle class=(format!("disk{}", dot.disk)) cx=(format!("{x:.1}"))
                    cy=(format!("{y:.1}")) r="1.6" {}
            }
        }
    }

    fn steps(&self, ends: Ends) -> Markup {
        let path = |disk: usize| {
            let mut path = String::new();
            for step in &self.rates {
                let x = WIDTH * step.from_seconds / ends.seconds;
                let y = RATES_HEIGHT * (1.0 - step.mb_s[disk] / ends.mb_s);
                path += &match path.is_empty() {
                    true => format!("M{x:.1},{y:.1}"),
                    false => format!("H{x:.1}V{y:.1}"),
                };
            }
            path + &format!("H{:.1}", WIDTH * self.seconds / ends.seconds)
        };
        html! {
            (pane(RATES_HEIGHT, &format!("{:.0} MB/s", ends.mb_s)))
            @for disk in 0..self.devids.len() {
                path class=(format!("line disk{disk}")) d=(path(disk)) {}
            }
            text x=(WIDTH) y=(RATES_HEIGHT + 16.0) text-anchor="end" {
                (format!("{:.0} s", ends.seconds))
            }
        }
    }
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

fn pane(height: f64, most: &str) -> Markup {
    html! {
        rect width=(WIDTH) height=(height) class="pane" {}
        text x="-6" y="10" text-anchor="end" { (most) }
        text x="-6" y=(height) text-anchor="end" { "0" }
    }
}

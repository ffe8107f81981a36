//! The frame of a chart: caption, axes with their ticks, the plot, and what hovering needs.
//!
//! The plot is an SVG that is stretched to the width that it gets, between ticks in HTML. Values
//! are kept with each shape (`data-values`, one per step of the horizontal axis), so that the page
//! shows the figure itself, not one read back from the picture.

use super::number;
use super::scale::{Rank, Scale, Tick};
use super::{SIDE, path};
use maud::{Markup, html};

/// A chart without its shapes.
pub(crate) struct Frame {
    /// Its kind, as the script and tests call it.
    pub(crate) kind: &'static str,
    pub(crate) job: usize,
    pub(crate) part: usize,
    /// The section of the job, if it shows one of several.
    pub(crate) section: Option<usize>,
    /// The policy it is about, if about one.
    pub(crate) policy: Option<usize>,
    pub(crate) label: String,
    pub(crate) caption: Markup,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    /// What hovering goes through.
    pub(crate) steps: Steps,
    /// Unit of the values that hovering shows.
    pub(crate) unit: Unit,
}

/// One axis: its ticks with their names.
pub(crate) struct Axis {
    ticks: Vec<(Tick, String)>,
    has_rules: bool,
    title: &'static str,
}

/// What hovering goes through, left to right.
pub(crate) enum Steps {
    /// Number of columns, and the seconds of each.
    Columns { count: usize, seconds: f64 },
    /// Named places, each as (place, name).
    Places(Vec<(f64, String)>),
}

/// Unit of the values that hovering shows.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    /// Microseconds, shown as a time.
    Micros,
    /// A number with a word behind it.
    Word(&'static str),
}

/// A name at the right end of a line.
pub(crate) struct EndLabel<'a> {
    pub(crate) policy: usize,
    /// Where the line ends, 0 at the bottom.
    pub(crate) place: f64,
    pub(crate) name: &'a str,
    pub(crate) classes: &'a str,
}

impl Frame {
    /// The chart with `shapes` in its plot.
    pub(crate) fn draw(&self, shapes: &Markup) -> Markup {
        self.draw_with(shapes, None, &html! {})
    }

    /// The chart with `shapes` in its plot, something under them (a canvas) and something at the
    /// right of it (names of lines).
    pub(crate) fn draw_with(
        &self,
        shapes: &Markup,
        under: Option<&Markup>,
        ends: &Markup,
    ) -> Markup {
        let (steps, seconds, at, names) = self.steps.attributes();
        let rules =
            self.y.ticks.iter().filter(|(tick, _)| self.y.has_rules && tick.rank != Rank::Fine);
        html! {
            figure.chart data-kind=(self.kind) data-job=(self.job) data-part=(self.part)
                data-section=[self.section] data-policy=[self.policy]
                data-unit=(self.unit.name()) data-steps=(steps) data-seconds=[seconds]
                data-at=[at] data-names=[names] tabindex="0" role="group"
                aria-label=(self.label)
            {
                figcaption { (self.caption) }
                div.frame {
                    div.ticks-y aria-hidden="true" {
                        (self.y.draw("bottom"))
                    }
                    div.plot {
                        @if let Some(under) = under { (under) }
                        svg viewBox={ "0 0 " (SIDE) " " (SIDE) } preserveAspectRatio="none"
                            aria-hidden="true"
                        {
                            path.rule d=(path::rules(rules.map(|(tick, _)| tick.place))) {}
                            (shapes)
                        }
                    }
                    (ends)
                    div.ticks-x aria-hidden="true" {
                        (self.x.draw("left"))
                    }
                }
            }
        }
    }
}

/// A name at the right end of a line. The script moves those apart that would overlap.
pub(crate) fn end_label(label: &EndLabel<'_>) -> Markup {
    html! {
        span class=(label.classes) data-policy=(label.policy)
            style={ "bottom:" (hundredths(label.place)) "%" } { (label.name) }
    }
}

/// Values for hovering, parted by commas; nothing where there is none.
pub(crate) fn values(values: impl IntoIterator<Item = Option<f64>>) -> String {
    let texts: Vec<String> =
        values.into_iter().map(|value| value.map_or(String::new(), number::bare)).collect();
    texts.join(",")
}

impl Axis {
    /// The axis of a scale with about `steps` steps; `write` names its ticks.
    pub(crate) fn new(scale: Scale, steps: f64, write: fn(f64) -> String) -> Axis {
        let ticks = scale.ticks(steps).into_iter().map(|tick| (tick, write(tick.value))).collect();
        Axis { ticks, has_rules: true, title: "" }
    }

    /// Rows of equal height from the bottom up, named in their middles.
    pub(crate) fn rows(names: &[String]) -> Axis {
        let tick = |(row, name): (usize, &String)| {
            let place = (row as f64 + 0.5) / names.len() as f64;
            (Tick { value: row as f64, place, rank: Rank::Main }, name.clone())
        };
        Axis { ticks: names.iter().enumerate().map(tick).collect(), has_rules: false, title: "" }
    }

    /// The same axis with a word at its end.
    pub(crate) fn titled(self, title: &'static str) -> Axis {
        Axis { title, ..self }
    }

    fn draw(&self, side: &str) -> Markup {
        let class = |rank| match rank {
            Rank::Main => "main",
            Rank::Other => "other",
            Rank::Fine => "fine",
        };
        html! {
            // Only the horizontal axis can be magnified.
            @for (tick, name) in self.ticks.iter().filter(|(tick, _)| {
                side == "left" || tick.rank != Rank::Fine
            }) {
                span class=(class(tick.rank)) style={ (side) ":" (hundredths(tick.place)) "%" } {
                    (name)
                }
            }
            @if !self.title.is_empty() { span.axis { (self.title) } }
        }
    }
}

impl Steps {
    /// How many there are, their length if they are columns, their places and names if not.
    fn attributes(&self) -> (usize, Option<String>, Option<String>, Option<String>) {
        match self {
            Steps::Columns { count, seconds } => (*count, Some(seconds.to_string()), None, None),
            Steps::Places(places) => {
                let join = |texts: Vec<String>| Some(texts.join(","));
                let at = places.iter().map(|(place, _)| format!("{place:.4}")).collect();
                let names = places.iter().map(|(_, name)| name.clone()).collect();
                (places.len(), None, join(at), join(names))
            }
        }
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Unit::Micros => "us",
            Unit::Word(word) => word,
        }
    }
}

/// A place as a percentage for the style sheet.
fn hundredths(place: f64) -> String {
    format!("{:.2}", 100.0 * place)
}

//! Explained choices as an HTML page: a row per member, time from left to right, each read a bar
//! from its choice to its data.
//!
//! If the oracle would have read another mirror, an outline on that member's row ends at the
//! expected completion. Overlapping reads are drawn one below the other. Below the chart is a table
//! of the choices. The page needs no script: the title of a bar has its figures.

use crate::experiment::explain::{
    Explained, ExplainedChoice, MirrorChoice, NamedValue, ReadOrder, shown_bytes,
};
use crate::report::chart::frame::{Axis, Frame, Steps, Unit};
use crate::report::chart::path;
use crate::report::chart::scale::{Scale, WIDE};
use crate::report::page::Page;
use maud::{Markup, html};
use mirrorball_core::units::Nanos;

const STYLE: &str = include_str!("decisions.css");

/// Choices that are listed one by one; the picture has them all.
const LISTED_MAX: usize = 200;
/// How high a bar is, and a lane at least, in hundredths of the size of text.
const BAR_HEIGHT: usize = 55;
const LANE_HEIGHT_MIN: usize = 180;
const PICTURE_HEIGHT_MAX: usize = 6000;
/// The most that is shown of the time after the last choice, in lengths of the time before it.
const TAIL_SPANS_MAX: u64 = 3;

/// The page.
pub fn render(explained: &Explained) -> String {
    let title = format!("{} explained", explained.policy);
    let body = html! { main { (body(explained)) } };
    Page { title: &title, style: STYLE, head: html! {}, body }.render()
}

fn body(explained: &Explained) -> Markup {
    html! {
        h1 { "Why " (explained.policy) " read from where it did" }
        p.subtitle { (explained.title()) }
        p.verdict { (explained.summary.sentences(&explained.policy)) }
        (picture(explained))
        (legend())
        h2 { "Members" }
        (members(explained))
        h2 { "Choices" }
        @if !explained.has_scores() {
            p.description { (explained.policy) " gives no scores." }
        }
        @if explained.choices.len() > LISTED_MAX {
            p.note { "The first " (LISTED_MAX) " of " (explained.choices.len()) "; all are in "
                "the CSV and JSON forms." }
        }
        (choices(explained))
    }
}

fn legend() -> Markup {
    html! {
        p.legend {
            span {
                span."swatch key agreed" {} "chosen, and as good as the choice of the oracle"
            }
            span {
                span."swatch key against" {} "chosen, but the oracle would have read another mirror"
            }
            span {
                span."swatch key instead" {} "the choice of the oracle, until its expected end"
            }
            span {
                span."swatch key further" {} "read as well: a part of a split, or a second read"
            }
        }
        p.description {
            "Expected: time that the read would take at this mirror without later requests. Hover "
            "over a bar for its figures."
        }
    }
}

/// A bar of the picture.
struct Bar {
    devid: u64,
    from_ns: u64,
    until_ns: u64,
    class: &'static str,
    title: String,
    /// Its row within its lane.
    row: usize,
}

fn picture(explained: &Explained) -> Markup {
    let devids: Vec<u64> = shown_devids(explained);
    let mut bars: Vec<Bar> = explained.choices.iter().flat_map(bars_of).collect();
    let rows = devids.iter().map(|&devid| stack(&mut bars, devid)).max().unwrap_or(1).max(1);
    let start = explained.choices.iter().map(|choice| choice.at_ns).min().unwrap_or(0);
    let end = end(explained, &bars);
    let is_cut = bars.iter().any(|bar| bar.until_ns > end);
    let millis = |ns: u64| (ns - start) as f64 / 1e6;
    let x = Scale::Linear { from: 0.0, to: millis(end).max(1e-3) };
    let names: Vec<String> = devids.iter().rev().map(|devid| format!("devid {devid}")).collect();
    let lanes = devids.len() as f64;
    let frame = Frame {
        kind: "decisions",
        job: 0,
        part: 0,
        section: None,
        policy: None,
        label: format!("Reads of each member over time, {}", explained.title()),
        caption: html! {
            "Reads of each member "
            span.unit {
                "ms after " (format!("{:.6} s", Nanos(start).as_secs_f64()))
                @if is_cut { "; bars at the right edge go on" }
            }
        },
        x: Axis::new(x, WIDE, |millis| millis.to_string()),
        y: Axis::rows(&names),
        steps: Steps::Columns { count: 0, seconds: 0.0 },
        unit: Unit::Word("ms"),
    };
    let lane_of = |devid: u64| devids.iter().position(|&it| it == devid).unwrap_or(0) as f64;
    let outline = |bar: &Bar| {
        // A tenth of each lane stays free, as a gap between lanes.
        let row_height = 0.9 / lanes / rows as f64;
        let upper = 1.0 - (lane_of(bar.devid) + 0.05) / lanes - bar.row as f64 * row_height;
        let (left, right) = (x.place(millis(bar.from_ns)), x.place(millis(bar.until_ns)));
        path::boxes([(left, right, upper - 0.85 * row_height, upper)])
    };
    let height = (devids.len() * (rows * BAR_HEIGHT).max(LANE_HEIGHT_MIN)).min(PICTURE_HEIGHT_MAX);
    let style = format!("--tall:{}.{:02}rem", height / 100, height % 100);
    html! {
        div.decisions style=(style) {
            (frame.draw(&html! {
                path.between-lanes d=(path::rules((1..devids.len()).map(|at| at as f64 / lanes))) {}
                @for bar in &bars {
                    path class={ "read " (bar.class) } d=(outline(bar)) { title { (bar.title) } }
                }
            }))
        }
    }
}

/// Where the picture ends: with the last bar, unless that is so far behind the last choice that
/// nothing would be seen of the others.
fn end(explained: &Explained, bars: &[Bar]) -> u64 {
    let ends = bars.iter().map(|bar| bar.until_ns).max().unwrap_or(0);
    match (explained.choices.first(), explained.choices.last()) {
        (Some(first), Some(last)) if last.at_ns > first.at_ns => {
            ends.min(last.at_ns + TAIL_SPANS_MAX * (last.at_ns - first.at_ns))
        }
        _ => ends,
    }
}

/// Members that could have been read.
fn shown_devids(explained: &Explained) -> Vec<u64> {
    let members = explained.summary.members.iter().filter(|member| member.eligible > 0);
    members.map(|member| member.devid).collect()
}

/// The bars of a choice: of what was read, and of what the oracle would have.
fn bars_of(choice: &ExplainedChoice) -> Vec<Bar> {
    let bar = |mirror: &MirrorChoice, class, length_ns: Option<u64>| Bar {
        devid: mirror.devid,
        from_ns: choice.at_ns,
        until_ns: choice.at_ns + length_ns.unwrap_or(0),
        class,
        title: title(choice, mirror),
        row: 0,
    };
    let of_mirror = |mirror: &MirrorChoice| match mirror.taken {
        ReadOrder::First if choice.agreed => Some(bar(mirror, "agreed", choice.took_ns)),
        ReadOrder::First => Some(bar(mirror, "against", choice.took_ns)),
        ReadOrder::Further => Some(bar(mirror, "further", choice.took_ns)),
        ReadOrder::No if mirror.oracle && !choice.agreed => {
            Some(bar(mirror, "instead", mirror.expected_ns))
        }
        ReadOrder::No => None,
    };
    choice.mirrors.iter().filter_map(of_mirror).collect()
}

fn title(choice: &ExplainedChoice, mirror: &MirrorChoice) -> String {
    let read = format!(
        "{} at {} for stream {}, from devid {}",
        shown_bytes(choice.length),
        shown_bytes(choice.offset),
        choice.stream,
        mirror.devid
    );
    let took = match (mirror.taken, choice.took_ns) {
        (ReadOrder::No, _) => "not read".to_owned(),
        (_, Some(took_ns)) => format!("took {}", Nanos(took_ns)),
        (_, None) => "did not end".to_owned(),
    };
    let figures = mirror.score.iter().chain(&mirror.parts);
    let lines: Vec<String> = figures
        .map(|figure| format!("{} {}", NamedValue::words(figure.name), figure.shown()))
        .collect();
    format!("{read}: {took}, expected {}\n{}", expected(mirror), lines.join(", "))
}

fn expected(mirror: &MirrorChoice) -> String {
    mirror.expected_ns.map_or("never".to_owned(), |expected_ns| Nanos(expected_ns).to_string())
}

/// Gives each bar of a lane the first row in which nothing is in its way; says how many there are.
fn stack(bars: &mut [Bar], devid: u64) -> usize {
    let mut free_from: Vec<u64> = Vec::new();
    for bar in bars.iter_mut().filter(|bar| bar.devid == devid) {
        bar.row = free_from.iter().position(|&free| free <= bar.from_ns).unwrap_or(free_from.len());
        if bar.row == free_from.len() {
            free_from.push(0);
        }
        free_from[bar.row] = bar.until_ns.max(bar.from_ns + 1);
    }
    free_from.len()
}

fn members(explained: &Explained) -> Markup {
    let summary = &explained.summary;
    let percent = |part: u64| format!("{:.0}", 100.0 * part as f64 / summary.choices as f64);
    html! {
        div.scroll { table.figures {
            thead { tr {
                th { "member" }
                @for title in ["eligible", "chosen", "in %", "oracle's", "in %", "mean took"] {
                    th.number { (title) }
                }
            } }
            tbody {
                @for member in summary.members.iter().filter(|member| member.eligible > 0) {
                    tr {
                        th { "devid " (member.devid) }
                        td.number { (member.eligible) }
                        td.number { (member.chosen) }
                        td.number { (percent(member.chosen)) }
                        td.number { (member.oracle) }
                        td.number { (percent(member.oracle)) }
                        td.number { @if let Some(mean) = member.mean_took() { (mean) } }
                    }
                }
            }
        } }
    }
}

fn choices(explained: &Explained) -> Markup {
    let parts = explained.part_names();
    let score = explained.score_name().map_or("score".to_owned(), NamedValue::words);
    html! {
        div.scroll { table.choices {
            thead { tr {
                @for title in ["at s", "stream", "offset", "size", "devid", "in flight"] {
                    th.number { (title) }
                }
                @if explained.has_scores() { th.number { (score) } }
                @for part in &parts { th.number { (NamedValue::words(part)) } }
                th.number { "expected" }
                th.number { "took" }
            } }
            @for choice in explained.choices.iter().take(LISTED_MAX) {
                tbody {
                    @for (place, mirror) in choice.mirrors.iter().enumerate() {
                        (row(explained, choice, place, mirror, &parts))
                    }
                }
            }
        } }
    }
}

fn row(
    explained: &Explained,
    choice: &ExplainedChoice,
    place: usize,
    mirror: &MirrorChoice,
    parts: &[&'static str],
) -> Markup {
    let class = match (mirror.taken, choice.agreed, mirror.oracle) {
        (ReadOrder::First, true, _) => "agreed",
        (ReadOrder::First, false, _) => "against",
        (ReadOrder::Further, ..) => "further",
        (ReadOrder::No, false, true) => "instead",
        (ReadOrder::No, ..) => "",
    };
    let score = mirror.score.as_ref().map(|score| match explained.score_name() {
        Some(_) => score.shown(),
        None => format!("{} {}", NamedValue::words(score.name), score.shown()),
    });
    html! {
        tr {
            @if place == 0 {
                td.number { (format!("{:.6}", Nanos(choice.at_ns).as_secs_f64())) }
                td.number { (choice.stream) @if choice.background { " (background)" } }
                td.number { (shown_bytes(choice.offset)) }
                td.number { (shown_bytes(choice.length)) }
            } @else { td colspan="4" {} }
            td.number { span class={ "swatch key " (class) } {} (mirror.devid) }
            td.number { (mirror.in_flight) }
            @if explained.has_scores() { td.number { @if let Some(score) = score { (score) } } }
            @for &name in parts {
                td.number {
                    @if let Some(part) = mirror.parts.iter().find(|part| part.name == name) {
                        (part.shown())
                    }
                }
            }
            td.number { (expected(mirror)) }
            td.number {
                @match mirror.taken {
                    ReadOrder::No => {}
                    ReadOrder::First => {
                        @match choice.took_ns {
                            Some(took_ns) => (Nanos(took_ns)),
                            None => "did not end",
                        }
                    }
                    ReadOrder::Further => "as well",
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(from_ns: u64, until_ns: u64) -> Bar {
        Bar { devid: 1, from_ns, until_ns, class: "", title: String::new(), row: 0 }
    }

    #[test]
    fn bars_that_overlap_stand_in_rows_of_their_own() {
        let mut bars = [bar(0, 10), bar(5, 20), bar(7, 9), bar(10, 12), bar(10, 12)];
        assert_eq!(stack(&mut bars, 1), 3);
        assert_eq!(bars.map(|bar| bar.row), [0, 1, 2, 0, 2]);
    }
}

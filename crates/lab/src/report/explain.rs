//! Explained choices as a table for a terminal: one row per mirror, then the summary.

use crate::experiment::explain::{Explained, READS_MAX};
use crate::report::text::{note, wrapped};
use crate::report::{Column, Emphasis, Grid, Style, draw, left_out};
use mirrorball_core::policies::short_policy_name;
use mirrorball_core::units::Nanos;
use mirrorball_sim::explain::{ExplainedChoice, MirrorChoice, NamedValue, ReadOrder};

/// Width of running text where the terminal is wider.
const TEXT_WIDTH_MAX: usize = 100;
/// The lowest rank of a column of terms; the last term is left out first.
const PARTS_DROP_ORDER: u8 = 4;
/// Columns that are left out only where the parts have gone.
const EXPECTED_DROP_ORDER: u8 = 3;
/// The size and the number in flight.
const SIZE_DROP_ORDER: u8 = 2;
/// On the narrowest terminals a wide score takes the place of the offset.
const OFFSET_DROP_ORDER: u8 = 1;
/// The stream is left out before the score and its terms.
const STREAM_DROP_ORDER: u8 = u8::MAX;

const MARKS: [(Emphasis, &str); 3] = [
    (Emphasis::Best, "* chosen, and as good as the choice of the oracle"),
    (Emphasis::Slower, "- chosen, but the oracle would have read the mirror marked +"),
    (Emphasis::None, "no mark: a mirror that was not chosen"),
];
const EXPECTED_TITLE: &str = "ex-\npected";
const EXPECTED: &str =
    "expected: time that the read would take at this mirror without later requests";
const LATER: &str = "from TIME: the read was sent here, too, when it had taken so long; the first \
                     answer ended it";

/// Writes an explanation as a table for a terminal, with a summary.
pub fn render(explained: &Explained, style: Style) -> String {
    let width = style.width_columns.min(TEXT_WIDTH_MAX);
    let (grid, titles) = choices(explained).fitted(style.width_columns);
    let mut text = wrapped(&explained.title(), width) + "\n\n" + &draw(&grid, style) + "\n";
    let has = |mark: Emphasis| grid.rows.iter().any(|row| row.emphasis == mark);
    let marks = MARKS.iter().filter(|(mark, _)| has(*mark)).map(|(_, line)| *line);
    let has_expected = grid.columns.iter().any(|column| column.title == EXPECTED_TITLE);
    let expected = has_expected.then_some(EXPECTED);
    let later = Some(LATER).filter(|_| explained.summary.later > 0);
    for line in marks.chain(expected).chain(later).map(str::to_owned).chain(remarks(explained)) {
        text += &(note(&line, width) + "\n");
    }
    text += &left_out(&titles, "json", style);
    let (grid, _) = members(explained).fitted(style.width_columns);
    text += &format!("\n{}\n", draw(&grid, style));
    text + &wrapped(&explained.summary.sentences(&short_policy_name(&explained.policy)), width)
        + "\n"
}

fn remarks(explained: &Explained) -> Vec<String> {
    let mut remarks = Vec::new();
    if explained.choices.iter().any(|choice| choice.background) {
        remarks.push("b after a stream: background work".to_owned());
    }
    let policy = short_policy_name(&explained.policy);
    if !explained.has_scores() {
        remarks.push(format!("{policy} gives no scores"));
    } else if explained.score_name() == Some("score") {
        remarks.push(format!("score: a number without a unit, as {policy} computes it"));
    }
    if explained.is_cut_short {
        remarks.push(format!("only the first {} choices of the window are shown", READS_MAX));
    }
    remarks
}

fn choices(explained: &Explained) -> Grid {
    let score = explained.score_name();
    let mirrors = explained.choices.iter().flat_map(|choice| {
        choice.mirrors.iter().enumerate().map(move |(place, mirror)| (choice, place, mirror))
    });
    /// A text of the first line of a choice.
    fn once(place: usize, text: impl Fn() -> String) -> String {
        if place == 0 { text() } else { String::new() }
    }
    let mut grid = Grid::of(mirrors)
        .marked(|(choice, _, mirror)| emphasis(choice, mirror))
        .column(Column::right("at s"), |&(choice, place, _)| {
            once(place, || format!("{:.6}", Nanos(choice.at_ns).as_secs_f64()))
        })
        .column(Column::right("stream").droppable(STREAM_DROP_ORDER), |&(choice, place, _)| {
            let mark = if choice.background { "b" } else { "" };
            once(place, || format!("{}{mark}", choice.stream))
        })
        .column(Column::right("offset").droppable(OFFSET_DROP_ORDER), |&(choice, place, _)| {
            once(place, || shown_bytes(choice.offset))
        })
        .column(Column::right("size").droppable(SIZE_DROP_ORDER), |&(choice, place, _)| {
            once(place, || shown_bytes(choice.length))
        })
        .column(Column::right("devid"), |(.., mirror)| mirror.devid.to_string())
        .column(Column::right("in\nflight").droppable(SIZE_DROP_ORDER), |(.., mirror)| {
            mirror.in_flight.to_string()
        });
    if explained.has_scores() {
        let column = Column::right(score.map_or("score".to_owned(), stacked));
        grid = grid.column(column, |(.., mirror)| match &mirror.score {
            None => String::new(),
            Some(own) if score.is_some() => shown(own),
            Some(own) => format!("{} {}", words(own.name), shown(own)),
        });
    }
    for (name, rank) in explained.part_names().into_iter().zip(PARTS_DROP_ORDER..) {
        grid = grid.column(Column::right(stacked(name)).droppable(rank), |(.., mirror)| {
            let part = mirror.parts.iter().find(|part| part.name == name);
            part.map_or(String::new(), shown)
        });
    }
    grid.column(Column::right(EXPECTED_TITLE).droppable(EXPECTED_DROP_ORDER), |(.., mirror)| {
        mirror.expected_ns.map_or("never".to_owned(), |it| Nanos(it).to_string())
    })
    .column(Column::right("took"), |(choice, _, mirror)| match mirror.taken {
        ReadOrder::No => String::new(),
        ReadOrder::First => choice.took_ns.map_or("-".to_owned(), |it| Nanos(it).to_string()),
        ReadOrder::Further => match mirror.later_ns {
            None => "as well".to_owned(),
            Some(later) => format!("from {}", Nanos(later)),
        },
    })
    .build()
}

/// The words of a name, one per line.
fn stacked(name: &str) -> String {
    words(name).replace(' ', "\n")
}

/// The name of a value in words, without a unit that [`shown`] writes.
fn words(name: &str) -> String {
    let bare = name.strip_suffix("_ns").or(name.strip_suffix("_bytes")).unwrap_or(name);
    bare.replace('_', " ")
}

/// A value as people write it.
fn shown(named: &NamedValue) -> String {
    let sign = if named.value < 0 { "-" } else { "" };
    let size = named.value.unsigned_abs();
    if named.name.ends_with("_ns") {
        format!("{sign}{}", Nanos(size))
    } else if named.name.contains("bytes") {
        format!("{sign}{}", shown_bytes(size))
    } else {
        format!("{sign}{size}")
    }
}

/// Bytes with at most three digits before the point: `512`, `4K`, `1.5M`, `12.3G`.
fn shown_bytes(bytes: u64) -> String {
    let units = [("T", 40), ("G", 30), ("M", 20), ("K", 10)];
    let Some((unit, power)) = units.into_iter().find(|(_, power)| bytes >> power > 0) else {
        return bytes.to_string();
    };
    let value = bytes as f64 / (1u64 << power) as f64;
    let decimals = match value {
        v if v == v.round() => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}{unit}")
}

fn emphasis(choice: &ExplainedChoice, mirror: &MirrorChoice) -> Emphasis {
    match (mirror.taken, mirror.oracle) {
        (ReadOrder::First, _) if choice.agreed => Emphasis::Best,
        (ReadOrder::First, _) => Emphasis::Slower,
        (_, true) if !choice.agreed => Emphasis::Faster,
        _ => Emphasis::None,
    }
}

fn members(explained: &Explained) -> Grid {
    let summary = &explained.summary;
    let percent = |part: u64| format!("{:.0}", 100.0 * part as f64 / summary.choices as f64);
    Grid::of(summary.members.iter().filter(|member| member.eligible > 0))
        .column(Column::right("devid"), |member| member.devid.to_string())
        .column(Column::right("eligible"), |member| member.eligible.to_string())
        .column(Column::right("chosen"), |member| member.chosen.to_string())
        .column(Column::right("in %").droppable(2), |member| percent(member.chosen))
        .column(Column::right("oracle's").droppable(1), |member| member.oracle.to_string())
        .column(Column::right("in %").droppable(3), |member| percent(member.oracle))
        .column(Column::right("mean took"), |member| {
            member.mean_took().map_or("-".to_owned(), |mean| mean.to_string())
        })
        .build()
}

#[cfg(test)]
mod tests;

//! Explained choices as a table for a terminal: one row per mirror, then the summary.

use crate::experiment::explain::{
    Explained, ExplainedChoice, MemberShare, MirrorChoice, NamedValue, READS_MAX, ReadOrder,
    shown_bytes,
};
use crate::report::text::wrapped;
use crate::report::{Column, Emphasis, Grid, GridRow, Layout, Style, TableLimits, draw};
use mirrorball_core::units::Nanos;

/// Width of running text where the terminal is wider.
const TEXT_WIDTH_MAX: usize = 100;
/// The lowest rank of a column of terms; the last term is left out first.
const PARTS_DROP_ORDER: u8 = 3;
/// Columns that are left out only where the parts have gone.
const EXPECTED_DROP_ORDER: u8 = 2;
/// The size and the number in flight.
const SIZE_DROP_ORDER: u8 = 1;
/// The stream is left out before the score and its terms.
const STREAM_DROP_ORDER: u8 = u8::MAX;

const LEGEND: [&str; 3] = [
    "* chosen, and as good as the choice of the oracle",
    "- chosen, but the oracle would have read the mirror marked +",
    "expected: time that the read would take at this mirror without later requests",
];

pub(super) fn render(explained: &Explained, style: Style) -> String {
    let width = style.width_columns.min(TEXT_WIDTH_MAX);
    let limits = TableLimits { columns: style.width_columns, layout: Layout::Open };
    let (grid, left_out) = choices(explained).fitted(limits);
    let mut text = wrapped(&explained.title(), width) + "\n\n" + &draw(&grid, style) + "\n";
    let legend = LEGEND.map(str::to_owned);
    for line in legend.into_iter().chain(remarks(explained, &left_out)) {
        text += &(wrapped(&line, width) + "\n");
    }
    let (grid, _) = members(explained).fitted(limits);
    text += &format!("\n{}\n", draw(&grid, style));
    text + &wrapped(&explained.summary.sentences(&explained.policy), width) + "\n"
}

fn remarks(explained: &Explained, left_out: &[String]) -> Vec<String> {
    let mut remarks = Vec::new();
    if explained.choices.iter().any(|choice| choice.background) {
        remarks.push("b after a stream: background work".to_owned());
    }
    if !explained.has_scores() {
        remarks.push(format!("{} gives no scores", explained.policy));
    }
    if explained.is_cut_short {
        remarks.push(format!("only the first {} choices of the window are shown", READS_MAX));
    }
    if !left_out.is_empty() {
        remarks.push(format!(
            "columns that do not fit: {} (use a wider terminal, set COLUMNS, or use --format csv)",
            left_out.join(", ")
        ));
    }
    remarks
}

fn choices(explained: &Explained) -> Grid {
    let score = explained.score_name();
    let parts = explained.part_names();
    let mut columns = vec![
        Column::right("at s"),
        Column::right("stream").droppable(STREAM_DROP_ORDER),
        Column::right("offset"),
        Column::right("size").droppable(SIZE_DROP_ORDER),
        Column::right("devid"),
        Column::right("in\nflight").droppable(SIZE_DROP_ORDER),
    ];
    if explained.has_scores() {
        columns.push(Column::right(score.map_or("score".to_owned(), stacked)));
    }
    let ranks = PARTS_DROP_ORDER..;
    columns.extend(
        parts.iter().zip(ranks).map(|(part, rank)| Column::right(stacked(part)).droppable(rank)),
    );
    columns.extend([
        Column::right("ex-\npected").droppable(EXPECTED_DROP_ORDER),
        Column::right("took"),
    ]);
    let rows = explained.choices.iter().flat_map(|choice| {
        let shown = Shown { choice, has_scores: explained.has_scores(), score, parts: &parts };
        choice.mirrors.iter().enumerate().map(move |(place, mirror)| shown.row(place, mirror))
    });
    Grid { rows: rows.collect(), columns }
}

/// The words of a name, one per line.
fn stacked(name: &str) -> String {
    NamedValue::words(name).replace(' ', "\n")
}

/// A choice and the columns of the table.
#[derive(Clone, Copy)]
struct Shown<'a> {
    choice: &'a ExplainedChoice,
    has_scores: bool,
    /// The name of the score, if it is the heading of the column.
    score: Option<&'static str>,
    parts: &'a [&'static str],
}

impl Shown<'_> {
    fn row(&self, place: usize, mirror: &MirrorChoice) -> GridRow {
        let choice = self.choice;
        let mut texts = match place {
            0 => vec![
                format!("{:.6}", Nanos(choice.at_ns).as_secs_f64()),
                format!("{}{}", choice.stream, if choice.background { "b" } else { "" }),
                shown_bytes(choice.offset),
                shown_bytes(choice.length),
            ],
            _ => vec![String::new(); 4],
        };
        texts.extend([mirror.devid.to_string(), mirror.in_flight.to_string()]);
        if self.has_scores {
            texts.push(mirror.score.as_ref().map_or(String::new(), |score| self.score(score)));
        }
        texts.extend(self.parts.iter().map(|&name| {
            let part = mirror.parts.iter().find(|part| part.name == name);
            part.map_or(String::new(), NamedValue::shown)
        }));
        texts.push(mirror.expected_ns.map_or("never".to_owned(), |it| Nanos(it).to_string()));
        texts.push(match mirror.taken {
            ReadOrder::No => String::new(),
            ReadOrder::First => choice.took_ns.map_or("-".to_owned(), |it| Nanos(it).to_string()),
            ReadOrder::Further => "as well".to_owned(),
        });
        GridRow { emphasis: emphasis(choice, mirror), texts }
    }

    fn score(&self, score: &NamedValue) -> String {
        match self.score {
            Some(_) => score.shown(),
            None => format!("{} {}", NamedValue::words(score.name), score.shown()),
        }
    }
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
    let row = |member: &MemberShare| GridRow {
        emphasis: Emphasis::None,
        texts: vec![
            member.devid.to_string(),
            member.eligible.to_string(),
            member.chosen.to_string(),
            percent(member.chosen),
            member.oracle.to_string(),
            percent(member.oracle),
            member.mean_took().map_or("-".to_owned(), |mean| mean.to_string()),
        ],
    };
    Grid {
        columns: vec![
            Column::right("devid"),
            Column::right("eligible"),
            Column::right("chosen"),
            Column::right("in %").droppable(2),
            Column::right("oracle's").droppable(1),
            Column::right("in %").droppable(3),
            Column::right("mean took"),
        ],
        rows: summary.members.iter().filter(|member| member.eligible > 0).map(row).collect(),
    }
}

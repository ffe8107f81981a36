//! The choices for a terminal: a row for each mirror, what was read and how long that took on the
//! row of the mirror that was chosen; then how policy and oracle compare.

use crate::experiment::explain::{
    ChoiceMade, Explained, Figure, MemberShare, MirrorShown, READS_MAX, Taken, shown_bytes,
};
use crate::report::text::wrapped;
use crate::report::{Column, Emphasis, Grid, GridRow, Layout, Style, TableLimits, draw};
use mirrorball_core::units::Nanos;

/// Width of running text where the terminal is wider.
const TEXT_WIDTH_MAX: usize = 100;
/// The least rank of a column of parts; the last part is left out first.
const PARTS_DROP_ORDER: u8 = 1;
/// A score and its parts are what people came for: who read is left out before.
const STREAM_DROP_ORDER: u8 = u8::MAX;

const LEGEND: [&str; 3] = [
    "* chosen, and the oracle could not have done better",
    "- chosen, though the oracle would have read from +",
    "foreseen: what reading there would have taken if nothing had come after it",
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
    text += &format!("\n{}\n", draw(&members(explained), style));
    text + &wrapped(&explained.summary.sentences(&explained.policy), width) + "\n"
}

fn remarks(explained: &Explained, left_out: &[String]) -> Vec<String> {
    let mut remarks = Vec::new();
    if explained.choices.iter().any(|choice| choice.background) {
        remarks.push("b behind a stream: work beside the jobs, which nobody waits for".to_owned());
    }
    if !explained.tells() {
        remarks.push(format!("{} does not tell its reasons", explained.policy));
    }
    if explained.is_cut_short {
        remarks.push(format!("there were more than {} choices in this time", READS_MAX));
    }
    if !left_out.is_empty() {
        remarks.push(format!(
            "left out for want of room: {} (widen the terminal, set COLUMNS, or take --format csv)",
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
        Column::right("size"),
        Column::right("devid"),
        Column::right("in\nflight"),
    ];
    if explained.tells() {
        columns.push(Column::right(score.map_or("score".to_owned(), stacked)));
    }
    let ranks = PARTS_DROP_ORDER..;
    columns.extend(
        parts.iter().zip(ranks).map(|(part, rank)| Column::right(stacked(part)).droppable(rank)),
    );
    columns.extend([Column::right("fore-\nseen"), Column::right("took")]);
    let rows = explained.choices.iter().flat_map(|choice| {
        let shown = Shown { choice, tells: explained.tells(), score, parts: &parts };
        choice.mirrors.iter().enumerate().map(move |(place, mirror)| shown.row(place, mirror))
    });
    Grid { rows: rows.collect(), columns }
}

/// A name in words, one to a line.
fn stacked(name: &str) -> String {
    Figure::words(name).replace(' ', "\n")
}

/// A choice, and which columns it is shown in.
#[derive(Clone, Copy)]
struct Shown<'a> {
    choice: &'a ChoiceMade,
    tells: bool,
    /// What stands in the heading of scores and need not be repeated.
    score: Option<&'static str>,
    parts: &'a [&'static str],
}

impl Shown<'_> {
    fn row(&self, place: usize, mirror: &MirrorShown) -> GridRow {
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
        if self.tells {
            texts.push(mirror.score.as_ref().map_or(String::new(), |score| self.score(score)));
        }
        texts.extend(self.parts.iter().map(|&name| {
            let part = mirror.parts.iter().find(|part| part.name == name);
            part.map_or(String::new(), Figure::shown)
        }));
        texts.push(mirror.foreseen_ns.map_or("never".to_owned(), |it| Nanos(it).to_string()));
        texts.push(match mirror.taken {
            Taken::No => String::new(),
            Taken::First => choice.took_ns.map_or("-".to_owned(), |it| Nanos(it).to_string()),
            Taken::Further => "as well".to_owned(),
        });
        GridRow { emphasis: emphasis(choice, mirror), texts }
    }

    fn score(&self, score: &Figure) -> String {
        match self.score {
            Some(_) => score.shown(),
            None => format!("{} {}", Figure::words(score.name), score.shown()),
        }
    }
}

fn emphasis(choice: &ChoiceMade, mirror: &MirrorShown) -> Emphasis {
    match (mirror.taken, mirror.oracle) {
        (Taken::First, _) if choice.agreed => Emphasis::Best,
        (Taken::First, _) => Emphasis::Slower,
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
            Column::right("in %"),
            Column::right("oracle's"),
            Column::right("in %"),
            Column::right("mean took"),
        ],
        rows: summary.members.iter().filter(|member| member.eligible > 0).map(row).collect(),
    }
}

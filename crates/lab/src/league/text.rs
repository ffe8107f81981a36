//! Standings for a terminal and as Markdown.

use super::standings::{Pairing, Standings, Table};
use crate::record::ORACLE;
use crate::report::markdown;
use crate::report::{Column, Emphasis, Grid, GridRow, Style, draw};

/// What is left out unless everything is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// Rivals in a table: the best.
    pub rivals: usize,
    /// Pairings: those where the first subject is worst.
    pub pairings: usize,
}

impl Room {
    /// What a screen holds.
    pub const SCREEN: Room = Room { rivals: 14, pairings: 25 };
    /// Everything.
    pub const ALL: Room = Room { rivals: usize::MAX, pairings: usize::MAX };
}

/// How a table is drawn.
type Draw<'a> = &'a dyn Fn(&Grid) -> String;

/// For a terminal.
pub fn text(standings: &Standings, room: Room, style: Style) -> String {
    written(standings, room, "", &|grid| draw(grid, style))
}

/// For a web page.
pub fn markdown(standings: &Standings, room: Room) -> String {
    written(standings, room, "## ", &|grid| format!("\n{}\n", markdown::draw(grid)))
}

fn written(standings: &Standings, room: Room, heading: &str, draw: Draw<'_>) -> String {
    let mut text = String::new();
    for table in &standings.tables {
        let half = table.half.name();
        text += &format!(
            "{heading}League, {half} half: {} pairings, {} rivals, {} (seed {}){}\n",
            table.pairings,
            standings.rivals,
            if standings.repeats == 1 {
                "one run each".to_owned()
            } else {
                format!("{} runs each", standings.repeats)
            },
            standings.seed,
            if standings.quick { ", short runs" } else { "" },
        );
        text += &draw(&table_grid(standings, table, room));
        for subject in &standings.subjects {
            text += &format!("{}\n", summary(standings, table, subject));
        }
        text += &format!("\n{heading}Where {} is worst, {half} half\n", standings.subjects[0]);
        text += &draw(&pairings_grid(standings, table, room));
        text += "\n";
    }
    text += "Ratios are to the best rival of each pairing: IOPS, or where the job sets its own \
             pace one over the\nmean latency. A win is a ratio of at least 0.99.\n";
    text
}

fn table_grid(standings: &Standings, table: &Table, room: Room) -> Grid {
    let columns = vec![
        Column::left("policy"),
        Column::right("geo. mean"),
        Column::right("of oracle"),
        Column::right("wins"),
        Column::right("worst"),
        Column::left("on"),
    ];
    let mut rivals = 0;
    let mut rows = Vec::new();
    for row in &table.rows {
        let is_subject = standings.subjects.contains(&row.policy);
        let is_oracle = row.policy == ORACLE;
        rivals += usize::from(!is_subject && !is_oracle);
        if rivals > room.rivals && !is_subject && !is_oracle {
            continue;
        }
        let emphasis = match (is_subject, is_oracle) {
            (true, _) => Emphasis::Best,
            (_, true) => Emphasis::Reference,
            _ => Emphasis::None,
        };
        let texts = vec![
            row.policy.clone(),
            format!("{:.3}", row.geometric_mean),
            format!("{:.3}", row.of_oracle),
            row.wins.to_string(),
            format!("{:.3}", row.worst),
            format!("{} {}", row.worst_array, row.worst_job),
        ];
        rows.push(GridRow { emphasis, texts });
    }
    Grid { columns, rows }
}

/// What a subject is held to.
fn summary(standings: &Standings, table: &Table, subject: &str) -> String {
    let row = table.row(subject).expect("a subject has a row");
    let entries = || {
        let of_half = standings.pairings.iter().filter(|pairing| pairing.half == table.half);
        of_half.filter_map(|pairing| pairing.entry(subject))
    };
    let behind = entries().filter(|entry| entry.ratio < 0.97).count();
    let is_tie = |ratio: f64| (0.97..=1.0 / 0.97).contains(&ratio);
    let ties = entries().filter(|entry| is_tie(entry.ratio)).count();
    let long_tails =
        entries().filter(|entry| is_tie(entry.ratio) && entry.p99_9_ratio > 1.1).count();
    let lead = match table.best_rival(&standings.subjects) {
        Some(rival) => format!(
            "{:.3} times the best rival's ({})",
            row.geometric_mean / rival.geometric_mean,
            rival.policy
        ),
        None => "no rival".to_owned(),
    };
    format!(
        "{subject}: geometric mean {lead}; under 0.97 in {behind} of {}; p99.9 over 1.1 in \
         {long_tails} of {ties} ties",
        table.pairings
    )
}

fn pairings_grid(standings: &Standings, table: &Table, room: Room) -> Grid {
    let mut columns = vec![
        Column::left("array"),
        Column::left("job"),
        Column::left("best rival"),
        Column::right("its figure"),
    ];
    for subject in &standings.subjects {
        for title in ["ratio", "oracle", "p99.9"] {
            columns.push(Column::right(title).under(subject.clone()));
        }
    }
    let mut pairings: Vec<&Pairing> =
        standings.pairings.iter().filter(|pairing| pairing.half == table.half).collect();
    let ratio = |pairing: &Pairing| {
        pairing.entry(&standings.subjects[0]).map_or(f64::NAN, |entry| entry.ratio)
    };
    pairings.sort_by(|left, right| ratio(left).total_cmp(&ratio(right)));
    let rows = pairings.into_iter().take(room.pairings).map(|pairing| {
        let mut texts = vec![
            pairing.array.clone(),
            pairing.job.clone(),
            pairing.best.clone(),
            pairing.best_figure(),
        ];
        for subject in &standings.subjects {
            let entry = pairing.entry(subject).expect("a subject is in every pairing");
            let figures = [entry.ratio, entry.of_oracle, entry.p99_9_ratio];
            texts.extend(figures.map(|figure| format!("{figure:.3}")));
        }
        GridRow { emphasis: Emphasis::None, texts }
    });
    Grid { columns, rows: rows.collect() }
}

/// One line for each policy under each pairing.
pub fn csv(standings: &Standings) -> String {
    let mut text = "array,job,half,best,policy,iops,mib_per_s,mean_us,p99_9_us,ratio,\
                    p99_9_ratio,of_oracle\n"
        .to_owned();
    for pairing in &standings.pairings {
        let Pairing { array, job, half, best, .. } = pairing;
        for entry in &pairing.entries {
            text += &format!(
                "{array},{job},{},{best},{},{:.1},{:.2},{:.1},{:.1},{:.4},{:.4},{:.4}\n",
                half.name(),
                entry.policy,
                entry.iops,
                entry.mib_per_s,
                entry.mean_us,
                entry.p99_9_us,
                entry.ratio,
                entry.p99_9_ratio,
                entry.of_oracle,
            );
        }
    }
    text
}

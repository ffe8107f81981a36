//! Standings for a terminal and as Markdown.

use super::standings::{Breakdown, LEAST, LeagueRow, LeagueTable, Standings, TAIL_MOST, WIN};
use crate::experiment::record::ORACLE;
use crate::report::text::wrapped;
use crate::report::{Column, Emphasis, Grid, GridRow, Style, draw, markdown};

/// What is left out unless everything is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// The best rivals, and the pairings where the first subject is worst.
    Screen,
    /// Everything, by array and by job too.
    All,
}

/// Rivals and pairings on a screen.
const SCREEN: (usize, usize) = (14, 25);

/// Width of running text.
const TEXT_WIDTH: usize = 100;

/// How headings, items and tables are written.
struct Pen<'a> {
    heading: &'a str,
    item: &'a str,
    draw: &'a dyn Fn(&Grid) -> String,
}

/// For a terminal.
pub fn text(standings: &Standings, detail: Detail, style: Style) -> String {
    written(standings, detail, &Pen { heading: "", item: "", draw: &|grid| draw(grid, style) })
}

/// For a web page.
pub fn markdown(standings: &Standings, detail: Detail) -> String {
    let draw = |grid: &Grid| format!("\n{}\n", markdown::draw(grid));
    let made = format!("Made by `{}`; do not edit.", standings.command);
    let head = format!("# The league, played\n\n{}\n\n", wrapped(&made, TEXT_WIDTH));
    head + &written(standings, detail, &Pen { heading: "## ", item: "- ", draw: &draw })
}

fn written(standings: &Standings, detail: Detail, pen: &Pen<'_>) -> String {
    let Pen { heading, item, draw } = pen;
    let first = &standings.subjects[0];
    let mut text = String::new();
    for table in &standings.tables {
        let half = table.half.name();
        text += &format!(
            "{heading}{}\n{}",
            title(standings, table),
            draw(&league(standings, table, detail))
        );
        for subject in &standings.subjects {
            let line = format!("{item}{}", summary(standings, table, subject));
            text += &(wrapped(&line, TEXT_WIDTH) + "\n");
        }
        if standings.subjects.len() > 1 {
            text += &format!("\n{heading}Beside {first}, {half} half\n");
            text += &draw(&versus_first(standings, table));
        }
        if detail == Detail::All {
            for (by, parts) in
                [("array", standings.by_array(table)), ("job", standings.by_job(table))]
            {
                text += &format!("\n{heading}{first} by {by}, {half} half\n");
                text += &draw(&by_part(by, &parts));
            }
        }
        text += &format!("\n{heading}Where {first} is worst, {half} half\n");
        text += &draw(&pairings(standings, table, detail));
        text += "\n";
    }
    let legend = format!(
        "Ratios are to the best rival of each pairing: of IOPS, or where the job sets its own pace \
         of one over the mean latency. A win is a ratio of at least {WIN}. The oracle is greedy \
         and can be beaten."
    );
    text + &wrapped(&legend, TEXT_WIDTH) + "\n"
}

/// What a table is of.
pub(super) fn title(standings: &Standings, table: &LeagueTable) -> String {
    let Standings { rivals, repeats, seed, quick, .. } = standings;
    format!(
        "League, {} half: {} pairings, {rivals} rivals, runs per cell: {repeats}, seed {seed}{}",
        table.half.name(),
        table.pairings,
        if *quick { ", short runs" } else { "" },
    )
}

/// The rows of a league that are shown: all subjects, the oracle, and the best rivals.
pub(super) fn shown<'a>(
    standings: &'a Standings,
    table: &'a LeagueTable,
    detail: Detail,
) -> impl Iterator<Item = (Emphasis, &'a LeagueRow)> {
    let mut rivals = 0;
    table.rows.iter().filter_map(move |row| {
        let emphasis = match &*row.policy {
            ORACLE => Emphasis::Reference,
            policy if standings.subjects.iter().any(|subject| subject == policy) => Emphasis::Best,
            _ => Emphasis::None,
        };
        rivals += usize::from(emphasis == Emphasis::None);
        let has_room = rivals <= SCREEN.0 || detail == Detail::All;
        (has_room || emphasis != Emphasis::None).then_some((emphasis, row))
    })
}

fn league(standings: &Standings, table: &LeagueTable, detail: Detail) -> Grid {
    let columns = vec![
        Column::left("policy"),
        Column::right("geo. mean"),
        Column::right("of oracle"),
        Column::right("wins"),
        Column::right("worst"),
        Column::left("on"),
    ];
    let row = |(emphasis, row): (Emphasis, &LeagueRow)| {
        let texts = vec![
            row.policy.clone(),
            format!("{:.3}", row.geometric_mean),
            format!("{:.3}", row.of_oracle),
            row.wins.to_string(),
            format!("{:.3}", row.worst),
            format!("{} {}", row.worst_array, row.worst_job),
        ];
        GridRow { emphasis, texts }
    };
    Grid { columns, rows: shown(standings, table, detail).map(row).collect() }
}

/// What a subject is held to.
pub(super) fn summary(standings: &Standings, table: &LeagueTable, subject: &str) -> String {
    let held = standings.held(table, subject);
    let rival = table.best_rival(&standings.subjects);
    format!(
        "{subject}: geometric mean {:.3} times that of {}; under {LEAST} in {} of {} pairings; \
         p99.9 over {TAIL_MOST} in {} of {} ties",
        held.geometric_mean / rival.geometric_mean,
        rival.policy,
        held.behind,
        table.pairings,
        held.long_tails,
        held.ties,
    )
}

fn versus_first(standings: &Standings, table: &LeagueTable) -> Grid {
    let columns = vec![
        Column::left("subject"),
        Column::right("geo. mean"),
        Column::right("least"),
        Column::left("on"),
        Column::right("most"),
        Column::left("on"),
    ];
    let row = |subject: &String| {
        let versus = standings.versus(table, subject);
        let texts = vec![
            subject.clone(),
            format!("{:.3}", versus.geometric_mean),
            format!("{:.3}", versus.least.ratio),
            versus.least.on,
            format!("{:.3}", versus.most.ratio),
            versus.most.on,
        ];
        GridRow { emphasis: Emphasis::None, texts }
    };
    Grid { columns, rows: standings.subjects[1..].iter().map(row).collect() }
}

fn by_part(by: &str, parts: &[Breakdown]) -> Grid {
    let columns = vec![
        Column::left(by),
        Column::right("pairings"),
        Column::right("geo. mean"),
        Column::right("of oracle"),
        Column::right("worst"),
        Column::left("on"),
    ];
    let row = |part: &Breakdown| {
        let texts = vec![
            part.name.clone(),
            part.pairings.to_string(),
            format!("{:.3}", part.geometric_mean),
            format!("{:.3}", part.of_oracle),
            format!("{:.3}", part.worst.ratio),
            part.worst.on.clone(),
        ];
        GridRow { emphasis: Emphasis::None, texts }
    };
    Grid { columns, rows: parts.iter().map(row).collect() }
}

fn pairings(standings: &Standings, table: &LeagueTable, detail: Detail) -> Grid {
    let mut columns = vec![
        Column::left("array"),
        Column::left("job"),
        Column::left("best rival"),
        Column::right("its figure"),
    ];
    // Beside many others a subject has detail for one figure.
    let titles = match standings.subjects.len() {
        1 | 2 => &["ratio", "oracle", "p99.9"][..],
        _ => &["ratio"],
    };
    for subject in &standings.subjects {
        let column = |title: &&str| Column::right(*title).under(subject.clone());
        columns.extend(titles.iter().map(column));
    }
    let mut pairings = standings.of(table);
    let ratio = |pairing: &super::standings::Pairing| pairing.entries[0].ratio;
    // A stable sort: equals stay in the order of the list.
    pairings.sort_by(|left, right| ratio(left).total_cmp(&ratio(right)));
    let count = if detail == Detail::All { usize::MAX } else { SCREEN.1 };
    let rows = pairings.into_iter().take(count).map(|pairing| {
        let (array, job) = (pairing.array.clone(), pairing.job.clone());
        let mut texts = vec![array, job, pairing.best.clone(), pairing.best_figure()];
        for subject in &standings.subjects {
            let entry = pairing.entry(subject);
            let figures = [entry.ratio, entry.of_oracle, entry.p99_9_ratio];
            let figures = figures.into_iter().take(titles.len());
            texts.extend(figures.map(|figure| format!("{figure:.3}")));
        }
        GridRow { emphasis: Emphasis::None, texts }
    });
    Grid { columns, rows: rows.collect() }
}

//! A repeated recipe for a terminal: table by table, published and simulated values side by side.

use super::compare::{
    Alternative, ClaimComparison, RankAgreement, Repetition, RowComparison, TableComparison,
};
use crate::report::{self, Column, Emphasis, Grid, Style, draw};

/// Width of running text where the terminal is wider.
const TEXT_WIDTH_MAX: usize = 100;

pub fn render(repetition: &Repetition, style: Style) -> String {
    let width = style.width_columns.min(TEXT_WIDTH_MAX);
    let mut text = wrapped(&format!("{}: {}", repetition.recipe, repetition.title), width);
    text += &wrapped(&summary(repetition), width);
    for source in &repetition.sources {
        text += &format!("  {source}\n");
    }
    for table in &repetition.tables {
        let grid = grid(table).fitted(style.width_columns).0;
        text += &format!("\n{}{}", wrapped(&table.title, width), draw(&grid, style));
        for line in remarks(table) {
            text += &(report::note(&one_line(&line), width) + "\n");
        }
    }
    for free in &repetition.free {
        let line = format!("chosen by us: {}: {} ({})", free.parameter, free.value, free.chosen);
        text += &("\n".to_owned() + &wrapped(&line, width));
    }
    text + "\n" + &wrapped(&repetition.mismatch, width)
}

/// How far the repetition agrees with its source, over all tables.
fn summary(repetition: &Repetition) -> String {
    let tables = || repetition.tables.iter();
    let taus: Vec<String> = tables()
        .filter_map(|table| table.agreement.as_ref()?.tau)
        .map(|tau| format!("{tau:.2}"))
        .collect();
    let claims: Vec<&ClaimComparison> = tables().flat_map(|table| &table.claims).collect();
    let held: Vec<bool> = tables().flat_map(within_tolerance).collect();
    let mut parts = Vec::new();
    if !taus.is_empty() {
        parts.push(format!("rank agreement (tau) {}", taus.join(", ")));
    }
    for (name, held) in [
        ("claims that hold here", claims.iter().map(|claim| claim.holds).collect::<Vec<bool>>()),
        ("values within the tolerance", held),
    ] {
        if !held.is_empty() {
            let count = held.iter().filter(|holds| **holds).count();
            parts.push(format!("{name}: {count} of {}", held.len()));
        }
    }
    match (parts.is_empty(), tables().any(|table| table.agreement.is_some())) {
        (false, _) => parts.join("; "),
        (true, true) => "no rows of it are more than 10 % apart in the original".to_owned(),
        (true, false) => "nothing of it has a published value".to_owned(),
    }
}

/// Whether each value is within the tolerance of the published one.
fn within_tolerance(table: &TableComparison) -> Vec<bool> {
    table.rows.iter().flat_map(|row| &row.cells).filter_map(|cell| cell.within).collect()
}

pub(super) fn grid(table: &TableComparison) -> Grid {
    let is_off = |row: &&RowComparison| row.cells.iter().any(|cell| cell.within == Some(false));
    let mut grid = Grid::of(&table.rows)
        .marked(|row| if is_off(row) { Emphasis::Wrong } else { Emphasis::None })
        .column(Column::left(table.of.clone()), |row| row.name.clone());
    for (index, column) in table.columns.iter().enumerate() {
        let has_published = table.rows.iter().any(|row| row.cells[index].published.is_some());
        // The first column is the most important one of a published table.
        let of = |title: &str, drop_order: u8| {
            let drop_order = drop_order.max(u8::try_from(index).unwrap_or(u8::MAX));
            Column::right(title).under(column.title.clone()).droppable(drop_order)
        };
        if has_published {
            grid = grid.column(of("published", 0), |row| {
                row.cells[index].published.map_or(String::new(), |it| it.to_string())
            });
        }
        grid = grid.column(of("simulated", 0), |row| figure(row.cells[index].ours));
        if has_published {
            grid = grid.column(of("ratio", 1), |row| {
                row.cells[index].ratio.map_or(String::new(), |ratio| format!("{ratio:.2}"))
            });
        }
    }
    grid.build()
}

/// Remarks below a table: the agreement, the claims of the source, the explained differences.
pub(super) fn remarks(table: &TableComparison) -> Vec<String> {
    let mut lines: Vec<String> = table.agreement.iter().map(agreement).collect();
    lines.extend(table.alternatives.iter().map(alternative));
    let held = within_tolerance(table);
    if !held.is_empty() {
        let within = held.iter().filter(|within| **within).count();
        lines.push(format!("within the tolerance: {within} of {} values", held.len()));
    }
    lines.extend(table.claims.iter().map(claim));
    for row in &table.rows {
        lines.extend(row.explained.iter().map(|why| format!("{}: {why}", row.name)));
    }
    lines
}

fn agreement(agreement: &RankAgreement) -> String {
    let tau = match agreement.tau {
        Some(tau) => {
            format!("rank agreement (tau) {tau:.2} over {} pairs", agreement.ranked_pairs)
        }
        None => "no two rows are more than 10 % apart in the original".to_owned(),
    };
    format!(
        "{tau}; the ratio of two rows is off by {:.0} % (median), {:.0} % (worst)",
        100.0 * agreement.ratio_error_median,
        100.0 * agreement.ratio_error_worst
    )
}

fn alternative(alternative: &Alternative) -> String {
    let Alternative { row, instead_of, tau } = alternative;
    let tau = tau.map_or("none".to_owned(), |tau| format!("{tau:.2}"));
    format!("tau with {row:?} in the place of {instead_of:?}: {tau}")
}

/// A claim and whether it holds, in one line.
pub(super) fn claim(claim: &ClaimComparison) -> String {
    let [more, less] = claim.ours.map(figure);
    let verdict = if claim.holds { "so it is here" } else { "not so here" };
    format!("\"{}\": {verdict}, {more} to {less}", claim.says)
}

/// A figure with three digits that count.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        large if large >= 100.0 => format!("{value:.0}"),
        middle if middle >= 10.0 => format!("{value:.1}"),
        _ if value == 0.0 => "0".to_owned(),
        small if small.is_nan() => "-".to_owned(),
        _ => format!("{value:.2}"),
    }
}

fn wrapped(text: &str, width: usize) -> String {
    report::wrapped(&one_line(text), width) + "\n"
}

/// Texts of a recipe are written on several lines; line ends have no meaning.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ")
}

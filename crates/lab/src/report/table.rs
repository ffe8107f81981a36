//! Tables for a terminal, 100 to 120 columns wide.

use super::grid::{Align, Emphasis, Grid};
use super::sheets::{self, Sheet};
use super::{Findings, Style};
use crate::study::Study;

/// Width of running text.
const TEXT_WIDTH: usize = 100;

pub(super) fn render(findings: &Findings<'_>, style: Style) -> String {
    let parts = findings.labelled().map(|(label, study)| {
        let heading = label.map_or(String::new(), |label| format!("== {label} ==\n\n"));
        painted(&heading, "1", style) + &study_part(study, style)
    });
    parts.collect::<Vec<String>>().join("\n")
}

fn study_part(study: &Study, style: Style) -> String {
    let mut text = sheets::title(study) + "\n";
    for Sheet { heading, grid, notes } in sheets::all(study) {
        text += &format!("\n{}\n", painted(&heading, "1", style));
        text += &draw(&grid, style);
        for note in notes {
            text += &format!("  ! {note}\n");
        }
    }
    text += "\n";
    for line in sheets::legend(study) {
        text += &format!("{line}\n");
    }
    text + "\n" + &painted(&wrapped(&study.verdict.sentence), "1", style) + "\n"
}

/// A table for a terminal.
pub fn draw(grid: &Grid, style: Style) -> String {
    let places: Vec<Place> = grid
        .gaps()
        .into_iter()
        .zip(grid.widths())
        .map(|(gap, width)| Place { gap, width })
        .collect();
    let mut lines = heading_lines(grid, &places);
    for row in &grid.rows {
        let cells = grid.columns.iter().zip(&row.texts).zip(&places);
        let padded = cells.map(|((column, text), place)| place.pad(text, column.align));
        let line = format!("{} {}", row.emphasis.mark(), padded.collect::<String>());
        lines.push(painted(line.trim_end(), colour(row.emphasis), style));
    }
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Where a column stands.
struct Place {
    gap: usize,
    width: usize,
}

impl Place {
    fn pad(&self, text: &str, align: Align) -> String {
        let &Place { gap, width } = self;
        match align {
            Align::Left => format!("{:gap$}{text:<width$}", ""),
            Align::Right => format!("{:gap$}{text:>width$}", ""),
        }
    }
}

/// Titles stand on their last line, group headings above them at the end of their columns.
fn heading_lines(grid: &Grid, places: &[Place]) -> Vec<String> {
    let mut lines = Vec::new();
    if grid.columns.iter().any(|column| !column.group.is_empty()) {
        lines.push(group_line(grid, places));
    }
    let titles: Vec<Vec<&str>> =
        grid.columns.iter().map(|column| column.title.lines().collect()).collect();
    let height = titles.iter().map(Vec::len).max().unwrap_or(0);
    for level in (1..=height).rev() {
        let mut line = String::from("  ");
        for ((column, title), place) in grid.columns.iter().zip(&titles).zip(places) {
            let part = title.len().checked_sub(level).map_or("", |index| title[index]);
            line += &place.pad(part, column.align);
        }
        lines.push(line.trim_end().to_owned());
    }
    lines
}

fn group_line(grid: &Grid, places: &[Place]) -> String {
    let mut line = String::new();
    let mut end = 2;
    let mut columns = grid.columns.iter().zip(places).peekable();
    while let Some((column, place)) = columns.next() {
        end += place.gap + place.width;
        let goes_on = columns.peek().is_some_and(|(next, _)| next.group == column.group);
        if !column.group.is_empty() && !goes_on {
            let missing = end - line.chars().count();
            line += &format!("{:>missing$}", column.group);
        }
    }
    line
}

/// `text` on lines of at most [`TEXT_WIDTH`] characters, broken between words.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let last = lines.last_mut().expect("starts with a line");
        if last.is_empty() {
            last.push_str(word);
        } else if last.chars().count() + 1 + word.chars().count() <= TEXT_WIDTH {
            *last += &format!(" {word}");
        } else {
            lines.push(word.to_owned());
        }
    }
    lines.join("\n")
}

fn colour(emphasis: Emphasis) -> &'static str {
    match emphasis {
        Emphasis::None => "",
        Emphasis::Best => "1;32",
        Emphasis::Tied => "32",
        Emphasis::Reference => "2",
        Emphasis::Wrong => "31",
    }
}

/// `text` between the codes of ECMA-48 (select graphic rendition), if colours are wanted.
fn painted(text: &str, code: &str, style: Style) -> String {
    match style {
        Style::Coloured if !code.is_empty() && !text.is_empty() => {
            format!("\x1b[{code}m{text}\x1b[0m")
        }
        Style::Coloured | Style::Plain => text.to_owned(),
    }
}

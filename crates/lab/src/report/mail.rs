//! Plain text to paste into a mail: bars around columns, ASCII, lines under 72 characters.
//!
//! The form is that of the tables in "raid1 balancing methods" (Anand Jain, linux-btrfs, 11 October
//! 2024), which is how people on kernel lists show such figures to each other.

use super::grid::{Align, Grid, Layout, TableLimits};
use super::text::{wrapped, wrapped_command};
use super::titled_tables::{self, TitledTable};
use super::{Findings, Style};
use crate::experiment::study::{Comparison, Study};
use std::borrow::Borrow;

/// Width of a line: one less than the customary 72.
const WIDTH: usize = 71;

pub(super) fn render(findings: &Findings<'_>, _style: Style) -> String {
    let mut parts: Vec<String> = findings
        .labelled()
        .map(|(label, study)| {
            let heading = label.map_or(String::new(), underlined);
            heading + &study_part(study)
        })
        .collect();
    parts.extend(findings.comparison.as_ref().map(comparison_part));
    ascii(&parts.join("\n"))
}

fn underlined(heading: &str) -> String {
    let heading = wrapped(heading, WIDTH);
    let width = heading.lines().map(|line| line.chars().count()).max().unwrap_or(0);
    format!("{heading}\n{}\n\n", "=".repeat(width))
}

fn study_part(study: &Study) -> String {
    let mut text = wrapped(&titled_tables::title(study), WIDTH) + "\n";
    if !study.plan.command.is_empty() {
        let command = wrapped_command(&study.plan.command, WIDTH - 4);
        text += &format!("\n  $ {}\n", command.replace('\n', "\n    "));
    }
    let titled = titled_tables::all(study, limits());
    text += &tables(&titled);
    text += &legend(&titled_tables::legend(study));
    text += &left_out(&titled);
    match study.verdict.sentence.as_str() {
        "" => text,
        sentence => text + "\n" + &wrapped(sentence, WIDTH) + "\n",
    }
}

fn comparison_part(comparison: &Comparison) -> String {
    let mut text = underlined(&comparison.labels.join(" / "));
    let titled = titled_tables::comparisons(comparison, limits());
    text += tables(&titled).trim_start();
    text += &legend(&titled_tables::comparison_legend());
    text += &left_out(&titled);
    for remark in &comparison.remarks {
        text += &(wrapped(&format!("! {remark}"), WIDTH) + "\n");
    }
    for overall in &comparison.overall {
        text += &format!("\n{}\n", wrapped(&overall.sentence, WIDTH));
    }
    text
}

fn tables(titled: &[TitledTable]) -> String {
    let mut text = String::new();
    for TitledTable { heading, grid, notes, remarks, .. } in titled {
        text += &format!("\n{}\n\n{}", wrapped(&format!("{heading}:"), WIDTH), draw(grid));
        for note in notes {
            text += &(wrapped(&format!("! {note}"), WIDTH) + "\n");
        }
        for remark in remarks {
            text += &(wrapped(remark, WIDTH) + "\n");
        }
    }
    text + "\n"
}

fn left_out(titled: &[TitledTable]) -> String {
    let titles = titled_tables::left_out(titled);
    if titles.is_empty() {
        return String::new();
    }
    let line = format!("left out to fit {WIDTH} columns: {}", titles.join("; "));
    wrapped(&line, WIDTH) + "\n"
}

fn legend<S: Borrow<str>>(lines: &[Vec<S>]) -> String {
    lines.iter().flatten().map(|remark| wrapped(remark.borrow(), WIDTH) + "\n").collect()
}

fn limits() -> TableLimits {
    // The mark and its blank are part of the first column.
    TableLimits { columns: WIDTH - 2, layout: Layout::Ruled }
}

fn draw(grid: &Grid) -> String {
    let mut widths = grid.widths();
    widths[0] += 2;
    let mut text = String::new();
    if grid.columns.iter().any(|column| !column.group.is_empty()) {
        text += &group_line(grid, &widths);
    }
    let titles: Vec<Vec<&str>> =
        grid.columns.iter().map(|column| column.title.lines().collect()).collect();
    let height = titles.iter().map(Vec::len).max().unwrap_or(0);
    for level in (1..=height).rev() {
        let part = |title: &Vec<&str>| {
            title.len().checked_sub(level).map_or(String::new(), |index| title[index].to_owned())
        };
        text += &line(grid, &widths, titles.iter().map(part));
    }
    let rules: Vec<String> = widths.iter().map(|width| "-".repeat(width + 2)).collect();
    text += &format!("|{}|\n", rules.join("|"));
    for row in &grid.rows {
        let mut texts = row.texts.clone();
        texts[0] = format!("{} {}", row.emphasis.mark(), texts[0]);
        text += &line(grid, &widths, texts.into_iter());
    }
    text
}

fn line(grid: &Grid, widths: &[usize], texts: impl Iterator<Item = String>) -> String {
    let padded = grid.columns.iter().zip(widths).zip(texts).map(|((column, &width), text)| {
        match column.align {
            Align::Left => format!(" {text:<width$} "),
            Align::Right => format!(" {text:>width$} "),
        }
    });
    format!("|{}|\n", padded.collect::<Vec<String>>().join("|"))
}

/// Headings that columns share, each across its columns.
fn group_line(grid: &Grid, widths: &[usize]) -> String {
    let mut first = 0;
    let mut parts = Vec::new();
    for group in
        grid.columns.chunk_by(|left, right| left.group == right.group && !left.group.is_empty())
    {
        let width =
            widths[first..first + group.len()].iter().sum::<usize>() + 3 * (group.len() - 1);
        parts.push(format!(" {:<width$} ", group[0].group));
        first += group.len();
    }
    format!("|{}|\n", parts.join("|"))
}

/// Our own signs in ASCII; names are the user's and stay as they are. A sign of two characters
/// takes the blank before it, so that columns keep their places.
fn ascii(text: &str) -> String {
    text.replace(" ±", "+-").replace('±', "+-")
}

//! Tables for a terminal, as wide as it is.

use super::brief::{self, EVERYTHING, TableExtent};
use super::grid::{Align, Emphasis, Grid};
use super::text::{note, wrapped};
use super::titled_tables::{self, TitledTable};
use super::{ColourMode, Findings, Style};
use crate::experiment::study::{Comparison, JobStudy, Matrix, Study};
use mirrorball_core::units::counted;
use std::borrow::Borrow;

/// Width of running text where the terminal is wider.
const TEXT_WIDTH_MAX: usize = 100;
/// Before remarks below a table.
const INDENT: &str = "  ";
/// Warnings that are shown without the tables of the jobs.
const WARNINGS: usize = 5;

pub(super) fn render(findings: &Findings<'_>, style: Style) -> String {
    let mut parts: Vec<String> = findings
        .labelled()
        .map(|(label, study)| {
            let heading = label.map_or(String::new(), |label| format!("== {label} ==\n\n"));
            painted(&heading, "1", style) + &brief(study, "", &EVERYTHING, style)
        })
        .collect();
    parts.extend(findings.comparison.as_ref().map(|comparison| {
        let heading = format!("== {} ==\n", comparison.labels.join(" / "));
        painted(&heading, "1", style) + &comparison_part(comparison, style)
    }));
    parts.join("\n")
}

/// Draws a study: its verdict and `advice`, then the policies against the jobs, then what qualifies
/// both. Under a single job the table of that job stands in the place of the matrix.
pub fn brief(study: &Study, advice: &str, extent: &TableExtent<'_>, style: Style) -> String {
    let has_matrix = study.jobs.len() > 1 && !study.has_dead_job();
    let has_job_tables = extent.job_tables || !has_matrix;
    let repeats = study.plan.seeds.len();
    let mut titled: Vec<TitledTable> = Vec::new();
    let mut hidden = 0;
    if has_matrix {
        let rows;
        (rows, hidden) = brief::matrix_rows(study, extent, style);
        let matrix = Matrix { jobs: study.matrix.jobs.clone(), rows };
        titled.extend(titled_tables::of_matrix(&matrix, style.width_columns));
    }
    if has_job_tables {
        for job in &study.jobs {
            let (rows, hidden_here) = brief::job_rows(study, job, extent, style);
            hidden = hidden.max(hidden_here);
            let job = JobStudy { rows, ..job.clone() };
            let tables = titled_tables::of_job(&job, repeats, style.width_columns);
            // The scores come before the figures of each section.
            let shown = if extent.job_tables { tables.len() } else { 1 };
            titled.extend(tables.into_iter().take(shown));
        }
    }
    let mut text = match study.verdict.sentence.as_str() {
        "" => advice.to_owned(),
        sentence => painted(&running(sentence, style), "1", style) + "\n" + advice,
    };
    text +=
        &format!("\n{}\n{}", running(&titled_tables::title(study), style), tables(&titled, style));
    let more = (hidden > 0).then(|| {
        format!("{}: --all", counted(hidden, "policy is not shown", "policies are not shown"))
    });
    let has_sections = study.jobs.iter().any(|job| job.sections.len() > 1);
    let each = match (extent.job_tables, has_job_tables) {
        (true, _) => None,
        (_, false) => Some("the tables of each job: --tables".to_owned()),
        _ => has_sections.then(|| "the tables of each section: --tables".to_owned()),
    };
    let more: Vec<String> = more.into_iter().chain(each).collect();
    if !more.is_empty() {
        text += &legend(&[more], style);
    }
    text.push('\n');
    text += &match has_job_tables {
        true => legend(&titled_tables::legend(study), style),
        false => legend(&titled_tables::matrix_legend(study), style),
    };
    text += &left_out(&titled_tables::left_out(&titled), "csv", style);
    if !has_job_tables {
        text += &warnings(study, style);
    }
    text
}

/// Warnings about figures that no table of a job shows.
fn warnings(study: &Study, style: Style) -> String {
    let all: Vec<String> = study.jobs.iter().flat_map(titled_tables::notes).collect();
    let mut lines: Vec<String> = all.iter().take(WARNINGS).map(|it| format!("! {it}")).collect();
    if all.len() > WARNINGS {
        let more = counted(all.len() - WARNINGS, "more warning", "more warnings");
        lines.push(format!("! {more}: --tables"));
    }
    lines.iter().map(|line| below(line, style) + "\n").collect()
}

fn comparison_part(comparison: &Comparison, style: Style) -> String {
    let titled = titled_tables::comparisons(comparison, style.width_columns);
    let mut text = tables(&titled, style) + "\n";
    text += &legend(&titled_tables::comparison_legend(), style);
    text += &left_out(&titled_tables::left_out(&titled), "csv", style);
    for remark in &comparison.remarks {
        text += &(below(&format!("! {remark}"), style) + "\n");
    }
    for overall in &comparison.overall {
        text += &format!("\n{}\n", painted(&running(&overall.sentence, style), "1", style));
    }
    text
}

fn tables(titled: &[TitledTable], style: Style) -> String {
    let mut text = String::new();
    for TitledTable { heading, grid, notes, remarks, .. } in titled {
        let heading = wrapped(heading, style.width_columns);
        text += &format!("\n{}\n{}", painted(&heading, "1", style), draw(grid, style));
        for note in notes {
            text += &indented(&format!("! {note}"), style);
        }
        for remark in remarks {
            text += &indented(remark, style);
        }
    }
    text
}

/// Running text, wrapped.
fn running(text: &str, style: Style) -> String {
    wrapped(text, style.width_columns.min(TEXT_WIDTH_MAX))
}

/// A line of the legend, wrapped.
fn below(text: &str, style: Style) -> String {
    note(text, style.width_columns.min(TEXT_WIDTH_MAX))
}

/// A remark below a table, wrapped.
fn indented(text: &str, style: Style) -> String {
    let width = style.width_columns.min(TEXT_WIDTH_MAX) - INDENT.len();
    let lines = note(text, width);
    lines.lines().map(|line| format!("{INDENT}{line}\n")).collect()
}

/// Remarks side by side where they fit.
fn legend<S: Borrow<str>>(lines: &[Vec<S>], style: Style) -> String {
    let mut text = String::new();
    for remarks in lines {
        let joined = remarks.join("   ");
        if joined.chars().count() <= style.width_columns.min(TEXT_WIDTH_MAX) {
            text += &format!("{joined}\n");
        } else {
            remarks.iter().for_each(|remark| text += &(below(remark.borrow(), style) + "\n"));
        }
    }
    text
}

/// The line that names the columns that did not fit, and the `format` that has them.
pub fn left_out(titles: &[String], format: &str, style: Style) -> String {
    if titles.is_empty() {
        return String::new();
    }
    let width = style.width_columns;
    let line = format!(
        "left out of {width} columns: {} (widen the terminal, set COLUMNS, or take --format \
         {format})",
        titles.join("; ")
    );
    below(&line, style) + "\n"
}

pub fn draw(grid: &Grid, style: Style) -> String {
    let places: Vec<ColumnSpan> = grid
        .gaps()
        .into_iter()
        .zip(grid.widths())
        .map(|(gap, width)| ColumnSpan { gap, width })
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

struct ColumnSpan {
    gap: usize,
    width: usize,
}

impl ColumnSpan {
    fn pad(&self, text: &str, align: Align) -> String {
        let &ColumnSpan { gap, width } = self;
        match align {
            Align::Left => format!("{:gap$}{text:<width$}", ""),
            Align::Right => format!("{:gap$}{text:>width$}", ""),
        }
    }
}

/// Titles are aligned to their last line; group headings are above them, right-aligned.
fn heading_lines(grid: &Grid, places: &[ColumnSpan]) -> Vec<String> {
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

fn group_line(grid: &Grid, places: &[ColumnSpan]) -> String {
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

fn colour(emphasis: Emphasis) -> &'static str {
    match emphasis {
        Emphasis::None => "",
        Emphasis::Best => "1;32",
        Emphasis::Tied => "32",
        Emphasis::Reference => "2",
        Emphasis::Faster => "32",
        Emphasis::Unsure => "",
        Emphasis::Slower | Emphasis::Wrong => "31",
    }
}

/// `text` between the codes of ECMA-48 (select graphic rendition), if colours are wanted.
fn painted(text: &str, code: &str, style: Style) -> String {
    match style.ink {
        ColourMode::Coloured if !code.is_empty() && !text.is_empty() => {
            format!("\x1b[{code}m{text}\x1b[0m")
        }
        ColourMode::Coloured | ColourMode::Plain => text.to_owned(),
    }
}

//! Tables for a page, in GitHub's dialect of Markdown.

use super::grid::{Align, Column, Emphasis, Grid};
use super::titled_tables::{self, PAGE_WIDTH, TitledTable};
use super::{Findings, Style};
use crate::experiment::study::{Comparison, Study};
use std::borrow::Borrow;

pub(super) fn render(findings: &Findings<'_>, _style: Style) -> String {
    let mut parts: Vec<String> = findings
        .labelled()
        .map(|(label, study)| {
            let heading = label.map_or(String::new(), |text| format!("# {}\n\n", escaped(text)));
            heading + &study_part(study)
        })
        .collect();
    parts.extend(findings.comparison.as_ref().map(comparison_part));
    parts.join("\n")
}

fn study_part(study: &Study) -> String {
    let mut text = format!("{}\n", escaped(&titled_tables::title(study)));
    if !study.plan.command.is_empty() {
        text += &format!("\n```sh\n{}\n```\n", study.plan.command);
    }
    text += &tables(&titled_tables::all(study, PAGE_WIDTH));
    text += &legend(&titled_tables::legend(study));
    match study.verdict.sentence.as_str() {
        "" => text,
        sentence => text + "\n**" + &escaped(sentence) + "**\n",
    }
}

fn comparison_part(comparison: &Comparison) -> String {
    let mut text = format!("# {}\n", escaped(&comparison.labels.join(" / ")));
    text += &tables(&titled_tables::comparisons(comparison, PAGE_WIDTH));
    text += &legend(&titled_tables::comparison_legend());
    for remark in &comparison.remarks {
        text += &format!("\n> {}\n", escaped(remark));
    }
    for overall in &comparison.overall {
        text += &format!("\n**{}**\n", escaped(&overall.sentence));
    }
    text
}

fn tables(titled: &[TitledTable]) -> String {
    let mut text = String::new();
    for TitledTable { heading, grid, notes, remarks, .. } in titled {
        text += &format!("\n## {}\n\n{}", escaped(heading), draw(grid));
        for note in notes.iter().chain(remarks) {
            text += &format!("\n> {}\n", escaped(note));
        }
    }
    text + "\n"
}

fn legend<S: Borrow<str>>(lines: &[Vec<S>]) -> String {
    // At the start of an item these would begin a list within the list.
    let guard = |remark: &str| if remark.starts_with(['+', '-']) { "\\" } else { "" };
    let item = |remark: &S| {
        let remark: &str = remark.borrow();
        format!("- {}{}\n", guard(remark), escaped(remark))
    };
    lines.iter().flatten().map(item).collect()
}

pub(crate) fn draw(grid: &Grid) -> String {
    let line = |texts: Vec<String>| format!("| {} |\n", texts.join(" | "));
    let rule = |column: &Column| match column.align {
        Align::Left => ":--".to_owned(),
        Align::Right => "--:".to_owned(),
    };
    let mut text = line(grid.columns.iter().map(title).collect());
    text += &line(grid.columns.iter().map(rule).collect());
    for row in &grid.rows {
        let mut texts: Vec<String> = row.texts.iter().map(|text| escaped(text)).collect();
        let (mark, name) = (row.emphasis.mark().trim(), &texts[0]);
        texts[0] = match row.emphasis {
            Emphasis::None | Emphasis::Reference => name.clone(),
            _ => format!("**{name}** {}", escaped(mark)),
        };
        text += &line(texts);
    }
    text
}

/// Group headings have no place of their own in Markdown.
fn title(column: &Column) -> String {
    let own = column.title.replace("-\n", "-").replace('\n', " ");
    if column.group.is_empty() {
        escaped(&own)
    } else {
        escaped(&format!("{} {own}", column.group))
    }
}

/// Text in which nothing but code between backticks is taken for a mark.
pub(crate) fn escaped(text: &str) -> String {
    let mut result = String::new();
    let mut is_code = false;
    for character in text.chars() {
        is_code ^= character == '`';
        // In a table a bar ends the cell even within code.
        if character == '|' || (!is_code && "\\*<>[]#~".contains(character)) {
            result.push('\\');
        }
        result.push(character);
    }
    result
}

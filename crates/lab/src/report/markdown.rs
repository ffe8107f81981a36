//! Tables for a page, in GitHub's dialect of Markdown.

use super::grid::{Align, Column, Emphasis, Grid};
use super::sheets::{self, Sheet};
use super::{Findings, Style};
use crate::study::Study;

pub(super) fn render(findings: &Findings<'_>, _style: Style) -> String {
    let parts = findings.labelled().map(|(label, study)| {
        let heading = label.map_or(String::new(), |label| format!("# {}\n\n", escaped(label)));
        heading + &study_part(study)
    });
    parts.collect::<Vec<String>>().join("\n")
}

fn study_part(study: &Study) -> String {
    let mut text = format!("{}\n", sheets::title(study));
    for Sheet { heading, grid, notes } in sheets::all(study) {
        text += &format!("\n## {heading}\n\n{}", draw(&grid));
        for note in notes {
            text += &format!("\n> {note}\n");
        }
    }
    text += "\n";
    for line in sheets::legend(study) {
        text += &format!("- {}\n", escaped(&line));
    }
    text + "\n**" + &study.verdict.sentence + "**\n"
}

fn draw(grid: &Grid) -> String {
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
            Emphasis::Best | Emphasis::Tied | Emphasis::Wrong => {
                format!("**{name}** {}", escaped(mark))
            }
            Emphasis::None | Emphasis::Reference => name.clone(),
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

fn escaped(text: &str) -> String {
    text.replace('|', "\\|").replace('*', "\\*")
}

//! The generated chapter on recipes: each with its source, its tables and its mismatches.

use super::builtin::NOT_REPEATED;
use super::compare::{Alternative, Repetition, TableComparison};
use super::text;
use crate::report::markdown::{draw, escaped};
use crate::report::text::wrapped;
use crate::report::{Column, Grid};

/// Characters in a line of running text.
const WIDTH: usize = 98;

/// Introduction of the chapter.
const PREFACE: &[&str] = &[
    "Made by `mirrorball recipe --all --format markdown`; do not edit.",
    "Each recipe repeats an experiment that others measured on real disks, on an array and with \
     jobs that stand for theirs, and shows the published and the simulated values side by side. A \
     value that a source does not state is a free parameter: it is named, and it is the same for \
     all policies of a table.",
    "Rank agreement is Kendall's tau over the pairs of rows that were more than 10 % \
     apart in the original: 1 is the same order, 0 is chance, -1 the reverse; simulated values \
     within 1 % of each other are a tie. In brackets it stands for the other process, where the \
     source does not state which one read under `btrfs/pid`. The ratio error is how far the ratio \
     between two rows is off the published one. A ratio is the simulated divided by the published \
     value, and 1.00 where the simulated value lies in a published range.",
];

/// The chapter: the introduction, the agreement of each recipe, then a section for each.
pub fn page(repetitions: &[Repetition]) -> String {
    let mut page = "# Published experiments, repeated\n\n".to_owned();
    for text in PREFACE {
        page += &(running("", text) + "\n");
    }
    page += &draw(&overview(repetitions));
    for repetition in repetitions {
        page += &section(repetition);
    }
    page += "\n## Not repeated\n\n| experiment | why |\n|---|---|\n";
    for (experiment, why) in NOT_REPEATED {
        page += &format!("| {experiment} | {why} |\n");
    }
    page
}

/// One row per table that ranks something.
pub(super) fn overview(repetitions: &[Repetition]) -> Grid {
    let ranked = repetitions.iter().flat_map(|repetition| {
        let tables = repetition.tables.iter();
        tables.filter_map(move |table| Some((repetition, table, table.agreement.as_ref()?)))
    });
    let percent = |fraction: f64| format!("{:.0} %", 100.0 * fraction);
    let other = |it: &Alternative| it.tau.map(|tau| format!(" ({tau:.2})"));
    Grid::of(ranked)
        .column(Column::left("recipe"), |(repetition, ..)| repetition.recipe.clone())
        .column(Column::left("table"), |(_, table, _)| table.title.clone())
        .column(Column::right("tau"), |(_, table, agreement)| {
            let others: String = table.alternatives.iter().filter_map(other).collect();
            agreement.tau.map_or("-".to_owned(), |tau| format!("{tau:.2}{others}"))
        })
        .column(Column::right("pairs"), |(.., agreement)| agreement.ranked_pairs.to_string())
        .column(Column::right("ratio error, median"), |(.., agreement)| {
            percent(agreement.ratio_error_median)
        })
        .column(Column::right("worst"), |(.., agreement)| percent(agreement.ratio_error_worst))
        .build()
}

pub fn section(repetition: &Repetition) -> String {
    let mut section = format!("\n## {}\n\n{}.\n\n", repetition.recipe, repetition.title);
    section += &(running("", &repetition.about) + "\n");
    for source in &repetition.sources {
        section += &format!("- {source}\n");
    }
    for table in &repetition.tables {
        section += &table_part(table);
    }
    if !repetition.free.is_empty() {
        section += "\n| free parameter | set to | how it was chosen |\n|---|---|---|\n";
    }
    for free in &repetition.free {
        let [parameter, value, chosen] =
            [&free.parameter, &free.value, &free.chosen].map(|text| escaped(&paragraph(text)));
        section += &format!("| {parameter} | {value} | {chosen} |\n");
    }
    section + "\n**What does not match.**\n\n" + &running("", &repetition.mismatch)
}

fn table_part(table: &TableComparison) -> String {
    let mut part = format!("\n### {}\n\n{}\n", table.title, draw(&text::grid(table)));
    for remark in text::remarks(table) {
        part += &running("- ", &remark);
    }
    part
}

/// Running text on lines that a person can read in the file too; `lead` begins the first.
fn running(lead: &str, text: &str) -> String {
    let text = escaped(&paragraph(text));
    let indent = "\n".to_owned() + &" ".repeat(lead.len());
    let lines = wrapped(&text, WIDTH - lead.len());
    format!("{lead}{}\n", lines.replace('\n', &indent))
}

/// A text of a recipe on one line: its line ends have no meaning.
fn paragraph(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

//! The table of policies against jobs.
//!
//! As many jobs as fit are columns of one table, their names folded more tightly if that helps;
//! further jobs follow in further tables. The column of the worst job is dropped first.

use super::{ONE_REPEAT, ORACLE_REMARK, TitledTable, clipped, percent, score};
use crate::experiment::record::ORACLE;
use crate::experiment::study::{Matrix, MatrixRow, Study};
use crate::report::grid::{Column, Emphasis, Grid};
use mirrorball_core::policies::short_policy_name;
use std::borrow::Cow;

/// Most jobs in one table; further jobs follow in further tables.
const COLUMNS_MAX: usize = 7;
/// Widths at which names of jobs are folded in a heading: the first that fits is taken.
const FOLDED_WIDTHS: [usize; 2] = [9, 6];

/// What the marks and the rows mean, where the tables of jobs are not shown.
pub(in crate::report) fn legend(study: &Study) -> Vec<Vec<Cow<'static, str>>> {
    let mut lines = vec![vec!["* best geometric mean"]];
    if study.plan.seeds.len() == 1 {
        lines[0].push(ONE_REPEAT);
    }
    if study.plan.contenders().any(|policy| policy == ORACLE) {
        lines.push(vec![ORACLE_REMARK]);
    }
    let lines = lines.into_iter().map(|line| line.into_iter().map(Cow::Borrowed).collect());
    let mut lines: Vec<Vec<Cow<'_, str>>> = lines.collect();
    lines.extend(score(study).map(|line| vec![Cow::Owned(line)]));
    lines
}

pub(in crate::report) fn tables(matrix: &Matrix, width: usize) -> Vec<TitledTable> {
    let places: Vec<usize> = (0..matrix.jobs.len()).collect();
    let is_narrow = |tables: &[TitledTable]| tables.iter().all(|table| table.grid.width() <= width);
    let mut tables = Vec::new();
    for count in (1..=COLUMNS_MAX.min(places.len())).rev() {
        for fold in FOLDED_WIDTHS {
            let parts = places.chunks(count).enumerate();
            tables = parts.map(|(part, places)| table(matrix, places, part, fold, width)).collect();
            let is_whole = tables.iter().all(|table: &TitledTable| table.left_out.is_empty());
            if is_narrow(&tables) && (is_whole || fold == FOLDED_WIDTHS[1]) {
                return tables;
            }
        }
    }
    // Nothing is narrow enough: a job to a table is as narrow as it gets.
    tables
}

fn table(matrix: &Matrix, places: &[usize], part: usize, fold: usize, width: usize) -> TitledTable {
    let is_first = part == 0;
    let is_oracle = |row: &&MatrixRow| row.policy == ORACLE;
    let mut grid = Grid::of(&matrix.rows)
        .marked(|row| if is_oracle(row) { Emphasis::Reference } else { Emphasis::None })
        .column(Column::left("policy"), |row| short_policy_name(&row.policy));
    if is_first {
        grid = grid.column(Column::right("geo.\nmean"), |row| percent(row.geometric_mean));
    }
    for &place in places {
        let column = Column::right(folded(&matrix.jobs[place], fold));
        grid = grid.column(column, |row| percent(row.percent[place]));
    }
    if is_first {
        grid = grid
            .column(Column::right("worst").droppable(1), |row| percent(row.worst_percent))
            .column(Column::left("under").droppable(2), |row| row.worst_job.clone());
    }
    let mut grid = grid.build();
    if is_first {
        grid.rows[0].emphasis = Emphasis::Best;
    }
    let continued = if is_first { "" } else { ", continued" };
    let heading = format!("speed in % of the best policy{continued}");
    TitledTable::fitted(heading, grid, width)
}

/// A long name on several lines of about `width`, broken behind its hyphens; a part that is far
/// too long is clipped.
fn folded(name: &str, width: usize) -> String {
    let mut lines = vec![String::new()];
    for part in name.split_inclusive('-') {
        let last = lines.last_mut().expect("starts with a line");
        if !last.is_empty() && last.chars().count() + part.chars().count() > width {
            lines.push(part.to_owned());
        } else {
            last.push_str(part);
        }
    }
    let lines: Vec<String> = lines.iter().map(|line| clipped(line, 2 * width)).collect();
    lines.join("\n")
}

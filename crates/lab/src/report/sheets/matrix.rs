//! The table of policies against jobs.
//!
//! As many jobs as fit stand beside each other, their names folded more tightly if that helps; the
//! rest is continued below. What a policy's worst job is goes first where room is short.

use super::job::NAME_MAX;
use super::{Sheet, clipped, percent};
use crate::experiment::record::ORACLE;
use crate::experiment::study::{Matrix, MatrixRow};
use crate::report::grid::{Column, Emphasis, Grid, GridRow, Room};

/// Jobs beside each other; more are continued below.
const COLUMNS_MAX: usize = 7;
/// Widths at which names of jobs are folded in a heading: the first that fits is taken.
const FOLDED_WIDTHS: [usize; 2] = [9, 6];

pub(super) fn sheets(matrix: &Matrix, room: Room) -> Vec<Sheet> {
    let places: Vec<usize> = (0..matrix.jobs.len()).collect();
    let is_narrow =
        |sheets: &[Sheet]| sheets.iter().all(|sheet| sheet.grid.width(room.layout) <= room.columns);
    let mut sheets = Vec::new();
    for count in (1..=COLUMNS_MAX.min(places.len())).rev() {
        for fold in FOLDED_WIDTHS {
            let parts = places.chunks(count).enumerate();
            sheets = parts.map(|(part, places)| sheet(matrix, places, part, fold, room)).collect();
            let is_whole = sheets.iter().all(|sheet: &Sheet| sheet.left_out.is_empty());
            if is_narrow(&sheets) && (is_whole || fold == FOLDED_WIDTHS[1]) {
                return sheets;
            }
        }
    }
    // Nothing is narrow enough: a job to a table is as narrow as it gets.
    sheets
}

fn sheet(matrix: &Matrix, places: &[usize], part: usize, fold: usize, room: Room) -> Sheet {
    let is_first = part == 0;
    let mut columns = vec![Column::left("policy")];
    if is_first {
        columns.push(Column::right("geo.\nmean"));
    }
    columns.extend(places.iter().map(|&place| Column::right(folded(&matrix.jobs[place], fold))));
    if is_first {
        columns.extend([Column::right("worst").spare(1), Column::left("under").spare(2)]);
    }
    let row = |row: &MatrixRow| {
        let mut texts = vec![clipped(&row.policy, NAME_MAX)];
        if is_first {
            texts.push(percent(row.geometric_mean));
        }
        texts.extend(places.iter().map(|&place| percent(row.percent[place])));
        if is_first {
            texts.extend([percent(row.worst_percent), row.worst_job.clone()]);
        }
        let is_oracle = row.policy == ORACLE;
        let emphasis = if is_oracle { Emphasis::Reference } else { Emphasis::None };
        GridRow { emphasis, texts }
    };
    let mut rows: Vec<GridRow> = matrix.rows.iter().map(row).collect();
    if is_first {
        rows[0].emphasis = Emphasis::Best;
    }
    let continued = if is_first { "" } else { ", continued" };
    let heading = format!("speed in % of the best policy{continued}");
    Sheet::fitted(heading, Grid { columns, rows }, room)
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

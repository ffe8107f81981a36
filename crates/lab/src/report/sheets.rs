//! What the tables show, and how figures are written: shared by every format for people.
//!
//! A block per job with a row per policy, the best first and the oracle last (`job`); then the
//! policies against the jobs (`matrix`). Several sets are compared in tables of their own
//! (`comparison`). A table that is too wide for its room loses its spare columns.

mod comparison;
mod job;
mod matrix;

pub(super) use comparison::{all as comparisons, legend as comparison_legend};

use super::grid::{Grid, Room};
use crate::experiment::record::ORACLE;
use crate::experiment::study::Study;
use mirrorball_core::units::Nanos;

/// A table with its heading and remarks.
pub(super) struct Sheet {
    pub(super) heading: String,
    pub(super) grid: Grid,
    /// What is not as it should be.
    pub(super) notes: Vec<String>,
    /// What else belongs to the table.
    pub(super) remarks: Vec<String>,
    /// Titles of columns that there was no room for.
    pub(super) left_out: Vec<String>,
}

impl Sheet {
    /// A sheet whose table has lost what `room` is too narrow for.
    fn fitted(heading: String, grid: Grid, room: Room) -> Sheet {
        let (grid, left_out) = grid.fitted(room);
        Sheet { heading, grid, notes: Vec::new(), remarks: Vec::new(), left_out }
    }
}

/// One line: what was compared.
pub(super) fn title(study: &Study) -> String {
    let plan = &study.plan;
    let seeds: Vec<String> = plan.seeds.iter().map(u64::to_string).collect();
    format!(
        "{}: {}, {}, {} (seeds {})",
        plan.array.name,
        counted(plan.policies.len(), "policy", "policies"),
        counted(plan.jobs.len(), "job", "jobs"),
        counted(seeds.len(), "repeat", "repeats"),
        seeds.join(", ")
    )
}

/// Every table of a study.
pub(super) fn all(study: &Study, room: Room) -> Vec<Sheet> {
    let mut sheets: Vec<Sheet> = study.jobs.iter().map(|job| job::sheet(job, room)).collect();
    sheets.extend(matrix::sheets(&study.matrix, room));
    sheets
}

/// What the marks and columns mean: lines of remarks that may stand beside each other.
pub(super) fn legend(study: &Study) -> Vec<Vec<&'static str>> {
    let ties = match study.plan.seeds.len() {
        1 => "one repeat: no interval, and no tie can be told",
        _ => "= not to be told from it (the 95 % interval of the difference holds zero)",
    };
    let merged = "latencies: all repeats' bins together";
    let mut lines = vec![
        vec!["* best of the job", ties],
        vec!["± half the 95 % interval of IOPS over repeats", merged],
    ];
    if study.jobs.iter().flat_map(|job| &job.rows).any(|row| row.extra_per_read > 0.0) {
        lines.push(vec!["extra reads: those that another mirror's answer made useless"]);
    }
    if study.jobs.iter().flat_map(|job| &job.rows).any(|row| row.withdrawn_per_read > 0.0) {
        lines.push(vec!["withdrawn reads: those taken back before a member began them"]);
    }
    if study.plan.contenders().any(|policy| policy == ORACLE) {
        lines.push(vec![
            "oracle: asks the disks which mirror will finish first; greedy, so not a strict bound",
        ]);
    }
    lines
}

/// The titles of all columns that were left out of some table, each once.
pub(super) fn left_out(sheets: &[Sheet]) -> Vec<String> {
    let mut titles: Vec<String> = Vec::new();
    for title in sheets.iter().flat_map(|sheet| &sheet.left_out) {
        if !titles.contains(title) {
            titles.push(title.clone());
        }
    }
    titles
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A rate with three figures or more.
fn number(value: f64) -> String {
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// A percentage: whole, with a decimal where that is all there is.
fn percent(value: f64) -> String {
    if value > 0.0 && value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

fn micros(value: f64) -> String {
    Nanos::from_secs_f64(value / 1e6).to_string()
}

/// The start of a name, where it is longer than `length_max`.
fn clipped(name: &str, length_max: usize) -> String {
    if name.chars().count() <= length_max {
        return name.to_owned();
    }
    name.chars().take(length_max - 2).chain("..".chars()).collect()
}

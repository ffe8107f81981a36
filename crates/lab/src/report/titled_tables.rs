//! What the tables show, and how figures are written: shared by every format for people.
//!
//! A block per job with a row per policy, the best first and the oracle last (`job`); then the
//! policies against the jobs (`matrix`). Several sets are compared in tables of their own
//! (`comparison`). A table that is too wide loses its droppable columns.

mod comparison;
mod job;
mod matrix;

pub(super) use comparison::{all as comparisons, legend as comparison_legend};

use super::grid::{Grid, TableLimits, clipped};
use crate::experiment::record::ORACLE;
use crate::experiment::study::Study;
use mirrorball_core::units::Nanos;

/// Characters of a policy's name that are shown; the built-in ones are shorter.
const NAME_MAX: usize = 30;

/// A table with its heading and remarks.
pub(super) struct TitledTable {
    pub(super) heading: String,
    pub(super) grid: Grid,
    /// Warnings, for example failed requests.
    pub(super) notes: Vec<String>,
    /// Further remarks about the table.
    pub(super) remarks: Vec<String>,
    /// Titles of the columns that did not fit.
    pub(super) left_out: Vec<String>,
}

impl TitledTable {
    /// A table without the columns that do not fit into `limits`.
    fn fitted(heading: String, grid: Grid, limits: TableLimits) -> TitledTable {
        let (grid, left_out) = grid.fitted(limits);
        TitledTable { heading, grid, notes: Vec::new(), remarks: Vec::new(), left_out }
    }
}

/// One line: the array and the numbers of policies, jobs and repeats.
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
pub(super) fn all(study: &Study, limits: TableLimits) -> Vec<TitledTable> {
    let repeats = study.plan.seeds.len();
    let of_job = |job| job::tables(job, repeats, limits);
    let mut tables: Vec<TitledTable> = study.jobs.iter().flat_map(of_job).collect();
    tables.extend(matrix::tables(&study.matrix, limits));
    tables
}

/// The legend of marks and columns: lines of remarks that may be printed on one line.
pub(super) fn legend(study: &Study) -> Vec<Vec<&'static str>> {
    let merged = "latencies: from the merged histograms of all repeats";
    let mut lines = match study.plan.seeds.len() {
        1 => {
            vec![vec![
                "* best of the job",
                "one repeat: no confidence interval, so differences may be chance",
            ]]
        }
        _ => vec![
            vec![
                "* best of the job",
                "= ties with it: the 95 % interval of the difference is within 5 % of 0",
            ],
            vec!["? undecided: that interval contains zero, and also differences over 5 %"],
        ],
    };
    if study.jobs.iter().any(|job| job.sections.len() > 1) {
        lines.push(vec!["± half the 95 % interval of the score or of IOPS over repeats", merged]);
        lines.push(vec![
            "score: geometric mean over sections of IOPS, or of 1/mean latency if the job sets \
             the rate",
        ]);
    } else {
        lines.push(vec!["± half the 95 % interval of IOPS over repeats", merged]);
    }
    if study.jobs.iter().flat_map(|job| &job.rows).any(|row| row.extra_per_read > 0.0) {
        lines.push(vec!["extra reads: redundant reads whose answer came after another mirror's"]);
    }
    if study.jobs.iter().flat_map(|job| &job.rows).any(|row| row.withdrawn_per_read > 0.0) {
        lines.push(vec!["withdrawn reads: redundant reads cancelled before a member began them"]);
    }
    if study.plan.contenders().any(|policy| policy == ORACLE) {
        lines.push(vec![
            "oracle: knows which mirror would complete a read first; does not plan ahead, so it \
             can be beaten",
        ]);
    }
    lines
}

/// The titles of all columns that were left out of some table, each once.
pub(super) fn left_out(tables: &[TitledTable]) -> Vec<String> {
    let mut titles: Vec<String> = Vec::new();
    for title in tables.iter().flat_map(|table| &table.left_out) {
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

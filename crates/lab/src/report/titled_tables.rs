//! What the tables show, and how figures are written: shared by every format for people.
//!
//! A block per job with a row per policy, the best first and the oracle last (`job`); then the
//! policies against the jobs (`matrix`). Several sets are compared in tables of their own
//! (`comparison`). A table that is too wide loses its droppable columns.

mod comparison;
mod job;
mod matrix;
mod remarks;

pub(super) use comparison::{all as comparisons, legend as comparison_legend};
pub(super) use job::{notes, ranked, tables as of_job};
pub(super) use matrix::{legend as matrix_legend, tables as of_matrix};

use super::grid::{Grid, clipped};
use crate::experiment::record::ORACLE;
use crate::experiment::study::{Figure, JobStudy, Row, Standing, Study, Term};
use mirrorball_core::units::{Nanos, counted};
use std::borrow::Cow;

/// Width of a page that scrolls, so that nothing is left out, and that has no headings over several
/// columns.
pub(super) const PAGE_WIDTH: usize = usize::MAX;

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
    /// A table without the columns that do not fit into `width`.
    fn fitted(heading: String, grid: Grid, width: usize) -> TitledTable {
        let (grid, left_out) = grid.fitted(width);
        TitledTable { heading, grid, notes: Vec::new(), remarks: Vec::new(), left_out }
    }
}

/// How far a single repeat can be trusted.
const ONE_REPEAT: &str = "one repeat: no confidence interval, so differences may be chance";
/// Which policy the oracle is.
const ORACLE_REMARK: &str = "oracle: knows which mirror would complete a read first; does not plan \
                             ahead, so it can be beaten";

/// One line: the array and the numbers of policies, jobs and repeats.
pub(super) fn title(study: &Study) -> String {
    let plan = &study.plan;
    let seeds: Vec<String> = plan.seeds.iter().map(u64::to_string).collect();
    format!(
        "{}: {}, {}, {} ({} {})",
        plan.array.name,
        counted(plan.policies.len(), "policy", "policies"),
        counted(plan.jobs.len(), "job", "jobs"),
        counted(seeds.len(), "repeat", "repeats"),
        if seeds.len() == 1 { "seed" } else { "seeds" },
        seeds.join(", ")
    )
}

pub(super) fn all(study: &Study, width: usize) -> Vec<TitledTable> {
    let repeats = study.plan.seeds.len();
    let tables = study.jobs.iter().flat_map(|job| of_job(job, repeats, width));
    let mut tables: Vec<TitledTable> = tables.collect();
    // Without a request that succeeded there is no best to compare with.
    if study.jobs.iter().all(|job| job.best.is_some()) {
        tables.extend(of_matrix(&study.matrix, width));
    }
    tables
}

/// Warnings about figures of a job: missed rates, few requests, latencies that results lack.
pub(super) fn warnings(job: &JobStudy) -> Vec<String> {
    let rows: Vec<&Row> = job.rows.iter().filter(|row| !row.is_oracle()).collect();
    [
        remarks::missed_rates(job, &rows),
        remarks::few_requests(job, &rows),
        remarks::absent_latencies(job, &rows),
    ]
    .concat()
}

/// The legend of marks and columns: lines of remarks that may be printed on one line.
pub(super) fn legend(study: &Study) -> Vec<Vec<Cow<'static, str>>> {
    let is_rate = |term: &Term| matches!(term.figure, Figure::Iops | Figure::Mib);
    let merged = match study.jobs.iter().flat_map(|job| &job.terms).all(is_rate) {
        true => "latencies: from the merged histograms of all repeats",
        false => "latencies: of all repeats merged; the one that ranks: their harmonic mean",
    };
    let ties = match study.plan.looks {
        1 => "= ties with it: the 95 % interval of the difference is within 5 % of 0",
        _ => "= ties with it: the 99 % interval of the difference is within 5 % of 0",
    };
    let rows = || study.jobs.iter().flat_map(|job| &job.rows);
    let has = |standing| rows().any(|row| row.standing == standing);
    let mut lines = vec![vec!["* best of the job"]];
    match study.plan.seeds.len() {
        1 => lines[0].push(ONE_REPEAT),
        _ => {
            lines[0].extend(has(Standing::Tied).then_some(ties));
            let undecided = "? undecided: the interval of the difference contains zero, and also \
                             differences over 5 %";
            lines.extend(has(Standing::Undecided).then(|| vec![undecided]));
        }
    }
    if study.jobs.iter().any(|job| job.sections.len() > 1) {
        lines.push(vec!["± half the 95 % interval of the score or of IOPS over repeats", merged]);
    } else {
        lines.push(vec!["± half the 95 % interval of IOPS over repeats", merged]);
    }
    if rows().any(|row| row.extra_per_read > 0.0) {
        lines.push(vec!["extra reads: redundant reads whose answer came after another mirror's"]);
    }
    if rows().any(|row| row.withdrawn_per_read > 0.0) {
        lines.push(vec!["withdrawn reads: redundant reads cancelled before a member began them"]);
    }
    if study.plan.contenders().any(|policy| policy == ORACLE) {
        lines.push(vec![ORACLE_REMARK]);
    }
    let mut lines: Vec<Vec<Cow<'_, str>>> =
        lines.into_iter().map(|line| line.into_iter().map(Cow::Borrowed).collect()).collect();
    lines.extend(score(study).map(|line| vec![Cow::Owned(line)]));
    let is_shown = |job: &JobStudy| job.sections.len() > 1 && !job.rows[0].shares.is_empty();
    if study.jobs.iter().any(is_shown) {
        lines.push(vec![Cow::Borrowed(
            "reads by devid: shares of the number of reads, not of bytes",
        )]);
    }
    lines
}

/// What the score is, where it is shown or is not the default one.
fn score(study: &Study) -> Option<String> {
    let Study { criteria, jobs, .. } = study;
    let Some(figure) = criteria.goal.figure else {
        let is_shown = jobs.iter().any(|job| job.sections.len() > 1);
        return is_shown.then(|| format!("score: {}", study.ranked_by()));
    };
    let figure = figure.name();
    Some(format!("score: geometric mean over sections of {figure} (of a latency 1/latency)"))
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

/// A rate with three figures or more.
pub fn number(value: f64) -> String {
    let digits = match value {
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}")
}

/// A rate that a job states: without decimals where it has none.
fn whole(rate: f64) -> String {
    if rate.fract() == 0.0 { rate.to_string() } else { number(rate) }
}

/// A percentage: whole, with a decimal where that is all there is.
fn percent(value: f64) -> String {
    if value > 0.0 && value < 9.95 { format!("{value:.1}") } else { format!("{value:.0}") }
}

/// A latency; that of a run without latencies is not a number.
fn micros(value: f64) -> String {
    if value.is_nan() {
        return "-".to_owned();
    }
    Nanos::from_secs_f64(value / 1e6).to_string()
}

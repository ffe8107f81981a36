//! From records to figures: what each policy achieved, which is best, and what to use.
//!
//! Everything is computed from the counts and bins of the saved cells; nothing is measured again
//! and nothing needs the simulator.
//!
//! - A cell's figure is its reads of all sections together: their number over the measured window
//!   of the run. A job that reads nothing is judged by its writes.
//! - Policies are ranked by IOPS; under a job that sets its own pace, where any policy that keeps
//!   up has the same IOPS, by mean latency. The score is IOPS or one over the latency.
//! - A latency percentile is read off the bins of all repeats together, never averaged. Its
//!   interval is that of the percentiles of the single repeats.
//! - The best policy of a job has the highest mean score; those that [`statistics::is_tie`] cannot
//!   tell from it tie. The oracle takes no part: it sees the future.

mod comparison;
mod estimate;
pub mod matrix;
pub mod statistics;
mod summary;
mod verdict;

pub use comparison::{Change, Comparison, ComparisonRow, JobComparison, Overall, Significance};
pub use estimate::Estimate;
pub use matrix::{Matrix, MatrixRow};
pub use summary::{CellSummary, Figures, MemberShare};
pub(crate) use verdict::BASELINE;
pub use verdict::{Gain, Verdict};

use crate::experiment::inputs;
use crate::experiment::plan::{JobSource, Pace, Plan};
use crate::experiment::record::{ORACLE, PROGRAM_VERSION, Percentiles, SCHEMA_VERSION};
use matrix::Scores;
use mirrorball_core::histogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use statistics::Scored;

/// What a plan's cells amount to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Study {
    /// [`SCHEMA_VERSION`] when it was made.
    pub schema_version: u32,
    /// Version of the program that made it.
    pub program_version: String,
    /// The plan that was run.
    pub plan: Plan,
    /// One per job, in the order of the plan.
    pub jobs: Vec<JobStudy>,
    /// Policies against jobs.
    pub matrix: Matrix,
    /// What to use.
    pub verdict: Verdict,
    /// One per cell, in the order of the plan.
    pub cells: Vec<CellSummary>,
}

/// One job: every policy beside the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct JobStudy {
    /// Name of the job.
    pub job: String,
    /// What the figures count: reads, or writes if the job reads nothing.
    pub judged_by: Direction,
    /// By which of their figures policies are ranked.
    pub yardstick: Yardstick,
    /// How many requests a second a job asks for that sets its own pace, of those that are judged;
    /// none where its text does not say so in requests.
    #[serde(default)]
    pub asked_iops: Option<f64>,
    /// The policy with the highest mean score.
    pub best: String,
    /// One per policy in the order of the plan; the oracle last.
    pub rows: Vec<Row>,
}

/// Which requests the figures count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Reads.
    Read,
    /// Writes.
    Write,
}

/// By which figure policies are ranked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Yardstick {
    /// Requests per second.
    Iops,
    /// Mean latency, because the job sets its own pace.
    MeanLatency,
}

/// One policy under one job, all repeats together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Canonical policy string, or `oracle`.
    pub policy: String,
    /// Against the best policy of the job.
    pub standing: Standing,
    /// What the job is judged by.
    pub figures: RowFigures,
    /// The writes of a job that reads too.
    pub writes: Option<RowFigures>,
    /// Part of the foreground reads that each member served.
    pub shares: Vec<MemberShare>,
    /// Member reads in vain, because another mirror had answered before, for each of use.
    pub extra_per_read: f64,
    /// Member reads that were withdrawn before the member began them, for each of use.
    #[serde(default)]
    pub withdrawn_per_read: f64,
    /// Mean score as a fraction of the oracle's; none for the oracle, or if it served nothing.
    pub fraction_of_oracle: Option<f64>,
}

/// Where a policy stands against the best of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// The highest mean score.
    Best,
    /// Cannot be told from the best.
    Tied,
    /// Slower than the best.
    Behind,
    /// The oracle, which takes no part.
    Reference,
}

/// Rates and latencies with their 95 % confidence intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RowFigures {
    /// Requests per second.
    pub iops: Estimate,
    /// MiB per second.
    pub mib_per_s: Estimate,
    /// Mean latency.
    pub mean_us: Estimate,
    /// Median latency.
    pub p50_us: Estimate,
    /// 99th percentile of the latency.
    pub p99_us: Estimate,
    /// 99.9th percentile of the latency.
    pub p99_9_us: Estimate,
    /// 99.99th percentile of the latency.
    pub p99_99_us: Estimate,
    /// Requests that failed, in all repeats.
    pub errors: u64,
}

/// Cells of one job and one policy, in the order of the repeats.
#[derive(Clone, Copy)]
struct Group<'a> {
    policy: &'a str,
    cells: &'a [CellSummary],
}

impl Study {
    /// Studies the cells of `plan`. A policy may lack some of the plan's seeds under a job.
    ///
    /// # Panics
    /// If `cells` are not in the order of the plan, or a policy has none under a job.
    pub fn new(plan: Plan, cells: Vec<CellSummary>) -> Study {
        let policies: Vec<&str> = plan.contenders().collect();
        let groups = grouped(&cells);
        let names =
            plan.jobs.iter().flat_map(|job| policies.iter().map(move |p| (&job.source.name, *p)));
        for ((job, policy), group) in names.zip(&groups) {
            let right = group.cells[0].job == *job && group.policy == policy;
            assert!(right, "cells of `{job}`, `{policy}` are out of place");
        }
        let group_count = plan.jobs.len() * policies.len();
        assert_eq!(groups.len(), group_count, "every policy needs a cell under every job");
        let by_job: Vec<&[Group<'_>]> = groups.chunks(policies.len()).collect();
        let jobs: Vec<JobStudy> =
            plan.jobs.iter().zip(&by_job).map(|(job, groups)| study_job(job, groups)).collect();
        let scores: Scores = jobs
            .iter()
            .zip(&by_job)
            .map(|(job, groups)| groups.iter().map(|group| group.scores(job.into())).collect())
            .collect();
        let matrix = Matrix::new(&policies, &jobs, &scores);
        let verdict = Verdict::new(&policies, &matrix, &scores);
        Study {
            schema_version: SCHEMA_VERSION,
            program_version: PROGRAM_VERSION.to_owned(),
            jobs,
            matrix,
            verdict,
            cells,
            plan,
        }
    }
}

impl Study {
    /// Its cells by job and policy.
    fn groups(&self) -> Vec<Group<'_>> {
        grouped(&self.cells)
    }
}

fn grouped(cells: &[CellSummary]) -> Vec<Group<'_>> {
    cells
        .chunk_by(|left, right| left.job == right.job && left.policy == right.policy)
        .map(|cells| Group { policy: &cells[0].policy, cells })
        .collect()
}

/// What a job's figures count, and which of them ranks policies.
#[derive(Clone, Copy)]
struct Judgement {
    direction: Direction,
    yardstick: Yardstick,
}

impl From<&JobStudy> for Judgement {
    fn from(job: &JobStudy) -> Judgement {
        Judgement { direction: job.judged_by, yardstick: job.yardstick }
    }
}

impl Group<'_> {
    /// The score of each repeat: the higher, the better.
    fn scores(&self, by: Judgement) -> Vec<Scored> {
        let score = |figures: &Figures| match by.yardstick {
            Yardstick::Iops => figures.iops,
            Yardstick::MeanLatency if figures.ios == 0 => 0.0,
            Yardstick::MeanLatency => 1e9 / figures.percentiles.mean_ns.max(1) as f64,
        };
        let scored = |cell: &CellSummary| Scored {
            seed: cell.seed,
            score: score(cell.figures(by.direction)),
        };
        self.cells.iter().map(scored).collect()
    }
}

/// Writes only if no policy read anything and some wrote.
fn judged_by(groups: &[Group<'_>]) -> Direction {
    let mut cells = groups.iter().flat_map(|group| group.cells);
    let reads_nothing = cells.clone().all(|cell| cell.read.is_idle());
    if reads_nothing && cells.any(|cell| !cell.write.is_idle()) {
        Direction::Write
    } else {
        Direction::Read
    }
}

fn study_job(job: &JobSource, groups: &[Group<'_>]) -> JobStudy {
    let direction = judged_by(groups);
    let yardstick = match job.pace {
        Pace::Array => Yardstick::Iops,
        Pace::Job => Yardstick::MeanLatency,
    };
    let by = Judgement { direction, yardstick };
    let mean = |group: &Group<'_>| statistics::mean_score(&group.scores(by)).mean;
    let best = groups
        .iter()
        .filter(|group| group.policy != ORACLE)
        // `max_by` takes the last of equals; the first in the plan shall stand.
        .rev()
        .max_by(|left, right| mean(left).total_cmp(&mean(right)))
        .expect("a plan has a policy");
    let oracle = groups.iter().find(|group| group.policy == ORACLE).map(mean);
    let standing = |group: &Group<'_>| match group.policy {
        ORACLE => Standing::Reference,
        policy if policy == best.policy => Standing::Best,
        _ if statistics::is_tie(&best.scores(by), &group.scores(by)) => Standing::Tied,
        _ => Standing::Behind,
    };
    let row = |group: &Group<'_>| Row {
        policy: group.policy.to_owned(),
        standing: standing(group),
        figures: row_figures(group, direction),
        writes: (direction == Direction::Read)
            .then(|| row_figures(group, Direction::Write))
            .filter(|_| group.cells.iter().any(|cell| !cell.write.is_idle())),
        shares: summary::merged_shares(group.cells),
        extra_per_read: summary::extra_per_read(group.cells),
        withdrawn_per_read: summary::withdrawn_per_read(group.cells),
        fraction_of_oracle: oracle
            .filter(|&oracle| oracle > 0.0 && group.policy != ORACLE)
            .map(|oracle| mean(group) / oracle),
    };
    JobStudy {
        job: job.source.name.clone(),
        judged_by: direction,
        yardstick,
        asked_iops: match job.pace {
            Pace::Array => None,
            Pace::Job => inputs::asked_iops_of_text(&job.source.text, direction),
        },
        best: best.policy.to_owned(),
        rows: groups.iter().map(row).collect(),
    }
}

fn row_figures(group: &Group<'_>, direction: Direction) -> RowFigures {
    let cells: Vec<&Figures> = group.cells.iter().map(|cell| cell.figures(direction)).collect();
    let mut merged = Histogram::default();
    cells.iter().for_each(|cell| merged.merge(&cell.latency));
    let together = Percentiles::from(&merged);
    let estimate = |value: f64, pick: &dyn Fn(&Figures) -> f64| {
        Estimate::new(value, &cells.iter().map(|cell| pick(cell)).collect::<Vec<f64>>())
    };
    let mean = |pick: &dyn Fn(&Figures) -> f64| {
        estimate(cells.iter().map(|cell| pick(cell)).sum::<f64>() / cells.len() as f64, pick)
    };
    let percentile = |pick: &dyn Fn(&Percentiles) -> u64| {
        let micros = |percentiles: &Percentiles| pick(percentiles) as f64 / 1e3;
        estimate(micros(&together), &|cell| micros(&cell.percentiles))
    };
    RowFigures {
        iops: mean(&|cell| cell.iops),
        mib_per_s: mean(&|cell| cell.mib_per_s),
        mean_us: percentile(&|p| p.mean_ns),
        p50_us: percentile(&|p| p.p50_ns),
        p99_us: percentile(&|p| p.p99_ns),
        p99_9_us: percentile(&|p| p.p99_9_ns),
        p99_99_us: percentile(&|p| p.p99_99_ns),
        errors: cells.iter().map(|cell| cell.errors).sum(),
    }
}

#[cfg(test)]
mod tests;

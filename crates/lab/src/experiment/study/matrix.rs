//! Policies against jobs: how near each comes to the best.
//!
//! A cell is the policy's mean score as a percentage of the best policy's under that job. The
//! geometric mean over the jobs ranks policies whatever the speed of each job; the worst cell is
//! what a policy may cost under work like that job.

use super::JobStudy;
use super::statistics::{Scored, geometric_mean, mean_score};
use crate::experiment::record::ORACLE;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// Scores by job, by policy, by repeat, in the order of the plan. No list of repeats is empty.
pub(crate) type Scores = Vec<Vec<Vec<Scored>>>;

/// Policies against jobs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Matrix {
    /// Names of the jobs, the columns.
    pub jobs: Vec<String>,
    /// Policies by geometric mean, the best first; the oracle last.
    pub rows: Vec<MatrixRow>,
}

/// One policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct MatrixRow {
    /// Canonical policy string, or `oracle`.
    pub policy: String,
    /// Percent of the best policy's score, by job.
    pub percent: Vec<f64>,
    /// The job under which it does worst, and its percentage there.
    pub worst_job: String,
    /// The least of `percent`.
    pub worst_percent: f64,
    /// Geometric mean of `percent`.
    pub geometric_mean: f64,
}

impl Matrix {
    pub(crate) fn new(policies: &[&str], jobs: &[JobStudy], scores: &Scores) -> Matrix {
        let job_names: Vec<String> = jobs.iter().map(|job| job.job.clone()).collect();
        let mut rows: Vec<MatrixRow> = policies
            .iter()
            .enumerate()
            .map(|(index, policy)| {
                let percent = |by_policy: &Vec<Vec<Scored>>| {
                    percent_of(mean(&by_policy[index]), best_mean(policies, by_policy))
                };
                row(policy, &job_names, scores.iter().map(percent).collect())
            })
            .collect();
        // A stable sort: equals stay in the order of the plan.
        rows.sort_by(|left, right| {
            let is_oracle = |row: &MatrixRow| row.policy == ORACLE;
            let by_mean = right.geometric_mean.total_cmp(&left.geometric_mean);
            is_oracle(left).cmp(&is_oracle(right)).then(by_mean)
        });
        Matrix { jobs: job_names, rows }
    }
}

/// The highest mean of any policy but the oracle.
pub(super) fn best_mean(policies: &[&str], by_policy: &[Vec<Scored>]) -> f64 {
    let candidates = policies.iter().zip(by_policy).filter(|(policy, _)| **policy != ORACLE);
    candidates.map(|(_, repeats)| mean(repeats)).fold(0.0, f64::max)
}

fn mean(repeats: &[Scored]) -> f64 {
    mean_score(repeats).mean
}

/// Where no policy served anything, each is as good as the best.
fn percent_of(value: f64, best: f64) -> f64 {
    if best > 0.0 { 100.0 * (value / best) } else { 100.0 }
}

fn row(policy: &str, jobs: &[String], percent: Vec<f64>) -> MatrixRow {
    let (worst, &worst_percent) = percent
        .iter()
        .enumerate()
        .min_by(|(_, left), (_, right)| left.total_cmp(right))
        .expect("a plan has a job");
    MatrixRow {
        policy: policy.to_owned(),
        worst_job: jobs[worst].clone(),
        worst_percent,
        geometric_mean: geometric_mean(&percent),
        percent,
    }
}

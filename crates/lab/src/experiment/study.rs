//! From records to figures: what each policy achieved, which is best, and which to use.
//!
//! Everything is computed from the counts and bins of the saved cells; nothing is measured again
//! and nothing needs the simulator.
//!
//! - Each section of a job has figures of its own, its clones together.
//! - Policies are ranked by their [`score`]: by default the geometric mean over the sections of
//!   throughput, of one over the mean latency where a section has a rate. A [`Goal`] replaces it.
//! - A latency percentile is read off the bins of all repeats together, never averaged. Its
//!   interval is that of the percentiles of the single repeats.
//! - The best policy of a job has the highest mean score; [`standing`] says which tie with it. The
//!   oracle takes no part: it sees the future.
//!
//! No policy is treated differently from another; none is named here.

mod array_cache;
mod comparison;
mod controller;
mod estimate;
mod figures;
pub mod goal;
pub mod matrix;
pub mod score;
pub mod standing;
pub mod statistics;
mod summary;
mod verdict;

pub use crate::experiment::record::IoKind;
pub use array_cache::ArrayCacheFigures;
pub use comparison::{Change, Comparison, ComparisonRow, JobComparison, Overall, Significance};
pub use controller::ControllerFigures;
pub use estimate::Estimate;
pub use figures::{RowFigures, SectionRow};
pub use goal::{Figure, Goal, Term};
pub use matrix::{Matrix, MatrixRow};
pub use score::Scoring;
pub use standing::{Spread, Standing};
pub use summary::{CellSummary, MemberShare, distinct_names};
pub use verdict::{Gain, Preference, Verdict};

use crate::experiment::plan::{InputText, Plan};
use crate::experiment::record::{ORACLE, PROGRAM_VERSION, SCHEMA_VERSION, SectionRecord};
use matrix::Scores;
use mirrorball_core::policies::names_program;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the cells of a plan amount to.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Study {
    /// [`SCHEMA_VERSION`] when it was made.
    pub schema_version: u32,
    /// Version of the program that made it.
    pub program_version: String,
    /// The plan that was run.
    pub plan: Plan,
    /// What policies are ranked by, and compared with.
    pub criteria: Criteria,
    /// One per job, in the order of the plan.
    pub jobs: Vec<JobStudy>,
    /// Policies against jobs.
    pub matrix: Matrix,
    /// Which policy to use.
    pub verdict: Verdict,
    /// One per cell, in the order of the plan.
    pub cells: Vec<CellSummary>,
}

/// What policies are ranked by, and compared with.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Criteria {
    /// What replaces the default score, if anything.
    pub goal: Goal,
    /// Canonical string of the policy that gains are stated against, such as the default of a
    /// kernel.
    pub baseline: Option<String>,
}

impl Criteria {
    /// The same for results of `policies`: a program has its canonical name.
    fn of_policies(self, policies: &[String]) -> Criteria {
        let named = |name: String| {
            let found = policies.iter().find(|policy| names_program(&name, policy));
            found.cloned().unwrap_or(name)
        };
        Criteria { baseline: self.baseline.map(named), ..self }
    }
}

/// One job under every policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct JobStudy {
    /// Name of the job.
    pub job: String,
    /// What the score is.
    pub yardstick: Yardstick,
    /// What the score is made of: figures of sections, with their weights.
    pub terms: Vec<Term>,
    /// Its sections, in the order of the file. There is at least one.
    pub sections: Vec<SectionStudy>,
    /// The policy with the highest mean score; none if no request that counts succeeded under any.
    pub best: Option<String>,
    /// True if results lack a latency that policies are ranked by, so that none is ranked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lacks_latencies: bool,
    /// False if no policy ever had more than one mirror to choose from; none if that was not
    /// counted.
    pub had_choice: Option<bool>,
    /// One per policy in the order of the plan; the oracle last.
    pub rows: Vec<Row>,
}

impl JobStudy {
    /// The first section that counts; the first one if none does.
    pub fn main_section(&self) -> usize {
        self.sections.iter().position(|section| section.counts).unwrap_or(0)
    }

    /// Returns true if some section reads.
    pub fn reads(&self) -> bool {
        self.sections.iter().any(|section| section.main_kind == IoKind::Read)
    }

    /// Why no policy had a choice.
    pub fn why_no_choice(&self) -> &'static str {
        let mut caches = self.rows.iter().map(|row| row.array_cache);
        if !self.reads() {
            "nothing is read"
        } else if caches.all(|cache| cache.is_some_and(|it| it.read_hits == Some(1.0))) {
            "the cache in front of the array served every read"
        } else {
            "every read had a single mirror"
        }
    }

    /// The figures of a row in the first section that counts.
    pub fn main_figures<'a>(&self, row: &'a Row) -> &'a RowFigures {
        &row.sections[self.main_section()].figures
    }
}

impl Row {
    /// True for the oracle, which takes no part.
    pub fn is_oracle(&self) -> bool {
        self.policy == ORACLE
    }
}

/// One section of a job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SectionStudy {
    /// Its name.
    pub name: String,
    /// True if it takes part in the score.
    pub counts: bool,
    /// The kind of requests by which it is shown: reads if it makes any, else writes, else trims.
    pub main_kind: IoKind,
    /// True if its requests come at a rate of their own.
    pub has_rate: bool,
    /// Requests per second of the main kind that it asks for, if it has a rate and its job states
    /// it in requests.
    pub asked_iops: Option<f64>,
    /// Requests per second of the main kind that come at least, if it has a rate: what it asks for,
    /// else the most that a policy served, since requests come alike under all.
    #[serde(skip)]
    pub least_asked_iops: Option<f64>,
}

impl SectionStudy {
    /// What it asks for, in words, if it has a rate.
    pub fn asked(&self, number: impl Fn(f64) -> String) -> Option<String> {
        let at_least = if self.asked_iops.is_none() { "at least " } else { "" };
        Some(format!("{at_least}{}", number(self.least_asked_iops?)))
    }
}

/// What a score is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Yardstick {
    /// Requests per second of the only section that counts.
    Iops,
    /// One over the mean latency in seconds of the only section that counts, because it has a rate.
    MeanLatency,
    /// A geometric mean over several figures, or another figure that the user named.
    Score,
}

/// One policy under one job, all repeats together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Row {
    /// Canonical policy string, or `oracle`.
    pub policy: String,
    /// Against the best policy of the job.
    pub standing: Standing,
    /// Its score: a mean over the repeats, with its interval.
    pub score: Estimate,
    /// The figures that its score is made of, in the order of [`JobStudy::terms`]: rates, and
    /// latencies in microseconds.
    pub terms: Vec<f64>,
    /// How its score varies over the seeds; none for a single repeat.
    pub spread: Option<Spread>,
    /// Its figures, one per section of the job.
    pub sections: Vec<SectionRow>,
    /// Part of the foreground reads that each member served.
    pub shares: Vec<MemberShare>,
    /// Member reads that were not needed, because another mirror had answered before, per read
    /// that was.
    pub extra_per_read: f64,
    /// Member reads that were withdrawn before the member began them, per read that was needed.
    pub withdrawn_per_read: f64,
    /// What the cache tier in front of the array did; none without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array_cache: Option<ArrayCacheFigures>,
    /// What the controller in front of the array did; none without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerFigures>,
    /// Mean score as a fraction of the oracle's; none for the oracle, or if it served nothing.
    pub fraction_of_oracle: Option<f64>,
}

/// Cells of one job and one policy, in the order of the repeats.
#[derive(Clone, Copy)]
struct Group<'a> {
    policy: &'a str,
    cells: &'a [CellSummary],
}

impl Study {
    /// Studies the cells of `plan`. A policy may lack some of the plan's seeds under a job. Panics
    /// if `cells` are not in the order of the plan, or a policy has none under a job.
    pub fn new(plan: Plan, mut cells: Vec<CellSummary>, criteria: Criteria) -> Study {
        let criteria = criteria.of_policies(&plan.policies);
        let policies: Vec<&str> = plan.contenders().collect();
        let groups = grouped(&cells);
        let names = plan.jobs.iter().flat_map(|job| policies.iter().map(move |p| (&job.name, *p)));
        for ((job, policy), group) in names.zip(&groups) {
            let is_in_place = group.cells[0].identity.job == *job && group.policy == policy;
            assert!(is_in_place, "cells of `{job}`, `{policy}` are out of place");
        }
        let group_count = plan.jobs.len() * policies.len();
        assert_eq!(groups.len(), group_count, "every policy needs a cell under every job");
        let by_job: Vec<&[Group<'_>]> = groups.chunks(policies.len()).collect();
        let scorings: Vec<Scoring> =
            by_job.iter().map(|groups| scoring_of(&criteria.goal, groups)).collect();
        let jobs: Vec<JobStudy> = plan
            .jobs
            .iter()
            .zip(by_job.iter().zip(&scorings))
            .map(|(job, (groups, scoring))| study_job(job, groups, scoring, plan.looks))
            .collect();
        let scores: Scores = by_job
            .iter()
            .zip(&scorings)
            .map(|(groups, scoring)| groups.iter().map(|group| scoring.scores(group)).collect())
            .collect();
        let scored: Vec<f64> =
            scores.iter().flatten().flatten().map(|repeat| repeat.score).collect();
        let matrix = Matrix::new(&policies, &jobs, &scores);
        let verdict = Verdict::new(&policies, &jobs, &matrix, &scores, &criteria, &plan);
        for (cell, score) in cells.iter_mut().zip(scored) {
            cell.score = score;
        }
        Study {
            schema_version: SCHEMA_VERSION,
            program_version: PROGRAM_VERSION.to_owned(),
            jobs,
            matrix,
            verdict,
            criteria,
            cells,
            plan,
        }
    }

    /// The same cells without those of policies that `keep` refuses, with another baseline. The
    /// oracle stays. Panics if no policy is kept.
    pub fn restricted(&self, keep: impl Fn(&str) -> bool, baseline: &str) -> Study {
        let mut plan = self.plan.clone();
        plan.policies.retain(|policy| keep(policy));
        assert!(!plan.policies.is_empty(), "a study needs a policy");
        let is_kept =
            |cell: &&CellSummary| cell.identity.policy == ORACLE || keep(&cell.identity.policy);
        let cells = self.cells.iter().filter(is_kept).cloned().collect();
        let baseline = Some(baseline.to_owned());
        Study::new(plan, cells, Criteria { baseline, ..self.criteria.clone() })
    }

    /// The row of the matrix of the policy that the verdict names, if it names one.
    pub fn verdict_row(&self) -> Option<&MatrixRow> {
        let policy = self.verdict.policy.as_ref()?;
        self.matrix.rows.iter().find(|row| row.policy == *policy)
    }

    /// What policies are ranked by, in words.
    pub fn ranked_by(&self) -> String {
        verdict::ranked_by(&self.jobs, &self.criteria)
    }

    /// True if under some job no request that counts succeeded, under any policy.
    pub fn has_dead_job(&self) -> bool {
        self.jobs.iter().any(|job| job.best.is_none())
    }

    /// The kind of requests by which a section is shown.
    pub fn main_kind(&self, job: &str, section: &str) -> Option<IoKind> {
        let job = self.jobs.iter().find(|it| it.job == job)?;
        Some(job.sections.iter().find(|it| it.name == section)?.main_kind)
    }

    /// Its cells by job and policy.
    fn groups(&self) -> Vec<Group<'_>> {
        grouped(&self.cells)
    }
}

fn grouped(cells: &[CellSummary]) -> Vec<Group<'_>> {
    cells
        .chunk_by(|CellSummary { identity: left, .. }, CellSummary { identity: right, .. }| {
            left.job == right.job && left.policy == right.policy
        })
        .map(|cells| Group { policy: &cells[0].identity.policy, cells })
        .collect()
}

fn scoring_of(goal: &Goal, groups: &[Group<'_>]) -> Scoring {
    Scoring::new(goal, groups.iter().flat_map(|group| group.cells))
}

fn study_job(job: &InputText, groups: &[Group<'_>], scoring: &Scoring, looks: u32) -> JobStudy {
    let scores: Vec<Vec<statistics::Scored>> =
        groups.iter().map(|group| scoring.scores(group)).collect();
    let mean = |index: usize| statistics::mean_score(&scores[index]).mean;
    let best = (0..groups.len())
        .filter(|&index| groups[index].policy != ORACLE && mean(index) > 0.0)
        // `max_by` takes the last of equals; the first in the plan shall stand.
        .rev()
        .max_by(|&left, &right| mean(left).total_cmp(&mean(right)));
    let oracle = groups.iter().position(|group| group.policy == ORACLE).map(mean);
    let standing = |index: usize| match (groups[index].policy, best) {
        (ORACLE, _) => Standing::Reference,
        (_, Some(best)) if best == index => Standing::Best,
        (_, Some(best)) => standing::standing(&scores[best], &scores[index], looks),
        (_, None) => Standing::Undecided,
    };
    let sections = sections_of(groups, scoring);
    let rows_of = |group: &Group<'_>| -> Vec<SectionRow> {
        let ranking: Vec<(Term, f64)> =
            scoring.terms().into_iter().zip(scoring.figures(group)).collect();
        let row = |section| SectionRow::new(section, group.cells, &ranking).ranked_by(&ranking);
        sections.iter().map(row).collect()
    };
    let row = |(index, group): (usize, &Group<'_>)| Row {
        policy: group.policy.to_owned(),
        standing: standing(index),
        score: Estimate::of_scores(&scores[index]),
        terms: scoring.figures(group),
        spread: Spread::new(&scores[index]),
        sections: rows_of(group),
        shares: summary::merged_shares(group.cells),
        extra_per_read: summary::per_read(group.cells, |member| member.extra_reads),
        withdrawn_per_read: summary::per_read(group.cells, |member| member.cancelled_reads),
        array_cache: ArrayCacheFigures::of(group.cells),
        controller: ControllerFigures::of(group.cells),
        fraction_of_oracle: oracle
            .filter(|&oracle| oracle > 0.0 && group.policy != ORACLE)
            .map(|oracle| mean(index) / oracle),
    };
    let rows = groups.iter().enumerate().map(row).collect();
    JobStudy {
        job: job.name.clone(),
        yardstick: scoring.yardstick(),
        terms: scoring.terms(),
        best: best.map(|index| groups[index].policy.to_owned()),
        lacks_latencies: scoring.lacks_latencies,
        had_choice: had_choice(groups),
        rows,
        sections,
    }
}

/// The sections of a job. Which kinds of requests a section makes is taken from all its cells.
fn sections_of(groups: &[Group<'_>], scoring: &Scoring) -> Vec<SectionStudy> {
    let cells = || groups.iter().flat_map(|group| group.cells);
    let study = |section: &SectionRecord| {
        let kinds = cells().filter_map(|cell| cell.section(&section.name)?.main_kind());
        let main_kind = kinds.min().unwrap_or(IoKind::Read);
        let served = |group: &Group<'_>| {
            let sections = group.cells.iter().filter_map(|cell| cell.section(&section.name));
            let iops: f64 = sections.map(|it| it.direction(main_kind).iops).sum();
            iops / group.cells.len() as f64
        };
        let most_served = || groups.iter().map(served).fold(0.0, f64::max);
        SectionStudy {
            name: section.name.clone(),
            counts: scoring.counts(&section.name),
            main_kind,
            has_rate: section.has_rate,
            asked_iops: section.asked_iops,
            least_asked_iops: section
                .has_rate
                .then(|| section.asked_iops.unwrap_or_else(most_served)),
        }
    };
    groups[0].cells[0].run.sections.iter().map(study).collect()
}

fn had_choice(groups: &[Group<'_>]) -> Option<bool> {
    let counted = groups.iter().flat_map(|group| group.cells).map(|cell| cell.run.choices);
    counted.collect::<Option<Vec<u64>>>().map(|choices| choices.iter().any(|&count| count > 0))
}

#[cfg(test)]
mod tests;

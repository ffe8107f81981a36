//! The verdict: which policy to use, what it gains over the baseline, and how sure that is.
//!
//! - The *leader* has the highest geometric mean over the jobs. Others tie with it when the
//!   geometric means of the single repeats, paired by seed, do (see [`super::standing`]).
//! - Among the leader and those that tie with it, the one with the shorter tail is named: the
//!   geometric mean, over jobs and sections that count, of the 99th percentile. Tails within
//!   [`TAIL_MARGIN`] are equal; among those the simpler policy is named, then that with the higher
//!   mean. Which policy is simpler is a property of its row in the table of policies.
//! - Where the leader depends on the seed ([`Spread::is_unsteady`]) and it is not decided whether a
//!   steady policy is slower, the steady one is named.
//! - The gain is the ratio of mean scores to those of the baseline, job by job: its geometric mean
//!   and its range.
//!
//! There is no verdict if no request succeeded under some job, or if no policy had a choice.

mod words;

pub(super) use words::score_in_words as ranked_by;

use super::matrix::{Matrix, Scores, best_mean};
use super::standing::{Spread, Standing, standing};
use super::statistics::{Scored, geometric_mean, mean_score};
use super::{Criteria, JobStudy};
use crate::experiment::plan::Plan;
use crate::experiment::record::ORACLE;
use mirrorball_core::policies::Spec;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// Tails within this fraction of the shortest are equal: bins of latencies are 1.1 % wide, and a
/// 99th percentile is the hundredth part of the requests.
const TAIL_MARGIN: f64 = 0.05;

/// Which policy to use.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Verdict {
    /// The policy to use; none if no policy can be recommended.
    pub policy: Option<String>,
    /// Why it is named before the leader, if it is not the leader itself.
    pub preferred: Option<Preference>,
    /// Policies that tie over all jobs, without the named one; the preferred first.
    pub ties: Vec<String>,
    /// Policies of which the repeats do not decide whether they are slower.
    pub undecided: Vec<Varying>,
    /// How the named policy varies over the seeds; none for a single repeat.
    pub spread: Option<Spread>,
    /// What it gains over the baseline; none if that was not compared or is the one to use.
    pub gain: Option<Gain>,
    /// The same in words.
    pub sentence: String,
}

/// Why one of several policies that tie is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Preference {
    /// The leader depends on the seed, and it does not.
    Steadier,
    /// Its 99th percentiles are lower.
    ShorterTail,
    /// Its rule is simpler.
    Simpler,
}

/// A policy and how its score over all jobs varies over the seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Varying {
    /// Its canonical string.
    pub policy: String,
    /// Its spread, if it completed anything.
    pub spread: Option<Spread>,
}

/// How much faster one policy is than another.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Gain {
    /// The policy it is measured against.
    pub over: String,
    /// Geometric mean of the factors; none if there is no factor.
    pub geometric_mean: Option<f64>,
    /// Per job the ratio of mean scores; none where the other policy completed nothing.
    pub factors: Vec<Option<f64>>,
}

/// A policy that may be named, with what decides.
#[derive(Clone, Debug)]
struct Candidate {
    index: usize,
    is_unsteady: bool,
    tail_ns: f64,
    complexity: u32,
}

impl Verdict {
    pub(crate) fn new(
        policies: &[&str],
        jobs: &[JobStudy],
        matrix: &Matrix,
        scores: &Scores,
        criteria: &Criteria,
        plan: &Plan,
    ) -> Verdict {
        let mut verdict = if jobs.iter().all(|job| job.best.is_some()) {
            Verdict::of_leader(policies, jobs, matrix, scores, criteria, plan.looks)
        } else {
            Verdict::none()
        };
        if jobs.iter().all(|job| job.had_choice == Some(false)) {
            verdict = Verdict::none();
        }
        verdict.sentence = words::sentence(&verdict, jobs, matrix, scores, criteria, &plan.command);
        verdict
    }

    /// True if more repeats would hardly change it: each policy is better, worse or as good, and
    /// the named one is steady.
    pub fn is_settled(&self) -> bool {
        let is_steady = self.spread.is_none_or(|spread| !spread.is_unsteady());
        self.undecided.is_empty() && is_steady
    }

    fn none() -> Verdict {
        Verdict {
            policy: None,
            preferred: None,
            ties: Vec::new(),
            undecided: Vec::new(),
            spread: None,
            gain: None,
            sentence: String::new(),
        }
    }

    fn of_leader(
        policies: &[&str],
        jobs: &[JobStudy],
        matrix: &Matrix,
        scores: &Scores,
        criteria: &Criteria,
        looks: u32,
    ) -> Verdict {
        let leader = index_of(policies, &matrix.rows[0].policy);
        let overall: Vec<Vec<Scored>> =
            (0..policies.len()).map(|index| overall_by_repeat(policies, scores, index)).collect();
        let candidate = |index: usize| Candidate {
            index,
            is_unsteady: spread_of(&overall[index]).is_some_and(|spread| spread.is_unsteady()),
            tail_ns: tail_ns(jobs, index),
            complexity: complexity(policies[index]),
        };
        let repeats = scores.iter().flatten().map(Vec::len).max().unwrap_or(0);
        let (mut tied, mut undecided) = (vec![candidate(leader)], Vec::new());
        for index in 0..policies.len() {
            let is_rival = policies[index] != ORACLE && index != leader && repeats > 1;
            if !is_rival || overall[index].is_empty() || overall[leader].is_empty() {
                continue;
            }
            match standing(&overall[leader], &overall[index], looks) {
                Standing::Tied => tied.push(candidate(index)),
                Standing::Undecided => undecided.push(candidate(index)),
                Standing::Best | Standing::Behind | Standing::Reference => {}
            }
        }
        let mut candidates = tied.clone();
        if tied[0].is_unsteady {
            candidates.extend(undecided.iter().filter(|one| !one.is_unsteady).cloned());
        }
        let (named, preferred) = preferred(candidates, &matrix_order(policies, matrix));
        tied.sort_by(|left, right| left.order(right));
        let name = |one: &Candidate| policies[one.index].to_owned();
        let others = |list: &[Candidate]| -> Vec<Candidate> {
            list.iter().filter(|one| one.index != named).cloned().collect()
        };
        let varying =
            |one: &Candidate| Varying { policy: name(one), spread: spread_of(&overall[one.index]) };
        let baseline = criteria.baseline.as_deref();
        let baseline = baseline.and_then(|name| policies.iter().position(|it| *it == name));
        Verdict {
            policy: Some(policies[named].to_owned()),
            preferred,
            // An undecided leader that was passed over does not tie with the named one.
            ties: match preferred {
                Some(Preference::Steadier) => Vec::new(),
                _ => others(&tied).iter().map(name).collect(),
            },
            undecided: match preferred {
                Some(Preference::Steadier) => {
                    let all = [tied, undecided].concat();
                    others(&all).iter().map(varying).collect()
                }
                _ => undecided.iter().map(varying).collect(),
            },
            spread: spread_of(&overall[named]),
            gain: baseline
                .filter(|&baseline| baseline != named)
                .map(|baseline| gain(policies, scores, named, baseline)),
            sentence: String::new(),
        }
    }
}

impl Candidate {
    /// The preferred first.
    fn order(&self, other: &Candidate) -> std::cmp::Ordering {
        (self.is_unsteady.cmp(&other.is_unsteady))
            .then(self.tail_ns.total_cmp(&other.tail_ns))
            .then(self.complexity.cmp(&other.complexity))
    }
}

/// The candidate to name, of which the first is the leader, and why it is not the leader.
fn preferred(mut left: Vec<Candidate>, order: &[usize]) -> (usize, Option<Preference>) {
    let leader = left[0].index;
    let mut reason = None;
    let mut keep = |left: &mut Vec<Candidate>, why, fits: &dyn Fn(&Candidate) -> bool| {
        let had_leader = left.iter().any(|one| one.index == leader);
        left.retain(fits);
        if had_leader && left.iter().all(|one| one.index != leader) {
            reason = Some(why);
        }
    };
    if left.iter().any(|one| !one.is_unsteady) {
        keep(&mut left, Preference::Steadier, &|one| !one.is_unsteady);
    }
    let shortest = left.iter().map(|one| one.tail_ns).fold(f64::INFINITY, f64::min);
    let is_short = |one: &Candidate| one.tail_ns <= shortest * (1.0 + TAIL_MARGIN);
    keep(&mut left, Preference::ShorterTail, &is_short);
    let simplest = left.iter().map(|one| one.complexity).min().unwrap_or(u32::MAX);
    keep(&mut left, Preference::Simpler, &|one| one.complexity == simplest);
    let place = |one: &Candidate| order.iter().position(|&index| index == one.index);
    let named = left.iter().min_by_key(|one| place(one)).expect("every step keeps one");
    (named.index, reason)
}

fn index_of(policies: &[&str], name: &str) -> usize {
    let found = policies.iter().position(|policy| *policy == name);
    found.expect("the matrix holds the plan's policies")
}

/// Indexes of the policies, the highest geometric mean first.
fn matrix_order(policies: &[&str], matrix: &Matrix) -> Vec<usize> {
    matrix.rows.iter().map(|row| index_of(policies, &row.policy)).collect()
}

fn spread_of(overall: &[Scored]) -> Option<Spread> {
    if overall.is_empty() { None } else { Spread::new(overall) }
}

/// Geometric mean of the 99th percentiles over jobs and sections that count.
fn tail_ns(jobs: &[JobStudy], policy: usize) -> f64 {
    let tails = jobs.iter().flat_map(|job| {
        let counting = job.sections.iter().zip(&job.rows[policy].sections);
        counting
            .filter(|(section, _)| section.counts)
            .map(|(_, row)| 1e3 * row.figures.p99_us.value)
    });
    let tails: Vec<f64> = tails.filter(|&tail| tail > 0.0).collect();
    if tails.is_empty() { f64::INFINITY } else { geometric_mean(&tails) }
}

/// How much a policy keeps and weighs, by the table of policies; the highest for one that is not
/// in the table of this build.
fn complexity(policy: &str) -> u32 {
    Spec::parse(policy).map_or(u32::MAX, |spec| spec.complexity())
}

/// The geometric mean over jobs that each repeat of a policy would have had in the matrix: of the
/// seeds that it was run with under every job.
fn overall_by_repeat(policies: &[&str], scores: &Scores, index: usize) -> Vec<Scored> {
    let best: Vec<f64> = scores.iter().map(|by_policy| best_mean(policies, by_policy)).collect();
    let fractions = |seed: u64| -> Option<Vec<f64>> {
        let of_job = |(by_policy, &best): (&Vec<Vec<Scored>>, &f64)| {
            let repeat = by_policy[index].iter().find(|repeat| repeat.seed == seed)?;
            Some(if best > 0.0 { repeat.score / best } else { 1.0 })
        };
        scores.iter().zip(&best).map(of_job).collect()
    };
    let seeds = scores[0][index].iter().map(|repeat| repeat.seed);
    seeds
        .filter_map(|seed| Some(Scored { seed, score: geometric_mean(&fractions(seed)?) }))
        .collect()
}

fn gain(policies: &[&str], scores: &Scores, named: usize, baseline: usize) -> Gain {
    let mean = |repeats: &Vec<Scored>| mean_score(repeats).mean;
    let factors: Vec<Option<f64>> = scores
        .iter()
        .map(|by_policy| (mean(&by_policy[named]), mean(&by_policy[baseline])))
        .map(|(score, other)| (other > 0.0).then_some(score / other))
        .collect();
    let known: Vec<f64> = factors.iter().copied().flatten().collect();
    let geometric_mean = (!known.is_empty()).then(|| geometric_mean(&known));
    Gain { over: policies[baseline].to_owned(), geometric_mean, factors }
}

#[cfg(test)]
mod tests;

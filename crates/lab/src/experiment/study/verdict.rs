//! The closing sentence: which policy to use, and what it gains over the kernel's default.
//!
//! The policy to use has the highest geometric mean over the jobs. Others tie with it when the
//! geometric means of the single repeats, paired by seed, cannot be told apart. Where
//! `mirrorball/auto` ties with the best it is the one to use: what leads here by chance may be far
//! behind under the next job, and it is made not to be. The gain is the
//! ratio of mean scores to that of `btrfs/pid`, job by job: its geometric mean and its range.

use super::matrix::{Matrix, Scores, best_mean};
use super::statistics::{Scored, geometric_mean, is_tie, mean_score};
use crate::experiment::record::ORACLE;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the kernel does unless told otherwise.
pub(crate) const BASELINE: &str = "btrfs/pid";

/// What is preferred among equals.
const GENERALIST: &str = "mirrorball/auto";

/// What to use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// The policy to use.
    pub policy: String,
    /// Policies that cannot be told from it over all jobs.
    pub ties: Vec<String>,
    /// What it gains over `btrfs/pid`; none if that was not compared or is the one to use.
    pub gain: Option<Gain>,
    /// The same in words.
    pub sentence: String,
}

/// How much faster one policy is than another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gain {
    /// The policy it is measured against.
    pub over: String,
    /// Geometric mean of the factors; none if there is no factor.
    pub geometric_mean: Option<f64>,
    /// Per job the ratio of mean scores; none where the other policy completed nothing.
    pub factors: Vec<Option<f64>>,
}

impl Verdict {
    pub(crate) fn new(policies: &[&str], matrix: &Matrix, scores: &Scores) -> Verdict {
        let index_of = |name: &str| policies.iter().position(|policy| *policy == name);
        let best = &matrix.rows.first().expect("a plan has a policy").policy;
        let overall = |index| overall_by_repeat(policies, scores, index);
        let ties_of = |name: &str| -> Vec<String> {
            let place = index_of(name).expect("the matrix holds the plan's policies");
            let is_tied = |&(index, &policy): &(usize, &&str)| {
                let [one, other] = [place, index].map(overall);
                let is_rival = policy != ORACLE && index != place;
                is_rival && !one.is_empty() && !other.is_empty() && is_tie(&one, &other)
            };
            let tied = policies.iter().enumerate().filter(is_tied);
            tied.map(|(_, policy)| (*policy).to_owned()).collect()
        };
        let ties = ties_of(best);
        let (winner, ties) = if ties.iter().any(|name| name == GENERALIST) {
            (GENERALIST.to_owned(), ties_of(GENERALIST))
        } else {
            (best.clone(), ties)
        };
        let winner_index = index_of(&winner).expect("it is one of the plan's policies");
        let gain = index_of(BASELINE)
            .filter(|&baseline| baseline != winner_index)
            .map(|baseline| gain(scores, winner_index, baseline));
        let mut verdict = Verdict { policy: winner, ties, gain, sentence: String::new() };
        verdict.sentence = verdict.in_words(policies, matrix, scores);
        verdict
    }

    fn in_words(&self, policies: &[&str], matrix: &Matrix, scores: &Scores) -> String {
        let repeats = scores.iter().flatten().map(Vec::len).max().unwrap_or(0);
        let repeats =
            if repeats == 1 { "1 repeat".to_owned() } else { format!("{repeats} repeats") };
        let policy = &self.policy;
        if policies.iter().filter(|name| **name != ORACLE).count() == 1 {
            return format!("Only `{policy}` was run; name more policies to compare it with.");
        }
        if let Some(idle) = idle_job(policies, scores, &matrix.jobs) {
            return format!("Under {idle} nothing was read or written, so nothing can be said.");
        }
        let of_winner = matrix.rows.iter().find(|row| row.policy == self.policy);
        let row = of_winner.expect("the policy to use has its row");
        let over = over_jobs(&matrix.jobs);
        let achieved = match &self.gain {
            Some(gain) if self.ties.contains(&gain.over) => {
                let gain = gain.in_words(&over, &matrix.jobs);
                format!("{gain}, on average: it takes more repeats to be sure")
            }
            Some(gain) => gain.in_words(&over, &matrix.jobs),
            None if policy == BASELINE => format!("{over} no policy compared here beats it"),
            None => {
                let percent = row.geometric_mean;
                format!("{over} it reaches {percent:.0} % of the best (`{BASELINE}` was not run)")
            }
        };
        let leads = matrix.rows[0].policy == *policy;
        let why = if leads { "" } else { "it needs no choosing, and none is faster for sure; " };
        let mut sentence = format!("Use `{policy}`: {why}{achieved}");
        if matrix.jobs.len() > 1 {
            sentence += &if row.worst_percent >= 100.0 {
                "; it is the best under each of them".to_owned()
            } else {
                format!("; its least is {:.0} % of the best ({})", row.worst_percent, row.worst_job)
            };
        }
        if !self.ties.is_empty() {
            let ties = self.ties.join("`, `");
            sentence += &format!("; `{ties}` cannot be told from it in {repeats}");
        }
        sentence + "."
    }
}

impl Gain {
    fn in_words(&self, over: &str, jobs: &[String]) -> String {
        let Gain { over: other, geometric_mean, factors } = self;
        let known = || {
            let pairs = jobs.iter().zip(factors);
            pairs.filter_map(|(job, factor)| Some((job, (*factor)?)))
        };
        let Some(mean) = geometric_mean else {
            return format!("`{other}` completed nothing at all");
        };
        let mut words = format!("{over} it is {} times as fast as `{other}`", times(*mean));
        let least = known().min_by(|left, right| left.1.total_cmp(&right.1));
        let most = known().max_by(|left, right| left.1.total_cmp(&right.1));
        if let (Some((least_job, least)), Some((most_job, most))) = (least, most)
            && least_job != most_job
        {
            let (least, most) = (times(least), times(most));
            words +=
                &format!(" (geometric mean; from {least} on {least_job} to {most} on {most_job})");
        }
        let starved: Vec<&str> = jobs
            .iter()
            .zip(factors)
            .filter(|(_, factor)| factor.is_none())
            .map(|(job, _)| job.as_str())
            .collect();
        if !starved.is_empty() {
            words += &format!(", and on {} `{other}` completed nothing", starved.join(", "));
        }
        words
    }
}

/// A job under which no policy did anything.
fn idle_job<'a>(policies: &[&str], scores: &Scores, jobs: &'a [String]) -> Option<&'a str> {
    let is_idle = |by_policy: &Vec<Vec<Scored>>| best_mean(policies, by_policy) <= 0.0;
    let index = scores.iter().position(is_idle)?;
    Some(&jobs[index])
}

fn over_jobs(jobs: &[String]) -> String {
    match jobs {
        [only] => format!("on {only}"),
        _ => format!("over the {} jobs", jobs.len()),
    }
}

fn times(factor: f64) -> String {
    if factor < 9.995 { format!("{factor:.2}") } else { format!("{factor:.0}") }
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

fn gain(scores: &Scores, winner: usize, baseline: usize) -> Gain {
    let mean = |repeats: &Vec<Scored>| mean_score(repeats).mean;
    let factors: Vec<Option<f64>> = scores
        .iter()
        .map(|by_policy| (mean(&by_policy[winner]), mean(&by_policy[baseline])))
        .map(|(score, other)| (other > 0.0).then_some(score / other))
        .collect();
    let known: Vec<f64> = factors.iter().copied().flatten().collect();
    let geometric_mean = (!known.is_empty()).then(|| geometric_mean(&known));
    Gain { over: BASELINE.to_owned(), geometric_mean, factors }
}

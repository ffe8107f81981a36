//! Comparisons of two or more studies: before and after a change, simulated and live.
//!
//! The first is what the others are compared with. Under each job, each policy that both have is
//! compared by its speed (the score by which policies are ranked), by the rule that tells ties
//! within a study: paired by seed where the sets share seeds, as independent samples where they do
//! not. How far the sets agree about the *order* of policies is Kendall's rank correlation (tau-b,
//! which allows for ties: Kendall, "The treatment of ties in ranking problems", Biometrika 33,
//! 1945): what a person who chooses a policy by simulation wants to know of it.

use super::goal::Goal;
use super::statistics::{Matched, geometric_mean, mean_score};
use super::{Estimate, Group, JobStudy, Row, Scoring, Study, Yardstick, scoring_of};
use crate::experiment::record::ORACLE;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// Result sets compared with the first of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Comparison {
    /// What the sets are called; the others are compared with the first.
    pub labels: Vec<String>,
    /// One per job of the first set that another one has too.
    pub jobs: Vec<JobComparison>,
    /// One per further set.
    pub overall: Vec<Overall>,
    /// Other differences between the sets: different texts under one name, different builds of the
    /// program.
    pub remarks: Vec<String>,
}

/// One job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct JobComparison {
    /// Its name.
    pub job: String,
    /// Which figure is compared, as in the first set.
    pub yardstick: Yardstick,
    /// One per policy of the first set that another one has too, the best of the first set first.
    pub rows: Vec<ComparisonRow>,
    /// Per further set, how far the order of the policies agrees: 1 the same, -1 the reverse; none
    /// with fewer than two policies.
    pub rank_agreement: Vec<Option<f64>>,
}

/// One policy under one job.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ComparisonRow {
    /// Canonical policy string, or `oracle`.
    pub policy: String,
    /// The figure in the first set: IOPS, the mean latency in microseconds, or the score, by the
    /// job's yardstick.
    pub first: Estimate,
    /// Per further set; none where it lacks the job or the policy.
    pub changes: Vec<Option<Change>>,
}

/// A further set against the first.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Change {
    /// The figure in this set.
    pub figure: Estimate,
    /// Speed as a multiple of that in the first set: above 1 is faster, by either yardstick. None
    /// if nothing was served in the first set.
    pub speed: Option<Estimate>,
    /// Whether that is more than chance.
    pub significance: Significance,
}

/// Whether a difference in speed is more than chance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Significance {
    /// Faster than the first set: the 95 % interval of the difference lies above zero.
    Faster,
    /// Slower than the first set: the interval lies below zero.
    Slower,
    /// Tied with the first set: the interval contains zero.
    Tied,
    /// It differs in a single repeat, which cannot be tested.
    Unknown,
}

/// A further set against the first over all jobs and policies.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Overall {
    /// What the set is called.
    pub label: String,
    /// Geometric mean of the multiples in speed, the oracle's apart; none if there are none.
    pub speed: Option<f64>,
    /// How many pairs of job and policy are faster.
    pub faster: u32,
    /// How many are slower.
    pub slower: u32,
    /// How many are tied.
    pub tied: u32,
    /// How many differ with a single repeat.
    pub unknown: u32,
    /// Under how many jobs the same policy is the best.
    pub same_best: u32,
    /// How many jobs both sets have.
    pub jobs: u32,
    /// The same in words.
    pub sentence: String,
}

impl Comparison {
    /// Compares each study with the first, by label. `None` if there is only one.
    pub fn new(sets: &[(&str, &Study)]) -> Option<Comparison> {
        let [(first_label, first), others @ ..] = sets else { return None };
        if others.is_empty() {
            return None;
        }
        let jobs: Vec<JobComparison> =
            (0..first.jobs.len()).filter_map(|index| compare_job(first, index, others)).collect();
        let overall = others
            .iter()
            .enumerate()
            .map(|(place, (label, study))| {
                let mut overall = overall(&jobs, place, (first, study));
                overall.label = (*label).to_owned();
                overall.sentence = overall.in_words(first_label);
                overall
            })
            .collect();
        let remarks = others
            .iter()
            .flat_map(|(label, study)| remarks((first_label, first), (label, study)))
            .collect();
        let labels = sets.iter().map(|(label, _)| (*label).to_owned()).collect();
        Some(Comparison { labels, jobs, overall, remarks })
    }
}

/// `None` if no other set shares a policy under the job.
fn compare_job(first: &Study, index: usize, others: &[(&str, &Study)]) -> Option<JobComparison> {
    let job = &first.jobs[index];
    let here = Side::new(first, &first.criteria.goal, &job.job)?;
    let theirs: Vec<Option<Side<'_>>> =
        others.iter().map(|(_, study)| Side::new(study, &first.criteria.goal, &job.job)).collect();
    let mut rows: Vec<(f64, ComparisonRow)> = Vec::new();
    for mine in &here.groups {
        let change = |there: &Option<Side<'_>>| {
            let there = there.as_ref()?;
            let other = there.groups.iter().find(|other| other.policy == mine.policy)?;
            Some(change((&here, mine), (there, other)))
        };
        let changes: Vec<Option<Change>> = theirs.iter().map(change).collect();
        if changes.iter().any(Option::is_some) {
            let (policy, first) = (mine.policy.to_owned(), here.figure(mine));
            let score = mean_score(&here.scoring.scores(mine)).mean;
            rows.push((score, ComparisonRow { policy, first, changes }));
        }
    }
    if rows.is_empty() {
        return None;
    }
    let is_oracle = |row: &ComparisonRow| row.policy == ORACLE;
    rows.sort_by(|(left_score, left), (right_score, right)| {
        is_oracle(left).cmp(&is_oracle(right)).then(right_score.total_cmp(left_score))
    });
    let rows: Vec<ComparisonRow> = rows.into_iter().map(|(_, row)| row).collect();
    let rank_agreement = (0..others.len()).map(|place| rank_agreement(&rows, place)).collect();
    Some(JobComparison { job: job.job.clone(), yardstick: job.yardstick, rows, rank_agreement })
}

/// One job in one set.
struct Side<'a> {
    job: &'a JobStudy,
    groups: Vec<Group<'a>>,
    scoring: Scoring,
}

impl<'a> Side<'a> {
    /// The job of that name, scored by `goal`; none if the set lacks it.
    fn new(study: &'a Study, goal: &Goal, name: &str) -> Option<Side<'a>> {
        let job = study.jobs.iter().find(|job| job.job == name)?;
        let groups: Vec<Group<'a>> = study
            .groups()
            .into_iter()
            .filter(|group| group.cells[0].identity.job == name)
            .collect();
        let scoring = scoring_of(goal, &groups);
        Some(Side { job, groups, scoring })
    }

    /// The figure that ranks policies.
    fn figure(&self, group: &Group<'_>) -> Estimate {
        let mean_latency = |row: &Row| {
            let counting = self.job.sections.iter().position(|section| section.counts)?;
            Some(row.sections[counting].figures.mean_us)
        };
        let row = self.job.rows.iter().find(|row| row.policy == group.policy);
        let latency = match self.scoring.yardstick() {
            Yardstick::MeanLatency => row.and_then(mean_latency),
            Yardstick::Iops | Yardstick::Score => None,
        };
        latency.unwrap_or_else(|| Estimate::of_scores(&self.scoring.scores(group)))
    }
}

fn change(first: (&Side<'_>, &Group<'_>), other: (&Side<'_>, &Group<'_>)) -> Change {
    let scores = |(side, group): (&Side<'_>, &Group<'_>)| side.scoring.scores(group);
    let matched = Matched::new(&scores(other), &scores(first));
    let difference = matched.difference(1);
    let base = matched.right_mean();
    let speed = (base > 0.0).then(|| {
        let end = |side: f64| {
            let width = difference.half_width?;
            Some((1.0 + (difference.mean + side * width) / base).max(0.0))
        };
        Estimate { value: 1.0 + difference.mean / base, low: end(-1.0), high: end(1.0) }
    });
    let significance = match difference.half_width {
        Some(width) if difference.mean > width => Significance::Faster,
        Some(width) if difference.mean < -width => Significance::Slower,
        None if difference.mean != 0.0 => Significance::Unknown,
        Some(_) | None => Significance::Tied,
    };
    Change { figure: other.0.figure(other.1), speed, significance }
}

/// Kendall's tau-b between the policies' figures in the first set and in a further one.
fn rank_agreement(rows: &[ComparisonRow], place: usize) -> Option<f64> {
    let pairs: Vec<(f64, f64)> = rows
        .iter()
        .filter(|row| row.policy != ORACLE)
        .filter_map(|row| Some((row.first.value, row.changes[place].as_ref()?.figure.value)))
        .collect();
    let (mut agreeing, mut left_ties, mut right_ties, mut all) = (0.0, 0.0, 0.0, 0.0);
    for (index, left) in pairs.iter().enumerate() {
        for right in &pairs[index + 1..] {
            let (one, other) = (sign(left.0, right.0), sign(left.1, right.1));
            all += 1.0;
            agreeing += one * other;
            left_ties += f64::from(one == 0.0);
            right_ties += f64::from(other == 0.0);
        }
    }
    let scale: f64 = (all - left_ties) * (all - right_ties);
    (scale > 0.0).then(|| agreeing / scale.sqrt())
}

fn sign(left: f64, right: f64) -> f64 {
    left.partial_cmp(&right).map_or(0.0, |order| f64::from(order as i8))
}

fn overall(jobs: &[JobComparison], place: usize, (first, other): (&Study, &Study)) -> Overall {
    let rows = jobs.iter().flat_map(|job| &job.rows).filter(|row| row.policy != ORACLE);
    let changes: Vec<&Change> = rows.filter_map(|row| row.changes[place].as_ref()).collect();
    let count = |wanted: Significance| {
        changes.iter().filter(|change| change.significance == wanted).count() as u32
    };
    let speeds: Vec<f64> =
        changes.iter().filter_map(|change| change.speed).map(|speed| speed.value).collect();
    let best = |study: &Study, name: &str| -> Option<String> {
        study.jobs.iter().find(|job| job.job == name)?.best.clone()
    };
    let shared: Vec<(Option<String>, Option<String>)> = jobs
        .iter()
        .map(|job| (best(first, &job.job), best(other, &job.job)))
        .filter(|(_, there)| there.is_some())
        .collect();
    Overall {
        label: String::new(),
        speed: (!speeds.is_empty()).then(|| geometric_mean(&speeds)),
        faster: count(Significance::Faster),
        slower: count(Significance::Slower),
        tied: count(Significance::Tied),
        unknown: count(Significance::Unknown),
        same_best: shared.iter().filter(|(here, there)| here == there).count() as u32,
        jobs: shared.len() as u32,
        sentence: String::new(),
    }
}

impl Overall {
    fn in_words(&self, first: &str) -> String {
        let Overall { label, speed, faster, slower, tied, unknown, same_best, jobs, .. } = self;
        let Some(speed) = speed else {
            return format!("`{label}` and `{first}` have no job and policy in common.");
        };
        let pairs = faster + slower + tied + unknown;
        let mut words = if pairs == 1 {
            format!("`{label}` is {speed:.2} times as fast as `{first}`")
        } else {
            format!(
                "`{label}` is {speed:.2} times as fast as `{first}` (geometric mean over {pairs} \
                 pairs of job and policy)"
            )
        };
        let counts = [
            (faster, "faster"),
            (slower, "slower"),
            (tied, "tied"),
            (unknown, "different in a single repeat"),
        ];
        let listed: Vec<String> = counts
            .iter()
            .filter(|(count, _)| **count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        words += &format!(": {}; ", listed.join(", "));
        words += &match (same_best, jobs) {
            (1, 1) => "the best policy is the same".to_owned(),
            (0, 1) => "the best policy is another".to_owned(),
            _ => format!("the best policy is the same under {same_best} of {jobs} jobs"),
        };
        words + "."
    }
}

/// Other differences between two sets, stated so that they are not taken for the effect under test.
fn remarks((here, first): (&str, &Study), (there, other): (&str, &Study)) -> Vec<String> {
    let (mine, theirs) = (&first.plan, &other.plan);
    let mut remarks = Vec::new();
    if mine.array.name != theirs.array.name {
        let (mine, theirs) = (&mine.array.name, &theirs.array.name);
        remarks.push(format!("`{here}` is of array `{mine}`, `{there}` of `{theirs}`"));
    } else if mine.array.text != theirs.array.text {
        let array = &mine.array.name;
        remarks.push(format!("array `{array}` has other contents in `{there}` than in `{here}`"));
    }
    for job in &mine.jobs {
        let twin = theirs.jobs.iter().find(|twin| twin.name == job.name);
        if twin.is_some_and(|twin| twin.text != job.text) {
            let job = &job.name;
            remarks.push(format!("job `{job}` has other contents in `{there}` than in `{here}`"));
        }
    }
    let is_shared = |name: &str| mine.jobs.iter().any(|job| job.name == name);
    let mut shared = theirs.jobs.iter().map(|job| job.name.as_str()).filter(|it| is_shared(it));
    if shared.any(|job| mine.duration_of(job) != theirs.duration_of(job)) {
        remarks.push(format!("`{there}` was run for another duration than `{here}`"));
    }
    if mine.build != theirs.build {
        let (mine, theirs) = (&mine.build, &theirs.build);
        remarks.push(format!("`{here}` was run by build {mine}, `{there}` by build {theirs}"));
    }
    remarks
}

#[cfg(test)]
mod tests;

//! The verdict in words: one or two sentences for the end of a table.

use super::{Gain, Preference, Varying, Verdict};
use crate::experiment::record::ORACLE;
use crate::experiment::study::matrix::{Matrix, MatrixRow, Scores};
use crate::experiment::study::{Criteria, JobStudy, Row, Spread, Term};
use mirrorball_core::policies::short_policy_name;

/// Policies of a list that are named; more are counted.
const NAMED_MAX: usize = 4;
/// Shares of the best above this are shown as the best.
const EQUAL_PERCENT: f64 = 99.95;
/// A section whose speed is less than this part of that under another policy is named.
const SLOW_SECTION: f64 = 0.8;
/// Undecided policies whose spread is stated.
const VARYING_MAX: usize = 2;

pub(super) fn sentence(
    verdict: &Verdict,
    jobs: &[JobStudy],
    matrix: &Matrix,
    scores: &Scores,
    criteria: &Criteria,
    command: &str,
) -> String {
    let policies = jobs[0].rows.iter().filter(|row| !row.is_oracle()).count();
    if let Some(sentence) = without_success(jobs, criteria) {
        return sentence;
    }
    let Some(policy) = &verdict.policy else {
        let reading = jobs.iter().find(|job| job.reads()).or(jobs.first());
        let why = reading.map_or("nothing is read", JobStudy::why_no_choice);
        return format!("No policy had a choice: {why}, so no policy can be recommended.");
    };
    let shown = short_policy_name(policy);
    if policies == 1 {
        return format!("Only `{shown}` was run; name more policies to compare it with.");
    }
    let achieved = achieved(verdict, policy, matrix, criteria);
    let repeats = scores.iter().flatten().map(Vec::len).max().unwrap_or(0);
    let ranked_by = ranked_by(jobs, criteria);
    let again = match command.split_whitespace().nth(1) {
        Some("bench") => "Run more rounds, for example with --rounds 5.",
        _ => "Run more repeats, for example with --repeats 5.",
    };
    let is_best = |row: &MatrixRow| row.geometric_mean > EQUAL_PERCENT;
    if repeats < 2 && matrix.rows.iter().filter(|row| row.policy != ORACLE).all(is_best) {
        return format!(
            "All policies are equally {} in a single repeat, which proves nothing{ranked_by}. \
             {again}",
            if criteria.goal.is_default() { "fast" } else { "good" }
        );
    }
    if repeats < 2 {
        return format!(
            "`{shown}` is ahead in a single repeat, which proves nothing: {achieved}{ranked_by}. \
             {again}"
        );
    }
    let any = if verdict.gain.as_ref().is_some_and(Gain::is_none) && !verdict.ties.is_empty() {
        ", or one that ties with it"
    } else {
        ""
    };
    let mut sentence = format!("Use `{shown}`{any}: {}{achieved}", reason(verdict, matrix));
    sentence += &worst(policy, matrix);
    sentence += &slowest_section(policy, jobs);
    if let Some(spread) = verdict.spread.filter(Spread::is_unsteady) {
        sentence += &format!("; it depends on the seed: {}", spread.in_words());
    }
    if !verdict.ties.is_empty() {
        let ties: Vec<&str> = verdict.ties.iter().map(String::as_str).collect();
        let verb = if ties.len() == 1 { "ties" } else { "tie" };
        sentence += &format!("; {} {verb} with it in {repeats} repeats", quoted(&ties));
    }
    sentence += &undecided(&verdict.undecided, repeats);
    sentence + &ranked_by + "."
}

/// The sentence for jobs under which no request succeeded, or whose results lack latencies.
fn without_success(jobs: &[JobStudy], criteria: &Criteria) -> Option<String> {
    let dead = || jobs.iter().filter(|job| job.best.is_none());
    let unknown: Vec<&str> =
        dead().filter(|job| job.lacks_latencies).map(|job| job.job.as_str()).collect();
    if !unknown.is_empty() {
        return Some(format!(
            "Results of {} lack the latency that policies are ranked by, so no policy can be \
             recommended. Rank by --rank iops, or run fio without gtod_reduce, disable_clat and \
             clat_percentiles=0.",
            listed(&unknown)
        ));
    }
    let dead: Vec<&str> = dead().map(|job| job.job.as_str()).collect();
    if dead.is_empty() {
        return None;
    }
    let which = match criteria.goal.is_default() {
        true => String::new(),
        false => format!(" that {} counts", criteria.goal),
    };
    let rest = match jobs.len() - dead.len() {
        0 => "",
        _ => " Leave it out to rank the policies under the other jobs.",
    };
    Some(format!(
        "No request of {}{which} succeeded under any policy, so no policy can be \
         recommended.{rest}",
        listed(&dead)
    ))
}

/// Why the named policy is not the one with the highest mean.
fn reason(verdict: &Verdict, matrix: &Matrix) -> String {
    let leader = &matrix.rows[0].policy;
    match verdict.preferred {
        None => String::new(),
        Some(Preference::Steadier) => {
            format!(
                "it is steadier than `{leader}`, which has a higher mean but depends on the seed; "
            )
        }
        Some(Preference::ShorterTail) => {
            format!("it ties with `{leader}` and has lower 99th percentiles; ")
        }
        Some(Preference::Simpler) => {
            "no policy compared here is certainly better, and it is the simplest of those that \
             tie; "
                .to_owned()
        }
    }
}

fn achieved(verdict: &Verdict, policy: &str, matrix: &Matrix, criteria: &Criteria) -> String {
    let over = over_jobs(&matrix.jobs);
    let row = matrix.rows.iter().find(|row| row.policy == policy);
    let percent = row.expect("the policy to use has its row").geometric_mean;
    match (&verdict.gain, &criteria.baseline) {
        (Some(gain), _) => {
            let words = gain.in_words(&over, &matrix.jobs, criteria);
            let is_unsure = verdict.ties.contains(&gain.over)
                || verdict.undecided.iter().any(|other| other.policy == gain.over);
            match is_unsure && !gain.is_none() {
                true => words + " on average, which is not certain",
                false => words,
            }
        }
        (None, Some(baseline)) if baseline == policy => {
            format!("it is the baseline, and {}", none_is_faster(verdict, &over, criteria))
        }
        (None, baseline) => {
            let without = match baseline {
                Some(baseline) => format!(" (`{baseline}` was not run)"),
                None => String::new(),
            };
            match percent > EQUAL_PERCENT && verdict.preferred.is_none() {
                true => {
                    over_slowest(verdict, (policy, percent), matrix, criteria)
                        .unwrap_or_else(|| none_is_faster(verdict, &over, criteria))
                        + &without
                }
                false => format!("{over} it reaches {percent:.0} % of the best{without}"),
            }
        }
    }
}

/// The gain over the slowest policy, where there is no baseline and the policy to use is certain.
fn over_slowest(
    verdict: &Verdict,
    (policy, percent): (&str, f64),
    matrix: &Matrix,
    criteria: &Criteria,
) -> Option<String> {
    let others = || matrix.rows.iter().filter(|row| row.policy != ORACLE && row.policy != policy);
    let slowest = others().min_by(|a, b| a.geometric_mean.total_cmp(&b.geometric_mean))?;
    let factor = times(percent / slowest.geometric_mean);
    if !is_certain(verdict) || slowest.geometric_mean <= 0.0 || factor == "1.00" {
        return None;
    }
    let (over, (_, what), other) = (over_jobs(&matrix.jobs), compared(criteria), &slowest.policy);
    let words = format!("{over} it is {factor} times as {what} as `{other}`");
    Some(if others().count() > 1 { words + ", the last of those compared" } else { words })
}

fn is_certain(verdict: &Verdict) -> bool {
    verdict.preferred.is_none() && verdict.ties.is_empty() && verdict.undecided.is_empty()
}

/// Says that the policy to use is the best of those that were compared.
fn none_is_faster(verdict: &Verdict, over: &str, criteria: &Criteria) -> String {
    let (faster, _) = compared(criteria);
    let certainly = if is_certain(verdict) { "" } else { "certainly " };
    format!("{over} no policy compared here is {certainly}{faster}")
}

fn worst(policy: &str, matrix: &Matrix) -> String {
    let row = matrix.rows.iter().find(|row| row.policy == policy);
    let row = row.expect("the policy to use has its row");
    match (matrix.jobs.len(), row.worst_percent) {
        (1, _) => String::new(),
        (_, percent) if percent >= 99.5 => "; it is the best under each of them".to_owned(),
        (_, percent) => format!("; its least is {percent:.0} % of the best ({})", row.worst_job),
    }
}

/// The section of a job that the policy serves worse than another does, where that is much: a mean
/// over sections does not show it.
fn slowest_section(policy: &str, jobs: &[JobStudy]) -> String {
    let least = jobs.iter().flat_map(|job| {
        let rows = || job.rows.iter().filter(|row| !row.is_oracle());
        let own = rows().find(|row| row.policy == policy);
        let sections = job.terms.iter().enumerate().filter(|_| job.terms.len() > 1);
        sections.filter_map(move |(place, term)| {
            let speed = |row: &Row| match row.terms[place] {
                value if term.is_rate() || value == 0.0 => value,
                latency => 1.0 / latency,
            };
            let best = rows().max_by(|a, b| speed(a).total_cmp(&speed(b)))?;
            Some((speed(own?) / speed(best), job, term, best)).filter(|it| it.0.is_finite())
        })
    });
    let least = least.min_by(|a, b| a.0.total_cmp(&b.0)).filter(|it| it.0 < SLOW_SECTION);
    least.map_or_else(String::new, |(part, job, term, best)| {
        format!(
            "; but under it `{}` of `{}` has {:.0} % of the speed that it has under `{}`",
            term.section,
            job.job,
            100.0 * part,
            best.policy
        )
    })
}

fn undecided(varying: &[Varying], repeats: usize) -> String {
    let mut unsteady: Vec<&Varying> = varying.iter().collect();
    let range = |one: &Varying| one.spread.map_or(0.0, |spread| spread.high - spread.low);
    unsteady.sort_by(|left, right| range(right).total_cmp(&range(left)));
    let words = |one: &&Varying| match one.spread {
        Some(spread) => format!("`{}` ({})", one.policy, spread.in_words()),
        None => format!("`{}`", one.policy),
    };
    let shown: Vec<String> = unsteady.iter().take(VARYING_MAX).map(words).collect();
    let more = varying.len().saturating_sub(VARYING_MAX);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    if shown.is_empty() {
        return String::new();
    }
    format!("; {repeats} repeats do not decide about {}{more}", shown.join(", "))
}

/// What ranks policies, where it is not the throughput of a single section.
fn ranked_by(jobs: &[JobStudy], criteria: &Criteria) -> String {
    let is_plain = |job: &JobStudy| matches!(&job.terms[..], [term] if term.is_throughput());
    if criteria.goal.is_default() && jobs.iter().all(is_plain) {
        return String::new();
    }
    format!("; ranked by {}", score_in_words(jobs, criteria))
}

/// The score in words: the goal, or which sections of these jobs count by which figure.
pub(in crate::experiment::study) fn score_in_words(
    jobs: &[JobStudy],
    criteria: &Criteria,
) -> String {
    if !criteria.goal.is_default() {
        return criteria.goal.to_string();
    }
    let terms = || jobs.iter().flat_map(|job| &job.terms);
    let mut paced: Vec<&str> =
        terms().filter(|it| !it.is_throughput()).map(|it| it.section.as_str()).collect();
    paced.sort_unstable();
    paced.dedup();
    let several = jobs.iter().any(|job| job.terms.len() > 1);
    let mean = if several { "the geometric mean over sections of " } else { "" };
    let (by, latency) = if several { ("of", "1/mean latency") } else { ("by", "mean latency") };
    if paced.is_empty() {
        format!("{mean}IOPS")
    } else if terms().any(Term::is_throughput) {
        format!("{mean}IOPS, and {by} {latency} for {}", quoted(&paced))
    } else {
        format!("{mean}{latency}")
    }
}

/// The words for a higher and an equal score.
fn compared(criteria: &Criteria) -> (&'static str, &'static str) {
    if criteria.goal.is_default() { ("faster", "fast") } else { ("better", "good") }
}

impl Gain {
    /// True if every factor is 1 as it would be shown.
    fn is_none(&self) -> bool {
        self.factors.iter().all(|factor| factor.is_some_and(|factor| times(factor) == "1.00"))
    }

    fn in_words(&self, over: &str, jobs: &[String], criteria: &Criteria) -> String {
        let Gain { over: other, geometric_mean, factors } = self;
        let known = || {
            let pairs = jobs.iter().zip(factors);
            pairs.filter_map(|(job, factor)| Some((job, (*factor)?)))
        };
        let Some(mean) = geometric_mean else {
            return format!("`{other}` completed nothing at all");
        };
        let (_, what) = compared(criteria);
        if self.is_none() {
            return format!("{over} it is as {what} as `{other}`");
        }
        let mut words = format!("{over} it is {} times as {what} as `{other}`", times(*mean));
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

fn over_jobs(jobs: &[String]) -> String {
    match jobs {
        [only] => format!("on `{only}`"),
        _ => format!("over the {} jobs", jobs.len()),
    }
}

fn times(factor: f64) -> String {
    if factor < 9.995 { format!("{factor:.2}") } else { format!("{factor:.0}") }
}

fn quoted(names: &[&str]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    listed(&names.iter().map(String::as_str).collect::<Vec<&str>>())
}

/// `a`, `a and b`, `a, b and c`, `a, b, c, d and 3 others`.
fn listed(names: &[&str]) -> String {
    // A single name takes no more room than its count.
    let shown = if names.len() == NAMED_MAX + 1 { names.len() } else { NAMED_MAX };
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        _ if names.len() <= shown => {
            let (last, first) = names.split_last().expect("there are several");
            format!("{} and {last}", first.join(", "))
        }
        _ => format!("{} and {} others", names[..shown].join(", "), names.len() - shown),
    }
}

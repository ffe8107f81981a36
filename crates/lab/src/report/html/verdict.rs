//! The verdict in two sentences: which policy to use and what it gains, then its worst job and
//! ties.
//!
//! The figures are those of the study's closing sentence for terminals.

use crate::experiment::record::ORACLE;
use crate::experiment::study::{Gain, MatrixRow, Preference, Study};
use crate::report::chart::number::percent;
use maud::{Markup, html};
use mirrorball_core::policies::short_policy_name as short;
use mirrorball_core::units::counted;

/// Ties that are named; more are counted.
const TIES_NAMED: usize = 4;

/// The verdict of one set.
pub(super) fn draw(study: &Study) -> Markup {
    let contenders = study.matrix.rows.iter().filter(|row| row.policy != ORACLE).count();
    let repeats = study.plan.seeds.len();
    match study.verdict_row() {
        Some(row) if contenders > 1 && repeats > 1 => {
            html! { p.verdict { (gain(study, row)) " " (limits(study, row)) } }
        }
        // Nothing to compare: the sentence of the study says so.
        _ => html! { p.verdict { (study.verdict.sentence.replace('`', "")) } },
    }
}

fn gain(study: &Study, row: &MatrixRow) -> Markup {
    let jobs = match study.jobs.as_slice() {
        [only] => html! { "on " em { (only.job) } },
        several => html! { "over the " (several.len()) " jobs" },
    };
    let baseline = study.criteria.baseline.as_deref();
    html! {
        "Use " strong { (short(&row.policy)) } ": "
        @if study.verdict.preferred == Some(Preference::Steadier) {
            "it is steadier than " em { (short(&study.matrix.rows[0].policy)) }
            ", which has a higher mean but depends on the seed; "
        }
        (jobs) " "
        @match &study.verdict.gain {
            Some(Gain { over, geometric_mean: Some(mean), factors }) => {
                "it is " strong { (times(*mean)) " times as fast" } " as " em { (short(over)) }
                @if let Some((least, most)) = range(study, factors) {
                    " (geometric mean; from " (least) " to " (most) ")"
                }
                @if study.verdict.undecided.iter().any(|other| other.policy == *over) {
                    " on average, which is not certain"
                }
                "."
            }
            Some(Gain { over, .. }) => { em { (short(over)) } " completed no request." }
            None if baseline == Some(&*row.policy) => {
                "it is the baseline, and no policy compared here is "
                @if study.verdict.preferred.is_some() { "certainly " }
                "better."
            }
            None => {
                "it reaches " strong { (percent(row.geometric_mean)) " % of the best" }
                @if study.jobs.len() > 1 { " on average" }
                @if let Some(baseline) = baseline { " (" em { (short(baseline)) } " was not run)" }
                "."
            }
        }
    }
}

/// The jobs on which it gains least and most, if they differ.
fn range(study: &Study, factors: &[Option<f64>]) -> Option<(String, String)> {
    let known =
        || study.jobs.iter().zip(factors).filter_map(|(job, factor)| Some((job, (*factor)?)));
    let least = known().min_by(|left, right| left.1.total_cmp(&right.1))?;
    let most = known().max_by(|left, right| left.1.total_cmp(&right.1))?;
    let words = |(job, factor): (&crate::experiment::study::JobStudy, f64)| {
        format!("{} on {}", times(factor), job.job)
    };
    (least.0.job != most.0.job).then(|| (words(least), words(most)))
}

fn limits(study: &Study, row: &MatrixRow) -> Markup {
    let ties = &study.verdict.ties;
    // A rest of one is named as well.
    let named = if ties.len() == TIES_NAMED + 1 { ties.len() } else { TIES_NAMED };
    let repeats = counted(study.plan.seeds.len(), "repeat", "repeats");
    let has_several = study.jobs.len() > 1;
    html! {
        @if has_several && row.worst_percent >= 100.0 {
            "It is the best under each job; in "
        } @else if has_several {
            "At worst it reaches " (percent(row.worst_percent)) " % of the best (" (row.worst_job)
            "); in "
        } @else if row.worst_percent < 100.0 && study.verdict.gain.is_some() {
            "It reaches " (percent(row.worst_percent)) " % of the best; in "
        } @else {
            "In "
        }
        (repeats)
        @if ties.is_empty() {
            " no other policy ties with it" @if has_several { " over all jobs" } "."
        } @else {
            " it ties with "
            @for (place, tie) in ties.iter().take(named).enumerate() {
                @if place > 0 { (if place + 1 == ties.len() { " and " } else { ", " }) }
                em { (short(tie)) }
            }
            @if ties.len() > named { " and " (ties.len() - named) " others" }
            @if study.verdict.gain.as_ref().is_some_and(|gain| ties.contains(&gain.over)) {
                "; more repeats may separate them"
            }
            "."
        }
        @if let [first, rest @ ..] = &study.verdict.undecided[..] {
            " " (repeats) " do not decide about " em { (short(&first.policy)) }
            @if let Some(spread) = &first.spread { " (" (spread.in_words()) ")" }
            @if !rest.is_empty() { " and " (counted(rest.len(), "other", "others")) }
            "."
        }
        " Ranked by " (study.ranked_by().replace('`', "")) "."
    }
}

fn times(factor: f64) -> String {
    if factor < 9.995 { format!("{factor:.2}") } else { format!("{factor:.0}") }
}

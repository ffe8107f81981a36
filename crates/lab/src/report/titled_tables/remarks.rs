//! Warnings and remarks below the tables of a job.

use super::{number, percent, whole};
use crate::experiment::study::{
    ArrayCacheFigures, ControllerFigures, JobStudy, Row, SectionRow, SectionStudy, Spread,
};
use mirrorball_core::units::counted;

/// Policies that missed the rate of a section that are named below a table.
const MISSED_SHOWN_MAX: usize = 4;
/// Policies whose dependence on the seed is described below a table.
const UNSTEADY_SHOWN_MAX: usize = 3;

/// The number of failed requests of a policy, if there were any.
pub(super) fn failures(row: &Row) -> Option<String> {
    let errors: u64 = row.sections.iter().map(SectionRow::errors).sum();
    (errors > 0).then(|| {
        format!("{}: {}", row.policy, counted(errors as usize, "request failed", "requests failed"))
    })
}

/// Policies under which a section did not get the rate that it asks for, the slowest first.
pub(super) fn missed_rates(job: &JobStudy, rows: &[&Row]) -> Vec<String> {
    let of_section = |(index, section): (usize, &SectionStudy)| {
        let asked = section.asked(whole)?;
        let rate = |row: &Row| row.sections[index].figures.iops.value;
        let mut missed: Vec<&Row> = rows.to_vec();
        missed.retain(|row| row.sections[index].missed_rate);
        missed.sort_by(|left, right| rate(left).total_cmp(&rate(right)));
        let shown = missed.iter().take(MISSED_SHOWN_MAX);
        let shown: Vec<String> =
            shown.map(|row| format!("{} ({})", row.policy, number(rate(row)))).collect();
        let more = match missed.len().saturating_sub(MISSED_SHOWN_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let name = if job.sections.len() == 1 { &job.job } else { &section.name };
        (!missed.is_empty()).then(|| {
            format!(
                "{name}: served less than 95 % of the {asked} IOPS that it asks for: {}{more}",
                shown.join(", ")
            )
        })
    };
    job.sections.iter().enumerate().filter_map(of_section).collect()
}

/// Sections of which a repeat completed few requests, with the policies of the fewest.
pub(super) fn few_requests(job: &JobStudy, rows: &[&Row]) -> Vec<String> {
    let of_section = |(index, section): (usize, &SectionStudy)| {
        let few = |row: &&Row| Some((row.sections[index].few_requests?, row.policy.clone()));
        let mut few: Vec<(u64, String)> = rows.iter().filter_map(few).collect();
        few.sort();
        let (least, policy) = few.first()?;
        let more = match few.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let name = if job.sections.len() == 1 { &job.job } else { &section.name };
        let requests = counted(*least as usize, "request", "requests");
        Some(format!(
            "{name}: only {requests} in a repeat under {policy}{more}, so the figures are rough; \
             use a longer --duration"
        ))
    };
    job.sections.iter().enumerate().filter_map(of_section).collect()
}

/// Sections of which imported results lack latencies, with the first policy of those.
pub(super) fn absent_latencies(job: &JobStudy, rows: &[&Row]) -> Vec<String> {
    let of_section = |(index, section): (usize, &SectionStudy)| {
        let figures = |row: &Row| row.sections[index].figures.clone();
        let is_lacking = |row: &&&Row| figures(row).p50_us.value.is_nan();
        let lacking: Vec<&&Row> = rows.iter().filter(is_lacking).collect();
        let row = lacking.first()?;
        let what = match figures(row).mean_us.value.is_nan() {
            true => "no latencies",
            false => "no percentiles of latency, only a mean",
        };
        let more = match lacking.len() - 1 {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let name = if job.sections.len() == 1 { &job.job } else { &section.name };
        Some(format!("{name}: {what} in the imported results of {}{more}", row.policy))
    };
    job.sections.iter().enumerate().filter_map(of_section).collect()
}

/// Sections whose write rate was not steady, with the largest change.
///
/// A run that ends while its writes fit into a cache, or before garbage collection begins, shows a
/// rate that does not last.
pub(super) fn changing_writes(job: &JobStudy) -> Vec<String> {
    let sections = job.sections.iter().enumerate().filter_map(|(index, section)| {
        let rows = job.rows.iter().map(|row| &row.sections[index]);
        let changes = rows.filter(|row| row.is_write_rate_unsteady());
        let changes = changes.filter_map(|row| row.write_rate_change);
        let largest = changes.max_by(|left, right| left.abs().total_cmp(&right.abs()))?;
        let name = if job.sections.len() == 1 { &job.job } else { &section.name };
        Some(format!(
            "{name}: the write rate changed by up to {:+.0} % within the run, so it is not that \
             of a steady state; use a longer --duration",
            100.0 * largest
        ))
    });
    sections.collect()
}

/// What the cache tier in front of the array did, as ranges over the policies.
pub(super) fn array_cache(job: &JobStudy) -> Option<String> {
    let rows = job.rows.iter().filter_map(|row| row.array_cache);
    let figures: Vec<ArrayCacheFigures> = rows.collect();
    let fractions = |of: fn(&ArrayCacheFigures) -> Option<f64>| {
        let fractions: Vec<f64> = figures.iter().filter_map(of).collect();
        (!fractions.is_empty()).then_some(fractions)
    };
    let range = |fractions: Vec<f64>| percent_range(fractions.into_iter());
    let is_any = |fractions: &Vec<f64>| fractions.iter().any(|&fraction| fraction > 0.0);
    let hits = fractions(|it| it.read_hits).map(range);
    let hits = hits.map(|it| format!("{it} of the bytes read came from it"));
    // Zero unless the cache writes back.
    let writes = fractions(|it| it.cached_writes).filter(is_any).map(range);
    let writes = writes.map(|it| format!("it alone took {it} of the bytes written"));
    let bypassed = fractions(|it| Some(it.bypassed)).filter(is_any).map(range);
    let bypassed = bypassed.map(|it| format!("{it} of all bytes bypassed it"));
    let parts: Vec<String> = [hits, writes, bypassed].into_iter().flatten().collect();
    let said = || format!("cache in front of the array: {}", parts.join("; "));
    (!parts.is_empty()).then(said)
}

/// Fractions as percentages, from the least to the greatest.
fn percent_range(fractions: impl Iterator<Item = f64> + Clone) -> String {
    let least = fractions.clone().fold(f64::INFINITY, f64::min);
    let most = fractions.fold(0.0, f64::max);
    let (least, most) = (percent(100.0 * least), percent(100.0 * most));
    if least == most { format!("{least} %") } else { format!("{least} to {most} %") }
}

/// What the controller in front of the array did, as the range over the policies.
pub(super) fn controller(job: &JobStudy) -> Option<String> {
    let rows = job.rows.iter().filter_map(|row| row.controller);
    let figures: Vec<ControllerFigures> = rows.collect();
    let range = |of: fn(&ControllerFigures) -> f64| percent_range(figures.iter().map(of));
    (!figures.is_empty()).then(|| {
        format!(
            "controller: {} of the writes waited for space in its cache; {} of its write-backs \
             were of whole units (full stripes, with parity)",
            range(|it| it.delayed_writes),
            range(|it| it.whole_units)
        )
    })
}

/// Sections whose writes the caches can hold: their rate is steady, but does not last.
pub(super) fn cached_writes(job: &JobStudy) -> Vec<String> {
    let sections = job.sections.iter().enumerate().filter_map(|(index, section)| {
        let rows: Vec<&Row> = job.rows.iter().filter(|row| !row.is_oracle()).collect();
        let cached = rows.iter().filter(|row| row.sections[index].writes_fit_cache).count();
        let policies = match cached {
            0 => return None,
            all if all == rows.len() => String::new(),
            some => format!(" under {some} of {} policies", rows.len()),
        };
        let name = if job.sections.len() == 1 { &job.job } else { &section.name };
        Some(format!(
            "{name}: all writes fit in the write caches{policies}: the write rates are those of \
             the caches, not of the media; use a longer --duration"
        ))
    });
    sections.collect()
}

/// The policies whose score depends on the seed, the widest range first.
pub(super) fn unsteady(rows: &[&Row]) -> Vec<String> {
    let mut unsteady: Vec<(&str, _)> = rows
        .iter()
        .filter_map(|row| Some((row.policy.as_str(), row.spread?)))
        .filter(|(_, spread)| spread.is_unsteady())
        .collect();
    unsteady.sort_by(|left, right| {
        let range = |spread: &Spread| spread.high - spread.low;
        range(&right.1).total_cmp(&range(&left.1))
    });
    let mut remarks: Vec<String> = unsteady
        .iter()
        .take(UNSTEADY_SHOWN_MAX)
        .map(|(policy, spread)| format!("{policy} depends on the seed: {}", spread.in_words()))
        .collect();
    let more = unsteady.len().saturating_sub(UNSTEADY_SHOWN_MAX);
    if more > 0 {
        let policies = counted(more, "policy depends", "policies depend");
        remarks.push(format!("{policies} on the seed as well, by more than a quarter"));
    }
    remarks
}

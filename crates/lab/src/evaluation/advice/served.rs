//! What the export of `mirrorball serve` costs a policy that no other system has.
//!
//! A request to a volume that is served goes through a socket to another process and back. Of that
//! time a job pays what its requests do not wait anyway: where they queue for busy members, fewer
//! wait there. One export serves no more requests than one CPU can. Both were measured with NBD
//! over a unix socket, the export that needs the least: see `benches/results/serving.md`.

use crate::experiment::study::statistics::geometric_mean;
use crate::experiment::study::{CellSummary, JobStudy, Row, SectionRow, Study};
use crate::experiment::systems::{Offer, System, offers_for};
use mirrorball_core::histogram::Histogram;
use mirrorball_core::policies::Spec;

/// Time that an export adds to a request.
const ADDED_US: f64 = 60.0;
/// Requests per second of one export.
const MOST: f64 = 204e3;
/// Part of the requests that may have found an idle member although all members are busy.
const FASTEST: f64 = 0.1;
/// What the user should know of it.
pub(super) const NOTE: &str = "The factor includes the export over NBD: 60 us a request, less \
     where all requests queue, and at most 204,000 requests/s. `serve` is young: keep a backup.";

/// True if `serve` alone has a policy for arrays of a profile.
pub(super) fn is_needed(spec: &str, profile: &str) -> bool {
    let info = Spec::parse(spec).ok().and_then(|spec| spec.info());
    info.is_some_and(|info| offers_for(info.name, profile).all(|(_, offer)| offer.policy == "*"))
}

/// The speed of a policy through an export as a part of that without one. Each client waits longer
/// for each request, so a rate falls as the latency rises, unless the requests of the job wait for
/// each other.
pub(super) fn slowed(study: &Study, job: &JobStudy, row: &Row) -> f64 {
    let latency_us = job.main_figures(row).mean_us.value;
    let added_us = ADDED_US - queue_us(study, job, row).min(ADDED_US);
    let slowed = if latency_us > 0.0 { latency_us / (latency_us + added_us) } else { 1.0 };
    let rate = |it: &SectionRow| {
        let others = [&it.writes, &it.trims].into_iter().flatten();
        it.figures.iops.value + others.map(|figures| figures.iops.value).sum::<f64>()
    };
    let rate: f64 = row.sections.iter().map(rate).sum();
    slowed.min(MOST / rate.max(1.0))
}

/// Time that all requests of a job but the fastest wait for each other, of which an export takes
/// the place. None where requests come at a rate of their own, or are one at a time.
fn queue_us(study: &Study, job: &JobStudy, row: &Row) -> f64 {
    let section = &job.sections[job.main_section()];
    let own = |it: &&CellSummary| it.identity.job == job.job && it.identity.policy == row.policy;
    let cells = || study.cells.iter().filter(own);
    let mut latency = Histogram::default();
    for record in cells().filter_map(|cell| cell.section(&section.name)) {
        latency.merge(&record.direction(section.main_kind).latency);
    }
    let shared = latency.quantile(FASTEST).saturating_sub(latency.min().unwrap_or_default());
    // Of the members: time in which one more request was in flight than one.
    let members = || cells().flat_map(|cell| &cell.run.members);
    let crowded: f64 = members().map(|it| it.wait.saturating_sub(it.busy).as_secs_f64()).sum();
    let ios: u64 = members().map(|it| it.reads + it.writes).sum();
    let most_us = crowded * 1e6 / ios.max(1) as f64;
    if section.has_rate { 0.0 } else { (shared.0 as f64 / 1e3).min(most_us) }
}

/// That speed as a factor of the speed without an export: the geometric mean over the jobs.
pub(super) fn factor(study: &Study, policy: &str) -> f64 {
    let factors = study.jobs.iter().filter_map(|job| {
        let row = job.rows.iter().find(|row| row.policy == policy)?;
        (row.score.value > 0.0).then(|| slowed(study, job, row))
    });
    let factors: Vec<f64> = factors.collect();
    if factors.is_empty() { 1.0 } else { geometric_mean(&factors) }
}

/// What it takes to have a policy that the array's system does not offer. `serve` is named next to
/// another way if it is worth its export.
pub(super) fn elsewhere(
    spec: &str,
    own: &System,
    profile: &str,
    is_serve_worth: bool,
) -> Option<String> {
    const MOVE: &str = "a new volume, to which the data must be copied";
    let info = Spec::parse(spec).ok()?.info()?;
    let offers: Vec<(&System, &Offer)> = offers_for(info.name, profile).collect();
    let release = offers.iter().find(|(_, offer)| offer.patch.is_none() && offer.policy != "*");
    let patch = offers.iter().find(|(_, offer)| offer.patch.is_some());
    let Some((system, offer)) = release.or(patch) else {
        return Some(format!("`mirrorball serve` (no other system has it): {MOVE}"));
    };
    let way = offer.availability(system);
    Some(match (system.name == own.name, is_serve_worth) {
        (true, true) => format!("{way}; or `mirrorball serve`: {MOVE}"),
        (true, false) => way,
        (false, true) => format!("{way}, or `mirrorball serve`: either is {MOVE}"),
        (false, false) => format!("{way}: {MOVE}"),
    })
}

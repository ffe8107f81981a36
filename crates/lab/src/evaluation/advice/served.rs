//! What the export of `mirrorball serve` costs a policy that no other system has.
//!
//! A request to a volume that is served goes through a socket to another process and back. That
//! time is added to the mean latency of each request, and one export serves no more requests than
//! one CPU can. Both were measured with NBD over a unix socket, the export that needs the least:
//! see `benches/results/serving.md`.

use crate::experiment::study::statistics::geometric_mean;
use crate::experiment::study::{JobStudy, Row, Study, Yardstick};
use crate::experiment::systems::offers_of;
use mirrorball_core::policies::Spec;

/// Time that an export adds to a request.
const ADDED_US: f64 = 60.0;
/// Requests per second of one export.
const MOST: f64 = 204e3;
/// What the user should know of it.
pub(super) const NOTE: &str = "The factor includes the export over NBD: 60 us a request, at most \
     204,000 requests/s. `serve` is young: keep a backup.";

/// True if `serve` alone has a policy.
pub(super) fn is_needed(spec: &str) -> bool {
    let info = Spec::parse(spec).ok().and_then(|spec| spec.info());
    info.is_some_and(|info| offers_of(info.name).all(|(_, offer)| offer.policy == "*"))
}

/// The speed of a policy through an export. Each client waits longer for each request, so a rate
/// falls as the latency rises.
pub(super) fn speed(job: &JobStudy, row: &Row) -> f64 {
    let latency_us = job.main_figures(row).mean_us.value;
    if latency_us <= 0.0 {
        return row.score.value;
    }
    let speed = row.score.value * latency_us / (latency_us + ADDED_US);
    if job.yardstick == Yardstick::Iops { speed.min(MOST) } else { speed }
}

/// That speed as a factor of the speed without an export: the geometric mean over the jobs.
pub(super) fn factor(study: &Study, policy: &str) -> f64 {
    let factors = study.jobs.iter().filter_map(|job| {
        let row = job.rows.iter().find(|row| row.policy == policy)?;
        (row.score.value > 0.0).then(|| speed(job, row) / row.score.value)
    });
    let factors: Vec<f64> = factors.collect();
    if factors.is_empty() { 1.0 } else { geometric_mean(&factors) }
}

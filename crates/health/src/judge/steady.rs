//! The load that a direction of a disk has had without a break, and what it took.
//!
//! Counters do not say whether reads are sequential, where they lie, or what a disk has in its
//! caches, so a load that looks like an earlier one may take several times as long. While rate,
//! size, depth and mix stay what they are, none of these is likely to change by itself: then a
//! longer service is a change of the disk.

use super::history::DEVIATION_ASSUMED;
use crate::service::{DiskKind, DiskService};
use mirrorball_core::units::Nanos;

/// Evaluations until what comes is compared with them.
const KNOWN_MIN: f64 = 3.0;
/// Weight of a new evaluation after a while: ten minutes.
const LEARNING: f64 = 1.0 / 120.0;
/// How many times rate, size and depth may differ within one load.
const RATE_RATIO_MAX: f64 = 1.5;
pub(super) const SIZE_RATIO_MAX: f64 = 1.1;
/// How far the share of the other direction may differ, and from where on its size counts.
const SHARE_MAX: f64 = 0.1;
const SHARE_COUNTED: f64 = 0.02;
/// Bytes a second of the other direction that make no difference to flash.
const OTHER_RATE_MIN: f64 = 65_536.0;
/// Utilisation of disks on which closed loops work, and how many times their depths may differ.
const LOOP_UTILISATION: f64 = 0.85;
const LOOP_DEPTH_RATIO: f64 = 1.25;
/// Utilisation from which the depth is a choice of who asks: below, a slow disk makes a queue.
const SATURATED: f64 = 0.95;

/// The traffic of a direction, as far as counters show it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Traffic {
    /// I/Os a second.
    pub(super) rate: f64,
    bytes: f64,
    depth: f64,
    /// Of the other direction: its share of all I/Os, its bytes a second, and its mean size.
    other_share: f64,
    other_rate: f64,
    other_bytes: f64,
    utilisation: f64,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct SteadyLoad {
    traffic: Traffic,
    evaluations: f64,
    log_service: f64,
    variance: f64,
    /// False if the disk was doubtful when it began.
    began_healthy: bool,
}

impl Traffic {
    pub(super) fn of(service: &DiskService, time: Nanos, utilisation: f64) -> Traffic {
        let seconds = time.as_secs_f64();
        let others = service.count as f64 * service.other_share / (1.0 - service.other_share);
        Traffic {
            rate: service.count as f64 / seconds,
            bytes: service.bytes,
            depth: service.depth,
            other_share: service.other_share,
            other_rate: service.other_bytes / seconds,
            other_bytes: service.other_bytes / others.max(1.0),
            utilisation,
        }
    }
}

impl Traffic {
    /// Mean number of pages of 16 KiB that the other direction has flash program at a time, 1 at
    /// most.
    pub(super) fn programs(&self, program_ns: f64) -> f64 {
        (self.other_rate / 16_384.0 * program_ns / 1e9).min(1.0)
    }

    /// Returns true if both work all the time on as many I/Os of one size: who asks waits for them,
    /// so the slower one is sent less for that reason alone.
    pub(super) fn is_same_loop(&self, other: &Traffic) -> bool {
        let is_near = |a: f64, b: f64, most: f64| (a / b).ln().abs() <= most.ln();
        self.utilisation.min(other.utilisation) >= LOOP_UTILISATION
            && is_near(self.depth, other.depth, LOOP_DEPTH_RATIO)
            && is_near(self.bytes, other.bytes, SIZE_RATIO_MAX)
    }
}

impl SteadyLoad {
    pub(super) fn new(traffic: Traffic, service: &DiskService, began_healthy: bool) -> SteadyLoad {
        SteadyLoad {
            traffic,
            evaluations: 1.0,
            log_service: service.service_ns.ln(),
            variance: DEVIATION_ASSUMED * DEVIATION_ASSUMED,
            began_healthy,
        }
    }

    /// Returns true if an evaluation of so many I/Os is of the same load.
    pub(super) fn continues(&self, now: &Traffic, count: u64, class: DiskKind) -> bool {
        let is_within = |a: f64, b: f64, most: f64| (a / b).ln().abs() <= most;
        let then = &self.traffic;
        let deviation = (1.0 / count as f64).sqrt();
        let is_rate = is_within(now.rate, then.rate, RATE_RATIO_MAX.ln() + 3.0 * deviation);
        let is_size = is_within(now.bytes, then.bytes, SIZE_RATIO_MAX.ln() + deviation);
        let is_depth =
            then.utilisation < SATURATED || is_within(now.depth, then.depth, RATE_RATIO_MAX.ln());
        let is_mix = match class {
            DiskKind::Hdd => {
                let are_few = now.other_share.min(then.other_share) < SHARE_COUNTED;
                let is_other =
                    are_few || is_within(now.other_bytes, then.other_bytes, RATE_RATIO_MAX.ln());
                let difference = (now.other_share - then.other_share).abs();
                difference <= SHARE_MAX + 3.0 * deviation && is_other
            }
            DiskKind::Ssd | DiskKind::Nvme => {
                let least = now.other_rate.min(then.other_rate);
                now.other_rate.max(then.other_rate) <= 2.0 * least + OTHER_RATE_MIN
            }
        };
        is_rate && is_size && is_depth && is_mix
    }

    /// Logarithm of a service over what the load took so far, and its variance.
    pub(super) fn change(&self, service: &DiskService) -> Option<(f64, f64)> {
        let is_known = self.began_healthy && self.evaluations >= KNOWN_MIN;
        let variance = self.variance * (1.0 + 1.0 / self.evaluations);
        is_known.then(|| (service.service_ns.ln() - self.log_service, variance))
    }

    pub(super) fn learn(&mut self, traffic: &Traffic, service: &DiskService) {
        self.evaluations += 1.0;
        let weight = (1.0 / self.evaluations).max(LEARNING);
        let difference = service.service_ns.ln() - self.log_service;
        self.log_service += weight * difference;
        self.variance += weight * (difference * difference - self.variance);
        let mean = &mut self.traffic;
        for (mean, new) in [
            (&mut mean.rate, traffic.rate),
            (&mut mean.bytes, traffic.bytes),
            (&mut mean.depth, traffic.depth),
            (&mut mean.other_share, traffic.other_share),
            (&mut mean.other_rate, traffic.other_rate),
            (&mut mean.other_bytes, traffic.other_bytes),
        ] {
            *mean += weight * (new - *mean);
        }
    }
}

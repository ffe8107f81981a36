//! The history of a disk: what its I/O of each kind of load used to take.

use super::STREAM_BYTES;
use crate::service::{DiskKind, DiskService, IoDirection};
use mirrorball_core::units::Nanos;
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

/// Evaluations until a history is used.
const HISTORY_MIN: f64 = 12.0;
/// Weight of a new evaluation in a full history: about an hour of load.
const LEARNING: f64 = 1.0 / 720.0;
/// Kinds of load that are known of a disk at most, which bounds the text of a history.
const LOADS_MAX: usize = 64;
/// Greatest logarithm of nanoseconds, of either sign: e^50 are 160 thousand years.
const LOG_MAX: f64 = 50.0;
/// Greatest number of evaluations, and greatest variance.
const EVALUATIONS_MAX: f64 = 1e12;
const VARIANCE_MAX: f64 = 1e4;
/// Standard deviation until the history knows it.
pub(super) const DEVIATION_ASSUMED: f64 = 0.3;

/// The history of a disk, which outlives a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DiskHistory {
    /// Service by direction, size and mix.
    #[serde(deserialize_with = "sane_histories")]
    services: Vec<LoadHistory>,
    /// Bytes written while it was watched.
    #[serde(default)]
    pub(super) written: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LoadHistory {
    load: LoadKind,
    pub(super) evaluations: f64,
    pub(super) log_service: f64,
    pub(super) variance: f64,
    /// Mean of the logarithm of waits, queue included.
    pub(super) log_wait: f64,
}

impl LoadHistory {
    /// True if no arithmetic on it overflows.
    fn is_sane(&self) -> bool {
        let is_log = |value: f64| value.abs() <= LOG_MAX;
        (1.0..=EVALUATIONS_MAX).contains(&self.evaluations)
            && (0.0..=VARIANCE_MAX).contains(&self.variance)
            && is_log(self.log_service)
            && is_log(self.log_wait)
    }
}

/// Histories of loads from a file, which may have been changed.
fn sane_histories<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<LoadHistory>, D::Error> {
    let histories = Vec::<LoadHistory>::deserialize(from)?;
    match histories.iter().find(|it| !it.is_sane()) {
        None => Ok(histories),
        Some(it) => Err(D::Error::custom(format!("no disk has the history {it:?}"))),
    }
}

/// Loads that are compared with each other: direction, power of two of the size, and the other
/// direction. Of a hard disk that is a quarter of the mix; flash is slowed by what it has to
/// program meanwhile, so it is a power of four of the bytes a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct LoadKind {
    pub(super) direction: IoDirection,
    size: u8,
    other: u8,
}

impl LoadKind {
    fn bytes(self) -> f64 {
        512.0 * f64::from(self.size).exp2()
    }

    pub(super) fn of(
        direction: IoDirection,
        service: &DiskService,
        class: DiskKind,
        time: Nanos,
    ) -> LoadKind {
        let size = (service.bytes.max(512.0) / 512.0).log2().round() as u8;
        let other = match class {
            DiskKind::Hdd => (service.other_share * 4.0) as u8,
            DiskKind::Ssd | DiskKind::Nvme => {
                let rate = service.other_bytes / time.as_secs_f64().max(1.0);
                ((rate / 4096.0).max(0.25).log2() / 2.0 + 1.0).round() as u8
            }
        };
        LoadKind { direction, size, other }
    }
}

impl DiskHistory {
    pub(super) fn of(&self, load: LoadKind) -> Option<&LoadHistory> {
        let found = self.services.iter().find(|it| it.load == load)?;
        (found.evaluations >= HISTORY_MIN).then_some(found)
    }

    /// The longest that random I/O of this size took, by loads that are no streams.
    pub(super) fn random_ns(
        &self,
        way: IoDirection,
        service: &DiskService,
        class: DiskKind,
    ) -> Option<f64> {
        // Flash serves some at once, its link one after the other.
        let depth = if class == DiskKind::Hdd { 1.0 } else { service.depth };
        let byte_ns = class.transfer_max_ns() * depth;
        let is_random =
            |it: &&LoadHistory| it.load.direction == way && it.load.bytes() < STREAM_BYTES;
        let known =
            self.services.iter().filter(is_random).filter(|it| it.evaluations >= HISTORY_MIN);
        let more = |it: &LoadHistory| (service.bytes - it.load.bytes()).max(0.0) * byte_ns;
        known.map(|it| it.log_service.exp() + more(it)).max_by(f64::total_cmp)
    }

    /// Forgets the loads of the fewest evaluations, until there is room for another.
    fn make_room(&mut self) {
        while self.services.len() >= LOADS_MAX {
            let all = self.services.iter().enumerate();
            let least = all.min_by(|a, b| a.1.evaluations.total_cmp(&b.1.evaluations));
            let Some((place, _)) = least else { return };
            self.services.remove(place);
        }
    }

    pub(super) fn learn(&mut self, load: LoadKind, service: &DiskService) {
        let (log_service, log_wait) = (service.service_ns.ln(), service.wait_ns.ln());
        let known = self.services.iter_mut().find(|it| it.load == load);
        let Some(known) = known else {
            let (evaluations, variance) = (1.0, DEVIATION_ASSUMED * DEVIATION_ASSUMED);
            let new = LoadHistory { load, evaluations, log_service, variance, log_wait };
            self.make_room();
            return self.services.push(new);
        };
        known.evaluations += 1.0;
        // Once known, a history follows slowly, so that it does not follow a disk that drifts.
        let is_known = known.evaluations > 2.0 * HISTORY_MIN;
        let weight = if is_known { LEARNING } else { 1.0 / known.evaluations };
        let difference = log_service - known.log_service;
        known.log_service += weight * difference;
        known.variance += weight * (difference * difference - known.variance);
        known.log_wait += weight * (log_wait - known.log_wait);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_has_a_bounded_number_of_loads_and_keeps_those_known_best() {
        let mut history = DiskHistory::default();
        let service = DiskService {
            service_ns: 1e6,
            wait_ns: 1e6,
            depth: 1.0,
            bytes: 4096.0,
            count: 100,
            other_share: 0.0,
            other_bytes: 0.0,
            other_service_ns: 0.0,
        };
        let load = |size, other| LoadKind { direction: IoDirection::Read, size, other };
        for _ in 0..20 {
            history.learn(load(3, 0), &service);
        }
        for place in 0..200 {
            history.learn(load(4, place), &service);
        }
        assert_eq!(history.services.len(), LOADS_MAX);
        assert!(history.of(load(3, 0)).is_some());
        assert_eq!(history.services.last().unwrap().load, load(4, 199));
    }
}

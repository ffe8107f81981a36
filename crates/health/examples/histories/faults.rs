//! Faults that `watch` is to find, with the truth of when they hold.

use crate::world::{Delay, SECOND, World};
use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_health::judge::{Cause, DiskWindow};
use mirrorball_health::service::DiskKind;

/// Seconds between changes of a factor.
const STEP_S: u64 = 10;
/// Seconds that a drift takes, and that a burst and the pause after it take.
const DRIFT_S: u64 = 600;
const BURST_S: u64 = 60;
/// Mean utilisation from which a disk that cannot stand heat throttles.
const HOT: f64 = 0.15;
/// Bytes written in about a minute, after which a disk tidies up for as long as [`TIDYING_S`].
const WRITTEN_MIN: f64 = 1e9;
const TIDYING_S: u64 = 180;
/// Size from which an I/O counts as large.
const LARGE_BYTES: u64 = 65_536;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum FaultKind {
    Step,
    Drift,
    Bursts,
    ReadsOnly,
    LargeOnly,
    Heat,
    Errors,
    Link,
    AfterWrites,
}

const FACTORS: [f64; 6] = [1.3, 1.5, 2.0, 3.0, 5.0, 10.0];

/// A fault, and when it holds.
pub(crate) struct Truth {
    pub(crate) kind: FaultKind,
    pub(crate) places: Vec<usize>,
    pub(crate) factor: f64,
    /// When it begins, and when it first was as strong as its factor, or twice.
    pub(crate) from_s: u64,
    pub(crate) reached_s: Option<u64>,
    service_and_retry_ms: (f64, f64),
    heat: f64,
    written: f64,
    written_s: Option<u64>,
}

impl Truth {
    pub(crate) fn draw(rng: &mut Rng, class: DiskKind, count: usize, linked: &[usize]) -> Truth {
        use FaultKind::*;
        let kinds = [Step, Step, Step, Drift, Bursts, ReadsOnly, LargeOnly, Heat, Errors, Link];
        let kind = match rng.below(11) {
            10 => AfterWrites,
            place => kinds[place as usize],
        };
        let kind = if kind == Link && linked.is_empty() { Step } else { kind };
        let places = match kind {
            Link => linked.to_vec(),
            _ => vec![rng.below(count as u64) as usize],
        };
        Truth {
            kind,
            places,
            factor: FACTORS[rng.below(FACTORS.len() as u64) as usize],
            from_s: 1080 + rng.below(240),
            reached_s: None,
            service_and_retry_ms: if class == DiskKind::Hdd { (12.0, 300.0) } else { (0.15, 10.0) },
            heat: 0.0,
            written: 0.0,
            written_s: None,
        }
    }

    pub(crate) fn cause(&self) -> Cause {
        match self.kind {
            FaultKind::Errors => Cause::Errors,
            FaultKind::Link => Cause::Link,
            FaultKind::AfterWrites => Cause::AfterWrites,
            _ => Cause::Service,
        }
    }

    /// Returns true if a window has I/O that the fault concerns, as much as the judge wants.
    pub(crate) fn concerns(&self, window: &DiskWindow) -> bool {
        let counters = &window.counters;
        let is_large = |count: u64, bytes: u64| bytes / count.max(1) >= LARGE_BYTES;
        let (reads, writes) = (counters.reads, counters.writes);
        let count = match self.kind {
            FaultKind::ReadsOnly => reads,
            FaultKind::LargeOnly => {
                let larges = [(reads, counters.read_bytes()), (writes, counters.written_bytes())];
                larges.iter().filter(|it| is_large(it.0, it.1)).map(|it| it.0).max().unwrap_or(0)
            }
            _ => reads.max(writes),
        };
        count >= 2 && counters.read_ms + counters.write_ms >= 1
    }

    /// Notes what the disk did in a second, and lets the fault act on the next ones.
    pub(crate) fn act(&mut self, second: u64, window: &DiskWindow, world: &mut World) {
        self.heat += (window.counters.busy_ms as f64 / 1e3 - self.heat) / 60.0;
        self.written += window.counters.written_bytes() as f64 - self.written / 60.0;
        if self.written > WRITTEN_MIN {
            self.written_s = Some(second);
        }
        if second < self.from_s || !second.is_multiple_of(STEP_S) {
            return;
        }
        let since = second - self.from_s;
        let is_on = match self.kind {
            FaultKind::Bursts => (since / BURST_S).is_multiple_of(2),
            FaultKind::Heat => self.heat > HOT,
            FaultKind::AfterWrites => self.written_s.is_some_and(|it| second < it + TIDYING_S),
            _ => true,
        };
        let factor = match self.kind {
            FaultKind::Drift => {
                1.0 + (self.factor - 1.0) * (since as f64 / DRIFT_S as f64).min(1.0)
            }
            _ if is_on => self.factor,
            _ => 1.0,
        };
        if factor >= self.factor.min(2.0) {
            self.reached_s.get_or_insert(second);
        }
        let until = world.now + Nanos(STEP_S * SECOND.0);
        for place in self.places.clone() {
            match self.delay() {
                Some(delay) => world.delays[place] = Some(delay),
                None if factor > 1.0 => world.slow(place, factor, until),
                None => {}
            }
        }
    }

    /// The delay by a fault that is not of the disk's mechanics.
    fn delay(&self) -> Option<Delay> {
        let all = Delay { factor: self.factor, is_reads_only: false, bytes_min: 0, retries: None };
        match self.kind {
            FaultKind::ReadsOnly => Some(Delay { is_reads_only: true, ..all }),
            FaultKind::LargeOnly => Some(Delay { bytes_min: LARGE_BYTES, ..all }),
            FaultKind::Link => Some(all),
            FaultKind::Errors => {
                // A retry takes 25 times a service on a hard disk, and 67 times on flash.
                let (service_ms, retry_ms) = self.service_and_retry_ms;
                let share = (self.factor - 1.0) * service_ms / retry_ms;
                let retries = Some((share, Nanos((retry_ms * 1e6) as u64)));
                Some(Delay { factor: 1.0, retries, ..all })
            }
            _ => None,
        }
    }
}

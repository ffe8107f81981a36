//! Lateness bounds: decides whether figures of emulated disks are accepted.
//!
//! The host completes emulated I/Os later than the model computed, because its CPU was busy. If the
//! p99 of this lateness exceeds a bound, the figures depend on the host more than on the disk and
//! are refused. The bounds are in the models' time: for a disk at ten times the speed, a tenth.

use crate::clock::Clock;
use crate::executor::{Executor, MemberStats};
use mirrorball_core::member::MemberConfig;
use mirrorball_core::units::Nanos;

/// Bound of the p99 for rotating disks.
const ROTATIONAL_P99_MAX: Nanos = Nanos::from_micros(500);
/// Bound of the p99 for other disks: the fastest models are SATA SSDs.
const SOLID_P99_MAX: Nanos = Nanos::from_micros(150);

/// Lateness of an emulated member's I/Os, and its bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lateness {
    /// The p99, in real time.
    pub p99: Nanos,
    /// The bound, in real time.
    pub bound: Nanos,
}

impl Lateness {
    /// The lateness of a member; `None` if it is not emulated, or had no I/O yet.
    pub fn of(config: &MemberConfig, stats: &MemberStats, clock: &Clock) -> Option<Lateness> {
        let bound = if config.rotational { ROTATIONAL_P99_MAX } else { SOLID_P99_MAX };
        (stats.lateness.count() > 0)
            .then(|| Lateness { p99: stats.lateness.quantile(0.99), bound: clock.real(bound) })
    }

    /// True if figures of the member are accepted.
    pub fn is_within_bound(&self) -> bool {
        self.p99 <= self.bound
    }
}

/// The devids of members whose figures are refused, with their lateness.
pub fn refused(executor: &Executor) -> Vec<(u64, Lateness)> {
    let members = executor.members().filter_map(|(config, stats)| {
        let lateness = Lateness::of(config, stats, &executor.clock())?;
        (!lateness.is_within_bound()).then_some((config.devid, lateness))
    });
    members.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Speed;

    fn judge(rotational: bool, speed: &str, lateness_us: &[u64]) -> Option<bool> {
        let config = MemberConfig { rotational, ..MemberConfig::new(1, 1 << 30) };
        let mut stats = MemberStats::default();
        for &us in lateness_us {
            stats.lateness.record(Nanos::from_micros(us));
        }
        let clock = Clock::new(Speed::parse(speed).unwrap());
        Lateness::of(&config, &stats, &clock).map(|lateness| lateness.is_within_bound())
    }

    #[test]
    fn p99_of_lateness_is_compared_with_the_bound() {
        let late = |every: usize, us| -> Vec<u64> {
            (1..=1000)
                .map(|index: usize| if index.is_multiple_of(every) { us } else { 5 })
                .collect()
        };
        assert_eq!(judge(true, "1x", &[]), None, "nothing to judge");
        assert_eq!(judge(true, "1x", &late(50, 400)), Some(true));
        assert_eq!(judge(true, "1x", &late(50, 600)), Some(false));
        assert_eq!(judge(true, "1x", &late(200, 90_000)), Some(true));
        assert_eq!(judge(false, "1x", &late(50, 100)), Some(true));
        assert_eq!(judge(false, "1x", &late(50, 400)), Some(false), "an SSD is quicker");
        assert_eq!(judge(true, "10x", &late(50, 40)), Some(true));
        assert_eq!(judge(true, "10x", &late(50, 400)), Some(false), "time is quicker");
    }
}

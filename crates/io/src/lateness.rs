//! Whether figures of emulated disks may be believed.
//!
//! The host ends emulated I/Os later than the model said, because its CPU had something else to do.
//! Past a bound on the p99 of that, figures say more about the host than about the disk, and are
//! refused. The bounds are of the models' time: a disk that is ten times as fast leaves the host a
//! tenth.

use crate::clock::Clock;
use crate::executor::{Executor, MemberStats};
use mirrorball_core::member::MemberConfig;
use mirrorball_core::units::Nanos;

/// The greatest p99 for disks that rotate.
const ROTATIONAL_P99_MAX: Nanos = Nanos::from_micros(500);
/// The greatest p99 for those that do not: the quickest of our models are SATA SSDs.
const SOLID_P99_MAX: Nanos = Nanos::from_micros(150);

/// How late the I/Os of an emulated member ended, and how late they may.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lateness {
    /// The p99, in real time.
    pub p99: Nanos,
    /// Its bound, in real time.
    pub bound: Nanos,
}

impl Lateness {
    /// That of a member; `None` if it is not emulated, or did nothing yet.
    pub fn of(config: &MemberConfig, stats: &MemberStats, clock: &Clock) -> Option<Lateness> {
        let bound = if config.rotational { ROTATIONAL_P99_MAX } else { SOLID_P99_MAX };
        (stats.lateness.count() > 0)
            .then(|| Lateness { p99: stats.lateness.quantile(0.99), bound: clock.real(bound) })
    }

    /// Whether figures of the member may be believed.
    pub fn is_within_bound(&self) -> bool {
        self.p99 <= self.bound
    }
}

/// The members whose figures are refused, by devid.
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
    fn one_in_fifty_may_not_be_late_and_one_in_two_hundred_may() {
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

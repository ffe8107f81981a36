//! The clock of a disk that has slow times and stalls: a piecewise linear map of time.
//!
//! The model inside a fault lives in a time of its own. While the disk is slow by a factor f, its
//! clock runs at 1/f of real time; while it stalls, the clock stands still. So everything about the
//! disk slows down together: a queue of 32 drains at 1/f of its rate, a command caught by the start
//! of a slow time finishes the rest of its work slowly, and nothing has to be known of the model.
//!
//! Factors are kept in thousandths and the map rounds down, in integers, so that it is the same on
//! every machine. Factors of overlapping slow times multiply; a stall beats them.

use mirrorball_core::units::Nanos;

/// Thousandths in one: the precision of a factor.
pub(super) const MILLI: u64 = 1000;

/// A period of real time in which a disk is slower than usual.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlowPeriod {
    pub(super) from: Nanos,
    /// The first instant after it.
    pub(super) until: Nanos,
    pub(super) rate: ClockRate,
}

/// How fast the disk's clock runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ClockRate {
    /// Slower by this factor, in thousandths.
    Slow { factor_milli: u64 },
    /// Not at all.
    Stalled,
}

/// The map between real time and the disk's.
#[derive(Clone, Debug)]
pub(super) struct DiskClock {
    /// In order of time, the first from zero; each lasts until the next.
    segments: Vec<ClockSegment>,
}

#[derive(Clone, Copy, Debug)]
struct ClockSegment {
    real: Nanos,
    disk: Nanos,
    rate: ClockRate,
}

impl DiskClock {
    /// The clock of a disk that is slower in these periods; empty ones count for nothing.
    pub(super) fn new(periods: &[SlowPeriod]) -> DiskClock {
        let mut bounds = vec![Nanos::ZERO];
        bounds.extend(periods.iter().flat_map(|period| [period.from, period.until]));
        bounds.sort_unstable();
        bounds.dedup();
        let mut segments: Vec<ClockSegment> = Vec::new();
        for real in bounds {
            let disk = segments.last().map_or(Nanos::ZERO, |last| last.disk_time(real));
            segments.push(ClockSegment { real, disk, rate: rate_at(periods, real) });
        }
        DiskClock { segments }
    }

    /// Time of the disk's clock at `real`.
    pub(super) fn disk_time(&self, real: Nanos) -> Nanos {
        let after = self.segments.partition_point(|segment| segment.real <= real);
        self.segments[after - 1].disk_time(real)
    }

    /// When the disk's clock gets to `disk` and goes on: the earliest real time at which it shows
    /// `disk` or more, except that an instant at which the clock stalls is put at the end of the
    /// stall, because nothing completes in one.
    pub(super) fn real_time(&self, disk: Nanos) -> Nanos {
        let first = self.segments.partition_point(|segment| segment.disk < disk);
        if let Some(before) = first.checked_sub(1) {
            let real = self.segments[before].real_time(disk);
            if self.segments.get(first).is_none_or(|next| real < next.real) {
                return real;
            }
        }
        let mut going_on = self.segments[first..].iter().filter(|s| s.rate != ClockRate::Stalled);
        going_on.next().map_or(Nanos::MAX, |segment| segment.real)
    }
}

impl ClockSegment {
    fn disk_time(&self, real: Nanos) -> Nanos {
        match self.rate {
            ClockRate::Stalled => self.disk,
            ClockRate::Slow { factor_milli } => {
                let elapsed = u128::from((real - self.real).0) * u128::from(MILLI);
                self.disk + Nanos((elapsed / u128::from(factor_milli)) as u64)
            }
        }
    }

    fn real_time(&self, disk: Nanos) -> Nanos {
        match self.rate {
            // Not within this segment.
            ClockRate::Stalled => Nanos::MAX,
            ClockRate::Slow { factor_milli } => {
                let work = u128::from((disk - self.disk).0) * u128::from(factor_milli);
                let elapsed = u64::try_from(work.div_ceil(u128::from(MILLI))).unwrap_or(u64::MAX);
                self.real.saturating_add(Nanos(elapsed))
            }
        }
    }
}

fn rate_at(periods: &[SlowPeriod], real: Nanos) -> ClockRate {
    let mut product = u128::from(MILLI);
    for period in periods.iter().filter(|s| s.from <= real && real < s.until) {
        match period.rate {
            ClockRate::Stalled => return ClockRate::Stalled,
            ClockRate::Slow { factor_milli } => {
                product = product * u128::from(factor_milli) / u128::from(MILLI);
            }
        }
    }
    // A thousand million times slower is as good as any slower.
    ClockRate::Slow { factor_milli: product.min(1_000_000_000_000) as u64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn period(from: u64, until: u64, factor: u64) -> SlowPeriod {
        let rate = match factor {
            0 => ClockRate::Stalled,
            _ => ClockRate::Slow { factor_milli: factor * MILLI },
        };
        SlowPeriod { from: Nanos(from), until: Nanos(until), rate }
    }

    #[test]
    fn slow_stretches_multiply_and_a_stall_stands_still() {
        let clock = DiskClock::new(&[
            period(100, 500, 2),
            period(300, 700, 5),
            period(900, 1000, 0),
            period(600, 650, 0),
        ]);
        for (real, disk) in [
            (0, 0),
            (100, 100),
            (300, 200),
            (500, 220),
            (600, 240),
            (650, 240),
            (700, 250),
            (900, 450),
            (1000, 450),
            (1100, 550),
        ] {
            assert_eq!(clock.disk_time(Nanos(real)), Nanos(disk), "at {real}");
        }
        for (disk, real) in [(0, 0), (150, 200), (240, 650), (449, 899), (450, 1000), (550, 1100)] {
            assert_eq!(clock.real_time(Nanos(disk)), Nanos(real), "disk time {disk}");
        }
    }

    proptest! {
        /// The clock never goes back; an instant of the disk comes when its clock shows it, not a
        /// nanosecond earlier, and outside of stalls.
        #[test]
        fn the_two_directions_agree(
            spans in prop::collection::vec((0u64..2000, 0u64..500, 0u64..8), 0..6),
            disk in 0u64..4000,
        ) {
            let periods: Vec<SlowPeriod> =
                spans.iter().map(|&(from, length, f)| period(from, from + length, f)).collect();
            let clock = DiskClock::new(&periods);
            let real = clock.real_time(Nanos(disk));
            prop_assert!(clock.disk_time(real) >= Nanos(disk));
            prop_assert_ne!(rate_at(&periods, real), ClockRate::Stalled);
            if let Some(before) = real.0.checked_sub(1).map(Nanos) {
                let stalled = rate_at(&periods, before) == ClockRate::Stalled;
                prop_assert!(clock.disk_time(before) < Nanos(disk) || stalled);
                prop_assert!(clock.disk_time(before) <= clock.disk_time(real));
            }
            prop_assert!(real <= clock.real_time(Nanos(disk + 1)));
        }
    }
}

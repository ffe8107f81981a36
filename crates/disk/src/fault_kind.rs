//! The kinds of faults of a disk, as plain data.

use mirrorball_core::units::Nanos;

/// From an instant up to, not including, another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FaultWindow {
    /// First instant.
    pub from: Nanos,
    /// The first instant after it; [`Nanos::MAX`] for never.
    pub until: Nanos,
}

impl FaultWindow {
    pub const ALWAYS: FaultWindow = FaultWindow { from: Nanos::ZERO, until: Nanos::MAX };

    /// Whether `at` lies within.
    #[inline]
    pub fn contains(&self, at: Nanos) -> bool {
        self.from <= at && at < self.until
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Fault {
    /// Everything the disk does takes longer by a factor.
    Slow {
        /// Thousandths: 4000 for four times. At least 1000.
        factor_milli: u64,
        during: FaultWindow,
    },
    /// The disk stands still; nothing completes.
    Stall {
        /// From when.
        at: Nanos,
        length: Nanos,
    },
    /// I/O of any kind fails by chance.
    Errors {
        /// The probability for each I/O.
        rate: f64,
        during: FaultWindow,
    },
    /// Reads of a range fail until it is rewritten.
    Bad {
        /// First byte on the disk.
        offset: u64,
        length: u64,
    },
    Dead {
        /// When; it returns at the end.
        during: FaultWindow,
    },
}

//! Reading from members that were not read for long, to know what they cost by now.
//!
//! The read goes to the cheapest mirror as well, so nobody waits for the other. Each member is
//! asked that way so seldom that it costs less than a hundredth of the members' time: once in 64
//! times what a read takes there, while another mirror at least is in use.

use super::known::Known;
use crate::units::Nanos;

const INTERVAL_READS: u64 = 64;

impl Known {
    /// Whether it is its turn to be asked, if a read is given to another.
    #[inline]
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        self.speed.seen.load == 0
            && now.saturating_sub(self.read_at).0 > INTERVAL_READS * self.speed.alone_ns()
            && !self.tenancy.is_held(now)
    }
}

//! Reading from members that were not read for long, to know what they cost by now.
//!
//! The read goes to the cheapest mirror as well, so nobody waits for the other. Each member is
//! asked that way so seldom that it costs less than a hundredth of the members' time: once in 64
//! times what a read takes there, while another mirror at least is in use.

use super::Auto;
use super::cost::View;
use super::ingredients::Ingredient;
use crate::policy::{Mirror, Read};

const INTERVAL_READS: u64 = 64;

impl Auto {
    /// The mirror, other than the one at `chosen`, whose turn it is to be asked, if there is one.
    pub(super) fn due(
        &self,
        chosen: usize,
        read: &Read,
        mirrors: &[Mirror],
        view: &View<'_>,
    ) -> Option<usize> {
        if read.background || !self.has(Ingredient::Probes) {
            return None;
        }
        let is_due = |&(place, mirror): &(usize, &Mirror)| {
            let known = self.known(mirror);
            place != chosen
                && view.members[mirror.member].in_flight() == 0
                && view.now.saturating_sub(known.read_at).0
                    > INTERVAL_READS * known.speed.alone_ns()
                && !known.tenancy.is_held(view.now)
        };
        mirrors.iter().enumerate().find(is_due).map(|(place, _)| place)
    }
}

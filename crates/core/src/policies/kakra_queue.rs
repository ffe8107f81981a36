//! # Idea
//! The mirror whose member has the fewest reads and writes in flight, at this instant.
//!
//! # State
//! The member chosen last.
//!
//! # Cost
//! One comparison a mirror.
//!
//! # Good at
//! Depth, on members of any speed: a slow one fills up and is passed over until it drains. It
//! reacts at once and needs no history.
//!
//! # Bad at
//! One read at a time: all queues are empty, so nothing is known of speed.
//! Sequential streams on rotational members: it knows no head position, and its tails are bad there
//! (kakra, May 2025).
//!
//! # Origin
//! kakra/linux PR #36 (6.12) and PR #40 (6.18), by Kai Krakow. Ours, where its text is silent: of
//! equals the member chosen last serves again, which keeps a stream together; if it is not among
//! them, the reader's stream number picks one, as `btrfs/pid` would. Not the lowest stripe: that is
//! the emptiest member at allocation, which would have all the load of an idle array.

use super::Build;
use super::spec::PolicyError;
use crate::member::{MemberIndex, Members};
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct Queue {
    previous: Option<MemberIndex>,
}

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, PolicyError> {
    Ok(Box::new(Queue { previous: None }))
}

impl ReadPolicy for Queue {
    fn choose(
        &mut self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        let in_flight = |mirror: &Mirror| members[mirror.member].in_flight();
        let fewest = mirrors.iter().map(in_flight).min().expect("mirrors are never empty");
        let mut equals =
            mirrors.iter().enumerate().filter(|(_, mirror)| in_flight(mirror) == fewest);
        let previous = equals.clone().find(|(_, mirror)| Some(mirror.member) == self.previous);
        let (place, mirror) = previous
            .or_else(|| {
                let number = equals.clone().count() as u64;
                equals.nth((read.stream % number) as usize)
            })
            .expect("at least one mirror has the fewest in flight");
        self.previous = Some(mirror.member);
        Choice::Mirror(place)
    }
}

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
use super::shared::shortest_queue::shortest_queue;
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
        let place = shortest_queue(read, mirrors, members, self.previous, |_| true);
        self.previous = Some(mirrors[place].member);
        Choice::Mirror(place)
    }
}

//! # Idea
//! Takes the mirror whose member has the fewest reads and writes in flight at this instant.
//!
//! # State
//! The member chosen last.
//!
//! # Cost
//! One comparison per mirror.
//!
//! # Good at
//! Depth, on members of any speed: the queue of a slow member fills up, and reads go elsewhere
//! until it drains. It reacts at once and needs no history.
//!
//! # Bad at
//! - One read at a time: all queues are empty, so speed is not considered.
//! - Sequential streams on rotational members: it ignores head positions, and has long tails there
//!   (kakra, May 2025).
//!
//! # Origin
//! kakra/linux PR #36 (6.12) and PR #40 (6.18), by Kai Krakow. Added here, where its text says
//! nothing: of equals the member chosen last serves again, which keeps a stream together. If it is
//! not among the equals, the reader's stream number selects one, as in `btrfs/pid`. The lowest
//! stripe would be a bad choice: it is the emptiest member at allocation, which would get all the
//! load of an idle array. Defined in kakra/linux PR #36 and PR #40.

use super::shared::shortest_queue::shortest_queue;
use crate::member::MemberIndex;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct Queue {
    previous: Option<MemberIndex>,
}

impl ReadPolicy for Queue {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let place = shortest_queue(read, mirrors, ctx.members, self.previous, |_| true);
        self.previous = Some(mirrors[place].member);
        Choice::Mirror(place)
    }
}

//! # Idea
//! Draws two mirrors at random; the one whose member has fewer I/O in flight serves.
//!
//! # State
//! None; the draws come from the volume's seeded generator.
//!
//! # Cost
//! Two random numbers and one comparison, for any number of mirrors.
//!
//! # Good at
//! Many mirrors and counts that are out of date: not all clients choose the one member that looks
//! idle. The longest queue is then of the order log log n instead of log n.
//!
//! # Bad at
//! - Few mirrors and exact counts, as in a volume: with two it is the shortest queue with random
//!   ties; with three or four it sometimes misses the shortest and gains nothing.
//! - Members of unequal speed at low depth, and sequential streams: it considers neither latency
//!   nor position.
//!
//! # Origin
//! Azar, Broder, Karlin and Upfal, "Balanced Allocations", STOC 1994; Mitzenmacher, IEEE TPDS
//! 12(10), 2001. Added here: the two differ, as in Finagle; reads and writes count alike; of equals
//! the one drawn first serves.

use super::shared::two_choices::better_of_two;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct PowerOfTwo;

impl ReadPolicy for PowerOfTwo {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let in_flight = |mirror: &Mirror| ctx.members[mirror.member].in_flight();
        Choice::Mirror(better_of_two(mirrors, ctx.rng, in_flight))
    }
}

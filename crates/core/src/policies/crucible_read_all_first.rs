//! # Idea
//! Sends every read to every mirror at once. The first successful answer completes the read. The
//! other reads continue, and their results are dropped.
//!
//! # State
//! None.
//!
//! # Cost
//! As many member reads as there are mirrors, for each read.
//!
//! # Good at
//! Latency at low load: the wait is the shortest of all mirrors, and a stall of one member has no
//! effect.
//!
//! # Bad at
//! Load: each mirror serves all reads, so more mirrors give no more throughput, and every disk head
//! follows every stream.
//!
//! # Origin
//! Oxide's Crucible, `upstairs/`: a read is sent to all three downstairs, and the first answer
//! acknowledges it. There a repair in progress restricts which of them may answer; here the
//! volume's eligibility rules do. Defined in upstairs/src.

use crate::policy::{Choice, Ctx, Mirror, MirrorSet, Read, ReadPolicy};

#[derive(Default)]
pub(super) struct ReadAllFirst;

impl ReadPolicy for ReadAllFirst {
    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], _ctx: &mut Ctx<'_>) -> Choice {
        Choice::All(MirrorSet::all(mirrors))
    }
}

//! # Idea
//! A read waits in two queues. Where it is next in line first it is served; the other is withdrawn.
//! The first queue is the policy's choice, the second the shortest of the others, which it joins a
//! little later (1 ms, or the given time) if it is not next in line by then.
//!
//! # State
//! None of its own.
//!
//! # Cost
//! A scan for the second queue; one more member I/O for each read that has to wait, most of which
//! are withdrawn again where the member allows it.
//!
//! # Good at
//! Queues whose length says little about the wait: it finds the shorter wait without knowing it.
//! In a cluster file system, idle: median -16 %, p99.9 98 to 61 ms; loaded: p99.9 159 to 108 ms
//! (Dean and Barroso, as retold).
//!
//! # Bad at
//! Members that reorder their queue: what is next in line is then guessed, and both may be served.
//! Members that cannot withdraw a queued read (SATA disks without "abort selected"): then it reads
//! almost everything twice that has to wait.
//!
//! # Origin
//! Dean and Barroso, "The Tail at Scale", CACM 56(2), 2013, "tied requests"; Yu et al., "Trading
//! Capacity for Performance in a Disk Array", OSDI 2000, duplicate requests that are cancelled when
//! one starts. Servers there tell each other when they begin; a volume tells by what is in flight.

use super::{Built, Modifier, around};
use crate::member::Members;
use crate::policies::Build;
use crate::policies::shared::second_choice::shortest_of_others;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;

struct Tied {
    after: Nanos,
}

/// Builds the modifier from the milliseconds that the first queue has the read alone.
pub(super) fn build(build: &Build<'_>, inner: Box<dyn ReadPolicy>) -> Built {
    around(inner, Tied { after: Nanos::from_millis(build.values[0]) })
}

impl Modifier for Tied {
    fn choose(
        &mut self,
        inner: &mut dyn ReadPolicy,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        ctx: &mut Ctx<'_>,
    ) -> Choice {
        match inner.choose(read, mirrors, members, ctx) {
            Choice::Mirror(first) => Choice::Tied {
                first,
                second: shortest_of_others(mirrors, members, first),
                after: self.after,
            },
            other => other,
        }
    }
}

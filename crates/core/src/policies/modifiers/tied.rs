//! # Idea
//! A read waits in two queues. Where it is first in line it is served; the other entry is
//! withdrawn. The first queue is the policy's choice. The second is the shortest of the others,
//! which the read joins a little later (1 ms, or the given time) if it is not first in line in the
//! first queue.
//!
//! # State
//! None of its own.
//!
//! # Cost
//! A scan for the second queue; one more member I/O for each read that has to wait, most of which
//! are withdrawn where the member allows it.
//!
//! # Good at
//! Queues whose length does not predict the wait: the read is served from the queue with the
//! shorter wait. In a cluster file system, idle: median -16 %, p99.9 98 to 61 ms; loaded: p99.9 159
//! to 108 ms (Dean and Barroso).
//!
//! # Bad at
//! - Members that reorder their queue: which read is first in line is then a guess, and both may be
//!   served.
//! - Members that cannot withdraw a queued read (SATA disks without "abort selected"): almost every
//!   read that has to wait is then read twice.
//!
//! # Origin
//! Dean and Barroso, "The Tail at Scale", CACM 56(2), 2013, "tied requests"; Yu et al., "Trading
//! Capacity for Performance in a Disk Array", OSDI 2000, duplicate requests that are cancelled when
//! one starts. Servers there notify each other when they begin; a volume uses its own count of I/O
//! in flight. CACM 56(2), 2013, pages 74 to 80.

use super::Built;
use crate::policies::Build;
use crate::policies::shared::second_choice::shortest_of_others;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};
use crate::units::Nanos;

struct Tied {
    inner: Box<dyn ReadPolicy>,
    after: Nanos,
}

/// Builds the modifier from the milliseconds for which the read waits in the first queue only.
pub(super) fn build(build: &Build<'_>, inner: Box<dyn ReadPolicy>) -> Built {
    Ok(Box::new(Tied { inner, after: Nanos::from_millis(build.values[0]) }))
}

impl ReadPolicy for Tied {
    fn inner(&self) -> Option<&dyn ReadPolicy> {
        Some(self.inner.as_ref())
    }

    fn inner_mut(&mut self) -> Option<&mut dyn ReadPolicy> {
        Some(self.inner.as_mut())
    }

    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        match self.inner.choose(read, mirrors, ctx) {
            Choice::Mirror(first) => Choice::Tied {
                first,
                second: shortest_of_others(mirrors, ctx.members, first),
                after: self.after,
            },
            other => other,
        }
    }
}

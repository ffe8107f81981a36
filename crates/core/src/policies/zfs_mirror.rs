//! # Idea
//! Takes the shortest queue, where a seek counts as requests: on a rotational member five, two
//! within 1 MiB of the last I/O, none directly after it; on a non-rotational one, one or none. Ties
//! are broken by offset: 2 MiB to each mirror in turn.
//!
//! # State
//! None of its own; it uses the members' queues and the end of the last I/O submitted to each.
//!
//! # Cost
//! One score per mirror.
//!
//! # Good at
//! Several streams over rotational and mixed members: with two HDDs and an SSD, three `dd` read 284
//! MB/s, where striping by offset read 95 and the shortest queue alone 51 (OpenZFS commit text).
//!
//! # Bad at
//! - Unequal members of one kind: a request counts the same on each of them.
//! - One random reader: all scores are equal, so the offset decides, and the speed of a member does
//!   not count.
//! - Mixed media: an idle HDD is taken before an SSD with six requests (its source suggests a seek
//!   increment of 0 for non-rotational devices there).
//!
//! # Origin
//! OpenZFS, `module/zfs/vdev_mirror.c`, with the default values of its tunables; by Steven Hartland
//! for FreeBSD in October 2013 (r256956), in OpenZFS since 0.7. All classes of I/O count. Children
//! are tried in slot order, here the member's index; the offset that breaks ties is the volume's,
//! because mirrors here have different offsets. Ditto copies and dRAID are left out.

use super::Build;
use super::shared::offset_stripe::stripe_at;
use super::shared::ties::smallest_with_tie_break;
use crate::diagnostic::Diagnostic;
use crate::member::{Member, Members};
use crate::policy::{Choice, Ctx, Mirror, MirrorScore, Read, ReadPolicy};
use crate::units::{MIB, Nanos};

/// Requests that an I/O counts in addition to the queue, by its distance from the last one.
struct Penalty {
    exact: u32,
    near: u32,
    far: u32,
}

/// `rotating_inc`, half of `rotating_seek_inc` in integers, `rotating_seek_inc`.
const ROTATIONAL: Penalty = Penalty { exact: 0, near: 2, far: 5 };
/// `non_rotating_inc`, then `non_rotating_seek_inc` at any distance.
const NON_ROTATIONAL: Penalty = Penalty { exact: 0, near: 1, far: 1 };
/// `rotating_seek_offset`, in bytes.
const NEAR_BYTES: u64 = MIB;

struct ZfsMirror;

/// Builds the policy; it takes no values.
pub(super) fn build(_build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, Diagnostic> {
    Ok(Box::new(ZfsMirror))
}

fn score(member: &Member, offset: u64) -> u32 {
    let penalty = if member.config.rotational { &ROTATIONAL } else { &NON_ROTATIONAL };
    member.in_flight()
        + match member.submitted_end.abs_diff(offset) {
            0 => penalty.exact,
            1..NEAR_BYTES => penalty.near,
            _ => penalty.far,
        }
}

impl ReadPolicy for ZfsMirror {
    fn choose(
        &mut self,
        read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        Choice::Mirror(smallest_with_tie_break(
            mirrors,
            |mirror| score(&members[mirror.member], mirror.offset),
            |ties| stripe_at(read.offset, ties),
        ))
    }

    fn explain(
        &self,
        _read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        _now: Nanos,
    ) -> Vec<MirrorScore> {
        let reason = |mirror: &Mirror| {
            let member = &members[mirror.member];
            let (queue, score) = (member.in_flight(), score(member, mirror.offset));
            MirrorScore::new("score", score).with("in_flight", queue).with("seek", score - queue)
        };
        mirrors.iter().map(reason).collect()
    }
}

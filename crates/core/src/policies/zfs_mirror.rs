//! # Idea
//! Takes the shortest queue, where a seek counts as requests: on a rotational member five, two
//! within 1 MiB of the last I/O, none directly after it; on a non-rotational one, one or none. Ties
//! are broken by offset: 2 MiB to each mirror in turn.
//!
//! The five tunables of ZFS are its parameters.
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
//! OpenZFS, `module/zfs/vdev_mirror.c`, where the parameters are the module parameters
//! `zfs_vdev_mirror_*`, with the same defaults, for all pools together; by Steven Hartland for
//! FreeBSD in October 2013 (r256956), in OpenZFS since 0.7. All classes of I/O count. Children are
//! tried in slot order, here the member's index; the offset that breaks ties is the volume's,
//! because mirrors here have different offsets. Ditto copies and dRAID are left out.

use super::shared::offset_stripe::stripe_at;
use super::shared::ties::smallest_with_tie_break;
use super::{Build, Built};
use crate::member::Member;
use crate::policy::{Choice, Ctx, Mirror, MirrorScore, Read, ReadPolicy};

/// Requests that an I/O counts in addition to the queue, by its distance from the last one.
struct Penalty {
    exact: u32,
    near: u32,
    far: u32,
}

pub(super) struct ZfsMirror {
    rotational: Penalty,
    non_rotational: Penalty,
    /// A read that starts less than this far from the last one is near.
    seek_offset_bytes: u64,
    /// True if I/O of non-rotational members bypasses the queue: then their queue is empty, and
    /// their last I/O at 0.
    has_bypass: bool,
}

/// Builds the policy; its values are the increments and the offset, in the order of the table.
pub(super) fn build(build: &Build<'_>) -> Built {
    let values = [0, 1, 2, 3, 4].map(|index| build.values[index]);
    Ok(Box::new(ZfsMirror::new(values, false)))
}

impl ZfsMirror {
    /// The rule with these parameters, in the order of the table.
    pub(super) fn new(values: [u64; 5], has_bypass: bool) -> ZfsMirror {
        let increment = |index: usize| values[index] as u32;
        let (rotating_seek, non_rotating_seek) = (increment(0), increment(1));
        ZfsMirror {
            // A near read counts half as much in integers, on rotational members only.
            rotational: Penalty {
                exact: increment(2),
                near: rotating_seek / 2,
                far: rotating_seek,
            },
            non_rotational: Penalty {
                exact: increment(3),
                near: non_rotating_seek,
                far: non_rotating_seek,
            },
            seek_offset_bytes: values[4],
            has_bypass,
        }
    }

    /// Requests in the queue of a member, as the rule sees them.
    fn queue(&self, member: &Member) -> u32 {
        match self.has_bypass && !member.config.rotational {
            true => 0,
            false => member.in_flight(),
        }
    }

    #[inline]
    fn score(&self, member: &Member, offset: u64) -> u32 {
        let penalty =
            if member.config.rotational { &self.rotational } else { &self.non_rotational };
        let last_end = match self.has_bypass && !member.config.rotational {
            true => 0,
            false => member.submitted_end,
        };
        let distance_bytes = last_end.abs_diff(offset);
        self.queue(member)
            + match distance_bytes {
                0 => penalty.exact,
                _ if distance_bytes < self.seek_offset_bytes => penalty.near,
                _ => penalty.far,
            }
    }
}

impl ReadPolicy for ZfsMirror {
    fn choose(&mut self, read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(smallest_with_tie_break(
            mirrors,
            |mirror| self.score(&ctx.members[mirror.member], mirror.offset),
            |ties| stripe_at(read.offset, ties),
        ))
    }

    fn explain(&self, _read: &Read, mirrors: &[Mirror], ctx: &Ctx<'_>) -> Vec<MirrorScore> {
        let reason = |mirror: &Mirror| {
            let member = &ctx.members[mirror.member];
            let (queue, score) = (self.queue(member), self.score(member, mirror.offset));
            MirrorScore::new("score", score).with("in_flight", queue).with("seek", score - queue)
        };
        mirrors.iter().map(reason).collect()
    }
}

//! # Idea
//! By layout. `near`: an idle disk, else the nearest head. `far` and `offset`: the lowest address,
//! so that the array reads as a raid0 of the outer tracks would. In all layouts, if any copy is on
//! a non-rotational disk, the non-rotational disk with the shortest queue serves.
//!
//! # State
//! None of its own; it uses the queues, and the end of the last I/O completed on each member.
//!
//! # Cost
//! One scan of the mirrors.
//!
//! # Good at
//! `near`: random reads, on unequal disks too, because a slow disk is idle less often.
//!
//! # Bad at
//! - One sequential stream in `near`: it goes to the first idle copy; streams are not detected.
//! - `far`: neither load nor speed is considered. On a two-disk array of 2 ms and 6 ms, Linux 7.2
//!   read from both alike.
//! - Mixed media: a rotational disk is never read while a copy is on a non-rotational one, however
//!   long that queue is.
//!
//! # Origin
//! Linux md since 2019, `read_balance` in `drivers/md/raid10.c`. The order of the scan is that of
//! the chunk's stripes, md's layout order. `read_balance` never tests the bit that distinguishes
//! `offset` from `far`: it uses the number of far copies, which is two in both (layouts 0x10201 and
//! 0x201), so `offset` follows the rule of `far`. Without a parameter the rule is that of the
//! array's layout, and `near` on an array that is no md raid10. Mirrors at one address, as btrfs
//! chunks often have, all tie in `far`, and the first stripe serves. Queues count reads and writes.
//! Left to the volume's eligibility: replacements, bad blocks, the resync window. The original is
//! by Neil Brown, Keld Simonsen, Guoqing Jiang.

use super::shared::smallest::first_smallest;
use super::{Build, Built};
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

pub(super) struct Raid10 {
    rule: Rule,
    /// True if the rule is that of the array's layout.
    is_of_array: bool,
    release: Release,
}

enum Rule {
    Near,
    FarOrOffset,
}

/// The releases of Linux between which the rule changed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Release {
    /// Up to 5.2.
    Before2019,
    /// From 5.3 on.
    Since2019,
}

impl Raid10 {
    /// The rule of a release, from the index of the layout's word.
    pub(super) fn new(build: &Build<'_>, release: Release) -> Raid10 {
        let (rule, is_of_array) = match build.values[0] {
            0 => (Rule::Near, false),
            1 | 2 => (Rule::FarOrOffset, false),
            _ => (Rule::Near, true),
        };
        Raid10 { rule, is_of_array, release }
    }
}

/// Builds the policy from the index of the layout's word.
pub(super) fn build(build: &Build<'_>) -> Built {
    Ok(Box::new(Raid10::new(build, Release::Since2019)))
}

impl ReadPolicy for Raid10 {
    fn on_members_change(&mut self, members: &Members) {
        if self.is_of_array {
            self.rule = match members.copies_are_apart() {
                true => Rule::FarOrOffset,
                false => Rule::Near,
            };
        }
    }

    fn choose(&mut self, _read: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let non_rotational = |mirror: &Mirror| !ctx.members[mirror.member].config.rotational;
        let is_idle = |mirror: &Mirror| ctx.members[mirror.member].in_flight() == 0;
        if self.release == Release::Since2019 && mirrors.iter().any(non_rotational) {
            return Choice::Mirror(first_smallest(mirrors, |mirror| {
                (!non_rotational(mirror), ctx.members[mirror.member].in_flight())
            }));
        }
        // Before 2019 an idle disk ended the scan. Since then it counts as the nearest.
        let ends_at_idle = self.release == Release::Before2019;
        Choice::Mirror(first_smallest(mirrors, |mirror| match self.rule {
            Rule::Near if is_idle(mirror) => (!ends_at_idle, 0),
            Rule::Near => {
                let distance = mirror.offset.abs_diff(ctx.members[mirror.member].completed_end);
                (true, distance)
            }
            Rule::FarOrOffset => (true, mirror.offset),
        }))
    }
}

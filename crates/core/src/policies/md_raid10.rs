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
//! Left to the volume's eligibility: replacements, bad blocks, the resync window.

use super::Build;
use super::shared::smallest::first_smallest;
use crate::diagnostic::Diagnostic;
use crate::member::Members;
use crate::policy::{Choice, Ctx, Mirror, Read, ReadPolicy};

struct Raid10 {
    rule: Rule,
    /// True if the rule is that of the array's layout.
    is_of_array: bool,
}

enum Rule {
    Near,
    FarOrOffset,
}

/// Builds the policy from the index of the layout's word.
pub(super) fn build(build: &Build<'_>) -> Result<Box<dyn ReadPolicy>, Diagnostic> {
    let (rule, is_of_array) = match build.values[0] {
        0 => (Rule::Near, false),
        1 | 2 => (Rule::FarOrOffset, false),
        _ => (Rule::Near, true),
    };
    Ok(Box::new(Raid10 { rule, is_of_array }))
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

    fn choose(
        &mut self,
        _read: &Read,
        mirrors: &[Mirror],
        members: &Members,
        _ctx: &mut Ctx<'_>,
    ) -> Choice {
        let non_rotational = |mirror: &Mirror| !members[mirror.member].config.rotational;
        if mirrors.iter().any(non_rotational) {
            return Choice::Mirror(first_smallest(mirrors, |mirror| {
                (!non_rotational(mirror), members[mirror.member].in_flight())
            }));
        }
        Choice::Mirror(first_smallest(mirrors, |mirror| {
            let member = &members[mirror.member];
            match self.rule {
                Rule::Near if member.in_flight() == 0 => 0,
                Rule::Near => mirror.offset.abs_diff(member.completed_end),
                Rule::FarOrOffset => mirror.offset,
            }
        }))
    }
}

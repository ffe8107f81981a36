//! Counts of a scrub: each block once, though what was not repaired when the service ended is
//! checked again.

use crate::Volume;
use mirrorball_core::member::MemberIndex;
use mirrorball_store::label::ScrubProgress;
use std::ops::Range;

/// Counts a wrong block at an offset, unless it was counted before a restart.
pub(super) fn count_wrong(progress: &mut ScrubProgress, offset: u64, odd: &[MemberIndex]) {
    if offset < progress.counted_bytes {
        progress.pending_blocks = progress.pending_blocks.saturating_sub(1);
        return;
    }
    progress.differing_blocks += 1;
    for member in odd {
        if let Some(odd_blocks) = progress.odd_blocks.get_mut(member.get()) {
            *odd_blocks += 1;
        }
    }
}

/// Counts the bytes of a range that cannot be compared, unless they were counted before a restart.
pub(super) fn count_uncompared(progress: &mut ScrubProgress, range: &Range<u64>, volume: &Volume) {
    let new = range.start.max(progress.counted_bytes)..range.end;
    if !new.is_empty() {
        progress.uncompared_bytes += new.end - new.start - volume.comparable_bytes(new.clone());
    }
}

/// Once all is checked again that was counted before a restart: what was not found again was
/// repaired before that.
pub(super) fn end_counted(progress: &mut ScrubProgress) {
    if progress.checked_bytes >= progress.counted_bytes {
        progress.repaired_blocks += std::mem::take(&mut progress.pending_blocks);
    }
}

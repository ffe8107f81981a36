//! A member of an executor, and the check that its file was not truncated.
//!
//! A file that is shorter than it was has lost data. So has one that was cut and made as long as it
//! was: fewer bytes are allocated for it than were, although nothing was discarded. Filesystems
//! that compress allocate less for zeroes that are written, so this is looked at on others only.

use super::MemberStats;
use super::member_fault::MemberFault;
use super::shared_flush::SharedFlush;
use crate::driver::Driver;
use crate::member::{GUARD_BYTES, Store};
use mirrorball_core::io::Op;
use mirrorball_core::member::MemberConfig;
use mirrorball_core::units::Nanos;

/// Interval at which reads check the length of the file.
const CHECK_INTERVAL: Nanos = Nanos::from_millis(1);
/// So many allocated bytes fewer than before, and [`FREED_PART`] of them, tell that a file was cut.
/// A filesystem may free some by itself: of what it has about a file, less as its parts become one,
/// or of what it set aside for it.
const FREED_BYTES_MIN: u64 = 1 << 20;
/// See [`FREED_BYTES_MIN`]: one in so many.
const FREED_PART: u64 = 64;

/// What a look at the file of a member found that was truncated, the worst first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Cut {
    /// It is as long as it must be, and has lost most of what was allocated for it.
    MostlyFreed,
    /// The file ends there, on the member.
    At(u64),
    /// It has all bytes of the member, but was shorter: how short is not known.
    Regrown,
    /// It is as long as it must be, and has lost some of what was allocated for it.
    Freed,
}

/// A member with its storage and statistics.
pub(super) struct MemberSlot {
    pub(super) config: MemberConfig,
    pub(super) store: Store,
    pub(super) stats: MemberStats,
    /// What went wrong last, before it failed.
    pub(super) fault: Option<MemberFault>,
    /// When that was.
    pub(super) fault_at: Nanos,
    /// True if its file was truncated. What it reads counts only where it is in sync.
    pub(super) was_cut: bool,
    /// True if all was allocated for its file at the last look that was at the one before, or all
    /// up to its end, and nothing was written since.
    pub(super) has_all_allocated: bool,
    /// The length that its file had at least since it was truncated.
    length_since_cut: Option<u64>,
    /// True if it could not be made as long again.
    stays_short: bool,
    /// True if it has had no storage.
    pub(super) is_missing: bool,
    /// Number of I/Os in flight that are not reads.
    pub(super) changes_in_flight: u32,
    /// Offset and length of the I/Os that changed something, or could have, and ended since the
    /// length of the file was checked.
    ended_changes: Vec<(u64, u64)>,
    /// Number of discards in flight.
    discards_in_flight: u32,
    /// The bytes that were allocated at most since the last discard.
    allocated_bytes_max: u64,
    /// The flushes in flight.
    pub(super) flush: SharedFlush,
    /// How often its storage was replaced.
    pub(super) attachment: u32,
    /// True until a discard fails or is not supported.
    pub(super) discards: bool,
    /// When the file was last found to have its full length.
    checked_at: Option<Nanos>,
}

impl MemberSlot {
    pub(super) fn new(config: MemberConfig, store: Store) -> MemberSlot {
        MemberSlot {
            is_missing: matches!(store, Store::Absent),
            config,
            store,
            stats: MemberStats::default(),
            fault: None,
            fault_at: Nanos::ZERO,
            was_cut: false,
            has_all_allocated: false,
            length_since_cut: None,
            stays_short: false,
            changes_in_flight: 0,
            ended_changes: Vec::new(),
            discards_in_flight: 0,
            allocated_bytes_max: 0,
            flush: SharedFlush::default(),
            attachment: 0,
            discards: true,
            checked_at: None,
        }
    }

    /// Takes how much is allocated for its file, before it is used.
    pub(super) fn note_allocated(&mut self, driver: &Driver) {
        if let Store::Real { handle, .. } = self.store {
            let size = driver.file_size(handle);
            self.allocated_bytes_max =
                size.map_or(0, |size| size.allocated_bytes.min(size.size_bytes));
        }
    }

    /// Counts the start of an I/O.
    #[inline]
    pub(super) fn begin(&mut self, op: Op) {
        self.stats.in_flight += 1;
        self.changes_in_flight += u32::from(op != Op::Read);
        self.discards_in_flight += u32::from(op == Op::Discard);
    }

    /// Counts the end of an I/O that changed something, or could have.
    #[inline]
    pub(super) fn end(&mut self, op: Op, offset: u64, length: u64) {
        self.changes_in_flight -= u32::from(op != Op::Read);
        let is_checked = matches!(self.store, Store::Real { least_bytes: Some(_), .. });
        if is_checked && matches!(op, Op::Write | Op::Discard) {
            self.ended_changes.push((offset, length));
        }
        if op == Op::Discard {
            self.discards_in_flight -= 1;
            self.allocated_bytes_max = 0;
        }
    }

    /// Forgets what is known of the storage, because it was replaced.
    pub(super) fn on_replaced(&mut self) {
        self.attachment = self.attachment.wrapping_add(1);
        self.is_missing = false;
        (self.checked_at, self.allocated_bytes_max, self.discards) = (None, 0, true);
        (self.fault, self.was_cut) = (None, false);
        self.ended_changes.clear();
        (self.length_since_cut, self.stays_short) = (None, false);
    }

    /// What is left of a file that was truncated since the last call; `None` if it was not. I/Os
    /// that end at the same time share one check. Reads check only once per millisecond while
    /// nothing is written, because a read past the end of a truncated file is short until a write
    /// makes the file longer again.
    pub(super) fn bytes_left(&mut self, now: Nanos, driver: &Driver) -> Option<Cut> {
        let age_max = if self.changes_in_flight > 0 { Nanos(0) } else { CHECK_INTERVAL };
        match self.checked_at {
            Some(at) if now - at <= age_max => None,
            _ => self.check_length(now, driver),
        }
    }

    /// True if discarded ranges are known to read as zeroes.
    pub(super) fn discards_zero(&self) -> bool {
        self.discards
            && match &self.store {
                Store::Remote(remote) => remote.discards_zero(),
                _ => true,
            }
    }

    /// Compares the size of the file with what it must be; see [`MemberSlot::bytes_left`]. Once it
    /// was truncated, it must not become shorter again.
    pub(super) fn check_length(&mut self, now: Nanos, driver: &Driver) -> Option<Cut> {
        self.checked_at = Some(now);
        let Store::Real { handle, begin_bytes, least_bytes, guard_bytes, keeps_allocated } =
            self.store
        else {
            return None;
        };
        // Where the size cannot be read, I/Os fail, too.
        let (Some(least_bytes), Ok(size)) = (least_bytes, driver.file_size(handle)) else {
            return None;
        };
        let full_bytes = least_bytes + guard_bytes;
        let end = size.size_bytes.min(full_bytes);
        let before = self.length_since_cut.unwrap_or(full_bytes);
        let is_cut = end < before;
        if is_cut || self.length_since_cut.is_some() {
            self.length_since_cut = Some(end);
        }
        // While it is short, the system may still be freeing what was cut off.
        let is_settled = keeps_allocated && self.length_since_cut.is_none();
        // Not of what is set aside behind the end, which may go.
        let allocated_bytes = size.allocated_bytes.min(size.size_bytes);
        let is_quiet = self.changes_in_flight == 0 && self.ended_changes.is_empty();
        let all_bytes = self.allocated_bytes_max.min(size.size_bytes);
        self.has_all_allocated =
            keeps_allocated && is_quiet && all_bytes > 0 && allocated_bytes >= all_bytes;
        let cut = match is_cut {
            true if end < least_bytes => Cut::At(end.saturating_sub(begin_bytes)),
            true => Cut::Regrown,
            false => match is_settled.then(|| self.freed(allocated_bytes)) {
                Some(Some(freed)) => freed,
                _ => {
                    self.ended_changes.clear();
                    return None;
                }
            },
        };
        self.allocated_bytes_max = allocated_bytes;
        Some(cut)
    }

    /// The changes that may have ended since the length of the file was last as it must be, besides
    /// those in flight: offset and length of each.
    pub(super) fn ended_changes(&self) -> &[(u64, u64)] {
        &self.ended_changes
    }

    /// Forgets the changes that ended before the length of the file was taken in.
    pub(super) fn forget_changes(&mut self) {
        self.ended_changes.clear();
    }

    /// Returns true if the file was cut, and is to be made as long again.
    pub(super) fn wants_length(&self) -> bool {
        let is_short = self.length_since_cut.is_some() || !self.store.has_guard();
        self.was_cut && is_short && !self.stays_short
    }

    /// Makes the file as long as it was. Where that fails, it stays as it is.
    pub(super) fn restore_length(&mut self, driver: &Driver) {
        let Store::Real { handle, least_bytes: Some(least_bytes), guard_bytes, .. } =
            &mut self.store
        else {
            return;
        };
        if driver.lengthen(*handle, *least_bytes + GUARD_BYTES).is_ok() {
            (self.length_since_cut, *guard_bytes) = (None, GUARD_BYTES);
            self.note_allocated(driver);
        } else {
            self.accept_length();
            self.stays_short = true;
        }
    }

    /// Leaves the file as long as it is.
    pub(super) fn accept_length(&mut self) {
        let Store::Real { least_bytes: Some(least_bytes), guard_bytes, .. } = &mut self.store
        else {
            return;
        };
        let left = self.length_since_cut.and_then(|length| length.checked_sub(*least_bytes));
        *guard_bytes = left.unwrap_or(0);
        match left {
            Some(_) => self.length_since_cut = None,
            None => self.stays_short = true,
        }
    }

    /// Whether the file has lost bytes that were allocated for it.
    fn freed(&mut self, allocated_bytes: u64) -> Option<Cut> {
        if self.discards_in_flight > 0 {
            return None;
        }
        let most = self.allocated_bytes_max;
        self.allocated_bytes_max = most.max(allocated_bytes);
        match most.saturating_sub(allocated_bytes) {
            freed if freed <= FREED_BYTES_MIN.max(most / FREED_PART) => None,
            freed if freed > most / 2 => Some(Cut::MostlyFreed),
            _ => Some(Cut::Freed),
        }
    }
}

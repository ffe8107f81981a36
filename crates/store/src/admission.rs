//! Admission: the conditions under which requests and pieces start and end.
//!
//! - A piece waits for the page with the checksums of its span.
//! - A write, discard, repair or step of a rebuild starts when the labels are current: they call
//!   the volume in use and each member what it is.
//! - A write or discard starts when its regions are in the dirty log of every member that takes
//!   writes, a step of a rebuild when its member has the log, too, and a repair when what it writes
//!   is in the stale map of a member that is missing.
//! - When a member fails, the writes, discards and flushes that are under way end when the labels
//!   of the other members say that it failed. So nothing that was replied to is lost when the
//!   failed member comes back, in this run or a later one: its label is older then.
//! - What adds bad blocks to their list, or writes some, ends when the list is recorded
//!   (`bad_blocks`).
//! - A flush that is to record progress of the first synchronisation, and a step of a rebuild that
//!   covers a table of checksums, are cut when pages are written.
//! - A step of a rebuild ends when its member was flushed, if its progress is to be recorded. What
//!   is not durable must not be called in sync.

use crate::StoreGate;
use crate::unsynced_regions::{REGION_BYTES, region_numbers, regions};
use mirrorball_core::io::{Request, RequestKind};
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::volume::gate::{Array, Closing, GateAnswer, PieceView, Released};
use mirrorball_core::volume::{MemberStates, RequestKey};
use std::ops::Range;

/// A rebuild is recorded in this many steps, so at most one is repeated after a restart.
const PROGRESS_STEPS: u64 = 64;

impl StoreGate {
    /// Decides whether a request may be cut.
    pub(crate) fn open_request(
        &mut self,
        key: RequestKey,
        request: &Request,
        array: &mut Array<'_>,
    ) -> GateAnswer {
        if self.is_read_only {
            return GateAnswer::Go;
        }
        match request.kind {
            RequestKind::Flush => {
                let wants_pages = self.wants_resync_flush() && self.has_dirty_pages();
                let before = self.flushes.insert(key, self.resync_from_after_flush());
                assert!(before.is_none(), "a flush is opened once");
                if wants_pages {
                    self.write_all_pages_for(key, array);
                    return GateAnswer::Wait;
                }
                GateAnswer::Go
            }
            RequestKind::Rebuild(member) => {
                let range = request.offset..request.offset.saturating_add(request.length);
                self.rebuild_pages(key, member, &range, array)
            }
            _ => GateAnswer::Go,
        }
    }

    /// Decides whether a piece may start. A write that may is counted in the dirty log.
    pub(crate) fn admit_piece(
        &mut self,
        piece: &mut PieceView,
        array: &mut Array<'_>,
    ) -> GateAnswer {
        assert!(!piece.plan.range().is_empty() || piece.kind == RequestKind::Flush, "{piece:?}");
        if !piece.marks.is_pinned && self.wait_for_page(piece, array) == GateAnswer::Wait {
            return GateAnswer::Wait;
        }
        let writes = match piece.kind {
            RequestKind::Write | RequestKind::Discard => true,
            RequestKind::Rebuild(_) | RequestKind::Resync | RequestKind::Repair(_) => false,
            // After this flush a member may be in sync, though nothing had to be copied to it.
            RequestKind::Flush if matches!(piece.request_kind, RequestKind::Rebuild(_)) => false,
            RequestKind::Read | RequestKind::Flush | RequestKind::Scrub => return GateAnswer::Go,
        };
        assert!(!self.is_read_only, "a read-only volume starts no {:?}", piece.kind);
        assert!(!writes || piece.has_lock, "a write holds its lock");
        let is_repair = matches!(piece.kind, RequestKind::Repair(_));
        self.labels.is_clean &= !writes && !is_repair;
        if !self.labels.is_current(array.states) {
            self.labels.waiting.push(piece.key);
            self.update_labels(array);
            return GateAnswer::Wait;
        }
        if self.admit_bad_blocks(piece, array) == GateAnswer::Wait {
            return GateAnswer::Wait;
        }
        let range = piece.plan.range();
        let logged = if writes { range.clone() } else { 0..0 };
        // A repair that a crash interrupts leaves mirrors that differ where they differed before.
        // In the log, the resync after a crash could copy the wrong one. A member that is missing
        // gets the repaired data.
        let is_recorded = match piece.kind {
            // What is resynchronised is in the log, and leaves it through the stale map.
            _ if piece.request_kind == RequestKind::Resync => true,
            RequestKind::Repair(_) => self.record_as_stale(&range, array),
            _ => self.log.covers(region_numbers(&logged), array.states.active()),
        };
        if !is_recorded {
            self.log.waiting.push((piece.key, logged));
            self.start_record(array);
            return GateAnswer::Wait;
        }
        self.count(piece, is_repair, writes, array.states);
        if self.log.runs_out() {
            self.write_record(&[], array);
        }
        GateAnswer::Go
    }

    /// Counts a piece that starts, and enters the checksums of what it writes.
    fn count(
        &mut self,
        piece: &mut PieceView,
        is_repair: bool,
        writes: bool,
        states: &MemberStates,
    ) {
        if is_repair && piece.request_kind != RequestKind::Resync {
            if !piece.marks.is_counted {
                self.log.repairs.begin();
            }
            piece.marks.is_counted = true;
        } else if writes {
            assert!(!piece.marks.is_counted, "a write starts once");
            assert!(self.labels.is_current(states), "a write relies on the labels");
            self.log.begin_write(region_numbers(&piece.plan.range()));
            piece.marks.is_counted = true;
        }
        if writes {
            self.enter_checksums(piece);
        }
    }

    /// Decides whether a piece may end.
    pub(crate) fn settle_piece(&mut self, piece: &PieceView, array: &mut Array<'_>) -> GateAnswer {
        let is_logged = piece.marks.is_counted && !matches!(piece.kind, RequestKind::Repair(_));
        let mut regions = region_numbers(&piece.plan.range());
        assert!(
            !is_logged || regions.all(|region| self.log.is_active(region)),
            "the log has a write until it ended: {piece:?}"
        );
        if piece.kind == RequestKind::Read || self.is_read_only {
            return GateAnswer::Go;
        }
        let forgotten = self.forget_bad_blocks(piece, array.states);
        if forgotten.is_err() {
            self.released.push_back(Released::Fail(piece.key));
            return GateAnswer::Wait;
        }
        let (labels, committed) = (&self.labels, self.labels.committed());
        let is_idle = labels.is_clean
            && committed.is_clean
            && labels.bad_blocks_generation == committed.bad_blocks_generation;
        let is_current = self.labels.is_current(array.states);
        match self.bad.is_recorded(&piece.plan.range()) {
            true if is_idle || is_current => return GateAnswer::Go,
            false if is_current => {
                return self.wait_for_bad_blocks(Released::End(piece.key), array);
            }
            _ => {}
        }
        self.labels.held.push(piece.key);
        self.update_labels(array);
        GateAnswer::Wait
    }

    pub(crate) fn on_piece_end(&mut self, piece: &PieceView, array: &mut Array<'_>) {
        if piece.marks.is_pinned {
            self.unpin_page(piece);
        }
        if piece.marks.is_counted {
            assert_ne!(piece.kind, RequestKind::Read, "a read changes nothing");
            match piece.kind {
                RequestKind::Repair(_) => self.log.repairs.end(),
                _ => self.log.end_write(region_numbers(&piece.plan.range())),
            }
            self.start_record(array);
        }
    }

    /// Decides whether a request may end whose pieces have succeeded, and records what it achieved.
    pub(crate) fn close_request(
        &mut self,
        key: RequestKey,
        request: &Request,
        array: &mut Array<'_>,
    ) -> Closing {
        let range = request.offset..request.offset.saturating_add(request.length);
        match request.kind {
            RequestKind::Rebuild(member) => return self.close_rebuild(key, member, &range, array),
            RequestKind::Resync => self.on_resynced(&range, array),
            RequestKind::Flush => {
                let resync_from = self.flushes.remove(&key);
                resync_from.into_iter().for_each(|from| self.on_flushed(from, array));
            }
            _ => {}
        }
        Closing::End
    }

    /// Has a member flushed whose rebuild ends with this request, or is to be recorded.
    fn close_rebuild(
        &mut self,
        key: RequestKey,
        member: MemberIndex,
        range: &Range<u64>,
        array: &Array<'_>,
    ) -> Closing {
        self.bad.forget_doubts(member);
        let Some(offset) = array.states.offset_after(member, range) else { return Closing::End };
        let size_bytes = array.states.members()[member].config.size_bytes;
        assert!(offset <= size_bytes, "{offset} of {size_bytes} bytes are recovered");
        let recorded_bytes = self.labels.recorded_bytes(member);
        let is_due = offset.saturating_sub(recorded_bytes) >= size_bytes / PROGRESS_STEPS;
        let is_end = offset >= size_bytes;
        // What other requests rebuilt until the flush ended is not durable after it.
        let flushed_to = self.flushed_rebuilds.get(&key);
        let is_flushed = flushed_to.is_some_and(|&to| !is_end || to >= size_bytes);
        if is_flushed || !is_end && !is_due {
            return Closing::End;
        }
        self.flushed_rebuilds.insert(key, offset);
        Closing::FlushFirst(member)
    }

    /// Handles the end of a resync of a range.
    fn on_resynced(&mut self, range: &Range<u64>, array: &mut Array<'_>) {
        self.bad.on_resynced(range);
        let is_end = range.end == self.capacity_bytes;
        for region in regions(range) {
            let start = region * REGION_BYTES;
            let is_whole = range.start <= start && (start + REGION_BYTES <= range.end || is_end);
            if !is_whole {
                continue;
            }
            let is_renewed = self.unsynced.take_renewed(region);
            if !is_renewed {
                self.unsynced.remove(region);
                self.hinted.remove(region);
                self.log.on_synced(region as u32);
            }
        }
        // Writes may wait for the space of a region that can leave now.
        self.start_record(array);
    }

    /// Handles the success of a flush of all members, after which the part that is not synchronised
    /// begins at `resync_from`.
    fn on_flushed(&mut self, resync_from: Option<u64>, array: &mut Array<'_>) {
        let is_progress = match (self.labels.resync_from, resync_from) {
            (Some(before), Some(now)) => now > before,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if is_progress {
            assert!(resync_from.is_none_or(|from| from < self.capacity_bytes), "{resync_from:?}");
            self.labels.resync_from = resync_from;
            self.update_labels(array);
        }
    }

    /// Records the progress of a rebuild, of which a range ended.
    pub(crate) fn on_rebuilt(
        &mut self,
        member: MemberIndex,
        request: RequestKey,
        array: &mut Array<'_>,
    ) {
        let state = array.states.members()[member].state;
        array.states.set_unrecorded(member);
        self.catching_up[member.get()] &= state != MemberState::InSync;
        let flushed_to = self.flushed_rebuilds.remove(&request);
        if let (Some(offset), MemberState::Rebuilding { recovered_bytes }) = (flushed_to, state) {
            assert!(offset <= recovered_bytes, "{offset} of {recovered_bytes} bytes are durable");
            self.labels.on_progress(member, offset);
            self.update_labels(array);
        }
        if state == MemberState::InSync {
            self.update_labels(array);
            self.renew_scrub_record(array);
        }
    }

    /// Continues pieces that waited to start.
    pub(crate) fn release(&mut self, pieces: Vec<mirrorball_core::volume::PieceKey>) {
        self.released.extend(pieces.into_iter().map(Released::Start));
    }
}

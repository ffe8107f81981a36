//! The ends of pieces and requests: locks are released, and replies given.

use super::Volume;
use super::Work;
use super::keys::{PieceKey, RequestKey};
use crate::io::{Reply, RequestKind, VolumeError};
use crate::member::MemberIndex;
use std::ops::Range;

impl Volume {
    /// Ends a piece, unless its end has to wait.
    #[inline]
    pub(super) fn finish(&mut self, key: PieceKey) {
        if self.labels.is_none() || !self.is_held(key) {
            self.end_piece(key);
        }
    }

    /// Ends a piece and releases its lock.
    #[inline]
    pub(super) fn end_piece(&mut self, key: PieceKey) {
        // Only what is needed is copied out: a piece is large, and every read ends here.
        let piece = self.pieces.get(key);
        assert_eq!(piece.pending, 0, "a piece ends when none of its I/O is in flight");
        let (request, result) = (piece.request, piece.result());
        let lock = piece.has_lock.then(|| piece.plan.range());
        let logged = piece.is_logged.then(|| (piece.kind, piece.plan.range()));
        let paged = piece.has_page.then(|| piece.plan.range());
        self.pieces.remove(key);
        self.end_piece_of(request, result);
        if let Some(range) = lock {
            for granted in self.locks.release(range) {
                self.work.push_back(Work::Start(granted));
            }
        }
        if let Some(range) = paged {
            self.unpin_page(&range);
        }
        if let Some((kind, range)) = logged {
            self.on_logged_end(kind, &range);
        }
    }

    /// Counts a piece of a request as ended, and replies if it was the last.
    #[inline(always)]
    pub(super) fn end_piece_of(&mut self, key: RequestKey, result: Result<(), VolumeError>) {
        let pending = self.requests.get_mut(key);
        pending.pieces_left -= 1;
        pending.result = pending.result.and(result);
        if pending.pieces_left == 0 {
            self.end_request(key);
        } else if pending.parked == pending.pieces_left {
            self.rewrite_parked(key);
        }
    }

    /// Replies to a request all of whose pieces ended.
    #[inline]
    fn end_request(&mut self, key: RequestKey) {
        let pending = self.requests.get(key);
        let (id, mut result) = (pending.request.id, pending.result);
        if !matches!(pending.request.kind, RequestKind::Read | RequestKind::Write) {
            match self.end_request_of_kind(key, result) {
                Some(ended) => result = ended,
                None => return,
            }
        }
        if let Some(checksums) = &mut self.checksums {
            checksums.end_write(key);
        }
        self.requests.remove(key);
        self.replies.push_back(Reply { request: id, result });
    }

    /// Does what the end of a request changes, and returns its result; `None` if it does not end
    /// yet.
    fn end_request_of_kind(
        &mut self,
        key: RequestKey,
        mut result: Result<(), VolumeError>,
    ) -> Option<Result<(), VolumeError>> {
        let request = self.requests.get(key).request;
        let range = request.offset..request.offset.saturating_add(request.length);
        match request.kind {
            RequestKind::Rebuild(member) => {
                if result.is_ok() && self.flushes_before_end(key, member, &range) {
                    return None;
                }
                result = self.end_rebuild(key, member, range, result);
            }
            RequestKind::Resync if result.is_ok() => self.on_resynced(&range),
            RequestKind::Flush if result.is_ok() => {
                self.on_flushed(self.requests.get(key).resync_from);
            }
            _ => {}
        }
        Some(result)
    }

    /// Takes the end of a rebuild of a range of a member.
    fn end_rebuild(
        &mut self,
        key: RequestKey,
        member: MemberIndex,
        range: Range<u64>,
        result: Result<(), VolumeError>,
    ) -> Result<(), VolumeError> {
        result?;
        let pending = self.requests.get(key);
        // A member that failed and returned meanwhile has missed writes, also to this range.
        if pending.member_changes != self.states.changes(member) {
            return Err(VolumeError::NotRebuilding);
        }
        self.states.on_rebuilt(member, range)?;
        if self.labels.is_some() {
            self.states.set_unrecorded(member);
        }
        self.notify_members_change();
        let flushed_to = self.requests.get(key).flushed_to;
        self.record_progress(member, flushed_to);
        self.update_labels_after_rebuild(member);
        self.renew_scrub_record(member);
        Ok(())
    }
}

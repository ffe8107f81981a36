//! The life of a piece: started, retried, rewritten, ended.

use super::gate::{Gate, GateAnswer, GateEvent};
use super::piece::{IoKey, Piece, PieceKey, RequestKey};
use super::plan::PiecePlan;
use super::plan::{PlanTarget, TargetSet};
use super::{TargetIo, Volume, Work};
use crate::io::{IoError, MemberIo, Op, Purpose, ReadRole, RequestKind};

impl<G: Gate> Volume<G> {
    pub(super) fn add_piece(&mut self, request: RequestKey, kind: RequestKind, plan: PiecePlan) {
        debug_assert!(plan.length > 0 || kind == RequestKind::Flush, "{kind:?} of {plan:?}");
        let mut piece = Piece::new(request, kind, plan);
        if let RequestKind::Repair(source) = kind {
            piece.failed = piece.plan.targets_elsewhere(source);
        }
        let key = self.requests.add_piece(piece);
        self.start(key);
    }

    /// Adds a part that was cut off the end of a piece. If the piece holds a lock, each of the two
    /// now holds a lock on its own range.
    pub(super) fn add_part(&mut self, part: Piece) -> PieceKey {
        assert!(part.plan.length > 0 && !part.is_parked, "{part:?} is cut off");
        if part.has_lock {
            self.locks.divide(part.plan.offset);
        }
        let key = self.requests.add_piece(part);
        if self.has_gate() {
            let view = self.view(key);
            self.report(GateEvent::Divided(&view));
        }
        key
    }

    /// Starts a piece, or queues it for the lock that it needs.
    #[inline]
    pub(super) fn start(&mut self, key: PieceKey) {
        let piece = self.requests.piece(key);
        if piece.needs_lock() {
            if !self.locks.acquire(piece.plan.range(), key) {
                return;
            }
            self.requests.piece_mut(key).has_lock = true;
        }
        self.issue_first(key);
    }

    pub(super) fn start_granted(&mut self, key: PieceKey) {
        let piece = self.requests.piece_mut(key);
        assert!(!piece.has_lock && piece.pending == 0, "a lock is granted once: {piece:?}");
        piece.has_lock = true;
        self.issue_first(key);
    }

    /// Queues the first I/O of a piece, unless the gate holds it.
    #[inline]
    pub(super) fn issue_first(&mut self, key: PieceKey) {
        if self.has_gate() {
            if self.lacks_a_part(key) {
                return self.halve(key);
            }
            if self.admit(key) == GateAnswer::Wait {
                return;
            }
        }
        let piece = self.requests.piece(key);
        debug_assert!(piece.has_lock || !piece.needs_lock(), "{piece:?} starts with its lock");
        let (op, purpose) = match piece.kind {
            RequestKind::Resync if self.has_checksums() => (Op::Read, Purpose::Scrub),
            RequestKind::Read
            | RequestKind::Rebuild(_)
            | RequestKind::Resync
            | RequestKind::Repair(_) => return self.work.push_back(Work::Decide(key)),
            RequestKind::Write => (Op::Write, Purpose::User),
            RequestKind::Flush => (Op::Flush, Purpose::User),
            RequestKind::Discard => (Op::Discard, Purpose::User),
            RequestKind::Scrub => (Op::Read, Purpose::Scrub),
        };
        if op == Op::Read {
            return self.read_mirrors(key);
        }
        let targets = piece.plan.write_targets(&self.states);
        self.issue_to(key, targets, op, purpose);
    }

    /// Reads all mirrors of a piece. A scrub rewrites those that lack it.
    fn read_mirrors(&mut self, key: PieceKey) {
        let piece = self.requests.piece(key);
        let in_sync = piece.plan.scrub_targets(&self.states);
        let lacking = self.lacking(&piece.plan).and(in_sync);
        self.requests.piece_mut(key).spoiled = lacking;
        match in_sync.without(lacking) {
            readable if readable.is_empty() => self.give_up(key),
            readable => self.issue_to(key, readable, Op::Read, Purpose::Scrub),
        }
    }

    /// Queues an I/O for each of `targets`, or ends the piece if there are none.
    fn issue_to(&mut self, key: PieceKey, targets: TargetSet, op: Op, purpose: Purpose) {
        let piece = self.requests.piece(key);
        assert!(piece.has_lock || op == Op::Flush, "{op:?} of {piece:?} without its lock");
        assert_eq!(piece.pending, 0, "the I/O that was issued before ended");
        for target in targets.iter() {
            self.requests.piece_mut(key).pending += 1;
            let role = ReadRole::Only;
            self.work.push_back(Work::Issue(TargetIo { piece: key, target, op, purpose, role }));
        }
        if targets.is_empty() {
            self.finish(key);
        }
    }

    /// Handles the result of one I/O of a piece.
    #[inline]
    pub(super) fn on_target_io(
        &mut self,
        key: PieceKey,
        target: PlanTarget,
        io: &MemberIo,
        result: Result<(), IoError>,
    ) {
        if result.is_ok()
            && !self.has_gate()
            && let Some(reply) = self.requests.end_plain_read(key)
        {
            // Nearly every read of a simulation.
            return self.replies.push_back(reply);
        }
        let race = self.requests.piece(key).race;
        let left = race.map(|race| self.on_race_read(race, IoKey::of(io.id), result.is_ok()));
        let piece = self.requests.piece_mut(key);
        assert!(!G::EXISTS || piece.pending > 0, "an I/O of a piece ends once: {io:?}");
        debug_assert!(piece.pending > 0, "an I/O of a piece ends once: {io:?}");
        debug_assert!(
            piece.is_rewriting || !piece.good.contains(target),
            "a target answers once: {io:?}"
        );
        let left = left.unwrap_or(piece.pending - 1);
        piece.pending = left;
        match result {
            Ok(()) => piece.good.insert(target),
            Err(IoError::Cancelled) => {}
            Err(IoError::Checksum) if !piece.has_lock => piece.doubted.insert(target),
            Err(error) => self.on_target_error(key, target, io, error),
        }
        if left == 0 {
            self.continue_piece(key);
        }
    }

    /// Handles the failure of one I/O of a piece.
    fn on_target_error(
        &mut self,
        key: PieceKey,
        target: PlanTarget,
        io: &MemberIo,
        error: IoError,
    ) {
        assert_ne!(error, IoError::Cancelled, "a read that was cancelled is no failure");
        let piece = self.requests.piece_mut(key);
        if piece.is_rewriting {
            // The data was read. If the member has to stay, this target stays as bad as it was.
            if piece.is_reading_back && error == IoError::Transport {
                // It was written, and the medium did not say that it cannot be read.
            } else if self.states.can_fail(io.member) {
                self.fail_member(io.member);
            } else {
                piece.failed.insert(target);
            }
        } else if io.op == Op::Flush && self.states.can_lose(io.member) {
            // Other members hold everything that this one failed to make durable.
            piece.good.insert(target);
            self.fail_member(io.member);
        } else {
            piece.failed.insert(target);
            if matches!(error, IoError::Medium | IoError::Checksum) {
                piece.spoiled.insert(target);
            }
            if error == IoError::Checksum {
                piece.mismatched.insert(target);
            }
        }
    }

    /// Decides how a piece goes on when none of its I/O is pending.
    #[inline]
    fn continue_piece(&mut self, key: PieceKey) {
        let piece = self.requests.piece(key);
        debug_assert!(piece.pending == 0 && piece.race.is_none(), "{piece:?} is under way");
        let was_read = !piece.good.is_empty();
        let is_plain = piece.kind == RequestKind::Read && !piece.is_rewriting;
        if is_plain && was_read && piece.failed.is_empty() {
            // Nearly every read.
            return self.finish(key);
        }
        let is_judged = matches!(piece.kind, RequestKind::Scrub | RequestKind::Resync);
        if is_judged && self.has_checksums() {
            return self.judge(key);
        }
        let is_copied = piece.plan.is_rebuild()
            || matches!(piece.kind, RequestKind::Resync | RequestKind::Repair(_));
        let needs_rewrite = !self.options.is_read_only && (!piece.spoiled.is_empty() || is_copied);
        match piece.kind {
            // A mirror that stays differs as before, and lacks what it was to get.
            RequestKind::Resync | RequestKind::Repair(_) | RequestKind::Rebuild(_)
                if piece.is_rewriting && piece.has_missed_a_copy() =>
            {
                self.requests.piece_mut(key).good = TargetSet::default();
                self.finish(key);
            }
            _ if piece.has_repaired() => self.read_back(key),
            _ if piece.is_rewriting => self.finish(key),
            RequestKind::Read | RequestKind::Rebuild(_) | RequestKind::Resync if !was_read => {
                self.retry(key);
            }
            RequestKind::Scrub | RequestKind::Repair(_) if !was_read => self.give_up(key),
            // Mirrors that differ are left to the resync.
            RequestKind::Scrub if self.reads_first_only(&piece.plan) => self.finish(key),
            // In a race one read answered and another failed. The answer may be older than a write
            // that ended meanwhile: what is to be rewritten is read again under the lock.
            RequestKind::Read if needs_rewrite && !piece.has_lock => {
                let piece = self.requests.piece_mut(key);
                (piece.good, piece.has_answer) = (TargetSet::default(), true);
                self.retry(key);
            }
            RequestKind::Read
            | RequestKind::Rebuild(_)
            | RequestKind::Resync
            | RequestKind::Repair(_)
            | RequestKind::Scrub
                if needs_rewrite =>
            {
                self.rewrite(key);
            }
            RequestKind::Write => self.end_write(key),
            RequestKind::Flush => self.end_flush(key),
            RequestKind::Discard => self.end_discard(key),
            _ => self.finish(key),
        }
    }

    /// Ends a discard. A mirror that missed it differs from the others, if its member stays.
    fn end_discard(&mut self, key: PieceKey) {
        let Piece { plan, failed, .. } = self.requests.piece(key);
        let stays = |target| !self.states.is_failed(plan.location(target).0);
        if failed.iter().any(stays) {
            let range = plan.range();
            self.report(GateEvent::Differs(&range));
        }
        self.finish(key);
    }

    /// Ends the flush of a member. For a client: another flush may have lost what this one was to
    /// make durable.
    fn end_flush(&mut self, key: PieceKey) {
        let request = self.requests.piece(key).request;
        let is_of_client = self.requests.get(request).request.kind == RequestKind::Flush;
        if is_of_client && (self.fail_unflushed_members() || !self.holds_all_data()) {
            self.requests.piece_mut(key).good = TargetSet::default();
        }
        self.finish(key);
    }

    /// Ends a write. It succeeded if it can be read back, and every member that missed it can be
    /// failed. If the volume cannot do without such a member, the write failed instead.
    fn end_write(&mut self, key: PieceKey) {
        let piece = self.requests.piece(key);
        assert!(piece.has_lock, "a write holds its lock to its end: {piece:?}");
        let mut succeeded = piece.plan.is_stored(&self.states, piece.good);
        if succeeded && !piece.failed.is_empty() {
            let Piece { plan, failed, .. } = piece.clone();
            for target in failed.iter() {
                let (member, _) = plan.location(target);
                succeeded &= self.states.can_fail(member);
                if succeeded {
                    self.fail_member(member);
                }
            }
        }
        if !succeeded {
            let piece = self.requests.piece_mut(key);
            piece.good = TargetSet::default();
            let range = piece.plan.range();
            self.report(GateEvent::WriteFailed(&range));
        }
        self.finish(key);
    }

    /// Writes what was read to the targets whose medium failed and to the one being rebuilt.
    fn rewrite(&mut self, key: PieceKey) {
        let request = self.requests.piece(key).request;
        let pending = self.requests.get_mut(request);
        if self.options.has_one_buffer && pending.pieces_left > pending.parked + 1 {
            pending.parked += 1;
            self.requests.piece_mut(key).is_parked = true;
            return;
        }
        // The request ends with its last piece, so the others go first.
        self.rewrite_parked(request);
        self.rewrite_now(key);
    }

    /// Rewrites the pieces of a request that waited for the others.
    pub(super) fn rewrite_parked(&mut self, request: RequestKey) {
        let parked_before = std::mem::take(&mut self.requests.get_mut(request).parked);
        if parked_before == 0 {
            return;
        }
        let is_parked = |piece: &Piece| piece.request == request && piece.is_parked;
        let parked = self.requests.pieces().filter(|(_, piece)| is_parked(piece));
        let keys: Vec<PieceKey> = parked.map(|(key, _)| key).collect();
        assert_eq!(keys.len(), parked_before as usize, "each parked piece is counted once");
        for key in keys {
            self.requests.piece_mut(key).is_parked = false;
            self.rewrite_now(key);
        }
    }

    fn rewrite_now(&mut self, key: PieceKey) {
        assert!(!self.options.is_read_only, "a read-only volume repairs nothing");
        let piece = self.requests.piece_mut(key);
        assert!(piece.has_lock && !piece.is_rewriting, "{piece:?} is rewritten once");
        assert!(!piece.good.is_empty(), "only data that were read are written: {piece:?}");
        (piece.is_rewriting, piece.failed) = (true, TargetSet::default());
        let targets = match piece.kind {
            RequestKind::Resync | RequestKind::Repair(_) => {
                piece.plan.resync_targets(&self.states, piece.good)
            }
            _ => piece.plan.rewrite_targets(&self.states, piece.spoiled),
        };
        let purpose = match piece.kind {
            RequestKind::Rebuild(_) | RequestKind::Resync => Purpose::Rebuild,
            _ => Purpose::Repair,
        };
        self.requests.piece_mut(key).spoiled = targets;
        let piece = self.requests.piece(key);
        // A range may be rebuilt again that the member has by now: it is read from it, too.
        let is_good = |target| piece.good.contains(target) && !piece.plan.is_rebuild();
        assert!(!targets.iter().any(is_good), "a good mirror is not rewritten: {piece:?}");
        if self.has_gate() {
            let view = self.view(key);
            self.report(GateEvent::Rewriting(&view, targets));
        }
        self.issue_to(key, targets, Op::Write, purpose);
    }

    /// Reads what was repaired: a medium may take a write and still not give it back. A resync
    /// copies too much for that.
    fn read_back(&mut self, key: PieceKey) {
        let request = self.requests.piece(key).request;
        if self.requests.get(request).request.kind == RequestKind::Resync {
            return self.finish(key);
        }
        let piece = self.requests.piece_mut(key);
        piece.is_reading_back = true;
        let Piece { ref plan, spoiled, failed, .. } = *piece;
        // A member that was replaced meanwhile has it only once it is rebuilt.
        let in_sync = plan.scrub_targets(&self.states);
        let mut targets = TargetSet::default();
        for target in spoiled.iter().filter(|target| !failed.contains(*target)) {
            if in_sync.contains(target) {
                targets.insert(target);
            }
        }
        self.issue_to(key, targets, Op::Read, Purpose::Repair);
    }

    /// Ends a piece, unless the gate holds it.
    #[inline]
    pub(super) fn finish(&mut self, key: PieceKey) {
        if self.has_gate() {
            let view = self.view(key);
            if self.ask_gate(|gate, array| gate.settle(&view, array)) == Some(GateAnswer::Wait) {
                return;
            }
        }
        self.end_piece(key);
    }

    /// Ends a piece without success.
    pub(super) fn fail_piece(&mut self, key: PieceKey) {
        let piece = self.requests.piece_mut(key);
        piece.good = TargetSet::default();
        // A client has the answer of a race; a copy that left something out has none.
        piece.has_answer &= piece.kind == RequestKind::Read;
        self.end_piece(key);
    }

    #[inline]
    fn end_piece(&mut self, key: PieceKey) {
        // Only what is needed is copied out: a piece is large, and every read ends here.
        let piece = self.requests.piece(key);
        debug_assert!(!piece.is_parked && piece.race.is_none(), "{piece:?} is over");
        debug_assert!(piece.has_lock || piece.kind != RequestKind::Write, "{piece:?} was locked");
        let (request, result) = (piece.request, piece.result());
        let lock = piece.has_lock.then(|| piece.plan.range());
        let view = self.has_gate().then(|| self.view(key));
        self.requests.remove_piece(key);
        self.end_piece_of(request, result);
        if let Some(range) = lock {
            for granted in self.locks.release(range) {
                self.work.push_back(Work::Start(granted));
            }
        }
        if let Some(view) = view {
            self.report(GateEvent::Ended(&view));
        }
    }
}

//! The life of a request and its pieces: cut, locked, started, retried, rewritten, ended.

use super::durability::region_numbers;
use super::keys::{IoKey, PieceKey, RequestKey};
use super::piece::Piece;
use super::plan::PiecePlan;
use super::target::{PlanTarget, TargetSet};
use super::{TargetIo, Volume, Work};
use crate::io::{IoError, MemberIo, Op, Purpose, ReadRole, Request, RequestKind, VolumeError};
use crate::member::{MemberIndex, MemberState};
use crate::units::BLOCK_BYTES;

impl Volume {
    /// Cuts a request into pieces and starts them.
    pub(super) fn cut(&mut self, key: RequestKey, request: &Request) -> Result<(), VolumeError> {
        if self.is_read_only && !matches!(request.kind, RequestKind::Read | RequestKind::Scrub) {
            let is_flush = request.kind == RequestKind::Flush;
            return if is_flush { Ok(()) } else { Err(VolumeError::ReadOnly) };
        }
        match request.kind {
            RequestKind::Flush => self.cut_flush(key),
            RequestKind::Rebuild(member) => self.cut_rebuild(key, request, member),
            _ => {
                check_range(request, self.layout.capacity_bytes())?;
                if self.stripes.is_some() {
                    self.cut_into_stripes(key, request);
                    return Ok(());
                }
                assert_ne!(request.kind, RequestKind::RepairStripes, "mirrors have no stripes");
                let (mut offset, end) = (request.offset, request.offset + request.length);
                while offset < end {
                    let most = self.span_end(offset).min(end) - offset;
                    let plan = self.layout.plan(offset, most);
                    self.add_piece(key, request.kind, plan);
                    offset += plan.length;
                }
                Ok(())
            }
        }
    }

    /// Cuts a flush into one piece for each member. If some data is in sync on none of them, what
    /// was written there is lost.
    fn cut_flush(&mut self, key: RequestKey) -> Result<(), VolumeError> {
        if self.has_lost_writes() || !self.holds_all_data() {
            return Err(VolumeError::Unwritable);
        }
        let resync_from = self.resync_from_after_flush();
        self.requests.get_mut(key).resync_from = resync_from;
        if !self.wants_resync_flush() || !self.write_all_pages_for(key) {
            self.add_flushes(key);
        }
        Ok(())
    }

    /// Returns true if every byte of the volume is in sync on some member.
    fn holds_all_data(&mut self) -> bool {
        let Volume { states, layout, .. } = self;
        states.is_complete(|states| layout.is_in_sync(states))
    }

    /// Adds the pieces of a flush.
    pub(super) fn add_flushes(&mut self, key: RequestKey) {
        for index in 0..self.members().len() {
            let member = MemberIndex(index as u16);
            if !self.states.is_failed(member) {
                self.add_piece(key, RequestKind::Flush, self.layout.flush_plan(member));
            }
        }
    }

    /// Cuts a rebuild into pieces. What holds no chunk, at both ends of a member, was never
    /// written.
    fn cut_rebuild(
        &mut self,
        key: RequestKey,
        request: &Request,
        member: MemberIndex,
    ) -> Result<(), VolumeError> {
        if member.get() >= self.members().len() {
            return Err(VolumeError::OutOfRange);
        }
        if !matches!(self.members()[member].state, MemberState::Rebuilding { .. }) {
            return Err(VolumeError::NotRebuilding);
        }
        check_range(request, self.members()[member].config.size_bytes)?;
        self.requests.get_mut(key).member_changes = self.states.changes(member);
        let range = request.offset..request.offset + request.length;
        for number in self.pages_to_rebuild(member, &range) {
            self.rebuild_page(key, number);
        }
        let mut rest = self.layout.allocated(member, range);
        if self.stripes.is_some() {
            self.cut_rebuild_into_stripes(key, member, rest);
            return Ok(());
        }
        while !rest.is_empty() {
            let plan = self.layout.rebuild_plan(member, rest.clone());
            let most = self.span_end(plan.offset) - plan.offset;
            let plan = plan.part(0, plan.length.min(most));
            rest.start += plan.length;
            if region_numbers(&plan.range()).any(|region| self.may_lack(member, region)) {
                self.add_piece(key, request.kind, plan);
            }
        }
        Ok(())
    }

    pub(super) fn add_piece(&mut self, request: RequestKey, kind: RequestKind, plan: PiecePlan) {
        self.requests.get_mut(request).pieces_left += 1;
        let mut piece = Piece::new(request, kind, plan);
        if let RequestKind::Repair(source) = kind {
            piece.failed = plan.targets_elsewhere(source);
        }
        let key = self.pieces.insert(piece);
        match kind {
            // Needs no lock, and waits for no label.
            RequestKind::Read if self.has_page(key) => self.work.push_back(Work::Decide(key)),
            RequestKind::Read => {}
            _ => self.start(key),
        }
    }

    /// Adds a part that was cut off the end of a piece. If the piece holds a lock, each of the two
    /// now holds a lock on its own range.
    pub(super) fn add_part(&mut self, part: Piece) -> PieceKey {
        if part.has_lock {
            self.locks.divide(part.plan.offset);
        }
        if part.has_page {
            self.pin_page(&part.plan.range());
        }
        self.requests.get_mut(part.request).pieces_left += 1;
        self.pieces.insert(part)
    }

    /// Starts a piece, or queues it for the lock that it needs.
    #[inline]
    pub(super) fn start(&mut self, key: PieceKey) {
        let piece = self.pieces.get(key);
        if piece.needs_lock() {
            if !self.locks.acquire(piece.plan.range(), key) {
                return;
            }
            self.pieces.get_mut(key).has_lock = true;
        }
        self.issue_first(key);
    }

    /// Starts a piece whose lock was granted.
    pub(super) fn start_granted(&mut self, key: PieceKey) {
        self.pieces.get_mut(key).has_lock = true;
        self.issue_first(key);
    }

    /// Queues the first I/O of a piece.
    #[inline]
    pub(super) fn issue_first(&mut self, key: PieceKey) {
        if !self.has_page(key) || self.labels.is_some() && self.must_wait(key) {
            return;
        }
        let piece = self.pieces.get(key);
        let (op, purpose) = match piece.kind {
            RequestKind::Resync if self.checksums.is_some() => (Op::Read, Purpose::Scrub),
            RequestKind::Read
            | RequestKind::Rebuild(_)
            | RequestKind::Resync
            | RequestKind::Repair(_) => return self.work.push_back(Work::Decide(key)),
            RequestKind::Write => (Op::Write, Purpose::User),
            RequestKind::Flush => (Op::Flush, Purpose::User),
            RequestKind::Discard => (Op::Discard, Purpose::User),
            RequestKind::Scrub | RequestKind::RepairStripes => (Op::Read, Purpose::Scrub),
        };
        let targets = match piece.kind {
            RequestKind::Scrub | RequestKind::Resync => piece.plan.scrub_targets(&self.states),
            _ => piece.plan.write_targets(&self.states),
        };
        self.change_checksums(key);
        self.issue_to(key, targets, op, purpose);
    }

    /// Queues an I/O for each of `targets`, or ends the piece if there are none.
    fn issue_to(&mut self, key: PieceKey, targets: TargetSet, op: Op, purpose: Purpose) {
        for target in targets.iter() {
            self.pieces.get_mut(key).pending += 1;
            let role = ReadRole::Only;
            self.work.push_back(Work::Issue(TargetIo { piece: key, target, op, purpose, role }));
        }
        if targets.is_empty() {
            self.finish(key);
        }
    }

    /// Takes the result of one I/O of a piece.
    #[inline]
    pub(super) fn on_target_io(
        &mut self,
        key: PieceKey,
        target: PlanTarget,
        io: &MemberIo,
        result: Result<(), IoError>,
    ) {
        let race = self.pieces.get(key).race;
        let left = race.map(|race| self.on_race_read(race, IoKey::of(io.id), result.is_ok()));
        let piece = self.pieces.get_mut(key);
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

    /// Takes the failure of one I/O of a piece.
    fn on_target_error(
        &mut self,
        key: PieceKey,
        target: PlanTarget,
        io: &MemberIo,
        error: IoError,
    ) {
        let piece = self.pieces.get_mut(key);
        if piece.is_rewriting {
            // The data was read. If the member has to stay, this target stays as bad as it was.
            if self.states.can_fail(io.member) {
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
        let piece = self.pieces.get(key);
        let was_read = !piece.good.is_empty();
        if piece.kind == RequestKind::Read && was_read && piece.failed.is_empty() {
            // Nearly every read.
            return self.finish(key);
        }
        let is_judged = matches!(piece.kind, RequestKind::Scrub | RequestKind::Resync);
        if is_judged && self.checksums.is_some() {
            return self.judge(key);
        }
        let is_copied = piece.plan.is_rebuild()
            || matches!(piece.kind, RequestKind::Resync | RequestKind::Repair(_));
        let needs_rewrite = !self.is_read_only && (!piece.spoiled.is_empty() || is_copied);
        match piece.kind {
            // A mirror that stays differs as before.
            RequestKind::Resync | RequestKind::Repair(_)
                if piece.is_rewriting && !piece.failed.is_empty() =>
            {
                self.pieces.get_mut(key).good = TargetSet::default();
                self.finish(key);
            }
            _ if piece.is_rewriting => self.finish(key),
            RequestKind::Read | RequestKind::Rebuild(_) | RequestKind::Resync if !was_read => {
                self.retry(key);
            }
            RequestKind::Scrub | RequestKind::Repair(_) if !was_read => self.give_up(key),
            // In a race one read answered and another failed. The answer may be older than a write
            // that ended meanwhile: what is to be rewritten is read again under the lock.
            RequestKind::Read if needs_rewrite && !piece.has_lock => {
                let piece = self.pieces.get_mut(key);
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
        let Piece { plan, failed, .. } = *self.pieces.get(key);
        let stays = |target| !self.states.is_failed(plan.location(target).0);
        if self.labels.is_some() && failed.iter().any(stays) {
            self.add_unsynced(plan.range());
        }
        self.finish(key);
    }

    /// Ends the flush of a member. For a client: another flush may have lost what this one was to
    /// make durable.
    fn end_flush(&mut self, key: PieceKey) {
        let request = self.pieces.get(key).request;
        let is_of_client = self.requests.get(request).request.kind == RequestKind::Flush;
        if is_of_client && (self.has_lost_writes() || !self.holds_all_data()) {
            self.pieces.get_mut(key).good = TargetSet::default();
        }
        self.finish(key);
    }

    /// Reads a piece again, under its lock.
    fn retry(&mut self, key: PieceKey) {
        if self.stripes.is_some() {
            return self.reconstruct(key);
        }
        match self.pieces.get(key).has_lock {
            true => self.work.push_back(Work::Decide(key)),
            false => self.start(key),
        }
    }

    /// Ends a write. It succeeded if it can be read back, and every member that missed it can be
    /// failed. If the volume cannot do without such a member, the write failed instead.
    fn end_write(&mut self, key: PieceKey) {
        let piece = self.pieces.get(key);
        let mut succeeded = piece.plan.is_stored(&self.states, piece.good);
        if succeeded && !piece.failed.is_empty() {
            let Piece { plan, failed, .. } = *piece;
            for target in failed.iter() {
                let (member, _) = plan.location(target);
                succeeded &= self.states.can_fail(member);
                if succeeded {
                    self.fail_member(member);
                }
            }
        }
        if !succeeded {
            let piece = self.pieces.get_mut(key);
            piece.good = TargetSet::default();
            let range = piece.plan.range();
            self.forget_checksums(&range);
            // Some mirrors may have it.
            if self.labels.is_some() {
                self.add_unsynced(range);
            }
        }
        self.finish(key);
    }

    /// Ends a piece that could not be read, or tries its halves: bad spots of different targets
    /// seldom coincide. With parity, the other members of its stripe may give it.
    pub(super) fn give_up(&mut self, key: PieceKey) {
        if self.stripes.is_some() {
            return self.reconstruct(key);
        }
        let piece = *self.pieces.get(key);
        let may_help = !piece.spoiled.is_empty()
            && piece.good.is_empty()
            && !piece.has_answer
            && !matches!(piece.kind, RequestKind::Repair(_));
        let halves = if may_help { piece.plan.halves() } else { None };
        let Some(halves) = halves else {
            return match self.gives_up_hint(key) {
                true => self.work.push_back(Work::Decide(key)),
                false => self.leave_lost(key),
            };
        };
        let untried = TargetSet::default();
        let [first, second] = halves.map(|plan| Piece {
            plan,
            failed: untried,
            spoiled: untried,
            mismatched: untried,
            ..piece
        });
        *self.pieces.get_mut(key) = first;
        let second = self.add_part(second);
        for half in [key, second] {
            self.issue_first(half);
        }
    }

    /// Writes what was read to the targets whose medium failed and to the one being rebuilt.
    fn rewrite(&mut self, key: PieceKey) {
        let piece = self.pieces.get_mut(key);
        let request = piece.request;
        let pending = self.requests.get_mut(request);
        if self.has_one_buffer && pending.pieces_left > pending.parked + 1 {
            piece.is_parked = true;
            pending.parked += 1;
            return;
        }
        // The request ends with its last piece, so the others go first.
        self.rewrite_parked(request);
        self.rewrite_now(key);
    }

    /// Rewrites the pieces of a request that waited for the others.
    pub(super) fn rewrite_parked(&mut self, request: RequestKey) {
        if std::mem::take(&mut self.requests.get_mut(request).parked) == 0 {
            return;
        }
        let is_parked = |piece: &Piece| piece.request == request && piece.is_parked;
        let parked = self.pieces.iter().filter(|(_, piece)| is_parked(piece));
        let keys: Vec<PieceKey> = parked.map(|(key, _)| key).collect();
        for key in keys {
            self.pieces.get_mut(key).is_parked = false;
            self.rewrite_now(key);
        }
    }

    fn rewrite_now(&mut self, key: PieceKey) {
        let piece = self.pieces.get_mut(key);
        piece.is_rewriting = true;
        piece.failed = TargetSet::default();
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
        self.on_mended(key, targets);
        self.issue_to(key, targets, Op::Write, purpose);
    }

    pub(super) fn fail_member(&mut self, member: MemberIndex) {
        if !self.states.is_failed(member) {
            self.set_member_state(member, MemberState::Failed);
        }
    }
}

fn check_range(request: &Request, size_bytes: u64) -> Result<(), VolumeError> {
    let Some(end) = request.offset.checked_add(request.length) else {
        return Err(VolumeError::OutOfRange);
    };
    let in_blocks = (request.offset | request.length).is_multiple_of(BLOCK_BYTES);
    if end <= size_bytes && in_blocks { Ok(()) } else { Err(VolumeError::OutOfRange) }
}

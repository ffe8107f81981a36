//! The life of a request and its pieces: cut, started, locked, rewritten, ended.

use super::piece::{CopySet, Piece, PieceKey, RequestKey};
use super::{IoKey, Step, Task, Volume};
use crate::geometry::{MAX_COPIES, MappedRange, RESERVED_BYTES};
use crate::io::{
    IoError, MemberIo, Op, Purpose, ReadRole, Reply, Request, RequestKind, VolumeError,
};
use crate::member::{MemberIndex, MemberState};
use crate::policy::Mirror;
use crate::units::BLOCK_BYTES;

impl Volume {
    /// Cuts a request into pieces and starts them.
    pub(super) fn cut(&mut self, key: RequestKey, request: &Request) -> Result<(), VolumeError> {
        match request.kind {
            RequestKind::Flush => self.cut_flush(key)?,
            RequestKind::Rebuild(member) => self.cut_rebuild(key, request, member)?,
            _ => {
                check_range(request, self.map.capacity_bytes())?;
                let (mut offset, end) = (request.offset, request.offset + request.length);
                while offset < end {
                    let extent = self.map.map(offset, end - offset);
                    self.add_piece(Piece::new(key, request.kind, offset, &extent));
                    offset += extent.length;
                }
            }
        }
        Ok(())
    }

    /// A flush is one piece a member. Where none is in sync, what was written is lost.
    fn cut_flush(&mut self, key: RequestKey) -> Result<(), VolumeError> {
        if self.members.iter().all(|(_, member)| member.state != MemberState::InSync) {
            return Err(VolumeError::Unwritable);
        }
        for index in 0..self.members.len() {
            let member = MemberIndex(index as u16);
            if self.members[member].state == MemberState::Failed {
                continue;
            }
            let mirror = Mirror { member, offset: 0, copy: 0 };
            let extent = MappedRange { length: 0, mirrors: [mirror; MAX_COPIES], copies: 1 };
            self.add_piece(Piece::new(key, RequestKind::Flush, 0, &extent));
        }
        Ok(())
    }

    /// A rebuild skips what holds no chunk, at both ends: nothing was ever written there.
    fn cut_rebuild(
        &mut self,
        key: RequestKey,
        request: &Request,
        member: MemberIndex,
    ) -> Result<(), VolumeError> {
        if member.get() >= self.members.len() {
            return Err(VolumeError::OutOfRange);
        }
        if !matches!(self.members[member].state, MemberState::Rebuilding { .. }) {
            return Err(VolumeError::NotRebuilding);
        }
        check_range(request, self.members[member].config.size_bytes)?;
        let end = (request.offset + request.length).min(self.map.allocated_end(member));
        let mut offset = request.offset.max(RESERVED_BYTES);
        while offset < end {
            let run = self.map.locate(member, offset).expect("a member is allocated without holes");
            let extent = self.map.map(run.volume_offset, run.length.min(end - offset));
            let mut piece = Piece::new(key, request.kind, run.volume_offset, &extent);
            let target = piece.mirrors().iter().find(|mirror| mirror.member == member);
            piece.target = Some(target.expect("the map is its own inverse").copy);
            self.add_piece(piece);
            offset += extent.length;
        }
        Ok(())
    }

    fn add_piece(&mut self, piece: Piece) {
        self.requests.get_mut(piece.request).pieces_left += 1;
        let key = self.pieces.insert(piece);
        self.start(key);
    }

    /// Sets a piece going, or lets it wait for an overlapping one.
    fn start(&mut self, key: PieceKey) {
        let piece = self.pieces.get(key);
        let kind = piece.kind;
        match kind {
            RequestKind::Read if piece.failed.is_empty() => {
                self.ready.push_back(Step::Decide(key));
            }
            RequestKind::Write | RequestKind::Discard if self.is_locked(piece) => {
                self.waiting.push(key);
            }
            RequestKind::Write => self.issue_to_all(key, Op::Write, Purpose::User),
            RequestKind::Flush => self.issue_to_all(key, Op::Flush, Purpose::User),
            RequestKind::Discard => self.issue_to_all(key, Op::Discard, Purpose::User),
            RequestKind::Read | RequestKind::Rebuild(_) if self.lock(key) => {
                self.ready.push_back(Step::Decide(key));
            }
            RequestKind::Scrub if self.lock(key) => {
                self.issue_to_all(key, Op::Read, Purpose::Scrub);
            }
            RequestKind::Read | RequestKind::Rebuild(_) | RequestKind::Scrub => {
                self.waiting.push(key);
            }
        }
    }

    /// Queues an I/O for every copy whose member can take it: reads need it in sync.
    fn issue_to_all(&mut self, key: PieceKey, op: Op, purpose: Purpose) {
        let piece = *self.pieces.get(key);
        let mut copies = CopySet::default();
        for mirror in piece.mirrors() {
            let member = &self.members[mirror.member];
            let takes = match op {
                Op::Read => member.is_in_sync(mirror.offset, piece.length),
                Op::Write | Op::Flush | Op::Discard => member.state != MemberState::Failed,
            };
            if takes {
                copies.insert(usize::from(mirror.copy));
            }
        }
        self.issue_to(key, copies, op, purpose);
    }

    /// Queues an I/O for each of `copies`, or ends the piece where there are none.
    fn issue_to(&mut self, key: PieceKey, copies: CopySet, op: Op, purpose: Purpose) {
        for copy in copies.iter() {
            self.pieces.get_mut(key).pending += 1;
            let task = Task { piece: key, copy: copy as u8, op, purpose, role: ReadRole::Only };
            self.ready.push_back(Step::Issue(task));
        }
        if copies.is_empty() {
            self.finish(key);
        }
    }

    /// One I/O of a piece ended.
    #[inline]
    pub(super) fn on_piece_io(
        &mut self,
        key: PieceKey,
        copy: usize,
        io: &MemberIo,
        result: Result<(), IoError>,
    ) {
        let redundant = io.op == Op::Flush && self.can_lose(io.member);
        let spare = result.is_err() && self.can_spare(io.member);
        let race = self.pieces.get(key).race;
        let left = race.map(|race| self.on_runner(race, IoKey::of(io.id), result.is_ok()));
        let piece = self.pieces.get_mut(key);
        piece.pending = left.unwrap_or(piece.pending - 1);
        match result {
            Ok(()) => piece.good.insert(copy),
            Err(IoError::Cancelled) => {}
            // What was read is good all the same; only this copy stays as bad as it was.
            Err(_) if piece.rewriting && !spare => {}
            Err(_) if piece.rewriting => self.fail_member(io.member),
            // Other members hold everything that this one failed to make durable.
            Err(_) if redundant => {
                piece.good.insert(copy);
                self.fail_member(io.member);
            }
            Err(error) => {
                piece.failed.insert(copy);
                if error == IoError::Medium {
                    piece.spoiled.insert(copy);
                }
            }
        }
        let piece = self.pieces.get(key);
        if piece.pending == 0 {
            self.step_on(key);
        }
    }

    /// Everything that a piece had pending has ended: what comes next?
    fn step_on(&mut self, key: PieceKey) {
        let piece = self.pieces.get(key);
        let read_well = !piece.good.is_empty();
        let to_rewrite = !piece.spoiled.is_empty() || piece.target.is_some();
        match piece.kind {
            _ if piece.rewriting => self.finish(key),
            RequestKind::Read | RequestKind::Rebuild(_) if !read_well && piece.locked => {
                self.ready.push_back(Step::Decide(key));
            }
            RequestKind::Read | RequestKind::Rebuild(_) if !read_well => self.start(key),
            // Of a race, one answered and another failed. Its data may be older than a write that
            // went by meanwhile: what is rewritten is read again under the lock.
            RequestKind::Read if to_rewrite && !piece.locked => {
                self.pieces.get_mut(key).good = CopySet::default();
                self.start(key);
            }
            RequestKind::Scrub if !read_well => self.give_up(key),
            RequestKind::Read | RequestKind::Rebuild(_) | RequestKind::Scrub if to_rewrite => {
                self.rewrite(key);
            }
            RequestKind::Write => self.end_write(key),
            _ => self.finish(key),
        }
    }

    /// A write counts if it can be read back and every copy that missed it is given up, with its
    /// member. Where the volume cannot do without that member, the write has failed instead.
    fn end_write(&mut self, key: PieceKey) {
        let piece = self.pieces.get(key);
        let in_sync =
            |mirror: &Mirror| self.members[mirror.member].is_in_sync(mirror.offset, piece.length);
        let mut counts = piece.good.iter().any(|copy| in_sync(&piece.mirrors()[copy]));
        if counts && !piece.failed.is_empty() {
            let piece = *piece;
            for copy in piece.failed.iter() {
                let member = piece.mirrors()[copy].member;
                counts &= self.can_spare(member);
                if counts {
                    self.fail_member(member);
                }
            }
        }
        if !counts {
            self.pieces.get_mut(key).good = CopySet::default();
        }
        self.finish(key);
    }

    /// No copy of the piece could be read whole. Its halves may still be: bad spots of different
    /// copies seldom coincide.
    pub(super) fn give_up(&mut self, key: PieceKey) {
        let piece = *self.pieces.get(key);
        let may_help = !piece.spoiled.is_empty() && piece.good.is_empty();
        let halves = if may_help { piece.halves() } else { None };
        let Some([first, second]) = halves else {
            return self.finish(key);
        };
        *self.pieces.get_mut(key) = first;
        let other = self.pieces.insert(second);
        self.requests.get_mut(piece.request).pieces_left += 1;
        if piece.locked {
            self.locked.push(other);
        }
        for half in [key, other] {
            match piece.kind {
                RequestKind::Scrub => self.issue_to_all(half, Op::Read, Purpose::Scrub),
                _ => self.ready.push_back(Step::Decide(half)),
            }
        }
    }

    /// Writes what was read to the copies whose medium failed and to the one being rebuilt.
    fn rewrite(&mut self, key: PieceKey) {
        let piece = self.pieces.get_mut(key);
        piece.rewriting = true;
        let piece = *piece;
        let mut copies = CopySet::default();
        let wanted = piece.spoiled.iter().chain(piece.target.map(usize::from));
        for copy in wanted {
            if self.members[piece.mirrors()[copy].member].state != MemberState::Failed {
                copies.insert(copy);
            }
        }
        let purpose = match piece.kind {
            RequestKind::Rebuild(_) => Purpose::Rebuild,
            _ => Purpose::Repair,
        };
        self.issue_to(key, copies, Op::Write, purpose);
    }

    /// Ends a piece.
    #[inline]
    pub(super) fn finish(&mut self, key: PieceKey) {
        // Only what is needed is copied out: a piece is large, and every read ends here.
        let piece = self.pieces.get(key);
        assert_eq!(piece.pending, 0, "a piece ends when nothing of it is in flight");
        let (request, result) = (piece.request, piece.result());
        let may_free_others = piece.locked || piece.changes_data();
        self.pieces.remove(key);
        self.end_piece_of(request, result);
        if may_free_others {
            self.free_others(key);
        }
    }

    /// Starts anew what waited for the piece that had this key.
    fn free_others(&mut self, key: PieceKey) {
        self.locked.retain(|&locked| locked != key);
        for waiting in std::mem::take(&mut self.waiting) {
            self.start(waiting);
        }
    }

    /// Counts a piece of a request as ended, and replies when it was the last.
    #[inline]
    pub(super) fn end_piece_of(&mut self, request: RequestKey, result: Result<(), VolumeError>) {
        let pending = self.requests.get_mut(request);
        pending.pieces_left -= 1;
        pending.result = pending.result.and(result);
        if pending.pieces_left > 0 {
            return;
        }
        let (id, kind, mut result) = (pending.request.id, pending.request.kind, pending.result);
        if let RequestKind::Rebuild(member) = kind {
            let request = pending.request;
            result = result.and_then(|()| self.advance(member, &request));
        }
        self.requests.remove(request);
        self.replies.push_back(Reply { request: id, result });
    }

    /// Moves the recovery offset of a member over a rebuilt range.
    fn advance(&mut self, member: MemberIndex, request: &Request) -> Result<(), VolumeError> {
        let MemberState::Rebuilding { recovered_bytes } = self.members[member].state else {
            return Err(VolumeError::NotRebuilding);
        };
        let (from, until) = (request.offset, request.offset + request.length);
        let reached = self.progress[member.get()].advance(recovered_bytes, from, until);
        let size_bytes = self.members[member].config.size_bytes;
        self.members.get_mut(member).state = match reached {
            reached if reached < size_bytes => MemberState::Rebuilding { recovered_bytes: reached },
            _ => MemberState::InSync,
        };
        self.members_changed();
        Ok(())
    }

    /// Locks the range of a piece, unless a write or discard that overlaps it is on its way.
    fn lock(&mut self, key: PieceKey) -> bool {
        let piece = *self.pieces.get(key);
        let changes = |other: &Piece| other.changes_data() && other.pending > 0;
        if self.pieces.iter().any(|(_, other)| changes(other) && other.overlaps(&piece)) {
            return false;
        }
        self.pieces.get_mut(key).locked = true;
        self.locked.push(key);
        true
    }

    fn is_locked(&self, piece: &Piece) -> bool {
        self.locked.iter().any(|&key| self.pieces.get(key).overlaps(piece))
    }

    /// Whether every block of a member is sure to have another copy in sync: whichever members
    /// share its chunks, those that are not in sync are too few to hold all other copies.
    fn can_lose(&self, member: MemberIndex) -> bool {
        let others = self.members.iter().filter(|(index, _)| *index != member);
        let lost = others.filter(|(_, other)| other.state != MemberState::InSync).count();
        lost + 1 < self.map.profile().copies()
    }

    /// Whether a member may be given up for a copy that cannot be written. One that is not in sync
    /// has others to be rebuilt from, or has failed already.
    fn can_spare(&self, member: MemberIndex) -> bool {
        self.members[member].state != MemberState::InSync || self.can_lose(member)
    }

    fn fail_member(&mut self, member: MemberIndex) {
        if self.members[member].state != MemberState::Failed {
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

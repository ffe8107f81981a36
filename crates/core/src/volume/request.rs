//! Requests: accepted, cut into pieces, and replied to when all pieces ended.

use super::gate::{Closing, Gate, GateAnswer, GateEvent};
use super::piece::{Piece, PieceKey, RequestKey};
use super::plan::PiecePlan;
use super::{Volume, Work};
use crate::geometry::MappedRange;
use crate::io::{Reply, Request, RequestKind, VolumeError};
use crate::member::{MemberIndex, MemberState};
use crate::slab::{Slab, SlabKey};
use crate::units::BLOCK_BYTES;
use std::ops::Range;

/// A request not yet replied to.
#[derive(Clone, Copy, Debug)]
pub(super) struct LiveRequest {
    pub(super) request: Request,
    pub(super) pieces_left: u32,
    /// Of a rebuild: how often the state of its member had been set when it began.
    member_changes: u32,
    /// Number of its pieces that are to be rewritten once no other piece is read.
    pub(super) parked: u32,
    result: Result<(), VolumeError>,
}

/// Requests not yet replied to, and their pieces.
#[derive(Debug, Default)]
pub(super) struct LiveRequests {
    slots: Slab<PieceKey, RequestSlot>,
}

/// A request, a piece, or a request with its first piece.
#[derive(Debug)]
struct RequestSlot {
    request: Option<LiveRequest>,
    piece: Option<Piece>,
}

impl LiveRequest {
    #[inline]
    fn new(request: Request) -> LiveRequest {
        LiveRequest { request, pieces_left: 1, member_changes: 0, parked: 0, result: Ok(()) }
    }
}

impl LiveRequests {
    /// Keeps a request. It counts as a piece of its own until it is cut, so that it cannot end
    /// early.
    #[inline]
    fn open(&mut self, request: Request) -> RequestKey {
        let open = LiveRequest::new(request);
        let key = self.slots.insert(RequestSlot { request: Some(open), piece: None });
        RequestKey::from_slot(key.slot())
    }

    /// Keeps a read that is one piece.
    #[inline(always)]
    fn open_whole(&mut self, request: Request, mapped: MappedRange) -> PieceKey {
        let mut whole = PieceKey::from_slot(0);
        self.slots.insert_with(|key| {
            whole = key;
            let plan = PiecePlan::new(request.offset, mapped);
            let piece = Piece::new(RequestKey::from_slot(key.slot()), RequestKind::Read, plan);
            RequestSlot { request: Some(LiveRequest::new(request)), piece: Some(piece) }
        });
        whole
    }

    /// The request of this key. Panics if it was replied to.
    #[inline]
    pub(super) fn get(&self, key: RequestKey) -> &LiveRequest {
        self.slots.get(first_piece(key)).request.as_ref().expect("the request was not replied to")
    }

    /// The request of this key; panics as [`LiveRequests::get`].
    #[inline]
    pub(super) fn get_mut(&mut self, key: RequestKey) -> &mut LiveRequest {
        let slot = self.slots.get_mut(first_piece(key));
        slot.request.as_mut().expect("the request was not replied to")
    }

    /// Ends a read that is all of its request and was read by one I/O, which succeeded.
    #[inline]
    pub(super) fn end_plain_read(&mut self, key: PieceKey) -> Option<Reply> {
        let RequestSlot { request: Some(open), piece: Some(piece) } = self.slots.get(key) else {
            return None;
        };
        let is_whole = open.pieces_left == 1 && piece.kind == RequestKind::Read;
        let is_first_attempt = piece.failed.is_empty() && !piece.has_lock;
        if !is_whole || !is_first_attempt || piece.pending != 1 || piece.race.is_some() {
            return None;
        }
        let reply = Reply { request: open.request.id, result: open.result };
        self.slots.discard(key);
        Some(reply)
    }

    /// Forgets a request whose pieces have all ended.
    #[inline]
    fn close(&mut self, key: RequestKey) {
        self.slots.discard(first_piece(key));
    }

    /// Returns true if every request was replied to.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Adds a piece to its request: in the slot of the request if no other piece is there.
    pub(super) fn add_piece(&mut self, piece: Piece) -> PieceKey {
        let key = first_piece(piece.request);
        let slot = self.slots.get_mut(key);
        let request = slot.request.as_mut().expect("the request was not replied to");
        request.pieces_left += 1;
        if slot.piece.is_none() {
            slot.piece = Some(piece);
            return key;
        }
        self.slots.insert(RequestSlot { request: None, piece: Some(piece) })
    }

    /// The piece of this key. Panics if it ended.
    #[inline]
    pub(super) fn piece(&self, key: PieceKey) -> &Piece {
        self.slots.get(key).piece.as_ref().expect("the piece did not end")
    }

    /// The piece of this key, with its request; panics as [`LiveRequests::piece`].
    #[inline(always)]
    pub(super) fn piece_and_request(&self, key: PieceKey) -> (&Piece, &Request) {
        let slot = self.slots.get(key);
        let piece = slot.piece.as_ref().expect("the piece did not end");
        let open = slot.request.as_ref().unwrap_or_else(|| self.get(piece.request));
        (piece, &open.request)
    }

    /// The piece of this key; panics as [`LiveRequests::piece`].
    #[inline]
    pub(super) fn piece_mut(&mut self, key: PieceKey) -> &mut Piece {
        self.slots.get_mut(key).piece.as_mut().expect("the piece did not end")
    }

    /// Removes a piece that ended, or goes on as an operation on its stripe. Panics if I/O of the
    /// piece is queued or in flight.
    #[inline]
    pub(super) fn remove_piece(&mut self, key: PieceKey) {
        let slot = self.slots.get_mut(key);
        let pending = slot.piece.as_ref().map(|piece| piece.pending);
        assert_eq!(pending, Some(0), "a piece ends when none of its I/O is in flight");
        slot.piece = None;
        if slot.request.is_none() {
            self.slots.discard(key);
        }
    }

    /// The requests, in the order of keys.
    fn iter(&self) -> impl Iterator<Item = &Request> {
        self.slots.iter().filter_map(|(_, slot)| Some(&slot.request.as_ref()?.request))
    }

    /// Each piece with its key, in the order of keys.
    pub(super) fn pieces(&self) -> impl Iterator<Item = (PieceKey, &Piece)> {
        self.slots.iter().filter_map(|(key, slot)| Some((key, slot.piece.as_ref()?)))
    }

    /// Forgets which writes of a member failed before it came back: it is rebuilt from its
    /// beginning, and must not fail for them a second time.
    pub(super) fn forget_failed_writes(&mut self, member: MemberIndex) {
        let pieces = self.slots.iter_mut().filter_map(|slot| slot.piece.as_mut());
        for piece in pieces.filter(|piece| piece.kind == RequestKind::Write) {
            let plan = &piece.plan;
            let missed = piece.failed.iter().find(|target| plan.location(*target).0 == member);
            missed.into_iter().for_each(|target| piece.failed.remove(target));
        }
    }
}

#[inline]
fn first_piece(request: RequestKey) -> PieceKey {
    PieceKey::from_slot(request.slot())
}

impl<G: Gate> Volume<G> {
    /// Accepts a request. Its member I/O follows from [`Volume::poll_io`], its end from
    /// [`Volume::poll_reply`].
    #[inline]
    pub fn submit(&mut self, request: Request) {
        self.submit_with(request, |_, _| {});
    }

    /// Accepts a request. `prepare` gives the gate what it needs to know of it before it is asked.
    #[inline(always)]
    pub fn submit_with(&mut self, request: Request, prepare: impl FnOnce(&mut G, RequestKey)) {
        if self.is_plain_read(&request) {
            // Nearly every request of a simulation.
            let mapped = self.layout.map().map(request.offset, request.length);
            if mapped.length == request.length {
                let key = self.requests.open_whole(request, mapped);
                return self.work.push_back(Work::Decide(key));
            }
        }
        // A copy, so that the request of the usual case needs no place in memory.
        self.submit_in_pieces(Request { ..request }, prepare);
    }

    /// Returns true if a request is a valid read that waits for nothing.
    #[inline]
    fn is_plain_read(&self, request: &Request) -> bool {
        let is_of_mirrors = !self.has_gate() && self.stripes.is_none();
        let is_read = request.kind == RequestKind::Read && request.length > 0;
        is_of_mirrors && is_read && check_range(request, self.layout.capacity_bytes()).is_ok()
    }

    #[inline(never)]
    fn submit_in_pieces(&mut self, request: Request, prepare: impl FnOnce(&mut G, RequestKey)) {
        let key = self.requests.open(request);
        self.ask_gate(|gate, _| prepare(gate, key));
        let admission = self.check_request(key, &request).and_then(|()| {
            let admission = self.ask_gate(|gate, array| gate.open(key, &request, array));
            admission.unwrap_or(Ok(GateAnswer::Go))
        });
        match admission {
            Ok(GateAnswer::Go) => self.cut_released(key, Ok(())),
            Ok(GateAnswer::Wait) => {}
            Err(error) => self.end_piece_of(key, Err(error)),
        }
        self.continue_released();
    }

    /// The next reply to give, if there is one.
    #[inline]
    pub fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// The requests that were not replied to.
    pub fn requests(&self) -> impl Iterator<Item = &Request> {
        self.requests.iter()
    }

    fn check_request(&mut self, key: RequestKey, request: &Request) -> Result<(), VolumeError> {
        let is_read_only = self.options.is_read_only;
        match request.kind {
            RequestKind::Flush if is_read_only => Ok(()),
            RequestKind::Flush => match self.fail_unflushed_members() || !self.holds_all_data() {
                true => Err(VolumeError::Unwritable),
                false => Ok(()),
            },
            RequestKind::Read | RequestKind::Scrub => {
                check_range(request, self.layout.capacity_bytes())
            }
            _ if is_read_only => Err(VolumeError::ReadOnly),
            RequestKind::Rebuild(member) => {
                if member.get() >= self.members().len() {
                    return Err(VolumeError::OutOfRange);
                }
                if self.states.is_failed(member) {
                    return Err(VolumeError::NotRebuilding);
                }
                self.requests.get_mut(key).member_changes = self.states.changes(member);
                check_range(request, self.members()[member].config.size_bytes)
            }
            _ => check_range(request, self.layout.capacity_bytes()),
        }
    }

    /// Cuts a request that need not wait, or fails it.
    pub(super) fn cut_released(&mut self, key: RequestKey, result: Result<(), VolumeError>) {
        if result.is_ok() {
            self.cut(key);
        }
        self.end_piece_of(key, result);
    }

    /// Cuts a request into pieces and starts them.
    fn cut(&mut self, key: RequestKey) {
        let request = self.requests.get(key).request;
        let range = request.offset..request.offset.saturating_add(request.length);
        match request.kind {
            RequestKind::Flush if self.options.is_read_only => {}
            RequestKind::Flush => {
                for index in (0..self.members().len() as u16).map(MemberIndex) {
                    if !self.states.is_failed(index) {
                        self.add_piece(key, RequestKind::Flush, self.layout.flush_plan(index));
                    }
                }
            }
            RequestKind::Rebuild(member) => self.cut_rebuild(key, member, range),
            _ if self.stripes.is_some() => {
                let parts = self.ask_stripes(|stripes, it| stripes.cut(key, &request, it));
                self.requests.get_mut(key).pieces_left += parts.unwrap_or(0);
            }
            kind => {
                let mut offset = range.start;
                while offset < range.end {
                    let most = self.piece_end(offset).min(range.end) - offset;
                    let plan = self.layout.plan(offset, most);
                    assert!(plan.length > 0 && plan.length <= most, "{plan:?} of {most} bytes");
                    offset += plan.length;
                    self.add_piece(key, kind, plan);
                }
            }
        }
    }

    /// Returns true if every byte of the volume is in sync on some member.
    pub(super) fn holds_all_data(&mut self) -> bool {
        let Volume { states, layout, .. } = self;
        states.find_complete(|states| layout.is_in_sync(states))
    }

    /// Cuts a rebuild into pieces. What holds no chunk, at both ends of a member, was never
    /// written, and what the gate knows that it has needs no copy.
    fn cut_rebuild(&mut self, key: RequestKey, member: MemberIndex, range: Range<u64>) {
        let mut rest = self.layout.allocated(member, range);
        if self.stripes.is_some() {
            let request = self.requests.get(key).request;
            let part = (member, rest);
            let parts =
                self.ask_stripes(|it, context| it.cut_rebuild(key, &request, part, context));
            self.requests.get_mut(key).pieces_left += parts.unwrap_or(0);
            return;
        }
        while rest.start < rest.end {
            let plan = self.layout.rebuild_plan(member, rest.clone());
            let most = self.piece_end(plan.offset) - plan.offset;
            let plan = plan.part(0, plan.length.min(most));
            assert!(plan.length > 0, "a rebuild gets on: {plan:?}");
            rest.start += plan.length;
            if self.gate().is_none_or(|gate| gate.may_lack(member, &plan.range())) {
                self.add_piece(key, RequestKind::Rebuild(member), plan);
            }
        }
    }

    /// Counts a piece of a request as ended, and replies if it was the last.
    #[inline(always)]
    pub(super) fn end_piece_of(&mut self, key: RequestKey, result: Result<(), VolumeError>) {
        let open = self.requests.get_mut(key);
        assert!(!G::EXISTS || open.pieces_left > 0, "a piece of a request ends once");
        debug_assert!(open.pieces_left > 0, "a piece of a request ends once");
        open.pieces_left -= 1;
        debug_assert!(open.parked <= open.pieces_left, "pieces are parked until they end");
        open.result = open.result.and(result);
        if open.pieces_left == 0 {
            self.end_request(key);
        } else if open.parked == open.pieces_left {
            self.rewrite_parked(key);
        }
    }

    /// Replies to a request all of whose pieces ended.
    #[inline]
    fn end_request(&mut self, key: RequestKey) {
        let open = self.requests.get(key);
        debug_assert!(open.pieces_left == 0 && open.parked == 0, "{open:?} has no piece left");
        let (request, mut result) = (open.request, open.result);
        // A member that failed and returned meanwhile has missed writes, also to this range.
        if let RequestKind::Rebuild(member) = request.kind
            && open.member_changes != self.states.changes(member)
        {
            result = result.and(Err(VolumeError::NotRebuilding));
        }
        if self.has_gate()
            && result.is_ok()
            && let Some(Closing::FlushFirst(member)) =
                self.ask_gate(|gate, array| gate.close(key, &request, array))
        {
            return self.add_piece(key, RequestKind::Flush, self.layout.flush_plan(member));
        }
        if let RequestKind::Rebuild(member) = request.kind {
            result = result.and_then(|()| self.end_rebuild(key, member));
        }
        self.report(GateEvent::Closed(key));
        self.requests.close(key);
        self.replies.push_back(Reply { request: request.id, result });
    }

    /// Moves the recovery offset of a member whose range was rebuilt. One that is in sync has none:
    /// it is copied to another device.
    fn end_rebuild(&mut self, key: RequestKey, member: MemberIndex) -> Result<(), VolumeError> {
        let open = self.requests.get(key);
        let range = open.request.offset..open.request.offset.saturating_add(open.request.length);
        if self.members()[member].state == MemberState::InSync {
            return Ok(());
        }
        self.states.on_rebuilt(member, range)?;
        self.report(GateEvent::Rebuilt(member, key));
        self.notify_members_change();
        Ok(())
    }
}

fn check_range(request: &Request, size_bytes: u64) -> Result<(), VolumeError> {
    let Some(end) = request.offset.checked_add(request.length) else {
        return Err(VolumeError::OutOfRange);
    };
    let in_blocks = (request.offset | request.length).is_multiple_of(BLOCK_BYTES);
    if end <= size_bytes && in_blocks { Ok(()) } else { Err(VolumeError::OutOfRange) }
}

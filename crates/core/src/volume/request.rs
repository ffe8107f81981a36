//! Requests: accepted, cut into pieces, and replied to when all pieces ended.

use super::Volume;
use super::gate::{Closing, Gate, GateAnswer, GateEvent};
use super::keys::RequestKey;
use crate::io::{Reply, Request, RequestKind, VolumeError};
use crate::member::{MemberIndex, MemberState};
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

impl<G: Gate> Volume<G> {
    /// Accepts a request. Its member I/O follows from [`Volume::poll_io`], its end from
    /// [`Volume::poll_reply`].
    pub fn submit(&mut self, request: Request) {
        self.submit_with(request, |_, _| {});
    }

    /// Accepts a request. `prepare` gives the gate what it needs to know of it before it is asked.
    pub fn submit_with(&mut self, request: Request, prepare: impl FnOnce(&mut G, RequestKey)) {
        // The request counts as a piece of its own until it is cut, so that it cannot end early.
        let open =
            LiveRequest { request, pieces_left: 1, member_changes: 0, parked: 0, result: Ok(()) };
        let key = self.requests.insert(open);
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

    /// Checks what a request asks for.
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
                if !matches!(self.members()[member].state, MemberState::Rebuilding { .. }) {
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
            RequestKind::Flush => self.cut_flush(key),
            RequestKind::Rebuild(member) => self.cut_rebuild(key, member, range),
            _ if self.stripes.is_some() => self.cut_into_stripes(key, &request),
            kind => {
                assert_ne!(kind, RequestKind::RepairStripes, "mirrors have no stripes");
                let mut offset = range.start;
                while offset < range.end {
                    let most = self.piece_end(offset).min(range.end) - offset;
                    let plan = self.layout.plan(offset, most);
                    self.add_piece(key, kind, plan);
                    offset += plan.length;
                }
            }
        }
    }

    /// Returns true if every byte of the volume is in sync on some member.
    pub(super) fn holds_all_data(&mut self) -> bool {
        let Volume { states, layout, .. } = self;
        states.find_complete(|states| layout.is_in_sync(states))
    }

    /// Cuts a flush into one piece for each member.
    fn cut_flush(&mut self, key: RequestKey) {
        for index in 0..self.members().len() {
            let member = MemberIndex(index as u16);
            if !self.states.is_failed(member) {
                self.add_piece(key, RequestKind::Flush, self.layout.flush_plan(member));
            }
        }
    }

    /// Cuts a rebuild into pieces. What holds no chunk, at both ends of a member, was never
    /// written, and what the gate knows that it has needs no copy.
    fn cut_rebuild(&mut self, key: RequestKey, member: MemberIndex, range: Range<u64>) {
        let mut rest = self.layout.allocated(member, range);
        if self.stripes.is_some() {
            return self.cut_rebuild_into_stripes(key, member, rest);
        }
        while rest.start < rest.end {
            let plan = self.layout.rebuild_plan(member, rest.clone());
            let most = self.piece_end(plan.offset) - plan.offset;
            let plan = plan.part(0, plan.length.min(most));
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
        open.pieces_left -= 1;
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
        let (request, mut result) = (open.request, open.result);
        if let RequestKind::Rebuild(member) = request.kind
            && !self.is_same_rebuild(key, member)
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
        self.requests.remove(key);
        self.replies.push_back(Reply { request: request.id, result });
    }

    /// Moves the recovery offset of a member whose range was rebuilt.
    fn end_rebuild(&mut self, key: RequestKey, member: MemberIndex) -> Result<(), VolumeError> {
        let open = self.requests.get(key);
        let range = open.request.offset..open.request.offset.saturating_add(open.request.length);
        self.states.on_rebuilt(member, range)?;
        self.report(GateEvent::Rebuilt(member, key));
        self.notify_members_change();
        Ok(())
    }

    /// Returns false if the member of a rebuild failed and returned meanwhile: then it has missed
    /// writes, also to this range.
    fn is_same_rebuild(&self, key: RequestKey, member: MemberIndex) -> bool {
        self.requests.get(key).member_changes == self.states.changes(member)
    }
}

fn check_range(request: &Request, size_bytes: u64) -> Result<(), VolumeError> {
    let Some(end) = request.offset.checked_add(request.length) else {
        return Err(VolumeError::OutOfRange);
    };
    let in_blocks = (request.offset | request.length).is_multiple_of(BLOCK_BYTES);
    if end <= size_bytes && in_blocks { Ok(()) } else { Err(VolumeError::OutOfRange) }
}

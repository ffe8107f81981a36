//! Checkers: assertions that must hold in every run, from accounting of their own.
//!
//! The engine reports every event between clients, volume and members to them. A violation is a bug
//! in this workspace, never bad user input, so it panics.
//!
//! - No completion precedes its submission, and the clock never goes back.
//! - Every member I/O completes exactly once; every request is replied to exactly once, and not
//!   while member I/O of it is in flight. Exception: reads of a race.
//! - A read is replied to only with all of its bytes; lost and cancelled reads bring none.
//! - No member is read in a range that is not in sync.
//! - The volume's in-flight counts are right.
//! - A flush is replied to only if every writable member was flushed since the submission of the
//!   flush.

use mirrorball_core::io::{MemberIo, Op, Outcome, ReadRole, Request, RequestId, RequestKind};
use mirrorball_core::member::{MemberState, Members};
use mirrorball_core::units::Nanos;
use std::collections::BTreeMap;

#[derive(Debug, Default)]
pub(crate) struct Checkers {
    now: Nanos,
    ios: BTreeMap<u64, MemberIo>,
    requests: BTreeMap<u64, CheckedRequest>,
    in_flight: Vec<MemberInFlight>,
    flushed: Vec<Nanos>,
}

/// A request without a reply so far.
#[derive(Debug)]
struct CheckedRequest {
    kind: RequestKind,
    length: u64,
    submitted_at: Nanos,
    /// Member I/Os in flight, except reads of a race.
    ios_in_flight: u32,
    /// Bytes that member reads delivered.
    bytes_read: u64,
}

/// I/O of a member in flight, by the count of the checkers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct MemberInFlight {
    reads: u32,
    writes: u32,
    bytes: u64,
}

impl Checkers {
    pub(crate) fn new(members: &Members) -> Checkers {
        Checkers {
            in_flight: vec![MemberInFlight::default(); members.len()],
            flushed: vec![Nanos::ZERO; members.len()],
            ..Checkers::default()
        }
    }

    pub(crate) fn on_request(&mut self, request: &Request, now: Nanos) {
        self.at(now);
        let open = CheckedRequest {
            kind: request.kind,
            length: request.length,
            submitted_at: now,
            ios_in_flight: 0,
            bytes_read: 0,
        };
        let before = self.requests.insert(request.id.0, open);
        assert!(before.is_none(), "{:?} was submitted twice", request.id);
    }

    pub(crate) fn on_submit(&mut self, io: &MemberIo, members: &Members, now: Nanos) {
        self.at(now);
        assert_eq!(io.submitted_at, now, "{io:?} carries another time of submission");
        let member = &members[io.member];
        let readable = io.op != Op::Read || member.is_in_sync(io.offset, io.length);
        assert!(readable, "{io:?} reads a member that is {:?}", member.state);
        assert!(member.state != MemberState::Failed, "{io:?} goes to a failed member");
        let before = self.ios.insert(io.id.0, *io);
        assert!(before.is_none(), "{:?} names two I/Os in flight", io.id);
        let open = self.requests.get_mut(&io.request.0);
        let open = open.expect("member I/O serves a request not yet replied to");
        open.ios_in_flight += u32::from(io.role == ReadRole::Only);
        self.in_flight[io.member.get()].add(io);
        self.check_in_flight(io, members);
    }

    pub(crate) fn on_complete(
        &mut self,
        io: &MemberIo,
        outcome: &Outcome,
        members: &Members,
        now: Nanos,
    ) {
        self.at(now);
        let known = self.ios.remove(&io.id.0);
        assert_eq!(known.as_ref(), Some(io), "an I/O completes once and comes back as it was");
        assert_eq!(outcome.completed_at, now, "{io:?} carries another time of completion");
        assert_eq!(io.submitted_at + outcome.wait, now, "{io:?} waited {}", outcome.wait);
        if !outcome.superseded {
            let open = self.requests.get_mut(&io.request.0);
            let open = open.expect("a request is replied to after its member I/O");
            open.ios_in_flight -= u32::from(io.role == ReadRole::Only);
            if io.op == Op::Read && outcome.result.is_ok() {
                open.bytes_read += io.length;
            }
        }
        self.in_flight[io.member.get()].remove(io);
        if io.op == Op::Flush && outcome.result.is_ok() {
            self.flushed[io.member.get()] = io.submitted_at;
        }
        self.check_in_flight(io, members);
    }

    pub(crate) fn on_reply(&mut self, request: RequestId, ok: bool, members: &Members, now: Nanos) {
        self.at(now);
        let open = self.requests.remove(&request.0);
        let open = open.expect("a request is replied to once, after its submission");
        assert_eq!(open.ios_in_flight, 0, "{request:?} has I/O in flight after its reply");
        if open.kind == RequestKind::Read && ok {
            // More where a copy that failed in a race was read again, to be rewritten.
            let is_whole = open.bytes_read >= open.length;
            assert!(is_whole, "{request:?} was answered with {} bytes", open.bytes_read);
        }
        if open.kind != RequestKind::Flush || !ok {
            return;
        }
        for (index, member) in members.iter() {
            let flushed = self.flushed[index.get()] >= open.submitted_at;
            let flushed = flushed || member.state == MemberState::Failed;
            assert!(flushed, "{request:?} ended before member {} was flushed", index.0);
        }
    }

    fn at(&mut self, now: Nanos) {
        assert!(now >= self.now, "time went back from {:?} to {now:?}", self.now);
        self.now = now;
    }

    fn check_in_flight(&self, io: &MemberIo, members: &Members) {
        let member = &members[io.member];
        let counted = MemberInFlight {
            reads: member.reads_in_flight,
            writes: member.writes_in_flight,
            bytes: member.bytes_in_flight,
        };
        assert_eq!(
            counted,
            self.in_flight[io.member.get()],
            "the in-flight counts of {:?}",
            io.member
        );
    }
}

impl MemberInFlight {
    fn add(&mut self, io: &MemberIo) {
        *self.count_of(io.op) += 1;
        self.bytes += io.length;
    }

    fn remove(&mut self, io: &MemberIo) {
        *self.count_of(io.op) -= 1;
        self.bytes -= io.length;
    }

    fn count_of(&mut self, op: Op) -> &mut u32 {
        if op == Op::Read { &mut self.reads } else { &mut self.writes }
    }
}

#[cfg(test)]
mod tests;

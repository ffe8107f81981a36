//! Breaks each rule once; the checkers must panic.

use super::*;
use mirrorball_core::io::{IoError, IoId, Purpose, ReadRole};
use mirrorball_core::member::{MemberConfig, MemberIndex};

/// Two members, and the events of a volume. Tests change the state of the second member.
struct Script {
    checkers: Checkers,
    members: Members,
}

const SECOND: MemberIndex = MemberIndex(1);

impl Script {
    fn new() -> Script {
        let members = Members::new([1, 2].map(|devid| MemberConfig::new(devid, 1 << 30)));
        Script { checkers: Checkers::new(&members), members }
    }

    fn request(&mut self, id: u64, kind: RequestKind, now: u64) {
        let id = RequestId(id);
        let request =
            Request { id, kind, offset: 0, length: 4096, stream: 0, cpu: 0, background: false };
        self.checkers.on_request(&request, Nanos(now));
    }

    fn submit(&mut self, io: &MemberIo) {
        let member = self.members.get_mut(io.member);
        match io.op {
            Op::Read => member.reads_in_flight += 1,
            _ => member.writes_in_flight += 1,
        }
        member.bytes_in_flight += io.length;
        self.checkers.on_submit(io, &self.members, io.submitted_at);
    }

    fn complete(&mut self, io: &MemberIo, now: u64) {
        self.finish(io, Ok(()), now, false);
    }

    /// A read of a race ends after another one answered.
    fn end(&mut self, io: &MemberIo, result: Result<(), IoError>, now: u64) {
        self.finish(io, result, now, result.is_ok());
    }

    fn finish(&mut self, io: &MemberIo, result: Result<(), IoError>, now: u64, lost: bool) {
        let member = self.members.get_mut(io.member);
        match io.op {
            Op::Read => member.reads_in_flight -= 1,
            _ => member.writes_in_flight -= 1,
        }
        member.bytes_in_flight -= io.length;
        let now = Nanos(now);
        let wait = now.saturating_sub(io.submitted_at);
        let outcome = Outcome { result, completed_at: now, wait, superseded: lost };
        self.checkers.on_complete(io, &outcome, &self.members, now);
    }

    fn reply(&mut self, id: u64, now: u64) {
        self.checkers.on_reply(RequestId(id), true, &self.members, Nanos(now));
    }
}

fn io(id: u64, request: u64, op: Op, member: MemberIndex, now: u64) -> MemberIo {
    MemberIo {
        id: IoId(id),
        request: RequestId(request),
        member,
        op,
        purpose: Purpose::User,
        offset: 4096,
        length: 4096,
        volume_offset: 0,
        stream: 0,
        background: false,
        role: ReadRole::Only,
        submitted_at: Nanos(now),
    }
}

/// A read that was submitted at 10.
fn reading() -> (Script, MemberIo) {
    let mut script = Script::new();
    script.request(1, RequestKind::Read, 10);
    let read = io(1, 1, Op::Read, SECOND, 10);
    script.submit(&read);
    (script, read)
}

#[test]
fn valid_events_pass() {
    let (mut script, read) = reading();
    script.complete(&read, 20);
    script.reply(1, 20);
    script.request(2, RequestKind::Flush, 30);
    let flushes = [(2, MemberIndex(0)), (3, SECOND)].map(|(id, m)| io(id, 2, Op::Flush, m, 30));
    flushes.iter().for_each(|flush| script.submit(flush));
    flushes.iter().for_each(|flush| script.complete(flush, 40));
    script.reply(2, 40);
}

#[test]
#[should_panic(expected = "time went back")]
fn completion_before_its_submission() {
    let (mut script, read) = reading();
    script.complete(&read, 5);
}

#[test]
#[should_panic(expected = "completes once")]
fn a_second_completion() {
    let (mut script, read) = reading();
    script.complete(&read, 20);
    script.members.get_mut(SECOND).reads_in_flight += 1;
    script.members.get_mut(SECOND).bytes_in_flight += 4096;
    script.complete(&read, 20);
}

#[test]
#[should_panic(expected = "replied to once")]
fn a_second_reply() {
    let (mut script, read) = reading();
    script.complete(&read, 20);
    script.reply(1, 20);
    script.reply(1, 20);
}

#[test]
#[should_panic(expected = "in flight after its reply")]
fn a_reply_with_member_io_in_flight() {
    let (mut script, _) = reading();
    script.reply(1, 20);
}

#[test]
#[should_panic(expected = "reads a member that is")]
fn read_of_a_stale_range() {
    let mut script = Script::new();
    script.members.get_mut(SECOND).state = MemberState::Rebuilding { recovered_bytes: 8191 };
    script.request(1, RequestKind::Read, 10);
    script.submit(&io(1, 1, Op::Read, SECOND, 10));
}

#[test]
#[should_panic(expected = "goes to a failed member")]
fn a_write_to_a_failed_member() {
    let mut script = Script::new();
    script.members.get_mut(SECOND).state = MemberState::Failed;
    script.request(1, RequestKind::Write, 10);
    script.submit(&io(1, 1, Op::Write, SECOND, 10));
}

#[test]
#[should_panic(expected = "the in-flight counts of")]
fn wrong_in_flight_counts() {
    let (mut script, read) = reading();
    script.members.get_mut(SECOND).reads_in_flight += 1;
    script.complete(&read, 20);
}

#[test]
#[should_panic(expected = "before member 0 was flushed")]
fn flush_that_skips_a_member() {
    let mut script = Script::new();
    script.request(1, RequestKind::Flush, 10);
    let flush = io(1, 1, Op::Flush, SECOND, 10);
    script.submit(&flush);
    script.complete(&flush, 20);
    script.reply(1, 20);
}

#[test]
#[should_panic(expected = "before member 1 was flushed")]
fn flush_before_the_request_does_not_count() {
    let mut script = Script::new();
    script.request(1, RequestKind::Flush, 10);
    let early = io(1, 1, Op::Flush, SECOND, 10);
    script.submit(&early);
    script.complete(&early, 12);
    script.request(2, RequestKind::Flush, 15);
    let first = io(2, 2, Op::Flush, MemberIndex(0), 15);
    script.submit(&first);
    script.complete(&first, 20);
    script.reply(2, 20);
}

#[test]
fn failed_flush_need_not_reach_all_members() {
    let mut script = Script::new();
    script.request(1, RequestKind::Flush, 10);
    let flush = io(1, 1, Op::Flush, SECOND, 10);
    script.submit(&flush);
    script.members.get_mut(SECOND).writes_in_flight -= 1;
    script.members.get_mut(SECOND).bytes_in_flight -= 4096;
    let result = Err(IoError::Transport);
    let outcome = Outcome { result, completed_at: Nanos(20), wait: Nanos(10), superseded: false };
    script.checkers.on_complete(&flush, &outcome, &script.members, Nanos(20));
    script.checkers.on_reply(RequestId(1), false, &script.members, Nanos(20));
}

#[test]
fn reply_to_a_race_while_the_other_read_is_in_flight() {
    let (mut script, answer, loser) = racing();
    script.complete(&answer, 20);
    script.reply(1, 20);
    script.request(1, RequestKind::Read, 21);
    script.end(&loser, Ok(()), 30);
}

#[test]
#[should_panic(expected = "answered with 0 bytes")]
fn reply_from_a_lost_read() {
    let (mut script, _, loser) = racing();
    script.end(&loser, Ok(()), 20);
    script.reply(1, 20);
}

#[test]
#[should_panic(expected = "answered with 0 bytes")]
fn reply_from_a_cancelled_read() {
    let (mut script, answer, _) = racing();
    script.end(&answer, Err(IoError::Cancelled), 20);
    script.reply(1, 20);
}

/// Two reads of one block, on both members.
fn racing() -> (Script, MemberIo, MemberIo) {
    let mut script = Script::new();
    script.request(1, RequestKind::Read, 10);
    let first = MemberIo { role: ReadRole::First, ..io(1, 1, Op::Read, MemberIndex(0), 10) };
    let extra_reads = MemberIo { role: ReadRole::Extra, ..io(2, 1, Op::Read, SECOND, 10) };
    script.submit(&first);
    script.submit(&extra_reads);
    (script, first, extra_reads)
}

//! Volumes with parity on emulated members that keep data: what is read is what was written,
//! whatever fails.

use super::tests::{array, run};
use super::*;
use crate::driver::buffers::{BufferKey, Slice};
use mirrorball_core::io::RequestKind;
use mirrorball_core::member::MemberState;
use mirrorball_core::rng::Rng;

const BLOCK: u64 = 4096;

/// An executor and what its volume must hold.
struct Checked {
    executor: Executor,
    expected: Vec<u8>,
    rng: Rng,
}

impl Checked {
    fn new(profile: &str, members: usize) -> Checked {
        let executor = array(profile, members, "first");
        let expected = vec![0; executor.size_bytes(Target::Volume) as usize];
        let mut checked = Checked { executor, expected, rng: Rng::stream(1, "parity") };
        checked.write_some();
        checked
    }

    /// Sends requests of one kind together; returns their buffers.
    fn send(&mut self, kind: RequestKind, ranges: &[(u64, u64)]) -> Vec<BufferKey> {
        let mut buffers = Vec::new();
        let mut requests = Vec::new();
        for (number, &(offset, length)) in (0..).zip(ranges) {
            let buffer = self.executor.driver.acquire(length as usize);
            let whole = Slice::data(buffer, 0, length as usize);
            let held = &self.expected[offset as usize..(offset + length) as usize];
            match kind {
                RequestKind::Write => {
                    self.executor.driver.bytes_mut(whole).copy_from_slice(held);
                }
                _ => self.executor.driver.bytes_mut(whole).fill(0xee),
            }
            buffers.push(buffer);
            let (token, target) = (Token::new(EventOwner::NbdRequest, number), Target::Volume);
            let buffer = Some(buffer);
            requests.push(IoRequest { token, target, kind, offset, length, buffer, stream: 1 });
        }
        let results = run(&mut self.executor, &requests);
        assert!(results.iter().all(Result::is_ok), "{kind:?}: {results:?}");
        buffers
    }

    /// Writes random data to random ranges, some of them neighbours.
    fn write_some(&mut self) {
        let blocks = self.expected.len() as u64 / BLOCK;
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for _ in 0..40 {
            let first = self.rng.below(blocks - 1);
            let count = (1 + self.rng.below(100)).min(blocks - first);
            let range = (first * BLOCK, count * BLOCK);
            let overlaps =
                |other: &(u64, u64)| range.0 < other.0 + other.1 && other.0 < range.0 + range.1;
            if ranges.iter().any(overlaps) {
                continue;
            }
            let fill = &mut self.expected[range.0 as usize..(range.0 + range.1) as usize];
            fill.iter_mut().for_each(|byte| *byte = self.rng.below(256) as u8);
            ranges.push(range);
        }
        for buffer in self.send(RequestKind::Write, &ranges) {
            self.executor.driver.release(buffer);
        }
    }

    /// Reads all of the volume, in requests that span stripes.
    fn check(&mut self) {
        let length = 1 << 20;
        let ends = (0..self.expected.len() as u64).step_by(length);
        let total = self.expected.len() as u64;
        let ranges: Vec<(u64, u64)> =
            ends.map(|offset| (offset, (length as u64).min(total - offset))).collect();
        let buffers = self.send(RequestKind::Read, &ranges);
        for (&(offset, length), buffer) in ranges.iter().zip(buffers) {
            let whole = Slice::data(buffer, 0, length as usize);
            let held = &self.expected[offset as usize..(offset + length) as usize];
            assert!(self.executor.driver.bytes(whole) == held, "at {offset}");
            self.executor.driver.release(buffer);
        }
    }

    fn set(&mut self, member: u16, state: MemberState) {
        self.executor.volume_mut().unwrap().set_member_state(MemberIndex(member), state);
    }
}

#[test]
fn nothing_is_lost_while_as_many_members_fail_as_there_are_parities() {
    for (profile, members, failures) in [("raid5", 3, 1), ("raid5", 5, 1), ("raid6", 5, 2)] {
        for first in 0..members as u16 {
            let mut checked = Checked::new(profile, members);
            checked.check();
            for failed in 0..failures {
                checked.set((first + failed) % members as u16, MemberState::Failed);
                checked.check();
                checked.write_some();
                checked.check();
            }
        }
    }
}

#[test]
fn a_rebuilt_member_has_its_data_and_parity() {
    let mut checked = Checked::new("raid6", 5);
    checked.set(2, MemberState::Failed);
    checked.write_some();
    checked.set(2, MemberState::Rebuilding { recovered_bytes: 0 });
    checked.write_some();
    let size = checked.executor.size_bytes(Target::Member(MemberIndex(2)));
    let (token, kind) =
        (Token::new(EventOwner::NbdRequest, 0), RequestKind::Rebuild(MemberIndex(2)));
    let buffer = Some(checked.executor.driver.acquire(4096));
    let target = Target::Volume;
    let rebuild = IoRequest { token, target, kind, offset: 0, length: size, buffer, stream: 0 };
    assert_eq!(run(&mut checked.executor, &[rebuild]), [Ok(())]);
    let volume = checked.executor.volume().unwrap();
    assert_eq!(volume.members()[MemberIndex(2)].state, MemberState::InSync);
    checked.set(0, MemberState::Failed);
    checked.set(4, MemberState::Failed);
    checked.check();
}

#[test]
fn discards_leave_the_data() {
    let mut checked = Checked::new("raid5", 4);
    assert!(!checked.executor.discards_zero(Target::Volume));
    for buffer in checked.send(RequestKind::Discard, &[(0, 1 << 20)]) {
        checked.executor.driver.release(buffer);
    }
    checked.check();
}

//! The cache of a controller in front of emulated members that keep data: what is read is what was
//! written, whether it is in the cache, on the members, or both.

use super::tests::{array, run};
use super::*;
use crate::driver::Token;
use crate::driver::buffers::{BufferKey, Slice};
use mirrorball_core::member::MemberState;
use mirrorball_core::rng::Rng;
use mirrorball_disk::controller::ControllerSpec;

const SECTOR: u64 = 512;
const SPEC: ControllerSpec =
    ControllerSpec { cache_bytes: 1 << 20, high_mark: 0.75, low_mark: 0.25, depth: 3 };

fn whole(buffer: BufferKey, length: u64) -> Slice {
    Slice::data(buffer, 0, length as usize)
}

fn request(
    executor: &mut Executor,
    number: u32,
    kind: RequestKind,
    range: (u64, u64),
) -> IoRequest {
    let (offset, length) = range;
    let buffer = Some(executor.driver.acquire(length.max(1) as usize));
    let (token, target) = (Token::new(EventOwner::NbdRequest, number), Target::Volume);
    IoRequest { token, target, kind, offset, length, buffer, stream: 1 }
}

/// Runs requests together; returns what reads found.
fn send(executor: &mut Executor, requests: Vec<IoRequest>) -> Vec<Vec<u8>> {
    let results = run(executor, &requests);
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let found = requests.into_iter().map(|request| {
        let buffer = request.buffer.expect("each has one");
        let found = executor.driver.bytes(whole(buffer, request.length)).to_vec();
        executor.driver.release(buffer);
        found
    });
    found.collect()
}

/// Random reads and writes of unaligned ranges, several at once that do not overlap.
fn exercise(executor: &mut Executor, expected: &mut [u8], rng: &mut Rng) {
    let sectors = expected.len() as u64 / SECTOR;
    for round in 0..60 {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for _ in 0..8 {
            let first = rng.below(sectors);
            let most = if rng.below(4) == 0 { 1_500 } else { 60 };
            let count = (1 + rng.below(most)).min(sectors - first);
            let range = (first * SECTOR, count * SECTOR);
            let is_apart =
                |other: &(u64, u64)| range.0 >= other.0 + other.1 || other.0 >= range.0 + range.1;
            if ranges.iter().all(is_apart) {
                ranges.push(range);
            }
        }
        let mut requests = Vec::new();
        for (number, &(offset, length)) in (0..).zip(&ranges) {
            let is_write = rng.below(2) == 0;
            let kind = if is_write { RequestKind::Write } else { RequestKind::Read };
            let request = request(executor, number, kind, (offset, length));
            let bytes = executor.driver.bytes_mut(whole(request.buffer.unwrap(), length));
            let held = &mut expected[offset as usize..(offset + length) as usize];
            if is_write {
                held.iter_mut().for_each(|byte| *byte = rng.below(256) as u8);
                bytes.copy_from_slice(held);
            } else {
                bytes.fill(0xee);
            }
            requests.push(request);
        }
        let found = send(executor, requests);
        for (&(offset, length), found) in ranges.iter().zip(found) {
            let held = &expected[offset as usize..(offset + length) as usize];
            assert!(found == held, "round {round}, {length} bytes at {offset}");
        }
    }
}

/// Turns until nothing is in flight.
fn settle(executor: &mut Executor) {
    let mut events = Vec::new();
    while !executor.is_idle() {
        executor.wait(None, &mut events).unwrap();
        events.drain(..).for_each(|event| executor.on_event(&event));
        executor.turn();
        while executor.poll_reply().is_some() {}
    }
}

fn read_all(executor: &mut Executor, length: u64) -> Vec<u8> {
    let all = request(executor, 0, RequestKind::Read, (0, length));
    send(executor, vec![all]).remove(0)
}

#[test]
fn what_is_read_is_what_was_written_last() {
    for (profile, members) in [("raid6", 5), ("raid1", 2)] {
        let mut executor = array(profile, members, "first").with_controller(SPEC);
        let length = executor.size_bytes(Target::Volume).min(4 << 20);
        let mut expected = vec![0; length as usize];
        let mut rng = Rng::stream(7, profile);
        exercise(&mut executor, &mut expected, &mut rng);
        assert!(executor.cached_bytes() > 0, "the test is not of the volume alone");
        assert!(read_all(&mut executor, length) == expected, "from the cache and the members");
        executor.drain_controller();
        settle(&mut executor);
        assert_eq!(executor.cached_bytes(), 0);
        executor.controller = None;
        assert!(read_all(&mut executor, length) == expected, "from the members alone");
    }
}

#[test]
fn a_read_that_began_before_a_write_back_ended_has_the_data_of_the_cache() {
    let mut executor = array("raid1", 2, "first").with_controller(SPEC);
    let write = request(&mut executor, 0, RequestKind::Write, (4096, 4096));
    executor.driver.bytes_mut(whole(write.buffer.unwrap(), 4096)).fill(7);
    send(&mut executor, vec![write]);
    // Of three blocks the cache has the one in the middle, so the volume reads the range.
    let read = request(&mut executor, 0, RequestKind::Read, (0, 12288));
    executor.submit(read);
    executor.turn();
    executor.drain_controller();
    settle(&mut executor);
    assert_eq!(executor.cached_bytes(), 0);
    let found = executor.driver.bytes(whole(read.buffer.unwrap(), 12288)).to_vec();
    assert!(found[4096..8192].iter().all(|&byte| byte == 7));
    assert!(found[..4096].iter().chain(&found[8192..]).all(|&byte| byte == 0));
}

#[test]
fn a_flush_fails_once_cached_data_could_not_be_written() {
    let mut executor = array("raid1", 2, "first").with_controller(SPEC);
    let write = request(&mut executor, 0, RequestKind::Write, (0, 4096));
    send(&mut executor, vec![write]);
    let flush = request(&mut executor, 0, RequestKind::Flush, (0, 0));
    assert_eq!(run(&mut executor, &[flush]), [Ok(())], "a battery keeps the cache");
    for member in [0, 1] {
        let volume = executor.volume_mut().unwrap();
        volume.set_member_state(MemberIndex(member), MemberState::Failed);
    }
    executor.drain_controller();
    settle(&mut executor);
    assert!(executor.has_lost_cached_data());
    assert_eq!(run(&mut executor, &[flush]), [Err(VolumeError::Unwritable)]);
}

#[test]
fn requests_past_the_end_are_refused_and_discards_leave_data_as_they_are() {
    let mut executor = array("raid1", 2, "first").with_controller(SPEC);
    let end = executor.size_bytes(Target::Volume);
    let beyond = request(&mut executor, 0, RequestKind::Write, (end - 512, 1024));
    assert_eq!(run(&mut executor, &[beyond]), [Err(VolumeError::OutOfRange)]);
    let write = request(&mut executor, 0, RequestKind::Write, (0, 4096));
    executor.driver.bytes_mut(whole(write.buffer.unwrap(), 4096)).fill(9);
    send(&mut executor, vec![write]);
    assert!(!executor.discards_zero(Target::Volume));
    let discard = request(&mut executor, 0, RequestKind::Discard, (0, 4096));
    assert_eq!(run(&mut executor, &[discard]), [Ok(())]);
    assert!(read_all(&mut executor, 4096).iter().all(|&byte| byte == 9));
}

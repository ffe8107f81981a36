//! Order and liveness of requests that lock their range: none starves, and overlapping writes reach
//! all mirrors in one order.

use super::*;

/// Rounds of a steady load. A request that waits only for the requests before it is granted within
/// a few.
const ROUNDS: u64 = 100;

/// Submits a request of `kind` for the first 4 KiB of the volume in even rounds, for the next 4 KiB
/// in odd ones. The requests of two rounds do not overlap, so both can be in flight.
fn submit(world: &mut World, kind: RequestKind, round: u64) {
    let (id, offset) = (1000 + round, round % 2 * 4096);
    match kind {
        RequestKind::Write => world.write(id, offset, 4096, id),
        _ => world.request(id, kind, offset, 4096),
    }
}

/// Keeps requests of `kind` in flight after `in_flight`, that of round 0: each is submitted before
/// the one before it completes. Returns in which round request 1 was replied to.
fn round_of_reply(world: &mut World, kind: RequestKind, in_flight: Vec<MemberIo>) -> Option<u64> {
    let mut in_flight = in_flight;
    for round in 1..ROUNDS {
        submit(world, kind, round);
        let next = world.pump();
        for io in std::mem::replace(&mut in_flight, next) {
            world.complete(io);
        }
        in_flight.extend(world.pump());
        while let Some((request, result)) = world.reply() {
            assert_eq!(result, Ok(()), "request {request}");
            if request == 1 {
                return Some(round);
            }
        }
    }
    None
}

#[test]
fn a_scrub_is_granted_under_steady_overlapping_writes() {
    let mut world = World::new(Profile::Raid1, 2, Box::new(First));
    submit(&mut world, RequestKind::Write, 0);
    let writes = world.pump();
    world.request(1, RequestKind::Scrub, 0, 8192);
    let round = round_of_reply(&mut world, RequestKind::Write, writes);
    assert!(round.is_some_and(|round| round < 5), "{round:?}");
}

#[test]
fn a_rebuild_is_granted_under_steady_overlapping_writes() {
    let mut world = World::with(Profile::Raid1, 2, Box::new(First), stale(2));
    submit(&mut world, RequestKind::Write, 0);
    let writes = world.pump();
    world.request(1, RequestKind::Rebuild(MemberIndex(1)), 0, 8 * MIB);
    let round = round_of_reply(&mut world, RequestKind::Write, writes);
    assert!(round.is_some_and(|round| round < 5), "{round:?}");
}

#[test]
fn the_retry_of_a_read_is_granted_under_steady_overlapping_writes() {
    let mut world = World::new(Profile::Raid1, 2, Box::new(First));
    world.request(1, RequestKind::Read, 0, 8192);
    let read = world.pump();
    submit(&mut world, RequestKind::Write, 0);
    let writes = world.pump();
    world.volume.complete(read[0].id, Err(IoError::Transport), world.now);
    assert!(world.pump().is_empty(), "the retry waits for the write in flight");
    let round = round_of_reply(&mut world, RequestKind::Write, writes);
    assert!(round.is_some_and(|round| round < 5), "{round:?}");
}

#[test]
fn a_write_is_granted_under_steady_overlapping_scrubs() {
    let mut world = World::new(Profile::Raid1, 2, Box::new(First));
    submit(&mut world, RequestKind::Scrub, 0);
    let scrubs = world.pump();
    world.write(1, 0, 8192, 1);
    let round = round_of_reply(&mut world, RequestKind::Scrub, scrubs);
    assert!(round.is_some_and(|round| round < 5), "{round:?}");
}

#[test]
fn overlapping_writes_and_discards_run_in_the_order_of_submission() {
    let mut world = World::new(Profile::Raid1, 2, Box::new(First));
    world.write(1, 0, 8192, 1);
    world.write(2, 4096, 8192, 2);
    world.request(3, RequestKind::Discard, 8192, 8192);
    world.write(4, 64 * 1024, 4096, 4);
    let ios = world.pump();
    let requests: Vec<u64> = ios.iter().map(|io| io.request.0).collect();
    assert_eq!(requests, [1, 1, 4, 4], "overlapping ones wait, the distant write does not");
    world.complete(ios[1]);
    assert!(world.pump().is_empty(), "the first mirror still has the first write in flight");
    world.complete(ios[0]);
    let requests: Vec<u64> = world.pump().iter().map(|io| io.request.0).collect();
    assert_eq!(requests, [2, 2]);
}

/// However the members reorder their I/O, the copies agree once all writes have ended.
#[test]
fn copies_agree_after_overlapping_writes_that_members_reorder() {
    let mut world = World::new(Profile::Raid1c3, 3, Box::new(First));
    for id in 1..=20 {
        world.write(id, id % 3 * 2048, 8192, id);
    }
    let mut in_flight = world.pump();
    while !in_flight.is_empty() {
        let io = in_flight.remove(in_flight.len() * 2 / 3);
        world.complete(io);
        in_flight.extend(world.pump());
    }
    for block in 0..24 {
        let mapped = world.volume.map().map(block * BLOCK, BLOCK);
        let copies: Vec<_> = mapped
            .mirrors
            .iter()
            .map(|mirror| world.disks.get(&(mirror.member.0, mirror.offset / BLOCK)))
            .collect();
        assert!(copies.iter().all(|&copy| copy == copies[0]), "block {block}: {copies:?}");
    }
}

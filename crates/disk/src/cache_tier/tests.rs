//! Decisions of the rules, worked out by hand. The times that follow from them are tested with
//! `cached_disk`.

use super::*;
use mirrorball_core::units::{KIB, Nanos};

const BLOCK: u64 = 4 * KIB;

/// A cache of 40 blocks, which begins to write back when the fifth of them is dirty.
fn tier(change: impl FnOnce(&mut CacheSpec)) -> CacheTier {
    let mut spec = CacheSpec {
        device: ModelProfile::builtin("delay").unwrap().with_capacity(40 * BLOCK),
        mode: CacheMode::WriteThrough,
        sequential_cutoff_bytes: 0,
        promote_after: 1,
        warm_share: 0.0,
    };
    change(&mut spec);
    CacheTier::new(&spec, 7)
}

/// An I/O by its device, operation, first block and number of blocks.
type Part = (TierDevice, Op, u64, u64);

/// The I/Os that are ready, with their tags.
fn ready(tier: &mut CacheTier) -> Vec<(Part, u64)> {
    let parts = std::iter::from_fn(|| tier.poll_io());
    let part = |TierIo { device, io, .. }: TierIo| {
        ((device, io.op, io.offset / BLOCK, io.length / BLOCK), io.tag)
    };
    parts.map(part).collect()
}

/// Ends an I/O. Returns the tag and the result of the request that ended with it.
fn end(tier: &mut CacheTier, tag: u64, is_ok: bool) -> Option<(u64, bool)> {
    let result = if is_ok { Ok(()) } else { Err(IoError::Medium) };
    let ended = tier.end(Completion { tag, at: Nanos(5), result })?;
    assert_eq!(ended.at, Nanos(5));
    Some((ended.tag, ended.result.is_ok()))
}

/// Submits a request and ends all that follows from it, in order. Returns the I/Os in the order in
/// which they became ready; the request ended with the last of those before the bar.
fn run(tier: &mut CacheTier, op: Op, block: u64, blocks: u64) -> (Vec<Part>, Vec<Part>) {
    tier.submit(DiskIo { tag: 77, op, offset: block * BLOCK, length: blocks * BLOCK });
    let (mut before, mut after, mut has_ended) = (Vec::new(), Vec::new(), false);
    let mut queue = VecDeque::from(ready(tier));
    while let Some((part, tag)) = queue.pop_front() {
        if has_ended { &mut after } else { &mut before }.push(part);
        if let Some(ended) = end(tier, tag, true) {
            assert_eq!(ended, (77, true));
            has_ended = true;
        }
        queue.extend(ready(tier));
    }
    assert!(has_ended);
    (before, after)
}

use TierDevice::{Backing, Cache};

#[test]
fn a_miss_is_inserted_after_the_read_has_ended_and_a_hit_stays_in_the_cache() {
    let mut tier = tier(|_| ());
    let miss = (vec![(Backing, Op::Read, 5, 2)], vec![(Cache, Op::Write, 5, 2)]);
    assert_eq!(run(&mut tier, Op::Read, 5, 2), miss);
    assert_eq!(run(&mut tier, Op::Read, 6, 1), (vec![(Cache, Op::Read, 6, 1)], vec![]));
    let partial = run(&mut tier, Op::Read, 4, 4);
    let reads = vec![(Backing, Op::Read, 4, 1), (Cache, Op::Read, 5, 2), (Backing, Op::Read, 7, 1)];
    assert_eq!(partial, (reads, vec![(Cache, Op::Write, 4, 1), (Cache, Op::Write, 7, 1)]));
    let counts = CacheTierCounts {
        read_bytes: 7 * BLOCK,
        read_hit_bytes: 3 * BLOCK,
        inserted_bytes: 4 * BLOCK,
        ..CacheTierCounts::default()
    };
    assert_eq!(tier.counts(), counts);
}

#[test]
fn addresses_beyond_the_size_of_the_cache_are_folded_into_it() {
    let mut tier = tier(|_| ());
    let insertion = run(&mut tier, Op::Read, 85, 2).1;
    assert_eq!(insertion, [(Cache, Op::Write, 5, 2)]);
    assert_eq!(run(&mut tier, Op::Read, 79, 2).1, [(Cache, Op::Write, 38, 2)], "not past its end");
}

#[test]
fn a_write_through_waits_for_both_devices() {
    let mut tier = tier(|_| ());
    tier.submit(DiskIo { tag: 3, op: Op::Write, offset: BLOCK, length: BLOCK });
    let parts = ready(&mut tier);
    let writes: Vec<Part> = parts.iter().map(|&(part, _)| part).collect();
    assert_eq!(writes, [(Backing, Op::Write, 1, 1), (Cache, Op::Write, 1, 1)]);
    assert_eq!(end(&mut tier, parts[1].1, true), None);
    assert_eq!(end(&mut tier, parts[0].1, false), Some((3, false)), "an error of either counts");
    assert_eq!(run(&mut tier, Op::Read, 1, 1).0, [(Cache, Op::Read, 1, 1)]);
}

#[test]
fn a_write_around_removes_what_it_overwrites() {
    let mut tier = tier(|spec| spec.mode = CacheMode::WriteAround);
    run(&mut tier, Op::Read, 1, 3);
    assert_eq!(run(&mut tier, Op::Write, 2, 1), (vec![(Backing, Op::Write, 2, 1)], vec![]));
    let reads = [(Cache, Op::Read, 1, 1), (Backing, Op::Read, 2, 1), (Cache, Op::Read, 3, 1)];
    assert_eq!(run(&mut tier, Op::Read, 1, 3).0, reads);
}

#[test]
fn dirty_blocks_are_copied_back_once_more_than_a_tenth_is_dirty() {
    let mut tier = tier(|spec| spec.mode = CacheMode::WriteBack);
    for block in [20, 3, 2, 9] {
        let write = run(&mut tier, Op::Write, block, 1);
        assert_eq!(write, (vec![(Cache, Op::Write, block, 1)], vec![]), "{block}");
    }
    let copies = [(Cache, Op::Read, 2, 2), (Backing, Op::Write, 2, 2)];
    let (before, after) = run(&mut tier, Op::Write, 30, 1);
    assert_eq!(before, [(Cache, Op::Write, 30, 1)]);
    assert_eq!(after, copies, "the first neighbours; three of forty are no more than a tenth");
    assert_eq!(tier.counts().written_back_bytes, 2 * BLOCK);
    assert_eq!(tier.counts().written_to_cache_only_bytes, 5 * BLOCK);
}

#[test]
fn a_write_that_would_make_too_much_dirty_is_written_through() {
    let mut tier = tier(|spec| spec.mode = CacheMode::WriteBack);
    tier.submit(DiskIo { tag: 1, op: Op::Write, offset: 0, length: 28 * BLOCK });
    // Its write-back begins at once; the blocks that it carries count as clean.
    let parts = ready(&mut tier);
    assert_eq!(parts[0].0, (Cache, Op::Write, 0, 28), "28 of 40 are 70 %");
    assert_eq!(parts[1].0, (Cache, Op::Read, 0, 28));
    tier.submit(DiskIo { tag: 2, op: Op::Write, offset: 0, length: 29 * BLOCK });
    let parts: Vec<Part> = ready(&mut tier).iter().map(|&(part, _)| part).collect();
    assert_eq!(parts, [(Backing, Op::Write, 0, 29), (Cache, Op::Write, 0, 29)]);
}

#[test]
fn a_long_stream_and_a_large_request_bypass_the_cache() {
    let mut tier = tier(|spec| spec.sequential_cutoff_bytes = 4 * BLOCK);
    assert_eq!(run(&mut tier, Op::Read, 0, 2).1.len(), 1);
    assert_eq!(run(&mut tier, Op::Read, 2, 2), (vec![(Backing, Op::Read, 2, 2)], vec![]));
    assert_eq!(run(&mut tier, Op::Write, 4, 1), (vec![(Backing, Op::Write, 4, 1)], vec![]));
    let hits = run(&mut tier, Op::Read, 0, 5).0;
    assert_eq!(hits, [(Cache, Op::Read, 0, 2), (Backing, Op::Read, 2, 3)], "hits are served");
    assert_eq!(run(&mut tier, Op::Read, 100, 41).0, [(Backing, Op::Read, 100, 41)]);
    assert_eq!(tier.counts().bypassed_bytes, 47 * BLOCK);
}

#[test]
fn a_flush_goes_to_both_devices_and_a_discard_removes() {
    let mut tier = tier(|_| ());
    run(&mut tier, Op::Read, 1, 1);
    let flushes = [(Backing, Op::Flush, 0, 0), (Cache, Op::Flush, 0, 0)];
    assert_eq!(run(&mut tier, Op::Flush, 0, 0).0, flushes);
    assert_eq!(run(&mut tier, Op::Discard, 0, 8), (vec![(Backing, Op::Discard, 0, 8)], vec![]));
    assert_eq!(run(&mut tier, Op::Read, 1, 1).0, [(Backing, Op::Read, 1, 1)]);
}

#[test]
fn a_failed_read_inserts_nothing_and_a_failed_write_back_is_counted() {
    let mut tier = tier(|spec| spec.mode = CacheMode::WriteBack);
    tier.submit(DiskIo { tag: 4, op: Op::Read, offset: 0, length: BLOCK });
    let read = ready(&mut tier)[0].1;
    assert_eq!(end(&mut tier, read, false), Some((4, false)));
    assert_eq!(ready(&mut tier), []);
    tier.submit(DiskIo { tag: 5, op: Op::Write, offset: 0, length: 5 * BLOCK });
    let parts = ready(&mut tier);
    assert_eq!(end(&mut tier, parts[0].1, true), Some((5, true)));
    assert_eq!(end(&mut tier, parts[1].1, true), None);
    let copy = ready(&mut tier)[0].1;
    assert_eq!(end(&mut tier, copy, false), None);
    assert_eq!(tier.counts().failed_write_backs, 1);
}

#[test]
fn a_part_knows_the_request_that_waits_for_it() {
    let mut tier = tier(|_| ());
    tier.submit(DiskIo { tag: 9, op: Op::Read, offset: 0, length: BLOCK });
    let read = tier.poll_io().expect("a read");
    assert_eq!(read.request, Some(9));
    end(&mut tier, read.io.tag, true);
    assert_eq!(tier.poll_io().expect("an insertion").request, None);
}

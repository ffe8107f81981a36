//! The write-back cache of a controller: what it keeps, joins and writes back, worked out by hand.

use super::*;
use crate::array_file::ArrayFile;

/// A raid6 of five members with strips of 64 KiB: full stripes of 192 KiB.
fn map() -> ChunkMap {
    let text = "layout = \"md-raid6\"\nchunk = \"64K\"\n[[member]]\nmodel = \"delay\"\ncount = 5\n";
    ArrayFile::parse(text, "raid6.toml").unwrap().spec.chunk_map().unwrap()
}

const STRIP: u64 = 64 << 10;
const STRIPE: u64 = 3 * STRIP;

/// A cache of ten full stripes that writes back from nine on until three are left.
fn cache() -> WriteBackCache {
    WriteBackCache::new(ControllerSpec {
        cache_bytes: 10 * STRIPE,
        high_mark: 0.9,
        low_mark: 0.3,
        depth: 2,
    })
}

fn request(kind: RequestKind, offset: u64, length: u64) -> Request {
    Request { id: RequestId(offset), kind, offset, length, stream: 1, cpu: 0, background: false }
}

fn write(cache: &mut WriteBackCache, offset: u64, length: u64) -> Admission {
    cache.submit(request(RequestKind::Write, offset, length))
}

fn read(cache: &mut WriteBackCache, offset: u64, length: u64) -> Admission {
    cache.submit(request(RequestKind::Read, offset, length))
}

/// The offsets and lengths of all write-backs that are due, in strips.
fn due(cache: &mut WriteBackCache, map: &ChunkMap) -> Vec<(u64, u64, u64)> {
    std::iter::from_fn(|| cache.poll_write_back(map))
        .map(|it| (it.number, it.offset / STRIP, it.length / STRIP))
        .collect()
}

#[test]
fn writes_are_done_at_once_and_written_back_from_the_high_mark_to_the_low_one() {
    let (map, mut cache) = (map(), cache());
    for stripe in 0..8 {
        assert_eq!(write(&mut cache, stripe * STRIPE, STRIPE), Admission::Done);
        assert_eq!(due(&mut cache, &map), [], "below the high mark");
    }
    assert_eq!(write(&mut cache, 8 * STRIPE, STRIPE), Admission::Done);
    let mut written = 0;
    loop {
        let batch = due(&mut cache, &map);
        assert!(batch.len() <= 2, "two at once: {batch:?}");
        if batch.is_empty() {
            break;
        }
        for (number, strip, length) in batch {
            assert_eq!((strip, length), (3 * written, 3), "in the order of addresses");
            cache.end_write_back(number, true);
            written += 1;
        }
    }
    assert_eq!(written, 6, "three of nine stay");
    let counts = cache.counts();
    assert_eq!((counts.writes, counts.delayed_writes), (9, 0));
    assert_eq!((counts.whole_units, counts.partial_units), (6, 0));
}

#[test]
fn adjacent_writes_become_full_stripes() {
    let (map, mut cache) = (map(), cache());
    // Full stripe 1 strip by strip, backwards; two strips of full stripe 0; full stripes 3 to 10.
    for strip in [5, 4, 3, 0, 2] {
        write(&mut cache, strip * STRIP, STRIP);
    }
    write(&mut cache, 3 * STRIPE, 8 * STRIPE);
    let places: Vec<(u64, u64)> =
        due(&mut cache, &map).iter().map(|&(_, strip, length)| (strip, length)).collect();
    assert_eq!(places, [(0, 1), (2, 1), (3, 3)], "the parts of a unit go together");
    assert_eq!((cache.counts().whole_units, cache.counts().partial_units), (1, 1));
}

#[test]
fn the_elevator_goes_up_and_starts_again() {
    let (map, mut cache) = (map(), cache());
    cache.spec.depth = 1;
    let order = |cache: &mut WriteBackCache| {
        let (number, strip, _) = due(cache, &map)[0];
        cache.end_write_back(number, true);
        strip / 3
    };
    for stripe in [50, 20, 70, 10, 90, 60, 30, 80, 40] {
        write(&mut cache, stripe * STRIPE, STRIPE);
    }
    assert_eq!([10, 20, 30, 40].map(|_| order(&mut cache)), [10, 20, 30, 40]);
    for stripe in [15, 55, 1, 2, 3] {
        write(&mut cache, stripe * STRIPE, STRIPE);
    }
    assert_eq!([0; 7].map(|_| order(&mut cache)), [50, 55, 60, 70, 80, 90, 1]);
}

#[test]
fn a_full_cache_delays_writes_until_there_is_space() {
    let (map, mut cache) = (map(), cache());
    assert_eq!(write(&mut cache, 0, 10 * STRIPE), Admission::Done);
    assert_eq!(write(&mut cache, 20 * STRIPE, STRIPE), Admission::Waits);
    assert_eq!(write(&mut cache, 30 * STRIPE, STRIP), Admission::Waits, "not before the first");
    let [(first, ..), (second, ..)] = due(&mut cache, &map)[..] else { panic!("two are due") };
    assert_eq!(cache.poll_admitted(), None, "data leave the cache when they are on the disks");
    cache.end_write_back(first, true);
    assert_eq!(cache.poll_admitted(), Some(RequestId(20 * STRIPE)));
    assert_eq!(cache.poll_admitted(), None);
    cache.end_write_back(second, false);
    assert_eq!(cache.poll_admitted(), Some(RequestId(30 * STRIPE)));
    assert_eq!(cache.counts().delayed_writes, 2);
    assert_eq!(cache.counts().failed_write_backs, 1);
}

#[test]
fn a_write_larger_than_the_cache_is_taken_by_an_empty_one() {
    let (map, mut cache) = (map(), cache());
    assert_eq!(write(&mut cache, 0, STRIP), Admission::Done);
    assert_eq!(write(&mut cache, 3 * STRIPE, 11 * STRIPE), Admission::Waits);
    let batch = due(&mut cache, &map);
    assert_eq!(batch.len(), 1, "a write that waits starts write-back");
    cache.end_write_back(batch[0].0, true);
    assert_eq!(cache.poll_admitted(), Some(RequestId(3 * STRIPE)));
}

#[test]
fn reads_of_cached_data_are_done_until_they_are_on_the_disks() {
    let (map, mut cache) = (map(), cache());
    write(&mut cache, 0, 9 * STRIPE);
    assert_eq!(read(&mut cache, STRIP, 8 * STRIPE), Admission::Done);
    assert_eq!(read(&mut cache, 8 * STRIPE, 2 * STRIPE), Admission::PassedOn, "one is missing");
    let batch = due(&mut cache, &map);
    assert_eq!(read(&mut cache, 0, 9 * STRIPE), Admission::Done, "partly in flight");
    // Rewritten while in flight: the new data stay when the old ones are on the disks.
    write(&mut cache, 0, STRIP);
    batch.iter().for_each(|&(number, ..)| cache.end_write_back(number, true));
    assert_eq!(read(&mut cache, 0, STRIP), Admission::Done);
    assert_eq!(read(&mut cache, STRIP, STRIP), Admission::PassedOn);
    assert_eq!(cache.counts().read_hits, 3);
}

#[test]
fn flushes_are_done_and_discards_drop_data() {
    let mut cache = cache();
    write(&mut cache, 0, STRIPE);
    assert_eq!(cache.submit(request(RequestKind::Flush, 0, 0)), Admission::Done);
    assert_eq!(cache.submit(request(RequestKind::Discard, 0, STRIP)), Admission::PassedOn);
    assert_eq!(read(&mut cache, 0, STRIP), Admission::PassedOn);
    assert_eq!(read(&mut cache, STRIP, 2 * STRIP), Admission::Done);
    assert_eq!(cache.submit(request(RequestKind::Scrub, 0, STRIPE)), Admission::PassedOn);
}

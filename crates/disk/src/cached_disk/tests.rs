//! Times of I/O before a cache, worked out by hand from the rules of the page of the module.

use super::*;
use crate::cache_contents::BlockRun;
use crate::cache_tier::CacheMode;
use crate::model::ByteRange;
use crate::profile::ModelProfile;
use mirrorball_core::io::Op;
use mirrorball_core::units::{KIB, MIB};

const DISK_MS: u64 = 10;
const CACHE_MS: u64 = 1;

fn delay(milliseconds: u64) -> ModelProfile {
    let service = toml::Value::String(format!("{milliseconds}ms"));
    let set = toml::Table::from_iter([("service".to_owned(), service)]);
    ModelProfile::builtin("delay").unwrap().with_overrides(set).unwrap()
}

/// A disk of 10 ms behind a cache of 1 ms.
fn cached(change: impl FnOnce(&mut CacheSpec)) -> CachedDisk {
    let mut spec = CacheSpec {
        device: delay(CACHE_MS),
        mode: CacheMode::WriteThrough,
        sequential_cutoff_bytes: CacheSpec::SEQUENTIAL_CUTOFF_BYTES_DEFAULT,
        promote_after: 1,
        warm_share: 0.0,
    };
    change(&mut spec);
    CachedDisk::new(delay(DISK_MS).build(1), &spec, 7)
}

/// Milliseconds that each I/O takes, one after the other, each 100 ms after the one before. The
/// end of each is also what was foreseen.
fn milliseconds(model: &mut CachedDisk, ios: &[(Op, u64, u64)]) -> Vec<u64> {
    milliseconds_from(0, model, ios)
}

/// The same from a number of seconds on.
fn milliseconds_from(second: u64, model: &mut CachedDisk, ios: &[(Op, u64, u64)]) -> Vec<u64> {
    let begin = second * 1_000_000_000;
    let mut milliseconds = Vec::new();
    for (number, &(op, offset, length)) in ios.iter().enumerate() {
        let now = Nanos(begin + (number as u64 + 1) * 100_000_000);
        let io = DiskIo { tag: number as u64, op, offset, length };
        let mut completions = Vec::new();
        model.advance(now, &mut completions);
        assert!(completions.is_empty(), "only insertions are left");
        let foreseen = model.completion_if_submitted(now, io);
        model.submit(now, io);
        while completions.is_empty() {
            model.advance(model.next_event().unwrap(), &mut completions);
        }
        assert_eq!(completions[..], [Completion { tag: io.tag, at: foreseen, result: Ok(()) }]);
        milliseconds.push((foreseen.0 - now.0) / 1_000_000);
    }
    milliseconds
}

fn read(block: u64) -> (Op, u64, u64) {
    (Op::Read, block * 4 * KIB, 4 * KIB)
}

fn write(block: u64) -> (Op, u64, u64) {
    (Op::Write, block * 4 * KIB, 4 * KIB)
}

fn is_cached(model: &CachedDisk, block: u64) -> bool {
    let mut runs = Vec::new();
    model.tier.contents().runs(ByteRange { offset: block * 4 * KIB, length: 4 * KIB }, &mut runs);
    runs == [BlockRun { range: runs[0].range, is_cached: true }]
}

#[test]
fn a_read_is_inserted_after_a_miss_and_hit_afterwards() {
    let ios = [read(5), read(5), read(50), (Op::Read, 5 * 4 * KIB, 8 * KIB), read(6)];
    let times = milliseconds(&mut cached(|_| ()), &ios);
    assert_eq!(times, [10, 1, 10, 10, 1], "the rest of a partial hit is read from the disk");
}

#[test]
fn a_sequential_stream_bypasses_the_cache_from_the_cutoff_on() {
    // Another reader in between does not end the stream.
    let mut ios: Vec<_> = (0..5).flat_map(|at| [(Op::Read, at * MIB, MIB), read(9000)]).collect();
    ios.extend((0..5).map(|at| (Op::Read, at * MIB + 4 * KIB, 4 * KIB)));
    let times = milliseconds(&mut cached(|_| ()), &ios);
    assert_eq!(times[10..], [1, 1, 1, 10, 10], "the fourth MiB reaches 4 MiB");
    let never = milliseconds(&mut cached(|spec| spec.sequential_cutoff_bytes = 0), &ios);
    assert_eq!(never[10..], [1, 1, 1, 1, 1]);
}

#[test]
fn the_block_used_least_recently_is_evicted() {
    let mut model = cached(|spec| spec.device = delay(CACHE_MS).with_capacity(2 * 4 * KIB));
    let ios = [read(1), read(20), read(1), read(40), read(1), read(20)];
    assert_eq!(milliseconds(&mut model, &ios), [10, 10, 1, 10, 1, 10]);
    let larger = (Op::Read, 0, 16 * KIB);
    let times = milliseconds_from(10, &mut model, &[larger, larger]);
    assert_eq!(times, [10, 10], "larger than the cache");
}

#[test]
fn the_warm_share_is_in_the_cache_at_the_start_and_leaves_it_when_written_around() {
    let change = |spec: &mut CacheSpec| {
        (spec.warm_share, spec.mode) = (0.3, CacheMode::WriteAround);
    };
    let times =
        milliseconds(&mut cached(change), &(0..1000).map(|at| read(at * 3)).collect::<Vec<_>>());
    let hits = times.iter().filter(|&&time| time == CACHE_MS).count();
    assert!((250..350).contains(&hits), "{hits} of 1000 in the cache, 300 expected");
    let warm = times.iter().position(|&time| time == CACHE_MS).unwrap() as u64 * 3;
    assert_eq!(
        milliseconds(&mut cached(change), &[read(warm), write(warm), read(warm)]),
        [1, 10, 10]
    );
}

#[test]
fn a_read_that_is_cancelled_does_not_complete_and_inserts_nothing() {
    let mut model = cached(|_| ());
    let io = |tag, block: u64| DiskIo { tag, op: Op::Read, offset: block << 12, length: 4096 };
    for (tag, block) in [(1, 10), (2, 20), (3, 30)] {
        model.submit(Nanos(1), io(tag, block));
    }
    assert!(model.cancel(Nanos(1), 2) && !model.cancel(Nanos(1), 2) && !model.cancel(Nanos(1), 9));
    model.submit(Nanos(1), DiskIo { op: Op::Write, ..io(4, 40) });
    assert!(!model.cancel(Nanos(1), 4), "the cache has it already");
    let mut completions = Vec::new();
    model.advance(Nanos::from_micros(1_000_000), &mut completions);
    let mut tags: Vec<u64> = completions.iter().map(|completion| completion.tag).collect();
    tags.sort_unstable();
    assert_eq!((tags, model.next_event()), (vec![1, 3, 4], None));
    assert!(!is_cached(&model, 20) && is_cached(&model, 30));
}

#[test]
fn dirty_blocks_are_not_evicted_and_a_write_past_the_cache_drops_them() {
    let mut model = cached(|spec| {
        spec.mode = CacheMode::WriteBack;
        spec.device = delay(CACHE_MS).with_capacity(20 * 4 * KIB);
        spec.sequential_cutoff_bytes = 8 * KIB;
    });
    milliseconds(&mut model, &[write(100)]);
    let others: Vec<_> = (0..30).map(|at| read(at * 2)).collect();
    milliseconds_from(10, &mut model, &others);
    assert!(is_cached(&model, 100) && is_cached(&model, 58) && !is_cached(&model, 2));
    assert_eq!(milliseconds_from(20, &mut model, &[(Op::Write, 100 * 4 * KIB, 8 * KIB)]), [10]);
    assert!(!is_cached(&model, 100), "a long write goes past the cache");
    assert_eq!(model.tier.contents().dirty_share(0), 0.0);
}

#[test]
fn a_block_is_promoted_after_as_many_misses_as_asked_for() {
    let times = milliseconds(&mut cached(|spec| spec.promote_after = 3), &[read(9); 5]);
    assert_eq!(times, [10, 10, 10, 1, 1]);
}

#[test]
fn contents_go_from_one_model_to_another() {
    let mut one = cached(|_| ());
    milliseconds(&mut one, &[read(1), read(2)]);
    let mut other = cached(|_| ());
    other.set_cache_contents(one.cache_contents().unwrap());
    assert_eq!(milliseconds(&mut other, &[read(1), read(2), read(3)]), [1, 1, 10]);
}

//! Cancelled commands of a hard disk, and their effect on the rest.
//!
//! An overhead of more than a revolution shows when a command has entered the disk.

use super::*;

/// A disk that serves the first of the reads at these offsets, and the tags of all.
fn busy(parameters: &HddParameters, offsets: &[u64]) -> (Bench, Vec<u64>) {
    let mut bench = Bench::new(parameters);
    let tags = offsets.iter().map(|&offset| bench.submit(Op::Read, offset, 4096)).collect();
    (bench, tags)
}

fn tags_of(completions: &[Completion]) -> Vec<u64> {
    completions.iter().map(|completion| completion.tag).collect()
}

/// With a depth of two, the first of four is being served, the second queued, and two wait in the
/// host.
#[test]
fn the_hosts_queue_always_gives_back_and_the_disks_own_if_it_can_abort() {
    for abort_queued in [false, true] {
        let parameters = HddParameters { queue_depth: 2, abort_queued, ..plain() };
        let (mut bench, tags) = busy(&parameters, &[0, 10 * GIB, 20 * GIB, 30 * GIB]);
        let given_back = |tag: u64| bench.disk.cancel(Nanos::ZERO, tag);
        let expected = [false, abort_queued, true, false];
        assert_eq!([tags[0], tags[1], tags[2], 99].map(given_back), expected);
        let rest: Vec<u64> = match abort_queued {
            false => vec![tags[0], tags[1], tags[3]],
            true => vec![tags[0], tags[3]],
        };
        assert_eq!(tags_of(&bench.drain()), rest);
    }
}

/// The room of an aborted command goes at once to the first in the host, which gets through its
/// overhead meanwhile: all is as if the command had never come.
#[test]
fn the_room_of_an_aborted_command_is_taken_at_once() {
    let command_overhead = Nanos::from_millis(11);
    let parameters =
        HddParameters { queue_depth: 2, abort_queued: true, command_overhead, ..plain() };
    let (mut bench, tags) = busy(&parameters, &[0, 60 * GIB, GIB]);
    let (mut without, _) = busy(&parameters, &[0, GIB]);
    assert!(bench.disk.cancel(Nanos::ZERO, tags[1]));
    let ends = bench.drain();
    assert_eq!(tags_of(&ends), [tags[0], tags[2]]);
    assert_eq!(ends[1].at, without.drain()[1].at);
}

/// A flush that lets nothing pass waits in the host for the queue to drain; without it, what waits
/// behind it joins the queue at once, as if the flush had never come.
#[test]
fn a_flush_taken_back_lets_pass_what_is_behind_it() {
    let parameters = HddParameters { command_overhead: Nanos::from_millis(11), ..plain() };
    let (mut bench, mut tags) = busy(&parameters, &[0]);
    tags.push(bench.submit(Op::Flush, 0, 0));
    tags.push(bench.submit(Op::Read, GIB, 4096));
    let (mut without, _) = busy(&parameters, &[0, GIB]);
    assert!(bench.disk.cancel(Nanos::ZERO, tags[1]));
    let ends = bench.drain();
    assert_eq!(tags_of(&ends), [tags[0], tags[2]]);
    assert_eq!(ends[1].at, without.drain()[1].at);
}

/// Neither a write in the cache, nor one that waits for room in it, nor a flush.
#[test]
fn the_write_path_gives_nothing_back() {
    let parameters =
        HddParameters { write_cache: 8192, queued_flush: true, abort_queued: true, ..plain() };
    let mut bench = Bench::new(&parameters);
    let mut tags: Vec<u64> =
        (0..4).map(|place| bench.submit(Op::Write, place * GIB, 4096)).collect();
    tags.push(bench.submit(Op::Flush, 0, 0));
    for &tag in &tags {
        assert!(!bench.disk.cancel(Nanos::ZERO, tag), "{tag}");
    }
    assert_eq!(bench.drain().len(), tags.len());
}

/// The only command in the queue goes; the disk has nothing more to do than to end what it serves.
#[test]
fn a_disk_left_without_work_comes_to_rest() {
    let parameters = HddParameters { abort_queued: true, ..plain() };
    let (mut bench, tags) = busy(&parameters, &[0, 50 * GIB]);
    assert!(bench.disk.cancel(Nanos::ZERO, tags[1]));
    let end = bench.next();
    assert_eq!((end.tag, bench.disk.next_event()), (tags[0], None));
}

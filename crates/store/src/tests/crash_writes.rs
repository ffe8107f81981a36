//! Writes after a crash that left a full dirty log, in virtual time on two hard disks.

use super::*;
use crate::label::DIRTY_REGIONS_MAX;
use std::collections::BTreeSet;

const SEEK: Nanos = Nanos::from_millis(8);
const BYTES_PER_MILLI: u64 = 150_000;
const DEPTH: u64 = 8;

/// A disk that does one I/O after the other.
#[derive(Clone, Copy, Default)]
struct SlowDisk {
    free_at: Nanos,
    head: u64,
}

impl SlowDisk {
    /// When an I/O ends that is submitted now.
    fn submit(&mut self, io: &MemberIo, now: Nanos) -> Nanos {
        let moves = io.op == Op::Flush || io.offset != self.head;
        let transfer = Nanos(io.length * 1_000_000 / BYTES_PER_MILLI);
        let service = if moves { SEEK + transfer } else { transfer };
        self.free_at = self.free_at.max(now) + service;
        self.head = io.offset + io.length;
        self.free_at
    }
}

/// A volume of 40 GiB whose log has this many regions after a crash.
fn crashed(unsynced: usize) -> Volume {
    let label = Label { is_clean: false, ..new_label(Profile::Raid1, 2, 40 << 30, false) };
    volume_of(label, (0..unsynced as u32).map(|index| index * 7).collect())
}

/// Runs random writes of 4 KiB and the resync for a time; returns the waits of the writes, in the
/// order of their ends, and the number of regions that were synchronised.
fn write_after_crash(unsynced: usize, until: Nanos) -> (Vec<Nanos>, u64) {
    let mut volume = crashed(unsynced);
    let regions = store(&volume).unsynced_bytes() / REGION_BYTES;
    let rng = &mut Rng::new(1);
    let mut disks = [SlowDisk::default(); 2];
    let mut ends: BTreeSet<(Nanos, u64, u64)> = BTreeSet::new();
    let mut ios: BTreeMap<u64, MemberIo> = BTreeMap::new();
    let mut begun: BTreeMap<u64, Nanos> = BTreeMap::new();
    let (mut now, mut count, mut next_id) = (Nanos::ZERO, 0, 0);
    // The resync as the service does it: a region, then a pause of that length unless writes wait.
    let (mut resync, mut next_resync, mut resynced_to) = (None, Nanos::ZERO, 0);
    let mut waits = Vec::new();
    while now < until {
        while (begun.len() as u64) < DEPTH {
            next_id += 1;
            begun.insert(next_id, now);
            let offset = rng.below(volume.capacity_bytes() / 4096) * 4096;
            volume.submit(request(next_id, (RequestKind::Write, offset, 4096)));
        }
        let is_due = now >= next_resync || store(&volume).waits_for_resync();
        if let (None, true, Some(range)) =
            (resync, is_due, store(&volume).next_unsynced(resynced_to))
        {
            next_id += 1;
            (resync, resynced_to) = (Some((next_id, now)), range.end);
            let range = (RequestKind::Resync, range.start, range.end - range.start);
            volume.submit(Request { stream: 1, background: true, ..request(next_id, range) });
        }
        while let Some(io) = volume.poll_io(now) {
            count += 1;
            ends.insert((disks[io.member.get()].submit(&io, now), count, io.id.0));
            ios.insert(io.id.0, io);
        }
        let next = ends.first().map(|(at, ..)| *at);
        let timers = [next, volume.poll_timeout(), resync.is_none().then_some(next_resync)];
        let timers = timers.into_iter().flatten().filter(|&at| at > now || Some(at) == next);
        now = timers.min().expect("something happens");
        volume.on_timeout(now);
        if next == Some(now) {
            let (_, _, id) = ends.pop_first().unwrap();
            let io = ios.remove(&id).unwrap();
            volume.complete(io.id, Ok(()), now);
        }
        while let Some(reply) = volume.poll_reply() {
            assert_eq!(reply.result, Ok(()));
            match resync.filter(|(id, _)| *id == reply.request.0) {
                Some((_, began)) => (resync, next_resync) = (None, now + (now - began)),
                None => waits.push(now - begun.remove(&reply.request.0).unwrap()),
            }
        }
    }
    (waits, regions - store(&volume).unsynced_bytes() / REGION_BYTES)
}

#[test]
fn writes_go_on_while_a_full_log_is_synchronised() {
    let run = |unsynced| {
        let (mut waits, synced) = write_after_crash(unsynced, Nanos::from_secs(20));
        let first = waits[..32].iter().copied().max().unwrap();
        let count = waits.len();
        waits.sort_unstable();
        let p99 = waits[count * 99 / 100];
        eprintln!(
            "{unsynced} regions: {count} writes, the first 32 in at most {first}, p99 {p99}, max \
             {}, {synced} regions synchronised",
            waits[count - 1]
        );
        (count, first, synced)
    };
    let (clean, first_clean, _) = run(0);
    for regions in [500, DIRTY_REGIONS_MAX] {
        let (count, first, synced) = run(regions);
        assert!(2 * count > clean, "{regions} regions: {count} of {clean} writes");
        assert!(first.0 < 4 * first_clean.0, "{regions} regions: {first} and {first_clean}");
        assert!(synced > 50, "the resync goes on: {synced}");
    }
}

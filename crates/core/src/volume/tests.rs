//! Tests of the volume with a small executor that keeps data: reads must return what was written.

mod choices;
mod failures;
mod layouts;
mod locks;
mod parity;
mod parity_history;
mod races;
mod reconstruction;
mod stripe_memory;
mod stripe_operations;

use super::*;
use crate::geometry::{ChunkMap, GeometryError, Profile};
use crate::io::{IoError, Outcome, Request, RequestId, RequestKind, VolumeError};
use crate::member::MemberConfig;
use crate::policy::{Choice, Mirror, MirrorSet};
use crate::units::{BLOCK_BYTES, MIB};
use std::collections::BTreeMap;
use stripe_memory::StripeMemory;

/// Reads the first eligible mirror.
struct First;

impl ReadPolicy for First {
    fn choose(&mut self, _: &Read, _: &[Mirror], _: &mut Ctx<'_>) -> Choice {
        Choice::Mirror(0)
    }
}

struct Splitter;

impl ReadPolicy for Splitter {
    fn choose(&mut self, _: &Read, mirrors: &[Mirror], _: &mut Ctx<'_>) -> Choice {
        Choice::Split(MirrorSet::all(mirrors))
    }
}

/// Draws any valid choice from the volume's generator.
struct Any;

impl ReadPolicy for Any {
    fn choose(&mut self, _: &Read, mirrors: &[Mirror], ctx: &mut Ctx<'_>) -> Choice {
        let number = mirrors.len() as u64;
        let first = ctx.rng.below(number) as usize;
        let other = (first + 1 + ctx.rng.below(number - 1) as usize) % mirrors.len();
        let after = Nanos(ctx.rng.below(2) * member_states::FIRST_BACKOFF.0 / 2);
        match ctx.rng.below(8) {
            0 => Choice::Split(MirrorSet::all(mirrors)),
            1 => Choice::All(MirrorSet::all(mirrors)),
            2..4 => Choice::Hedge { first, backup: other, after },
            4..6 => Choice::Tied { first, second: other, after },
            _ => Choice::Mirror(first),
        }
    }
}

const BLOCK: u64 = BLOCK_BYTES;

/// The member with this devid has no data yet.
fn stale(devid: u64) -> impl Fn(&mut MemberConfig) {
    move |config| {
        if config.devid == devid {
            config.state = MemberState::Rebuilding { recovered_bytes: 0 };
        }
    }
}

/// A volume, its members' contents block by block, and the data of requests.
struct World {
    volume: Volume,
    /// Contents by (member, block of the member); blocks never written hold zero.
    disks: BTreeMap<(u16, u64), u64>,
    /// Buffers by request: block of the volume to value.
    buffers: BTreeMap<u64, BTreeMap<u64, u64>>,
    /// Blocks that cannot be read until rewritten.
    bad: Vec<(u16, u64)>,
    now: Nanos,
    handed_out: Vec<MemberIo>,
    stripes: StripeMemory,
}

impl World {
    fn new(profile: Profile, members: usize, policy: Box<dyn ReadPolicy>) -> World {
        World::with(profile, members, policy, |_| {})
    }

    fn with(
        profile: Profile,
        members: usize,
        policy: Box<dyn ReadPolicy>,
        adjust: impl Fn(&mut MemberConfig),
    ) -> World {
        let map = |configs: &[MemberConfig]| ChunkMap::allocate(profile, None, configs);
        World::over(members, adjust, map, policy)
    }

    /// An array laid out by `map`.
    fn over(
        members: usize,
        adjust: impl Fn(&mut MemberConfig),
        map: impl Fn(&[MemberConfig]) -> Result<ChunkMap, GeometryError>,
        policy: Box<dyn ReadPolicy>,
    ) -> World {
        let configs: Vec<MemberConfig> = (1..=members as u64)
            .map(|devid| {
                let mut config = MemberConfig::new(devid, 200 * MIB);
                adjust(&mut config);
                config
            })
            .collect();
        let map = map(&configs).unwrap();
        World {
            volume: Volume::new(map, Members::new(configs), policy, 1),
            disks: BTreeMap::new(),
            buffers: BTreeMap::new(),
            bad: Vec::new(),
            now: Nanos::ZERO,
            handed_out: Vec::new(),
            stripes: StripeMemory::default(),
        }
    }

    fn request(&mut self, id: u64, kind: RequestKind, offset: u64, length: u64) {
        let id = RequestId(id);
        let request = Request { id, kind, offset, length, stream: 0, cpu: 0, background: false };
        self.buffers.entry(id.0).or_default();
        self.volume.submit(request);
    }

    /// Submits a write that fills the range with `value`.
    fn write(&mut self, id: u64, offset: u64, length: u64, value: u64) {
        let blocks = offset / BLOCK..(offset + length) / BLOCK;
        self.buffers.insert(id, blocks.map(|block| (block, value)).collect());
        self.request(id, RequestKind::Write, offset, length);
    }

    /// Fills the range with `value`, and waits for the reply.
    fn put(&mut self, id: u64, offset: u64, length: u64, value: u64) {
        self.write(id, offset, length, value);
        self.settle();
        assert_eq!(self.reply(), Some((id, Ok(()))));
    }

    /// The result of a request that is replied to before all others.
    fn result(
        &mut self,
        id: u64,
        kind: RequestKind,
        offset: u64,
        length: u64,
    ) -> Result<(), VolumeError> {
        self.request(id, kind, offset, length);
        self.settle();
        let (replied, result) = self.reply().expect("it ends");
        assert_eq!(replied, id);
        result
    }

    fn complete_all(&mut self, ios: impl IntoIterator<Item = MemberIo>) {
        for io in ios {
            self.complete(io);
        }
    }

    /// Returns all I/O that the volume hands out.
    fn pump(&mut self) -> Vec<MemberIo> {
        let mut ios = Vec::new();
        while let Some(io) = self.volume.poll_io(self.now) {
            self.do_stripe_steps();
            self.handed_out.push(io);
            ios.push(io);
        }
        self.do_stripe_steps();
        ios
    }

    /// Performs the I/O on the contents and reports its end. A read has a buffer of its own until
    /// the volume reports that its data counts.
    fn complete(&mut self, io: MemberIo) -> Outcome {
        let read = self.perform(&io);
        let result = read.as_ref().map(|_| ()).map_err(|error| *error);
        let (_, outcome) = self.volume.complete(io.id, result, self.now);
        if !outcome.superseded {
            let buffer = self.buffers.get_mut(&io.request.0).unwrap();
            buffer.extend(read.unwrap_or_default());
        }
        outcome
    }

    /// Performs the I/O; returns the blocks of the volume that a read got.
    fn perform(&mut self, io: &MemberIo) -> Result<Vec<(u64, u64)>, IoError> {
        let member = io.member.0;
        if io.role == ReadRole::Stripe {
            return self.perform_for_stripe(io);
        }
        let blocks = io.length / BLOCK;
        let on_member = |index| (member, io.offset / BLOCK + index);
        let on_volume = |index| io.volume_offset / BLOCK + index;
        match io.op {
            Op::Read => {
                if (0..blocks).any(|index| self.bad.contains(&on_member(index))) {
                    return Err(IoError::Medium);
                }
                let value = |index| self.disks.get(&on_member(index)).copied().unwrap_or(0);
                return Ok((0..blocks).map(|index| (on_volume(index), value(index))).collect());
            }
            Op::Write => {
                for index in 0..blocks {
                    let value = self.buffers[&io.request.0][&on_volume(index)];
                    self.disks.insert(on_member(index), value);
                    self.bad.retain(|&bad| bad != on_member(index));
                }
            }
            Op::Flush | Op::Discard => {}
        }
        Ok(Vec::new())
    }

    /// Cancels an I/O, as the volume asked.
    fn cancel(&mut self, io: MemberIo) {
        self.volume.complete(io.id, Err(IoError::Cancelled), self.now);
    }

    /// Completes all I/O in order until the volume hands out no more.
    fn settle(&mut self) {
        loop {
            let ios = self.pump();
            if ios.is_empty() {
                return;
            }
            self.complete_all(ios);
        }
    }

    fn reply(&mut self) -> Option<(u64, Result<(), VolumeError>)> {
        self.do_stripe_steps();
        self.volume.poll_reply().map(|reply| (reply.request.0, reply.result))
    }

    fn members_of(&self, op: Op, purpose: Purpose) -> Vec<u16> {
        let ios = self.handed_out.iter().filter(|io| io.op == op && io.purpose == purpose);
        ios.map(|io| io.member.0).collect()
    }
}

#[test]
fn a_write_reaches_every_copy_and_a_read_one() {
    let mut world = World::new(Profile::Raid1c3, 3, Box::new(First));
    world.put(1, 0, 8192, 7);
    assert_eq!(world.members_of(Op::Write, Purpose::User).len(), 3);
    assert_eq!(world.result(2, RequestKind::Read, 0, 8192), Ok(()));
    assert_eq!(world.members_of(Op::Read, Purpose::User), [0]);
    assert!(world.buffers[&2].values().all(|&value| value == 7));
    assert!(world.volume.is_idle());
}

#[test]
fn raid10_decides_per_strip() {
    let mut world = World::new(Profile::Raid10, 4, Box::new(First));
    world.request(1, RequestKind::Read, 32 * 1024, 128 * 1024);
    let lengths: Vec<u64> = world.pump().iter().map(|io| io.length >> 10).collect();
    assert_eq!(lengths, [32, 64, 32]);
}

#[test]
fn a_failed_read_is_retried_then_repaired_before_the_reply() {
    let mut world = World::new(Profile::Raid1, 2, Box::new(First));
    world.put(1, 0, 4096, 9);
    let mirror = world.volume.map().map(0, 4096).mirrors[0];
    world.bad.push((mirror.member.0, mirror.offset / BLOCK + 3));
    world.request(2, RequestKind::Read, 0, 4096);
    for expected in [(Op::Read, Purpose::User), (Op::Read, Purpose::User)] {
        let ios = world.pump();
        assert_eq!(ios.iter().map(|io| (io.op, io.purpose)).collect::<Vec<_>>(), [expected]);
        world.complete(ios[0]);
        assert_eq!(world.reply(), None, "the reply waits for the repair");
    }
    let repair = world.pump();
    assert_eq!((repair[0].op, repair[0].purpose), (Op::Write, Purpose::Repair));
    assert_eq!(repair[0].member, mirror.member);
    world.complete(repair[0]);
    assert_eq!(world.reply(), None, "the reply waits until the repair is read back");
    let read_back = world.pump();
    assert_eq!((read_back[0].op, read_back[0].purpose), (Op::Read, Purpose::Repair));
    assert_eq!((read_back.len(), read_back[0].member), (1, mirror.member));
    world.complete(read_back[0]);
    assert_eq!(world.reply(), Some((2, Ok(()))));
    assert!(world.bad.is_empty(), "rewritten");
}

/// The data of such a mirror are as good as before: a write that could not reach it would have
/// failed it.
#[test]
fn a_mirror_behind_a_failed_transport_is_not_rewritten() {
    let mut world = World::new(Profile::Raid1, 2, Box::new(First));
    world.put(1, 0, 4096, 9);
    for (kind, id) in [(RequestKind::Read, 2), (RequestKind::Scrub, 3)] {
        world.request(id, kind, 0, 4096);
        let ios = world.pump();
        world.volume.complete(ios[0].id, Err(IoError::Transport), world.now);
        world.complete_all(ios[1..].iter().copied());
        world.settle();
        assert_eq!(world.reply(), Some((id, Ok(()))));
    }
    assert!(world.buffers[&2].values().all(|&value| value == 9));
    assert!(world.members_of(Op::Write, Purpose::Repair).is_empty());
    let states = world.volume.members().iter().map(|(_, member)| member.state);
    assert!(states.into_iter().all(|state| state == MemberState::InSync));
}

#[test]
fn a_read_fails_only_when_every_copy_did() {
    let mut world = World::new(Profile::Raid1, 2, Box::new(First));
    for mirror in &world.volume.map().map(0, 4096).mirrors[..2] {
        world.bad.push((mirror.member.0, mirror.offset / BLOCK));
    }
    assert_eq!(world.result(1, RequestKind::Read, 0, 4096), Err(VolumeError::Unreadable));
    assert_eq!(world.members_of(Op::Read, Purpose::User).len(), 2);
}

#[test]
fn after_an_error_a_member_is_not_read_until_its_backoff_ends() {
    let mut world = World::new(Profile::Raid1, 2, Box::new(First));
    let mirror = world.volume.map().map(0, 4096).mirrors[0];
    world.bad.push((mirror.member.0, mirror.offset / BLOCK));
    world.request(1, RequestKind::Read, 0, 4096);
    world.settle();
    let other_than_first = |world: &mut World, id| {
        world.request(id, RequestKind::Read, MIB, 4096);
        let ios = world.pump();
        world.complete(ios[0]);
        ios[0].member != mirror.member
    };
    assert!(other_than_first(&mut world, 2), "it is in back-off");
    let until = world.volume.poll_timeout().unwrap();
    assert_eq!(until, member_states::FIRST_BACKOFF);
    world.now = until;
    world.volume.on_timeout(until);
    assert!(!other_than_first(&mut world, 3), "its back-off is over");
    assert_eq!(world.volume.poll_timeout(), None);
}

#[test]
fn a_member_that_cannot_be_written_fails_unless_none_could() {
    let mut world = World::new(Profile::Raid1, 2, Box::new(First));
    world.write(1, 0, 4096, 1);
    let ios = world.pump();
    world.volume.complete(ios[0].id, Err(IoError::Medium), Nanos::ZERO);
    world.complete(ios[1]);
    assert_eq!(world.reply(), Some((1, Ok(()))));
    assert_eq!(world.volume.members()[ios[0].member].state, MemberState::Failed);
    world.write(2, 0, 4096, 2);
    let ios = world.pump();
    assert_eq!(ios.len(), 1, "a failed member is not written");
    world.volume.complete(ios[0].id, Err(IoError::Transport), Nanos::ZERO);
    assert_eq!(world.reply(), Some((2, Err(VolumeError::Unwritable))));
    assert_eq!(world.volume.members()[ios[0].member].state, MemberState::InSync);
}

#[test]
fn write_mostly_is_read_only_when_nothing_else_can() {
    let write_first = |config: &mut MemberConfig| config.write_mostly = config.devid == 1;
    let mut world = World::with(Profile::Raid1, 2, Box::new(First), write_first);
    world.request(1, RequestKind::Read, 0, 4096);
    world.settle();
    assert_eq!(world.members_of(Op::Read, Purpose::User), [1]);
    world.volume.set_member_state(MemberIndex(1), MemberState::Failed);
    world.request(2, RequestKind::Read, 0, 4096);
    world.settle();
    assert_eq!(world.members_of(Op::Read, Purpose::User), [1, 0]);
}

#[test]
fn split_reads_one_part_from_each_mirror() {
    let mut world = World::new(Profile::Raid1c3, 3, Box::new(Splitter));
    world.put(1, 0, 128 * 1024, 5);
    world.request(2, RequestKind::Read, 0, 128 * 1024);
    world.settle();
    let reads: Vec<_> = world.handed_out.iter().filter(|io| io.op == Op::Read).collect();
    assert_eq!(reads.iter().map(|io| io.length).collect::<Vec<_>>(), [44_032, 44_032, 43_008]);
    assert_eq!(reads.iter().map(|io| io.member.0).collect::<Vec<_>>(), [0, 1, 2]);
    assert_eq!(world.reply(), Some((2, Ok(()))));
    assert_eq!(world.buffers[&2].len(), 256);
    world.request(3, RequestKind::Read, 0, BLOCK);
    assert_eq!(world.pump().len(), 1, "a read too short for all is read by the first");
}

#[test]
fn a_rebuild_moves_the_recovery_offset() {
    let mut world = World::with(Profile::Raid1, 2, Box::new(Any), stale(2));
    let target = MemberIndex(1);
    let half = 100 * MIB;
    assert_eq!(world.result(1, RequestKind::Rebuild(target), 0, half), Ok(()));
    assert_eq!(world.members_of(Op::Write, Purpose::Rebuild), [1; 3], "40 MiB chunks");
    let state = world.volume.members()[target].state;
    assert_eq!(state, MemberState::Rebuilding { recovered_bytes: half });
    world.request(2, RequestKind::Rebuild(target), half, half);
    world.settle();
    assert_eq!(world.volume.members()[target].state, MemberState::InSync);
    // One in sync is copied, for a device that takes its place.
    world.request(3, RequestKind::Rebuild(target), 0, half);
    world.settle();
    assert_eq!([2, 3].map(|id| world.reply() == Some((id, Ok(())))), [true; 2]);
    world.volume.set_member_state(target, MemberState::Failed);
    world.request(4, RequestKind::Rebuild(target), 0, half);
    assert_eq!(world.reply(), Some((4, Err(VolumeError::NotRebuilding))));
}

#[test]
fn a_write_waits_for_a_rebuild_of_its_range() {
    let mut world = World::with(Profile::Raid1, 2, Box::new(First), stale(2));
    world.request(1, RequestKind::Rebuild(MemberIndex(1)), 0, 8 * MIB);
    let read = world.pump();
    world.write(2, 0, 4096, 3);
    world.write(3, 64 * MIB, 4096, 3);
    let distant = world.pump();
    assert!(distant.iter().all(|io| io.request == RequestId(3)), "only the distant write goes on");
    world.complete_all(read.into_iter().chain(distant));
    world.settle();
    let mirrors = world.volume.map().map(0, 4096).mirrors;
    for mirror in &mirrors[..2] {
        assert_eq!(world.disks[&(mirror.member.0, mirror.offset / BLOCK)], 3);
    }
}

#[test]
fn a_flush_reaches_every_member_and_a_scrub_every_copy() {
    let mut world = World::new(Profile::Raid1, 4, Box::new(First));
    world.request(1, RequestKind::Flush, 0, 0);
    world.settle();
    assert_eq!(world.members_of(Op::Flush, Purpose::User), [0, 1, 2, 3]);
    let bad = world.volume.map().map(0, 4096).mirrors[1];
    world.bad.push((bad.member.0, bad.offset / BLOCK));
    world.request(2, RequestKind::Scrub, 0, 4096);
    world.settle();
    assert_eq!(world.members_of(Op::Read, Purpose::Scrub).len(), 2);
    assert_eq!(world.members_of(Op::Write, Purpose::Repair), [bad.member.0]);
    assert!(world.bad.is_empty());
}

#[test]
fn a_flush_may_fail_on_one_member_but_not_on_the_last() {
    let mut world = World::new(Profile::Raid1, 2, Box::new(First));
    world.request(1, RequestKind::Flush, 0, 0);
    let ios = world.pump();
    world.volume.complete(ios[0].id, Err(IoError::Transport), Nanos::ZERO);
    world.complete(ios[1]);
    assert_eq!(world.reply(), Some((1, Ok(()))));
    assert_eq!(world.volume.members()[ios[0].member].state, MemberState::Failed);
    world.request(2, RequestKind::Flush, 0, 0);
    let ios = world.pump();
    world.volume.complete(ios[0].id, Err(IoError::Transport), Nanos::ZERO);
    assert_eq!(world.reply(), Some((2, Err(VolumeError::Unwritable))));
    assert_eq!(world.volume.members()[ios[0].member].state, MemberState::InSync);
}

#[test]
fn a_write_waits_for_every_part_of_a_split_rebuild() {
    let mut world = World::with(Profile::Raid1c3, 3, Box::new(Splitter), stale(3));
    world.request(1, RequestKind::Rebuild(MemberIndex(2)), MIB, MIB);
    let reads = world.pump();
    assert_eq!(reads.len(), 2);
    assert!(reads.iter().all(|io| io.purpose == Purpose::Rebuild));
    world.write(2, MIB - 4096, 4096, 3);
    assert!(world.pump().is_empty(), "the second half of the range is locked too");
    world.complete_all(reads);
    world.settle();
    let mirrors = world.volume.map().map(MIB - 4096, 4096).mirrors;
    for mirror in &mirrors[..3] {
        assert_eq!(world.disks[&(mirror.member.0, mirror.offset / BLOCK)], 3);
    }
}

#[test]
fn requests_outside_the_volume_are_refused() {
    let mut world = World::new(Profile::Raid1, 2, Box::new(First));
    let end = world.volume.capacity_bytes();
    for (offset, length) in [(end, BLOCK), (0, end + BLOCK), (1, BLOCK), (u64::MAX - 511, 1024)] {
        world.request(1, RequestKind::Read, offset, length);
        assert_eq!(world.reply(), Some((1, Err(VolumeError::OutOfRange))), "{offset}+{length}");
    }
    world.request(2, RequestKind::Read, 0, 0);
    assert_eq!(world.reply(), Some((2, Ok(()))), "an empty read ends at once");
}

#[test]
#[should_panic(expected = "completes once")]
fn a_second_completion_is_a_bug() {
    let mut world = World::new(Profile::Raid1, 2, Box::new(First));
    world.request(1, RequestKind::Read, 0, 4096);
    let ios = world.pump();
    world.complete(ios[0]);
    world.request(2, RequestKind::Read, 0, 4096);
    world.pump();
    world.volume.complete(ios[0].id, Ok(()), Nanos::ZERO);
}

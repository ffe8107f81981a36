//! Random histories: no order of events loses data.

use super::*;
use crate::geometry::ArrayLayout;
use crate::units::SECTOR_BYTES;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::BTreeSet;
use std::ops::Range;

/// One step of a random history.
#[derive(Clone, Debug)]
enum Action {
    Read {
        block: u64,
        blocks: u64,
    },
    Write {
        block: u64,
        blocks: u64,
    },
    Scrub {
        block: u64,
        blocks: u64,
    },
    Rebuild {
        megabyte: u64,
    },
    Complete {
        pick: usize,
    },
    /// Fail a read in its transport.
    Lose {
        pick: usize,
    },
    /// Cancel the read that the volume names next, if it is in flight.
    Cancel,
    Spoil {
        copy: usize,
        block: u64,
    },
    Wait,
}

fn action() -> impl Strategy<Value = Action> {
    // A few blocks on both sides of a strip's edge, so that requests overlap and straddle.
    let range = || (100..156u64, 1..40u64);
    prop_oneof![
        3 => range().prop_map(|(block, blocks)| Action::Read { block, blocks }),
        3 => range().prop_map(|(block, blocks)| Action::Write { block, blocks }),
        1 => range().prop_map(|(block, blocks)| Action::Scrub { block, blocks }),
        1 => (0..3u64).prop_map(|megabyte| Action::Rebuild { megabyte }),
        8 => any::<usize>().prop_map(|pick| Action::Complete { pick }),
        1 => (0..2usize, 100..190u64).prop_map(|(copy, block)| Action::Spoil { copy, block }),
        1 => any::<usize>().prop_map(|pick| Action::Lose { pick }),
        2 => Just(Action::Cancel),
        1 => Just(Action::Wait),
    ]
}

/// What the volume must hold: per block, the least value that a read may return now. Values grow:
/// overlapping writes run in the order of submission, and each writes its request number.
#[derive(Default)]
struct Truth {
    settled: BTreeMap<u64, u64>,
    /// Writes not yet replied to, by request.
    open: BTreeMap<u64, Range<u64>>,
}

impl Truth {
    /// Takes the end of a write. A later write of the same block may have ended before it.
    fn settle(&mut self, blocks: Range<u64>, value: u64) {
        for block in blocks {
            let settled = self.settled.entry(block).or_default();
            *settled = value.max(*settled);
        }
    }
}

/// A history in progress.
struct Play {
    world: World,
    truth: Truth,
    flying: Vec<MemberIo>,
    /// Reads not yet replied to: their blocks, and what was settled when they began.
    reads: BTreeMap<u64, (Range<u64>, BTreeMap<u64, u64>)>,
    replied: Vec<u64>,
    /// Requests of which a read failed or was lost on its way back: if the other copy's is lost as
    /// well, they fail by rights, even if the first copy was rewritten meanwhile.
    unlucky: BTreeSet<u64>,
    requests: u64,
}

impl Play {
    fn new(world: World) -> Play {
        Play {
            world,
            truth: Truth::default(),
            flying: Vec::new(),
            reads: BTreeMap::new(),
            replied: Vec::new(),
            unlucky: BTreeSet::new(),
            requests: 0,
        }
    }

    fn act(&mut self, action: Action) {
        self.requests += 1;
        let (id, world) = (self.requests, &mut self.world);
        match action {
            Action::Read { block, blocks } => {
                self.reads.insert(id, (block..block + blocks, self.truth.settled.clone()));
                world.request(id, RequestKind::Read, block * BLOCK, blocks * BLOCK);
            }
            Action::Write { block, blocks } => {
                self.truth.open.insert(id, block..block + blocks);
                world.write(id, block * BLOCK, blocks * BLOCK, id);
            }
            Action::Scrub { block, blocks } => {
                world.request(id, RequestKind::Scrub, block * BLOCK, blocks * BLOCK);
            }
            Action::Rebuild { megabyte } => {
                world.request(id, RequestKind::Rebuild(MemberIndex(1)), megabyte * MIB, MIB);
            }
            Action::Complete { pick } if !self.flying.is_empty() => {
                let io = self.flying.swap_remove(pick % self.flying.len());
                if world.complete(io).result.is_err() {
                    self.unlucky.insert(io.request.0);
                }
            }
            Action::Lose { pick } if !self.flying.is_empty() => {
                let pick = pick % self.flying.len();
                let io = self.flying[pick];
                if may_be_lost(world, &io) && self.unlucky.insert(io.request.0) {
                    self.flying.swap_remove(pick);
                    world.volume.complete(io.id, Err(IoError::Transport), world.now);
                }
            }
            // A read that met one spoiled copy may rightly fail if the other spoils under its
            // hands, so copies spoil only between requests.
            Action::Spoil { copy, block } if world.volume.is_idle() => spoil(world, copy, block),
            Action::Cancel => {
                if let Some(io) = world.volume.poll_cancel() {
                    self.flying.retain(|flying| flying.id != io.id);
                    world.cancel(io);
                }
            }
            Action::Wait => {
                world.now += backoff::FIRST / 4;
                world.volume.on_timeout(world.now);
            }
            Action::Complete { .. } | Action::Lose { .. } | Action::Spoil { .. } => {}
        }
        self.flying.extend(self.world.pump());
    }

    /// Takes the replies and checks them.
    fn check_replies(&mut self) -> Result<(), TestCaseError> {
        while let Some((request, result)) = self.world.reply() {
            self.replied.push(request);
            if let Some(blocks) = self.truth.open.remove(&request) {
                prop_assert_eq!(result, Ok(()));
                self.truth.settle(blocks, request);
            }
            if let Some((blocks, before)) = self.reads.remove(&request) {
                prop_assert_eq!(result, Ok(()));
                for block in blocks {
                    // What was settled when the read began, or any write since: values only grow.
                    let value = self.world.buffers[&request][&block];
                    let settled = before.get(&block).copied().unwrap_or(0);
                    prop_assert!(value >= settled, "{value} at {block}, after {settled}");
                }
            }
        }
        Ok(())
    }

    fn end(mut self) -> Result<(), TestCaseError> {
        prop_assert!(self.world.volume.is_idle(), "every request is replied to");
        let replies = self.replied.len();
        self.replied.sort_unstable();
        self.replied.dedup();
        prop_assert_eq!(self.replied.len(), replies, "and only once");
        let volume = &self.world.volume;
        let is_well = |member: &crate::member::Member| member.state != MemberState::Failed;
        prop_assert!(volume.members().iter().all(|(_, member)| is_well(member)));
        for (&block, &value) in &self.truth.settled {
            let extent = volume.map().map(block * BLOCK, BLOCK);
            for mirror in extent.mirrors() {
                if volume.members()[mirror.member].is_in_sync(mirror.offset, BLOCK) {
                    let held = self.world.disks.get(&(mirror.member.0, mirror.offset / BLOCK));
                    prop_assert_eq!(held, Some(&value), "block {} on {:?}", block, mirror);
                }
            }
        }
        Ok(())
    }
}

/// Makes a copy of a block unreadable, if another copy of its sector stays good: else data would be
/// lost by rights.
fn spoil(world: &mut World, copy: usize, block: u64) {
    let extent = world.volume.map().map(block * BLOCK, BLOCK);
    let mirror = extent.mirrors[copy];
    let sector = |block: u64| block / (SECTOR_BYTES / BLOCK);
    let is_good = |other: &Mirror| {
        let place = (other.member.0, sector(other.offset / BLOCK));
        let spoiled = |&(member, block): &(u16, u64)| (member, sector(block)) == place;
        let in_sync = world.volume.members()[other.member].state == MemberState::InSync;
        in_sync && !world.bad.iter().any(spoiled)
    };
    let others = extent.mirrors().iter().filter(|other| other.member != mirror.member);
    if others.into_iter().any(is_good) {
        world.bad.push((mirror.member.0, mirror.offset / BLOCK));
    }
}

/// Whether a read may be lost without costing data: another copy can be read, and none is spoiled.
fn may_be_lost(world: &World, io: &MemberIo) -> bool {
    let extent = world.volume.map().map(io.volume_offset, io.length);
    let can_serve = |mirror: &Mirror| {
        let member = &world.volume.members()[mirror.member];
        mirror.member != io.member && member.is_in_sync(mirror.offset, io.length)
    };
    io.op == Op::Read && world.bad.is_empty() && extent.mirrors().iter().any(can_serve)
}

/// How an array is laid out.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Chunks(Profile),
    Arranged(ArrayLayout),
}

fn shape() -> impl Strategy<Value = Shape> {
    const RAID10: &[&str] =
        &["md-raid10-near:2", "md-raid10-near:3", "md-raid10-far:2", "md-raid10-offset:2"];
    let chunks = select(&[Profile::Raid1, Profile::Raid1c3, Profile::Raid10][..]);
    let small_chunks = |layout: &str| layout.parse::<ArrayLayout>()?.with_chunk(64 << 10);
    prop_oneof![
        3 => chunks.prop_map(Shape::Chunks),
        2 => select(RAID10).prop_map(move |name| Shape::Arranged(small_chunks(name).unwrap())),
        1 => select(&["md-raid1", "gmirror", "zfs-mirror:2"][..])
            .prop_map(|name| Shape::Arranged(name.parse().unwrap())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Random requests, completions in any order, media errors, lost reads, a rebuild under way:
    /// every request is replied to once, reads never return data older than what was settled before
    /// they began, and in the end no member has failed and the copies in sync agree.
    #[test]
    fn no_history_loses_data(
        shape in shape(),
        rebuilding in any::<bool>(),
        history in prop::collection::vec(action(), 1..120),
    ) {
        let adjust = |config: &mut MemberConfig| {
            if rebuilding && config.devid == 2 {
                config.state = MemberState::Rebuilding { recovered_bytes: 0 };
            }
        };
        let map = |configs: &[MemberConfig]| match shape {
            Shape::Chunks(profile) => ChunkMap::allocate(profile, None, configs),
            Shape::Arranged(layout) => ChunkMap::arrange(layout, configs),
        };
        let mut play = Play::new(World::over(4, adjust, map, Box::new(Any)));
        let drain = (0..2000).map(|pick| Action::Complete { pick });
        for action in history.into_iter().chain(drain) {
            play.act(action);
            play.check_replies()?;
        }
        play.end()?;
    }
}

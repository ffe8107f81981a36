//! Random histories: whatever happens in whatever order, no data is lost.

use super::*;
use crate::units::SECTOR_BYTES;
use proptest::prelude::*;

/// One step of a random history.
#[derive(Clone, Debug)]
enum Action {
    Read { block: u64, blocks: u64 },
    Write { block: u64, blocks: u64 },
    Scrub { block: u64, blocks: u64 },
    Rebuild { megabyte: u64 },
    Complete { pick: usize },
    Spoil { copy: usize, block: u64 },
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
        1 => Just(Action::Wait),
    ]
}

/// What the volume must hold: per block, the values that a read may return now.
#[derive(Default)]
struct Truth {
    settled: BTreeMap<u64, u64>,
    /// Writes not yet replied to, by request.
    open: BTreeMap<u64, (u64, u64)>,
}

impl Truth {
    /// A read may return what was settled when it started, or any write open at some time since;
    /// with the values of writes growing, that is anything from the settled value up.
    fn allows(&self, settled_at_start: u64, value: u64, latest: u64) -> bool {
        (settled_at_start..=latest).contains(&value)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    /// Random requests, completions in any order, media errors, a rebuild under way: every request
    /// is replied to once, reads never return data older than what was settled before they began,
    /// and in the end the copies in sync agree.
    #[test]
    fn no_history_loses_data(
        profile in prop_oneof![Just(Profile::Raid1), Just(Profile::Raid1c3), Just(Profile::Raid10)],
        rebuilding in any::<bool>(),
        history in prop::collection::vec(action(), 1..120),
    ) {
        let adjust = |config: &mut MemberConfig| {
            if rebuilding && config.devid == 2 {
                config.state = MemberState::Rebuilding { recovered_bytes: 0 };
            }
        };
        let mut world = World::with(profile, 4, Box::new(Any), adjust);
        let mut truth = Truth::default();
        let mut flying: Vec<MemberIo> = Vec::new();
        let mut reads: BTreeMap<u64, (u64, u64, BTreeMap<u64, u64>)> = BTreeMap::new();
        let mut replied = Vec::new();
        let mut id = 0;
        let drain = (0..2000).map(|pick| Action::Complete { pick });
        for action in history.into_iter().chain(drain) {
            id += 1;
            match action {
                Action::Read { block, blocks } => {
                    reads.insert(id, (block, blocks, truth.settled.clone()));
                    world.request(id, RequestKind::Read, block * BLOCK, blocks * BLOCK);
                }
                Action::Write { block, blocks } => {
                    // Two writes to one block at once leave copies that may differ, on any mirror:
                    // a client orders them itself.
                    let overlaps = |&(from, until): &(u64, u64)| from < block + blocks && block < until;
                    if truth.open.values().any(overlaps) {
                        continue;
                    }
                    truth.open.insert(id, (block, block + blocks));
                    world.write(id, block * BLOCK, blocks * BLOCK, id);
                }
                Action::Scrub { block, blocks } => {
                    world.request(id, RequestKind::Scrub, block * BLOCK, blocks * BLOCK);
                }
                Action::Rebuild { megabyte } => {
                    let target = RequestKind::Rebuild(MemberIndex(1));
                    world.request(id, target, megabyte * MIB, MIB);
                }
                Action::Complete { pick } if !flying.is_empty() => {
                    let io = flying.swap_remove(pick % flying.len());
                    world.complete(io);
                }
                // A read that met one spoiled copy may rightly fail if the other spoils under its
                // hands, so copies spoil only between requests.
                Action::Spoil { copy, block } if world.volume.is_idle() => {
                    let extent = world.volume.map().map(block * BLOCK, BLOCK);
                    let mirror = extent.mirrors[copy];
                    // One copy stays good, or data would be lost by rights.
                    let others = extent.mirrors[..usize::from(extent.copies)].iter();
                    let mut others = others.filter(|other| other.member != mirror.member);
                    let sectors = SECTOR_BYTES / BLOCK;
                    let sector = |block: u64| block / sectors;
                    let safe = others.any(|other| {
                        let member = &world.volume.members()[other.member];
                        let place = (other.member.0, sector(other.offset / BLOCK));
                        let spoiled = |&(member, block): &(u16, u64)| (member, sector(block)) == place;
                        member.state == MemberState::InSync && !world.bad.iter().any(spoiled)
                    });
                    if safe {
                        world.bad.push((mirror.member.0, mirror.offset / BLOCK));
                    }
                }
                Action::Wait => {
                    world.now += backoff::FIRST;
                    world.volume.on_timeout(world.now);
                }
                Action::Complete { .. } | Action::Spoil { .. } => {}
            }
            flying.extend(world.pump());
            while let Some((request, result)) = world.reply() {
                replied.push(request);
                if let Some((from, until)) = truth.open.remove(&request) {
                    prop_assert_eq!(result, Ok(()));
                    truth.settled.extend((from..until).map(|block| (block, request)));
                }
                if let Some((block, blocks, before)) = reads.remove(&request) {
                    prop_assert_eq!(result, Ok(()));
                    for block in block..block + blocks {
                        let value = world.buffers[&request][&block];
                        let floor = before.get(&block).copied().unwrap_or(0);
                        prop_assert!(truth.allows(floor, value, id), "{value} at {block}");
                    }
                }
            }
        }
        prop_assert!(world.volume.is_idle(), "every request is replied to");
        let mut unique = replied.clone();
        unique.sort_unstable();
        unique.dedup();
        prop_assert_eq!(unique.len(), replied.len(), "and only once");
        for (&block, &value) in &truth.settled {
            let extent = world.volume.map().map(block * BLOCK, BLOCK);
            for mirror in &extent.mirrors[..usize::from(extent.copies)] {
                let member = &world.volume.members()[mirror.member];
                if member.in_sync(mirror.offset, BLOCK) {
                    let held = world.disks.get(&(mirror.member.0, mirror.offset / BLOCK));
                    prop_assert_eq!(held, Some(&value), "block {} on {:?}", block, mirror);
                }
            }
        }
    }
}

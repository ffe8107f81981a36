//! Random histories of volumes with parity: no order of events within the losses that the profile
//! allows loses what was acknowledged, and nothing else is read.

use super::parity::check_parities;
use super::*;
use crate::column_set::ColumnSet;
use crate::geometry::{ArrayLayout, StripeColumn};
use crate::policy::StripeRead;
use crate::units::{KIB, SECTOR_BYTES};
use crate::volume::RmwLevel;
use proptest::prelude::*;
use proptest::sample::select;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Blocks that requests touch: two full stripes and a bit, in strips of 8 blocks.
const STRIP: u64 = 8 * BLOCK;
const BLOCKS: u64 = 64;

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
    },
    Rebuild {
        rows: u64,
    },
    Complete {
        pick: usize,
    },
    /// A member is gone; its I/O in flight ends in an error, done or not.
    Kill {
        member: u16,
        done: bool,
    },
    /// The first failed member comes back, with anything on it.
    Return,
    /// A write fails, done or not.
    FailWrite {
        pick: usize,
        done: bool,
    },
    /// A read fails in its transport.
    Lose {
        pick: usize,
    },
    /// A sector becomes unreadable.
    Spoil {
        member: u16,
        sector: u64,
    },
    Wait,
}

fn action() -> impl Strategy<Value = Action> {
    let range = || (0..BLOCKS - 24, 1..25u64);
    prop_oneof![
        4 => range().prop_map(|(block, blocks)| Action::Read { block, blocks }),
        6 => range().prop_map(|(block, blocks)| Action::Write { block, blocks }),
        1 => (0..BLOCKS).prop_map(|block| Action::Scrub { block }),
        2 => (1..20u64).prop_map(|rows| Action::Rebuild { rows }),
        12 => any::<usize>().prop_map(|pick| Action::Complete { pick }),
        1 => (0..7u16, any::<bool>()).prop_map(|(member, done)| Action::Kill { member, done }),
        1 => Just(Action::Return),
        1 => (any::<usize>(), any::<bool>())
            .prop_map(|(pick, done)| Action::FailWrite { pick, done }),
        1 => any::<usize>().prop_map(|pick| Action::Lose { pick }),
        2 => (0..7u16, 0..20u64).prop_map(|(member, sector)| Action::Spoil { member, sector }),
        1 => Just(Action::Wait),
    ]
}

/// A history in progress. Values grow: overlapping writes run in the order of submission, and each
/// writes its request number.
struct Play {
    world: World,
    /// By block, what was acknowledged.
    settled: BTreeMap<u64, u64>,
    /// The writes without a reply so far.
    writes: BTreeMap<u64, Range<u64>>,
    written: BTreeMap<u64, Range<u64>>,
    /// Reads with what was acknowledged when they began.
    reads: BTreeMap<u64, (Range<u64>, BTreeMap<u64, u64>)>,
    /// Requests of which an I/O was made to fail by chance, until they are replied to.
    unlucky: BTreeSet<u64>,
    /// Members whose writes were made to fail.
    doomed: BTreeSet<u16>,
    flying: Vec<MemberIo>,
    requests: u64,
    replies: u64,
}

impl Play {
    fn members(&self) -> u16 {
        self.world.volume.members().len() as u16
    }

    fn state(&self, member: u16) -> MemberState {
        self.world.volume.members()[MemberIndex(member)].state
    }

    /// How many more losses the history may have now.
    fn losses_left(&self) -> usize {
        let missing = |member: &u16| {
            self.state(*member) != MemberState::InSync || self.doomed.contains(member)
        };
        let missing = (0..self.members()).filter(missing).count();
        let mut bad_in_row: BTreeMap<u64, BTreeSet<u16>> = BTreeMap::new();
        for &(member, block) in &self.world.bad {
            bad_in_row.entry(block * BLOCK / SECTOR_BYTES).or_default().insert(member);
        }
        let bad = bad_in_row.values().map(BTreeSet::len).max().unwrap_or(0);
        let tolerated = self.world.volume.map().tolerated_failures();
        tolerated.saturating_sub(missing + bad + self.unlucky.len())
    }

    fn start(&self, member: u16) -> u64 {
        self.world.volume.map().allocated(MemberIndex(member)).start
    }

    fn act(&mut self, action: Action) {
        self.requests += 1;
        let id = self.requests;
        match action {
            Action::Read { block, blocks } => {
                self.reads.insert(id, (block..block + blocks, self.settled.clone()));
                self.world.request(id, RequestKind::Read, block * BLOCK, blocks * BLOCK);
            }
            Action::Write { block, blocks } => {
                self.writes.insert(id, block..block + blocks);
                self.written.insert(id, block..block + blocks);
                self.world.write(id, block * BLOCK, blocks * BLOCK, id);
            }
            Action::Scrub { block } => {
                self.world.request(id, RequestKind::Scrub, block * BLOCK, BLOCK);
            }
            Action::Rebuild { rows } => self.rebuild(id, rows),
            Action::Complete { pick } if !self.flying.is_empty() => {
                let io = self.flying.swap_remove(pick % self.flying.len());
                self.complete(io);
            }
            Action::Kill { member, done } if member < self.members() => self.kill(member, done),
            Action::Return => self.bring_back(),
            Action::FailWrite { pick, done } => self.fail_write(pick, done),
            Action::Lose { pick } if !self.flying.is_empty() && self.losses_left() > 0 => {
                let pick = pick % self.flying.len();
                let io = self.flying[pick];
                let is_there = self.state(io.member.0) != MemberState::Failed;
                let is_read = io.op == Op::Read && is_there;
                if is_read && self.unlucky.insert(io.request.0) {
                    self.flying.swap_remove(pick);
                    let now = self.world.now;
                    self.world.volume.complete(io.id, Err(IoError::Transport), now);
                }
            }
            Action::Spoil { member, sector } if member < self.members() => {
                let block = self.start(member) / BLOCK + sector * (SECTOR_BYTES / BLOCK);
                let is_idle = self.world.volume.is_idle();
                if is_idle && self.losses_left() > 0 && self.state(member) == MemberState::InSync {
                    self.world.bad.push((member, block));
                }
            }
            Action::Wait => {
                self.world.now += member_states::FIRST_BACKOFF / 4;
                self.world.volume.on_timeout(self.world.now);
            }
            _ => {}
        }
        self.flying.extend(self.world.pump());
    }

    /// Ends an I/O; one of a member that is gone fails.
    fn complete(&mut self, io: MemberIo) {
        match self.state(io.member.0) {
            MemberState::Failed => {
                let now = self.world.now;
                self.world.volume.complete(io.id, Err(IoError::Gone), now);
            }
            _ => {
                self.world.complete(io);
            }
        }
    }

    fn kill(&mut self, member: u16, done: bool) {
        match self.state(member) {
            MemberState::Failed => return,
            MemberState::InSync if self.losses_left() == 0 => return,
            // One that is being rebuilt is a loss already.
            MemberState::InSync | MemberState::Rebuilding { .. } => {}
        }
        if done {
            let writes =
                self.flying.iter().filter(|io| io.member.0 == member && io.op == Op::Write);
            for io in writes.copied().collect::<Vec<_>>() {
                self.world.perform(&io).unwrap();
            }
        }
        self.world.volume.set_member_state(MemberIndex(member), MemberState::Failed);
    }

    /// A member comes back once none of its I/O is in flight.
    fn bring_back(&mut self) {
        let failed = |member: &u16| self.state(*member) == MemberState::Failed;
        let Some(member) = (0..self.members()).find(failed) else { return };
        if self.flying.iter().any(|io| io.member.0 == member) {
            return;
        }
        for block in 0..40 {
            self.world.disks.insert((member, self.start(member) / BLOCK + block), 0xdead << 32);
        }
        self.doomed.remove(&member);
        let state = MemberState::Rebuilding { recovered_bytes: 0 };
        self.world.volume.set_member_state(MemberIndex(member), state);
    }

    /// Rebuilds the next rows of the first member that needs it.
    fn rebuild(&mut self, id: u64, rows: u64) {
        let offset = |member: &u16| match self.state(*member) {
            MemberState::Rebuilding { recovered_bytes } => Some((*member, recovered_bytes)),
            _ => None,
        };
        let found = (0..self.members()).find_map(|member| offset(&member));
        let Some((member, recovered)) = found else { return };
        let size = self.world.volume.members()[MemberIndex(member)].config.size_bytes;
        let first = recovered.max(self.start(member));
        // Nothing is written beyond the blocks of the history.
        let is_last = first >= self.start(member) + 40 * BLOCK;
        let end = if is_last { size } else { first + rows * BLOCK };
        let kind = RequestKind::Rebuild(MemberIndex(member));
        self.world.request(id, kind, recovered, end - recovered);
    }

    fn fail_write(&mut self, pick: usize, done: bool) {
        if self.flying.is_empty() {
            return;
        }
        let pick = pick % self.flying.len();
        let io = self.flying[pick];
        let is_new = !self.doomed.contains(&io.member.0);
        let is_in_sync = self.state(io.member.0) == MemberState::InSync;
        if io.op != Op::Write || !is_in_sync || (is_new && self.losses_left() == 0) {
            return;
        }
        self.flying.swap_remove(pick);
        if done {
            self.world.perform(&io).unwrap();
        }
        self.doomed.insert(io.member.0);
        let now = self.world.now;
        self.world.volume.complete(io.id, Err(IoError::Medium), now);
    }

    fn check_replies(&mut self) -> Result<(), TestCaseError> {
        while let Some((request, result)) = self.world.reply() {
            self.replies += 1;
            self.unlucky.remove(&request);
            if let Some(blocks) = self.writes.remove(&request) {
                prop_assert_eq!(result, Ok(()), "write {}", request);
                for block in blocks {
                    let settled = self.settled.entry(block).or_default();
                    *settled = request.max(*settled);
                }
            }
            if let Some((blocks, before)) = self.reads.remove(&request) {
                prop_assert_eq!(result, Ok(()), "read {}", request);
                for block in blocks {
                    let value = self.world.buffers[&request][&block];
                    let settled = before.get(&block).copied().unwrap_or(0);
                    let is_right = self.is_right(block, value, settled);
                    prop_assert!(is_right, "{value:#x} at {block}, after {settled}");
                }
            }
        }
        Ok(())
    }

    /// Returns true if a block may hold this value once `settled` was acknowledged: that, or what a
    /// later write to it may have left.
    fn is_right(&self, block: u64, value: u64, settled: u64) -> bool {
        let is_later = value > settled;
        let is_of_block = self.written.get(&value).is_some_and(|blocks| blocks.contains(&block));
        value == settled || (is_later && is_of_block)
    }

    /// Ends what is under way.
    fn drain(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..100_000 {
            let Some(io) = self.flying.pop() else { break };
            self.complete(io);
            self.flying.extend(self.world.pump());
            self.check_replies()?;
        }
        prop_assert!(self.world.volume.is_idle(), "every request is replied to");
        Ok(())
    }

    /// Reads all back: whole, and without as many members as may fail.
    fn end(mut self) -> Result<(), TestCaseError> {
        self.drain()?;
        let mut doomed = self.doomed.iter();
        prop_assert!(doomed.all(|&member| self.state(member) == MemberState::Failed));
        self.read_back()?;
        let all_in_sync = |play: &Play| {
            (0..play.members()).all(|member| play.state(member) == MemberState::InSync)
        };
        if all_in_sync(&self) && self.world.bad.is_empty() {
            check_parities(&self.world, 0..BLOCKS);
        }
        while self.losses_left() > 0 {
            let in_sync = |member: &u16| self.state(*member) == MemberState::InSync;
            let member = (0..self.members()).find(in_sync).expect("some are left");
            self.kill(member, false);
            self.read_back()?;
        }
        Ok(())
    }

    fn read_back(&mut self) -> Result<(), TestCaseError> {
        self.requests += 1;
        let id = self.requests;
        self.world.request(id, RequestKind::Read, 0, BLOCKS * BLOCK);
        self.world.settle();
        prop_assert_eq!(self.world.reply(), Some((id, Ok(()))));
        for block in 0..BLOCKS {
            let settled = self.settled.get(&block).copied().unwrap_or(0);
            prop_assert_eq!(self.world.buffers[&id][&block], settled, "block {}", block);
        }
        Ok(())
    }
}

/// Leaves out any columns that a read can do without.
struct LeavesOut;

impl ReadPolicy for LeavesOut {
    fn choose(&mut self, _: &Read, _: &[Mirror], _: &mut Ctx<'_>) -> Choice {
        panic!("there is one copy of each block")
    }

    fn reconstructs(&self) -> bool {
        true
    }

    fn leave_out(&mut self, read: &StripeRead, columns: &[Mirror], ctx: &mut Ctx<'_>) -> ColumnSet {
        assert!(read.wanted.iter().all(|column| usize::from(column) < columns.len()));
        let bits = ctx.rng.below(1 << columns.len());
        ColumnSet::from_bits(bits).and(read.eligible).first(read.spare)
    }
}

const LAYOUTS: &[(&str, usize)] = &[
    ("md-raid5", 3),
    ("md-raid5-left-asymmetric", 5),
    ("md-raid6", 4),
    ("md-raid6", 6),
    ("md-raid6-left-asymmetric", 5),
    ("md-raid6-right-symmetric", 5),
    ("md-raid6-parity-last", 7),
];

fn play(layout: &str, members: usize, level: RmwLevel) -> Play {
    let layout: ArrayLayout = layout.parse().unwrap();
    let map =
        |configs: &[MemberConfig]| ChunkMap::arrange(layout.with_chunk(STRIP).unwrap(), configs);
    let adjust = |config: &mut MemberConfig| config.size_bytes = 2 * MIB;
    let mut world = World::over(members, adjust, map, Box::new(LeavesOut));
    world.volume = world.volume.with_rmw_level(level);
    Play {
        world,
        settled: BTreeMap::new(),
        writes: BTreeMap::new(),
        written: BTreeMap::new(),
        reads: BTreeMap::new(),
        unlucky: BTreeSet::new(),
        doomed: BTreeSet::new(),
        flying: Vec::new(),
        requests: 0,
        replies: 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Random requests, completions in any order, members that fail, come back and are rebuilt,
    /// writes that fail midway, media errors and lost reads, within what the profile tolerates.
    #[test]
    fn no_history_loses_data(
        (layout, members) in select(LAYOUTS),
        level in select(&[RmwLevel::Never, RmwLevel::FewerReads, RmwLevel::NoMoreReads][..]),
        history in prop::collection::vec(action(), 1..160),
    ) {
        let mut play = play(layout, members, level);
        for action in history {
            play.act(action);
            play.check_replies()?;
        }
        play.end()?;
    }
}

/// The strips of the history are those that it counts on.
#[test]
fn strips_have_eight_blocks() {
    let play = play("md-raid5", 3, RmwLevel::default());
    let map = play.world.volume.map();
    let (stripe, column) = map.column_at(MemberIndex(0), play.start(0) + BLOCK).unwrap();
    assert_eq!(
        (stripe.strip_bytes, column),
        (4 * KIB, StripeColumn { number: column.number, offset: BLOCK })
    );
}

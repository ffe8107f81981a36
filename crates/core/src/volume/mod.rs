//! The volume: a state machine that turns requests into member I/O and outcomes into replies.
//!
//! It owns no buffer, reads no clock and never waits. An executor calls [`Volume::submit`], takes
//! member I/O from [`Volume::poll_io`] until there is none, reports each end to
//! [`Volume::complete`], and takes replies from [`Volume::poll_reply`]. A simulator and a server
//! drive this same code.
//!
//! Read the files in this order:
//!
//! - `request`: a request is accepted, cut into *pieces* along chunks and strips, and replied to.
//!   A *plan* (`plan`) says which member I/O a piece takes: it alone depends on how data lies on
//!   members.
//! - `piece`, `pieces`: the life of a piece. It is locked, started, retried, rewritten, ended.
//! - `decide`: a read asks its policy. Decisions are late: the policy is asked when the I/O of a
//!   read is handed out, so that it sees every I/O handed out before, those of the same request
//!   included.
//! - `race`: several reads of one piece, of which the first good answer counts.
//! - `range_locks`: a write, discard, scrub or rebuild, and the retry of a failed read, hold an
//!   exclusive lock on their range, granted in the order of submission. So all mirrors get
//!   overlapping writes in one order, and old data never overwrites new.
//! - `complete`: the ends of member I/O, and times that come.
//! - `member_states`: the one owner of the state of members.
//! - `gate`: what requests and pieces wait for if the volume keeps data (the crate `store`).
//!
//! **Failures.** A failed read goes to another eligible mirror; when one answers, the mirrors whose
//! medium failed are rewritten before the request is replied to, so an executor needs only the
//! request's one buffer. A piece that no mirror could read whole is tried again by halves, down to
//! a sector. A mirror that cannot be written fails its member. If the other members cannot do
//! without that member, or no readable mirror was written, the member stays and the write fails.
//!
//! **Rebuilding.** The stale part of a member being rebuilt is never read but is written like any
//! other, so its recovery offset is the whole state of a rebuild.
//!
//! **Parity.** A volume with parity hands each request but a flush to `stripe`, the second plan.

mod complete;
mod decide;
pub mod gate;
mod gating;
mod held_ranges;
mod member_states;
mod piece;
mod pieces;
mod plan;
mod race;
mod range_locks;
mod recovered_ranges;
mod request;
mod stripe;
#[cfg(test)]
mod tests;
mod unreadable;

pub use member_states::MemberStates;
pub use piece::{PieceKey, RequestKey};
pub use plan::{EligibleMirrors, PiecePlan, PlanTarget, TargetSet};
pub use stripe::{BufferRows, RequestRows, RmwLevel, StripeBuffer, StripePlace, StripeStep};

use crate::geometry::ChunkMap;
use crate::io::{IoId, MemberIo, Op, Purpose, ReadRole, Reply};
use crate::member::{MemberIndex, MemberState, Members};
use crate::policy::{Counter, Ctx, PolicyFault, Read, ReadPolicy};
use crate::rng::Rng;
use crate::units::{BLOCK_BYTES, Nanos};
use complete::{InFlightIo, LiveIos, Owner};
use gate::{Gate, GateEvent, NoGate};
use plan::Layout;
use race::{RaceId, Races};
use range_locks::RangeLocks;
use request::LiveRequests;
use std::collections::VecDeque;
use stripe::{StripeTask, Stripes};

/// A volume over an array of members, of mirrors or with parity.
pub struct Volume<G = NoGate> {
    layout: Layout,
    states: MemberStates,
    decider: Decider,
    options: Options,
    requests: LiveRequests,
    in_flight: LiveIos,
    work: VecDeque<Work>,
    locks: RangeLocks<PieceKey>,
    races: Races,
    replies: VecDeque<Reply>,
    /// With parity, the full stripes that are worked on.
    stripes: Option<Box<Stripes>>,
    /// The gate that requests and pieces wait for, if the volume keeps data.
    gate: Option<Box<G>>,
}

/// The policy, and what it is asked with.
struct Decider {
    policy: Box<dyn ReadPolicy>,
    /// Number of policies before this one. A policy is notified of the end of an I/O only if it was
    /// notified of its submission; otherwise a policy that counts I/O would count below zero.
    policy_number: u32,
    /// Number of times the policy was asked.
    choices: u64,
    rng: Rng,
}

/// Options of a volume, fixed when it starts.
#[derive(Clone, Copy)]
struct Options {
    /// Parts of a split read are multiples of this, but for the last.
    block_bytes: u64,
    is_read_only: bool,
    /// True if requests have one buffer, not to be written while members are read into it.
    has_one_buffer: bool,
}

/// Work to do when the executor polls for I/O.
#[derive(Clone, Copy, Debug)]
enum Work {
    /// Start this piece, whose lock was granted.
    Start(PieceKey),
    /// Read this piece from the mirror that the policy chooses.
    Decide(PieceKey),
    /// Hand out this I/O.
    Issue(TargetIo),
    /// Read this target as well, if the race is still under way.
    SecondRead {
        race: RaceId,
        target: PlanTarget,
    },
    Stripe(StripeTask),
}

/// An I/O to one target of a piece.
#[derive(Clone, Copy, Debug)]
struct TargetIo {
    piece: PieceKey,
    target: PlanTarget,
    op: Op,
    purpose: Purpose,
    role: ReadRole,
}

pub struct NextChoice {
    pub read: Read,
    pub mirrors: EligibleMirrors,
}

impl Volume {
    /// Creates a volume over `members`, laid out by `map`, read by `policy`; `seed` seeds the
    /// random generator of the policy.
    pub fn new(map: ChunkMap, members: Members, policy: Box<dyn ReadPolicy>, seed: u64) -> Volume {
        Volume::without_gate(map, members, policy, seed)
    }

    /// The random generator of the policy of a volume with this seed, as it is at the start.
    pub fn policy_rng(seed: u64) -> Rng {
        Rng::stream(seed, "policy")
    }
}

impl<G: Gate> Volume<G> {
    /// Creates a volume as [`Volume::new`] does, of a type that may have a gate.
    pub fn without_gate(
        map: ChunkMap,
        members: Members,
        policy: Box<dyn ReadPolicy>,
        seed: u64,
    ) -> Volume<G> {
        Volume::with_gate(map, members, policy, seed, |_, _| None)
    }

    /// Creates a volume as [`Volume::new`] does, whose requests and pieces wait for the gate that
    /// `gate` makes, if it makes one.
    pub fn with_gate(
        map: ChunkMap,
        mut members: Members,
        policy: Box<dyn ReadPolicy>,
        seed: u64,
        gate: impl FnOnce(&ChunkMap, &mut MemberStates) -> Option<G>,
    ) -> Volume<G> {
        members.set_copies_are_apart(map.layout().kind().places_copies_apart());
        let stripes = Stripes::of(&map);
        let layout = Layout::new(map);
        let mut states = MemberStates::new(members, layout.tolerated_failures());
        let gate = gate(layout.map(), &mut states).map(Box::new);
        assert!(gate.is_none() || stripes.is_none(), "a gate holds pieces of mirrors only");
        let rng = Volume::policy_rng(seed);
        let mut volume = Volume {
            layout,
            states,
            decider: Decider { policy, policy_number: 0, choices: 0, rng },
            options: Options {
                block_bytes: BLOCK_BYTES,
                is_read_only: false,
                has_one_buffer: false,
            },
            requests: LiveRequests::default(),
            in_flight: LiveIos::default(),
            work: VecDeque::new(),
            locks: RangeLocks::default(),
            races: Races::default(),
            replies: VecDeque::new(),
            stripes,
            gate,
        };
        volume.notify_members_change();
        volume
    }

    /// Sets the block size of the volume: the largest of its members. Requests must be aligned to
    /// it, and then all member I/O is. Panics if it is no power of two, or less than a block of 512
    /// bytes.
    pub fn with_block_bytes(mut self, block_bytes: u64) -> Volume<G> {
        let is_block = block_bytes.is_power_of_two() && block_bytes >= BLOCK_BYTES;
        assert!(is_block, "a block has a power of two of at least {BLOCK_BYTES} bytes");
        self.options.block_bytes = block_bytes;
        self
    }

    /// Rewrites no piece of a request while another one is read: for an executor whose requests
    /// have one buffer each.
    pub fn with_one_buffer(mut self) -> Volume<G> {
        self.options.has_one_buffer = true;
        self
    }

    /// Refuses writes and repairs nothing.
    pub fn read_only(mut self) -> Volume<G> {
        self.options.is_read_only = true;
        self
    }

    /// Chooses when a write updates the parities of a stripe rather than computing them.
    pub fn with_rmw_level(mut self, level: RmwLevel) -> Volume<G> {
        if let Some(stripes) = &mut self.stripes {
            stripes.rmw_level = level;
        }
        self
    }

    /// Asks for no steps on buffers of stripes: for an executor without data.
    pub fn without_data(mut self) -> Volume<G> {
        if let Some(stripes) = &mut self.stripes {
            stripes.is_simulated = true;
        }
        self
    }

    /// Returns true if writes are refused.
    pub fn is_read_only(&self) -> bool {
        self.options.is_read_only
    }

    pub fn capacity_bytes(&self) -> u64 {
        self.layout.capacity_bytes()
    }

    pub fn map(&self) -> &ChunkMap {
        self.layout.map()
    }

    pub fn members(&self) -> &Members {
        self.states.members()
    }

    /// Returns true if every byte of the volume is in sync on some member.
    pub fn is_complete(&self) -> bool {
        self.layout.is_in_sync(&self.states)
    }

    /// Returns true if the mirror of a range on this member is in sync.
    pub fn holds(&self, member: MemberIndex, range: &std::ops::Range<u64>) -> bool {
        let plan = self.layout.plan(range.start, range.end - range.start);
        let held = plan.scrub_targets(&self.states).without(self.lacking(&plan));
        held.iter().any(|target| plan.location(target).0 == member)
    }

    /// Number of bytes of a range of mirrors that can be compared: two or more hold them in sync.
    pub fn comparable_bytes(&self, range: std::ops::Range<u64>) -> u64 {
        let (mut offset, mut bytes) = (range.start, 0);
        while offset < range.end {
            let plan = self.layout.plan(offset, range.end - offset);
            let in_sync = plan.scrub_targets(&self.states).iter().count();
            bytes += if in_sync > 1 { plan.length } else { 0 };
            offset += plan.length;
        }
        assert!(bytes <= range.end - range.start, "{bytes} bytes of {range:?}");
        bytes
    }

    /// The policy's own counters.
    pub fn counters(&self) -> Vec<Counter> {
        self.decider.policy.counters()
    }

    /// The fault since which the policy no longer decides by its own rule, if there was one.
    pub fn policy_fault(&self) -> Option<&PolicyFault> {
        self.decider.policy.fault()
    }

    /// A number that grows when a policy is set.
    pub fn policy_number(&self) -> u32 {
        self.decider.policy_number
    }

    /// Returns the number of reads for which the policy was asked, because more than one mirror
    /// could serve them, or because a column of their full stripe could be left out.
    pub fn choices(&self) -> u64 {
        self.decider.choices
    }

    /// Returns true if every request was replied to.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Replaces the policy, from the next decision on. I/O in flight goes on, and the new policy is
    /// not notified of its end.
    pub fn set_policy(&mut self, policy: Box<dyn ReadPolicy>) {
        self.decider.policy = policy;
        self.decider.policy_number = self.decider.policy_number.wrapping_add(1);
        self.notify_members_change();
    }

    /// Sets the state of a member: it failed, returned to be rebuilt, or is in sync.
    pub fn set_member_state(&mut self, member: MemberIndex, state: MemberState) {
        let had_failed = self.states.is_failed(member);
        self.states.set(member, state);
        if let MemberState::Rebuilding { .. } = state {
            self.requests.forget_failed_writes(member);
        }
        self.report(GateEvent::MemberSet { member, had_failed });
        assert_eq!(self.members()[member].state, state, "the gate leaves the state of {member:?}");
        self.notify_members_change();
    }

    /// Fails a member that is gone, unless the volume cannot do without it.
    pub fn lose_member(&mut self, member: MemberIndex) {
        if !self.states.is_failed(member) && self.states.can_fail(member) {
            self.set_member_state(member, MemberState::Failed);
        }
    }

    fn fail_member(&mut self, member: MemberIndex) {
        if !self.states.is_failed(member) {
            self.set_member_state(member, MemberState::Failed);
        }
    }

    /// Fails members that failed a flush, as far as the volume can do without them, because others
    /// hold everything. Returns true if some stay: writes may be lost that ended, for which a later
    /// flush does not make up.
    fn fail_unflushed_members(&mut self) -> bool {
        for member in self.states.unflushed() {
            self.lose_member(member);
        }
        let can_fail = |member: &MemberIndex| self.states.can_fail(*member);
        assert!(!self.states.unflushed().iter().any(can_fail), "those that can be failed are");
        self.states.has_lost_writes()
    }

    /// Returns true if [`Volume::poll_io`] has something to do, which may still lead to no I/O.
    #[inline]
    pub fn has_work(&self) -> bool {
        !self.work.is_empty() || self.gate().is_some_and(Gate::has_io)
    }

    /// The next I/O to hand to a member, or `None` until something else happens.
    #[inline]
    pub fn poll_io(&mut self, now: Nanos) -> Option<MemberIo> {
        loop {
            // The start of a piece may have released others.
            self.continue_released();
            if self.gate().is_some_and(Gate::has_io) {
                match self.issue_metadata(now) {
                    Some(io) => return Some(io),
                    None => continue,
                }
            }
            let io = match self.work.pop_front()? {
                Work::Issue(io) => return Some(self.issue(io, now)),
                Work::Decide(piece) => self.decide(piece, now),
                Work::SecondRead { race, target } => self.issue_second_read(race, target, now),
                Work::Stripe(task) => {
                    let io = self.ask_stripes(|stripes, it| stripes.do_task(task, now, it));
                    io.flatten().map(|(io, owner)| self.hand_out(io, Owner::Stripe(owner)))
                }
                Work::Start(piece) => {
                    self.start_granted(piece);
                    None
                }
            };
            if io.is_some() {
                return io;
            }
        }
    }

    /// Makes a member I/O, accounts it and notifies the policy.
    #[inline(always)]
    fn issue(&mut self, target_io: TargetIo, now: Nanos) -> MemberIo {
        let TargetIo { piece: key, target, op, purpose, role } = target_io;
        let (piece, request) = self.requests.piece_and_request(key);
        let (member, offset) = piece.plan.location(target);
        let io = MemberIo {
            id: IoId(0),
            request: request.id,
            member,
            op,
            purpose,
            offset,
            length: piece.plan.length,
            volume_offset: piece.plan.offset,
            stream: request.stream,
            background: request.background,
            role,
            submitted_at: now,
        };
        debug_assert!(piece.has_lock || op != Op::Write, "a write holds its lock: {piece:?}");
        debug_assert!(piece.pending > 0, "an I/O is counted before it is handed out: {piece:?}");
        self.hand_out(io, Owner::Piece(key, target))
    }

    /// Gives a member I/O its number, accounts it and notifies the policy.
    #[inline(always)]
    fn hand_out(&mut self, io: MemberIo, owner: Owner) -> MemberIo {
        if G::EXISTS || cfg!(debug_assertions) {
            self.check_io(&io);
        }
        let policy_number = self.decider.policy_number;
        let in_flight = InFlightIo { io, owner, superseded: false, policy_number };
        let io = self.in_flight.insert(in_flight);
        self.states.members_mut().get_mut(io.member).account_submission(io);
        let members = self.states.members();
        let ctx = &mut Ctx { now: io.submitted_at, members, rng: &mut self.decider.rng };
        self.decider.policy.on_submit(io, ctx);
        *io
    }

    /// Asserts that an I/O is within its member, in whole blocks, and permitted.
    fn check_io(&self, io: &MemberIo) {
        let size_bytes = self.members()[io.member].config.size_bytes;
        let is_within = io.offset <= size_bytes && io.length <= size_bytes - io.offset;
        assert!(is_within, "{io:?} of {size_bytes} bytes");
        assert!((io.offset | io.length).is_multiple_of(BLOCK_BYTES), "{io:?} has whole blocks");
        let writes = matches!(io.op, Op::Write | Op::Discard);
        assert!(!writes || !self.options.is_read_only, "a read-only volume writes nothing: {io:?}");
    }

    fn notify_members_change(&mut self) {
        self.decider.policy.on_members_change(self.states.members());
    }
}

//! The volume: a state machine that turns requests into member I/O and outcomes into replies.
//!
//! It owns no buffer, reads no clock and never waits. An executor calls [`Volume::submit`], takes
//! member I/O from [`Volume::poll_io`] until there is none, reports each end to
//! [`Volume::complete`], and takes replies from [`Volume::poll_reply`]. A simulator and a server
//! drive this same code.
//!
//! **Decisions are late.** The policy is asked when the I/O of a read is handed out, not when the
//! read is submitted, so that the policy sees every I/O handed out before it, those of the same
//! request included.
//!
//! **Two halves.** A *plan* (`plan`) says which member I/O a range takes: it alone depends on how
//! data lies on members. *Scheduling* (`pieces`, `reads`, `race`) cuts requests into pieces, each
//! with a plan, and runs them: locks, decisions, second reads, retries, repairs and replies.
//!
//! **Locks.** A write, discard, scrub or rebuild, and the retry of a failed read, hold an exclusive
//! lock on their range (see `range_locks`). Overlapping ones run one after the other in the order
//! of submission, so all mirrors get overlapping writes in one order, and old data never overwrites
//! new. A read takes no lock unless it fails.
//!
//! **Failures.** A failed read goes to another eligible mirror; when one answers, the mirrors whose
//! medium failed are rewritten before the request is replied to, so an executor needs only the
//! request's one buffer. A piece that no mirror could read whole is tried again by halves, down to
//! a sector. A mirror that cannot be written fails its member. If the other members cannot do
//! without that member, or no readable mirror was written, the member stays and the write fails.
//!
//! **Second reads.** A policy may have a piece read from several mirrors; the first good answer
//! counts (see `race`). A retry and a rebuild read once.
//!
//! **Labels and dirty log.** A volume with labels keeps them and the log up to date by member I/O
//! of its own (see `durability`). **Unsynced regions** are read from one mirror until they are
//! resynced.
//!
//! **Checksums.** A volume with checksums of its data verifies every read (see `checksum_checks`).
//!
//! **Parity.** Writes, scrubs, rebuilds, and reads of columns that failed or that the policy leaves
//! out, are operations on full stripes, each under the lock of its rows (see `stripe_run`,
//! `stripe_read`).
//!
//! **Rebuilding.** The stale part of a member being rebuilt is never read but is written like any
//! other, so its recovery offset is the whole state of a rebuild.

mod backoff;
mod checksum_checks;
mod checksum_pages;
mod checksum_store;
mod choice;
mod column_rows;
mod completion;
mod dirty_log;
mod durability;
mod eligibility;
mod ends;
mod held_ranges;
mod keys;
mod label_claims;
mod label_updates;
mod label_writer;
mod log_updates;
mod member_states;
mod piece;
mod pieces;
mod plan;
mod race;
mod range_locks;
mod reads;
mod recovered_ranges;
mod row_plan;
mod scrub_keeper;
mod scrub_updates;
mod stale_regions;
mod stop;
mod stripe_cut;
mod stripe_end;
mod stripe_ops;
mod stripe_plan;
mod stripe_read;
mod stripe_run;
mod stripe_scrub;
mod stripe_steps;
mod target;
#[cfg(test)]
mod tests;
mod unflushed_repairs;
mod unsynced_regions;

pub use checksum_checks::DifferingBlock;
pub use eligibility::EligibleMirrors;
pub use label_writer::VolumeLabels;
pub use row_plan::RmwLevel;
pub use stripe_steps::{
    BufferRows, RequestRows, StripeBuffer, StripeFinding, StripePlace, StripeProblem, StripeStep,
    WrongRows,
};
pub use unsynced_regions::REGION_BYTES;

use crate::geometry::ChunkMap;
use crate::io::{IoId, MemberIo, Op, Purpose, ReadRole, Reply};
use crate::io::{Request, VolumeError};
use crate::member::{MemberIndex, MemberState, Members};
use crate::policy::{Counter, Ctx, Read, ReadPolicy};
use crate::rng::Rng;
use crate::slab::{Slab, SlabKey};
use crate::units::{BLOCK_BYTES, Nanos};
use checksum_checks::Findings;
use checksum_pages::PageWrites;
use checksum_store::ChecksumStore;
use dirty_log::DirtyLog;
use durability::{MetadataJob, OwnIo};
use keys::{IoKey, PieceKey, RequestKey, StripeKey};
use label_writer::LabelWriter;
use member_states::MemberStates;
use piece::Piece;
use plan::Layout;
use race::{RaceId, Races};
use range_locks::RangeLocks;
use scrub_keeper::ScrubKeeper;
use std::collections::{BTreeSet, VecDeque};
use stop::Stop;
use stripe_ops::Stripes;
use target::PlanTarget;
use unsynced_regions::UnsyncedRegions;

/// A volume over an array of members, of mirrors or with parity.
pub struct Volume {
    layout: Layout,
    states: MemberStates,
    policy: Box<dyn ReadPolicy>,
    /// Number of policies before this one. A policy is notified of the end of an I/O only if it was
    /// notified of its submission; otherwise a policy that counts I/O would count below zero.
    policy_number: u32,
    /// Number of times the policy was asked.
    choices: u64,
    /// Parts of a split read are multiples of this, but for the last.
    block_bytes: u64,
    rng: Rng,
    requests: Slab<RequestKey, PendingRequest>,
    pieces: Slab<PieceKey, Piece>,
    in_flight: Slab<IoKey, InFlightIo>,
    ios_issued: u32,
    work: VecDeque<Work>,
    locks: RangeLocks<PieceKey>,
    races: Races,
    replies: VecDeque<Reply>,
    labels: Option<Box<LabelWriter>>,
    /// With labels, the log of regions that may have writes in flight.
    log: Option<Box<DirtyLog>>,
    unsynced: UnsyncedRegions,
    /// With checksums, those in memory.
    checksums: Option<Box<ChecksumStore>>,
    page_writes: PageWrites,
    findings: Findings,
    stop: Stop,
    /// With parity, the full stripes that are worked on.
    stripes: Option<Box<Stripes>>,
    scrub: ScrubKeeper,
    is_read_only: bool,
    /// True if requests have one buffer, not to be written while members are read into it.
    has_one_buffer: bool,
    /// Members that failed a flush, of clients or of metadata, and are in use. While the volume
    /// cannot do without them each flush fails, because the writes that were lost may be older.
    failed_flushes: BTreeSet<MemberIndex>,
}

/// A request not yet replied to.
#[derive(Clone, Copy, Debug)]
struct PendingRequest {
    request: Request,
    pieces_left: u32,
    /// Of a rebuild: how often the state of its member had been set when it began.
    member_changes: u32,
    /// Of a rebuild whose member was flushed: the recovery offset that is durable then.
    flushed_to: Option<u64>,
    /// Number of its pieces that are to be rewritten once no other piece is read.
    parked: u32,
    /// Of a flush: where the part that is not synchronised begins once it succeeded.
    resync_from: Option<u64>,
    result: Result<(), VolumeError>,
}

/// A member I/O handed out and not completed.
#[derive(Clone, Copy, Debug)]
struct InFlightIo {
    io: MemberIo,
    piece: PieceKey,
    target: PlanTarget,
    /// True if its race is over; its piece may have ended.
    superseded: bool,
    /// The policy that was notified of its submission.
    policy_number: u32,
    /// What it is for, if not a piece.
    job: Option<OwnIo>,
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
    SecondRead { race: RaceId, target: PlanTarget },
    /// Write the metadata of a member, or flush it.
    Metadata { member: MemberIndex, op: Op, job: MetadataJob },
    /// Read this piece of a volume with parity.
    ReadStrip(PieceKey),
    /// Start this operation, whose rows are locked for it.
    StartStripe(StripeKey),
    /// Do the next rows of this operation.
    NextRows(StripeKey),
    /// Hand out an I/O of this operation.
    StripeIo { op: StripeKey, index: u16 },
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

/// The choice that the policy is asked for next.
pub struct NextChoice {
    /// The read.
    pub read: Read,
    /// Its eligible mirrors.
    pub mirrors: EligibleMirrors,
}

impl Volume {
    /// Creates a volume over `members`, laid out by `map`, read by `policy`; `seed` seeds the
    /// random generator of the policy.
    pub fn new(
        map: ChunkMap,
        mut members: Members,
        policy: Box<dyn ReadPolicy>,
        seed: u64,
    ) -> Volume {
        members.set_copies_are_apart(map.layout().kind().places_copies_apart());
        let stripes = Stripes::of(&map);
        let layout = Layout::new(map);
        let states = MemberStates::new(members, layout.tolerated_failures());
        let mut volume = Volume {
            layout,
            states,
            policy,
            choices: 0,
            block_bytes: BLOCK_BYTES,
            policy_number: 0,
            rng: Volume::policy_rng(seed),
            requests: Slab::default(),
            pieces: Slab::default(),
            in_flight: Slab::default(),
            ios_issued: 0,
            work: VecDeque::new(),
            locks: RangeLocks::default(),
            races: Races::default(),
            replies: VecDeque::new(),
            labels: None,
            log: None,
            unsynced: UnsyncedRegions::default(),
            checksums: None,
            page_writes: PageWrites::default(),
            findings: Findings::default(),
            stop: Stop::default(),
            stripes,
            scrub: ScrubKeeper::default(),
            is_read_only: false,
            has_one_buffer: false,
            failed_flushes: BTreeSet::new(),
        };
        volume.note_reconstruction();
        volume.notify_members_change();
        volume
    }

    /// Sets the block size of the volume: the largest of its members. Requests must be aligned to
    /// it, and then all member I/O is.
    ///
    /// # Panics
    /// If it is no power of two, or less than a block of 512 bytes.
    pub fn with_block_bytes(mut self, block_bytes: u64) -> Volume {
        let is_block = block_bytes.is_power_of_two() && block_bytes >= BLOCK_BYTES;
        assert!(is_block, "a block has a power of two of at least {BLOCK_BYTES} bytes");
        self.block_bytes = block_bytes;
        self
    }

    /// Rewrites no piece of a request while another one is read: for an executor whose requests
    /// have one buffer each.
    pub fn with_one_buffer(self) -> Volume {
        Volume { has_one_buffer: true, ..self }
    }

    /// Size of the volume in bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.layout.capacity_bytes()
    }

    /// The chunk map.
    pub fn map(&self) -> &ChunkMap {
        self.layout.map()
    }

    /// The members and their statistics.
    pub fn members(&self) -> &Members {
        self.states.members()
    }

    /// The policy's own counters.
    pub fn counters(&self) -> Vec<Counter> {
        self.policy.counters()
    }

    /// Returns the number of reads for which the policy was asked, because more than one mirror
    /// could serve them, or because a column of their full stripe could be left out.
    pub fn choices(&self) -> u64 {
        self.choices
    }

    /// Returns true if every request was replied to.
    pub fn is_idle(&self) -> bool {
        self.requests.is_empty()
    }

    /// Replaces the policy, from the next decision on. I/O in flight goes on, and the new policy is
    /// not notified of its end.
    pub fn set_policy(&mut self, policy: Box<dyn ReadPolicy>) {
        self.policy = policy;
        self.policy_number = self.policy_number.wrapping_add(1);
        self.note_reconstruction();
        self.notify_members_change();
    }

    /// Sets the state of a member: it failed, returned to be rebuilt, or is in sync.
    pub fn set_member_state(&mut self, member: MemberIndex, state: MemberState) {
        let fails = state == MemberState::Failed && !self.states.is_failed(member);
        self.states.set(member, state);
        self.failed_flushes.remove(&member);
        if fails {
            self.note_lost_repairs(member);
        }
        if let MemberState::Rebuilding { .. } = state {
            self.forget_failed_writes(member);
        }
        if let (MemberState::Rebuilding { .. }, Some(log)) = (state, &mut self.log) {
            log.on_joined(member, 0);
        }
        if let Some(labels) = &mut self.labels {
            labels.forget_progress(member);
        }
        self.notify_members_change();
    }

    /// Accepts a request. Its member I/O follows from [`Volume::poll_io`], its end from
    /// [`Volume::poll_reply`].
    pub fn submit(&mut self, request: Request) {
        self.accept(request, None);
    }

    /// Accepts a request, with the checksums of the data of a write.
    fn accept(&mut self, request: Request, checksums: Option<Box<[u32]>>) {
        // The request counts as a piece of its own until it is cut, so that it cannot end early.
        let pending = PendingRequest {
            request,
            pieces_left: 1,
            member_changes: 0,
            flushed_to: None,
            parked: 0,
            resync_from: None,
            result: Ok(()),
        };
        let key = self.requests.insert(pending);
        if let (Some(store), Some(checksums)) = (&mut self.checksums, checksums) {
            store.begin_write(key, checksums);
        }
        let cut = self.cut(key, &request);
        self.end_piece_of(key, cut);
    }

    /// Returns true if [`Volume::poll_io`] has something to do, which may still lead to no I/O.
    #[inline]
    pub fn has_work(&self) -> bool {
        !self.work.is_empty()
    }

    /// The next I/O to hand to a member, or `None` until something else happens.
    #[inline]
    pub fn poll_io(&mut self, now: Nanos) -> Option<MemberIo> {
        loop {
            let io = match self.work.pop_front()? {
                Work::Issue(io) => return Some(self.issue(io, now)),
                Work::Decide(piece) => self.decide(piece, now),
                Work::SecondRead { race, target } => self.issue_second_read(race, target, now),
                Work::Metadata { member, op, job } => {
                    Some(self.issue_metadata(member, op, job, now))
                }
                Work::StripeIo { op, index } => self.issue_stripe_io(op, index, now),
                Work::ReadStrip(piece) => self.read_strip(piece, now),
                Work::StartStripe(op) => {
                    self.start_stripe(op);
                    None
                }
                Work::NextRows(op) => {
                    self.plan_stripe(op);
                    None
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

    /// The next reply to give, if there is one.
    #[inline]
    pub fn poll_reply(&mut self) -> Option<Reply> {
        self.replies.pop_front()
    }

    /// Makes a member I/O, accounts it and notifies the policy.
    #[inline]
    fn issue(&mut self, target_io: TargetIo, now: Nanos) -> MemberIo {
        let TargetIo { piece: key, target, op, purpose, role } = target_io;
        let piece = self.pieces.get(key);
        let (member, offset) = piece.plan.location(target);
        let request = &self.requests.get(piece.request).request;
        self.ios_issued = self.ios_issued.wrapping_add(1);
        // The count in the upper half distinguishes a second completion of an I/O from the first
        // completion of a later I/O in the same slot.
        let count = u64::from(self.ios_issued) << 32;
        let in_flight = self.in_flight.insert_with(|slot| {
            let io = MemberIo {
                id: IoId(count | u64::from(slot.slot())),
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
            let policy_number = self.policy_number;
            InFlightIo { io, piece: key, target, superseded: false, policy_number, job: None }
        });
        let io = in_flight.io;
        self.account_submission(&io, now);
        io
    }

    /// Accounts a member I/O and notifies the policy.
    #[inline]
    fn account_submission(&mut self, io: &MemberIo, now: Nanos) {
        self.states.members_mut().get_mut(io.member).account_submission(io);
        self.policy.on_submit(io, &mut Ctx { now, rng: &mut self.rng });
    }

    fn notify_members_change(&mut self) {
        self.policy.on_members_change(self.states.members());
    }
}

//! The dirty log of a running volume: the active regions, and the record under way.
//!
//! A region is *active* from before its first write until some time after its last, when the
//! members were flushed. A write starts only if a record with its regions is durable on every
//! member that takes writes. So after a crash mirrors differ at most in the regions of the newest
//! records.
//!
//! Writes that wait for a record leave together: while a record is under way, those that arrive are
//! collected for the next. Regions leave lazily: those without a write for [`IDLE_PERIOD`] are
//! dropped after a flush of all members, in a record that nothing waits for. A full set is emptied
//! the same way at once. A region whose mirrors are not yet synchronised stays; in a set full of
//! those, writes to other regions wait until some are. A region stays, too, that a failed flush may
//! have lost writes to: in a set full of those, writes to other regions fail.
//!
//! Writes that continue from one region to the next get regions into the log ahead of them, in a
//! record that nothing waits for, while less than half of the set is used.
//!
//! While a member is missing, regions that leave are added to the stale map first
//! (`stale_regions`).
//!
//! When a member starts to take writes, the next record goes to it before any write does, and
//! before a step of its rebuild.
//!
//! While there are writes, a record is written at each tick even if no region is new: its sequence
//! number tells a member from a copy of it that is a few ticks old.

use crate::label::{DIRTY_REGIONS_MAX, DirtyRecord, departure_sequence};
use crate::stale_regions::StaleRegions;
use crate::unflushed_repairs::UnflushedRepairs;
use mirrorball_core::io::Op;
use mirrorball_core::member::MemberIndex;
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::PieceKey;
use std::collections::BTreeMap;
use std::ops::Range;

/// A region leaves after one to two of these without a write.
pub(crate) const IDLE_PERIOD: Nanos = Nanos::from_millis(2500);

/// Number of regions that a record gets ahead of writes that continue from one region to the next,
/// so that those do not wait for a record and its flush at each region. A crash has at most this
/// many more synchronised, for each place where writes continue.
pub(crate) const REGIONS_AHEAD: u32 = 16;

#[derive(Clone, Copy, Debug, Default)]
struct ActiveRegion {
    in_flight: u32,
    /// True if it was written to since the last tick.
    is_used: bool,
    /// True if it leaves when the flush under way has succeeded.
    is_leaving: bool,
    /// True if its mirrors may differ from before.
    is_unsynced: bool,
    /// True if writes to it may be lost, with their checksums: it stays.
    has_lost_writes: bool,
    /// True if it is here ahead of its first write.
    is_ahead: bool,
}

/// The work of the log that is under way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Resting,
    Recording,
    /// Pages of checksums are written.
    Paging,
    /// The stale map is written. Then the members are flushed, or a record is written.
    Mapping {
        then_flush: bool,
    },
    /// The members are flushed, so that regions may leave.
    Flushing,
}

/// See the page of this module.
pub(crate) struct DirtyLog {
    regions: BTreeMap<u32, ActiveRegion>,
    /// Number of regions of the volume.
    count: u32,
    /// The region in which writes continue that will soon need the next ones.
    continued_in: Option<u32>,
    /// The newest record, which may be under way.
    record: DirtyRecord,
    /// The regions that are in the newest record of every member of `durable_on`. The record under
    /// way goes to another slot, so a region that is in both stays covered.
    durable: Vec<u32>,
    durable_on: Vec<MemberIndex>,
    phase: Phase,
    /// Members that the phase still waits for.
    left: Vec<MemberIndex>,
    /// Members where it has succeeded.
    done: Vec<MemberIndex>,
    /// Members whose storage was replaced meanwhile.
    replaced: Vec<MemberIndex>,
    /// Members on which a flush failed meanwhile, which may have lost what was written.
    spoiled: Vec<MemberIndex>,
    /// Every member that the labels call in sync has a record of this sequence number or later.
    least_sequence: u64,
    /// The newest record that a storage had which became a member; later ones have to be newer.
    foreign_sequence: u64,
    in_flight: usize,
    next_tick: Option<Nanos>,
    /// Regions that members lack which are missing.
    pub(crate) stale: StaleRegions,
    /// Repairs of mirrors, which are not in the log.
    pub(crate) repairs: UnflushedRepairs,
    /// Pieces that start once a record has their regions, and the ranges that they write.
    pub(crate) waiting: Vec<(PieceKey, Range<u64>)>,
}

/// The step that follows when no I/O of the log is in flight.
pub(crate) enum LogStep {
    /// A record is durable: pieces may start.
    Recorded,
    Flushed,
    /// The stale map is durable.
    Mapped {
        /// True if the members are to be flushed now.
        then_flush: bool,
    },
    /// These members cannot be written or flushed.
    Unwritable(Vec<MemberIndex>),
}

impl DirtyLog {
    /// The log of a volume with `count` regions, which goes on after a record with these sequence
    /// numbers. `unsynced` are regions that stay until they are synchronised.
    pub(crate) fn new(
        count: u32,
        sequence: u64,
        least_sequence: u64,
        unsynced: impl IntoIterator<Item = u32>,
        stale: StaleRegions,
    ) -> DirtyLog {
        let region = ActiveRegion { is_unsynced: true, ..ActiveRegion::default() };
        DirtyLog {
            regions: unsynced.into_iter().map(|number| (number, region)).collect(),
            count,
            continued_in: None,
            record: DirtyRecord { sequence, least_sequence, ..DirtyRecord::default() },
            durable: Vec::new(),
            durable_on: Vec::new(),
            phase: Phase::Resting,
            left: Vec::new(),
            done: Vec::new(),
            replaced: Vec::new(),
            spoiled: Vec::new(),
            least_sequence,
            foreign_sequence: 0,
            in_flight: 0,
            next_tick: None,
            stale,
            repairs: UnflushedRepairs::default(),
            waiting: Vec::new(),
        }
    }

    /// Returns true if a region is active.
    pub(crate) fn is_active(&self, number: u32) -> bool {
        self.regions.contains_key(&number)
    }

    /// The sequence number for the history of the labels if a member leaves now.
    pub(crate) fn departure_sequence(&self) -> Option<u64> {
        departure_sequence(self.least_sequence, self.record.sequence)
    }

    pub(crate) fn active(&self) -> impl ExactSizeIterator<Item = u32> {
        self.regions.keys().copied()
    }

    /// Returns true if a record with these regions is durable on all of `members`.
    pub(crate) fn covers(
        &self,
        mut regions: impl Iterator<Item = u32>,
        mut members: impl Iterator<Item = MemberIndex>,
    ) -> bool {
        let is_recorded = |region: u32| {
            self.durable.binary_search(&region).is_ok() && self.regions.contains_key(&region)
        };
        members.all(|member| self.durable_on.contains(&member)) && regions.all(is_recorded)
    }

    pub(crate) fn begin_write(&mut self, regions: impl IntoIterator<Item = u32>) {
        for number in regions {
            assert!(self.durable.binary_search(&number).is_ok(), "a record has region {number}");
            let region = self.regions.get_mut(&number).expect("a write starts in active regions");
            region.in_flight += 1;
            region.is_used = true;
            region.is_leaving = false;
            if std::mem::take(&mut region.is_ahead) {
                self.note_continued(number);
            }
        }
    }

    /// Records that writes continue in a region, and maybe will in the next ones.
    fn note_continued(&mut self, number: u32) {
        let middle = number + REGIONS_AHEAD / 2;
        if middle < self.count && !self.regions.contains_key(&middle) && self.has_space_ahead() {
            self.continued_in = Some(number);
        }
    }

    /// Half of the set is for regions that are written to.
    fn has_space_ahead(&self) -> bool {
        self.regions.len() + REGIONS_AHEAD as usize <= DIRTY_REGIONS_MAX / 2
    }

    /// Returns true if a record is to be written, though no write waits for it, before writes get
    /// to regions that are not in the log.
    pub(crate) fn runs_out(&self) -> bool {
        self.continued_in.is_some() && self.is_resting()
    }

    pub(crate) fn end_write(&mut self, regions: impl IntoIterator<Item = u32>) {
        for number in regions {
            let region = self.regions.get_mut(&number).expect("it stays while it is written to");
            assert!(region.in_flight > 0, "a write of region {number} ends once");
            region.in_flight -= 1;
        }
    }

    /// Marks a region whose mirrors may differ, and stays so until [`DirtyLog::on_synced`].
    pub(crate) fn keep(&mut self, number: u32) {
        if let Some(region) = self.regions.get_mut(&number) {
            (region.is_unsynced, region.is_leaving) = (true, false);
        }
    }

    /// Handles the end of the resync of a region, which is to be flushed like a write.
    pub(crate) fn on_synced(&mut self, number: u32) {
        if let Some(region) = self.regions.get_mut(&number) {
            region.is_unsynced = false;
            region.is_used = true;
            region.is_leaving = false;
        }
    }

    /// Records that a flush failed on a member that stays: all regions stay, and what was written
    /// is not durable, whatever later flushes say.
    pub(crate) fn on_failed_flush(&mut self, member: MemberIndex) {
        if self.in_flight > 0 {
            self.spoiled.push(member);
        }
        for region in self.regions.values_mut() {
            (region.has_lost_writes, region.is_leaving) = (true, false);
        }
    }

    /// Returns true if no region fits, and none ever leaves.
    pub(crate) fn is_stuck(&self) -> bool {
        self.is_full() && self.regions.values().all(|region| region.has_lost_writes)
    }

    /// Returns true if nothing of the log is under way.
    pub(crate) fn is_resting(&self) -> bool {
        self.phase == Phase::Resting
    }

    /// Returns true if regions are to leave, to make space for `wanted`.
    pub(crate) fn is_full_for(&self, wanted: &[u32]) -> bool {
        let more = wanted.iter().filter(|number| !self.regions.contains_key(number)).count();
        self.regions.len() + more > DIRTY_REGIONS_MAX
    }

    /// Returns true if writes wait and no region fits.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_full() && !self.waiting.is_empty()
    }

    /// Returns true if no region fits.
    pub(crate) fn is_full(&self) -> bool {
        self.regions.len() >= DIRTY_REGIONS_MAX
    }

    /// Adds regions to the set as far as they fit, and begins a record on `members`.
    pub(crate) fn start_record(&mut self, wanted: &[u32], members: Vec<MemberIndex>) {
        assert!(self.is_resting(), "one record at a time");
        assert!(!self.stale.is_due(), "a record relies on a durable map");
        assert!(!members.is_empty(), "a record is written somewhere");
        assert!(wanted.iter().all(|&number| number < self.count), "regions of the volume");
        let added = ActiveRegion { is_used: true, ..ActiveRegion::default() };
        for &number in wanted {
            if self.regions.len() < DIRTY_REGIONS_MAX {
                self.regions.entry(number).or_insert(added);
                let before = number.checked_sub(1).and_then(|before| self.regions.get(&before));
                if before.is_some_and(|before| !before.is_ahead) {
                    self.note_continued(number);
                }
            }
        }
        if let Some(number) = self.continued_in.take().filter(|_| self.has_space_ahead()) {
            let ahead = number + 1..self.count.min(number + 1 + REGIONS_AHEAD);
            let added = ActiveRegion { is_ahead: true, ..added };
            ahead.for_each(|number| _ = self.regions.entry(number).or_insert(added));
        }
        let regions: Vec<u32> = self.regions.keys().copied().collect();
        assert!(regions.len() <= DIRTY_REGIONS_MAX, "a record has room for {}", regions.len());
        let sequence = self.record.sequence.max(self.foreign_sequence) + 1;
        let least_sequence = self.least_sequence;
        let map_generation = self.stale.durable_generation();
        self.record = DirtyRecord { sequence, least_sequence, regions, map_generation };
        self.begin(Phase::Recording, members);
    }

    /// Records that the labels were current when the last record was durable on all members.
    pub(crate) fn on_recorded_by_all(&mut self) {
        assert!(self.record.sequence > self.least_sequence, "records are numbered upwards");
        self.least_sequence = self.record.sequence;
    }

    /// Forgets what a member has, because it starts to take writes, maybe on another storage with
    /// a record of this sequence number.
    pub(crate) fn on_joined(&mut self, member: MemberIndex, sequence: u64) {
        self.durable_on.retain(|&other| other != member);
        self.done.retain(|&other| other != member);
        if self.left.contains(&member) {
            self.replaced.push(member);
        }
        self.foreign_sequence = self.foreign_sequence.max(sequence);
        self.stale.on_joined();
    }

    /// Returns true if a region was written to since the last tick.
    pub(crate) fn has_writes(&self) -> bool {
        self.regions.values().any(|region| region.is_used || region.in_flight > 0)
    }

    /// Chooses the regions that are to leave: those that are idle; with `at_once`, all without a
    /// write in flight. Returns false if there is none, and no repair is to be flushed.
    pub(crate) fn choose_leaving(&mut self, at_once: bool) -> bool {
        assert!(self.is_resting(), "regions leave one after the other");
        let mut has_idle = false;
        for region in self.regions.values_mut() {
            let is_busy = region.in_flight > 0 || region.is_unsynced || region.has_lost_writes;
            region.is_leaving = !is_busy && (at_once || !region.is_used);
            region.is_used = false;
            has_idle |= region.is_leaving;
        }
        has_idle || self.repairs.want_flush()
    }

    /// Begins a flush of `members`, after which the regions leave that were chosen, or a write of
    /// the stale map if that has to come first; returns which.
    pub(crate) fn start_flush(&mut self, members: Vec<MemberIndex>) -> Op {
        assert!(self.is_resting(), "one flush at a time");
        let was_written = |region: &ActiveRegion| region.is_leaving && !region.is_ahead;
        for (&number, _) in self.regions.iter().filter(|(_, region)| was_written(region)) {
            self.stale.insert(number);
        }
        if self.stale.is_due() {
            self.start_map(members, true);
            return Op::Write;
        }
        self.begin(Phase::Flushing, members);
        Op::Flush
    }

    /// Begins to wait for pages of checksums, which are written before regions leave.
    pub(crate) fn begin_paging(&mut self) {
        assert!(self.is_resting(), "regions leave one after the other");
        self.phase = Phase::Paging;
    }

    pub(crate) fn end_paging(&mut self) {
        assert_eq!(self.phase, Phase::Paging, "pages are written once");
        self.phase = Phase::Resting;
    }

    /// Returns true if a region is active and not about to leave.
    pub(crate) fn stays(&self, number: u32) -> bool {
        self.regions.get(&number).is_some_and(|region| !region.is_leaving)
    }

    /// Begins to write the stale map to `members`.
    pub(crate) fn start_map(&mut self, members: Vec<MemberIndex>, then_flush: bool) {
        assert!(self.is_resting(), "one map at a time");
        self.stale.begin_write();
        self.begin(Phase::Mapping { then_flush }, members);
    }

    /// Goes on with the flush that waited for the stale map.
    pub(crate) fn continue_flush(&mut self, members: Vec<MemberIndex>) {
        assert!(self.is_resting(), "the map is written before the flush begins");
        self.begin(Phase::Flushing, members);
    }

    fn begin(&mut self, phase: Phase, members: Vec<MemberIndex>) {
        if phase == Phase::Flushing {
            self.repairs.on_flush_begin();
        }
        assert_ne!(phase, Phase::Resting, "it rests when the last I/O ended");
        assert!(self.in_flight == 0 && self.left.is_empty(), "one phase at a time");
        assert!(self.done.is_empty() && self.spoiled.is_empty(), "a phase begins without results");
        self.phase = phase;
        self.in_flight = members.len();
        self.left = members;
    }

    pub(crate) fn record(&self) -> &DirtyRecord {
        &self.record
    }

    /// Handles the end of the log's I/O on a member; returns what follows if it was the last.
    pub(crate) fn on_io(&mut self, member: MemberIndex, is_durable: bool) -> Option<LogStep> {
        assert!(self.in_flight > 0, "an I/O of the log ends once");
        assert!(self.left.contains(&member), "the log waits for {member:?}");
        self.in_flight -= 1;
        if is_durable && !self.spoiled.contains(&member) {
            self.left.retain(|&left| left != member);
            if !self.replaced.contains(&member) {
                self.done.push(member);
            }
        }
        if self.in_flight > 0 {
            return None;
        }
        let phase = std::mem::replace(&mut self.phase, Phase::Resting);
        let done = std::mem::take(&mut self.done);
        let members = std::mem::take(&mut self.left);
        self.replaced.clear();
        self.spoiled.clear();
        if let Phase::Mapping { then_flush } = phase {
            self.stale.on_written(members.is_empty());
            if members.is_empty() {
                return Some(LogStep::Mapped { then_flush });
            }
        }
        if !members.is_empty() {
            if phase == Phase::Recording {
                // Some members have this record, the others the one before.
                let regions = &self.record.regions;
                self.durable.retain(|number| regions.binary_search(number).is_ok());
            }
            return Some(LogStep::Unwritable(members));
        }
        if phase == Phase::Flushing {
            let leaves = |region: &ActiveRegion| region.is_leaving;
            let is_idle = |region: &ActiveRegion| region.in_flight == 0 && !region.is_unsynced;
            assert!(
                self.regions.values().all(|it| !leaves(it) || is_idle(it)),
                "idle regions leave"
            );
            self.regions.retain(|_, region| !leaves(region));
            self.repairs.on_flushed();
            return Some(LogStep::Flushed);
        }
        assert_eq!(phase, Phase::Recording, "a record ends");
        (self.durable, self.durable_on) = (self.record.regions.clone(), done);
        let is_durable = |number| self.durable.binary_search(number).is_ok();
        let mut written = self.regions.iter().filter(|(_, region)| region.in_flight > 0);
        assert!(written.all(|(number, _)| is_durable(number)), "a record has each write in flight");
        Some(LogStep::Recorded)
    }

    /// When idle regions are looked for; `None` if there is no active region.
    pub(crate) fn next_tick(&self) -> Option<Nanos> {
        self.next_tick
    }

    /// Sets the next tick if there is none, for something else than a region.
    pub(crate) fn arm_anyway(&mut self, now: Nanos) {
        self.next_tick.get_or_insert(now + IDLE_PERIOD);
    }

    /// Sets the next tick if there is none.
    pub(crate) fn arm(&mut self, now: Nanos) {
        if !self.regions.is_empty() || self.repairs.may_be_lost() {
            self.arm_anyway(now);
        }
    }

    /// Returns true if a tick is due, and sets the next.
    pub(crate) fn take_tick(&mut self, now: Nanos) -> bool {
        let is_due = self.next_tick.is_some_and(|at| at <= now);
        if is_due {
            self.next_tick = None;
            self.arm(now);
            assert!(self.next_tick.is_none_or(|at| at > now), "the next tick is later");
        }
        is_due
    }
}

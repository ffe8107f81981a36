//! The labels of a running volume: what the members' labels say, and the update under way.
//!
//! The volume owns the state of its members. This compares it with what the labels say, and makes
//! the next label when they differ. An update has two steps, *announce* and *commit*: the same
//! contents under two generations, each written to all members that take writes and flushed there
//! (see [`crate::label`]). A member that cannot be written leaves the update: the volume fails it,
//! which is the next change. If the volume cannot do without it, the update is stuck; the requests
//! that wait for it fail, and the next one tries again with the same label.

use crate::label::assembly::FoundMember;
use crate::label::{DataId, LABEL_SLOTS, Label, LabelledSpare, Uuid, can_catch_up};
use crate::label_claims::{claims_more, is_true, recorded_state};
use crate::volume_labels::VolumeLabels;
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::policy::KeptProgram;
use mirrorball_core::rng::Rng;
use mirrorball_core::volume::MemberStates;
use mirrorball_core::volume::PieceKey;

/// See the page of this module.
pub(crate) struct LabelWriter {
    /// The last label that was committed or outdated: it is the newest that any member has.
    committed: Label,
    /// The generation of the newest label on any member.
    generation: u64,
    /// For each member, the slot of the newest label on it.
    slots: Vec<usize>,
    uuids: Vec<Uuid>,
    update: Option<Update>,
    /// Members whose storage was replaced while their label was written.
    replaced: Vec<MemberIndex>,
    /// Members on which a flush failed while their label was written, which may have lost it.
    spoiled: Vec<MemberIndex>,
    /// For each member that is being rebuilt, the recovery offset that is durable on it.
    pub(crate) durable_bytes: Vec<u64>,
    /// For each member, true if its own label was written since its state was set.
    has_own: Vec<bool>,
    /// True if the labels are to be written though they may say the same.
    is_due: bool,
    /// For each member, true if its device lost data, so that it is rebuilt whole.
    lacks_repairs: Vec<bool>,
    /// For each member, true if an operator failed it.
    kept_out: Vec<bool>,
    /// True if the labels are to say that the volume was stopped in good order.
    pub(crate) is_clean: bool,
    pub(crate) resync_from: Option<u64>,
    pub(crate) policy: String,
    pub(crate) program: Option<KeptProgram>,
    pub(crate) spares: Vec<LabelledSpare>,
    /// The generation of the list of bad blocks that members have; zero while there are none.
    pub(crate) bad_blocks_generation: u64,
    rng: Rng,
    /// Pieces that start once the labels are current.
    pub(crate) waiting: Vec<PieceKey>,
    /// Pieces that end once the labels are current.
    pub(crate) held: Vec<PieceKey>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    Announce,
    Commit,
}

struct Update {
    label: Label,
    step: Step,
    /// Members whose label of this step is not durable.
    left: Vec<MemberIndex>,
    in_flight: usize,
}

/// How an update goes on when none of its I/O is in flight.
pub(crate) enum UpdateStep {
    Write(Vec<MemberIndex>),
    /// These members cannot be written.
    Unwritable(Vec<MemberIndex>),
    /// The label is committed, or outdated.
    Committed,
}

impl LabelWriter {
    pub(crate) fn new(labels: VolumeLabels) -> LabelWriter {
        let VolumeLabels { label, slots, behind, is_joined, announced, seed, .. } = labels;
        assert_eq!(slots.len(), label.members.len(), "a slot for each member");
        assert!(slots.iter().all(|&slot| slot < LABEL_SLOTS.len()), "{slots:?}");
        // A member must not fall two generations behind, so the first update makes up for it.
        let update = (!behind.is_empty()).then(|| Update {
            label: label.clone(),
            step: Step::Commit,
            left: behind,
            in_flight: 0,
        });
        LabelWriter {
            durable_bytes: vec![0; label.members.len()],
            has_own: vec![true; label.members.len()],
            // No record before a label that is as new, see `Volume::write_record`. What was only
            // announced is committed.
            is_due: is_joined || !announced.is_empty(),
            lacks_repairs: label.members.iter().map(|row| row.lacks_repairs).collect(),
            kept_out: label.members.iter().map(|row| row.is_kept_out).collect(),
            generation: label.generation,
            is_clean: label.is_clean,
            resync_from: label.resync_from,
            policy: label.policy.clone(),
            program: label.program.clone(),
            spares: label.spares.clone(),
            bad_blocks_generation: label.bad_blocks_generation,
            uuids: label.members.iter().map(|row| row.uuid).collect(),
            committed: label,
            slots,
            update,
            replaced: Vec::new(),
            spoiled: Vec::new(),
            rng: Rng::stream(seed, "data id"),
            waiting: Vec::new(),
            held: Vec::new(),
        }
    }

    pub(crate) fn committed(&self) -> &Label {
        &self.committed
    }

    /// Returns true if the labels say what is so.
    pub(crate) fn is_current(&self, states: &MemberStates) -> bool {
        let rows = self.committed.members.iter().zip(&self.uuids);
        let mut rows = rows.zip(states.members().iter());
        self.update.is_none()
            && !self.is_due
            && self.committed.is_clean == self.is_clean
            && self.committed.resync_from == self.resync_from
            && self.committed.policy == self.policy
            && self.committed.program == self.program
            && self.committed.spares == self.spares
            && self.committed.bad_blocks_generation == self.bad_blocks_generation
            && rows.all(|((row, uuid), (_, member))| {
                row.uuid == *uuid && is_true(row.state, member.state)
            })
    }

    pub(crate) fn uuid(&self, member: MemberIndex) -> Uuid {
        self.uuids[member.get()]
    }

    pub(crate) fn has_io_in_flight(&self) -> bool {
        self.update.as_ref().is_some_and(|update| update.in_flight > 0)
    }

    /// Returns true if an update is stuck: a member cannot be written that has to stay.
    pub(crate) fn is_stuck(&self) -> bool {
        self.update.as_ref().is_some_and(|update| update.in_flight == 0)
    }

    /// Starts an update, or the rest of one that was stuck; returns the members to write.
    /// `sequence` is what the history is to say of the dirty log if a member has left.
    pub(crate) fn start(
        &mut self,
        states: &MemberStates,
        sequence: Option<u64>,
    ) -> Vec<MemberIndex> {
        assert!(!self.has_io_in_flight(), "one update at a time");
        assert!(self.generation >= self.committed.generation, "generations only grow");
        if self.update.is_none() {
            let label = self.next_label(states, sequence);
            self.generation = label.generation;
            let left = states.active().collect();
            self.update = Some(Update { label, step: Step::Announce, left, in_flight: 0 });
        }
        let update = self.update.as_mut().expect("an update is under way");
        // One that failed and returned meanwhile gets the next label, which does not say more of it
        // than it has.
        update.left.retain(|&member| {
            let (row, state) =
                (&update.label.members[member.get()], states.members()[member].state);
            state != MemberState::Failed && !claims_more(row.state, state)
        });
        assert!(update.left.is_sorted(), "a member gets a label once: {:?}", update.left);
        assert!(update.label.generation >= self.committed.generation, "generations only grow");
        update.in_flight = update.left.len();
        update.left.clone()
    }

    /// The bytes of the label for a member. If its storage was replaced since the update began,
    /// the label does not list it, and so is not valid on it.
    pub(crate) fn block(&self, member: MemberIndex) -> Box<[u8]> {
        let update = self.update.as_ref().expect("an update is under way");
        update.label.encode(self.uuid(member), self.slot_offset(member))
    }

    pub(crate) fn slot_offset(&self, member: MemberIndex) -> u64 {
        let newest = self.slots[member.get()];
        assert!(newest < LABEL_SLOTS.len(), "a label is in one of the slots");
        LABEL_SLOTS[1 - newest]
    }

    /// Records that a member has another storage, with its newest label in this slot. A storage
    /// without a label of this member gets another UUID: should the old one be found again, the two
    /// must not be taken for each other.
    pub(crate) fn on_replaced(&mut self, member: MemberIndex, slot: Option<usize>) {
        assert!(slot.is_none_or(|slot| slot < LABEL_SLOTS.len()), "{slot:?}");
        self.slots[member.get()] = slot.unwrap_or(0);
        if slot.is_none() {
            self.lacks_repairs[member.get()] = false;
            let words = [self.rng.next_u64(), self.rng.next_u64()];
            let number = u128::from(words[0]) << 64 | u128::from(words[1]);
            self.uuids[member.get()] = Uuid(number.to_be_bytes());
        }
        self.is_due = true;
        if self.has_io_in_flight() {
            self.replaced.push(member);
        }
    }

    /// Records that the storage without a label, which a member has now, was this spare.
    pub(crate) fn on_spare_used(&mut self, member: MemberIndex, spare: Uuid) {
        self.uuids[member.get()] = spare;
        self.spares.retain(|other| other.uuid != spare);
        let same = self.uuids.iter().filter(|&&uuid| uuid == spare).count();
        assert_eq!(same, 1, "one member has the UUID {spare}");
    }

    /// Records that the device of a failed member was removed: no device found later is this
    /// member.
    pub(crate) fn on_removed(&mut self, member: MemberIndex) {
        self.uuids[member.get()] = Uuid::NIL;
        self.is_due = true;
    }

    /// Records that a flush failed on a member that stays: what was written before is not durable,
    /// whatever later flushes say.
    pub(crate) fn on_failed_flush(&mut self, member: MemberIndex) {
        if self.has_io_in_flight() {
            self.spoiled.push(member);
        }
    }

    /// Forgets the progress of a rebuild and the label of the member, because its state was set.
    pub(crate) fn forget_progress(&mut self, member: MemberIndex) {
        self.durable_bytes[member.get()] = 0;
        self.has_own[member.get()] = false;
    }

    /// Returns true if the label on a member says what it is. By an older one it may be in sync,
    /// with the data of that time.
    pub(crate) fn has_own(&self, member: MemberIndex) -> bool {
        self.has_own[member.get()]
    }

    /// Records that a member is durable up to this recovery offset, which the labels are to say.
    pub(crate) fn on_progress(&mut self, member: MemberIndex, recovered_bytes: u64) {
        let durable_bytes = &mut self.durable_bytes[member.get()];
        assert!(recovered_bytes > 0, "progress is some");
        *durable_bytes = recovered_bytes.max(*durable_bytes);
        self.is_due = true;
    }

    /// The recovery offset of a member that is being rebuilt, as the labels have it.
    pub(crate) fn recorded_bytes(&self, member: MemberIndex) -> u64 {
        match self.committed.members[member.get()].state {
            MemberState::Rebuilding { recovered_bytes } => recovered_bytes,
            MemberState::InSync | MemberState::Failed => 0,
        }
    }

    /// Records that the device of a failed member lacks data that no log says: it is rebuilt whole.
    pub(crate) fn on_repairs_lost(&mut self, member: MemberIndex) {
        self.lacks_repairs[member.get()] = true;
        self.is_due = true;
    }

    /// Records that an operator failed a member.
    pub(crate) fn keep_out(&mut self, member: MemberIndex) {
        self.kept_out[member.get()] = true;
        self.is_due = true;
    }

    /// Returns true if an operator failed a member, unless it was taken back.
    pub(crate) fn is_kept_out(&self, member: MemberIndex) -> bool {
        self.kept_out[member.get()]
    }

    /// Returns true if a member that comes back with this gets only what it missed.
    pub(crate) fn can_catch_up(&self, member: MemberIndex, found: &FoundMember) -> bool {
        !self.lacks_repairs[member.get()] && can_catch_up(&self.committed, found)
    }

    /// Handles the end of the write and flush on a member.
    pub(crate) fn on_written(&mut self, member: MemberIndex, is_durable: bool) {
        let update = self.update.as_mut().expect("an update is under way");
        assert!(update.in_flight > 0, "an I/O of the update ends once");
        assert!(update.left.contains(&member), "the update waits for {member:?}");
        update.in_flight -= 1;
        let is_replaced = self.replaced.contains(&member);
        let is_durable = is_durable && !self.spoiled.contains(&member);
        if is_durable || is_replaced {
            update.left.retain(|&left| left != member);
        }
        if is_durable && !is_replaced {
            self.slots[member.get()] = 1 - self.slots[member.get()];
            self.has_own[member.get()] = true;
        }
    }

    /// The next step of the update, once none of its I/O is in flight; `None` before.
    pub(crate) fn advance(&mut self, states: &mut MemberStates) -> Option<UpdateStep> {
        let update = self.update.as_mut()?;
        if update.in_flight > 0 {
            return None;
        }
        self.replaced.clear();
        self.spoiled.clear();
        update.left.retain(|&member| !states.is_failed(member));
        // Members without the label do not start by themselves without one in sync that has it, as
        // theirs calls it in sync, too.
        if states.has_recorded_except(&update.left) {
            states.on_recorded(update.label.members.iter().map(|row| &row.state));
        }
        if !update.left.is_empty() {
            return Some(UpdateStep::Unwritable(update.left.clone()));
        }
        // A label that calls a member in use which failed meanwhile must not be written again: that
        // member would seem to be an old copy. Nor must one that calls a member in sync whose
        // storage is another one now. The next update says what is so.
        let rows = update.label.members.iter().zip(&self.uuids).zip(states.members().iter());
        let is_outdated = rows.into_iter().any(|((row, uuid), (_, member))| match row.state {
            MemberState::Failed => false,
            _ if row.uuid != *uuid => true,
            state => member.state == MemberState::Failed || claims_more(state, member.state),
        });
        if update.step == Step::Announce && !is_outdated {
            update.step = Step::Commit;
            update.label.generation += 1;
            assert!(update.label.generation > self.generation, "a commit follows its announcement");
            self.generation = update.label.generation;
            // A member that joined meanwhile gets the next update.
            let has_row = |&member: &MemberIndex| {
                update.label.members[member.get()].state != MemberState::Failed
            };
            update.left = states.active().filter(has_row).collect();
            if !update.left.is_empty() {
                update.in_flight = update.left.len();
                return Some(UpdateStep::Write(update.left.clone()));
            }
        }
        let update = self.update.take().expect("it was there before");
        assert!(update.left.is_empty(), "a label is committed on all members that take writes");
        assert!(update.label.generation >= self.committed.generation, "generations only grow");
        self.committed = update.label;
        Some(UpdateStep::Committed)
    }

    /// The label that says what is so.
    fn next_label(&mut self, states: &MemberStates, sequence: Option<u64>) -> Label {
        let mut label = self.committed.clone();
        label.generation = self.generation + 1;
        assert!(label.generation > self.committed.generation, "generations only grow");
        assert_eq!(label.members.len(), states.members().len(), "a row for each member");
        label.is_clean = self.is_clean;
        label.resync_from = self.resync_from;
        label.policy.clone_from(&self.policy);
        label.program.clone_from(&self.program);
        label.spares.clone_from(&self.spares);
        label.bad_blocks_generation = self.bad_blocks_generation;
        self.is_due = false;
        let mut has_left = false;
        let was_complete = label.members.iter().all(|row| row.state == MemberState::InSync);
        for (row, (index, member)) in label.members.iter_mut().zip(states.members().iter()) {
            row.uuid = self.uuids[index.get()];
            has_left |= row.state == MemberState::InSync && member.state != MemberState::InSync;
            row.state = recorded_state(row, member.state, self.durable_bytes[index.get()]);
            self.lacks_repairs[index.get()] &= member.state != MemberState::InSync;
            row.lacks_repairs = self.lacks_repairs[index.get()];
            self.kept_out[index.get()] &= member.state == MemberState::Failed;
            row.is_kept_out = self.kept_out[index.get()];
            assert!(is_true(row.state, member.state), "{:?} of {:?}", row.state, member.state);
        }
        if has_left {
            let id = DataId(self.rng.next_u64().max(1));
            assert_ne!(id, label.lineage.id, "a data id is drawn once");
            label.lineage = label.lineage.successor(id, self.generation);
            label.lineage.history[0].sequence = sequence;
            label.lineage.history[0].was_complete = was_complete;
        }
        label
    }
}

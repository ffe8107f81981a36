//! Members and operators' commands, as the labels record them: replaced and removed devices,
//! spares, the policy.

use crate::StoreGate;
use crate::label::assembly::FoundMember;
use crate::label::{LabelledSpare, SPARES_MAX, Uuid};
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::policy::{KeptProgram, PolicyFault};
use mirrorball_core::volume::MemberStates;
use mirrorball_core::volume::gate::Array;

impl StoreGate {
    /// Handles a change of the state of a member.
    pub(crate) fn on_member_set(
        &mut self,
        member: MemberIndex,
        had_failed: bool,
        array: &mut Array<'_>,
    ) {
        let state = array.states.members()[member].state;
        if state == MemberState::Failed && !had_failed {
            self.metadata.failed.push(member);
            let has_lost_blocks = self.bad.may_lose_blocks(member);
            self.bad.on_failed(member);
            if self.log.repairs.may_be_lost() || has_lost_blocks {
                // It may lack repairs: all of it is copied when it comes back.
                self.labels.on_repairs_lost(member);
            }
        }
        let is_rebuilt = matches!(state, MemberState::Rebuilding { .. });
        self.catching_up[member.get()] &= is_rebuilt;
        assert!(member.get() < self.label().members.len(), "the label has {member:?}");
        if is_rebuilt {
            self.log.on_joined(member, 0);
            self.bad.on_joined(member, None);
        }
        if self.is_empty(member, array.states) {
            self.bad.forget(member);
        }
        self.labels.forget_progress(member);
    }

    /// Returns true if a member has nothing yet: it is rebuilt whole, from its beginning.
    pub(crate) fn is_empty(&self, member: MemberIndex, states: &MemberStates) -> bool {
        let begins = MemberState::Rebuilding { recovered_bytes: 0 };
        states.members()[member].state == begins && !self.catching_up[member.get()]
    }

    /// Fails a member, unless the volume cannot do without it.
    pub(crate) fn lose_member(&mut self, member: MemberIndex, array: &mut Array<'_>) {
        if array.states.lose(member) {
            assert!(array.states.is_failed(member), "{member:?} is lost");
            self.on_member_set(member, false, array);
        }
    }

    /// Fails members that failed a flush, as far as the volume can do without them. Returns true if
    /// some stay.
    pub(crate) fn lose_unflushed_members(&mut self, array: &mut Array<'_>) -> bool {
        for member in array.states.unflushed() {
            self.lose_member(member, array);
        }
        array.states.has_lost_writes()
    }

    /// Records that a member that is to be rebuilt has another storage, or the same one opened
    /// again. `found` is what that holds of this member, if its UUID is [`StoreGate::own_uuid`]; a
    /// storage without it must have no valid label in either slot, and becomes a member with a new
    /// UUID.
    pub fn on_storage_replaced(
        &mut self,
        member: MemberIndex,
        found: Option<&FoundMember>,
        array: &mut Array<'_>,
    ) {
        let own = self.own_uuid(member, array.states);
        let devid = array.states.members()[member].config.devid;
        let found = found.filter(|found| Some(found.newest.found.member) == own);
        self.labels.on_replaced(member, found.map(|found| found.newest.slot));
        if found.is_none() {
            // The member has its new device: no other one is to take its place by itself.
            self.labels.spares.retain(|spare| spare.replaces != Some(devid));
            self.forget_mismatched(member);
        }
        let record = found.and_then(|found| found.record.as_ref());
        self.log.on_joined(member, record.map_or(0, |record| record.sequence));
        self.bad.on_joined(member, found.and_then(|found| found.bad_blocks.as_ref()));
        let catches_up = found.is_some_and(|found| self.labels.can_catch_up(member, found));
        self.catching_up[member.get()] = catches_up;
        if catches_up {
            assert!(found.is_some(), "{member:?} has its own data");
            self.log.stale.set_base(self.labels.committed().lineage.complete_id());
            let regions = found.iter().flat_map(|found| found.last_regions());
            regions.for_each(|region| self.log.stale.insert(region));
        }
    }

    /// Records that a member that is to be rebuilt has the storage of a spare, which is no spare
    /// any more and keeps its UUID.
    pub fn on_spare_used(&mut self, member: MemberIndex, spare: Uuid, array: &mut Array<'_>) {
        self.on_storage_replaced(member, None, array);
        self.labels.on_spare_used(member, spare);
        assert!(self.spares().iter().all(|it| it.uuid != spare), "a member is no spare");
    }

    /// The spares of the volume, which the labels list or are to list.
    pub fn spares(&self) -> &[LabelledSpare] {
        &self.labels.spares
    }

    /// Returns true if a spare may take the place of a member: the labels list it, or call it this
    /// member though it never got a label, because of a crash.
    pub fn is_spare_for(&self, member: MemberIndex, spare: Uuid, states: &MemberStates) -> bool {
        let is_listed = self.spares().iter().any(|other| other.uuid == spare);
        is_listed || self.own_uuid(member, states) == Some(spare)
    }

    /// Records a spare, whose block is durable on it. Returns false if the labels are full, or the
    /// volume is read-only.
    pub fn add_spare(&mut self, spare: LabelledSpare, array: &mut Array<'_>) -> bool {
        let has_room = self.spares().len() < SPARES_MAX && !self.is_read_only;
        if has_room {
            assert_ne!(spare.uuid, Uuid::NIL, "a spare has a UUID");
            self.labels.spares.push(spare);
            self.update_labels(array);
        }
        has_room
    }

    /// Records the device that a member is copied to, whose block is durable on it: the copy begins
    /// again after a restart. Returns false as [`StoreGate::add_spare`] does.
    pub fn begin_copy(&mut self, spare: LabelledSpare, array: &mut Array<'_>) -> bool {
        assert!(spare.replaces.is_some(), "a member is copied to {spare:?}");
        let is_other = |it: &LabelledSpare| it.uuid != spare.uuid && it.replaces != spare.replaces;
        self.labels.spares.retain(is_other);
        self.add_spare(spare, array)
    }

    /// Records that a device is no spare any more. Returns false if it was none.
    pub fn remove_spare(&mut self, spare: Uuid, array: &mut Array<'_>) -> bool {
        let is_known = self.spares().iter().any(|other| other.uuid == spare) && !self.is_read_only;
        if is_known {
            self.labels.spares.retain(|other| other.uuid != spare);
            self.update_labels(array);
        }
        is_known
    }

    /// Returns true if a member that is rebuilt may lack a write to this region.
    pub(crate) fn may_lack_region(&self, member: MemberIndex, region: u32) -> bool {
        !self.catching_up[member.get()]
            || self.log.stale.contains(region)
            || self.log.is_active(region)
    }

    /// Returns true if a member that is rebuilt gets only the regions that it may lack.
    pub fn is_catching_up(&self, member: MemberIndex) -> bool {
        self.catching_up[member.get()]
    }

    /// The UUID by which the storage of a failed member is known when it returns; `None` if the
    /// member works: then another storage is not the same one.
    pub fn own_uuid(&self, member: MemberIndex, states: &MemberStates) -> Option<Uuid> {
        let uuid = self.labels.uuid(member);
        (states.is_failed(member) && uuid != Uuid::NIL).then_some(uuid)
    }

    /// The UUID of a member, which the labels have or are to have.
    pub fn uuid(&self, member: MemberIndex) -> Uuid {
        self.labels.uuid(member)
    }

    /// Records that the device of a failed member was removed: should it be found again, it is not
    /// a member. Returns false if the member has not failed.
    pub fn remove_device(&mut self, member: MemberIndex, array: &mut Array<'_>) -> bool {
        let is_failed = array.states.is_failed(member) && !self.is_read_only;
        if is_failed {
            self.labels.on_removed(member);
            self.bad.forget(member);
            self.forget_mismatched(member);
            assert!(!self.has_device(member), "the device of {member:?} is removed");
            array.states.set(member, MemberState::Failed);
            self.on_member_set(member, true, array);
            self.update_labels(array);
        }
        is_failed
    }

    /// Returns false if the device of a member was removed, and none has replaced it.
    pub fn has_device(&self, member: MemberIndex) -> bool {
        self.labels.uuid(member) != Uuid::NIL
    }

    /// Records that an operator failed a member, which is out until an operator takes it back.
    pub fn keep_out(&mut self, member: MemberIndex, array: &mut Array<'_>) {
        if array.states.is_failed(member) && !self.is_read_only {
            self.labels.keep_out(member);
            self.update_labels(array);
        }
    }

    /// Returns true if an operator failed a member.
    pub fn is_kept_out(&self, member: MemberIndex, states: &MemberStates) -> bool {
        self.labels.is_kept_out(member) && states.is_failed(member)
    }

    /// Records a policy with which the volume starts from now on, and a program that chooses in its
    /// place. Returns false if the volume is read-only.
    pub fn keep_policy(
        &mut self,
        policy: &str,
        program: Option<KeptProgram>,
        array: &mut Array<'_>,
    ) -> bool {
        if !self.is_read_only {
            policy.clone_into(&mut self.labels.policy);
            self.labels.program = program;
            self.update_labels(array);
        }
        !self.is_read_only
    }

    /// Records that a fault ended the program that the labels name, if that is so, so that the
    /// volume does not start with it again.
    pub fn record_policy_fault(&mut self, fault: &PolicyFault, array: &mut Array<'_>) {
        let program = self.labels.program.as_mut().filter(|_| !self.is_read_only);
        let ended = fault.ended_program.as_ref();
        if let Some(program) = program.filter(|it| !it.has_faulted && Some(&it.name) == ended) {
            program.has_faulted = true;
            self.update_labels(array);
        }
    }
}

//! Replacement of a member that works: it is copied to its successor while it stays in use, and
//! keeps what no other member can give.
//!
//! Until it has all data, the successor is a spare that the labels list for this member alone, and
//! holds no label. Its block is durable before the labels list it, and it is in sync only after a
//! label on it says so. So at each crash before that the old device is the member, and the copy
//! begins again at its beginning: nothing that the successor holds is read. The list forgets the
//! successor when its copy fails, or another device takes the place of the member.

use super::refusals::refuse_needed;
use super::{Rebuild, RebuildError, RebuildOpened};
use crate::device_address::DeviceAddress;
use crate::executor::Executor;
use crate::member::Source;
use crate::reopen::{MemberPlace, OpenedMember};
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_store::StoreGate;
use mirrorball_store::label::{LabelledSpare, Uuid};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberCopy {
    pub member: MemberIndex,
    pub place: MemberPlace,
    /// The offset on the member up to which it is copied.
    pub copied_bytes: u64,
    /// Why the device cannot take its place; then it gets nothing more.
    pub error: Option<String>,
}

impl MemberCopy {
    pub fn device(&self) -> String {
        self.place.new_device().map(DeviceAddress::absolute).unwrap_or_default()
    }
}

/// Returns true if a member stays in use while it is copied to this device: it is in sync, and the
/// device is a file or block device.
pub(super) fn can_copy(member: MemberIndex, source: &Source, executor: &Executor) -> bool {
    let volume = executor.volume().expect("it is a member of one");
    let is_in_sync = volume.members()[member].state == MemberState::InSync;
    is_in_sync && matches!(source, Source::Real(_))
}

/// Has the labels list the device to which a member is copied, so that the copy begins again after
/// a restart; returns where the device is from then on.
fn record_copy(
    devid: u64,
    place: MemberPlace,
    made: Option<LabelledSpare>,
    executor: &mut Executor,
) -> MemberPlace {
    let Some(volume) = executor.volume_mut() else { return place };
    let listed = match (&place, volume.gate()) {
        (MemberPlace::Spare(_, uuid), Some(store)) => {
            store.spares().iter().find(|spare| spare.uuid == *uuid).copied()
        }
        _ => None,
    };
    let Some(spare) = made.or(listed) else { return place };
    let spare = LabelledSpare { replaces: Some(devid), ..spare };
    let is_listed = volume.change_gate(|store, array| store.begin_copy(spare, array));
    match place {
        MemberPlace::New(address, _) if is_listed == Some(true) => {
            MemberPlace::Spare(address, spare.uuid)
        }
        place => place,
    }
}

impl Rebuild {
    /// The members that are copied to devices, and those of which that failed.
    pub fn copies(&self) -> &[MemberCopy] {
        &self.copies
    }

    /// True while a member is copied to another device.
    pub fn is_copying(&self, member: MemberIndex) -> bool {
        self.copies.iter().any(|copy| copy.member == member && copy.error.is_none())
    }

    /// Begins to copy a member to its successor.
    pub(super) fn begin_copy(
        &mut self,
        member: MemberIndex,
        place: MemberPlace,
        opened: OpenedMember,
        rate: Option<u64>,
        executor: &mut Executor,
    ) -> Result<RebuildOpened, RebuildError> {
        let OpenedMember { source, notes, spare, .. } = opened;
        let volume = executor.volume().expect("it is a member of one");
        let devid = volume.members()[member].config.devid;
        let copied_bytes = volume.map().allocated(member).start;
        let added = executor.add_successor(member, source);
        added.map_err(|error| RebuildError::Unfit { devid, why: error.to_string() })?;
        let place = record_copy(devid, place, spare, executor);
        self.copies.retain(|copy| copy.member != member);
        self.copies.push(MemberCopy { member, place: place.clone(), copied_bytes, error: None });
        (self.rate, self.next_step) = (rate, executor.driver.now());
        Ok(RebuildOpened { devid, place, is_copied: true, notes })
    }

    /// The ranges that are to be copied.
    pub(super) fn uncopied<'a>(
        &'a self,
        executor: &'a Executor,
    ) -> impl Iterator<Item = (MemberIndex, u64, u64)> + 'a {
        let map = executor.volume().map(|volume| volume.map());
        self.copies.iter().filter(|copy| copy.error.is_none()).filter_map(move |copy| {
            let end = map?.allocated(copy.member).end;
            (copy.copied_bytes < end).then_some((copy.member, copy.copied_bytes, end))
        })
    }

    /// Notes that a step copied the next bytes of a member, if it is copied.
    pub(super) fn on_copied(&mut self, member: MemberIndex, length: u64) {
        let copy = self.copies.iter_mut().find(|it| it.member == member && it.error.is_none());
        copy.into_iter().for_each(|copy| copy.copied_bytes += length);
    }

    /// Puts successors in the places of their members: of those that are copied, once the other
    /// members are in sync, and of those that failed, which are rebuilt whole.
    pub(super) fn end_copies(&mut self, executor: &mut Executor) {
        for at in (0..self.copies.len()).rev() {
            let copy = self.copies[at].clone();
            let Some(volume) = executor.volume().filter(|_| copy.error.is_none()) else { continue };
            let member = copy.member;
            let end = volume.map().allocated(member).end;
            if let Some(fault) = executor.successor_fault(member) {
                executor.drop_successor(member);
                self.copies[at].error = Some(fault.to_string());
                if let (MemberPlace::Spare(_, uuid), Some(volume)) =
                    (copy.place, executor.volume_mut())
                {
                    volume.change_gate(|store, array| store.remove_spare(uuid, array));
                }
                continue;
            }
            let recovered_bytes = match volume.members()[member].state {
                MemberState::InSync if copy.copied_bytes < end => continue,
                MemberState::InSync if refuse_needed(member, executor).is_err() => continue,
                MemberState::InSync => end,
                MemberState::Rebuilding { .. } | MemberState::Failed => 0,
            };
            self.copies.remove(at);
            self.end_copy(copy, recovered_bytes, executor);
        }
    }

    fn end_copy(&mut self, copy: MemberCopy, recovered_bytes: u64, executor: &mut Executor) {
        let MemberCopy { member, place, .. } = copy;
        executor.use_successor(member);
        let volume = executor.volume_mut().expect("its member is copied");
        volume.change_gate(|store: &mut StoreGate, array| {
            match place {
                MemberPlace::Spare(_, uuid) => store.on_spare_used(member, uuid, array),
                _ => store.on_storage_replaced(member, None, array),
            }
            if recovered_bytes > 0 {
                store.resync_bad_blocks(member);
            }
        });
        volume.set_member_state(member, MemberState::Rebuilding { recovered_bytes });
        let devid = volume.members()[member].config.devid;
        self.stalled.retain(|stalled| stalled.member != member);
        let reopener = self.reopener.as_mut().expect("its successor was opened");
        reopener.on_attached(member, place.clone());
        self.replaced.push(RebuildOpened { devid, place, is_copied: false, notes: Vec::new() });
    }

    /// Ends the copy of a member to a device, which is named by its path or UUID; returns the
    /// devid of the member, which stays as it is, and the UUID.
    pub fn end_copy_to(
        &mut self,
        name: &str,
        executor: &mut Executor,
    ) -> Option<(u64, Option<Uuid>)> {
        let address = DeviceAddress::parse(name).ok();
        let uuid = |copy: &MemberCopy| match copy.place {
            MemberPlace::Spare(_, uuid) => Some(uuid),
            _ => None,
        };
        let is_named = |copy: &MemberCopy| {
            let device = copy.place.new_device().zip(address.as_ref());
            let is_uuid = uuid(copy).is_some_and(|uuid| uuid.to_string() == name);
            copy.error.is_none() && (is_uuid || device.is_some_and(|(own, it)| own.is_same(it)))
        };
        let at = self.copies.iter().position(is_named)?;
        let copy = self.copies.remove(at);
        let (member, uuid) = (copy.member, uuid(&copy));
        self.stalled.retain(|stalled| stalled.member != member);
        executor.drop_successor(member);
        let volume = executor.volume().expect("its member was copied");
        Some((volume.members()[member].config.devid, uuid))
    }

    /// True if a member is copied to this device.
    pub fn is_copied_to(&self, device: Uuid) -> bool {
        let is_it =
            |place: &MemberPlace| matches!(place, MemberPlace::Spare(_, it) if *it == device);
        self.copies.iter().any(|copy| copy.error.is_none() && is_it(&copy.place))
    }

    /// The next member whose place was taken by its successor.
    pub fn poll_replaced(&mut self) -> Option<RebuildOpened> {
        self.replaced.pop()
    }

    /// Refuses to replace a member that is being replaced.
    pub(super) fn refuse_copied(
        &self,
        member: MemberIndex,
        devid: u64,
    ) -> Result<(), RebuildError> {
        let copied = self.copies.iter().find(|it| it.member == member && it.error.is_none());
        match copied {
            None => Ok(()),
            Some(copy) => Err(RebuildError::Copying { devid, device: copy.device() }),
        }
    }
}

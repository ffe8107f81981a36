//! Reasons to refuse the rebuild of a member on a device.

use super::RebuildError;
use crate::device_address::DeviceAddress;
use crate::driver::FileId;
use crate::executor::Executor;
use crate::reopen::MemberPlace;
use mirrorball_core::member::{Member, MemberIndex, MemberState};
use mirrorball_store::StoreGate;

pub(super) fn is_failed(member: MemberIndex, executor: &Executor) -> bool {
    let volume = executor.volume().expect("it is a member of one");
    volume.members()[member].state == MemberState::Failed
}

/// Refuses to replace the storage of a member that may have the only copy of some data.
pub(super) fn refuse_needed(member: MemberIndex, executor: &Executor) -> Result<(), RebuildError> {
    let volume = executor.volume().expect("it is a member of one");
    let members = volume.members();
    // Until the labels say that another was rebuilt, the old device would start by itself.
    let is_stale = |(index, other): &(MemberIndex, &Member)| {
        let is_being_recorded =
            |store: &StoreGate| store.is_being_recorded(*index, volume.states());
        other.state != MemberState::InSync || volume.gate().is_some_and(is_being_recorded)
    };
    match members.iter().filter(|(index, _)| *index != member).find(is_stale) {
        None => Ok(()),
        Some((_, other)) => Err(RebuildError::Needed {
            devid: members[member].config.devid,
            other: other.config.devid,
            is_rebuilding: other.state != MemberState::Failed,
        }),
    }
}

/// Refuses a rebuild while a member cannot be reached that has the only copy of some data: what the
/// stale member has would be given up for nothing.
pub(super) fn refuse_unreachable_source(executor: &Executor) -> Result<(), RebuildError> {
    let volume = executor.volume().expect("it is a member of one");
    let states = volume.states();
    let is_away = |it: &MemberIndex| executor.is_unreachable(*it) && !states.can_fail(*it);
    match states.active().find(is_away) {
        None => Ok(()),
        Some(away) => Err(RebuildError::UnreachableSource(volume.members()[away].config.devid)),
    }
}

/// Refuses an NBD server in the place of a member in sync, which would be given up before the
/// server has its data.
pub(super) fn refuse_remote(
    member: MemberIndex,
    place: &MemberPlace,
    executor: &Executor,
) -> Result<(), RebuildError> {
    let member = &executor.volume().expect("it is a member of one").members()[member];
    match place.new_device().filter(|device| device.path().is_none()) {
        Some(device) if member.state == MemberState::InSync => {
            Err(RebuildError::Remote { devid: member.config.devid, device: device.to_string() })
        }
        _ => Ok(()),
    }
}

pub(crate) fn member_at(address: &DeviceAddress, executor: &Executor) -> Option<MemberIndex> {
    let file = address.path().and_then(FileId::at)?;
    let mut members = executor.volume()?.members().iter().map(|(index, _)| index);
    members.find(|&index| executor.file_id(index) == Some(file))
}

/// Refuses a device in the place of a member that is a member already. One that failed may be put
/// in its own place again.
pub(super) fn refuse_member(
    member: MemberIndex,
    address: &DeviceAddress,
    executor: &Executor,
) -> Result<(), RebuildError> {
    let Some(found) = member_at(address, executor) else { return Ok(()) };
    let members = executor.volume().expect("it is a member of one").members();
    let Member { config, state, .. } = &members[found];
    let (devid, device) = (config.devid, address.to_string());
    match found == member {
        true if *state == MemberState::Failed => Ok(()),
        true => Err(RebuildError::SameDevice { devid, device }),
        false => Err(RebuildError::OtherMember { devid, device }),
    }
}

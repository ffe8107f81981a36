//! Requests that take members out of use, or put devices in their places.

use super::ServiceParts;
use super::conditions::{WatchedParts, reported_state};
use super::protocol::{MemberError, ReportedState, RequestError, RequestErrorKind};
use crate::device_address::DeviceAddress;
use crate::executor::Executor;
use crate::member::file::Occupied;
use crate::rebuild::{Rebuild, RebuildError, RebuildRequest, RebuildTask};
use crate::reopen::MemberPlace;
use mirrorball_core::member::{MemberIndex, MemberState};

/// A request to put a device in the place of a member: of the one that failed, if none is named.
pub(super) fn replacement(
    devid: Option<u64>,
    device: &str,
    occupied: bool,
    parts: &ServiceParts<'_>,
) -> Result<RebuildRequest, String> {
    let executor = &*parts.executor;
    let address = DeviceAddress::parse(device).map_err(|error| error.to_string())?;
    let failed = failed_members(executor);
    if devid.is_none() {
        let refused = match executor.volume() {
            None => Some(RebuildError::NoVolume(RebuildTask::Add)),
            Some(volume) if volume.is_read_only() => Some(RebuildError::ReadOnly(RebuildTask::Add)),
            Some(_) => None,
        };
        if let Some(error) = refused {
            return Err(error.to_string());
        }
    }
    let devid = match (devid, &failed[..]) {
        (Some(devid), _) => devid,
        (None, [devid]) => *devid,
        // The rebuild says why no member can be replaced.
        (None, _) if parts.rebuild.is_emulated() => 0,
        (None, []) => {
            return Err("no member has failed, so there is no place for another device\n  help: \
                        `ctl members replace DEVID DEVICE` replaces a member that works"
                .to_owned());
        }
        (None, failed) => {
            let list: Vec<String> = failed.iter().map(u64::to_string).collect();
            return Err(format!(
                "several members have failed: devid {}\n  help: name one of them: `ctl members \
                 replace DEVID DEVICE`",
                list.join(", ")
            ));
        }
    };
    let occupied = if occupied { Occupied::Allow } else { Occupied::Refuse };
    let spare = parts.spares.place_of(&address);
    let place = spare.unwrap_or(MemberPlace::New(address, occupied));
    Ok(RebuildRequest { devid, replacement: Some(place), rate: None, client: 0 })
}

/// Fails a member. One that failed by itself stays out from then on, over restarts, too.
pub(super) fn fail(devid: u64, parts: &mut ServiceParts<'_>) -> Result<String, RequestError> {
    let member = writable_member(devid, RebuildTask::Fail, parts.executor)?;
    let state = reported_state(parts.executor, member);
    // The rebuild of one that has failed would undo it.
    if state == ReportedState::Failed && parts.rebuild.is_opening(member) {
        return Err(RequestError::refused(RebuildError::Opening(devid).to_string()));
    }
    if let Some(condition) = WatchedParts::of(parts).without_device(member) {
        return Err(RequestError::refused(condition.to_string()));
    }
    if !parts.executor.fail_on_request(member) {
        return Err(RequestError::refused(format!(
            "the volume cannot do without the member with devid {devid}: some data are on no \
             other member in sync\n  help: rebuild the other members first; `ctl members` shows \
             their states"
        )));
    }
    let condition = WatchedParts::of(parts).member_condition(member);
    let help = condition.and_then(|condition| condition.help).unwrap_or_default();
    let stays = if parts.executor.is_kept_out(member) { ", also after a restart" } else { "" };
    Ok(format!("the member with devid {devid} is failed{stays}; {help}"))
}

/// Removes the device of a member that has failed: it is closed, and is no member from then on.
pub(super) fn remove(
    devid: u64,
    executor: &mut Executor,
    rebuild: &Rebuild,
) -> Result<String, RequestError> {
    let member = writable_member(devid, RebuildTask::Remove, executor)?;
    if rebuild.is_emulated() {
        return Err(RequestError::refused(
            "members that are emulated have no device to remove\n  help: `ctl members fail` stops \
             using a member"
                .to_owned(),
        ));
    }
    if rebuild.is_opening(member) {
        return Err(RequestError::refused(RebuildError::Opening(devid).to_string()));
    }
    match reported_state(executor, member) {
        ReportedState::InSync | ReportedState::Unreachable | ReportedState::Rebuilding => {
            return Err(RequestError::refused(format!(
                "the member with devid {devid} is in use\n  help: `ctl members fail {devid}` stops \
                 using it"
            )));
        }
        ReportedState::Removed => {
            return Err(RequestError::refused(format!(
                "the device of the member with devid {devid} was removed already\n  help: `ctl \
                 members replace {devid} DEVICE` rebuilds the member on another device"
            )));
        }
        ReportedState::Failed | ReportedState::Missing | ReportedState::Diverged => {}
    }
    executor.remove(member).map_err(|why| {
        RequestError::refused(format!("the member with devid {devid} cannot be removed yet: {why}"))
    })?;
    let volume = executor.volume_mut().expect("it was there");
    let is_removed = volume.change_gate(|store, array| store.remove_device(member, array));
    assert_eq!(is_removed, Some(true), "a labelled member that has failed can be removed");
    Ok(format!(
        "the device of devid {devid} is removed, and is not a member any more; `ctl members \
         replace {devid} DEVICE` rebuilds the member on another device"
    ))
}

/// A member of a volume that can be written.
fn writable_member(
    devid: u64,
    task: RebuildTask,
    executor: &Executor,
) -> Result<MemberIndex, RequestError> {
    let volume = executor.volume().ok_or_else(|| RequestError {
        error: RebuildError::NoVolume(task).to_string(),
        kind: RequestErrorKind::NoVolume,
    })?;
    if volume.is_read_only() {
        return Err(RequestError::refused(RebuildError::ReadOnly(task).to_string()));
    }
    let member = volume.members().find(devid);
    member.ok_or_else(|| RequestError::refused(RebuildError::NoSuchMember(devid).to_string()))
}

/// The devids of the members that have failed or are missing.
pub(super) fn failed_members(executor: &Executor) -> Vec<u64> {
    let members = executor.volume().into_iter().flat_map(|volume| volume.members().iter());
    let failed = members.filter(|(_, member)| member.state == MemberState::Failed);
    failed.map(|(_, member)| member.config.devid).collect()
}

pub(super) fn last_error(member: MemberIndex, executor: &Executor) -> Option<MemberError> {
    let (fault, age) = executor.last_error(member)?;
    Some(MemberError { error: fault.to_string(), age_ns: age.0 })
}

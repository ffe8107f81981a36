//! Checks of scrubs: which are refused, and which wait.

use super::{ScrubError, ScrubRequest};
use crate::executor::Executor;
use mirrorball_core::member::MemberState;
use mirrorball_store::StoreGate;

/// Refuses a scrub that could compare or repair nothing.
pub(super) fn check(request: ScrubRequest, executor: &Executor) -> Result<(), ScrubError> {
    let volume = executor.volume().ok_or(ScrubError::NoVolume)?;
    if volume.map().parities() > 0 {
        return Err(ScrubError::Parity);
    }
    if volume.map().tolerated_failures() == 0 && !volume.has_checksums() {
        return Err(ScrubError::NoCopy);
    }
    if volume.is_read_only() && request.repairs {
        return Err(ScrubError::ReadOnly);
    }
    if !volume.has_checksums() && volume.comparable_bytes(0..volume.capacity_bytes()) == 0 {
        return Err(ScrubError::NoMirror);
    }
    let has_majority = volume.map().copies() != 2 || volume.has_checksums();
    match request.from {
        None if request.repairs && !has_majority => Err(ScrubError::NoMajority),
        None => Ok(()),
        Some(devid) => {
            let member = volume.members().find(devid).map(|member| &volume.members()[member]);
            let is_in_sync = member.is_some_and(|member| member.state == MemberState::InSync);
            is_in_sync.then_some(()).ok_or(ScrubError::NotInSync(devid))
        }
    }
}

/// Returns true if a member is rebuilt or regions are resynchronised. Nothing is in a volume that
/// is read-only.
pub(super) fn has_other_work(executor: &Executor) -> bool {
    let Some(volume) = executor.volume().filter(|volume| !volume.is_read_only()) else {
        return false;
    };
    let is_rebuilt = |state| matches!(state, MemberState::Rebuilding { .. });
    volume.gate().map_or(0, StoreGate::unsynced_bytes) > 0
        || volume.members().iter().any(|(_, it)| is_rebuilt(it.state))
}

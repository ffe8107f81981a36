//! Checks of scrubs: which are refused, and which wait.

use super::{ScrubError, ScrubRequest};
use crate::executor::{Executor, SCRUB_BLOCK_BYTES};
use mirrorball_core::member::MemberState;
use mirrorball_store::StoreGate;

/// Refuses a scrub that could compare or repair nothing.
pub(super) fn check(request: ScrubRequest, executor: &Executor) -> Result<(), ScrubError> {
    let volume = executor.volume().ok_or(ScrubError::NoVolume)?;
    let has_parity = has_parity(executor);
    if volume.map().tolerated_failures() == 0 && !volume.has_checksums() {
        return Err(ScrubError::NoCopy);
    }
    if volume.is_read_only() && request.repairs {
        return Err(ScrubError::ReadOnly);
    }
    if let Some(devid) = request.from.filter(|_| has_parity) {
        return Err(ScrubError::FromParity(devid));
    }
    if !volume.has_checksums() && !volume.has_comparable() {
        return Err(if has_parity { ScrubError::NoParity } else { ScrubError::NoMirror });
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

/// Length of what is wrong at an offset of the volume: a block, or with parity a full stripe.
pub(super) fn bad_length(offset: u64, executor: &Executor) -> u64 {
    let stripe = executor.volume().and_then(|volume| volume.map().full_stripe(offset));
    stripe.map_or(SCRUB_BLOCK_BYTES, |stripe| stripe.length())
}

pub(super) fn has_parity(executor: &Executor) -> bool {
    executor.volume().is_some_and(|volume| volume.map().parities() > 0)
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

//! Spares, as clients of the control socket see and request them.

use super::ServiceParts;
use super::protocol::{ReportedSpareState, SpareReport};
use crate::device_address::DeviceAddress;
use crate::executor::Executor;
use crate::member::file::Occupied;
use crate::rebuild::Rebuild;
use crate::spares::{SpareUse, Spares};
use mirrorball_store::StoreGate;
use mirrorball_store::label::LabelledSpare;

/// Begins to make a spare of a device for a client.
pub(super) fn add(
    device: &str,
    occupied: bool,
    client: u32,
    parts: &mut ServiceParts<'_>,
) -> Result<(), String> {
    let address = DeviceAddress::parse(device).map_err(|error| error.to_string())?;
    let occupied = if occupied { Occupied::Allow } else { Occupied::Refuse };
    parts.spares.add((address, occupied), client, parts.executor)
}

/// Gives up a spare, or a device that a member is copied to.
pub(super) fn remove(device: &str, parts: &mut ServiceParts<'_>) -> Result<String, String> {
    match parts.rebuild.end_copy_to(device, parts.executor) {
        None => parts.spares.remove(device, parts.executor),
        Some((devid, uuid)) => {
            if let Some(uuid) = uuid {
                parts.spares.remove(&uuid.to_string(), parts.executor)?;
            }
            Ok(format!("devid {devid} is not copied to `{device}` any more, and stays in use"))
        }
    }
}

pub(super) fn report(spares: &Spares, rebuild: &Rebuild, executor: &Executor) -> Vec<SpareReport> {
    let listed = executor.records().map(StoreGate::spares).unwrap_or_default();
    let report = |spare: &LabelledSpare| {
        let found = spares.find(spare.uuid);
        let state = match found.map(|(_, used)| used) {
            None => ReportedSpareState::Missing,
            Some(SpareUse::Ready | SpareUse::Opening(_)) => ReportedSpareState::Ready,
            Some(SpareUse::Failed(_)) => ReportedSpareState::Failed,
        };
        SpareReport {
            uuid: spare.uuid.to_string(),
            device: found.map(|(found, _)| found.address.absolute()),
            size_bytes: spare.size_bytes,
            state,
            replaces: spare.replaces,
        }
    };
    listed.iter().filter(|spare| !rebuild.is_copied_to(spare.uuid)).map(report).collect()
}

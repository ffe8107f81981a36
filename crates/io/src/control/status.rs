//! The status of a service: what is served, what is wrong with it, and what it does about that.

use super::events::{health, reported_state};
use super::member_commands::{failed_members, failures, last_error};
use super::protocol::{
    ExportKind, ExportSummary, MemberSummary, RebuildProgress, ReportedState, ServiceStatus,
};
use super::scrub_state::scrub_report;
use super::{Control, ServiceParts, spare_commands};
use crate::Volume;
use crate::executor::{Executor, Target};
use crate::rebuild::Rebuild;
use mirrorball_core::member::{Member, MemberIndex, MemberState};
use mirrorball_store::StoreGate;

/// The status now.
pub(super) fn status(control: &Control, parts: &ServiceParts<'_>) -> ServiceStatus {
    let ServiceParts { executor, server, rebuild, scrub, spares } = parts;
    let volume = executor.volume();
    let unsynced_bytes = volume.and_then(Volume::gate).map_or(0, StoreGate::unsynced_bytes);
    let faults = scrub.faults_since(executor);
    let exports = server.exports().iter().map(|export| ExportSummary {
        name: export.name.clone(),
        size_bytes: export.size_bytes,
        is: match export.target {
            Target::Volume => ExportKind::Volume,
            Target::Member(_) => ExportKind::Member,
        },
    });
    ServiceStatus {
        name: control.name.clone(),
        policy: control.policy.clone(),
        profile: executor.volume().map(|volume| volume.map().profile().name().to_owned()),
        health: health(executor),
        copies: volume.map(|volume| volume.map().copies()),
        parities: volume.map(|volume| volume.map().parities()),
        may_fail: volume.map(|volume| may_fail(volume, executor)),
        members: summaries(executor, rebuild),
        failed: failed_members(executor),
        failures: failures(executor),
        missing: members_in(ReportedState::Missing, executor),
        removed: members_in(ReportedState::Removed, executor),
        unreachable: members_in(ReportedState::Unreachable, executor),
        spares: spare_commands::report(spares, executor),
        failed_reads: faults.failed.reads,
        failed_writes: faults.failed.writes,
        mismatched_blocks: faults.mismatched_blocks,
        lost_checksum_pages: faults.lost_checksum_pages,
        rebuilds: rebuilds(executor, rebuild),
        unsynced_bytes,
        active_bytes: volume.and_then(Volume::gate).map_or(0, StoreGate::crash_resync_bytes),
        labelled: volume.is_some_and(|volume| volume.gate().is_some()),
        policy_fault: volume.and_then(Volume::policy_fault).map(|fault| fault.summary.clone()),
        checksums: volume.is_some_and(Volume::has_checksums),
        read_only: volume.is_some_and(Volume::is_read_only),
        scrub: scrub_report(control, scrub, executor),
        rebuild_bytes_per_s: rebuild.rate(),
        connections: server.connections(),
        exports: exports.collect(),
        backend: executor.driver.backend().to_string(),
        uptime_s: executor.driver.now().as_secs_f64(),
    }
}

/// All members of the volume, and where they are.
fn summaries(executor: &Executor, rebuild: &Rebuild) -> Vec<MemberSummary> {
    let members = executor.volume().into_iter().flat_map(|volume| volume.members().iter());
    let summary = |(index, member): (MemberIndex, &Member)| MemberSummary {
        devid: member.config.devid,
        state: reported_state(executor, index),
        device: rebuild.device(index, executor).map(|device| device.absolute()),
        last_error: last_error(index, executor),
    };
    members.map(summary).collect()
}

/// Number of members, whichever they are, that may fail without loss of data.
fn may_fail(volume: &Volume, executor: &Executor) -> usize {
    let is_current = |(index, _): &(MemberIndex, &Member)| {
        reported_state(executor, *index) == ReportedState::InSync
    };
    let current = volume.members().iter().filter(is_current).count();
    volume.map().tolerated_failures().saturating_sub(volume.members().len() - current)
}

/// The devids of the members in a state.
fn members_in(state: ReportedState, executor: &Executor) -> Vec<u64> {
    let members = executor.volume().into_iter().flat_map(|volume| volume.members().iter());
    let in_state = members.filter(|(index, _)| reported_state(executor, *index) == state);
    in_state.map(|(_, member)| member.config.devid).collect()
}

pub(super) fn rebuilds(executor: &Executor, rebuild: &Rebuild) -> Vec<RebuildProgress> {
    let Some(volume) = executor.volume() else { return Vec::new() };
    let rebuilt = volume.members().iter().filter_map(|(index, member)| {
        let MemberState::Rebuilding { recovered_bytes } = member.state else { return None };
        // Past the last chunk there is nothing to copy.
        let total_bytes = volume.map().allocated(index).end;
        let recovered_bytes = recovered_bytes.min(total_bytes);
        let (devid, only_missed) =
            (member.config.devid, volume.gate().is_some_and(|store| store.is_catching_up(index)));
        let stalled = rebuild.stalled().iter().find(|stalled| stalled.member == index);
        let stalled = stalled.map(|stalled| stalled.error.to_string());
        Some(RebuildProgress { devid, recovered_bytes, total_bytes, only_missed, stalled })
    });
    rebuilt.collect()
}

//! The status of a service: what is served, what is wrong with it, and what it does about that.

use super::conditions::{WatchedParts, bytes_of_mirrors, copied, health, recovery, reported_state};
use super::member_commands::last_error;
use super::protocol::{
    ExportKind, ExportSummary, MemberSummary, RebuildProgress, ReportedState, ServiceStatus,
};
use super::scrub_state::scrub_report;
use super::{Control, ServiceParts, spare_commands};
use crate::Volume;
use crate::conditions::Recovery;
use crate::executor::{Executor, Target};
use crate::rebuild::Rebuild;
use mirrorball_core::member::{Member, MemberIndex, MemberState};
use mirrorball_store::StoreGate;

pub(super) fn status(control: &Control, parts: &ServiceParts<'_>) -> ServiceStatus {
    let ServiceParts { executor, server, rebuild, scrub, spares } = parts;
    let volume = executor.volume();
    let unsynced_bytes = volume.and_then(Volume::gate).map_or(0, StoreGate::unsynced_bytes);
    let watched = WatchedParts::of(parts);
    let findings = watched.findings();
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
        health: health(&findings),
        copies: volume.map(|volume| volume.map().copies()),
        parities: volume.map(|volume| volume.map().parities()),
        may_fail: volume.map(|volume| may_fail(volume, executor)),
        members: summaries(executor, rebuild),
        conditions: findings.iter().map(|finding| watched.describe(finding)).collect(),
        spares: spare_commands::report(spares, rebuild, executor),
        rebuilds: rebuilds(executor, rebuild),
        unsynced_bytes,
        active_bytes: volume
            .map_or(0, |volume| bytes_of_mirrors(volume, StoreGate::crash_resync_bytes)),
        checksums: volume.is_some_and(Volume::has_checksums),
        read_only: volume.is_some_and(Volume::is_read_only),
        scrub: scrub_report(control, scrub, executor),
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

/// How far the rebuilds of members are, and their copies to other devices.
pub(super) fn rebuilds(executor: &Executor, rebuild: &Rebuild) -> Vec<RebuildProgress> {
    let members = executor.volume().into_iter().flat_map(|volume| volume.members().iter());
    let rebuilt =
        members.filter(|(_, member)| matches!(member.state, MemberState::Rebuilding { .. }));
    let rebuilt = rebuilt.map(|(index, _)| (index, recovery(executor, rebuild, index)));
    let copies = rebuild.copies().iter().filter(|copy| copy.error.is_none());
    let copies = copies.map(|copy| (copy.member, copied(copy, executor, rebuild)));
    let progress = |(index, recovery): (MemberIndex, Recovery)| {
        let Recovery { recovered_bytes, total_bytes, only_missed, .. } = recovery;
        let volume = executor.volume().expect("its member is rebuilt");
        let devid = volume.members()[index].config.devid;
        RebuildProgress { devid, recovered_bytes, total_bytes, only_missed }
    };
    rebuilt.chain(copies).map(progress).collect()
}

//! Conditions that the labels of a volume show.

use super::{ExaminedDevice, ExaminedVolume, uuid_of};
use crate::conditions::{Condition, ConditionSubject, Problem, Recovery, Situation};
use crate::executor::MemberFault;
use mirrorball_core::member::MemberState;
use mirrorball_store::label::assembly::{AssembledMember, LabelAssembly};
use mirrorball_store::label::{LabelledMember, LabelledSpare};

/// The conditions of the members and spares of a volume, as the newest label has them, and of its
/// program. `devices` are all that were examined.
pub fn label_conditions(volume: &ExaminedVolume, devices: &[ExaminedDevice]) -> Vec<Condition> {
    let LabelAssembly { newest, members, .. } = &volume.assembly;
    let describe = |problem: Problem<'_>, subject: ConditionSubject| {
        problem.describe(&subject, Situation::NotServed)
    };
    let member = |(row, member): (&LabelledMember, &AssembledMember)| {
        let device = member.found.map(|at| devices[volume.devices[at]].address.to_string());
        let is_this = |&at: &usize| uuid_of(&devices[at]) == Some(row.uuid);
        if member.has_diverged {
            let subject = ConditionSubject::member(row.devid, None);
            return Some(describe(Problem::MemberDiverged, subject));
        }
        if device.is_none() && volume.devices.iter().any(is_this) {
            // Its devices are not used; their standings say why.
            return None;
        }
        let problem = member_problem(row, device.is_some())?;
        Some(describe(problem, ConditionSubject::member(row.devid, device)))
    };
    let is_found = |spare: &LabelledSpare| {
        devices
            .iter()
            .filter_map(|device| device.spare.as_ref())
            .any(|block| block.volume == newest.array.uuid && block.uuid == spare.uuid)
    };
    let spares = newest.spares.iter().filter(|spare| !is_found(spare)).map(|spare| {
        describe(
            Problem::SpareMissing(spare.replaces),
            ConditionSubject::spare(format!("UUID {}", spare.uuid)),
        )
    });
    let fault = newest.program.as_ref().filter(|program| program.has_faulted).map(|program| {
        let fault = format!("{} was ended by a fault", program.reference);
        describe(Problem::PolicyFault(&fault), ConditionSubject::default())
    });
    newest.members.iter().zip(members).filter_map(member).chain(spares).chain(fault).collect()
}

/// The problem of a member by its row in the label, and by whether a device of it is used.
fn member_problem(row: &LabelledMember, has_device: bool) -> Option<Problem<'static>> {
    if !row.has_device() {
        return Some(Problem::MemberRemoved);
    }
    if !has_device {
        return Some(Problem::MemberMissing);
    }
    match row.state {
        MemberState::InSync => None,
        MemberState::Rebuilding { recovered_bytes } => {
            let (total_bytes, only_missed, rate) = (row.size_bytes, false, None);
            let recovery = Recovery { recovered_bytes, total_bytes, only_missed, rate };
            Some(Problem::MemberRebuilding(recovery))
        }
        MemberState::Failed => {
            let is_kept_out = row.is_kept_out;
            let fault = is_kept_out.then_some(MemberFault::Requested);
            Some(Problem::MemberFailed { fault, is_kept_out })
        }
    }
}

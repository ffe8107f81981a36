//! The array that advice is for: whole again, as far as its disks are known, and with the members'
//! flags as a part of the policy in force.

use super::answer::OutOfService;
use super::chosen_system::ChosenSystem;
use super::policy_in_force;
use mirrorball_core::member::MemberState;
use mirrorball_disk::array_file::{ArrayEdit, ArrayFile, ArraySpec, MemberSpec};

/// The members of an array file that the advice takes for in service, and that are not: those that
/// the file names a device of, as `detect` writes it.
pub fn out_of_service(spec: &ArraySpec) -> Vec<OutOfService> {
    let is_taken =
        |member: &&MemberSpec| member.device.is_some() && member.state != MemberState::InSync;
    let out = spec.members.iter().filter(is_taken).map(|member| OutOfService {
        devid: member.devid,
        is_failed: !member.is_in_service(),
        recovered_bytes: match member.state {
            MemberState::Rebuilding { recovered_bytes } => recovered_bytes,
            MemberState::InSync | MemberState::Failed => 0,
        },
    });
    out.collect()
}

/// The text of the file with the members in service whose disks are known; none if they are.
pub fn whole(file: &ArrayFile) -> Option<String> {
    let out = out_of_service(&file.spec);
    let mut edit = ArrayEdit::new(file);
    out.iter().for_each(|member| edit.take_into_service(member.devid));
    (!out.is_empty()).then(|| edit.text())
}

/// The text of the file with its flags of members in the policy in force; none if it has no flag.
pub fn without_flags(file: &ArrayFile, chosen: &ChosenSystem) -> Option<String> {
    let spec = &file.spec;
    if !spec.members.iter().any(|member| member.write_mostly) {
        return None;
    }
    let mut edit = ArrayEdit::new(file);
    let system = chosen.system.serving(spec);
    let settings = system.settings(spec, chosen.version.as_ref());
    edit.set_in_force(system.name, &policy_in_force(spec, system, &settings));
    Some(edit.text())
}

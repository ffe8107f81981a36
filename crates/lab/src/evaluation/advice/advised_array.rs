//! The array that advice is for: whole again, as far as its disks are known.

use super::answer::OutOfService;
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

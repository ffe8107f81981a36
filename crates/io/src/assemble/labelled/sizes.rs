//! Sizes of the devices of a labelled volume: one that was cut is not in sync.

use super::super::AssembleError;
use super::super::open::Open;
use super::LabelledError;
use crate::examine::{ExaminedDevice, ExaminedVolume};
use crate::executor::Executor;
use crate::member::GUARD_BYTES;
use crate::member::file::MemberAccess;
use mirrorball_core::label::LabelledMember;
use mirrorball_core::label::assembly::MemberStanding;
use mirrorball_core::member::{MemberIndex, MemberState};

/// A member that was cut, and the size of its device.
pub(super) type ShortMember = (MemberIndex, u64);

/// Refuses a device that seems an older copy and is shorter than its member: its records may be in
/// the part that is gone.
///
/// # Errors
/// [`LabelledError::Shrunk`].
pub(super) fn check_old_copies(
    volume: &ExaminedVolume,
    devices: &[ExaminedDevice],
    opened: &[Open],
) -> Result<(), LabelledError> {
    let newest = &volume.assembly.newest;
    for (&index, standing) in volume.devices.iter().zip(&volume.assembly.standings) {
        let label = devices[index].label.as_ref().ok();
        let row = label.and_then(|label| newest.row(label.found.member));
        let Some(row) = row.filter(|_| *standing == MemberStanding::OldCopy) else { continue };
        let LabelledMember { devid, size_bytes: needed_bytes, .. } = newest.members[row];
        let (device, size_bytes) = (devices[index].address.to_string(), opened[index].size_bytes());
        if size_bytes < needed_bytes {
            return Err(LabelledError::Shrunk { device, devid, size_bytes, needed_bytes });
        }
    }
    Ok(())
}

/// The devices of the members, in the order of the label. No power cut takes the labels of those
/// that are written to. One that was cut is read as far as it goes, if nothing is written; their
/// sizes are returned, too.
pub(super) fn rows(
    volume: &ExaminedVolume,
    devices: &[ExaminedDevice],
    opened: &mut [Option<Open>],
    access: MemberAccess,
    notes: &mut Vec<String>,
) -> Result<(Vec<Option<Open>>, Vec<ShortMember>), LabelledError> {
    let newest = &volume.assembly.newest;
    let (mut rows, mut short) = (Vec::new(), Vec::new());
    let members = newest.members.iter().zip(&volume.assembly.members);
    for (index, (member, row)) in (0..).map(MemberIndex).zip(members) {
        let Some(at) = row.found else {
            rows.push(None);
            continue;
        };
        let device_index = volume.devices[at];
        let open = opened[device_index].take().expect("a device is one member");
        let LabelledMember { devid, size_bytes: needed_bytes, .. } = *member;
        let (device, size_bytes) = (devices[device_index].address.to_string(), open.size_bytes());
        let (is_short, was_cut) = (size_bytes < needed_bytes, open.lacks_guard(member));
        // All that counts of it is there, or is rebuilt.
        let is_rebuilt = matches!(row.state, MemberState::Rebuilding { recovered_bytes }
            if recovered_bytes <= size_bytes);
        match access == MemberAccess::ReadOnly || is_rebuilt {
            true if is_short || was_cut => {
                short.push((index, size_bytes.min(needed_bytes)));
                notes.push(short_note(&device, (member, row.state), size_bytes));
            }
            false if is_short => {
                return Err(LabelledError::Shrunk { device, devid, size_bytes, needed_bytes });
            }
            false if was_cut => {
                let whole_bytes = needed_bytes + GUARD_BYTES;
                return Err(LabelledError::Regrown { device, devid, size_bytes, whole_bytes });
            }
            _ => {}
        }
        if let (MemberAccess::ReadWrite, Ok(newest)) = (access, &devices[device_index].label) {
            open.make_label_durable(newest).map_err(AssembleError::from)?;
            // Until the labels say that it lost data, its length does.
            if !is_short && !was_cut {
                open.lengthen(needed_bytes).map_err(AssembleError::from)?;
            }
        }
        rows.push(Some(open.restricted(needed_bytes)));
    }
    Ok((rows, short))
}

/// What is not read of a member that was cut.
fn short_note(
    device: &str,
    (member, state): (&LabelledMember, MemberState),
    size_bytes: u64,
) -> String {
    let LabelledMember { devid, size_bytes: needed_bytes, .. } = *member;
    let has_data = state != MemberState::Rebuilding { recovered_bytes: 0 };
    let (what, is_read) = match size_bytes < needed_bytes {
        true => (
            format!(
                "`{device}` has {size_bytes} bytes, but the member with devid {devid} had \
                 {needed_bytes}"
            ),
            "what is missing is not read from it",
        ),
        false => (
            format!(
                "`{device}`, the member with devid {devid}, was truncated and made longer again"
            ),
            "only what seems to be left is read from it",
        ),
    };
    format!("{what}: {}", if has_data { is_read } else { "nothing is read from it" })
}

/// How a member that was cut is rebuilt, if the volume starts without it.
pub(super) fn rebuild_note(member: MemberIndex, executor: &Executor) -> Option<String> {
    let volume = executor.volume().filter(|volume| !volume.is_read_only())?;
    let member = &volume.members()[member];
    let devid = member.config.devid;
    (member.state == MemberState::Failed).then(|| {
        format!(
            "the volume starts without the member with devid {devid}: `ctl members rebuild \
             {devid}` copies all of it"
        )
    })
}

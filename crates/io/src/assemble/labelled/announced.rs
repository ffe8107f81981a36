//! Members whose rebuild has ended, which the members that they were rebuilt from may not know.

use super::{LabelledError, LabelledOptions};
use crate::examine::{ExaminedDevice, ExaminedVolume};
use crate::member::file::MemberAccess;
use mirrorball_core::member::MemberState;
use mirrorball_store::label::assembly::ArrayVerdict;

/// Refuses members that are given up as lost, but are there in sync, and UUIDs of no member if the
/// volume does not start without giving one up. Others have no effect, for example those of a start
/// that gave them up before; returns a note for each.
///
/// # Errors
/// [`LabelledError::NotLost`].
pub(super) fn check_lost(
    volume: &ExaminedVolume,
    serving: &LabelledOptions,
) -> Result<Vec<String>, LabelledError> {
    let assembly = &volume.assembly;
    let mut notes = Vec::new();
    for uuid in &serving.lost {
        let member = assembly.newest.row(*uuid).map(|row| &assembly.members[row]);
        let why = match member {
            Some(member) if member.found.is_none() => continue,
            Some(member) if member.state == MemberState::InSync || !starts(volume) => {
                "this member is there\n  help: give the path of its device in place of the UUID"
            }
            Some(_) => {
                notes.push(format!(
                    "--discard {uuid}: without effect, because this member is there and is rebuilt"
                ));
                continue;
            }
            None if starts(volume) => {
                notes.push(format!(
                    "--discard {uuid}: without effect, because no member of the volume has this \
                     UUID now"
                ));
                continue;
            }
            None => {
                "no member of the volume has this UUID\n  help: `mirrorball examine` shows the \
                 UUIDs"
            }
        };
        return Err(LabelledError::NotLost { uuid: uuid.to_string(), why });
    }
    Ok(notes)
}

/// Returns true if no member has to be given up, so that the volume starts, perhaps degraded.
fn starts(volume: &ExaminedVolume) -> bool {
    matches!(volume.verdict, Ok(ArrayVerdict::Start | ArrayVerdict::NeedsDegraded { .. }))
}

/// The verdict, where an announcement counts that the user accepts: nothing is written, or one of
/// the members that may not know of it is given up. Those do not start without each other.
pub(super) fn accept_announcement(
    volume: &ExaminedVolume,
    discarded: &[usize],
    serving: &LabelledOptions,
) -> Result<ArrayVerdict, LabelledError> {
    let verdict = volume.verdict.clone()?;
    let ArrayVerdict::Announced { rebuilt_from, missing } = &verdict else {
        return Ok(verdict);
    };
    let assembly = &volume.assembly;
    let is_given_up = |&row: &usize| {
        let device = assembly.members[row].found.map(|at| volume.devices[at]);
        device.is_some_and(|device| discarded.contains(&device))
            || serving.lost.contains(&assembly.newest.members[row].uuid)
    };
    let is_read_only = serving.options.access == MemberAccess::ReadOnly;
    if !is_read_only && !rebuilt_from.iter().any(is_given_up) {
        return Ok(verdict);
    }
    let missing = missing.clone();
    Ok(match missing.is_empty() {
        true => ArrayVerdict::Start,
        false => ArrayVerdict::NeedsDegraded { missing },
    })
}

/// Which member was rebuilt from which, and what to do.
pub(super) fn announced_text(
    volume: &ExaminedVolume,
    rebuilt_from: &[usize],
    devices: &[ExaminedDevice],
) -> String {
    let assembly = &volume.assembly;
    let devids = |rows: &[usize]| {
        let devids = rows.iter().map(|&row| assembly.newest.members[row].devid.to_string());
        devids.collect::<Vec<String>>().join(" and ")
    };
    let in_use = |row: &usize| assembly.members[*row].found;
    let rebuilt: Vec<String> = assembly
        .announced
        .iter()
        .filter_map(in_use)
        .map(|at| format!("`{}`", devices[volume.devices[at]].address))
        .collect();
    let name = &assembly.newest.array.name;
    // One that is there missed the label: it has not all data.
    let is_missing = |row: &usize| assembly.members[*row].found.is_none();
    let missing: Vec<usize> = rebuilt_from.iter().copied().filter(is_missing).collect();
    let rebuilt_from = if missing.is_empty() { rebuilt_from } else { &missing };
    let first = rebuilt_from.first().map(|&row| assembly.newest.members[row].uuid.to_string());
    format!(
        "`{name}`: the service was interrupted when {rebuilt} had been rebuilt, so devid {from}, \
         which the data are from, may not know of it: later it would start without {rebuilt}\n  \
         help: connect devid {from}, or start with --read-only; if devid {from} is lost for good, \
         start with --degraded --discard {uuid}",
        rebuilt = rebuilt.join(" and "),
        from = devids(rebuilt_from),
        uuid = first.unwrap_or_default(),
    )
}

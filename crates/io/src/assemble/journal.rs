//! The journals of members: what a crash interrupted is written again before the volume starts, and
//! what was left besides is ended by a checkpoint.

use super::AssembleError;
use super::open::Open;
use crate::member::file::MemberAccess;
use mirrorball_core::label::assembly::{FoundMember, LabelAssembly};
use mirrorball_core::label::{
    DataId, JOURNAL_BYTES, JournalRecovery, LABEL_SLOTS, Label, LabelledMember, MemberJournal,
    Uuid, recover_journal,
};
use mirrorball_core::member::{MemberIndex, MemberState};
use std::io;

/// Finds what the journals of an assembled volume say. `read` gets a member, an offset and a
/// length. A volume that was stopped in good order needs none of it.
///
/// # Errors
/// If `read` fails.
pub(crate) fn recovery(
    assembly: &LabelAssembly,
    read: impl Fn(MemberIndex, u64, u32) -> io::Result<Vec<u8>>,
) -> io::Result<JournalRecovery> {
    let newest = &assembly.newest;
    let sizes = newest.members.iter().map(|member| member.size_bytes);
    let Some(begins) = newest.array.journals(sizes) else {
        return Ok(JournalRecovery::default());
    };
    let mut areas = Vec::new();
    let rows = (0..).map(MemberIndex).zip(&assembly.members).zip(&newest.members);
    for (((member, row), LabelledMember { uuid, .. }), begin) in rows.zip(begins) {
        let has_data = has_data(row.state);
        if row.found.is_some() {
            match read(member, begin, JOURNAL_BYTES as u32) {
                Ok(bytes) if bytes.len() as u64 == JOURNAL_BYTES => {
                    areas.push((member, *uuid, begin, has_data, bytes));
                }
                // Nothing is to be written again from it.
                _ if newest.is_clean || !has_data => {}
                Ok(_) => return Err(unreadable(newest, member, "it ends too early")),
                Err(error) => return Err(unreadable(newest, member, &error.to_string())),
            }
        }
    }
    let journals = areas.iter().map(|(member, uuid, begin, has_data, bytes)| MemberJournal {
        member: *member,
        uuid: *uuid,
        begin: *begin,
        has_data: *has_data,
        bytes,
    });
    let recovery = recover_journal(newest.array.uuid, &journals.collect::<Vec<_>>());
    Ok(match newest.is_clean {
        true => JournalRecovery { replays: Vec::new(), torn: Vec::new(), ..recovery },
        false => recovery,
    })
}

/// The writes of the checkpoint that ends the journals, if entries are left: to be made once what
/// is to be repeated is durable.
pub(crate) fn checkpoints(
    assembly: &LabelAssembly,
    recovery: &mut JournalRecovery,
) -> Vec<(MemberIndex, u64, Box<[u8]>)> {
    let newest = &assembly.newest;
    let sizes = newest.members.iter().map(|member| member.size_bytes);
    let begins = newest.array.journals(sizes).filter(|_| recovery.has_entries);
    let Some(begins) = begins else { return Vec::new() };
    let entry = recovery.begin_checkpoint();
    let rows = (0..).map(MemberIndex).zip(&assembly.members).zip(&newest.members).zip(begins);
    let rows = rows.filter(|(((_, row), _), _)| row.found.is_some() && has_data(row.state));
    rows.map(|(((member, _), LabelledMember { uuid, .. }), begin)| {
        let bytes = entry.encode(begin, &[], newest.array.uuid, *uuid);
        (member, entry.offset(begin), bytes)
    })
    .collect()
}

fn has_data(state: MemberState) -> bool {
    match state {
        MemberState::InSync => true,
        MemberState::Rebuilding { recovered_bytes } => recovered_bytes > 0,
        MemberState::Failed => false,
    }
}

/// Without its journal it is not known what a member lacks.
fn unreadable(label: &Label, member: MemberIndex, why: &str) -> io::Error {
    let devid = label.members[member.get()].devid;
    io::Error::other(format!("cannot read the journal of the member with devid {devid}: {why}"))
}

/// The writes of labels, in this order and each durable before the next, before the journal is
/// written without members that the newest label calls current. Without them, a crash would let
/// those members return as if they were in sync, though entries were written that they have not.
/// They are an announcement and a commitment, as each change of the labels (see
/// [`mirrorball_core::label`]).
pub(crate) fn labels_before_recovery(
    assembly: &LabelAssembly,
    found: &[FoundMember],
    id: DataId,
) -> Vec<(MemberIndex, u64, Box<[u8]>)> {
    let Some(label) = assembly.label_of_absence(found, id) else { return Vec::new() };
    let newest = &assembly.newest;
    let mut writes = Vec::new();
    let mut slots: Vec<usize> = found.iter().map(|device| device.newest.slot).collect();
    let rows = (0..).map(MemberIndex).zip(&assembly.members).zip(&newest.members);
    let rows = rows.filter_map(|((member, row), labelled)| {
        let index = row.found.filter(|&index| assembly.standings[index].is_current())?;
        Some((member, index, labelled.uuid))
    });
    let rows: Vec<(MemberIndex, usize, Uuid)> = rows.collect();
    for step in 0..=2 {
        let label = match step {
            // For members that are one generation behind: none may fall further behind.
            0 => newest.clone(),
            _ => Label { generation: newest.generation + step, ..label.clone() },
        };
        for &(member, index, uuid) in &rows {
            let has_it = found[index].newest.found.label.generation == newest.generation;
            if step > 0 || !has_it {
                slots[index] = 1 - slots[index];
                let offset = LABEL_SLOTS[slots[index]];
                writes.push((member, offset, label.encode(uuid, offset)));
            }
        }
    }
    writes
}

/// Writes again what a crash interrupted, and returns what the journals said. If nothing may be
/// written, the rows stay torn.
///
/// # Errors
/// If a member cannot be read or written.
pub(super) fn recover(
    assembly: &LabelAssembly,
    rows: &[Option<Open>],
    access: MemberAccess,
) -> Result<JournalRecovery, AssembleError> {
    let open =
        |member: MemberIndex| rows[member.get()].as_ref().expect("a member that was found is open");
    let mut recovery =
        recovery(assembly, |member, offset, length| open(member).read(offset, length))?;
    if access == MemberAccess::ReadOnly {
        return Ok(recovery);
    }
    for replay in &recovery.replays {
        open(replay.member).write(replay.offset, &replay.data)?;
    }
    recovery.torn.clear();
    for (member, offset, bytes) in checkpoints(assembly, &mut recovery) {
        // A member that cannot be written fails at the first write of the volume.
        let _ = open(member).write(offset, &bytes);
    }
    Ok(recovery)
}

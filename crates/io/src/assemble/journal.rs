//! The journals of members: what a crash interrupted is written again before the volume starts, and
//! what was left besides is ended by a checkpoint.

use super::AssembleError;
use super::open::Open;
use crate::device_address::DeviceAddress;
use crate::member::file::MemberAccess;
use mirrorball_core::label::assembly::{FoundMember, LabelAssembly};
use mirrorball_core::label::{
    DataId, JOURNAL_BYTES, JournalEntry, JournalRecovery, LABEL_SLOTS, Label, LabelledMember,
    MemberJournal, Uuid, recover_journal,
};
use mirrorball_core::member::{MemberIndex, MemberState};
use std::io::{self, ErrorKind};

/// A write to a member failed that has to come before the start of a volume.
#[derive(Debug, thiserror::Error)]
#[error(
    "cannot start `{name}`: it was not stopped in good order, and {what} `{device}` (devid \
     {devid}) failed: {error}\n  help: {}, or start with --read-only: it writes nothing, and reads \
     return what the journal has",
    self.help()
)]
pub struct RecoveryError {
    /// The volume.
    pub name: String,
    /// What was done to the device: a text before it.
    pub what: &'static str,
    /// The device.
    pub device: String,
    /// The devid of its member.
    pub devid: u64,
    /// Why it failed.
    pub error: io::Error,
}

impl RecoveryError {
    pub(super) fn new(
        label: &Label,
        (member, device): (MemberIndex, &DeviceAddress),
        what: &'static str,
        error: io::Error,
    ) -> RecoveryError {
        let (name, devid) = (label.array.name.clone(), label.members[member.get()].devid);
        RecoveryError { name, what, device: device.to_string(), devid, error }
    }

    /// What to do.
    fn help(&self) -> &'static str {
        let is_full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded];
        match is_full.contains(&self.error.kind()) {
            true => "free space for the device and start the volume again",
            false => {
                "start without this device, with --degraded, if the volume can do without it, and \
                 rebuild the member on another one"
            }
        }
    }
}

/// Why the journal of a member cannot be used after a crash, as the end of a sentence about it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum JournalFault {
    /// It cannot be read, or is not that of the member.
    #[error("cannot be read ({0})")]
    Unreadable(String),
    /// Its device was cut, and no label says so: which entries it lost is not known.
    #[error("may lack entries, because the device was truncated")]
    MayLackEntries,
    /// Its device was cut, and entries are missing that others have.
    #[error("lacks entries that others have, because the device was truncated")]
    LacksEntries,
}

impl JournalFault {
    /// What follows from it, as the end of a sentence about the crash.
    pub(super) fn consequence(&self) -> &'static str {
        match self {
            JournalFault::Unreadable(_) | JournalFault::MayLackEntries => {
                "and the other members do not say which writes the crash interrupted"
            }
            JournalFault::LacksEntries => {
                "so where these entries write, parities may not match the data"
            }
        }
    }
}

/// Finds what the journals of an assembled volume say, to write it again. `read` gets a member, an
/// offset and a length. A volume that was stopped in good order needs none of it.
///
/// # Errors
/// If `read` fails, or a journal is needed that lost entries: see [`unusable_journal`].
pub(crate) fn recovery(
    assembly: &LabelAssembly,
    read: impl Fn(MemberIndex, u64, u32) -> io::Result<Vec<u8>>,
) -> io::Result<JournalRecovery> {
    let recovery = journal_contents(assembly, read)?;
    match recovery.doubtful.first() {
        Some(entry) => Err(unusable(&assembly.newest, entry.member, &JournalFault::LacksEntries)),
        None => Ok(recovery),
    }
}

/// What the journals of an assembled volume say, with what is doubtful.
fn journal_contents(
    assembly: &LabelAssembly,
    read: impl Fn(MemberIndex, u64, u32) -> io::Result<Vec<u8>>,
) -> io::Result<JournalRecovery> {
    let newest = &assembly.newest;
    let sizes = newest.members.iter().map(|member| member.size_bytes);
    let Some(begins) = newest.array.journals(sizes) else {
        return Ok(JournalRecovery::default());
    };
    let (mut areas, mut has_begun) = (Vec::new(), true);
    let rows = (0..).map(MemberIndex).zip(&assembly.members).zip(&newest.members);
    for (((member, row), LabelledMember { uuid, .. }), begin) in rows.zip(begins) {
        let has_data = has_data(row.state);
        if row.found.is_some() {
            let may_lack = has_data && may_lack_entries(newest, member);
            // Until a checkpoint is durable, the label is to say so.
            has_begun &= !may_lack;
            let bytes = read(member, begin, JOURNAL_BYTES as u32);
            match checked(newest, (member, begin), bytes) {
                Ok(bytes) => areas.push((member, *uuid, begin, (has_data, may_lack), bytes)),
                // Nothing is to be written again from it.
                Err(_) if newest.is_clean || !has_data => has_begun &= !has_data,
                Err(fault) => return Err(unusable(newest, member, &fault)),
            }
        }
    }
    let journals = areas.iter().map(|(member, uuid, begin, (has_data, may_lack), bytes)| {
        let (member, uuid, begin) = (*member, *uuid, *begin);
        let (has_data, may_lack_entries) = (*has_data, *may_lack);
        MemberJournal { member, uuid, begin, has_data, may_lack_entries, bytes }
    });
    let recovery = recover_journal(newest.array.uuid, &journals.collect::<Vec<_>>());
    let recovery = JournalRecovery { has_begun: recovery.has_begun && has_begun, ..recovery };
    let (replays, torn, doubtful) = Default::default();
    Ok(match newest.is_clean {
        true => JournalRecovery { replays, torn, doubtful, ..recovery },
        false => recovery,
    })
}

/// The first device whose journal is needed and cannot be used, and why: it cannot be read, or has
/// lost an entry that others have. `read` gets the number of the device in the assembly.
pub(crate) fn unusable_journal(
    assembly: &LabelAssembly,
    read: impl Fn(usize, u64, u32) -> io::Result<Vec<u8>>,
) -> Option<(usize, JournalFault)> {
    if let Some(unreadable) = unreadable_journal(assembly, &read) {
        return Some(unreadable);
    }
    let device = |member: MemberIndex| assembly.members[member.get()].found;
    let read = |member, offset, length| {
        read(device(member).expect("the journals of members that were found"), offset, length)
    };
    let doubtful = journal_contents(assembly, read).ok()?.doubtful;
    let at = device(doubtful.first()?.member)?;
    Some((at, JournalFault::LacksEntries))
}

/// The first device whose journal is needed and cannot be read, and why.
fn unreadable_journal(
    assembly: &LabelAssembly,
    read: impl Fn(usize, u64, u32) -> io::Result<Vec<u8>>,
) -> Option<(usize, JournalFault)> {
    let newest = &assembly.newest;
    let sizes = newest.members.iter().map(|member| member.size_bytes);
    // Of a volume that was stopped in good order, nothing is written again.
    let begins = newest.array.journals(sizes).filter(|_| !newest.is_clean)?;
    let rows = (0..).map(MemberIndex).zip(&assembly.members).zip(begins);
    rows.filter(|((_, row), _)| has_data(row.state)).find_map(|((member, row), begin)| {
        let at = row.found?;
        let bytes = read(at, begin, JOURNAL_BYTES as u32);
        Some((at, checked(newest, (member, begin), bytes).err()?))
    })
}

/// Returns true if a member may lack entries that were durable on it: its device lost data, and no
/// checkpoint has ended what was in the journal then.
fn may_lack_entries(newest: &Label, member: MemberIndex) -> bool {
    newest.members[member.get()].has_lost_data && !newest.has_begun_journals
}

/// Returns true if an entry that the journal of a member lacks counts as never written in place:
/// the journal is needed, and must be whole.
pub(super) fn must_be_whole(assembly: &LabelAssembly, member: MemberIndex) -> bool {
    let newest = &assembly.newest;
    let has_data = has_data(assembly.members[member.get()].state);
    has_data && !newest.is_clean && !may_lack_entries(newest, member)
}

/// The error of a journal that must be whole, but is on a device that was cut: where is not known.
pub(super) fn cut_journal() -> io::Error {
    io::Error::other(JournalFault::MayLackEntries)
}

/// The bytes of a journal that were read; else why they cannot be used.
fn checked(
    newest: &Label,
    (member, begin): (MemberIndex, u64),
    bytes: io::Result<Vec<u8>>,
) -> Result<Vec<u8>, JournalFault> {
    let unreadable = |why: String| JournalFault::Unreadable(why);
    let mut bytes = bytes
        .map_err(|error| error.downcast().unwrap_or_else(|error| unreadable(error.to_string())))?;
    if may_lack_entries(newest, member) {
        // The file may not have been made as long again.
        bytes.resize(JOURNAL_BYTES as usize, 0);
    }
    let uuid = newest.members[member.get()].uuid;
    let (has_data, may_lack_entries) = (true, false);
    let journal = MemberJournal { member, uuid, begin, has_data, may_lack_entries, bytes: &bytes };
    match bytes.len() as u64 == JOURNAL_BYTES {
        false => Err(unreadable("it ends too early".to_owned())),
        true if newest.has_begun_journals && !journal.has_begun(newest.array.uuid) => {
            let why = "it was overwritten: nothing in it is of this member";
            Err(unreadable(why.to_owned()))
        }
        true => Ok(bytes),
    }
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

/// The first block in the journals of a new volume: for each member the offset and the bytes.
pub(crate) fn first_checkpoints(label: &Label) -> Vec<(u64, Box<[u8]>)> {
    let sizes = label.members.iter().map(|member| member.size_bytes);
    let begins = label.array.journals(sizes).unwrap_or_default();
    let entry = JournalEntry::checkpoint(0, 0, 0);
    let block = |(begin, LabelledMember { uuid, .. }): (u64, &LabelledMember)| {
        (entry.offset(begin), entry.encode(begin, &[], label.array.uuid, *uuid))
    };
    begins.into_iter().zip(&label.members).map(block).collect()
}

fn has_data(state: MemberState) -> bool {
    match state {
        MemberState::InSync => true,
        MemberState::Rebuilding { recovered_bytes } => recovered_bytes > 0,
        MemberState::Failed => false,
    }
}

/// Without its journal it is not known what a member lacks.
fn unusable(label: &Label, member: MemberIndex, fault: &JournalFault) -> io::Error {
    let devid = label.members[member.get()].devid;
    io::Error::other(format!("the journal of the member with devid {devid} {fault}"))
}

/// Returns true if labels are to say which members are missing or left out, before anything else is
/// written: entries are written again without them, or ended, so that nothing is asked of them.
pub(crate) fn needs_absence(recovery: &JournalRecovery, left_out: &[usize]) -> bool {
    !recovery.replays.is_empty() || recovery.has_entries && !left_out.is_empty()
}

/// The writes of labels, in this order and each durable before the next, before entries of the
/// journal are written again. First, members that are one generation behind get the newest label:
/// by theirs, a member that has left would seem to be in sync, though it has not what is written
/// now. Then, if members are missing that the newest label calls current, all get a label that says
/// so, by an announcement and a commitment as with each change of the labels (see
/// [`mirrorball_core::label`]).
pub(crate) fn labels_before_recovery(
    assembly: &LabelAssembly,
    found: &[FoundMember],
    id: DataId,
) -> Vec<(MemberIndex, u64, Box<[u8]>)> {
    let absence = assembly.label_of_absence(found, id);
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
        let label = match (step, &absence) {
            // None may fall further behind than one.
            (0, _) => newest.clone(),
            (_, Some(label)) => Label { generation: newest.generation + step, ..label.clone() },
            (_, None) => break,
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

/// What is known without the journal of a member that is needed: all rows may be torn.
fn unknown_recovery() -> JournalRecovery {
    JournalRecovery { torn: vec![(0, 0..u64::MAX)], ..JournalRecovery::default() }
}

/// What is recovered if nothing may be written: the writes are left to be laid over the members. If
/// a journal is needed that cannot be read, nothing is recovered from any parity, and `notes` says
/// so; likewise in the rows of entries that a journal lost.
///
/// # Errors
/// If `read` fails.
fn read_only_recovery(
    assembly: &LabelAssembly,
    read: impl Fn(MemberIndex, u64, u32) -> io::Result<Vec<u8>>,
    notes: &mut Vec<String>,
) -> io::Result<JournalRecovery> {
    let members = (0..).map(MemberIndex).zip(&assembly.members);
    let of_device: Vec<(Option<usize>, MemberIndex)> =
        members.map(|(member, row)| (row.found, member)).collect();
    let read_device = |at: usize, offset, length| {
        let found = of_device.iter().find(|(found, _)| *found == Some(at));
        read(found.expect("a device of a member").1, offset, length)
    };
    let Some((at, fault)) = unreadable_journal(assembly, read_device) else {
        let recovery = journal_contents(assembly, read)?;
        let doubtful = recovery.doubtful.iter();
        let torn: Vec<_> = doubtful.map(|it| (it.stripe_offset, it.rows.clone())).collect();
        if let Some(entry) = recovery.doubtful.first() {
            let devid = assembly.newest.members[entry.member.get()].devid;
            let fault = JournalFault::LacksEntries;
            notes.push(format!(
                "the journal of the member with devid {devid} {fault}, and the volume was not \
                 stopped in good order: where these entries write, data are read from their own \
                 members only, and nothing is recovered from parities"
            ));
        }
        return Ok(JournalRecovery { torn, ..recovery });
    };
    let found = of_device.iter().find(|(found, _)| *found == Some(at));
    let member = found.expect("a device of a member").1;
    let devid = assembly.newest.members[member.get()].devid;
    notes.push(format!(
        "the journal of the member with devid {devid} {fault}, and the volume was not stopped in \
         good order: data are read from their own members only, and nothing is recovered from \
         parities"
    ));
    Ok(unknown_recovery())
}

/// Writes again what a crash interrupted, and returns what the journals said. If nothing may be
/// written, reads of members have to return what would be.
///
/// `cut` has the members whose devices were cut, and `address` returns the device of one that was
/// found.
///
/// # Errors
/// If a member cannot be read or written.
pub(super) fn recover<'a>(
    assembly: &LabelAssembly,
    (rows, cut): (&[Option<Open>], &[MemberIndex]),
    address: impl Fn(MemberIndex) -> &'a DeviceAddress,
    access: MemberAccess,
    notes: &mut Vec<String>,
) -> Result<JournalRecovery, AssembleError> {
    let open =
        |member: MemberIndex| rows[member.get()].as_ref().expect("a member that was found is open");
    let read = |member: MemberIndex, offset, length| match cut.contains(&member)
        && must_be_whole(assembly, member)
    {
        true => Err(cut_journal()),
        false => open(member).read(offset, length),
    };
    if access == MemberAccess::ReadOnly {
        return Ok(read_only_recovery(assembly, read, notes)?);
    }
    let mut recovery = recovery(assembly, read)?;
    for replay in &recovery.replays {
        let written = open(replay.member).write(replay.offset, &replay.data);
        written.map_err(|error| {
            let device = (replay.member, address(replay.member));
            RecoveryError::new(&assembly.newest, device, "repeating the journal of", error)
        })?;
    }
    recovery.torn.clear();
    for (member, offset, bytes) in checkpoints(assembly, &mut recovery) {
        // A member that cannot be written fails at the first write of the volume.
        let _ = open(member).write(offset, &bytes);
    }
    Ok(recovery)
}

#[cfg(test)]
mod tests;

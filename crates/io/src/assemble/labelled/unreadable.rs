//! Members whose journal cannot be used after a crash: it cannot be read, or entries are missing in
//! it, because the device lost data.
//!
//! What such a member has of the writes that a crash interrupted is not known, so the volume starts
//! as if it were missing: entries that the other members have are written again on these, labels
//! say that it left, and it is rebuilt. If the volume cannot do without it, nothing says which rows
//! are torn, and it does not start. With --read-only it does, and nothing is recovered from any
//! parity; if entries are missing, from none of their rows.

use super::LabelledError;
use crate::assemble::journal::{JournalFault, cut_journal, must_be_whole, unusable_journal};
use crate::assemble::open::Open;
use crate::examine::{ExaminedDevice, ExaminedVolume, volumes};
use crate::member::file::MemberAccess;
use mirrorball_core::label::assembly::{AssembledMember, LabelAssembly};
use mirrorball_core::member::{MemberIndex, MemberState};
use std::io;

/// Reads the journals of the members of a volume from their devices.
pub(super) struct JournalReader<'a> {
    opened: &'a [Open],
    /// Indexes of the devices whose journals must be whole, though the devices were cut.
    cut: Vec<usize>,
}

impl JournalReader<'_> {
    /// A reader of the journals of this volume.
    pub(super) fn new<'a>(
        volume: &ExaminedVolume,
        opened: &'a [Open],
        access: MemberAccess,
    ) -> JournalReader<'a> {
        let assembly = &volume.assembly;
        let rows = (0..).map(MemberIndex).zip(&assembly.members).zip(&assembly.newest.members);
        let cut = rows.filter_map(|((member, row), labelled)| {
            let index = volume.devices[row.found?];
            // One in sync that may be written is refused, whatever its journal has.
            let is_refused = access == MemberAccess::ReadWrite && row.state == MemberState::InSync;
            let is_cut = !is_refused
                && must_be_whole(assembly, member)
                && opened[index].lacks_guard(labelled);
            is_cut.then_some(index)
        });
        JournalReader { opened, cut: cut.collect() }
    }

    /// Reads a part of the journal on a device.
    ///
    /// # Errors
    /// If that fails, or the device was cut, so that entries may be gone that count.
    pub(super) fn read(&self, index: usize, offset: u64, length: u32) -> io::Result<Vec<u8>> {
        match self.cut.contains(&index) {
            true => Err(cut_journal()),
            false => self.opened[index].read(offset, length),
        }
    }
}

/// The volume without the members whose journal is needed and cannot be used, and the indexes of
/// the devices that are given up, with those that the user gives up. `read` gets a device, an
/// offset and a length; `starts` returns true if a volume starts.
///
/// # Errors
/// [`LabelledError::Journal`] if the volume cannot do without such a member, and may be written.
pub(crate) fn without_unreadable(
    mut volume: ExaminedVolume,
    discarded: &[usize],
    devices: &[ExaminedDevice],
    access: MemberAccess,
    read: impl Fn(usize, u64, u32) -> io::Result<Vec<u8>>,
    starts: impl Fn(&ExaminedVolume) -> bool,
    notes: &mut Vec<String>,
) -> Result<(ExaminedVolume, Vec<usize>), LabelledError> {
    let (mut left_out, notes_before) = (discarded.to_vec(), notes.len());
    if !starts(&volume) {
        return Ok((volume, left_out));
    }
    loop {
        let assembly = &volume.assembly;
        let index = |at: usize| volume.devices[at];
        let unusable =
            unusable_journal(assembly, |at, offset, length| read(index(at), offset, length));
        let Some((at, fault)) = unusable else { return Ok((volume, left_out)) };
        let device = devices[index(at)].address.to_string();
        left_out.push(index(at));
        let others = volumes(devices, &left_out).into_iter().find(|it| it.uuid == volume.uuid);
        let newest = &assembly.newest;
        let can_start = |others: &ExaminedVolume| {
            let other = &others.assembly.newest;
            // It must not be the only one that has the newest label.
            (other.generation, &other.lineage) == (newest.generation, &newest.lineage)
                && starts(others)
        };
        let Some(others) = others.filter(can_start) else {
            let uuid = volume.uuid;
            let all = volumes(devices, discarded).into_iter().find(|it| it.uuid == uuid);
            if let Some(all) = all.filter(|_| access == MemberAccess::ReadOnly) {
                // Each has data that can be read, and no other row is recovered.
                notes.truncate(notes_before);
                return Ok((all, discarded.to_vec()));
            }
            let (name, help) = (newest.array.name.clone(), help(assembly, (at, &device), &fault));
            return Err(LabelledError::Journal { name, device, fault, help });
        };
        notes.push(format!("`{device}`: its journal {fault}, so the volume starts without it"));
        volume = others;
    }
}

/// What to do if the volume cannot do without the member on this device of the assembly, whose
/// journal cannot be used. It can once members are there that the newest label calls in sync.
fn help(assembly: &LabelAssembly, (at, device): (usize, &str), fault: &JournalFault) -> String {
    let parities = match fault {
        JournalFault::LacksEntries => "these parities",
        JournalFault::Unreadable(_) | JournalFault::MayLackEntries => "parities",
    };
    let read_only = format!("start with --read-only, which recovers nothing from {parities}");
    let newest = &assembly.newest;
    let rows = newest.members.iter().zip(&assembly.members);
    let (missing, others): (Vec<_>, Vec<_>) =
        rows.partition(|(row, it)| row.state == MemberState::InSync && it.found.is_none());
    let is_lacking =
        |(_, it): &(_, &AssembledMember)| it.found == Some(at) || it.state != MemberState::InSync;
    let lacking = others.into_iter().filter(is_lacking).count();
    match missing.is_empty() || lacking > newest.array.profile.parities() {
        true => {
            format!("{read_only}; save what it serves, and make the volume again with `create`")
        }
        false => {
            let devids: Vec<String> =
                missing.iter().map(|(row, _)| format!("devid {}", row.devid)).collect();
            format!(
                "connect {}: then the volume starts without `{device}`; or {read_only}",
                devids.join(" and ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::starts;
    use super::*;
    use crate::device_address::DeviceAddress;
    use crate::examine::metadata_from;
    use mirrorball_core::geometry::{ArrayLayout, Profile};
    use mirrorball_core::label::assembly::ArrayVerdict;
    use mirrorball_core::label::{
        DataId, JournalEntry, LABEL_SLOTS, Label, LabelledArray, LabelledMember, Lineage,
        METADATA_BYTES, Uuid, map_checksum,
    };
    use mirrorball_core::member::MemberState;

    /// The label of a volume of as many members.
    fn label(profile: Profile, count: usize) -> Label {
        let member = |devid: u64| LabelledMember {
            uuid: Uuid([devid as u8; 16]),
            devid,
            size_bytes: 64 << 20,
            state: MemberState::InSync,
            has_lost_data: false,
            has_guard: false,
            write_mostly: false,
            rotational: None,
            optimal_io_bytes: None,
            priority: 0,
        };
        let array = LabelledArray {
            uuid: Uuid([9; 16]),
            name: "data".to_owned(),
            profile,
            layout: ArrayLayout::BTRFS,
            stripe_width_max: None,
            block_bytes: 4096,
            has_checksums: false,
            map_checksum: 0,
        };
        let mut label = Label {
            array,
            generation: 4,
            lineage: Lineage::new(DataId(1)),
            is_clean: false,
            resync_from: None,
            policy: "pid".to_owned(),
            program: None,
            members: (1..=count as u64).map(member).collect(),
            spares: Vec::new(),
            has_begun_journals: false,
            is_read_only: false,
        };
        let map = label.array.chunk_map(&label.map_configs()).unwrap();
        label.array.map_checksum = map_checksum(&map);
        label
    }

    /// A volume of as many members, not stopped in good order, and its devices.
    fn crashed(
        profile: Profile,
        count: usize,
        missing: &[usize],
    ) -> (ExaminedVolume, Vec<ExaminedDevice>) {
        crashed_with(&label(profile, count), missing)
    }

    fn crashed_with(label: &Label, missing: &[usize]) -> (ExaminedVolume, Vec<ExaminedDevice>) {
        let present = (0..label.members.len()).filter(|row| !missing.contains(row));
        let device = |row: usize| {
            let block = label.encode(label.members[row].uuid, LABEL_SLOTS[0]);
            let read = |offset, length: u32| {
                let mut bytes = vec![0; length as usize];
                if offset == LABEL_SLOTS[0] {
                    bytes[..METADATA_BYTES].copy_from_slice(&block);
                }
                Ok(bytes)
            };
            let address = DeviceAddress::parse(&format!("/dev/{row}")).unwrap();
            ExaminedDevice::new(address, metadata_from(read))
        };
        let devices: Vec<ExaminedDevice> = present.map(device).collect();
        let volume = volumes(&devices, &[]).pop().unwrap();
        (volume, devices)
    }

    /// Members whose devices have these indexes have journals that cannot be read.
    fn started(
        (volume, devices): (ExaminedVolume, Vec<ExaminedDevice>),
        bad: &[usize],
        access: MemberAccess,
    ) -> Result<(ExaminedVolume, Vec<usize>, Vec<String>), String> {
        let read = |index: usize, _, length: u32| match bad.contains(&index) {
            true => Err(io::Error::other("a bad sector")),
            false => Ok(vec![0; length as usize]),
        };
        let mut notes = Vec::new();
        let found = without_unreadable(volume, &[], &devices, access, read, starts, &mut notes);
        found.map(|(volume, out)| (volume, out, notes)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_member_without_a_journal_is_left_out_if_the_others_have_all_data() {
        for (profile, count, bad) in [
            (Profile::Raid5, 3, vec![1]),
            (Profile::Raid6, 5, vec![0, 4]),
            (Profile::Raid6, 5, vec![]),
        ] {
            let (volume, out, notes) =
                started(crashed(profile, count, &[]), &bad, MemberAccess::ReadWrite).unwrap();
            assert_eq!((&out, notes.len()), (&bad, bad.len()));
            for (row, member) in volume.assembly.members.iter().enumerate() {
                let is_bad = member.state == MemberState::Rebuilding { recovered_bytes: 0 };
                assert_eq!((is_bad, member.found), (bad.contains(&row), Some(row)));
            }
        }
    }

    /// The second of three members was cut, so the labels call it a member that is rebuilt. The
    /// others have an entry.
    #[test]
    fn a_member_that_lost_entries_is_left_out_likewise() {
        let mut label = label(Profile::Raid5, 3);
        label.members[1].state = MemberState::Rebuilding { recovered_bytes: 60 << 20 };
        label.members[1].has_lost_data = true;
        let (journals, volume_uuid) =
            (label.array.journals([64 << 20; 3].into_iter()), Uuid([9; 16]));
        let begin = journals.unwrap()[0];
        let checkpoint = JournalEntry::checkpoint(5, 5, 0);
        let entry = JournalEntry { participants: 0b111, rows: 0..512, ..checkpoint };
        for (missing, access, out) in [
            (vec![], MemberAccess::ReadWrite, Ok(vec![1])),
            (vec![], MemberAccess::ReadOnly, Ok(vec![1])),
            (vec![2], MemberAccess::ReadWrite, Err(())),
            (vec![2], MemberAccess::ReadOnly, Ok(vec![])),
        ] {
            let (volume, devices) = crashed_with(&label, &missing);
            let read = |index: usize, offset: u64, length: u32| {
                let mut bytes = vec![0; length as usize];
                let uuid = Uuid([index as u8 + 1; 16]);
                let block = entry.encode(begin, &[], volume_uuid, uuid);
                let at = (entry.offset(begin) - offset) as usize;
                if index != 1 {
                    bytes[at..at + block.len()].copy_from_slice(&block);
                }
                Ok(bytes)
            };
            let mut notes = Vec::new();
            let found = without_unreadable(volume, &[], &devices, access, read, starts, &mut notes);
            if let Ok((volume, out)) = &found {
                let state = volume.assembly.members[1].state;
                let is_left_out = state == MemberState::Rebuilding { recovered_bytes: 0 };
                assert_eq!((is_left_out, notes.len()), (!out.is_empty(), out.len()));
            }
            let found = found.map(|(_, out)| out).map_err(|error| {
                let text = error.to_string();
                for part in [
                    "the journal of `/dev/1` lacks entries that others have",
                    "where these entries write, parities may not match the data",
                    "help: connect devid 3: then the volume starts without `/dev/1`; or start \
                     with --read-only, which recovers nothing from these parities",
                ] {
                    assert!(text.contains(part), "{text}");
                }
            });
            assert_eq!(found, out, "without {missing:?}, {access:?}");
        }
    }

    #[test]
    fn a_volume_that_needs_a_member_without_a_journal_does_not_start() {
        let error = started(crashed(Profile::Raid5, 3, &[]), &[0, 1], MemberAccess::ReadWrite)
            .err()
            .unwrap();
        for part in [
            "the journal of `/dev/1` cannot be read (a bad sector); ",
            "the other members do not say which writes the crash interrupted",
            // No member is missing.
            "help: start with --read-only, which recovers nothing from parities; save what it \
             serves, and make the volume again with `create`",
        ] {
            assert!(error.contains(part), "{error}");
        }
        let error = started(crashed(Profile::Raid6, 5, &[0, 1]), &[2], MemberAccess::ReadWrite)
            .err()
            .unwrap();
        assert!(error.contains("the journal of `/dev/4` cannot be read"), "{error}");
        assert!(error.contains("connect devid 1 and devid 2: then the volume starts"), "{error}");
        let read_only = MemberAccess::ReadOnly;
        let found = started(crashed(Profile::Raid5, 3, &[]), &[0, 1], read_only).unwrap();
        let is_found = found.0.assembly.members.iter().all(|it| it.state == MemberState::InSync);
        assert!(is_found && found.1.is_empty() && found.2.is_empty());
        // What is missing may still be accepted by --degraded.
        let (volume, out, _) =
            started(crashed(Profile::Raid6, 5, &[0]), &[2], MemberAccess::ReadWrite).unwrap();
        assert_eq!(out, [2]);
        assert!(matches!(volume.verdict, Ok(ArrayVerdict::NeedsDegraded { .. })));
    }
}

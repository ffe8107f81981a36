//! Starts of volumes with parity after a crash, without a member whose journal cannot be used.

use super::*;
use crate::member::GUARD_BYTES;
use crate::member::file::{Caching, Occupied};
use mirrorball_core::geometry::{ArrayLayout, Profile};
use mirrorball_core::label::{
    DataId, JournalEntry, JournalPart, LABEL_SLOTS, LabelledArray, Lineage, map_checksum,
};
use std::fs::File;
use std::os::unix::fs::FileExt;
use tempfile::TempDir;

const MEMBER_BYTES: u64 = 64 << 20;
/// Where the entry writes on each member.
const PLACE: u64 = 1 << 20;
/// What it writes.
const WRITTEN: [u8; 4096] = [0xd0; 4096];

/// The label of a volume of three members that was not stopped in good order.
fn label_of(profile: Profile) -> Label {
    let member = |devid: u64| LabelledMember {
        uuid: Uuid([devid as u8; 16]),
        devid,
        size_bytes: MEMBER_BYTES,
        state: MemberState::InSync,
        has_lost_data: false,
        has_guard: true,
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
        members: (1..=3).map(member).collect(),
        spares: Vec::new(),
        has_begun_journals: true,
        is_read_only: false,
    };
    let map = label.array.chunk_map(&label.map_configs()).unwrap();
    label.array.map_checksum = map_checksum(&map);
    label
}

fn label() -> Label {
    label_of(Profile::Raid5)
}

/// Files with this label, the third of which was cut: the others have an entry of the journal that
/// all three took part in.
fn cut_files(label: &Label) -> (TempDir, Vec<DeviceAddress>) {
    let folder = tempfile::tempdir().unwrap();
    let begins = label.array.journals([MEMBER_BYTES; 3].into_iter()).unwrap();
    let checkpoint = JournalEntry::checkpoint(4, 4, 0);
    let parts = vec![JournalPart { offset: PLACE, length: WRITTEN.len() as u32 }];
    let (participants, rows) = (0b111, 0..4096);
    let entry = JournalEntry { participants, rows, parts, ..JournalEntry::checkpoint(5, 4, 0) };
    let create = |(row, (member, begin)): (usize, (&LabelledMember, u64))| {
        let path = folder.path().join(format!("m{}", row + 1));
        let file = File::create(&path).unwrap();
        let write = |offset, bytes: &[u8]| file.write_all_at(bytes, offset).unwrap();
        write(LABEL_SLOTS[0], &label.encode(member.uuid, LABEL_SLOTS[0]));
        let volume = label.array.uuid;
        write(checkpoint.offset(begin), &checkpoint.encode(begin, &[], volume, member.uuid));
        if row < 2 {
            write(entry.offset(begin), &entry.encode(begin, &WRITTEN, volume, member.uuid));
        }
        file.set_len(MEMBER_BYTES + if row < 2 { GUARD_BYTES } else { 0 }).unwrap();
        DeviceAddress::Path(path)
    };
    let devices = label.members.iter().zip(begins).enumerate().map(create).collect();
    (folder, devices)
}

/// Serves the devices, degraded if that is needed.
fn serve(devices: &[DeviceAddress], access: MemberAccess) -> Result<Assembly, LabelledError> {
    serve_without(devices, &[], access)
}

/// The same, if these members are lost.
fn serve_without(
    devices: &[DeviceAddress],
    lost: &[Uuid],
    access: MemberAccess,
) -> Result<Assembly, LabelledError> {
    let (caching, occupied) = (Caching::Buffered, Occupied::Refuse);
    serve_labelled(LabelledOptions {
        devices: devices.to_vec(),
        is_scan: false,
        volume: None,
        discarded: Vec::new(),
        lost: lost.to_vec(),
        degraded: true,
        options: OpenOptions { access, caching, occupied, report_wait: |_| {} },
        peer_timeout: Nanos::from_secs(30),
        policy: None,
        registry: Registry::default(),
        backend: Some(BackendKind::Threads),
    })
}

/// The notes of a start, without the folder.
fn notes(assembly: &Assembly, folder: &TempDir) -> Vec<String> {
    let folder = format!("{}/", folder.path().display());
    let notes = assembly.notes.iter().map(|note| note.replace(&folder, ""));
    notes.filter(|note| !note.contains("I/O by threads")).collect()
}

const LEFT_OUT: &str = "`m3`: its journal may lack entries, because the device was truncated, so \
                        the volume starts without it";
const NOTHING_READ: &str = "`m3`, the member with devid 3, was truncated and made longer again: \
                            nothing is read from it";

/// What the file has where the entry writes.
fn bytes_in_place(device: &DeviceAddress) -> [u8; 4096] {
    let mut bytes = [0; 4096];
    File::open(device.path().unwrap()).unwrap().read_exact_at(&mut bytes, PLACE).unwrap();
    bytes
}

#[test]
fn an_entry_is_written_again_though_a_member_that_is_rebuilt_has_lost_it() {
    let mut label = label();
    label.members[2].state = MemberState::Rebuilding { recovered_bytes: 6 << 20 };
    let (folder, devices) = cut_files(&label);
    let assembly = serve(&devices, MemberAccess::ReadWrite).unwrap();
    for device in &devices[..2] {
        assert!(bytes_in_place(device) == WRITTEN, "{device}: {:?}", assembly.notes);
    }
    let members = assembly.executor.volume().unwrap().members();
    assert_eq!(members[MemberIndex(2)].state, MemberState::Failed);
    let expected = [
        LEFT_OUT,
        "`m3`: not in sync",
        NOTHING_READ,
        "`data` was not stopped in good order: 2 writes of its journal were repeated",
        "the volume starts without the member with devid 3: `ctl members rebuild 3` copies all of \
         it",
    ];
    assert_eq!(notes(&assembly, &folder), expected);
}

#[test]
fn read_only_an_entry_is_read_though_a_member_has_lost_it() {
    for recovered_bytes in [None, Some(6 << 20)] {
        let mut label = label();
        let rebuilt = |recovered_bytes| MemberState::Rebuilding { recovered_bytes };
        label.members[2].state = recovered_bytes.map_or(MemberState::InSync, rebuilt);
        let (folder, devices) = cut_files(&label);
        let assembly = serve(&devices, MemberAccess::ReadOnly).unwrap();
        let expected = [
            LEFT_OUT,
            "`m3`: not in sync",
            NOTHING_READ,
            "`data` was not stopped in good order: 2 writes of its journal are left; reads return \
             what they write, but the members are not changed until the volume is served without \
             --read-only",
        ];
        assert_eq!(notes(&assembly, &folder), expected);
        drop(assembly);
        // Without the first one, the volume needs the one that was cut.
        let assembly = serve(&devices[1..], MemberAccess::ReadOnly).unwrap();
        let notes = notes(&assembly, &folder);
        let note = "the journal of the member with devid 3 may lack entries, because the device \
                    was truncated, and the volume was not stopped in good order: data are read \
                    from their own members only, and nothing is recovered from parities";
        assert!(notes.iter().any(|it| it == note), "{notes:?}");
    }
}

#[test]
fn a_member_in_sync_that_was_cut_is_refused() {
    let (_folder, devices) = cut_files(&label());
    let error = serve(&devices, MemberAccess::ReadWrite).err().unwrap();
    assert!(matches!(error, LabelledError::Regrown { devid: 3, .. }), "{error}");
    assert!(bytes_in_place(&devices[0]) == [0; 4096], "nothing is written");
}

/// A raid6 whose second and third member were rebuilt from the first, which may not know of it and
/// is lost. Nothing is in the journal of the second.
#[test]
fn an_accepted_announcement_starts_without_a_member_whose_journal_is_unreadable() {
    let label = label_of(Profile::Raid6);
    let (folder, devices) = cut_files(&label);
    let mut before = Label { generation: label.generation - 1, ..label.clone() };
    for row in &mut before.members[1..] {
        row.state = MemberState::Rebuilding { recovered_bytes: MEMBER_BYTES };
    }
    let begins = label.array.journals([MEMBER_BYTES; 3].into_iter()).unwrap();
    for (device, member) in devices.iter().zip(&label.members).skip(1) {
        let file = File::options().write(true).open(device.path().unwrap()).unwrap();
        let block = before.encode(member.uuid, LABEL_SLOTS[1]);
        file.write_all_at(&block, LABEL_SLOTS[1]).unwrap();
        file.set_len(MEMBER_BYTES + GUARD_BYTES).unwrap();
        if member.devid == 2 {
            let journal = vec![0x5a; (MEMBER_BYTES - begins[1]) as usize];
            file.write_all_at(&journal, begins[1]).unwrap();
        }
    }
    let uuid = label.members[0].uuid;
    for access in [MemberAccess::ReadOnly, MemberAccess::ReadWrite] {
        let error = serve(&devices[1..], MemberAccess::ReadWrite).err().unwrap();
        assert!(matches!(error, LabelledError::Announced(_)), "{error}");
        let assembly = serve_without(&devices[1..], &[uuid], access).unwrap();
        let notes = notes(&assembly, &folder);
        let note = "so the volume starts without it";
        assert!(notes.iter().any(|it| it.starts_with("`m2`: its journal") && it.ends_with(note)));
        assert!(!notes.iter().any(|it| it.contains("nothing is recovered")), "{notes:?}");
        let members = assembly.executor.volume().unwrap().members();
        let rebuilt = MemberState::Rebuilding { recovered_bytes: 0 };
        assert_eq!(
            [1, 2].map(|row| members[MemberIndex(row)].state),
            [rebuilt, MemberState::InSync]
        );
    }
}

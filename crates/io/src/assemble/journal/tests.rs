//! Recoveries from journals, and the labels before them.

use super::*;
use crate::member::file::{Caching, Occupied, OpenOptions, RealMember};
use mirrorball_core::geometry::{ArrayLayout, Profile};
use mirrorball_core::label::assembly::assemble;
use mirrorball_core::label::{JournalPart, LabelledArray, Lineage, MemberLabel, NewestLabel};
use std::fs::File;
use std::os::unix::fs::FileExt;

fn member(devid: u64, state: MemberState) -> LabelledMember {
    LabelledMember {
        uuid: Uuid([devid as u8; 16]),
        devid,
        size_bytes: 64 << 20,
        state,
        has_lost_data: false,
        has_guard: false,
        write_mostly: false,
        rotational: None,
        optimal_io_bytes: None,
        priority: 0,
    }
}

/// The label of a volume of three members, not stopped in good order.
fn label() -> Label {
    let array = LabelledArray {
        uuid: Uuid([9; 16]),
        name: String::new(),
        profile: Profile::Raid5,
        layout: ArrayLayout::BTRFS,
        stripe_width_max: None,
        block_bytes: 4096,
        has_checksums: false,
        map_checksum: 0,
    };
    Label {
        array,
        generation: 4,
        lineage: Lineage::new(DataId(1)),
        is_clean: false,
        resync_from: None,
        policy: "pid".to_owned(),
        program: None,
        members: [1, 2, 3].map(|devid| member(devid, MemberState::InSync)).into(),
        spares: Vec::new(),
        has_begun_journals: false,
        is_read_only: false,
    }
}

/// The labels of a volume of three members, of which only the first is there.
fn without_two(is_clean: bool) -> LabelAssembly {
    let label = Label { is_clean, ..label() };
    let found = MemberLabel { member: Uuid([1; 16]), label };
    let (newest, stale_maps) = (NewestLabel { found, slot: 0, previous: None }, Vec::new());
    let device =
        FoundMember { newest, record: None, may_lack_record: false, scrub: None, stale_maps };
    assemble(&[device], &[])
}

#[test]
fn read_only_nothing_is_recovered_without_a_journal_that_is_needed() {
    let bad = |_: MemberIndex, _: u64, _: u32| Err(io::Error::other("a bad sector"));
    let cut = |_: MemberIndex, _: u64, _: u32| Ok(Vec::new());
    let good = |_: MemberIndex, _: u64, length: u32| Ok(vec![0; length as usize]);
    let torn = |is_clean, read: &dyn Fn(MemberIndex, u64, u32) -> io::Result<Vec<u8>>| {
        let mut notes = Vec::new();
        let found = read_only_recovery(&without_two(is_clean), read, &mut notes).unwrap();
        (found.torn, notes.len())
    };
    assert_eq!(torn(false, &bad), (vec![(0, 0..u64::MAX)], 1));
    assert_eq!(torn(false, &cut), (vec![(0, 0..u64::MAX)], 1));
    assert_eq!(torn(false, &good), (Vec::new(), 0));
    assert_eq!(torn(true, &bad), (Vec::new(), 0));
    let mut begun = without_two(false);
    begun.newest.has_begun_journals = true;
    let mut notes = Vec::new();
    assert_eq!(read_only_recovery(&begun, good, &mut notes).unwrap().torn.len(), 1);
    assert!(notes[0].contains("it was overwritten"), "{notes:?}");
}

/// The first two of three members, and an entry that only the second one has. The end of the first
/// was cut off.
#[test]
fn an_entry_that_was_cut_off_is_not_written_again_and_its_rows_are_torn() {
    let mut label = Label { has_begun_journals: true, ..label() };
    label.members[0].state = MemberState::Rebuilding { recovered_bytes: 50 << 20 };
    label.members[0].has_lost_data = true;
    let begin = label.array.journals([64 << 20; 3].into_iter()).unwrap()[0];
    let parts = vec![JournalPart { offset: 1 << 20, length: 512 }];
    let (participants, stripe_offset, rows) = (0b011, 7 << 16, 0..512);
    let checkpoint = JournalEntry::checkpoint(4, 4, 0);
    let entry = JournalEntry::checkpoint(5, 4, 0);
    let entry = JournalEntry { participants, stripe_offset, rows, parts, ..entry };
    let bytes = entry.encode(begin, &[3; 512], Uuid([9; 16]), Uuid([2; 16]));
    let first = checkpoint.encode(begin, &[], Uuid([9; 16]), Uuid([1; 16]));
    let slots = [checkpoint.offset(begin), entry.offset(begin)];
    let read = |first: &[u8]| {
        let blocks = [first.to_vec(), bytes.to_vec()];
        move |member: MemberIndex, offset: u64, length: u32| {
            let (block, slot) = (&blocks[member.get()], slots[member.get()]);
            let at = (slot - offset) as usize;
            let mut journal = vec![0; length as usize];
            journal[at..at + block.len()].copy_from_slice(block);
            Ok(journal)
        }
    };
    let assembly = |has_begun_journals, is_clean| {
        let label = Label { has_begun_journals, is_clean, ..label.clone() };
        let device = |number: u8| {
            let found = MemberLabel { member: Uuid([number; 16]), label: label.clone() };
            let (newest, stale_maps) = (NewestLabel { found, slot: 0, previous: None }, Vec::new());
            FoundMember { newest, record: None, may_lack_record: false, scrub: None, stale_maps }
        };
        assemble(&[device(1), device(2)], &[])
    };
    // Since a checkpoint was durable, none of it is missing.
    let found = recovery(&assembly(true, false), read(&first)).unwrap();
    assert!(found.replays.is_empty() && found.has_begun);
    assert!(recovery(&assembly(true, false), read(&[])).is_err(), "it was overwritten");

    let lost = assembly(false, false);
    for first in [&[], &first[..]] {
        let error = recovery(&lost, read(first)).unwrap_err().to_string();
        assert!(error.contains("devid 1 lacks entries that others have"), "{error}");
        let mut notes = Vec::new();
        let found = read_only_recovery(&lost, read(first), &mut notes).unwrap();
        assert_eq!((found.torn, found.replays.len()), (vec![(7 << 16, 0..512)], 1));
        assert!(
            notes[0].contains("the journal of the member with devid 1 lacks entries that others"),
            "{notes:?}"
        );
        assert!(!found.has_begun, "the label says so until a checkpoint is durable");
    }
    let clean = recovery(&assembly(false, true), read(&[])).unwrap();
    assert!(clean.replays.is_empty() && clean.doubtful.is_empty() && clean.has_entries);
}

/// A member that has an entry and cannot be written.
#[test]
fn a_repeat_that_fails_names_the_device_and_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.img");
    let file = File::create(&path).unwrap();
    file.set_len(64 << 20).unwrap();
    let begin = label().array.journals([64 << 20].into_iter()).unwrap()[0];
    let parts = vec![JournalPart { offset: 1 << 20, length: 512 }];
    let rows = 0..512;
    let entry = JournalEntry { participants: 1, parts, rows, ..JournalEntry::checkpoint(5, 5, 0) };
    let bytes = entry.encode(begin, &[3; 512], Uuid([9; 16]), Uuid([1; 16]));
    file.write_all_at(&bytes, entry.offset(begin)).unwrap();
    let options = OpenOptions {
        access: MemberAccess::ReadOnly,
        caching: Caching::Buffered,
        occupied: Occupied::Refuse,
        report_wait: |_| {},
    };
    let rows = || [Some(Open::Real(RealMember::open(&path, options).unwrap())), None, None];
    let address = DeviceAddress::Path(path.clone());
    let (assembly, mut notes) = (without_two(false), Vec::new());
    let mut recover = |access| {
        let rows = rows();
        recover(&assembly, (&rows, &[]), |_| &address, access, &mut notes)
    };
    let text = recover(MemberAccess::ReadWrite).unwrap_err().to_string();
    let failed = format!("repeating the journal of `{}` (devid 1) failed: Bad", path.display());
    assert!(text.contains(&failed), "{text}");
    assert!(text.contains("start without this device"), "{text}");
    assert_eq!(recover(MemberAccess::ReadOnly).unwrap().replays.len(), 1);
    let full = AssembleError::from(RecoveryError::new(
        &label(),
        (MemberIndex(0), &address),
        "repeating the journal of",
        ErrorKind::StorageFull.into(),
    ));
    assert!(full.to_string().contains("help: free space for the device"), "{full}");
}

/// The third of three members left, and a loss of power came before the second one knew.
#[test]
fn a_member_that_is_behind_gets_the_newest_label_before_entries_are_written() {
    let old = label();
    let mut new = Label { generation: 5, ..old.clone() };
    new.members[2].state = MemberState::Failed;
    new.lineage = old.lineage.successor(DataId(2), 4);
    let found = [(1, &new), (2, &old)].map(|(number, label)| {
        let found = MemberLabel { member: Uuid([number; 16]), label: label.clone() };
        let (newest, stale_maps) = (NewestLabel { found, slot: 0, previous: None }, Vec::new());
        FoundMember { newest, record: None, may_lack_record: false, scrub: None, stale_maps }
    });
    let assembly = assemble(&found, &[]);
    let writes = labels_before_recovery(&assembly, &found, DataId(3));
    let places = writes.iter().map(|(member, offset, _)| (*member, *offset));
    assert_eq!(places.collect::<Vec<_>>(), [(MemberIndex(1), LABEL_SLOTS[1])]);
    let written = Label::decode(&writes[0].2, LABEL_SLOTS[1]).unwrap();
    assert_eq!((written.member, written.label), (Uuid([2; 16]), new));
}

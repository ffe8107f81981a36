//! The encoding of labels: golden bytes, round trips, and damage.

use super::*;
use crc32c::crc32c;
use mirrorball_core::geometry::{ArrayLayout, Profile};
use mirrorball_core::member::MemberState;
use mirrorball_core::policy::KeptProgram;
use proptest::prelude::*;

/// A label that uses every field.
fn label() -> Label {
    let member = |number: u8, state| LabelledMember {
        uuid: Uuid([number; 16]),
        devid: number.into(),
        size_bytes: 1 << 30,
        state,
        lacks_repairs: false,
        is_kept_out: false,
        write_mostly: number == 2,
        rotational: [None, Some(false), Some(true)][usize::from(number) % 3],
        optimal_io_bytes: (number == 3).then_some(0),
        priority: number.into(),
    };
    Label {
        array: LabelledArray {
            uuid: Uuid([0xab; 16]),
            name: "pair".to_owned(),
            profile: Profile::Raid10,
            layout: "md-raid10-far:2".parse::<ArrayLayout>().unwrap().with_chunk(65536).unwrap(),
            stripe_width_max: Some(4),
            block_bytes: 4096,
            has_checksums: false,
            map_checksum: 0x1234_5678,
        },
        generation: 7,
        lineage: Lineage::new(DataId(11)).successor(DataId(12), 3).successor(DataId(13), 5),
        is_clean: true,
        resync_from: Some(1 << 40),
        policy: "round-robin:256K".to_owned(),
        program: None,
        members: vec![
            member(1, MemberState::InSync),
            member(2, MemberState::Failed),
            member(3, MemberState::Rebuilding { recovered_bytes: 1 << 20 }),
        ],
        spares: Vec::new(),
        bad_blocks_generation: 0,
        is_read_only: false,
    }
}

#[test]
fn the_encoding_never_changes() {
    let bytes = label().encode(Uuid([2; 16]), LABEL_SLOTS[1]);
    assert_eq!(bytes.len(), METADATA_BYTES);
    let head: String = bytes[..88].iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(
        head,
        "6d697272\
         62616c6c01000100000000000000000000000000abababababababababababababababab0202020202020202\
         020202020202020200100100000000000700000000000000\
         0d000000000000000c00000000000000"
    );
    assert_eq!(crc32c(&bytes[..METADATA_BYTES - 4]), 0xdaef_1628);
}

#[test]
fn a_program_is_recorded_with_its_fallback() {
    let program = |has_faulted| KeptProgram {
        reference: "program:/etc/mirrorball/mine.wasm?gain=4".to_owned(),
        name: "program/mine@9519bc6b7d21e6172f95774033c40107".to_owned(),
        has_faulted,
    };
    let crcs = [false, true].map(|has_faulted| {
        let label = Label { program: Some(program(has_faulted)), ..label() };
        let bytes = label.encode(Uuid([2; 16]), LABEL_SLOTS[1]);
        assert_eq!(Label::decode(&bytes, LABEL_SLOTS[1]).unwrap().label, label);
        // Versions that do not know programs find the fallback where they look for the policy.
        assert_eq!(bytes[388..406], *b"\x10\0round-robin:256K");
        crc32c(&bytes[..METADATA_BYTES - 4])
    });
    assert_eq!(crcs, [4_199_536_954, 3_645_804_027], "the encoding never changes");
    let mut bytes = label().encode(Uuid([2; 16]), LABEL_SLOTS[1]);
    bytes[646] = 3;
    let checksum = crc32c(&bytes[..METADATA_BYTES - 4]);
    bytes[METADATA_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
    let decoded = Label::decode(&bytes, LABEL_SLOTS[1]);
    assert_eq!(decoded, Err(BlockError::Malformed("an impossible state of a program")));
}

#[test]
fn spares_are_listed_behind_what_earlier_versions_know() {
    let spare =
        |number| LabelledSpare { uuid: Uuid([number; 16]), size_bytes: 1 << 40, replaces: None };
    let copied = LabelledSpare { replaces: Some(2), ..spare(8) };
    let bytes = Label { spares: vec![copied], ..label() }.encode(Uuid([2; 16]), LABEL_SLOTS[1]);
    assert_eq!(Label::decode(&bytes, LABEL_SLOTS[1]).unwrap().label.spares, [copied]);
    let label = Label { spares: vec![spare(8), spare(9)], ..label() };
    let bytes = label.encode(Uuid([2; 16]), LABEL_SLOTS[1]);
    assert_eq!(Label::decode(&bytes, LABEL_SLOTS[1]).unwrap().label, label);
    let without = Label { spares: Vec::new(), ..label }.encode(Uuid([2; 16]), LABEL_SLOTS[1]);
    let differing = (0..METADATA_BYTES - 4).filter(|&at| bytes[at] != without[at]);
    assert!(differing.clone().all(|at| (2880..2944).contains(&at)), "features are the same");
    assert_eq!(crc32c(&bytes[..METADATA_BYTES - 4]), 0xf7d0_c997, "the encoding never changes");
}

#[test]
fn a_member_that_lacks_repairs_is_marked_behind_what_earlier_versions_know() {
    let mut label = label();
    let without = label.encode(Uuid([2; 16]), LABEL_SLOTS[1]);
    label.members[1].lacks_repairs = true;
    let bytes = label.encode(Uuid([2; 16]), LABEL_SLOTS[1]);
    assert_eq!(Label::decode(&bytes, LABEL_SLOTS[1]).unwrap().label, label);
    let differing = (0..METADATA_BYTES - 4).filter(|&at| bytes[at] != without[at]);
    assert_eq!(differing.collect::<Vec<usize>>(), [1024 + 112 + 35]);
}

#[test]
fn a_member_that_is_kept_out_is_marked_behind_what_earlier_versions_know() {
    let mut label = label();
    let without = label.encode(Uuid([2; 16]), LABEL_SLOTS[1]);
    label.members[1].is_kept_out = true;
    let bytes = label.encode(Uuid([2; 16]), LABEL_SLOTS[1]);
    assert_eq!(Label::decode(&bytes, LABEL_SLOTS[1]).unwrap().label, label);
    let differing = (0..METADATA_BYTES - 4).filter(|&at| bytes[at] != without[at]);
    assert_eq!(differing.collect::<Vec<usize>>(), [1024 + 112 + 56]);
}

#[test]
fn the_block_of_a_spare_never_changes() {
    let block =
        SpareBlock { volume: Uuid([0xab; 16]), uuid: Uuid([8; 16]), name: "pair".to_owned() };
    let bytes = block.encode();
    assert_eq!(SpareBlock::decode(&bytes), Ok(block));
    assert_eq!(bytes[8], 6, "another kind of block than a label");
    assert_eq!(crc32c(&bytes[..METADATA_BYTES - 4]), 0xdd14_286d);
    assert_eq!(SpareBlock::decode(&[0; METADATA_BYTES]), Err(BlockError::Absent));
    assert!(Label::decode(&bytes, SPARE_OFFSET).is_err());
}

#[test]
fn a_volume_with_checksums_is_for_programs_that_know_them() {
    let array = LabelledArray { has_checksums: true, ..label().array };
    let label = Label { array, ..label() };
    let bytes = label.encode(Uuid([2; 16]), LABEL_SLOTS[1]);
    assert_eq!(bytes[20], 1, "a feature that everyone must know");
    assert_eq!(Label::decode(&bytes, LABEL_SLOTS[1]).unwrap().label, label);
    let sizes = || [100 << 20, 1 << 30].into_iter();
    assert_eq!(label.array.checksum_tables(sizes()), Some(vec![97 << 20, 1021 << 20]));
    let without = LabelledArray { has_checksums: false, ..label.array };
    assert_eq!(without.checksum_tables(sizes()), None);
}

#[test]
fn a_history_forgets_the_oldest() {
    let lineage = (2..20).fold(Lineage::new(DataId(1)), |old, id| old.successor(DataId(id), id));
    assert_eq!(lineage.id, DataId(19));
    assert_eq!(
        lineage.history,
        (11..19).rev().map(|id| PastData::new(DataId(id), id + 1)).collect::<Vec<PastData>>()
    );
    let label = Label { generation: 21, lineage: lineage.clone(), ..label() };
    let bytes = label.encode(Uuid([1; 16]), LABEL_SLOTS[0]);
    assert_eq!(Label::decode(&bytes, LABEL_SLOTS[0]).unwrap().label.lineage, lineage);
}

#[test]
fn unknown_features_are_refused_or_make_it_read_only() {
    let with = |offset: usize, value: u8| {
        let mut bytes = label().encode(Uuid([1; 16]), LABEL_SLOTS[0]);
        bytes[offset] = value;
        let checksum = crc32c(&bytes[..METADATA_BYTES - 4]);
        bytes[METADATA_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
        Label::decode(&bytes, LABEL_SLOTS[0]).map(|found| found.label.is_read_only)
    };
    assert_eq!(with(12, 1), Ok(false), "compatible");
    assert_eq!(with(16, 1), Ok(true), "only for writers");
    assert_eq!(with(20, 7), Err(BlockError::Unsupported { format: 1, features: 4 }));
    assert_eq!(with(10, 2), Err(BlockError::Unsupported { format: 2, features: 0 }));
    assert_eq!(with(8, 9), Err(BlockError::Malformed("the contents of another kind of block")));
}

#[test]
fn the_newest_slot_counts_and_damage_leaves_the_other() {
    let at = |generation: u64, slot: usize| {
        Label { generation, ..label() }.encode(Uuid([1; 16]), LABEL_SLOTS[slot])
    };
    let newest = |first: &[u8], second: &[u8]| {
        newest_label([first, second]).map(|it| (it.found.label.generation, it.slot))
    };
    let previous = newest_label([&at(9, 0)[..], &at(8, 1)]).unwrap().previous;
    assert_eq!(previous.map(|label| label.generation), Some(8));
    let blank = vec![0; METADATA_BYTES];
    let mut torn = at(9, 0);
    torn[512..].fill(0);
    assert_eq!(newest(&at(7, 0), &at(8, 1)), Ok((8, 1)));
    assert_eq!(newest(&at(9, 0), &at(8, 1)), Ok((9, 0)));
    assert_eq!(newest(&torn, &at(8, 1)), Ok((8, 1)));
    assert_eq!(newest(&at(7, 0), &blank), Ok((7, 0)));
    assert_eq!(newest(&blank, &blank), Err(BlockError::Absent));
    assert_eq!(newest(&blank, &torn), Err(BlockError::Damaged));
    assert_eq!(newest(&at(7, 1), &blank), Err(BlockError::Misplaced { offset: LABEL_SLOTS[1] }));
    let other = Label { policy: "pid".to_owned(), generation: 7, ..label() };
    let other = other.encode(Uuid([1; 16]), LABEL_SLOTS[1]);
    let differ = BlockError::Malformed("slots of one generation that differ");
    assert_eq!(newest(&at(7, 0), &other), Err(differ));
    let mut returned = Label { generation: 7, ..label() };
    returned.members[0].state = MemberState::Rebuilding { recovered_bytes: 0 };
    let returned = returned.encode(Uuid([1; 16]), LABEL_SLOTS[1]);
    assert_eq!(newest(&at(7, 0), &returned), Ok((7, 1)), "it was in sync in its own past");
    let foreign = label().encode(Uuid([3; 16]), LABEL_SLOTS[1]);
    let mixed = BlockError::Malformed("slots of two members");
    assert_eq!(newest(&at(7, 0), &foreign), Err(mixed));
}

#[test]
fn a_uuid_is_written_and_read() {
    let uuid = Uuid(*b"\x12\x34\x56\x78\x9a\xbc\xde\xf0\x0f\xed\xcb\xa9\x87\x65\x43\x21");
    assert_eq!(uuid.to_string(), "12345678-9abc-def0-0fed-cba987654321");
    assert_eq!(uuid.to_string().parse(), Ok(uuid));
    assert_eq!("12345678".parse::<Uuid>(), Err(NotUuid));
}

#[test]
fn every_changed_byte_is_noticed() {
    let bytes = label().encode(Uuid([1; 16]), LABEL_SLOTS[0]);
    assert_eq!(Label::decode(&bytes, LABEL_SLOTS[0]).unwrap().label, label());
    for offset in 0..METADATA_BYTES {
        for flip in [1, 0x80, 0xff] {
            let mut damaged = bytes.clone();
            damaged[offset] ^= flip;
            assert!(Label::decode(&damaged, LABEL_SLOTS[0]).is_err(), "{flip:x} at {offset}");
        }
    }
}

proptest! {
    #[test]
    fn a_torn_block_is_noticed(sectors in 0..255u8, generation in 6..1_u64 << 62) {
        let old = label().encode(Uuid([1; 16]), LABEL_SLOTS[0]);
        let new = Label { generation, policy: "pid".to_owned(), ..label() };
        let new = new.encode(Uuid([1; 16]), LABEL_SLOTS[0]);
        let mut torn = old.clone();
        for sector in (0..8).filter(|sector| sectors & 1 << sector != 0) {
            let range = sector * 512..(sector + 1) * 512;
            torn[range.clone()].copy_from_slice(&new[range]);
        }
        if torn != old && torn != new {
            prop_assert_eq!(Label::decode(&torn, LABEL_SLOTS[0]), Err(BlockError::Damaged));
        }
    }

    #[test]
    fn any_bytes_are_decoded_without_a_panic(noise in prop::collection::vec(any::<u8>(), 4096)) {
        let mut bytes = label().encode(Uuid([1; 16]), LABEL_SLOTS[0]);
        bytes[72..METADATA_BYTES - 4].copy_from_slice(&noise[72..METADATA_BYTES - 4]);
        let checksum = crc32c(&bytes[..METADATA_BYTES - 4]);
        bytes[METADATA_BYTES - 4..].copy_from_slice(&checksum.to_le_bytes());
        let _ = Label::decode(&bytes, LABEL_SLOTS[0]);
    }
}

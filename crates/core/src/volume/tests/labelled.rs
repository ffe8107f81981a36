//! Volumes with labels, and a member that holds none of the data.

use super::*;
use crate::geometry::ArrayLayout;
use crate::label::{DataId, Label, LabelledArray, LabelledMember, Lineage, Uuid, map_checksum};

/// The label of a new volume of members of one size. Data with checksums have blocks of 4 KiB.
pub(super) fn new_label(
    profile: Profile,
    count: u64,
    size_bytes: u64,
    has_checksums: bool,
) -> Label {
    let member = |devid: u64| LabelledMember {
        uuid: Uuid([devid as u8; 16]),
        devid,
        size_bytes,
        state: MemberState::InSync,
        write_mostly: false,
        rotational: None,
        optimal_io_bytes: None,
        priority: 0,
    };
    let members: Vec<LabelledMember> = (1..=count).map(member).collect();
    let configs: Vec<MemberConfig> =
        members.iter().map(|it| MemberConfig::new(it.devid, it.size_bytes)).collect();
    let mut array = LabelledArray {
        uuid: Uuid([9; 16]),
        name: "volume".to_owned(),
        profile,
        layout: ArrayLayout::BTRFS,
        stripe_width_max: None,
        block_bytes: if has_checksums { 4096 } else { 512 },
        has_checksums,
        map_checksum: 0,
    };
    array.map_checksum = map_checksum(&array.chunk_map(&configs).unwrap());
    Label {
        array,
        generation: 2,
        lineage: Lineage::new(DataId(1)),
        is_clean: true,
        resync_from: None,
        policy: "first".to_owned(),
        program: None,
        members,
        is_read_only: false,
    }
}

/// A volume that starts with this label and these regions unsynced.
pub(super) fn volume_of(label: Label, unsynced: Vec<u32>) -> Volume {
    let mut configs = label.map_configs();
    let map = label.array.chunk_map(&configs).unwrap();
    configs.iter_mut().zip(&label.members).for_each(|(config, row)| config.state = row.state);
    let has_checksums = label.array.has_checksums;
    let labels = VolumeLabels {
        slots: vec![0; label.members.len()],
        label,
        behind: Vec::new(),
        sequence: 10,
        least_sequence: 9,
        unsynced,
        scrub: None,
        stale: None,
        map_generation: 0,
        catching_up: Vec::new(),
        seed: 1,
    };
    let volume = Volume::new(map, Members::new(configs), Box::new(First), 1).with_labels(labels);
    match has_checksums {
        true => volume.with_block_bytes(4096).with_checksums(),
        false => volume,
    }
}

/// The others' records say from which sequence number on a member in sync has one. Without it, the
/// member would be taken for an old copy at the next start.
#[test]
fn a_member_without_data_gets_a_record_before_it_is_in_sync() {
    let mut label = new_label(Profile::Raid1, 3, 11 * MIB, false);
    let empty = MemberIndex(2);
    label.members[2].state = MemberState::Rebuilding { recovered_bytes: 0 };
    let map = label.array.chunk_map(&label.map_configs()).unwrap();
    let size_bytes = label.members[2].size_bytes;
    assert!(map.allocated(empty).is_empty(), "two of three hold the only chunk");
    let mut volume = volume_of(label, Vec::new());
    volume.submit(Request {
        id: RequestId(1),
        kind: RequestKind::Rebuild(empty),
        offset: 0,
        length: size_bytes,
        stream: 0,
        cpu: 0,
        background: true,
    });
    let mut ios = Vec::new();
    while let Some(io) = volume.poll_io(Nanos::ZERO) {
        volume.complete(io.id, Ok(()), Nanos::ZERO);
        ios.push(io);
    }
    assert_eq!(volume.poll_reply().map(|reply| reply.result), Some(Ok(())));
    assert_eq!(volume.members()[empty].state, MemberState::InSync);
    let label_slots = crate::label::LABEL_SLOTS;
    let record = ios.iter().position(|io| {
        io.member == empty && io.op == Op::Write && !label_slots.contains(&io.offset)
    });
    let label = ios.iter().rposition(|io| label_slots.contains(&io.offset));
    assert!(record.is_some() && record < label, "{ios:?}");
}

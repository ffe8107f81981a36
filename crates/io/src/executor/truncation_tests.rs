//! Members whose files are truncated, and what their labels say before the files are as long again.

use super::*;
use crate::clock::{Clock, Speed};
use crate::driver::Driver;
use crate::driver::sim::{ObjectId, SimOptions, SimulatedWorld};
use crate::member::{GUARD_BYTES, MemberFile, NewMember, Source};
use mirrorball_core::geometry::{ArrayLayout, Profile};
use mirrorball_core::label::assembly::{FoundMember, assemble};
use mirrorball_core::label::{
    DataId, Label, LabelledArray, LabelledMember, Lineage, MemberLabel, NewestLabel, Uuid,
};
use mirrorball_core::member::Members;
use mirrorball_core::policies::Spec;
use mirrorball_core::volume::VolumeLabels;
use std::time::Duration;

const MEMBER_BYTES: u64 = 41 << 20;

#[test]
fn what_no_write_can_have_brought_back_is_left() {
    let data = |place: u64| {
        move |range: Range<u64>| if range.contains(&place) { Some(place) } else { None }
    };
    let last = |changes: &[Range<u64>], place| last_untouched(changes, 20, data(place));
    assert_eq!(last(&[], 18), 18);
    assert_eq!(last(&[16..20, 30..32], 18), 0, "a write in flight");
    assert_eq!(last(&[16..20, 30..32], 14), 14);
    assert_eq!(last(&[4..6, 16..20], 8), 8);
    assert_eq!(last(&[4..6, 2..18, 16..20], 8), 0);
    assert_eq!(last(&[4..6, 2..18, 16..20], 1), 1);
    assert_eq!(last(&[0..20, 30..32], 8), 0);
}

/// The label of a raid5 of three members that was stopped in good order.
fn label() -> Label {
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
        name: "volume".to_owned(),
        profile: Profile::Raid5,
        layout: ArrayLayout::BTRFS,
        stripe_width_max: None,
        block_bytes: 4096,
        has_checksums: false,
        map_checksum: 0,
    };
    Label {
        array,
        generation: 2,
        lineage: Lineage::new(DataId(1)),
        is_clean: true,
        resync_from: None,
        policy: "first".to_owned(),
        program: None,
        members: (1..=3).map(member).collect(),
        spares: Vec::new(),
        has_begun_journals: true,
        is_read_only: false,
    }
}

/// An executor of a volume with this label, and the files of its members.
fn served(label: &Label, world: &SimulatedWorld) -> (Executor, Vec<ObjectId>) {
    let files: Vec<ObjectId> =
        label.members.iter().map(|_| world.add_file(MEMBER_BYTES + GUARD_BYTES)).collect();
    let found: Vec<FoundMember> = label
        .members
        .iter()
        .map(|row| {
            let found = MemberLabel { member: row.uuid, label: label.clone() };
            let (newest, stale_maps) = (NewestLabel { found, slot: 0, previous: None }, Vec::new());
            FoundMember { newest, record: None, may_lack_record: false, scrub: None, stale_maps }
        })
        .collect();
    let configs = label.map_configs();
    let map = label.array.chunk_map(&configs).unwrap();
    let labels = VolumeLabels::of(&assemble(&found, &[]), &found, map.capacity_bytes(), 1);
    let policy = Spec::parse("first").unwrap().build(&[1, 2, 3]).unwrap();
    let volume = Volume::new(map, Members::new(configs.clone()), policy, 1).with_labels(labels);
    let source = |file: &ObjectId| MemberFile {
        file: world.endpoint(*file),
        begin_bytes: 0,
        least_bytes: Some(MEMBER_BYTES),
    };
    let member = |(config, file)| NewMember { config, source: Source::Real(source(file)) };
    let members = configs.into_iter().zip(&files).map(member).collect();
    let (driver, clock) = (Driver::simulated(world), Clock::new(Speed::REAL));
    (Executor::new(driver, clock, members, None, Some(volume)).unwrap(), files)
}

/// Lets the executor run until nothing is in flight, and checks before each I/O.
fn settle(executor: &mut Executor, check: impl Fn(&Executor)) {
    let mut done = Vec::new();
    loop {
        executor.turn();
        check(executor);
        if executor.is_idle() {
            return;
        }
        executor.wait(Some(Duration::from_millis(1)), &mut done).unwrap();
        done.drain(..).for_each(|done| executor.on_event(&done));
    }
}

/// The second time, the label says already which data are left.
#[test]
fn a_file_is_as_long_again_once_labels_say_that_its_journal_is_gone() {
    let world = SimulatedWorld::new(SimOptions::default());
    let label = label();
    let (mut executor, files) = served(&label, &world);
    let (lost, cut) = (MemberIndex(2), MemberIndex(1));
    settle(&mut executor, |_| {});
    assert!(executor.fail_on_request(lost));
    settle(&mut executor, |_| {});
    let begin = label.array.journals([MEMBER_BYTES; 3].into_iter()).unwrap()[0];
    let has_guard = || {
        let guard = world.read_file(files[cut.get()], MEMBER_BYTES, GUARD_BYTES as usize);
        guard.len() as u64 == GUARD_BYTES
    };
    for _ in 0..2 {
        world.cut_file(files[cut.get()], begin + (1 << 20));
        executor.check_lengths();
        settle(&mut executor, |executor| {
            let volume = executor.volume().unwrap();
            assert!(volume.is_journal_loss_recorded() || !has_guard(), "the label has it begun");
        });
        assert!(has_guard(), "it is as long again");
        let label = executor.volume().unwrap().label().unwrap();
        let state = MemberState::Rebuilding { recovered_bytes: begin + (1 << 20) };
        assert_eq!(label.members[cut.get()].state, state);
        assert!(label.has_begun_journals, "a checkpoint ended the entries");
    }
}

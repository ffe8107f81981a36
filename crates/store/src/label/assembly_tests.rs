//! Worked cases of the rules of assembly: each accident with the labels that it leaves behind.

use super::*;
use crate::label::{
    DataId, DirtyRecord, LabelledArray, LabelledMember, Lineage, NewestLabel, PastData,
};
use mirrorball_core::geometry::{ArrayLayout, Profile};

const REBUILDING: MemberState = MemberState::Rebuilding { recovered_bytes: 4096 };
use MemberState::{Failed, InSync};

/// A label of member `number` (from 1): generation, data ids from the newest on, states. Earlier
/// ids were left after generation 5.
pub(in crate::label) fn found(
    number: u8,
    generation: u64,
    ids: &[u64],
    states: &[MemberState],
) -> MemberLabel {
    let members = (1..).zip(states).map(|(number, &state)| LabelledMember {
        uuid: Uuid([number; 16]),
        devid: number.into(),
        size_bytes: 64 << 20,
        state,
        lacks_repairs: false,
        is_kept_out: false,
        write_mostly: false,
        rotational: None,
        optimal_io_bytes: None,
        priority: 0,
    });
    let past = ids[1..].iter().map(|&id| PastData::new(DataId(id), 5));
    let label = Label {
        array: LabelledArray {
            uuid: Uuid([9; 16]),
            name: "volume".to_owned(),
            profile: Profile::Raid1,
            layout: ArrayLayout::BTRFS,
            stripe_width_max: None,
            block_bytes: 512,
            has_checksums: false,
            map_checksum: 0,
        },
        generation,
        lineage: Lineage { id: DataId(ids[0]), history: past.collect() },
        is_clean: false,
        resync_from: None,
        policy: "pid".to_owned(),
        program: None,
        members: members.collect(),
        spares: Vec::new(),
        bad_blocks_generation: 0,
        is_read_only: false,
    };
    MemberLabel { member: Uuid([number; 16]), label }
}

/// Devices with these labels, and no record of a dirty log.
pub(in crate::label) fn devices(labels: &[MemberLabel]) -> Vec<FoundMember> {
    let device = |label: &MemberLabel| {
        FoundMember::of_label(NewestLabel { found: label.clone(), slot: 0, previous: None })
    };
    labels.iter().map(device).collect()
}

fn judge(labels: &[MemberLabel], discarded: &[usize]) -> (Vec<MemberStanding>, ArrayVerdict) {
    let assembly = assemble(&devices(labels), discarded);
    let map = assembly.newest.array.chunk_map(&assembly.newest.map_configs()).unwrap();
    let verdict = assembly.verdict(&map);
    (assembly.standings, verdict)
}

/// Standings by member and verdict, which must not depend on the order of the devices.
pub(in crate::label) fn judge_in_any_order(
    labels: &[MemberLabel],
) -> (Vec<MemberStanding>, ArrayVerdict) {
    let expected = judge(labels, &[]);
    let mut turned = labels.to_vec();
    for _ in labels {
        for order in [turned.clone(), turned.iter().rev().cloned().collect()] {
            let (standings, verdict) = judge(&order, &[]);
            let place = |label: &MemberLabel| order.iter().position(|it| it == label).unwrap();
            let by_member = labels.iter().map(|label| standings[place(label)]).collect();
            assert_eq!((by_member, verdict), expected, "in another order");
        }
        turned.rotate_left(1);
    }
    expected
}

#[test]
fn members_that_agree_start() {
    for count in [2, 3] {
        let states = vec![InSync; count];
        let labels: Vec<_> = (1..=count as u8).map(|it| found(it, 5, &[1], &states)).collect();
        assert_eq!(judge(&labels, &[]), (vec![MemberStanding::InSync; count], ArrayVerdict::Start));
    }
}

#[test]
fn crash_between_the_labels_of_two_members() {
    let both = [InSync; 2];
    let labels = [found(1, 6, &[1], &both), found(2, 5, &[1], &both)];
    assert_eq!(judge(&labels, &[]), (vec![MemberStanding::InSync; 2], ArrayVerdict::Start));
    let labels = [found(1, 5, &[1], &both), found(2, 6, &[1], &both)];
    assert_eq!(judge(&labels, &[]), (vec![MemberStanding::InSync; 2], ArrayVerdict::Start));
}

#[test]
fn crash_while_the_failure_of_a_third_is_recorded() {
    // Member 1 has the new label, member 2 not yet: no reply depended on it. Member 3 failed.
    let after = [InSync, InSync, Failed];
    let labels = [
        found(1, 6, &[2, 1], &after),
        found(2, 5, &[1], &[InSync; 3]),
        found(3, 5, &[1], &[InSync; 3]),
    ];
    let standings = vec![MemberStanding::InSync, MemberStanding::InSync, MemberStanding::Stale];
    assert_eq!(judge(&labels, &[]), (standings, ArrayVerdict::Start));
    // Without member 1, the others know nothing of it, and member 1 is missing.
    let missing = ArrayVerdict::NeedsDegraded { missing: vec![0] };
    assert_eq!(judge(&labels[1..], &[]), (vec![MemberStanding::InSync; 2], missing));
}

#[test]
fn failed_member_comes_back() {
    let after = [InSync, Failed];
    let labels = [found(1, 7, &[2, 1], &after), found(2, 5, &[1], &[InSync; 2])];
    assert_eq!(judge(&labels, &[]).0, [MemberStanding::InSync, MemberStanding::Stale]);
    assert_eq!(judge(&labels, &[]).1, ArrayVerdict::Start);
    // The member that is in sync starts without the other; the other does not start by itself.
    assert_eq!(judge(&labels[..1], &[]).1, ArrayVerdict::Start);
    let missing = ArrayVerdict::NeedsDegraded { missing: vec![0] };
    assert_eq!(judge(&labels[1..], &[]).1, missing);
}

#[test]
fn a_member_that_an_operator_failed_stays_out() {
    let mut labels = [found(1, 7, &[2, 1], &[InSync, Failed]), found(2, 5, &[1], &[InSync; 2])];
    labels[0].label.members[1].is_kept_out = true;
    let expected = vec![MemberStanding::InSync, MemberStanding::KeptOut];
    assert_eq!(judge(&labels, &[]), (expected, ArrayVerdict::Start));
    let member = assemble(&devices(&labels), &[]).members[1];
    assert_eq!(member, AssembledMember { found: Some(1), state: Failed, has_diverged: false });
    // Its data are given up: it is taken back.
    assert_eq!(judge(&labels, &[1]).0, [MemberStanding::InSync, MemberStanding::Stale]);
}

#[test]
fn each_half_started_alone() {
    let labels = [found(1, 7, &[2, 1], &[InSync, Failed]), found(2, 7, &[3, 1], &[Failed, InSync])];
    let (standings, verdict) = judge(&labels, &[]);
    assert!(standings.contains(&MemberStanding::Diverged));
    assert_eq!(verdict, ArrayVerdict::Doubtful);
    // The user gives up either side.
    let (standings, verdict) = judge(&labels, &[1]);
    assert_eq!(
        (standings, verdict),
        (vec![MemberStanding::InSync, MemberStanding::Stale], ArrayVerdict::Start)
    );
    let (standings, verdict) = judge(&labels, &[0]);
    assert_eq!(
        (standings, verdict),
        (vec![MemberStanding::Stale, MemberStanding::InSync], ArrayVerdict::Start)
    );
}

#[test]
fn halves_that_diverged_by_many_generations() {
    let labels =
        [found(1, 7, &[2, 1], &[InSync, Failed]), found(2, 99, &[5, 4, 3, 1], &[Failed, InSync])];
    assert_eq!(judge(&labels, &[]).1, ArrayVerdict::Doubtful);
    let labels = [labels[1].clone(), labels[0].clone()];
    assert_eq!(judge(&labels, &[]).1, ArrayVerdict::Doubtful);
}

#[test]
fn restored_snapshot_of_a_member_in_sync() {
    let both = [InSync; 2];
    let labels = [found(1, 9, &[1], &both), found(2, 7, &[1], &both)];
    assert_eq!(
        judge(&labels, &[]),
        (vec![MemberStanding::InSync, MemberStanding::OldCopy], ArrayVerdict::Doubtful)
    );
    assert_eq!(
        judge(&labels, &[1]),
        (vec![MemberStanding::InSync, MemberStanding::Stale], ArrayVerdict::Start)
    );
    // From before an earlier failure that was rebuilt.
    let labels = [found(1, 9, &[2, 1], &both), found(2, 3, &[1], &both)];
    assert_eq!(judge(&labels, &[]).1, ArrayVerdict::Doubtful);
}

#[test]
fn copied_device() {
    let both = [InSync; 2];
    let labels = [found(1, 5, &[1], &both), found(2, 5, &[1], &both), found(2, 5, &[1], &both)];
    let (standings, verdict) = judge(&labels, &[]);
    assert_eq!(standings, [MemberStanding::InSync, MemberStanding::Cloned, MemberStanding::Cloned]);
    assert_eq!(verdict, ArrayVerdict::Doubtful);
    let (standings, verdict) = judge(&labels, &[1]);
    assert_eq!(
        standings,
        [MemberStanding::InSync, MemberStanding::Unknown, MemberStanding::InSync]
    );
    assert_eq!(verdict, ArrayVerdict::Start);
}

#[test]
fn one_generation_with_two_contents() {
    let mut labels = [found(1, 5, &[1], &[InSync; 2]), found(2, 5, &[1], &[InSync; 2])];
    labels[1].label.is_clean = true;
    assert_eq!(judge(&labels, &[]).1, ArrayVerdict::Doubtful);
}

#[test]
fn interrupted_rebuild_goes_on_or_starts_over() {
    let states = [InSync, REBUILDING];
    let resumed = MemberStanding::Rebuilding { recovered_bytes: 4096 };
    for behind in [0, 1] {
        let labels = [found(1, 8, &[2, 1], &states), found(2, 8 - behind, &[2, 1], &states)];
        assert_eq!(
            judge(&labels, &[]),
            (vec![MemberStanding::InSync, resumed], ArrayVerdict::Start)
        );
    }
    let labels = [found(1, 8, &[2, 1], &states), found(2, 6, &[2, 1], &states)];
    assert_eq!(judge(&labels, &[]).0, [MemberStanding::InSync, MemberStanding::Stale]);
    // The member being rebuilt is not enough by itself.
    let labels = [found(2, 8, &[2, 1], &states)];
    assert_eq!(judge(&labels, &[]).1, ArrayVerdict::Incomplete { missing: vec![0, 1] });
    // Nor is it if all its data were copied, as member 1 starts alone.
    let states = [InSync, MemberState::Rebuilding { recovered_bytes: 64 << 20 }];
    let labels = [found(2, 8, &[2, 1], &states)];
    assert_eq!(judge(&labels, &[]).1, ArrayVerdict::Incomplete { missing: vec![0, 1] });
    assert_eq!(judge(&[found(1, 8, &[2, 1], &states)], &[]).1, ArrayVerdict::Start);
}

#[test]
fn removed_member_is_ignored() {
    let labels = [found(1, 8, &[2, 1], &[InSync]), found(2, 5, &[1], &[InSync; 2])];
    let assembly = assemble(&devices(&labels), &[]);
    assert_eq!(assembly.standings, [MemberStanding::InSync, MemberStanding::Unknown]);
    assert_eq!(
        assembly.members,
        [AssembledMember { found: Some(0), state: InSync, has_diverged: false }]
    );
}

#[test]
fn generation_ahead_of_the_newest_lineage_is_in_doubt() {
    // It is of the parent lineage, but was changed after that lineage had ended.
    let labels = [found(1, 7, &[2, 1], &[InSync, Failed]), found(2, 8, &[1], &[InSync; 2])];
    assert_eq!(judge(&labels, &[]).1, ArrayVerdict::Doubtful);
}

#[test]
fn snapshot_that_went_on_alone() {
    // Member 2 is from generation 5 and drew an id. Member 1 has later writes under the old id.
    let labels = [found(1, 7, &[1], &[InSync; 2]), found(2, 9, &[2, 1], &[Failed, InSync])];
    assert_eq!(judge(&labels, &[]).1, ArrayVerdict::Doubtful);
}

#[test]
fn label_that_was_announced_and_never_committed() {
    // Member 1 alone recorded that member 3 failed. The others went on without member 1.
    let announced = found(1, 6, &[2, 1], &[InSync, InSync, Failed]);
    let others = [Failed, InSync, InSync];
    let labels = [announced, found(2, 9, &[3, 1], &others), found(3, 9, &[3, 1], &others)];
    let standings = vec![MemberStanding::Stale, MemberStanding::InSync, MemberStanding::InSync];
    assert_eq!(judge(&labels, &[]), (standings, ArrayVerdict::Start));
    // The same, but the announcement drew no id.
    let labels = [found(1, 6, &[1], &[InSync; 3]), labels[1].clone(), labels[2].clone()];
    assert_eq!(judge(&labels, &[]).0[0], MemberStanding::Stale);
    // Committed: others may have relied on it. So the others are a majority that went on without.
    let labels = [found(1, 7, &[1], &[InSync; 3]), labels[1].clone(), labels[2].clone()];
    let standings = vec![MemberStanding::Diverged, MemberStanding::InSync, MemberStanding::InSync];
    assert_eq!(judge_in_any_order(&labels), (standings, ArrayVerdict::Start));
}

#[test]
fn two_members_that_are_not_in_sync_have_announcements() {
    // Member 1 has one of the end of the rebuild of member 3, which has one that member 1 left.
    let labels = [
        found(1, 7, &[1], &[REBUILDING, InSync, InSync]),
        found(2, 6, &[1], &[REBUILDING, InSync, REBUILDING]),
        found(3, 7, &[1], &[Failed, InSync, REBUILDING]),
    ];
    let rebuilding = MemberStanding::Rebuilding { recovered_bytes: 4096 };
    let standings = vec![rebuilding, MemberStanding::InSync, MemberStanding::Stale];
    assert_eq!(judge_in_any_order(&labels).0, standings);
}

#[test]
fn an_announcement_that_reached_no_member_in_sync_refutes_none() {
    // Member 1 has one of the end of the rebuild of member 3, which has one that member 1 left.
    let labels = [
        found(1, 6, &[1], &[InSync; 3]),
        found(2, 5, &[1], &[InSync, InSync, REBUILDING]),
        found(3, 6, &[2, 1], &[Failed, InSync, REBUILDING]),
    ];
    let standings = vec![MemberStanding::InSync, MemberStanding::InSync, MemberStanding::Stale];
    assert_eq!(judge_in_any_order(&labels), (standings, ArrayVerdict::Start));
}

#[test]
fn rebuilding_member_alone_has_an_announcement() {
    // Members 1 and 3 may start without member 2, which is being rebuilt.
    let announced = found(2, 6, &[2, 1], &[Failed, REBUILDING, InSync]);
    let states = [InSync, REBUILDING, InSync];
    let labels = [found(1, 8, &[1], &states), announced, found(3, 8, &[1], &states)];
    let standings = vec![MemberStanding::InSync, MemberStanding::Stale, MemberStanding::InSync];
    assert_eq!(judge(&labels, &[]), (standings, ArrayVerdict::Start));
}

#[test]
fn announcement_of_a_member_being_rebuilt_meets_one_of_a_member_in_sync() {
    // Members 1 and 3 announced that member 2 failed; members 2 and 3 that member 3 failed. Nothing
    // depended on either, and member 1 has only a part of the data.
    let states = [REBUILDING, Failed, InSync];
    let announced = found(1, 6, &[2, 1], &states);
    let labels = [announced.clone(), found(2, 6, &[3, 1], &[Failed, InSync, Failed])];
    assert_eq!(judge(&labels, &[]).0, [MemberStanding::Stale, MemberStanding::InSync]);
    // Committed: member 3 may have written since, without member 2.
    let labels = [found(1, 7, &[2, 1], &states), labels[1].clone()];
    assert_eq!(judge(&labels, &[]).1, ArrayVerdict::Doubtful);
    // Two members in sync: a damaged slot may hide that both went on, so the user decides.
    let labels = [
        found(1, 6, &[2, 1], &[InSync, Failed, Failed]),
        found(2, 6, &[3, 1], &[Failed, InSync, Failed]),
    ];
    assert_eq!(judge(&labels, &[]).1, ArrayVerdict::Doubtful);
}

#[test]
fn one_generation_announced_twice_with_a_member_being_rebuilt() {
    // Members 2 and 3 had a label of generation 5. Member 2 alone got the next one. Member 3 went
    // on without it, which drew no id, because member 2 was not in sync.
    let alone = found(2, 6, &[1], &[Failed, REBUILDING, InSync]);
    let other = found(3, 6, &[1], &[Failed, Failed, InSync]);
    let standings = [MemberStanding::InSync, MemberStanding::Stale];
    assert_eq!(judge(&[other.clone(), alone.clone()], &[]).0, standings);
    let standings = [MemberStanding::Stale, MemberStanding::InSync];
    assert_eq!(judge(&[alone, other], &[]).0, standings);
    // Of two members in sync, each may have data that the other lacks.
    let labels = [
        found(2, 6, &[1], &[Failed, InSync, Failed]),
        found(3, 6, &[1], &[Failed, Failed, InSync]),
    ];
    assert_eq!(judge(&labels, &[]).1, ArrayVerdict::Doubtful);
}

#[test]
fn snapshot_with_a_current_label_and_an_old_dirty_log() {
    let record = |sequence, least_sequence| {
        Some(DirtyRecord { sequence, least_sequence, ..DirtyRecord::default() })
    };
    let standings = |states: [MemberState; 2], records: [Option<DirtyRecord>; 2]| {
        let labels = [1, 2].map(|number| found(number, 8, &[2, 1], &states));
        let mut found = devices(&labels);
        for (device, record) in found.iter_mut().zip(records) {
            device.record = record;
        }
        assemble(&found, &[]).standings
    };
    let in_sync = [MemberStanding::InSync; 2];
    assert_eq!(standings([InSync; 2], [record(9, 8), record(8, 7)]), in_sync, "a crash");
    assert_eq!(standings([InSync; 2], [record(1, 0), None]), in_sync, "the first record");
    assert_eq!(standings([InSync; 2], [record(9, 4), record(5, 4)]), in_sync, "records failed");
    let old = [MemberStanding::InSync, MemberStanding::OldCopy];
    assert_eq!(standings([InSync; 2], [record(9, 8), record(7, 6)]), old);
    assert_eq!(standings([InSync; 2], [record(2, 1), None]), old);
    // What a member being rebuilt has is not needed.
    let stale = [MemberStanding::InSync, MemberStanding::Stale];
    assert_eq!(standings([InSync, REBUILDING], [record(9, 8), record(7, 6)]), stale);
    // The log of a member that is not in sync says nothing about the others.
    let states = [InSync, REBUILDING];
    let resumed = MemberStanding::Rebuilding { recovered_bytes: 4096 };
    let both = [MemberStanding::InSync, resumed];
    assert_eq!(standings(states, [record(3, 2), record(70, 69)]), both);
}

#[test]
fn a_removed_device_is_no_member_and_the_volume_starts_without_it() {
    let states = [InSync, Failed];
    let mut first = found(1, 7, &[2, 1], &states);
    first.label.members[1].uuid = Uuid::NIL;
    let removed = found(2, 5, &[1], &[InSync; 2]);
    let (standings, verdict) = judge(&[first.clone(), removed], &[]);
    assert_eq!(standings, [MemberStanding::InSync, MemberStanding::Unknown]);
    assert_eq!(verdict, ArrayVerdict::Start);
    assert_eq!(judge(&[first], &[]).1, ArrayVerdict::Start);
}

#[test]
fn a_replacement_alone_has_the_label_that_says_another_member_left() {
    // Member 2 was to be replaced by the device of UUID 3, which alone got the label. Member 2 went
    // on without member 1.
    let announced = found(3, 6, &[2, 1], &[InSync, Failed, REBUILDING]);
    let mut announced = MemberLabel { member: Uuid([3; 16]), ..announced };
    announced.label.members.remove(1);
    let states = [InSync, InSync];
    let labels =
        [found(1, 5, &[1], &states), announced.clone(), found(2, 9, &[4, 1], &[Failed, InSync])];
    let standings = [MemberStanding::InSync, MemberStanding::Unknown];
    let missing = ArrayVerdict::NeedsDegraded { missing: vec![1] };
    assert_eq!(judge(&labels[..2], &[]), (standings.to_vec(), missing));
    let standings = [MemberStanding::Stale, MemberStanding::Unknown, MemberStanding::InSync];
    assert_eq!(judge(&labels, &[]), (standings.to_vec(), ArrayVerdict::Start));
    // Member 1 has the label, too: it may have been committed.
    let went_on = found(1, 6, &[2, 1], &states[..1]);
    let mut both = [went_on, announced];
    both[0].label = both[1].label.clone();
    assert_eq!(judge(&both, &[]).1, ArrayVerdict::Start);
}

#[test]
fn the_end_of_a_rebuild_is_announced_on_the_rebuilt_member_alone() {
    // Member 2 had the end of its rebuild announced to it alone; member 1 went on without it.
    for (labels, standings) in [
        ([found(1, 6, &[1], &[InSync, Failed]), found(2, 6, &[1], &[InSync; 2])], [0, 1]),
        ([found(2, 6, &[1], &[InSync; 2]), found(1, 6, &[1], &[InSync, Failed])], [1, 0]),
    ] {
        let all = [MemberStanding::InSync, MemberStanding::Stale];
        let standings = standings.map(|index| all[index]).to_vec();
        assert_eq!(judge(&labels, &[]), (standings, ArrayVerdict::Start));
    }
}

/// Member 2 was rebuilt from member 1, which the label that says so may not have reached.
#[test]
fn a_rebuilt_member_does_not_start_alone_by_an_announcement() {
    let rebuilt = |number, generation| found(number, generation, &[1], &[InSync, REBUILDING]);
    let in_sync = |number, generation| found(number, generation, &[1], &[InSync; 2]);
    let judge = |labels: &[MemberLabel], previous: Option<MemberLabel>, discarded: &[usize]| {
        let mut devices = devices(labels);
        devices.last_mut().unwrap().newest.previous = previous.map(|it| it.label);
        let assembly = assemble(&devices, discarded);
        let map = assembly.newest.array.chunk_map(&assembly.newest.map_configs()).unwrap();
        (assembly.verdict(&map), assembly.announced)
    };
    let alone = [in_sync(2, 30)];
    let announced = |missing| ArrayVerdict::Announced { rebuilt_from: vec![0], missing };
    assert_eq!(judge(&alone, Some(rebuilt(2, 29)), &[]), (announced(vec![0]), vec![1]));
    // With member 1, which gets the label first; but not if its data are given up.
    for first in [rebuilt(1, 29), in_sync(1, 30)] {
        let labels = [first, in_sync(2, 30)];
        let start = (ArrayVerdict::Start, vec![1]);
        assert_eq!(judge(&labels, Some(rebuilt(2, 29)), &[]), start);
        assert_eq!(judge(&labels, Some(rebuilt(2, 29)), &[0]), (announced(vec![]), vec![1]));
    }
    // The step was committed, or the commit was torn.
    for previous in [Some(in_sync(2, 29)), None] {
        let degraded = ArrayVerdict::NeedsDegraded { missing: vec![0] };
        assert_eq!(judge(&alone, previous, &[]), (degraded, vec![]));
    }
    // Member 1 has its commit.
    let labels = [in_sync(1, 31), in_sync(2, 30)];
    assert_eq!(judge(&labels, Some(rebuilt(2, 29)), &[]), (ArrayVerdict::Start, vec![]));
}

/// Member 3 took part in another announcement of the same generation, which failed member 2.
#[test]
fn a_label_that_calls_a_member_in_sync_counts_though_another_does_not() {
    let before = [InSync, InSync, Failed];
    let mut devices = devices(&[
        found(2, 30, &[1], &[InSync, InSync, REBUILDING]),
        found(3, 30, &[1], &[InSync, InSync, REBUILDING]),
    ]);
    devices[0].newest.previous = Some(found(2, 29, &[1], &before).label);
    devices[1].newest.previous = Some(found(3, 29, &[1], &[InSync, Failed, REBUILDING]).label);
    let assembly = assemble(&devices, &[]);
    assert_eq!((assembly.announced, assembly.rebuilt_from), (vec![], vec![0, 1]));
}

#[test]
fn two_replacements_without_the_members_that_they_were_to_copy() {
    // Each was announced on the replacement alone: member 3 in the place of 2, member 4 of 1.
    let mut labels = [
        found(3, 6, &[2, 1], &[InSync, Failed, REBUILDING]),
        found(4, 6, &[3, 1], &[Failed, InSync, Failed, REBUILDING]),
    ];
    labels[0].label.members.remove(1);
    labels[1].label.members.remove(2);
    labels[1].label.members.remove(0);
    let (standings, verdict) = judge(&labels, &[]);
    let rebuilding = MemberStanding::Rebuilding { recovered_bytes: 4096 };
    assert_eq!(standings, [rebuilding, MemberStanding::Unknown]);
    assert_eq!(verdict, ArrayVerdict::Incomplete { missing: vec![0, 1] });
}

//! Worked cases of devices that left long ago, and of those that went on separately.

use super::*;
use crate::label::assembly::tests::{found, judge_in_any_order};
use crate::label::assembly::{ArrayVerdict, MemberStanding};
use crate::label::{DataId, PastData, Uuid};
use MemberState::{Failed, InSync};
use mirrorball_core::geometry::Profile;

/// A label as [`found`] makes it, of a volume whose members left it so often since that it has
/// forgotten the data id 1.
fn much_later(number: u8, states: &[MemberState]) -> MemberLabel {
    let mut label = found(number, 40, &[100], states);
    let past = (0..8).map(|past| PastData::new(DataId(90 - past), 38 - 2 * past));
    label.label.lineage.history = past.collect();
    label
}

#[test]
fn a_disk_that_left_long_ago_is_older_than_the_current_members() {
    let (current, stale) = (MemberStanding::InSync, MemberStanding::Stale);
    let three = [InSync, InSync, Failed];
    let old = found(3, 5, &[1], &[InSync; 3]);
    let labels = [much_later(1, &three), much_later(2, &three), old.clone()];
    let expected = (vec![current, current, stale], ArrayVerdict::Start);
    assert_eq!(judge_in_any_order(&labels), expected);
    // It was replaced since.
    let labels = [much_later(1, &[InSync; 2]), much_later(2, &[InSync; 2]), old.clone()];
    let expected = (vec![current, current, MemberStanding::Unknown], ArrayVerdict::Start);
    assert_eq!(judge_in_any_order(&labels), expected);
    // Of a pair one is left.
    let labels = [much_later(1, &[InSync, Failed]), found(2, 5, &[1], &[InSync; 2])];
    assert_eq!(judge_in_any_order(&labels), (vec![current, stale], ArrayVerdict::Start));
    // It has nothing of what is missing.
    let labels = [much_later(1, &three), old];
    let missing = ArrayVerdict::Incomplete { missing: vec![1, 2] };
    assert_eq!(judge_in_any_order(&labels), (vec![current, stale], missing));
}

#[test]
fn a_disk_that_was_used_alone_long_ago_is_left_out_by_a_majority() {
    let (current, diverged) = (MemberStanding::InSync, MemberStanding::Diverged);
    let three = [InSync, InSync, Failed];
    let alone = found(3, 7, &[9, 1], &[Failed, Failed, InSync]);
    let labels = [much_later(1, &three), much_later(2, &three), alone];
    let expected = (vec![current, current, diverged], ArrayVerdict::Start);
    assert_eq!(judge_in_any_order(&labels), expected);
    // Of a pair neither is a majority. The names of the sides do not depend on the order either.
    let alone = found(2, 7, &[9, 1], &[Failed, InSync]);
    let labels = [much_later(1, &[InSync, Failed]), alone];
    let expected = (vec![current, diverged], ArrayVerdict::Doubtful);
    assert_eq!(judge_in_any_order(&labels), expected);
}

#[test]
fn two_of_three_are_a_majority_against_one_that_went_on_for_longer() {
    let two = [InSync, InSync, Failed];
    let labels = [
        found(1, 7, &[2, 1], &two),
        found(2, 7, &[2, 1], &two),
        found(3, 30, &[3, 1], &[Failed, Failed, InSync]),
    ];
    let current = MemberStanding::InSync;
    let standings = vec![current, current, MemberStanding::Diverged];
    assert_eq!(judge_in_any_order(&labels), (standings, ArrayVerdict::Start));
    // One of the two does not outvote the third.
    let (_, verdict) = judge_in_any_order(&labels[1..]);
    assert_eq!(verdict, ArrayVerdict::Doubtful);
}

#[test]
fn halves_that_removed_each_other_are_both_a_majority_and_the_user_chooses() {
    let removed = |number: u8, generation, id| {
        let states = if number == 1 { [InSync, Failed] } else { [Failed, InSync] };
        let mut label = found(number, generation, &[id, 1], &states);
        label.label.members[usize::from(2 - number)].uuid = Uuid::NIL;
        label
    };
    for generations in [(7, 9), (9, 7)] {
        let labels = [removed(1, generations.0, 2), removed(2, generations.1, 3)];
        let (_, verdict) = judge_in_any_order(&labels);
        assert_eq!(verdict, ArrayVerdict::Doubtful, "{generations:?}");
    }
}

/// One half removed the other, which went on as well: whichever has the later generation, it is not
/// more than half of both.
#[test]
fn a_half_that_removed_the_other_is_no_majority() {
    for (generations, first) in [((7, 9), 1), ((9, 7), 1), ((9, 7), 2)] {
        let states = |own: &[usize]| {
            [0, 1, 2, 3].map(|row| [Failed, InSync][usize::from(own.contains(&row))])
        };
        let kept: Vec<usize> = (0..first).collect();
        let others: Vec<usize> = (first..2 * first).collect();
        let half = |number: usize, generation, id, own: &[usize]| {
            let mut label =
                found(number as u8 + 1, generation, &[id, 1], &states(own)[..2 * first]);
            label.label.array.profile = Profile::Raid1;
            label
        };
        let mut labels: Vec<MemberLabel> =
            kept.iter().map(|&number| half(number, generations.0, 2, &kept)).collect();
        for label in &mut labels {
            others.iter().for_each(|&row| label.label.members[row].uuid = Uuid::NIL);
        }
        labels.extend(others.iter().map(|&number| half(number, generations.1, 3, &others)));
        let (_, verdict) = judge_in_any_order(&labels);
        assert_eq!(verdict, ArrayVerdict::Doubtful, "{generations:?}, {first} of each");
    }
    // Two of three removed the third, which went on alone.
    let pair = |number| {
        let mut label = found(number, 7, &[2, 1], &[InSync, InSync, Failed]);
        label.label.members[2].uuid = Uuid::NIL;
        label
    };
    let labels = [pair(1), pair(2), found(3, 30, &[3, 1], &[Failed, Failed, InSync])];
    assert_eq!(judge_in_any_order(&labels).1, ArrayVerdict::Start);
}

#[test]
fn a_label_that_another_descends_from_is_not_the_newest_because_of_a_third() {
    // Member 1 went on alone after it took the place of 2, which had been used alone; by its label
    // 3 and 4 are older.
    let label = |number, generation, ids: &[u64], in_use: &[usize]| {
        let mut states = [Failed; 4];
        in_use.iter().for_each(|&row| states[row] = InSync);
        let mut label = found(number, generation, ids, &states);
        label.label.array.profile = Profile::Raid1c4;
        if number != 2 {
            label.label.members[1].uuid = Uuid::NIL;
        }
        label
    };
    let mut labels = [
        label(1, 12, &[4, 2, 1], &[0]),
        label(2, 30, &[3, 1], &[1]),
        label(3, 9, &[2, 1], &[0, 2, 3]),
        label(4, 9, &[2, 1], &[0, 2, 3]),
    ];
    labels[0].label.lineage.history[0].until = 9;
    let (standings, verdict) = judge_in_any_order(&labels);
    assert_eq!(verdict, ArrayVerdict::Doubtful, "{standings:?}");
}

#[test]
fn a_disk_that_was_used_with_another_long_ago_is_not_rebuilt_after_a_replacement() {
    // Members 2 and 3 were used without 1, which was replaced since, like 2.
    let old = found(3, 7, &[9, 1], &[Failed, InSync, InSync]);
    let mut current = much_later(4, &[InSync, InSync, Failed]);
    current.label.members[0].uuid = Uuid([4; 16]);
    current.label.members[1].uuid = Uuid([5; 16]);
    let mut other = current.clone();
    other.member = Uuid([5; 16]);
    let (standings, _) = judge_in_any_order(&[current, other, old]);
    assert_eq!(standings[2], MemberStanding::Diverged);
    // They removed 1, which went on.
    let mut old = found(3, 7, &[9, 1], &[Failed, InSync, InSync]);
    old.label.members[0].uuid = Uuid::NIL;
    let mut current = much_later(1, &[InSync, InSync, Failed]);
    current.label.members[1].uuid = Uuid([5; 16]);
    let (standings, _) = judge_in_any_order(&[current, old]);
    assert_eq!(standings[1], MemberStanding::Diverged);
}

/// The label of the member that is rebuilt reached no other, but the newest goes on from it.
#[test]
fn a_label_that_another_descends_from_was_committed() {
    let rebuilding = MemberState::Rebuilding { recovered_bytes: 4096 };
    let before = [InSync, rebuilding, InSync, InSync];
    let mut labels = [
        found(1, 32, &[1], &before),
        found(2, 33, &[2, 1], &[Failed, rebuilding, InSync, InSync]),
        found(3, 32, &[1], &before),
        found(4, 34, &[3, 2, 1], &[Failed, rebuilding, Failed, InSync]),
    ];
    for label in &mut labels {
        let history = &mut label.label.lineage.history;
        history.iter_mut().rev().zip(32..).for_each(|(past, until)| past.until = until);
    }
    let stale = MemberStanding::Stale;
    let goes_on = MemberStanding::Rebuilding { recovered_bytes: 4096 };
    let (standings, _) = judge_in_any_order(&labels);
    assert_eq!(standings, [stale, goes_on, stale, MemberStanding::InSync]);
}

/// It was announced by a member that is rebuilt, and reached no other: that one has what it had.
#[test]
fn a_member_that_announced_a_label_alone_keeps_what_was_rebuilt_of_it() {
    let rebuilding = MemberState::Rebuilding { recovered_bytes: 4096 };
    let before = [rebuilding, Failed, InSync, InSync];
    let after = [rebuilding, Failed, InSync, Failed];
    let mut labels = [
        found(1, 40, &[3, 2, 1], &after),
        found(2, 38, &[1], &[rebuilding, InSync, InSync, InSync]),
        found(3, 39, &[2, 1], &before),
        found(4, 39, &[2, 1], &before),
    ];
    for label in &mut labels {
        let history = &mut label.label.lineage.history;
        history.iter_mut().rev().zip(38..).for_each(|(past, until)| past.until = until);
    }
    let (current, stale) = (MemberStanding::InSync, MemberStanding::Stale);
    let kept = MemberStanding::Rebuilding { recovered_bytes: 4096 };
    assert_eq!(judge_in_any_order(&labels).0, [kept, stale, current, current]);
    // The others went on without it since, or it began again.
    labels[3].label.generation += 1;
    assert_eq!(judge_in_any_order(&labels).0, [stale, stale, current, current]);
    labels[3].label.generation -= 1;
    labels[0].label.members[0].state = MemberState::Rebuilding { recovered_bytes: 0 };
    assert_eq!(judge_in_any_order(&labels).0, [stale, stale, current, current]);
}

/// The member that is rebuilt announced that 2 left, and the one in sync did so again without it.
#[test]
fn a_member_whose_announcement_was_replaced_keeps_what_was_rebuilt_of_it() {
    let rebuilding = MemberState::Rebuilding { recovered_bytes: 4096 };
    let after = [InSync, Failed, rebuilding];
    let mut labels = [
        found(1, 52, &[3, 1], &after),
        found(2, 51, &[1], &[InSync, InSync, rebuilding]),
        found(3, 52, &[2, 1], &after),
    ];
    labels.iter_mut().for_each(|it| {
        it.label.lineage.history.iter_mut().for_each(|past| past.until = 51);
    });
    let (current, stale) = (MemberStanding::InSync, MemberStanding::Stale);
    let kept = MemberStanding::Rebuilding { recovered_bytes: 4096 };
    assert_eq!(judge_in_any_order(&labels).0, [current, stale, kept]);
    // Before and after a restart, the log says other sequence numbers of the same moment.
    labels[2].label.lineage.history[0].sequence = Some(9);
    labels[0].label.lineage.history[0].sequence = Some(8);
    assert_eq!(judge_in_any_order(&labels).0, [current, stale, kept]);
    // The member could not be failed, and got no later label either.
    labels[0].label.generation += 2;
    assert_eq!(judge_in_any_order(&labels).0, [current, stale, kept]);
    // It was failed, and is rebuilt from its beginning.
    labels[0].label.members[2].state = MemberState::Rebuilding { recovered_bytes: 0 };
    assert_eq!(judge_in_any_order(&labels).0, [current, stale, stale]);
    labels[0].label.members[2].state = Failed;
    assert_eq!(judge_in_any_order(&labels).0, [current, stale, stale]);
    // A copy from before it left, came back, and was rebuilt again.
    labels[0].label.members[2].state = rebuilding;
    labels[0].label.generation += 1;
    assert_eq!(judge_in_any_order(&labels).0, [current, stale, stale]);
}

#[test]
fn a_device_that_only_a_diverged_one_refutes_is_diverged_with_it() {
    let (current, diverged) = (MemberStanding::InSync, MemberStanding::Diverged);
    // Member 2 was used with another device in the place of member 1, and left it; then members 1
    // and 3 without it.
    let mut partner = found(4, 6, &[20, 1], &[InSync, InSync, Failed]);
    partner.label.members[0].uuid = Uuid([4; 16]);
    let mut alone = found(2, 7, &[30, 20, 1], &[Failed, InSync, Failed]);
    alone.label.members[0].uuid = Uuid([4; 16]);
    let two = [InSync, Failed, InSync];
    let labels = [found(1, 8, &[40, 1], &two), alone, found(3, 8, &[40, 1], &two), partner];
    let standings = vec![current, diverged, current, diverged];
    assert_eq!(judge_in_any_order(&labels), (standings, ArrayVerdict::Start));
}

#[test]
fn a_side_long_ago_is_not_rebuilt_though_the_member_that_it_left_is_being_rebuilt() {
    let partly = MemberState::Rebuilding { recovered_bytes: 0 };
    let later = much_later(2, &[Failed, InSync, partly]);
    let mut old = found(1, 6, &[20, 1], &[InSync, InSync, Failed]);
    old.label.members[1].uuid = Uuid([4; 16]);
    let expected = (vec![MemberStanding::Diverged, MemberStanding::InSync], ArrayVerdict::Doubtful);
    assert_eq!(judge_in_any_order(&[old, later]), expected);
}

fn with_three_copies(mut label: MemberLabel) -> MemberLabel {
    label.label.array.profile = Profile::Raid1c3;
    label
}

#[test]
fn a_disk_that_left_long_ago_is_older_whatever_the_third_is_now() {
    // Member 3 was out when member 1 left member 2.
    let old = found(1, 6, &[20, 1], &[InSync, InSync, Failed]);
    let partly = MemberState::Rebuilding { recovered_bytes: 0 };
    for third in [Failed, partly] {
        let states = [Failed, InSync, third];
        let labels = [old.clone(), much_later(2, &states), much_later(3, &states)];
        let labels = labels.map(with_three_copies);
        let (standings, verdict) = judge_in_any_order(&labels);
        assert_eq!(standings[..2], [MemberStanding::Stale, MemberStanding::InSync], "{third:?}");
        assert_eq!(verdict, ArrayVerdict::Start);
    }
}

/// While member 1 was rebuilt, an operator failed member 3. Then 1 was replaced, and left often.
#[test]
fn a_member_that_an_operator_failed_long_ago_stays_out_though_a_third_was_replaced() {
    let partly = MemberState::Rebuilding { recovered_bytes: 0 };
    let old = found(3, 5, &[1], &[partly, InSync, InSync]);
    let mut newest = much_later(2, &[Failed, InSync, Failed]);
    newest.label.members[0].uuid = Uuid([4; 16]);
    newest.label.members[2].is_kept_out = true;
    let labels = [newest.clone(), old.clone()].map(with_three_copies);
    let expected = (vec![MemberStanding::InSync, MemberStanding::KeptOut], ArrayVerdict::Start);
    assert_eq!(judge_in_any_order(&labels), expected);
    // It was used alone.
    let alone = found(3, 5, &[1], &[Failed, Failed, InSync]);
    let labels = [newest.clone(), alone].map(with_three_copies);
    assert_eq!(judge_in_any_order(&labels).1, ArrayVerdict::Doubtful);
    // Member 1 was rebuilt then, and 2 failed and was replaced.
    let mut returned = much_later(1, &[InSync, Failed, Failed]);
    returned.label.members[1].uuid = Uuid([4; 16]);
    returned.label.members[2].is_kept_out = true;
    let before = found(3, 5, &[1], &[Failed, InSync, InSync]);
    let labels = [returned, before].map(with_three_copies);
    assert_eq!(judge_in_any_order(&labels), expected);
    // Without the operator it would be rebuilt, though it may have been used without the others.
    newest.label.members[2].is_kept_out = false;
    let labels = [newest, old].map(with_three_copies);
    assert_eq!(judge_in_any_order(&labels).1, ArrayVerdict::Doubtful);
}

/// Members 1 and 3 went on without 2, which later replaced 1, and by which an operator failed 3.
#[test]
fn a_member_that_an_operator_failed_is_of_the_majority_that_went_on_with_it() {
    let mut newest = much_later(2, &[InSync, InSync, Failed]);
    newest.label.members[0].uuid = Uuid([4; 16]);
    newest.label.members[2].is_kept_out = true;
    let replacement = MemberLabel { member: Uuid([4; 16]), ..newest.clone() };
    let apart = [1, 3].map(|member| found(member, 6, &[20, 1], &[InSync, Failed, InSync]));
    let [one, three] = apart;
    let labels = [newest, replacement, one, three].map(with_three_copies);
    assert_eq!(judge_in_any_order(&labels).1, ArrayVerdict::Doubtful);
}

#[test]
fn a_label_refuted_by_one_that_was_never_committed_is_in_the_way_of_nothing() {
    // Announced on member 2 alone, then on member 1 alone; member 3 went on from before both.
    let labels = [
        found(1, 6, &[30, 1], &[InSync, Failed, InSync]),
        found(2, 6, &[20, 1], &[InSync, InSync, Failed]),
        found(3, 7, &[40, 1], &[Failed, Failed, InSync]),
    ];
    let labels = labels.map(with_three_copies);
    let stale = MemberStanding::Stale;
    let expected = (vec![stale, stale, MemberStanding::InSync], ArrayVerdict::Start);
    assert_eq!(judge_in_any_order(&labels), expected);
}

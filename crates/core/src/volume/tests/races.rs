//! Second reads: when they are issued, which answer counts, what happens to the others.

use super::*;

/// Always makes this choice.
pub(super) struct Fixed(pub(super) Choice);

impl ReadPolicy for Fixed {
    fn choose(&mut self, _: &Read, _: &[Mirror], _: &mut Ctx<'_>) -> Choice {
        self.0
    }
}

struct Everything;

impl ReadPolicy for Everything {
    fn choose(&mut self, _: &Read, mirrors: &[Mirror], _: &mut Ctx<'_>) -> Choice {
        Choice::All(MirrorSet::all(mirrors))
    }
}

const AFTER: Nanos = Nanos::from_millis(10);
const HEDGE: Choice = Choice::Hedge { first: 0, backup: 1, after: AFTER };
const TIE: Choice = Choice::Tied { first: 0, second: 1, after: Nanos::ZERO };

/// A volume of two members in which block 0 holds 7; nothing in flight.
fn world(choice: Choice) -> World {
    let mut world = World::new(Profile::Raid1, 2, Box::new(Fixed(choice)));
    world.put(1, 0, 4096, 7);
    world
}

/// Asks for a read of block 0; gives what is handed out at once.
fn ask(world: &mut World, id: u64) -> Vec<MemberIo> {
    world.request(id, RequestKind::Read, 0, 4096);
    world.pump()
}

/// Lets time pass; gives what is handed out then.
fn wait(world: &mut World, time: Nanos) -> Vec<MemberIo> {
    world.now += time;
    world.volume.on_timeout(world.now);
    world.pump()
}

fn answered(world: &mut World, id: u64) {
    assert_eq!(world.reply(), Some((id, Ok(()))));
    assert!(world.buffers[&id].values().all(|&value| value == 7));
    assert_eq!(world.buffers[&id].len(), 8);
}

#[test]
fn a_hedge_reads_once_where_the_first_answers_in_time() {
    let mut world = world(HEDGE);
    let first = ask(&mut world, 2);
    assert_eq!(first.iter().map(|io| io.role).collect::<Vec<_>>(), [ReadRole::First]);
    assert_eq!(world.volume.poll_timeout(), Some(AFTER));
    world.complete(first[0]);
    answered(&mut world, 2);
    assert_eq!(world.volume.poll_timeout(), None, "no timer is left");
    assert!(wait(&mut world, AFTER).is_empty());
}

#[test]
fn a_hedge_reads_again_after_its_time_and_the_first_answer_counts() {
    let mut world = world(HEDGE);
    let first = ask(&mut world, 2)[0];
    assert!(wait(&mut world, AFTER - Nanos(1)).is_empty(), "not yet");
    let second = wait(&mut world, Nanos(1))[0];
    assert_eq!((second.role, second.length), (ReadRole::Extra, first.length));
    assert_ne!(second.member, first.member);
    assert!(!world.complete(second).superseded);
    answered(&mut world, 2);
    assert_eq!(world.volume.poll_cancel().map(|io| io.id), Some(first.id));
    assert_eq!(world.volume.poll_cancel(), None);
    assert!(world.volume.is_idle(), "no request waits for the superseded read");
    assert_eq!(world.volume.members()[first.member].reads_in_flight, 1, "but it is accounted");
    // The executor did not cancel it in time: it ends normally.
    let outcome = world.complete(first);
    assert!(outcome.superseded && outcome.result.is_ok());
    assert_eq!(world.reply(), None);
}

#[test]
fn a_cancelled_read_is_not_counted() {
    let mut world = world(HEDGE);
    let first = ask(&mut world, 2)[0];
    let second = wait(&mut world, AFTER)[0];
    world.complete(second);
    let named = world.volume.poll_cancel().unwrap();
    world.cancel(named);
    let member = &world.volume.members()[first.member];
    assert_eq!((member.in_flight(), member.errors, member.reads_completed), (0, 0, 0));
    assert_eq!(world.volume.poll_timeout(), None, "it is in no back-off");
}

#[test]
fn a_read_that_ended_is_not_named_for_cancelling() {
    let mut world = world(HEDGE);
    let first = ask(&mut world, 2)[0];
    let second = wait(&mut world, AFTER)[0];
    world.complete(second);
    world.complete(first);
    assert_eq!(world.volume.poll_cancel(), None);
}

#[test]
fn a_failed_first_read_is_repaired_with_data_read_under_the_lock() {
    let mut world = world(HEDGE);
    let first = ask(&mut world, 2)[0];
    let second = wait(&mut world, AFTER)[0];
    world.bad.push((first.member.0, first.offset / BLOCK));
    world.complete(first);
    assert_eq!((world.reply(), world.pump().len()), (None, 0), "the other is in flight");
    world.complete(second);
    assert_eq!(world.reply(), None);
    let again = world.pump();
    assert_eq!(
        (again[0].op, again[0].role, again[0].member),
        (Op::Read, ReadRole::Only, second.member)
    );
    world.complete(again[0]);
    let repair = world.pump();
    assert_eq!((repair[0].op, repair[0].member), (Op::Write, first.member));
    world.complete(repair[0]);
    world.settle();
    answered(&mut world, 2);
    assert!(world.bad.is_empty());
}

#[test]
fn a_first_read_that_fails_early_is_retried_at_once_and_once() {
    let mut world = world(HEDGE);
    let first = ask(&mut world, 2)[0];
    world.bad.push((first.member.0, first.offset / BLOCK));
    world.complete(first);
    let retry = world.pump();
    assert_eq!((retry.len(), retry[0].role), (1, ReadRole::Only));
    assert!(wait(&mut world, AFTER).is_empty(), "the hedge is over");
    world.complete(retry[0]);
    world.settle();
    answered(&mut world, 2);
}

#[test]
fn a_second_read_does_not_go_to_a_member_that_failed_meanwhile() {
    let mut world = world(HEDGE);
    let first = ask(&mut world, 2)[0];
    world.volume.set_member_state(MemberIndex(1 - first.member.0), MemberState::Failed);
    assert!(wait(&mut world, AFTER).is_empty());
    world.complete(first);
    answered(&mut world, 2);
}

#[test]
fn everything_is_read_and_nothing_cancelled_if_all_is_chosen() {
    let mut world = World::new(Profile::Raid1c3, 3, Box::new(Everything));
    world.put(1, 0, 4096, 7);
    let reads = ask(&mut world, 2);
    let roles: Vec<ReadRole> = reads.iter().map(|io| io.role).collect();
    assert_eq!(roles, [ReadRole::First, ReadRole::Extra, ReadRole::Extra]);
    assert!(!world.complete(reads[1]).superseded);
    answered(&mut world, 2);
    assert_eq!(world.volume.poll_cancel(), None);
    assert!(world.complete(reads[0]).superseded && world.complete(reads[2]).superseded);
    assert!(world.volume.is_idle());
}

/// The medium of one mirror fails, and the other, which has answered, fails when it is read again.
#[test]
fn an_answer_counts_though_the_repair_fails() {
    for good in [0, 1] {
        let mut world = World::new(Profile::Raid1, 2, Box::new(Everything));
        world.put(1, 0, 4096, 7);
        let reads = ask(&mut world, 2);
        world.bad.push((reads[1 - good].member.0, reads[1 - good].offset / BLOCK));
        world.complete(reads[1 - good]);
        world.complete(reads[good]);
        assert_eq!(world.reply(), None, "it is read again, to repair the other");
        world.bad.push((reads[good].member.0, reads[good].offset / BLOCK));
        world.settle();
        answered(&mut world, 2);
        assert!(world.volume.is_idle());
    }
}

#[test]
fn a_tie_on_an_idle_member_reads_once() {
    let mut world = world(TIE);
    let reads = ask(&mut world, 2);
    assert_eq!(reads.len(), 1);
    world.complete(reads[0]);
    answered(&mut world, 2);
}

#[test]
fn a_tie_of_a_busy_and_an_idle_member_goes_to_the_idle_one() {
    let mut world = world(TIE);
    ask(&mut world, 2);
    let [first, second] = ask(&mut world, 3)[..] else { panic!("one read each") };
    assert_eq!((first.role, second.role), (ReadRole::First, ReadRole::Extra));
    assert_eq!(world.volume.poll_cancel().map(|io| io.id), Some(first.id));
    world.cancel(first);
    assert_eq!(world.reply(), None, "the other is in flight");
    world.complete(second);
    answered(&mut world, 3);
}

/// One read in flight on each member, and a third request tied behind both.
fn tied_behind_both() -> (World, [MemberIo; 2], [MemberIo; 2]) {
    let mut world = world(TIE);
    let first_ahead = ask(&mut world, 2)[0];
    let [withdrawn, second_ahead] = ask(&mut world, 3)[..] else { panic!("one read each") };
    world.volume.poll_cancel();
    world.cancel(withdrawn);
    let [first, second] = ask(&mut world, 4)[..] else { panic!("one read each") };
    assert_eq!(world.volume.poll_cancel(), None, "neither is next on its member");
    (world, [first_ahead, second_ahead], [first, second])
}

#[test]
fn a_tie_goes_to_the_member_where_the_read_is_next_first() {
    for winner in [0, 1] {
        let (mut world, ahead, tied) = tied_behind_both();
        world.complete(ahead[winner]);
        assert_eq!(world.volume.poll_cancel().map(|io| io.id), Some(tied[1 - winner].id));
        world.cancel(tied[1 - winner]);
        world.complete(tied[winner]);
        assert_eq!(world.reply(), Some((2 + winner as u64, Ok(()))));
        answered(&mut world, 4);
    }
}

#[test]
fn a_tied_read_that_could_not_be_cancelled_may_still_answer_first() {
    let (mut world, ahead, [first, second]) = tied_behind_both();
    world.complete(ahead[0]);
    assert_eq!(world.volume.poll_cancel().map(|io| io.id), Some(second.id));
    assert!(!world.complete(second).superseded, "its member took it out of order");
    world.reply();
    answered(&mut world, 4);
    assert_eq!(world.volume.poll_cancel().map(|io| io.id), Some(first.id));
    assert!(world.complete(first).superseded);
}

#[test]
fn a_tied_read_whose_member_fails_is_read_from_the_other_though_that_was_withdrawn() {
    let (mut world, ahead, [first, second]) = tied_behind_both();
    world.complete(ahead[0]);
    world.volume.poll_cancel();
    world.cancel(second);
    world.bad.push((first.member.0, first.offset / BLOCK));
    world.complete(first);
    world.reply();
    world.settle();
    answered(&mut world, 4);
}

#[test]
fn histories_of_ties_end_with_every_request_answered_once() {
    let mut world = world(TIE);
    for id in 2..40 {
        world.request(id, RequestKind::Read, 0, 4096);
    }
    let mut flying = world.pump();
    let (mut answered, mut cancelled) = (0, 0);
    while !flying.is_empty() {
        world.complete(flying.remove(flying.len() / 3));
        while let Some(io) = world.volume.poll_cancel() {
            flying.retain(|other| other.id != io.id);
            world.cancel(io);
            cancelled += 1;
        }
        flying.extend(world.pump());
        while let Some((_, result)) = world.reply() {
            assert_eq!(result, Ok(()));
            answered += 1;
        }
    }
    assert_eq!(answered, 38);
    assert!(cancelled >= 30, "{cancelled}");
    assert!(world.volume.is_idle());
}

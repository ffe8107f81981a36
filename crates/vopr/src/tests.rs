//! A few seeds of each kind, the canary (disks that break the promise on which all depends), and
//! histories with one end.

use super::*;
use history::{Damage, DiskFault, End, ExtraFaults};
use mirrorball_core::geometry::Profile;
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::units::Nanos;
use mirrorball_store::REGION_BYTES;

const OPERATIONS: usize = 100;

fn run_seeds_from(seed: u64, seeds: u64) -> Tally {
    let args = VoprArgs { seeds, seed, operations: OPERATIONS, small: None, lying_flush: false };
    run_seeds(&args).unwrap_or_else(|failure| panic!("{failure}"))
}

#[test]
fn histories_break_no_rule() {
    let tally = run_seeds_from(1, 40);
    assert!(tally.power_cuts > 20 && tally.kills > 20 && tally.failures > 10, "{tally:?}");
    assert!(tally.damages > 5 && tally.refusals > 5, "{tally:?}");
    assert!(tally.recoveries_cut > 20 && tally.spares_used > 0, "{tally:?}");
    assert_eq!(run_seeds_from(1, 3), run_seeds_from(1, 3), "a seed always gives the same run");
}

/// Seeds that broke a rule which does not hold: a crash on top of a damaged label takes the label
/// of a member, and a rebuild leaves out a block that its source cannot give.
#[test]
fn seeds_whose_rules_were_corrected_break_none() {
    for seed in [5_001_232, 5_001_841, 5_006_895, 5_008_394] {
        let shape = HistoryShape::of(seed, Promises::Kept);
        run_seed(shape, 200).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn small_workloads_survive_a_power_cut_at_every_turn() {
    let tally = small::run_all(1).unwrap_or_else(|failure| panic!("{failure}"));
    assert!(tally.power_cuts > 50, "{tally:?}");
}

#[test]
fn a_lying_flush_is_found_and_its_history_reduced() {
    let run = |seed| run_seed(HistoryShape::of(seed, Promises::FlushLies), OPERATIONS).err();
    let failure = (0..50).find_map(run).expect("a volume on such disks loses data");
    assert!(failure.history.len() < OPERATIONS / 2, "{failure}");
    let text = failure.to_string();
    assert!(text.contains(" over ") && text.contains("--lying-flush"), "{text}");
}

/// Three local disks as raid1c3 with several regions, and no faults but those of the test.
fn machine() -> Machine {
    machine_with(None)
}

fn machine_with(remote: Option<usize>) -> Machine {
    let shape = HistoryShape {
        seed: 1,
        promises: Promises::Kept,
        profile: Profile::Raid1c3,
        members: 3,
        member_bytes: 37 << 20,
        has_checksums: false,
        spares: 0,
        remote,
        extra: ExtraFaults::None,
        bad_row: 0,
    };
    let mut machine = Machine::new(shape).unwrap();
    machine.start(0).unwrap();
    machine
}

fn perform(machine: &mut Machine, operations: &[HistoryStep]) {
    for &operation in operations {
        machine.perform(operation).unwrap();
        machine.settle().unwrap();
    }
}

const WRITE: HistoryStep = HistoryStep::Write { block: 0 };
/// Longer than a region stays in the dirty log.
const WAIT: HistoryStep = HistoryStep::Wait { millis: 20_000 };
const CUT: HistoryStep = HistoryStep::Restart { end: End::PowerCut, mends: false, without: 0 };

#[test]
fn a_rebuild_goes_on_after_a_power_cut() {
    let mut machine = machine();
    let gone = HistoryStep::Fault { member: 1, fault: DiskFault::Gone };
    perform(&mut machine, &[gone, WRITE, WAIT, HistoryStep::Replace { member: 1 }]);
    let is_under_way = |machine: &Machine| match machine.state(1) {
        Some(MemberState::Rebuilding { recovered_bytes }) => recovered_bytes > 8 << 20,
        _ => false,
    };
    let limits = (Nanos::from_millis(1), Nanos::from_secs(60));
    machine.turn_until("no rebuild", limits, is_under_way).unwrap();
    perform(&mut machine, &[HistoryStep::Flush, WAIT, CUT]);
    assert!(machine.state(1) == Some(MemberState::InSync) || is_under_way(&machine));
    machine.recover().unwrap();
}

#[test]
fn a_snapshot_that_is_put_back_after_a_crash_is_noticed() {
    let mut machine = machine();
    let snapshot = HistoryStep::Snapshot { member: 1 };
    perform(&mut machine, &[WRITE, WAIT, snapshot, WRITE, WAIT, WRITE, WAIT]);
    perform(&mut machine, &[HistoryStep::RestoreSnapshot { end: End::PowerCut }]);
    assert_eq!((machine.tally.refusals, machine.tally.unnoticed), (1, 0));
}

#[test]
fn a_member_that_returns_lacks_only_some_regions() {
    let mut machine = machine();
    let gone = HistoryStep::Fault { member: 1, fault: DiskFault::Gone };
    perform(&mut machine, &[WRITE, WAIT, gone, WRITE, WAIT, HistoryStep::Mend { member: 1 }, CUT]);
    let served = machine.served.as_ref().unwrap();
    assert!(served.store().is_catching_up(MemberIndex(1)));
}

/// No write to the block was in flight: only the repair says that the member lacks something.
#[test]
fn a_member_that_returns_gets_what_a_scrub_repaired_without_it() {
    let mut machine = machine();
    let damage = HistoryStep::Damage(Damage::Data { block: 11 });
    let gone = HistoryStep::Fault { member: 2, fault: DiskFault::Gone };
    perform(&mut machine, &[WRITE, WAIT, damage, gone, WRITE, WAIT]);
    // From the member with the damage, so that the one that is gone differs from the others.
    assert_eq!(machine.scrub_to_end(true, Some(1)).unwrap().repaired_blocks, 1);
    let stop = HistoryStep::Restart { end: End::Stop, mends: true, without: 0 };
    perform(&mut machine, &[WAIT, stop]);
    let store = machine.served.as_ref().unwrap().store();
    assert!(store.is_catching_up(MemberIndex(2)) || machine.is_well());
    machine.recover().unwrap();
    machine.end(End::Stop).unwrap();
    machine.compare(&[]).unwrap();
}

#[test]
fn halves_that_were_written_to_alone_do_not_start_together() {
    for first in [0b001, 0b110] {
        let mut machine = machine();
        perform(&mut machine, &[WRITE, HistoryStep::Halves { end: End::Stop, first }, WRITE]);
        assert_eq!(machine.tally.divergences, 1);
        machine.recover().unwrap();
    }
}

/// The member in sync is a server that may have lost writes: only a start reads it again.
#[test]
fn halves_start_after_the_last_copy_broke_its_connection() {
    let mut machine = machine_with(Some(1));
    let gone = |member| HistoryStep::Fault { member, fault: DiskFault::Gone };
    let mend = HistoryStep::Mend { member: 1 };
    let halves = HistoryStep::Halves { end: End::Stop, first: 0b001 };
    perform(&mut machine, &[gone(0), gone(2), WRITE, gone(1), mend, halves]);
    machine.recover().unwrap();
    assert_eq!(machine.tally.divergences, 1);
}

#[test]
fn a_stop_before_the_resync_does_not_widen_it() {
    let mut machine = machine();
    perform(&mut machine, &[WRITE, CUT]);
    assert_eq!(machine.unsynced_bytes(), REGION_BYTES);
    perform(&mut machine, &[HistoryStep::Restart { end: End::Stop, mends: false, without: 0 }]);
    assert!(machine.unsynced_bytes() <= REGION_BYTES);
}

//! Power cuts: labelled volumes on disks that lose what was not flushed, at every point of small
//! workloads.
//!
//! A disk keeps what was flushed. Of the rest, completed or in flight, any subset of sectors
//! survives a cut. Afterwards the volume is assembled from all members or some of them, as a
//! service does it. A model of the acknowledged data says what each block may hold; a block must
//! also read the same from then on, whichever mirror a policy chooses.

mod disk;
mod machine;

use super::*;
use crate::dirty_log::IDLE_PERIOD;
use crate::label::assembly::{ArrayVerdict, MemberStanding};
use disk::{Disk, SECTOR};
use machine::{CELLS, Cell, Machine, Operation, assembled, found, new_disks, sectors_of};

/// A volume that starts from all members.
fn start(disks: Vec<Disk>, cells: Vec<Cell>, seed: u64) -> Machine {
    let started = Machine::start(disks, &[0, 1, 2], cells, seed);
    started.unwrap_or_else(|_| panic!("all members are there"))
}

fn new_machine() -> Machine {
    start(new_disks(), new_cells(), 1)
}

fn new_cells() -> Vec<Cell> {
    vec![Cell { values: vec![0], acknowledged: 0 }; CELLS.len()]
}

/// Runs operations until `cut_after` ends of I/O have happened, or to the end; returns whether it
/// was cut. Operations overlap if `is_concurrent`.
fn run(
    machine: &mut Machine,
    operations: &[Operation],
    is_concurrent: bool,
    cut_after: usize,
    rng: &mut Rng,
) -> bool {
    let mut operations = operations.iter();
    for _ in 0..cut_after {
        if machine.queue.is_empty() || is_concurrent {
            if let Some(&operation) = operations.next() {
                machine.begin(operation);
            } else if machine.queue.is_empty() {
                return false;
            }
        }
        let pick = if is_concurrent { rng.below(64) as usize } else { 0 };
        machine.step(pick);
    }
    true
}

/// Cuts the power, and returns the disks and the model.
fn cut(machine: Machine, mut survives: impl FnMut(usize) -> bool) -> (Vec<Disk>, Vec<Cell>) {
    let Machine { mut disks, mut cells, .. } = machine;
    // Only what was flushed is certain from here on.
    cells.iter_mut().for_each(|cell| cell.acknowledged = cell.values[0]);
    for (index, disk) in disks.iter_mut().enumerate() {
        disk.cut(|| survives(index));
    }
    (disks, cells)
}

const ALPHABET: [Operation; 7] = [
    Operation::Write { cell: 0, count: 1 },
    Operation::Write { cell: 0, count: 2 },
    Operation::Write { cell: 2, count: 1 },
    Operation::Flush,
    Operation::Lose(1),
    Operation::Return(1),
    Operation::Copy,
];

/// Every workload of `length` operations, cut after every end of I/O, with four ways to lose data.
fn enumerate(length: u32) -> u64 {
    let mut cuts = 0;
    for number in 0..ALPHABET.len().pow(length) {
        let digit = |place: u32| ALPHABET[number / ALPHABET.len().pow(place) % ALPHABET.len()];
        let operations: Vec<Operation> = (0..length).map(digit).collect();
        for (is_concurrent, mode) in [(false, 0), (true, 1), (false, 2), (true, 3)] {
            for cut_after in 0.. {
                let rng = &mut Rng::new(cut_after as u64 + number as u64);
                let mut machine = new_machine();
                let was_cut = run(&mut machine, &operations, is_concurrent, cut_after, rng);
                let (disks, cells) = cut(machine, |disk| match mode {
                    0 => false,
                    1 => true,
                    2 => disk == 0,
                    _ => rng.below(2) == 0,
                });
                cuts += 1;
                let mut machine = start(disks, cells, 2);
                machine.check_reads(rng);
                machine.stop(rng);
                if !was_cut {
                    break;
                }
            }
        }
    }
    cuts
}

/// All workloads of up to two operations; `POWER_CUT_LENGTH=4` runs those of up to four.
#[test]
fn every_small_workload_survives_every_power_cut() {
    let longest = std::env::var("POWER_CUT_LENGTH").map_or(2, |length| length.parse().unwrap());
    let cuts: Vec<u64> = (1..=longest).map(enumerate).collect();
    println!("power cuts for workloads of each length: {cuts:?}");
    assert!(cuts[0] > 100 && cuts[1] > 2000, "{cuts:?}");
}

/// Several runs on the same disks, each from some of the members, each cut somewhere. With
/// `has_returns`, members that failed return in the same run, and time passes.
fn soak(seed: u64, has_returns: bool) {
    let rng = &mut Rng::new(seed);
    let (mut disks, mut cells) = (new_disks(), new_cells());
    for round in 0..5 {
        let present: Vec<usize> = match rng.below(3) {
            0 => (0..3).filter(|_| rng.below(3) > 0).collect(),
            _ => vec![0, 1, 2],
        };
        if present.is_empty() {
            continue;
        }
        let mut machine = match Machine::start(disks, &present, cells, seed * 8 + round) {
            Ok(machine) => machine,
            Err((same, model)) => {
                (disks, cells) = (same, model);
                continue;
            }
        };
        machine.check_reads(rng);
        let operation = |rng: &mut Rng| match rng.below(12) {
            0..5 => {
                let cell = rng.below(4) as usize;
                Operation::Write { cell, count: if cell == 0 { 1 + rng.below(2) } else { 1 } }
            }
            5..7 => Operation::Flush,
            7 => Operation::Lose(rng.below(3) as usize),
            8 if has_returns => Operation::Return(rng.below(3) as usize),
            9 if has_returns => Operation::Wait,
            _ => Operation::Copy,
        };
        let operations: Vec<Operation> = (0..rng.below(20)).map(|_| operation(rng)).collect();
        let cut_after = rng.below(300) as usize;
        let was_cut = run(&mut machine, &operations, rng.below(4) > 0, cut_after, rng);
        if was_cut || rng.below(2) == 0 {
            let odds = rng.below(4);
            (disks, cells) = cut(machine, |_| rng.below(4) < odds);
        } else {
            machine.settle(rng);
            (disks, cells) = machine.stop(rng);
            disks.iter_mut().for_each(|disk| disk.is_gone = false);
        }
    }
}

#[test]
fn random_workloads_survive_power_cuts_and_missing_members() {
    let seeds = std::env::var("POWER_CUT_SEEDS").unwrap_or_else(|_| "400".to_owned());
    let (first, end) = seeds.split_once("..").unwrap_or(("0", &seeds));
    for seed in first.parse().unwrap()..end.parse().unwrap() {
        // The seed of a failure is in its output.
        eprintln!("seed {seed}");
        soak(seed, false);
        soak(seed, true);
    }
}

#[test]
fn two_announcements_of_one_generation_are_no_divergence() {
    // Members 1 and 3 announced that member 2 failed, on member 1 only, which was being rebuilt.
    // Members 2 and 3 went on, and announced that member 3 failed, on member 2.
    soak(12_922, false);
}

#[test]
fn a_member_that_returns_has_a_label_after_every_power_cut() {
    for cut_after in 0.. {
        // Its newest label is in the second slot, and the first one is damaged.
        let mut disks = new_disks();
        let [first, second] = LABEL_SLOTS.map(|offset| offset / SECTOR);
        let label = found(&disks, &[1]).remove(0).newest.found;
        let bytes = label.label.encode(label.member, LABEL_SLOTS[1]);
        disks[1].durable.remove(&first);
        disks[1].durable.extend(sectors_of(LABEL_SLOTS[1], &bytes));
        assert!(disks[1].durable.contains_key(&second));
        let rng = &mut Rng::new(cut_after as u64);
        let machine = Machine::start(disks, &[0, 2], new_cells(), 1);
        let mut machine = machine.unwrap_or_else(|_| panic!("two of three members start"));
        let operations = [Operation::Return(1), Operation::Write { cell: 0, count: 1 }];
        let was_cut = run(&mut machine, &operations, false, cut_after, rng);
        let (disks, _) = cut(machine, |_| rng.below(2) == 0);
        assert_eq!(found(&disks, &[1]).len(), 1, "a label survives");
        if !was_cut {
            break;
        }
    }
}

#[test]
fn a_member_that_returns_may_have_a_label_of_the_next_generation() {
    soak(24_321, true);
}

#[test]
fn a_rebuild_goes_on_after_a_power_cut() {
    let rng = &mut Rng::new(1);
    let mut machine = new_machine();
    machine.begin(Operation::Lose(1));
    for operation in [
        Operation::Write { cell: 0, count: 1 },
        Operation::Write { cell: 3, count: 1 },
        Operation::Return(1),
        Operation::Copy,
        Operation::Copy,
        Operation::Flush,
    ] {
        machine.begin(operation);
        machine.settle(rng);
    }
    let (disks, cells) = cut(machine, |_| false);
    let MemberStanding::Rebuilding { recovered_bytes } =
        assembled(&disks, &[0, 1, 2]).0.standings[1]
    else {
        panic!("{:?}", assembled(&disks, &[0, 1, 2]).0.standings)
    };
    assert_eq!(recovered_bytes, 6 * MIB, "two steps are durable");
    // Without it, the others go on; then what it has is of no worth.
    let machine = Machine::start(disks, &[0, 2], cells, 2);
    let mut machine = machine.unwrap_or_else(|_| panic!("two of three members start"));
    machine.begin(Operation::Write { cell: 0, count: 1 });
    machine.settle(rng);
    let (disks, cells) = cut(machine, |_| false);
    assert_eq!(assembled(&disks, &[0, 1, 2]).0.standings[1], MemberStanding::Stale);
    let mut machine = start(disks, cells, 3);
    machine.check_reads(rng);
    machine.stop(rng);
}

#[test]
fn a_snapshot_that_is_put_back_after_a_crash_is_noticed() {
    let rng = &mut Rng::new(1);
    let mut machine = new_machine();
    let mut write = |machine: &mut Machine| {
        machine.begin(Operation::Write { cell: 0, count: 1 });
        machine.settle(rng);
        machine.begin(Operation::Wait);
        machine.settle(rng);
    };
    write(&mut machine);
    let snapshot = machine.disks[1].now();
    // All writes are to one region, so no region is new.
    write(&mut machine);
    write(&mut machine);
    let (mut disks, _) = cut(machine, |_| true);
    assert_eq!(assembled(&disks, &[0, 1, 2]).2, ArrayVerdict::Start);
    disks[1].durable = snapshot;
    let (assembly, _, verdict) = assembled(&disks, &[0, 1, 2]);
    assert_eq!(assembly.standings[1], MemberStanding::OldCopy);
    assert_eq!(verdict, ArrayVerdict::Doubtful);
}

#[test]
fn a_member_that_returns_lacks_only_some_regions_unless_it_is_an_older_copy() {
    for is_older in [false, true] {
        let rng = &mut Rng::new(1);
        let mut machine = new_machine();
        let mut write = |machine: &mut Machine| {
            machine.begin(Operation::Write { cell: 0, count: 1 });
            machine.settle(rng);
            machine.begin(Operation::Wait);
            machine.settle(rng);
        };
        write(&mut machine);
        let snapshot = machine.disks[1].now();
        (0..3).for_each(|_| write(&mut machine));
        machine.begin(Operation::Lose(1));
        write(&mut machine);
        if is_older {
            machine.disks[1].durable = snapshot;
            machine.disks[1].cache.clear();
        }
        machine.begin(Operation::Return(1));
        assert_eq!(store(&machine.volume).is_catching_up(MemberIndex(1)), !is_older);
        // The same after a restart.
        if !is_older {
            let (mut disks, cells) = cut(machine, |_| false);
            disks[1].is_gone = false;
            let machine = start(disks, cells, 2);
            assert!(store(&machine.volume).is_catching_up(MemberIndex(1)));
        }
    }
}

#[test]
fn a_stop_before_the_resync_does_not_widen_it() {
    let rng = &mut Rng::new(1);
    let mut machine = new_machine();
    machine.begin(Operation::Write { cell: 0, count: 1 });
    machine.settle(rng);
    let (disks, cells) = cut(machine, |_| true);
    let mut machine = start(disks, cells, 2);
    assert_eq!(store(&machine.volume).unsynced_bytes(), REGION_BYTES);
    command(&mut machine.volume, StoreGate::record_stop);
    machine.issue();
    machine.settle(rng);
    assert!(store(&machine.volume).is_recorded());
    let (disks, cells) = cut(machine, |_| true);
    let machine = start(disks, cells, 3);
    assert_eq!(store(&machine.volume).unsynced_bytes(), REGION_BYTES);
    machine.stop(rng);
}

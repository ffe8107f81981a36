//! Effect of programs, suspension and collection on reads.

use super::*;

/// Waits of reads at depth one during writes that fill a unit every `interval_ns`.
fn reads_among_writes(parameters: &SsdParameters, interval_ns: u64) -> Run {
    let mut model = Ssd::new(parameters, 1);
    let mut rng = Rng::new(2);
    let mut waits_ns = Vec::new();
    let mut ended = Vec::new();
    let mut now = 0;
    for turn in 1..=20_000 {
        // Writes on odd blocks are never sequential.
        for part in 0..4 {
            let block = rng.below(1 << 20) * 2 + 1;
            model.submit(Nanos(now), write(part, block * 4_096, 4_096));
        }
        let submitted = now + 30_000 + rng.below(interval_ns / 4);
        model.submit(Nanos(submitted), read(9, rng.below(1 << 18) * 4_096, 4_096));
        now = turn * interval_ns;
        ended.clear();
        model.advance(Nanos(now), &mut ended);
        let end = ended.iter().find(|end| end.tag == 9).expect("the interval is long enough");
        waits_ns.push(end.at.0 - submitted);
    }
    Run { waits_ns, end_ns: now }
}

const READ_NS: u64 = 50_000 + 4_096 + 10_000 + 6_096;

#[test]
fn a_read_waits_for_the_program_on_its_die() {
    let suspending = SsdParameters { suspend: Some(Nanos(20_000)), ..plain() };
    let refusing = SsdParameters { suspend_refused: 1.0, ..suspending.clone() };
    for (parameters, expected) in
        [(plain(), 300_000), (suspending.clone(), 20_000), (refusing, 300_000)]
    {
        let mut model = Ssd::new(&parameters, 1);
        alone(&mut model, 0, write(0, 0, 16_384));
        // The program began at once; 100 us later the read of every die is tried on a copy.
        let waits: Vec<u64> = (0..8)
            .map(|die| {
                let io = read(0, die * 16_384, 4_096);
                model.completion_if_submitted(Nanos(100_000), io).0 - 100_000
            })
            .collect();
        assert_eq!(waits.iter().filter(|&&wait| wait == READ_NS).count(), 7, "{waits:?}");
        assert_eq!(*waits.iter().max().unwrap(), READ_NS + expected);
        let die = waits.iter().position(|&wait| wait != READ_NS).unwrap() as u64;
        // What is left of the program is less than a suspension takes.
        let io = read(0, die * 16_384, 4_096);
        assert_eq!(model.completion_if_submitted(Nanos(390_000), io).0, 400_000 + READ_NS);
        assert_eq!(model.completion_if_submitted(Nanos(400_000), io).0, 400_000 + READ_NS);
    }
    // A second read joins the first; the program ends later by both and the suspension.
    let mut model = Ssd::new(&suspending, 1);
    alone(&mut model, 0, write(0, 0, 16_384));
    let busy = (0..8).find(|die| {
        let io = read(0, die * 16_384, 4_096);
        model.completion_if_submitted(Nanos(100_000), io).0 > 100_000 + READ_NS
    });
    let offset = busy.unwrap() * 16_384;
    let first = alone(&mut model.clone(), 100_000, read(0, offset, 4_096));
    model.submit(Nanos(100_000), read(0, offset, 4_096));
    model.submit(Nanos(110_000), read(1, offset, 4_096));
    let ended = drain(&mut model);
    assert_eq!((ended[0].at.0, ended[1].at.0), (100_000 + first, 100_000 + first + 54_096));
    let last = model.completion_if_submitted(Nanos(520_000), read(0, offset, 4_096)).0;
    assert_eq!(last, 400_000 + 20_000 + 2 * 54_096 + READ_NS, "too near the end to suspend");
}

#[test]
fn programs_that_refuse_suspension_are_as_frequent_as_stated() {
    let parameters =
        SsdParameters { suspend: Some(Nanos(1_000)), suspend_refused: 0.3, dies: 1, ..plain() };
    let mut model = Ssd::new(&parameters, 1);
    let long = (0..4_000u64).filter(|n| {
        let now = n * 1_000_000;
        model.submit(Nanos(now), write(0, 0, 16_384));
        model.submit(Nanos(now + 50_000), read(1, 0, 4_096));
        let ended = drain(&mut model);
        ended.iter().find(|end| end.tag == 1).unwrap().at.0 - now - 50_000 > READ_NS + 1_000
    });
    assert_near(long.count() as f64, 1_200.0, 0.08);
}

/// One program of 400 us a millisecond on eight dies: a read finds one with probability 1/20, and
/// waits 200 us for it in the mean.
#[test]
fn reads_among_writes_wait_as_long_as_programs_hold_dies() {
    let idle = closed_loop(&mut Ssd::new(&plain(), 1), 1, 1_000, random_reads(1));
    assert_eq!(idle.mean_ns(), READ_NS as f64);
    let run = reads_among_writes(&plain(), 1_000_000);
    // Reads come within the first 280 us after the program began: 265 us are left in the mean.
    assert_near(run.mean_ns() - READ_NS as f64, (400_000.0 - 155_000.0) / 8.0, 0.06);
}

#[test]
fn collection_makes_the_tail_heavier_than_its_share_of_the_mean() {
    let quiet = reads_among_writes(&plain(), 1_000_000);
    let collecting = SsdParameters {
        write_amplification: 4.0,
        copy_read: Nanos(80_000),
        erase: Nanos(3_000_000),
        collection_burst: 16,
        ..plain()
    };
    let busy = reads_among_writes(&collecting, 4_000_000);
    let quiet_tail = quiet.quantile_ns(0.999);
    let busy_tail = busy.quantile_ns(0.999);
    assert!(quiet_tail <= 400_000 + READ_NS, "{quiet_tail}");
    assert!(busy_tail > 4 * quiet_tail, "{quiet_tail} -> {busy_tail}");
    // The host's program runs for the first 400 of 4000 us and the read comes at 30 to 1030 us.
    // Per unit written, three copies of 480 us and 3/16 erases of 3 ms, over 4 ms and 8 dies.
    let waiting = busy.waits_ns.iter().filter(|&&wait| wait > READ_NS).count() as f64;
    let host = 370.0 / 1_000.0 / 8.0;
    let collection = 3.0 * (480.0 + 3_000.0 / 16.0) / 4_000.0 / 8.0;
    assert_near(waiting / busy.waits_ns.len() as f64, host + collection, 0.12);
}

#[test]
fn host_programs_come_before_copies_and_reads_before_both() {
    let timing = die::DieTiming {
        program_ns: 400,
        slc_program_ns: 0,
        copy_read_ns: 50,
        erase_ns: 3_000,
        suspend_ns: None,
        suspend_refused: 0,
    };
    let mut die = die::Die::new(1);
    die.add_collection(0, 2, &timing);
    die.add_program(10, &timing);
    die.add_program(20, &timing);
    // The copy begun at 0 is finished, then both programs run.
    assert_eq!(die.programmed_at(20, &timing), 50 + 400 + 800);
    // A read at 60 waits for the copy's program; the host's first program comes after it.
    assert_eq!(die.read(60, 100, &timing).end, 450 + 100);
    assert_eq!(die.programmed_at(60, &timing), 550 + 800);
    // At 1400 the second copy is being read (from 1350 on), to 1400; the read goes before its
    // program, which ends at 1910; the erase follows.
    assert_eq!(die.read(1_400, 110, &timing).end, 1_510);
    assert_eq!(die.read(1_600, 100, &timing).end, 1_910 + 100);
    assert_eq!(die.read(2_100, 100, &timing).end, 2_010 + 3_000 + 100);
    assert_eq!(die.read(9_000, 100, &timing).end, 9_100, "all done");
}

#[test]
fn erases_can_be_suspended_and_the_reading_of_copies_cannot() {
    let timing = die::DieTiming {
        program_ns: 400,
        slc_program_ns: 0,
        copy_read_ns: 300,
        erase_ns: 3_000,
        suspend_ns: Some(20),
        suspend_refused: 0,
    };
    let mut die = die::Die::new(1);
    die.add_collection(0, 1, &timing);
    assert_eq!(die.read(100, 10, &timing).end, 300 + 10, "the copy is being read");
    assert_eq!(die.read(400, 10, &timing).end, 420 + 10, "the copy is being programmed");
    // Programmed from 310 to 710, and 30 later for the read; then the erase.
    assert_eq!(die.read(739, 10, &timing).end, 740 + 10, "almost programmed");
    assert_eq!(die.read(1_000, 10, &timing).end, 1_020 + 10, "the block is being erased");
    assert_eq!(die.read(3_770, 10, &timing).end, 3_780 + 10, "almost erased");
}

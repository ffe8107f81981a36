//! The journal alone, without a volume.

use super::*;
use crate::geometry::{ChunkMap, Profile};
use crate::member::MemberConfig;
use crate::slab::SlabKey;

fn stripe() -> FullStripe {
    let members = [1, 2, 3].map(|devid| MemberConfig::new(devid, 64 << 20));
    let map = ChunkMap::allocate(Profile::Raid5, None, &members).unwrap();
    map.full_stripe(0).unwrap()
}

fn checkpoint(journal: &Journal) -> (u64, u64) {
    let CheckpointWrite { sequence, oldest, .. } = *journal.checkpoint();
    (sequence, oldest)
}

#[test]
fn entries_leave_after_a_flush_and_a_checkpoint_waits_for_older_ones_and_a_slot() {
    let torn = TornRows::default();
    let mut journal = Journal::new(vec![0; 3], 100, false);
    let flushed = |journal: &mut Journal, is_good| {
        let is_started = journal.start_flush(2, &torn);
        let is_over = is_started && !journal.on_flushed(is_good) && journal.on_flushed(true);
        is_over && journal.end_flush(false)
    };
    let key = StripeKey::from_slot(0);
    assert!(!journal.has_slot(), "no durable entry says what is older");
    journal.waiting.push_back(key);
    assert!(journal.start_checkpoint(1) && checkpoint(&journal) == (100, 100));
    assert_eq!(journal.on_checkpoint_io(true), CheckpointStep::Release);
    let stripe = stripe();
    let open = |journal: &mut Journal| journal.open(&stripe, &(0..4096));
    assert_eq!((journal.free_slots(), open(&mut journal)), (63, 101));
    journal.waiting.clear();
    journal.on_joined();
    journal.rebuilds.push(PieceKey::from_slot(0));
    assert!(!journal.start_checkpoint(3), "101 is older");
    assert!(!flushed(&mut journal, true), "it has not ended");
    journal.end(101);
    assert!(!flushed(&mut journal, false) && journal.oldest() == 101, "a flush failed");
    assert!(flushed(&mut journal, true) && journal.oldest() == 102);
    (102..164).for_each(|sequence| assert_eq!(open(&mut journal), sequence));
    assert!(!journal.has_slot(), "100 is the oldest that a durable entry names");
    // What is given up stays known until it is the oldest.
    journal.abandon(104);
    assert_eq!(journal.void(), 0b100);
    (102..104).for_each(|sequence| journal.end(sequence));
    assert!(flushed(&mut journal, true) && journal.void() == 0 && journal.oldest() == 105);
    assert!(journal.start_checkpoint(1) && checkpoint(&journal) == (164, 105));
    assert_eq!(journal.on_checkpoint_io(true), CheckpointStep::Release);
    assert!(!journal.needs_checkpoint() && journal.free_slots() == 4);
}

/// The next slot is that of entry 101, the oldest, which a crash must leave together with those
/// behind it.
#[test]
fn a_checkpoint_that_failed_is_repeated_in_its_slot() {
    let (stripe, torn) = (stripe(), TornRows::default());
    let mut journal = Journal::new(vec![0; 3], 100, false);
    journal.waiting.push_back(StripeKey::from_slot(0));
    assert!(journal.start_checkpoint(1) && checkpoint(&journal) == (100, 100));
    journal.on_checkpoint_io(true);
    (101..164).for_each(|_| _ = journal.open(&stripe, &(0..4096)));
    journal.end(101);
    assert!(journal.start_flush(1, &torn) && journal.on_flushed(true) && journal.end_flush(false));
    for is_good in [false, false, true] {
        assert!(journal.start_checkpoint(2) && checkpoint(&journal) == (164, 102), "{is_good}");
        journal.on_checkpoint_io(true);
        let step = journal.on_checkpoint_io(is_good);
        assert_eq!(step == CheckpointStep::Fail, !is_good);
        assert_eq!(journal.has_slot(), is_good);
    }
    assert_eq!(journal.open(&stripe, &(0..4096)), 165, "some members have the checkpoint 164");
    // Where there are slots, the next entry leaves the number out, and what follows the entry.
    (102..110).for_each(|sequence| journal.end(sequence));
    assert!(journal.start_flush(1, &torn) && journal.on_flushed(true) && journal.end_flush(false));
    assert!(journal.start_checkpoint(1) && checkpoint(&journal) == (166, 110));
    journal.on_checkpoint_io(true);
    journal.on_joined();
    journal.rebuilds.push(PieceKey::from_slot(0));
    (110..164).chain([165]).for_each(|sequence| journal.end(sequence));
    assert!(journal.start_flush(1, &torn) && journal.on_flushed(true) && journal.end_flush(false));
    assert!(journal.start_checkpoint(1) && checkpoint(&journal) == (167, 167));
    assert_eq!(journal.on_checkpoint_io(false), CheckpointStep::Fail);
    assert_eq!(journal.open(&stripe, &(0..4096)), 168);
    assert!(journal.start_checkpoint(1) && checkpoint(&journal) == (169, 168));
    assert_eq!(journal.on_checkpoint_io(true), CheckpointStep::Release);
}

/// Entry 102 begins while a checkpoint is written, and is asked of the member that joins then.
#[test]
fn a_checkpoint_waits_for_entries_from_before_a_member_joined_while_one_was_written() {
    let (stripe, torn) = (stripe(), TornRows::default());
    let mut journal = Journal::new(vec![0; 3], 100, true);
    journal.rebuilds.push(PieceKey::from_slot(0));
    for sequence in [100, 101] {
        assert!(journal.start_checkpoint(1) && checkpoint(&journal) == (sequence, sequence));
        if sequence == 101 {
            assert_eq!(journal.open(&stripe, &(0..4096)), 102);
            journal.on_joined();
        }
        let step = journal.on_checkpoint_io(true);
        assert_eq!(step == CheckpointStep::Again, sequence == 101);
        if sequence == 100 {
            journal.on_joined();
        }
    }
    assert!(!journal.start_checkpoint(1), "102 is older");
    journal.end(102);
    assert!(journal.start_flush(1, &torn) && journal.on_flushed(true) && journal.end_flush(false));
    assert!(journal.start_checkpoint(1) && checkpoint(&journal) == (103, 103));
    assert_eq!(journal.on_checkpoint_io(true), CheckpointStep::Release);
}

/// Entry 101 is open all the time. The one of the rows that are repaired ended: it is void once
/// the members were flushed, and repeatable until a checkpoint says so.
#[test]
fn a_repair_waits_until_no_start_would_write_its_rows_again() {
    let (stripe, mut torn, rows) = (stripe(), TornRows::default(), 0..4096);
    let mut journal = Journal::new(vec![0; 3], 100, false);
    let wait = |journal: &Journal, torn: &TornRows| journal.repair_wait(&stripe, &rows, torn);
    assert_eq!(wait(&journal, &torn), RepairWait::Checkpoint, "of entries before the start");
    journal.hold_repair(StripeKey::from_slot(7), &stripe, rows.clone());
    assert!(journal.start_checkpoint(1) && checkpoint(&journal) == (100, 100));
    journal.on_checkpoint_io(true);
    assert_eq!(journal.take_repairs().count(), 1);
    assert_eq!(wait(&journal, &torn), RepairWait::Nothing);
    journal.open(&stripe, &(8192..12288));
    assert_eq!(wait(&journal, &torn), RepairWait::Nothing, "other rows");
    journal.open(&stripe, &(2048..6144));
    journal.end(102);
    assert_eq!(wait(&journal, &torn), RepairWait::Checkpoint);
    journal.hold_repair(StripeKey::from_slot(7), &stripe, rows.clone());
    assert!(!journal.start_checkpoint(1), "what it wrote may not be durable");
    assert!(journal.start_flush(1, &torn) && journal.on_flushed(true));
    assert!(journal.end_flush(false) && journal.void() == 0b10);
    assert_eq!(wait(&journal, &torn), RepairWait::Checkpoint);
    assert!(journal.start_checkpoint(1) && checkpoint(&journal) == (103, 101));
    journal.on_checkpoint_io(true);
    assert_eq!(wait(&journal, &torn), RepairWait::Nothing);
    // All of a torn entry is written again, but not while other rows of it are torn.
    journal.open(&stripe, &(0..12288));
    journal.tear(104, stripe, 0..12288);
    torn.tear(&stripe, &(0..12288));
    assert_eq!(wait(&journal, &torn), RepairWait::Nothing);
    torn.mend(&stripe, &(0..4096));
    assert_eq!(wait(&journal, &torn), RepairWait::Forever);
    // What mended those rows is written again as long as the torn entry is.
    journal.open(&stripe, &rows);
    journal.end(105);
    assert!(!journal.start_flush(1, &torn));
    torn.mend(&stripe, &(4096..12288));
    assert_eq!(wait(&journal, &torn), RepairWait::Checkpoint);
    assert!(journal.start_flush(1, &torn) && journal.on_flushed(true));
    assert!(journal.end_flush(false) && journal.void() == 0b11010);
}

/// A start writes the torn entry and all that stay again, so also what was written over them.
#[test]
fn what_is_behind_an_entry_that_stays_stays_too() {
    let (stripe, mut torn) = (stripe(), TornRows::default());
    let mut journal = Journal::new(vec![0; 3], 100, false);
    for (sequence, rows) in [(100, 0..8192), (101, 4096..12288), (102, 8192..16384)] {
        assert_eq!(journal.open(&stripe, &rows), sequence);
        match sequence {
            100 => journal.tear(sequence, stripe, rows),
            _ => journal.end(sequence),
        }
    }
    torn.tear(&stripe, &(0..4096));
    assert!(!journal.start_flush(1, &torn), "102 would be lost where 101 has its rows");
    torn.mend(&stripe, &(0..4096));
    assert!(journal.start_flush(1, &torn) && journal.on_flushed(true));
    assert!(journal.end_flush(false) && journal.oldest() == 103);
}

//! Journals after a crash.

use super::*;

const VOLUME: Uuid = Uuid([1; 16]);
const BEGIN: u64 = 8 << 20;

fn uuid(member: u16) -> Uuid {
    Uuid([16 + member as u8; 16])
}

fn entry(sequence: u64, oldest: u64, participants: u16) -> JournalEntry {
    let parts = vec![JournalPart { offset: (1 << 20) + (sequence << 12), length: 512 }; 2];
    let rows = 0..1024;
    let (void, stripe_offset) = (0, 7 << 16);
    JournalEntry { sequence, oldest, void, participants, stripe_offset, rows, parts }
}

/// The journal of a member with these entries, whose data are their sequence numbers.
fn journal(member: u16, entries: &[JournalEntry]) -> Vec<u8> {
    let mut bytes = vec![0; JOURNAL_BYTES as usize];
    for entry in entries {
        let data = vec![entry.sequence as u8; entry.data_bytes() as usize];
        let block = entry.encode(BEGIN, &data, VOLUME, uuid(member));
        let at = (entry.offset(BEGIN) - BEGIN) as usize;
        bytes[at..at + block.len()].copy_from_slice(&block);
    }
    bytes
}

/// What the journals say, if the members from this one on have no current data.
fn recovery(journals: &[(u16, Vec<u8>)], stale_from: u16) -> JournalRecovery {
    let journals: Vec<MemberJournal<'_>> = journals
        .iter()
        .map(|(member, bytes)| MemberJournal {
            member: MemberIndex(*member),
            uuid: uuid(*member),
            begin: BEGIN,
            has_data: *member < stale_from,
            may_lack_entries: false,
            bytes,
        })
        .collect();
    recover_journal(VOLUME, &journals)
}

/// The members and sequence numbers of the writes that are repeated, and the next number.
fn recovered(journals: &[(u16, Vec<u8>)]) -> (Vec<(u16, u8)>, u64) {
    let recovery = recovery(journals, u16::MAX);
    let writes = recovery.replays.iter().map(|it| (it.member.0, it.data[0]));
    let mut writes: Vec<(u16, u8)> = writes.collect();
    writes.dedup();
    (writes, recovery.next)
}

#[test]
fn what_all_participants_have_is_written_again_in_order() {
    let [one, two] = [entry(5, 5, 0b011), entry(6, 5, 0b110)];
    let journals = [
        (0, journal(0, std::slice::from_ref(&one))),
        (1, journal(1, &[one, two.clone()])),
        (2, journal(2, &[two])),
    ];
    let (writes, next) = recovered(&journals);
    assert_eq!(writes, [(0, 5), (1, 5), (1, 6), (2, 6)]);
    assert_eq!(next, 7 + SEQUENCE_GAP);
    // Of the first, nothing can have been written in place without member 0.
    let without = [(0, journal(0, &[])), journals[1].clone(), journals[2].clone()];
    assert_eq!(recovered(&without).0, [(1, 6), (2, 6)]);
    // A member that is gone may have had it.
    assert_eq!(recovered(&journals[1..]).0, [(1, 5), (1, 6), (2, 6)]);
}

#[test]
fn entries_before_the_oldest_of_any_member_are_done_with() {
    let [old, new] = [entry(5, 5, 0b11), entry(6, 6, 0b10)];
    let journals =
        [(0, journal(0, std::slice::from_ref(&old))), (1, journal(1, &[old.clone(), new]))];
    assert_eq!(recovered(&journals).0, [(1, 6)]);
    let later = JournalEntry { void: 0b10, ..entry(7, 4, 0b10) };
    let journals =
        [(0, journal(0, std::slice::from_ref(&old))), (1, journal(1, &[old.clone(), later]))];
    assert_eq!(recovered(&journals).0, [(1, 7)], "the other one is void");
    let checkpoint = JournalEntry { parts: Vec::new(), ..entry(9, 9, 0) };
    let journals = [(0, journal(0, &[old.clone(), checkpoint])), (1, journal(1, &[old]))];
    assert_eq!(recovered(&journals), (vec![], 10 + SEQUENCE_GAP));
    assert_eq!(recovered(&[]), (vec![], 1 + SEQUENCE_GAP));
}

/// Entry 5 was not written to member 2, so nothing of it is in place, and it is not repeated. A
/// start without member 2 must not repeat it either, once one with it ended the journal.
#[test]
fn a_checkpoint_ends_what_a_start_does_not_repeat() {
    let skipped = journal(0, &[entry(5, 5, 0b111)]);
    let journals = [(0, skipped.clone()), (1, journal(1, &[entry(5, 5, 0b111)]))];
    let all = [&journals[..], &[(2, journal(2, &[]))]].concat();
    let mut found = recovery(&all, u16::MAX);
    assert!(found.replays.is_empty() && found.has_entries);
    assert_eq!(recovered(&journals).0, [(0, 5), (1, 5)], "it would be repeated");
    let next = found.next;
    let checkpoint = found.begin_checkpoint();
    assert_eq!((found.next, checkpoint.sequence, found.has_entries), (next + 1, next, false));
    let ended = journal(0, &[entry(5, 5, 0b111), checkpoint]);
    assert_eq!(recovered(&[(0, ended.clone()), journals[1].clone()]).0, []);
    assert!(!recovery(&[(0, ended)], u16::MAX).has_entries);
}

#[test]
fn of_a_member_without_current_data_only_the_numbers_count() {
    let stale = JournalEntry { void: 1, ..entry(900, 890, 0b110) };
    let journals = [(0, journal(0, &[entry(5, 5, 0b11)])), (1, journal(1, &[stale]))];
    let found = recovery(&journals, 1);
    assert_eq!(found.replays.len(), 2, "both parts of 5, though it takes part and lacks it");
    assert!(found.next >= 900 + SEQUENCE_GAP, "{}", found.next);
}

/// Member 0 has a full ring, whose newest entry is 69. Member 1 ran alone later, and its data were
/// given up.
#[test]
fn the_next_entry_takes_the_slot_of_the_oldest_one_that_counts() {
    let full: Vec<JournalEntry> = (6..70).map(|sequence| entry(sequence, 6, 0b1)).collect();
    for newest in [70, 150, 900, 901, 964] {
        let alone = journal(1, &[entry(newest, newest, 0b10)]);
        let found = recovery(&[(0, journal(0, &full)), (1, alone)], 1);
        let next = found.next;
        assert_eq!(found.replays.len(), 128, "all of them");
        assert_eq!(next % JOURNAL_SLOTS, 6, "the slot of the oldest, behind the newest");
        let least = newest + SEQUENCE_GAP;
        assert!((least..least + JOURNAL_SLOTS).contains(&next), "{next} after {newest}");
    }
}

#[test]
fn a_torn_or_foreign_entry_does_not_count_and_the_encoding_never_changes() {
    let one = entry(65, 65, 0b1);
    let whole = journal(0, std::slice::from_ref(&one));
    assert_eq!(recovered(&[(0, whole.clone())]).0, [(0, 65)]);
    let at = (one.offset(BEGIN) - BEGIN) as usize;
    assert_eq!(
        crc32c(&whole[at..at + METADATA_BYTES - 4]),
        0xcaf5_3ea4,
        "members hold such entries"
    );
    for damaged in [at + 90, at + METADATA_BYTES + 1023] {
        let mut torn = whole.clone();
        torn[damaged] ^= 1;
        assert_eq!(recovered(&[(0, torn)]).0, [], "byte {damaged}");
    }
    assert_eq!(recovered(&[(1, whole)]).0, [], "the entry of another member");
    for offset in [4096, BEGIN - 511, u64::MAX - 100] {
        let parts = vec![JournalPart { offset, length: 512 }];
        let outside = journal(0, &[JournalEntry { parts, ..entry(65, 65, 0b1) }]);
        assert_eq!(recovered(&[(0, outside)]).0, [], "offset {offset} is not of data");
    }
}

#[test]
fn a_journal_is_begun_once_a_slot_was_written_even_in_part() {
    let has_begun = |member, bytes| recovery(&[(member, bytes)], 1).has_begun;
    let empty = journal(0, &[]);
    assert!(!has_begun(0, empty.clone()));
    assert!(has_begun(1, empty.clone()), "a member without data");
    assert!(!has_begun(0, vec![0xa5; JOURNAL_BYTES as usize]));
    let mut torn = journal(0, &[JournalEntry::checkpoint(70, 70, 0)]);
    assert!(has_begun(0, torn.clone()));
    assert!(!recovery(&[(0, torn.clone()), (0, empty)], 1).has_begun);
    let at = 6 * SLOT_BYTES as usize;
    torn[at + 512..at + METADATA_BYTES].fill(0xa5);
    assert!(has_begun(0, torn.clone()));
    let moved = [vec![0; SLOT_BYTES as usize], torn].concat();
    assert!(!has_begun(0, moved[..JOURNAL_BYTES as usize].to_vec()));
}

/// The end of member 0 was cut off. Entry 5 may have been written in place before.
#[test]
fn an_entry_that_only_members_lack_which_lost_data_is_doubtful() {
    let recovery = |entries: [&[JournalEntry]; 3], lost: &[u16]| {
        let journals = [0, 1, 2].map(|member| journal(member, entries[usize::from(member)]));
        let journals: Vec<MemberJournal<'_>> = (0..)
            .zip(&journals)
            .map(|(member, bytes)| MemberJournal {
                member: MemberIndex(member),
                uuid: uuid(member),
                begin: BEGIN,
                has_data: true,
                may_lack_entries: lost.contains(&member),
                bytes,
            })
            .collect();
        recover_journal(VOLUME, &journals)
    };
    let found = |entries, lost: &[u16]| {
        let JournalRecovery { doubtful, replays, .. } = recovery(entries, lost);
        let doubtful: Vec<u16> = doubtful.iter().map(|entry| entry.member.0).collect();
        let mut writes: Vec<(u16, u8)> =
            replays.iter().map(|it| (it.member.0, it.data[0])).collect();
        writes.dedup();
        (doubtful, writes)
    };
    let five = [entry(5, 5, 0b111)];
    let entries: [&[JournalEntry]; 3] = [&[], &five, &five];
    assert_eq!(found(entries, &[]), (vec![], vec![]), "it was not written in place");
    assert_eq!(found(entries, &[0]), (vec![0], vec![(1, 5), (2, 5)]));
    let doubtful = DoubtfulEntry { member: MemberIndex(0), stripe_offset: 7 << 16, rows: 0..1024 };
    assert_eq!(recovery(entries, &[0]).doubtful, [doubtful]);
    // Member 1 lost nothing, so no member was written in place.
    assert_eq!(found([&[], &[], &five], &[0]), (vec![], vec![]));
    assert_eq!(found([&[], &[], &five], &[0, 1]), (vec![0], vec![(2, 5)]));
    assert_eq!(found([&five, &five, &five], &[0]).0, []);
    let void = [JournalEntry { void: 1, ..JournalEntry::checkpoint(6, 5, 1) }];
    assert_eq!(found([&void, &five, &five], &[0]), (vec![], vec![]));
    let checkpoint = [JournalEntry::checkpoint(6, 6, 0)];
    assert_eq!(found([&checkpoint, &five, &five], &[0]), (vec![], vec![]));
}

#[test]
fn the_largest_entry_fits_a_slot() {
    let parts =
        (0..PARTS_MAX as u64).map(|it| JournalPart { offset: (1 << 20) + (it << 10), length: 512 });
    let full = JournalEntry { parts: parts.collect(), ..entry(1, 1, 0b1) };
    assert_eq!(full.length(), SLOT_BYTES);
    let bytes = journal(0, std::slice::from_ref(&full));
    let found = JournalEntry::decode(
        &bytes[SLOT_BYTES as usize..2 * SLOT_BYTES as usize],
        (BEGIN, BEGIN + SLOT_BYTES),
        VOLUME,
        uuid(0),
    );
    assert_eq!(found.map(|(entry, _)| entry), Ok(full));
}

//! Torture: a labelled volume in a simulated world, with failing members and power cuts, and a
//! model that knows what may be read.
//!
//! A *history* is a list of operations drawn from a seed: writes, reads and flushes of clients,
//! members that fail and return, and restarts after an orderly stop, a kill or a power cut, with
//! all members or some of them. The executor, the members, the labels, the dirty log and the
//! rebuild are those of a service; time, files and chance are the simulation's, so a seed always
//! gives the same run. Checked are:
//!
//! - a read returns what the last acknowledged write or a later one wrote, and after a crash what
//!   was flushed or a later write;
//! - a block reads the same, on every mirror, until it is written;
//! - no request fails while no member does;
//! - members never seem to be in doubt, and a start without the newest data needs the user;
//! - in the end all mirrors are equal, and no scrub finds anything else before;
//! - a bit that is changed on one mirror is found by a scrub and repaired;
//! - clones and old copies of members are refused, and halves that were used without each other;
//! - after a stop in good order the labels say so, unless a member had a fault.
//!
//! In a third of the histories the machine serves the volume by a whole service, as whose NBD
//! clients and user it acts: with durable writes, writes of zeroes, trims, and commands on the
//! control socket. In these, members may also fail a flush or a write once, paths name other disks
//! than at the start, spares take the place of members, and each half of the members is started
//! alone. In the others it takes the turns of executor, rebuild and scrub itself, which is faster.
//!
//! In a seventh of the histories one disk damages its data without an error: bits change, writes go
//! to wrong places. Metadata have checksums, so the rules above hold for damaged metadata. Data
//! have none: of a damaged block nothing is promised until it was written again, except that a
//! scrub finds it. What such reads return is not checked, but counted. Nor is anything promised
//! after a run in which the only member in sync lost a write of metadata.
//!
//! A volume with checksums has to return right data of damaged blocks, too, and a scrub or read
//! that finds wrong data where nothing was damaged breaks a rule. Not promised is a block that is
//! damaged on one mirror and written when the volume crashes: its checksum may not have been on the
//! members.
//!
//! A history that fails is reduced to the operations that it needs.
//!
//! Non-goals: members on other machines, and clients that break their connections
//! (`tests/simulation.rs`).

mod history;
mod machine;
mod model;

use history::{Operation, draw};
use machine::{Machine, Tally, shape};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Operations of a history.
pub const HISTORY_OPERATIONS: u64 = 60;

/// Whether the simulated members keep their promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promises {
    /// They do.
    Kept,
    /// A flush of a member succeeds and makes nothing durable. No volume survives that: it shows
    /// that a violation is found.
    FlushLies,
    /// They do, and data have checksums: reads of damaged data are checked like others.
    KeptWithChecksums,
    /// They do, and reads of damaged data are checked like others. No volume without checksums
    /// survives that: it shows that damage is noticed.
    DamageIsChecked,
}

/// What happened in histories that broke no rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TortureReport {
    /// Number of histories.
    pub histories: u64,
    /// Number of operations.
    pub operations: u64,
    /// Number of requests that were replied to.
    pub replies: u64,
    /// Number of power cuts.
    pub power_cuts: u64,
    /// Number of kills.
    pub kills: u64,
    /// Number of starts of the volume.
    pub starts: u64,
    /// Number of times that a member was out of sync after a start or a failure.
    pub failures: u64,
    /// Number of times that a disk damaged data or metadata without an error.
    pub damages: u64,
    /// Number of times that the volume refused a clone, an old copy or damaged metadata.
    pub refusals: u64,
    /// Number of reads of damaged data, and of old copies that were too young to be noticed: of
    /// these nothing is promised.
    pub unpromised: u64,
    /// Number of members that came back and got only the regions that they lacked.
    pub catch_ups: u64,
    /// Number of power cuts and kills while mirrors were synchronised or a member was rebuilt.
    pub recoveries_cut: u64,
    /// Number of spares that took the place of a member.
    pub spares_used: u64,
    /// Number of times that two halves of the members had been written to without each other.
    pub divergences: u64,
}

/// A history that broke a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TortureFailure {
    /// The seed of the history.
    pub seed: u64,
    /// The profile of its volume, and the number of members.
    pub volume: String,
    /// What was wrong.
    pub what: String,
    /// The operations that are needed for it, in words.
    pub history: Vec<String>,
}

/// Runs the history of a seed, and adds what happened to `report`.
///
/// # Errors
/// If it breaks a rule.
pub fn torture(
    seed: u64,
    promises: Promises,
    report: &mut TortureReport,
) -> Result<(), Box<TortureFailure>> {
    let operations = draw(seed, HISTORY_OPERATIONS);
    match run(seed, &operations, promises) {
        Ok(tally) => {
            report.histories += 1;
            report.operations += operations.len() as u64;
            report.replies += tally.replies;
            report.power_cuts += tally.power_cuts;
            report.kills += tally.kills;
            report.starts += tally.starts;
            report.failures += tally.failures;
            report.damages += tally.damages;
            report.refusals += tally.refusals;
            report.unpromised += tally.unpromised;
            report.catch_ups += tally.catch_ups;
            report.recoveries_cut += tally.recoveries_cut;
            report.divergences += tally.divergences;
            report.spares_used += tally.spares_used;
            Ok(())
        }
        Err(_) => {
            let operations = reduce(seed, operations, promises);
            let what = run(seed, &operations, promises).err().unwrap_or_default();
            let (profile, count) = shape(seed);
            let with = match promises {
                Promises::KeptWithChecksums => ", with checksums",
                _ => "",
            };
            let volume = format!("{} over {count} members{with}", profile.name());
            let history = operations.iter().map(|it| it.in_words(count)).collect();
            Err(Box::new(TortureFailure { seed, volume, what, history }))
        }
    }
}

/// Runs operations; a panic of the code under test counts as a broken rule.
fn run(seed: u64, operations: &[Operation], promises: Promises) -> Result<Tally, String> {
    let run = AssertUnwindSafe(|| Machine::new(seed, promises).run(operations));
    catch_unwind(run).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// Removes operations as long as a rule is still broken: first long parts, then single ones.
fn reduce(seed: u64, mut operations: Vec<Operation>, promises: Promises) -> Vec<Operation> {
    let mut part = operations.len().div_ceil(2);
    while part > 0 {
        let mut start = 0;
        while start < operations.len() {
            let mut fewer = operations.clone();
            fewer.drain(start..(start + part).min(operations.len()));
            match run(seed, &fewer, promises) {
                Err(_) => operations = fewer,
                Ok(_) => start += part,
            }
        }
        part /= 2;
    }
    operations
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histories_break_no_rule() {
        let mut report = TortureReport::default();
        for seed in 0..40 {
            if let Err(failure) = torture(seed, Promises::Kept, &mut report) {
                panic!("{failure:#?}");
            }
        }
        assert!(report.power_cuts > 20 && report.kills > 20 && report.failures > 10, "{report:?}");
        assert!(report.damages > 5 && report.refusals > 5 && report.unpromised > 0, "{report:?}");
        assert!(report.catch_ups > 20 && report.recoveries_cut > 20, "{report:?}");
        assert!(report.divergences > 0 && report.spares_used > 0, "{report:?}");
        let mut again = TortureReport::default();
        for seed in 0..40 {
            assert_eq!(torture(seed, Promises::Kept, &mut again), Ok(()));
        }
        assert_eq!(report, again, "a seed always gives the same run");
    }

    #[test]
    fn volumes_with_checksums_break_no_rule() {
        let mut report = TortureReport::default();
        for seed in 0..60 {
            if let Err(failure) = torture(seed, Promises::KeptWithChecksums, &mut report) {
                panic!("{failure:#?}");
            }
        }
        assert!(report.power_cuts > 20 && report.kills > 20 && report.damages > 5, "{report:?}");
    }

    #[test]
    fn a_page_of_checksums_that_could_not_be_read_is_replaced_whole() {
        let report = &mut TortureReport::default();
        assert_eq!(torture(700, Promises::KeptWithChecksums, report), Ok(()));
    }

    #[test]
    fn a_scrub_counts_what_the_one_before_repaired_meanwhile() {
        let report = &mut TortureReport::default();
        assert_eq!(torture(1626, Promises::KeptWithChecksums, report), Ok(()));
    }

    #[test]
    fn a_member_that_returns_and_loses_power_has_a_label() {
        assert_eq!(torture(1899, Promises::Kept, &mut TortureReport::default()), Ok(()));
    }

    #[test]
    fn a_write_may_fail_where_a_resync_has_been() {
        let report = &mut TortureReport::default();
        assert_eq!(torture(13_139_411, Promises::KeptWithChecksums, report), Ok(()));
    }

    #[test]
    fn a_read_of_a_damaged_block_may_overlap_the_write_that_mends_it() {
        assert_eq!(torture(13_086_349, Promises::Kept, &mut TortureReport::default()), Ok(()));
    }

    #[test]
    fn a_read_may_overlap_a_write_and_its_flush() {
        assert_eq!(torture(100_151, Promises::Kept, &mut TortureReport::default()), Ok(()));
    }

    #[test]
    fn a_write_in_flight_may_change_what_is_read() {
        assert_eq!(torture(300_453, Promises::Kept, &mut TortureReport::default()), Ok(()));
    }

    #[test]
    fn a_removed_disk_that_is_put_back_is_a_new_one() {
        assert_eq!(torture(5105, Promises::Kept, &mut TortureReport::default()), Ok(()));
    }

    #[test]
    fn a_resync_that_did_not_reach_a_mirror_is_repeated() {
        assert_eq!(torture(6095, Promises::Kept, &mut TortureReport::default()), Ok(()));
    }

    #[test]
    fn a_map_that_is_full_from_the_start_is_kept() {
        assert_eq!(torture(200_183, Promises::Kept, &mut TortureReport::default()), Ok(()));
    }

    #[test]
    fn a_label_that_a_kill_left_unflushed_may_be_lost() {
        assert_eq!(torture(70_392, Promises::Kept, &mut TortureReport::default()), Ok(()));
    }

    #[test]
    fn a_write_to_the_last_member_in_sync_is_known_to_no_other() {
        assert_eq!(torture(7_009_160, Promises::Kept, &mut TortureReport::default()), Ok(()));
    }

    #[test]
    fn the_only_member_in_sync_may_lose_the_record_of_a_write() {
        let report = &mut TortureReport::default();
        assert_eq!(torture(7_022_760, Promises::Kept, report), Ok(()));
        // In the second, of a page of checksums.
        for seed in [7_011_364, 7_029_515] {
            assert_eq!(torture(seed, Promises::KeptWithChecksums, report), Ok(()));
        }
    }

    #[test]
    fn a_member_that_is_rebuilt_may_hold_the_only_copy() {
        let report = &mut TortureReport::default();
        for seed in [7_014_303, 7_019_799] {
            assert_eq!(torture(seed, Promises::KeptWithChecksums, report), Ok(()));
        }
    }

    #[test]
    fn no_member_starts_by_itself_that_lacks_what_others_were_written() {
        let report = &mut TortureReport::default();
        assert_eq!(torture(8_008_996, Promises::Kept, report), Ok(()));
        for seed in [8_122_060, 8_155_717] {
            assert_eq!(torture(seed, Promises::KeptWithChecksums, report), Ok(()));
        }
    }

    #[test]
    fn a_mirror_that_missed_a_discard_is_synchronised() {
        let report = &mut TortureReport::default();
        assert_eq!(torture(8_134_119, Promises::KeptWithChecksums, report), Ok(()));
    }

    #[test]
    fn of_metadata_that_a_disk_loses_only_the_others_tell() {
        let report = &mut TortureReport::default();
        for seed in [8_118_183, 8_122_313] {
            assert_eq!(torture(seed, Promises::KeptWithChecksums, report), Ok(()));
        }
    }

    #[test]
    fn damage_counts_on_a_disk_that_is_replaced_and_while_the_other_returns_errors() {
        let report = &mut TortureReport::default();
        assert_eq!(torture(8_180_350, Promises::Kept, report), Ok(()));
        assert_eq!(torture(8_111_568, Promises::KeptWithChecksums, report), Ok(()));
    }

    #[test]
    fn a_flush_on_storage_that_is_replaced_makes_no_label_durable() {
        let report = &mut TortureReport::default();
        assert_eq!(torture(9_011_634, Promises::KeptWithChecksums, report), Ok(()));
    }

    #[test]
    fn the_last_step_of_a_cancelled_scrub_repairs_nothing_that_another_is_to_find() {
        let report = &mut TortureReport::default();
        assert_eq!(torture(10_018_786, Promises::KeptWithChecksums, report), Ok(()));
    }

    #[test]
    fn damage_without_an_error_is_noticed_if_it_is_not_left_out() {
        let mut report = TortureReport::default();
        let mut seeds = (0..20).map(|number| 3 + 7 * number);
        let failure =
            seeds.find_map(|seed| torture(seed, Promises::DamageIsChecked, &mut report).err());
        let failure = failure.expect("a volume without checksums returns damaged data");
        let is_damage = |operation: &String| operation.contains("bad disk");
        assert!(failure.history.iter().any(is_damage), "{failure:#?}");
    }

    #[test]
    fn a_lying_flush_is_found_and_its_history_reduced() {
        let mut report = TortureReport::default();
        let failure =
            (0..50).find_map(|seed| torture(seed, Promises::FlushLies, &mut report).err());
        let failure = failure.expect("a volume on such members loses data");
        assert!(failure.history.len() < HISTORY_OPERATIONS as usize / 2, "{failure:#?}");
        assert!(failure.volume.contains(" over ") && !failure.history.is_empty(), "{failure:#?}");
    }
}

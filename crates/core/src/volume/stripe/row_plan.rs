//! Row plans: which columns of a full stripe are read and written for some of its rows, and what is
//! computed in between.
//!
//! A write need not cover a strip, so it is divided into ranges of rows that each cover the same
//! columns, and each range has a plan of its own, as md decides for each row of pages. There are
//! three ways to write k of n columns with m parities:
//!
//! | way | reads | writes |
//! |---|---|---|
//! | all columns (k = n) | 0 | n + m |
//! | *compute*: the other data give new parities | n - k | k + m |
//! | *update*: old data and old parities give the differences | k + m | k + m |
//!
//! The one with fewer reads is taken. If some of what it reads cannot be had, it is the other, and
//! at last *recover*: n columns that can be read give all others.
//!
//! Source: `handle_stripe_dirtying` of Linux's `drivers/md/raid5.c`, for the choice.

use crate::column_set::ColumnSet;
use std::ops::Range;

/// When a write updates the parities rather than computing them, as md's `rmw_level` says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RmwLevel {
    /// Only where they cannot be computed.
    Never,
    #[default]
    FewerReads,
    NoMoreReads,
}

/// Which columns of a stripe can be used, for some rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ColumnStates {
    pub(super) data: ColumnSet,
    pub(super) parities: ColumnSet,
    pub(super) in_sync: ColumnSet,
    /// Columns that hold what they should and were not found unreadable.
    pub(super) readable: ColumnSet,
    /// Columns to read rather than others: those whose members are in no back-off and that the
    /// policy does not leave out.
    pub(super) preferred: ColumnSet,
    /// Columns of members that have not failed.
    pub(super) writable: ColumnSet,
    /// Columns whose medium failed.
    pub(super) spoiled: ColumnSet,
}

/// The computation between the reads and the writes of some rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Arithmetic {
    Nothing,
    /// The parities, from all data.
    Compute,
    /// The parities, from the difference of old and new data.
    Update,
    /// The columns in `wanted`, from all but those in `missing`; then the parities, if data are
    /// written.
    Recover {
        missing: ColumnSet,
        wanted: ColumnSet,
    },
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RowPlan {
    pub(super) rows: Range<u64>,
    /// Columns that a request writes or reads.
    pub(super) covered: ColumnSet,
    pub(super) reads: ColumnSet,
    pub(super) arithmetic: Arithmetic,
    pub(super) writes: ColumnSet,
}

/// The reads and writes of some rows, and the arithmetic in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Access {
    pub(super) reads: ColumnSet,
    pub(super) arithmetic: Arithmetic,
    pub(super) writes: ColumnSet,
}

impl ColumnStates {
    /// How to write the columns in `covered`; `None` if it cannot be done without loss.
    pub(super) fn write(&self, covered: ColumnSet, level: RmwLevel) -> Option<Access> {
        assert!(!covered.is_empty() && covered.is_within(self.data), "{covered:?} is written");
        let others = self.data.without(covered);
        let parities = self.parities.and(self.writable);
        let writes = covered.and(self.writable).or(parities);
        let access = |arithmetic, reads| Some(Access { reads, arithmetic, writes });
        if parities.is_empty() {
            return access(Arithmetic::Nothing, ColumnSet::default());
        }
        let old = covered.or(parities);
        let can_compute = others.is_within(self.readable);
        let can_update = old.is_within(self.readable);
        let updates = match level {
            RmwLevel::Never => false,
            RmwLevel::FewerReads => old.count() < others.count(),
            RmwLevel::NoMoreReads => old.count() <= others.count(),
        };
        if can_update && (updates || !can_compute) {
            return access(Arithmetic::Update, old);
        }
        if can_compute {
            return access(Arithmetic::Compute, others);
        }
        let (wanted, missing) = (others.and(self.readable), others.without(self.readable));
        let access = self.recover(wanted, missing)?;
        Some(Access { writes: writes.or(access.writes), ..access })
    }

    /// How to read the columns in `covered`: from their members, but those that cannot be read, or
    /// are not preferred where n others are, from n others.
    pub(super) fn read(&self, covered: ColumnSet) -> Option<Access> {
        assert!(!covered.is_empty() && covered.is_within(self.data), "{covered:?} is read");
        let others = self.readable.and(self.preferred);
        let has_others = others.count() >= self.data.count();
        let direct = covered.and(if has_others { others } else { self.readable });
        if direct == covered {
            let (reads, writes) = (direct, ColumnSet::default());
            return Some(Access { reads, arithmetic: Arithmetic::Nothing, writes });
        }
        self.recover(direct, covered.without(direct))
    }

    /// How to read a whole stripe, and to rewrite the columns whose medium failed.
    pub(super) fn scrub(&self) -> Option<Access> {
        let unread = self.data.or(self.parities).without(self.readable);
        let lost = unread.and(self.in_sync).without(self.spoiled);
        if self.readable.count() < self.data.count() || !lost.is_empty() {
            return None;
        }
        let writes = self.spoiled.and(unread).and(self.writable);
        let arithmetic = match writes.is_empty() {
            true => Arithmetic::Nothing,
            false => Arithmetic::Recover { missing: unread, wanted: writes },
        };
        Some(Access { reads: self.readable, arithmetic, writes })
    }

    /// How to write a column that its member lost.
    pub(super) fn rebuild(&self, column: u8) -> Option<Access> {
        let one = ColumnSet::one(column);
        let others = ColumnStates { readable: self.readable.without(one), ..*self };
        let access = others.recover(ColumnSet::default(), one)?;
        assert!(!access.reads.contains(column), "column {column} is what is rebuilt");
        let writes = access.writes.or(one.and(self.writable));
        Some(Access { writes, ..access })
    }

    /// Recovers the columns in `wanted` from n columns that can be read, those in `first` and then
    /// those that are preferred, and rewrites what is spoiled.
    fn recover(&self, first: ColumnSet, wanted: ColumnSet) -> Option<Access> {
        let needed = self.data.count();
        if self.readable.count() < needed {
            return None;
        }
        let preferred = self.readable.and(self.preferred).without(first);
        let reads = first.or(preferred.first(needed - first.count()));
        let reads = reads.or(self.readable.without(reads).first(needed - reads.count()));
        let missing = self.data.or(self.parities).without(reads);
        assert_eq!(reads.count(), needed, "n columns give all others");
        let writes = self.spoiled.and(missing).and(self.writable);
        let wanted = wanted.or(writes).and(missing);
        Some(Access { reads, arithmetic: Arithmetic::Recover { missing, wanted }, writes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn healthy(data: u8, parities: u8) -> ColumnStates {
        let all = ColumnSet::range(0..data + parities);
        ColumnStates {
            data: ColumnSet::range(0..data),
            parities: ColumnSet::range(data..data + parities),
            in_sync: all,
            readable: all,
            preferred: all,
            writable: all,
            spoiled: ColumnSet::default(),
        }
    }

    fn without(states: ColumnStates, failed: &[u8]) -> ColumnStates {
        let failed = ColumnSet::of(failed.iter().copied());
        let without = |set: ColumnSet| set.without(failed);
        let (in_sync, readable) = (without(states.in_sync), without(states.readable));
        ColumnStates { in_sync, readable, writable: without(states.writable), ..states }
    }

    /// Numbers of reads and writes of md for k of n columns: n - k and k + m, or k + m and k + m if
    /// that is fewer reads; none and n + m for a full stripe.
    #[test]
    fn a_write_takes_the_ios_that_md_takes() {
        for (data, parities) in [(2, 1), (4, 1), (7, 1), (3, 2), (4, 2), (8, 2), (14, 2)] {
            for written in 1..=data {
                let states = healthy(data, parities);
                let covered = ColumnSet::range(0..written);
                let counts = |level| {
                    let access = states.write(covered, level).unwrap();
                    (access.reads.count(), access.writes.count())
                };
                let (n, m, k) = (usize::from(data), usize::from(parities), usize::from(written));
                let (compute, update) = (n - k, k + m);
                let fewer = if update < compute { update } else { compute };
                assert_eq!(counts(RmwLevel::FewerReads), (fewer, k + m), "{k} of {n}+{m}");
                assert_eq!(counts(RmwLevel::Never), (compute, k + m));
                let is_update = update <= compute;
                let access = states.write(covered, RmwLevel::NoMoreReads).unwrap();
                assert_eq!(access.arithmetic == Arithmetic::Update, is_update);
            }
        }
    }

    #[test]
    fn a_degraded_write_reads_what_can_be_read() {
        let raid5 = healthy(4, 1);
        let one = |column| ColumnSet::one(column);
        let write = |failed: &[u8], covered| {
            let access = without(raid5, failed).write(covered, RmwLevel::FewerReads)?;
            let columns = |set: ColumnSet| set.iter().collect::<Vec<_>>();
            Some((access.arithmetic, columns(access.reads), columns(access.writes)))
        };
        let all_others = Some((Arithmetic::Compute, vec![1, 2, 3], vec![4]));
        assert_eq!(write(&[0], one(0)), all_others, "the lost column is in the parity");
        let update = Some((Arithmetic::Update, vec![1, 4], vec![1, 4]));
        assert_eq!(write(&[0], one(1)), update, "the lost column is not touched");
        let plain = Some((Arithmetic::Nothing, vec![], vec![1]));
        assert_eq!(write(&[4], one(1)), plain, "no parity is left");
        assert_eq!(write(&[0, 2], one(1)), Some((Arithmetic::Update, vec![1, 4], vec![1, 4])));
        assert_eq!(write(&[0, 1], one(1)), None, "0 and 1 are lost, and 0 is needed");
        // A stale parity has to be computed, so the lost column is recovered from the other.
        let raid6 = without(healthy(4, 2), &[0]);
        let stale = ColumnStates { readable: raid6.readable.without(one(4)), ..raid6 };
        let access = stale.write(one(1), RmwLevel::FewerReads).unwrap();
        let missing = ColumnSet::of([0, 4].into_iter());
        let wanted = ColumnSet::one(0);
        assert_eq!(access.arithmetic, Arithmetic::Recover { missing, wanted }, "4 is computed");
        assert_eq!(access.reads, ColumnSet::of([1, 2, 3, 5].into_iter()));
    }

    #[test]
    fn a_lost_column_takes_n_reads_and_no_more() {
        let raid6 = healthy(4, 2);
        assert_eq!(raid6.read(ColumnSet::one(2)).unwrap().reads, ColumnSet::one(2));
        for failed in [vec![2], vec![2, 0], vec![2, 4], vec![2, 5]] {
            let access = without(raid6, &failed).read(ColumnSet::one(2)).unwrap();
            assert_eq!(access.reads.count(), 4, "{failed:?}");
            assert!(access.writes.is_empty());
        }
        assert_eq!(without(raid6, &[2, 3, 5]).read(ColumnSet::one(2)), None);
    }

    #[test]
    fn columns_in_backoff_are_read_last() {
        let columns = |columns: &[u8]| ColumnSet::of(columns.iter().copied());
        let raid6 = ColumnStates { preferred: columns(&[0, 2, 3, 4, 5]), ..healthy(4, 2) };
        assert_eq!(raid6.read(ColumnSet::one(1)).unwrap().reads, columns(&[0, 2, 3, 4]));
        let degraded = without(raid6, &[0]);
        assert_eq!(degraded.read(ColumnSet::one(0)).unwrap().reads, columns(&[2, 3, 4, 5]));
        assert_eq!(degraded.read(ColumnSet::one(1)).unwrap().reads, columns(&[2, 3, 4, 5]));
        let last = without(raid6, &[0, 5]);
        assert_eq!(
            last.read(ColumnSet::one(0)).unwrap().reads,
            columns(&[1, 2, 3, 4]),
            "no other is left"
        );
        assert_eq!(last.read(ColumnSet::one(1)).unwrap().reads, columns(&[1]));
    }

    #[test]
    fn a_scrub_reads_what_it_can_and_fails_for_what_it_cannot_read() {
        let columns = |columns: &[u8]| ColumnSet::of(columns.iter().copied());
        let scrub = |states: ColumnStates| states.scrub().map(|it| (it.reads, it.arithmetic));
        let raid6 = healthy(4, 2);
        let all = columns(&[0, 1, 2, 3, 4, 5]);
        assert_eq!(scrub(raid6), Some((all, Arithmetic::Nothing)));
        let rest = columns(&[0, 2, 3, 4, 5]);
        assert_eq!(scrub(without(raid6, &[1])), Some((rest, Arithmetic::Nothing)));
        let two = without(raid6, &[1, 5]);
        assert_eq!(scrub(two), Some((columns(&[0, 2, 3, 4]), Arithmetic::Nothing)));
        assert_eq!(scrub(without(raid6, &[1, 4, 5])), None, "too few are left");
        let lost = ColumnStates { readable: rest, ..raid6 };
        assert_eq!(scrub(lost), None, "a read failed in its transport");
    }

    #[test]
    fn a_spoiled_column_is_rewritten() {
        let one = ColumnSet::one(1);
        let raid5 = healthy(3, 1);
        let spoiled = ColumnStates { readable: raid5.readable.without(one), spoiled: one, ..raid5 };
        assert_eq!(spoiled.read(ColumnSet::one(1)).unwrap().writes, one);
        let scrub = spoiled.scrub().unwrap();
        assert_eq!(scrub.writes, one);
        assert_eq!(scrub.arithmetic, Arithmetic::Recover { missing: one, wanted: one });
        let other = spoiled.write(ColumnSet::range(0..1), RmwLevel::Never).unwrap();
        assert_eq!(other.arithmetic, Arithmetic::Update, "the spoiled column is left alone");
        assert_eq!(raid5.scrub().unwrap().arithmetic, Arithmetic::Nothing);
    }
}

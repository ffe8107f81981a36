//! The remainders of process numbers that `btrfs/pid` follows from, and which of them is due.

use mirrorball_core::geometry::Profile;
use std::thread;

/// The policy whose choice follows from the process.
const POLICY: &str = "btrfs/pid";
/// Number of `/proc/self/ns/pid` in the first namespace, whose numbers the kernel itself uses
/// (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// The remainders of process numbers that choose among the copies of an array.
#[derive(Clone, Copy, Debug)]
pub(super) struct PidRemainders {
    copies: u32,
}

impl PidRemainders {
    /// Those of an array of this profile; `None` if it has one copy.
    pub(super) fn new(profile: &str) -> Option<PidRemainders> {
        let profile = Profile::ALL.into_iter().find(|it| it.name() == profile)?;
        let copies = u32::try_from(profile.copies()).ok().filter(|copies| *copies > 1)?;
        Some(PidRemainders { copies })
    }

    /// The number of copies, which process numbers are divided by.
    pub(super) fn copies(self) -> u32 {
        self.copies
    }

    /// The remainder that the first process of a run had least often.
    pub(super) fn least_seen(self, first: &[u32]) -> u32 {
        let count = |remainder: &u32| first.iter().filter(|it| *it == remainder).count();
        (0..self.copies).min_by_key(count).unwrap_or(0)
    }

    pub(super) fn of(self, processes: &[u32]) -> Vec<u32> {
        processes.iter().map(|id| id % self.copies).collect()
    }

    /// Why remainders cannot be seen equally often; none if they can, or no setting has them.
    pub(super) fn note(
        self,
        rounds: usize,
        policies: &[String],
        namespace: &str,
    ) -> Option<String> {
        if !policies.iter().any(|policy| applies_to(policy)) {
            return None;
        }
        if !namespace.is_empty() && namespace != FIRST_NAMESPACE {
            return Some(
                "btrfs/pid follows from process numbers, of which a container sees others than the \
                 kernel: run bench outside of it to have each mirror read equally often"
                    .to_owned(),
            );
        }
        let (copies, rest) = (self.copies as usize, rounds % self.copies as usize);
        (rest > 0).then(|| {
            format!(
                "with {rounds} rounds the {copies} remainders of process numbers, which btrfs/pid \
                 follows from, cannot be seen equally often: --rounds {} can",
                rounds - rest + copies
            )
        })
    }

    /// Uses up numbers of processes before a start of fio. Linux numbers processes and threads in
    /// one sequence, and each start takes as many of them: without a shift each could have the same
    /// remainder.
    pub(super) fn shift(self, start: usize) {
        for _ in 0..self.shift_of(start) {
            // A thread that ends at once; which remainder comes out is looked at afterwards.
            let _ = thread::spawn(|| ()).join();
        }
    }

    /// Squares reach every remainder, whatever the numbers that a start takes.
    fn shift_of(self, start: usize) -> usize {
        start * start % self.copies as usize
    }

    /// True if this program sees the process numbers that the kernel uses.
    pub(super) fn are_known() -> bool {
        namespace() == FIRST_NAMESPACE
    }
}

/// The namespace of process numbers that this process is in; empty if that is not known.
pub(super) fn namespace() -> String {
    let link = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    link.display().to_string()
}

/// True if the choice of this policy follows from the process.
pub(super) fn applies_to(policy: &str) -> bool {
    policy == POLICY
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_profile_with_copies_has_remainders() {
        assert_eq!(PidRemainders::new("raid1").unwrap().copies, 2);
        assert_eq!(PidRemainders::new("raid1c4").unwrap().copies, 4);
        assert!(PidRemainders::new("single").is_none());
    }

    #[test]
    fn the_remainder_that_was_seen_least_is_next() {
        let remainders = PidRemainders::new("raid1c3").unwrap();
        assert_eq!(remainders.least_seen(&[]), 0);
        assert_eq!(remainders.least_seen(&[0, 0, 2]), 1);
        assert_eq!(remainders.least_seen(&[0, 1, 1, 2]), 0);
    }

    #[test]
    fn remainders_are_those_of_the_readers() {
        let remainders = PidRemainders::new("raid1").unwrap();
        assert_eq!(remainders.of(&[103, 105]), [1, 1]);
        assert_eq!(remainders.of(&[104, 103]), [0, 1]);
        assert!(remainders.of(&[]).is_empty());
    }

    #[test]
    fn every_remainder_comes_within_a_few_starts() {
        for copies in 2..=4 {
            let remainders = PidRemainders { copies };
            for taken in 0..copies as usize {
                let mut number = 0;
                let seen: BTreeSet<usize> = (1..=12)
                    .map(|start| {
                        number += taken + remainders.shift_of(start);
                        number % copies as usize
                    })
                    .collect();
                assert_eq!(seen.len(), copies as usize, "{copies} copies, {taken} a start");
            }
        }
    }

    #[test]
    fn what_cannot_be_equal_is_said_before() {
        let remainders = PidRemainders::new("raid1c3").unwrap();
        let policies = |it: &str| vec!["btrfs/devid:1".to_owned(), it.to_owned()];
        let note = |rounds| remainders.note(rounds, &policies("btrfs/pid"), FIRST_NAMESPACE);
        assert_eq!(note(6), None);
        assert!(note(4).unwrap().contains("--rounds 6 can"), "{:?}", note(4));
        assert_eq!(remainders.note(4, &policies("btrfs/devid:2"), FIRST_NAMESPACE), None);
        let inside = remainders.note(6, &policies("btrfs/pid"), "pid:[4026532201]");
        assert!(inside.unwrap().contains("a container sees others than the kernel"));
    }
}

//! The trap of `btrfs/pid`: the mirror follows from the number of the reading process.
//!
//! A run with one process reads one mirror of each chunk: which one is a toss of a coin, and the
//! same for the whole run. So rounds are steered to every remainder equally often: processes are
//! numbered one after the other, and a few that end at once come before fio. What a run really had
//! is recorded, and the spread between the remainders is a result.

use super::outcome::BenchOutcome;
use super::request::Bench;
use mirrorball_core::geometry::Profile;
use mirrorball_lab::report::{Column, Emphasis, Grid, GridRow};
use std::process::Command;

/// The policy whose choice follows from the process.
const POLICY: &str = "btrfs/pid";

/// Steers and notes the remainders of the processes that read.
#[derive(Clone, Copy, Debug)]
pub(super) struct PidSteering {
    copies: u32,
    /// Number of the first reading process minus that of fio, as seen last.
    offset: u32,
}

impl PidSteering {
    /// For an array of this profile; `None` if it has one copy.
    pub(super) fn new(profile: &str) -> Option<PidSteering> {
        let profile = Profile::ALL.into_iter().find(|it| it.name() == profile)?;
        let copies = u32::try_from(profile.copies()).ok().filter(|copies| *copies > 1)?;
        Some(PidSteering { copies, offset: 1 })
    }

    /// Starts processes until the next fio gives its first reader the remainder that the runs
    /// before had least often. A process that another program starts meanwhile spoils it, so the
    /// remainder is noted after each run.
    pub(super) fn steer(&self, before: &[u32]) {
        let Some(last) = process_that_ended() else { return };
        let wanted = self.least_seen(before);
        for _ in 0..self.processes_before(last, wanted) {
            process_that_ended();
        }
    }

    fn least_seen(&self, before: &[u32]) -> u32 {
        let count = |remainder: &u32| before.iter().filter(|it| *it == remainder).count();
        (0..self.copies).min_by_key(count).unwrap_or(0)
    }

    /// The number of processes to start after the one of number `last`.
    fn processes_before(&self, last: u32, wanted: u32) -> u32 {
        let reader = last.wrapping_add(1).wrapping_add(self.offset);
        (wanted + self.copies - reader % self.copies) % self.copies
    }

    /// Notes the processes of a run, and returns their remainders, each once.
    pub(super) fn remainders(&mut self, fio: u32, readers: &[u32]) -> Vec<u32> {
        if let Some(first) = readers.iter().min() {
            self.offset = first.saturating_sub(fio);
        }
        let mut remainders: Vec<u32> = readers.iter().map(|id| id % self.copies).collect();
        remainders.sort_unstable();
        remainders.dedup();
        remainders
    }
}

/// True if the choice of this policy follows from the process.
pub(super) fn applies_to(policy: &str) -> bool {
    policy == POLICY
}

/// Runs a program that does nothing, and returns its process number.
fn process_that_ended() -> Option<u32> {
    let mut child = Command::new("true").spawn().ok()?;
    let number = child.id();
    child.wait().ok()?;
    Some(number)
}

impl BenchOutcome {
    /// What the runs of a job under `btrfs/pid` achieved by the remainder of their process number;
    /// none if no run had a single remainder.
    pub fn pid_grid(&self, bench: &Bench, job: usize) -> Option<Grid> {
        let arm = bench.plan.policies.iter().position(|policy| applies_to(policy))?;
        let copies = PidSteering::new(bench.array.profile)?.copies;
        let rate_of = |remainder: u32| {
            let runs = self.runs.iter().filter(move |run| (run.job, run.arm) == (job, arm));
            runs.filter(move |run| run.remainders == [remainder]).map(|run| run.iops)
        };
        let row = |remainder: u32| {
            let rates: Vec<f64> = rate_of(remainder).collect();
            let mut texts = vec![format!("{remainder}"), rates.len().to_string()];
            let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
            let most = rates.iter().copied().fold(0.0, f64::max);
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            texts.extend(match rates.len() {
                0 => ["not seen".to_owned(), String::new(), String::new()],
                _ => [mean, least, most].map(|rate| format!("{rate:.1}")),
            });
            GridRow { emphasis: Emphasis::None, texts }
        };
        if (0..copies).all(|remainder| rate_of(remainder).next().is_none()) {
            return None;
        }
        let columns = vec![
            Column::right(format!("PID mod {copies}")),
            Column::right("runs"),
            Column::right("IOPS"),
            Column::right("least"),
            Column::right("most"),
        ];
        Some(Grid { columns, rows: (0..copies).map(row).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::PidSteering;
    use proptest::prelude::{prop_assert_eq, proptest};

    #[test]
    fn every_profile_with_copies_is_steered() {
        assert_eq!(PidSteering::new("raid1").unwrap().copies, 2);
        assert_eq!(PidSteering::new("raid1c4").unwrap().copies, 4);
        assert!(PidSteering::new("single").is_none());
    }

    #[test]
    fn the_remainder_that_was_seen_least_is_next() {
        let steering = PidSteering::new("raid1c3").unwrap();
        assert_eq!(steering.least_seen(&[]), 0);
        assert_eq!(steering.least_seen(&[0, 0, 2]), 1);
        assert_eq!(steering.least_seen(&[0, 1, 1, 2]), 0);
    }

    #[test]
    fn remainders_are_those_of_the_readers() {
        let mut steering = PidSteering::new("raid1").unwrap();
        assert_eq!(steering.remainders(100, &[103, 105]), [1]);
        assert_eq!(steering.offset, 3);
        assert_eq!(steering.remainders(100, &[103, 104]), [0, 1]);
        assert!(steering.remainders(100, &[]).is_empty());
        assert_eq!(steering.offset, 3, "a run without readers says nothing");
    }

    proptest! {
        #[test]
        fn the_reader_gets_the_wanted_remainder(
            last in 1u32..4_000_000, offset in 1u32..9, copies in 2u32..5, wanted in 0u32..5,
        ) {
            let (steering, wanted) = (PidSteering { copies, offset }, wanted % copies);
            let before = steering.processes_before(last, wanted);
            let fio = last + before + 1;
            prop_assert_eq!((fio + offset) % copies, wanted);
            prop_assert_eq!(before < copies, true);
        }
    }
}

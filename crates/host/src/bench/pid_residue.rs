//! The trap of `btrfs/pid`: the mirror follows from the number of the reading process.
//!
//! A run with one process reads one mirror of each chunk: which one is a toss of a coin, and the
//! same for the whole run. So fio is started again, at once, until its process has the remainder
//! that the runs before had least often. What a run really had is recorded, and the spread between
//! the remainders is a result.

use super::outcome::BenchOutcome;
use super::request::Bench;
use mirrorball_core::geometry::Profile;
use mirrorball_lab::experiment::study::Yardstick;
use mirrorball_lab::report::{Column, Emphasis, Grid, GridRow};

/// The policy whose choice follows from the process.
const POLICY: &str = "btrfs/pid";

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

    /// The remainder that was seen least often.
    pub(super) fn least_seen(self, before: &[u32]) -> u32 {
        let count = |remainder: &u32| before.iter().filter(|it| *it == remainder).count();
        (0..self.copies).min_by_key(count).unwrap_or(0)
    }

    /// The remainders of processes, each once, in ascending order.
    pub(super) fn of(self, processes: &[u32]) -> Vec<u32> {
        let mut remainders: Vec<u32> = processes.iter().map(|id| id % self.copies).collect();
        remainders.sort_unstable();
        remainders.dedup();
        remainders
    }
}

/// True if the choice of this policy follows from the process.
pub(super) fn applies_to(policy: &str) -> bool {
    policy == POLICY
}

impl BenchOutcome {
    /// What the runs of a job under `btrfs/pid` achieved by the remainder of their process number;
    /// none if no run had a single remainder.
    pub fn pid_grid(&self, bench: &Bench, job: usize) -> Option<Grid> {
        let arm = bench.plan.policies.iter().position(|policy| applies_to(policy))?;
        let copies = PidRemainders::new(bench.array.profile)?.copies;
        let scoring = self.scoring(job)?;
        let rate_of = |remainder: u32| {
            let runs = self.runs.iter().filter(move |run| (run.job, run.arm) == (job, arm));
            let runs = runs.filter(move |run| run.remainders == [remainder]);
            runs.map(|run| scoring.score(&run.summary))
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
            Column::right(match scoring.yardstick() {
                Yardstick::Iops => "IOPS",
                Yardstick::MeanLatency => "1/latency",
                Yardstick::Score => "score",
            }),
            Column::right("least"),
            Column::right("most"),
        ];
        Some(Grid { columns, rows: (0..copies).map(row).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::PidRemainders;

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
        assert_eq!(remainders.of(&[103, 105]), [1]);
        assert_eq!(remainders.of(&[104, 103]), [0, 1]);
        assert!(remainders.of(&[]).is_empty());
    }
}

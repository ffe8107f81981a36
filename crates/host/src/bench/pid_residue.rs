//! The trap of `btrfs/pid`: the mirror follows from the number of the reading process.
//!
//! A run with one process reads one mirror of each chunk: which one is a toss of a coin, and the
//! same for the whole run. So fio is started again, at once, until the number of its first process
//! has the remainder that the runs before had least often. Further processes of a run have the
//! numbers after the first. The number that counts is that of the thread that reads, as the kernel
//! accounts it. What a run really had is recorded, and the spread between the remainders is a
//! result.

use super::outcome::{BenchOutcome, SavedRun};
use super::pid_remainders::{PidRemainders, applies_to};
use super::request::Bench;
use mirrorball_lab::experiment::study::Yardstick;
use mirrorball_lab::report::{Column, Emphasis, Grid, GridRow};

impl BenchOutcome {
    /// Results of the runs of a job under `btrfs/pid` by the remainder of their process number;
    /// none if no run had a single remainder.
    pub fn pid_grid(&self, bench: &Bench, job: usize) -> Option<Grid> {
        let arm = bench.plan.policies.iter().position(|policy| applies_to(policy))?;
        let copies = PidRemainders::new(bench.array.profile)?.copies();
        let scoring = self.scoring(job)?;
        let runs = || self.runs.iter().filter(|run| (run.job, run.arm) == (job, arm));
        let is_of = |run: &SavedRun, remainder: u32| {
            let remainders = &run.conditions.remainders;
            !remainders.is_empty() && remainders.iter().all(|it| *it == remainder)
        };
        let is_mixed = |run: &SavedRun| (0..copies).all(|remainder| !is_of(run, remainder));
        let rates = |is_it: &dyn Fn(&SavedRun) -> bool| -> Vec<f64> {
            runs().filter(|run| is_it(run)).map(|run| scoring.score(&run.summary)).collect()
        };
        let rates_of = |remainder: u32| rates(&|run| is_of(run, remainder));
        let row = |name: String, rates: Vec<f64>| {
            let mut texts = vec![name, rates.len().to_string()];
            let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
            let most = rates.iter().copied().fold(0.0, f64::max);
            let mean = rates.iter().sum::<f64>() / rates.len() as f64;
            texts.extend(match rates.len() {
                0 => ["not seen".to_owned(), String::new(), String::new()],
                _ => [mean, least, most].map(|rate| format!("{rate:.1}")),
            });
            GridRow { emphasis: Emphasis::None, texts }
        };
        if (0..copies).all(|remainder| rates_of(remainder).is_empty()) {
            return None;
        }
        let mut rows: Vec<GridRow> =
            (0..copies).map(|it| row(it.to_string(), rates_of(it))).collect();
        let mixed = rates(&is_mixed);
        if !mixed.is_empty() {
            rows.push(row("several".to_owned(), mixed));
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
        Some(Grid { columns, rows })
    }

    /// Says how often each remainder was seen during a job under `btrfs/pid`, if not equally often:
    /// the figures of the setting are then more those of some members than of others.
    pub fn pid_warning(&self, bench: &Bench, job: usize) -> Option<String> {
        let arm = bench.plan.policies.iter().position(|policy| applies_to(policy))?;
        let copies = PidRemainders::new(bench.array.profile)?.copies();
        let runs = self.runs.iter().filter(|run| (run.job, run.arm) == (job, arm));
        let seen: Vec<u32> =
            runs.flat_map(|run| run.conditions.remainders.iter().copied()).collect();
        let counts = counts_of(&seen, copies);
        let is_equal = counts.iter().all(|count| *count == counts[0]);
        (!seen.is_empty() && !is_equal).then(|| {
            let each: Vec<String> = (0..copies)
                .zip(&counts)
                .map(|(remainder, count)| format!("{remainder} in {count}"))
                .collect();
            format!(
                "btrfs/pid during {}: of {} processes that read, PID mod {copies} was {}: its \
                 figures are more those of some members than of others",
                bench.plan.jobs[job].name,
                seen.len(),
                each.join(" and ")
            )
        })
    }
}

fn counts_of(remainders: &[u32], copies: u32) -> Vec<usize> {
    let count = |remainder| remainders.iter().filter(|it| **it == remainder).count();
    (0..copies).map(count).collect()
}

#[cfg(test)]
mod tests {
    use super::counts_of;

    #[test]
    fn each_remainder_is_counted() {
        assert_eq!(counts_of(&[0, 1, 1], 2), [1, 2]);
        assert_eq!(counts_of(&[2], 3), [0, 0, 1]);
    }
}

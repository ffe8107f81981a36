//! How the settings compare: each against the first one, and measured scores against predicted
//! ones. Scores are those of the report: of each section, its rate, or its mean latency if the job
//! gives it a rate; over several sections their geometric mean.

use super::block_statistics::Effect;
use super::outcome::{BenchOutcome, SavedRun};
use super::request::Bench;
use mirrorball_lab::experiment::study::Study;
use mirrorball_lab::report::{Column, Grid};

/// Pairs of settings whose rates differ by less than this part are not ranked.
const RANKED_MIN: f64 = 0.1;

/// A prediction next to what was measured.
#[derive(Debug)]
pub struct PredictionTable {
    /// One row per job and setting that both have.
    pub grid: Grid,
    /// Greatest difference, as a fraction of what was measured.
    pub worst: f64,
    /// Kendall's tau over the pairs of settings that were measured more than 10 % apart under a
    /// job; none if there is no such pair.
    pub tau: Option<f64>,
}

impl BenchOutcome {
    /// Each setting of a job against the first one: the one in force, unless `--policy` leaves it
    /// out. None with one setting.
    pub fn effect_grid(&self, bench: &Bench, job: usize) -> Option<Grid> {
        let policies = &bench.plan.policies;
        let settings = policies.iter().enumerate().skip(1);
        let effects: Vec<(&String, Effect)> = settings
            .filter_map(|(arm, policy)| Some((policy, self.effect(bench, job, arm)?)))
            .collect();
        let interval = |it: Option<(f64, f64)>| {
            it.map_or_else(String::new, |(low, high)| format!("{low:.3} to {high:.3}"))
        };
        let against = format!("against {}", policies.first()?);
        let grid = Grid::of(&effects)
            .column(Column::left("setting"), |(policy, _)| (*policy).clone())
            .column(Column::right("units"), |(_, it)| it.units.to_string())
            .column(Column::right("ratio"), |(_, it)| format!("{:.3}", it.ratio))
            .column(Column::left("95 % interval"), |(_, it)| interval(it.interval))
            .column(Column::right("sign-flip p"), |(_, it)| {
                it.flip_p.map_or_else(String::new, |p| format!("{p:.3}"))
            })
            .column(Column::left("at any time"), |(_, it)| interval(it.sequence))
            .column(Column::left(against), |(_, it)| it.verdict().name().to_owned());
        (!effects.is_empty()).then(|| grid.build())
    }

    /// True if more rounds of a job are not needed, because each setting is known to be faster,
    /// slower or equal.
    pub(super) fn is_decided(&self, bench: &Bench, job: usize) -> bool {
        let arms = bench.plan.policies.len();
        let is_decided = |arm| self.effect(bench, job, arm).is_some_and(|it| it.is_decided());
        arms > 1 && (1..arms).all(is_decided)
    }

    fn effect(&self, bench: &Bench, job: usize, arm: usize) -> Option<Effect> {
        let scoring = self.scoring(job)?;
        let score = |arm: usize, round: usize| {
            let is_it = |run: &&SavedRun| (run.job, run.arm, run.round) == (job, arm, round);
            let run = self.runs.iter().find(is_it).filter(|run| run.is_compared())?;
            Some(scoring.score(&run.summary))
        };
        let scores = |arm| (0..bench.rounds).map(|round| score(arm, round)).collect::<Vec<_>>();
        let rounds_per_unit = if bench.plan.policies.len() == 2 { 2 } else { 1 };
        Effect::new(&scores(arm), &scores(0), rounds_per_unit)
    }
}

/// Part of `predicted` about the jobs and settings of `measured`; none if they share none.
pub fn prediction_table(predicted: &Study, measured: &Study) -> Option<PredictionTable> {
    let mut rows = Vec::new();
    let mut worst: f64 = 0.0;
    let mut ranks = Vec::new();
    for job in &measured.jobs {
        let Some(other) = predicted.jobs.iter().find(|other| other.job == job.job) else {
            continue;
        };
        let mut pairs = Vec::new();
        for row in &job.rows {
            let found = other.rows.iter().find(|found| found.policy == row.policy);
            let Some(found) = found.filter(|_| row.score.value > 0.0) else { continue };
            let (before, after) = (found.score.value, row.score.value);
            worst = worst.max((before / after - 1.0).abs());
            pairs.push((before, after));
            rows.push((&job.job, &row.policy, before, after));
        }
        ranks.extend(agreements(&pairs));
    }
    let grid = Grid::of(&rows)
        .column(Column::left("job"), |(job, ..)| (*job).clone())
        .column(Column::left("setting"), |(_, policy, ..)| (*policy).clone())
        .column(Column::right("predicted"), |(_, _, before, _)| format!("{before:.1}"))
        .column(Column::right("measured"), |(.., after)| format!("{after:.1}"))
        .column(Column::right("difference"), |(_, _, before, after)| {
            format!("{:+.1} %", 100.0 * (before / after - 1.0))
        });
    let tau = (!ranks.is_empty()).then(|| ranks.iter().sum::<f64>() / ranks.len() as f64);
    (!rows.is_empty()).then(|| PredictionTable { grid: grid.build(), worst, tau })
}

/// For each pair of settings that were measured more than 10 % apart: 1 if they were predicted in
/// the same order, −1 if in the other, 0 if equal.
fn agreements(pairs: &[(f64, f64)]) -> Vec<f64> {
    let mut agreements = Vec::new();
    for (index, one) in pairs.iter().enumerate() {
        for other in &pairs[index + 1..] {
            let (low, high) = (one.1.min(other.1), one.1.max(other.1));
            if high > low * (1.0 + RANKED_MIN) {
                let same = (one.0 - other.0) * (one.1 - other.1);
                agreements.push(if same == 0.0 { 0.0 } else { same.signum() });
            }
        }
    }
    agreements
}

#[cfg(test)]
mod tests {
    use super::agreements;

    #[test]
    fn pairs_that_are_close_are_not_ranked() {
        // Predicted and measured; the first two were measured 5 % apart.
        let pairs = [(1.0, 100.0), (3.0, 105.0), (2.0, 200.0)];
        assert_eq!(agreements(&pairs), [1.0, -1.0]);
        assert_eq!(agreements(&[(1.0, 100.0), (1.0, 200.0)]), [0.0]);
        assert!(agreements(&pairs[..1]).is_empty());
    }
}

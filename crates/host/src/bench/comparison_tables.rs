//! How the settings compare, each against the first one. Scores are those of the report: of each
//! section, its rate, or its mean latency if the job gives it a rate; over several sections their
//! geometric mean.

use super::block_statistics::Effect;
use super::outcome::{BenchOutcome, SavedRun};
use super::request::Bench;
use mirrorball_lab::report::{Column, Grid};

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
            .column(Column::left(against), |(_, it)| it.verdict().name().to_owned());
        (!effects.is_empty()).then(|| grid.build())
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

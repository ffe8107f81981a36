//! From studies to standings: every policy against the best rival of each pairing.
//!
//! - The *score* of a policy is that of [`crate::experiment::study::score`].
//! - Its *ratio* is its score over that of the best rival. Rivals only: so the ratio of one subject
//!   does not depend on which others are judged, and a subject may have more than one.
//! - A *win* is a ratio of at least [`WIN`].
//! - A subject is held to a least ratio, and where it ties, to a tail (see [`Held`]).
//! - The ratio to the oracle, and that of the 99.9th percentiles of the latency to the best
//!   rival's, are next to it. The oracle is greedy and can be beaten.

use super::LeagueRequest;
use super::matrix::Half;
use crate::experiment::record::ORACLE;
use crate::experiment::study::statistics::geometric_mean;
use crate::experiment::study::{JobStudy, Row, Study, Yardstick};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Ratio to the best rival from which on a policy shares its win.
pub const WIN: f64 = 0.99;
/// Below this ratio a subject is behind; from it to its inverse, the subject ties.
pub const LEAST: f64 = 0.97;
/// Greatest ratio of the 99.9th percentile to the best rival's that a tie may have.
pub const TAIL_MOST: f64 = 1.1;

/// One job on one array, under every policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Pairing {
    /// The array.
    pub array: String,
    /// The job.
    pub job: String,
    /// Which half it belongs to.
    pub half: Half,
    /// By what it is judged.
    pub yardstick: Yardstick,
    /// The rival with the highest score.
    pub best: String,
    /// The subjects and then the rivals, in the order they were asked for; last, the oracle.
    pub entries: Vec<PairingEntry>,
}

/// One policy under one pairing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PairingEntry {
    /// The policy.
    pub policy: String,
    /// Requests a second.
    pub iops: f64,
    /// MiB a second.
    pub mib_per_s: f64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
    /// 99.9th percentile of the latency in microseconds.
    pub p99_9_us: f64,
    /// Its score over that of the best rival.
    pub ratio: f64,
    /// Its 99.9th percentile over that of the best rival.
    pub p99_9_ratio: f64,
    /// Its score over the oracle's.
    pub of_oracle: f64,
}

/// The result of a league.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Standings {
    /// The command that repeats it.
    pub command: String,
    /// The policies that are judged.
    pub subjects: Vec<String>,
    /// How many rivals they are judged against.
    pub rivals: usize,
    /// How often each cell was run.
    pub repeats: u32,
    /// Base of the seeds.
    pub seed: u64,
    /// Whether runs were short.
    pub quick: bool,
    /// One for each half that was run.
    pub tables: Vec<LeagueTable>,
    /// Every pairing, array by array.
    pub pairings: Vec<Pairing>,
}

/// Every policy over one half.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct LeagueTable {
    /// Which half.
    pub half: Half,
    /// How many pairings it has.
    pub pairings: usize,
    /// The policies, the highest geometric mean first; the oracle among them.
    pub rows: Vec<LeagueRow>,
}

/// One policy over one half.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct LeagueRow {
    /// The policy.
    pub policy: String,
    /// Geometric mean of its ratios.
    pub geometric_mean: f64,
    /// Its least ratio.
    pub worst: f64,
    /// The array of that.
    pub worst_array: String,
    /// The job of that.
    pub worst_job: String,
    /// Pairings that it wins.
    pub wins: usize,
    /// Geometric mean of its ratios to the oracle.
    pub of_oracle: f64,
}

/// How a subject meets its targets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Held {
    /// Geometric mean of its ratios.
    pub geometric_mean: f64,
    /// Pairings where it is under [`LEAST`].
    pub behind: usize,
    /// Pairings where it ties with the best rival.
    pub ties: usize,
    /// Those of them where its 99.9th percentile is over [`TAIL_MOST`] of the best rival's.
    pub long_tails: usize,
}

/// A ratio and the pairing it was reached on.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// The ratio.
    pub ratio: f64,
    /// The array and the job.
    pub on: String,
}

/// One subject against the first.
#[derive(Clone, Debug, PartialEq)]
pub struct Versus {
    /// Geometric mean of its score over the first's.
    pub geometric_mean: f64,
    /// Where it does worst against it.
    pub least: Reached,
    /// Where it does best.
    pub most: Reached,
}

/// The first subject under all jobs on one array, or on all arrays under one job.
#[derive(Clone, Debug, PartialEq)]
pub struct Breakdown {
    /// The array or the job.
    pub name: String,
    /// How many pairings that is.
    pub pairings: usize,
    /// Geometric mean of its ratios.
    pub geometric_mean: f64,
    /// Geometric mean of its ratios to the oracle.
    pub of_oracle: f64,
    /// Its least ratio.
    pub worst: Reached,
}

/// The pairings of a study of one array.
pub(super) fn pairings(study: &Study, rivals: &[String]) -> Vec<Pairing> {
    study.jobs.iter().map(|job| pairing(&study.plan.array.name, job, rivals)).collect()
}

fn pairing(array: &str, job: &JobStudy, rivals: &[String]) -> Pairing {
    let score = |row: &Row| row.score.value;
    let best = job
        .rows
        .iter()
        .filter(|row| rivals.contains(&row.policy))
        // `max_by` takes the last of equals; the first in the plan is wanted.
        .rev()
        .max_by(|left, right| score(left).total_cmp(&score(right)))
        .expect("a league has a rival");
    let oracle = job.rows.iter().find(|row| row.policy == ORACLE).expect("it takes part");
    let best_tail_us = job.main_figures(best).p99_9_us.value;
    let entry = |row: &Row| {
        let figures = job.main_figures(row);
        PairingEntry {
            policy: row.policy.clone(),
            iops: figures.iops.value,
            mib_per_s: figures.mib_per_s.value,
            mean_us: figures.mean_us.value,
            p99_9_us: figures.p99_9_us.value,
            ratio: ratio(score(row), score(best)),
            p99_9_ratio: ratio(figures.p99_9_us.value, best_tail_us),
            of_oracle: ratio(score(row), score(oracle)),
        }
    };
    Pairing {
        array: array.to_owned(),
        job: job.job.clone(),
        half: Half::of(array, &job.job),
        yardstick: job.yardstick,
        best: best.policy.clone(),
        entries: job.rows.iter().map(entry).collect(),
    }
}

/// `of / to`; 1 if both are zero, so that neither policy is ahead.
fn ratio(of: f64, to: f64) -> f64 {
    if to > 0.0 { of / to } else { 1.0 }
}

impl Standings {
    /// The standings of a league from its pairings.
    pub(super) fn new(asked: &LeagueRequest, pairings: Vec<Pairing>) -> Standings {
        let of_half = |half: Half| {
            let of: Vec<&Pairing> = pairings.iter().filter(|it| it.half == half).collect();
            (!of.is_empty()).then(|| LeagueTable::new(half, &of))
        };
        Standings {
            command: asked.command.clone(),
            subjects: asked.subjects.clone(),
            rivals: asked.rivals.len(),
            repeats: asked.repeats,
            seed: asked.seed,
            quick: asked.quick,
            tables: Half::ALL.into_iter().filter_map(of_half).collect(),
            pairings,
        }
    }
}

impl Standings {
    /// The pairings of a table.
    pub fn of(&self, table: &LeagueTable) -> Vec<&Pairing> {
        self.pairings.iter().filter(|pairing| pairing.half == table.half).collect()
    }

    /// How a subject meets its targets.
    pub fn held(&self, table: &LeagueTable, subject: &str) -> Held {
        let pairings = self.of(table);
        let entries: Vec<&PairingEntry> = pairings.iter().map(|it| it.entry(subject)).collect();
        let count =
            |fits: &dyn Fn(&PairingEntry) -> bool| entries.iter().filter(|it| fits(it)).count();
        let is_tie = |entry: &PairingEntry| (LEAST..=1.0 / LEAST).contains(&entry.ratio);
        let ratios: Vec<f64> = entries.iter().map(|entry| entry.ratio).collect();
        Held {
            geometric_mean: geometric_mean(&ratios),
            behind: count(&|entry| entry.ratio < LEAST),
            ties: count(&is_tie),
            long_tails: count(&|entry| is_tie(entry) && entry.p99_9_ratio > TAIL_MOST),
        }
    }

    /// A subject against the first.
    pub fn versus(&self, table: &LeagueTable, subject: &str) -> Versus {
        let first = &self.subjects[0];
        let reached = |pairing: &&Pairing| Reached {
            ratio: ratio(pairing.entry(subject).ratio, pairing.entry(first).ratio),
            on: pairing.on(),
        };
        let all: Vec<Reached> = self.of(table).iter().map(reached).collect();
        let ratios: Vec<f64> = all.iter().map(|it| it.ratio).collect();
        let geometric_mean = geometric_mean(&ratios);
        Versus { geometric_mean, least: extreme(&all, f64::lt), most: extreme(&all, f64::gt) }
    }

    /// The first subject, array by array.
    pub fn by_array(&self, table: &LeagueTable) -> Vec<Breakdown> {
        self.parts(table, |pairing| &pairing.array)
    }

    /// The first subject, job by job.
    pub fn by_job(&self, table: &LeagueTable) -> Vec<Breakdown> {
        self.parts(table, |pairing| &pairing.job)
    }

    fn parts(&self, table: &LeagueTable, name: fn(&Pairing) -> &str) -> Vec<Breakdown> {
        let all = self.of(table);
        let mut names: Vec<&str> = Vec::new();
        for pairing in &all {
            if !names.contains(&name(pairing)) {
                names.push(name(pairing));
            }
        }
        let first = &self.subjects[0];
        let part = |part: &str| {
            let own: Vec<&&Pairing> = all.iter().filter(|pairing| name(pairing) == part).collect();
            let mean = |pick: fn(&PairingEntry) -> f64| {
                geometric_mean(&own.iter().map(|it| pick(it.entry(first))).collect::<Vec<f64>>())
            };
            let reached: Vec<Reached> = own
                .iter()
                .map(|it| Reached { ratio: it.entry(first).ratio, on: it.on() })
                .collect();
            Breakdown {
                name: part.to_owned(),
                pairings: own.len(),
                geometric_mean: mean(|entry| entry.ratio),
                of_oracle: mean(|entry| entry.of_oracle),
                worst: extreme(&reached, f64::lt),
            }
        };
        names.into_iter().map(part).collect()
    }
}

/// The first of `all` that no other is further than.
fn extreme(all: &[Reached], is_further: fn(&f64, &f64) -> bool) -> Reached {
    let mut extreme = &all[0];
    for reached in all {
        if is_further(&reached.ratio, &extreme.ratio) {
            extreme = reached;
        }
    }
    extreme.clone()
}

impl LeagueTable {
    fn new(half: Half, pairings: &[&Pairing]) -> LeagueTable {
        let count = pairings[0].entries.len();
        let mut rows: Vec<LeagueRow> =
            (0..count).map(|index| LeagueRow::new(index, pairings)).collect();
        rows.sort_by(|left, right| right.geometric_mean.total_cmp(&left.geometric_mean));
        LeagueTable { half, pairings: pairings.len(), rows }
    }

    /// The rival with the highest geometric mean.
    pub fn best_rival(&self, subjects: &[String]) -> &LeagueRow {
        let is_rival = |row: &&LeagueRow| row.policy != ORACLE && !subjects.contains(&row.policy);
        self.rows.iter().find(is_rival).expect("a league has a rival")
    }
}

impl LeagueRow {
    /// Of the policy with this place in every pairing.
    fn new(index: usize, pairings: &[&Pairing]) -> LeagueRow {
        let entries = || pairings.iter().map(|pairing| &pairing.entries[index]);
        let mean = |pick: fn(&PairingEntry) -> f64| {
            geometric_mean(&entries().map(pick).collect::<Vec<_>>())
        };
        let worst = pairings
            .iter()
            .min_by(|left, right| left.entries[index].ratio.total_cmp(&right.entries[index].ratio))
            .expect("a half that is played has pairings");
        LeagueRow {
            policy: worst.entries[index].policy.clone(),
            geometric_mean: mean(|entry| entry.ratio),
            worst: worst.entries[index].ratio,
            worst_array: worst.array.clone(),
            worst_job: worst.job.clone(),
            wins: entries().filter(|entry| entry.ratio >= WIN).count(),
            of_oracle: mean(|entry| entry.of_oracle),
        }
    }
}

impl Pairing {
    /// What a policy of the league achieved.
    ///
    /// # Panics
    /// If it takes no part.
    pub fn entry(&self, policy: &str) -> &PairingEntry {
        let found = self.entries.iter().find(|entry| entry.policy == policy);
        found.expect("a policy that takes part is in every pairing")
    }

    /// Its names in one.
    fn on(&self) -> String {
        format!("{} {}", self.array, self.job)
    }

    /// The best rival's figure by which the pairing is judged, with its unit.
    pub fn best_figure(&self) -> String {
        let best = self.entry(&self.best);
        match self.yardstick {
            Yardstick::Iops | Yardstick::Score => format!("{:.0} IOPS", best.iops),
            Yardstick::MeanLatency => format!("{:.0} us", best.mean_us),
        }
    }
}

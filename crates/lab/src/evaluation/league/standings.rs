//! From saved outcomes to standings: every policy against the best rival of each pairing.
//!
//! - The *score* of a policy in a pairing is the geometric mean over the sections of the job, as in
//!   [`crate::experiment::study::score`].
//! - Its *ratio* is its score over that of the best rival. A ratio under [`RATIO_MIN`] counts as
//!   that in geometric means, since a section without a single request has a score of zero.
//! - A section is *starved* if it gets less than [`STARVED`] of what it gets under the best rival:
//!   the rival with the best score, hence a balanced one.
//! - A *tie* is a ratio near one; there the tails of the sections are compared, where both have
//!   reads enough to know them.

use super::bootstrap::{Bounded, bounded, exponential_mean, fifth_percentile, median};
use super::class::{Class, Classes};
use super::record::{EntryRecord, PairingRecord, SectionFigures};
use super::{LeagueRequest, REFERENCES};
use crate::experiment::study::statistics::geometric_mean;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;

/// Ratio to the best rival from which on a policy shares its win.
pub const WIN: f64 = 0.99;
/// Least ratio of a tie; its inverse is the greatest.
const LEAST: f64 = 0.97;
/// Greatest ratio of a percentile to the best rival's that a tie may have.
pub const TAIL_MOST: f64 = 1.1;
/// Least ratio that counts in a geometric mean.
pub const RATIO_MIN: f64 = 0.01;
/// Part of what a section gets under the best rival below which it is starved.
pub const STARVED: f64 = 0.5;
/// Reads from which on a 99th and a 99.9th percentile is compared.
const READS_FOR_P99: u64 = 500;
const READS_FOR_P99_9: u64 = 5_000;

/// The result of a league.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Standings {
    /// The command that repeats it.
    pub command: String,
    /// Seed of all draws.
    pub seed: u64,
    /// Whether runs were short.
    pub quick: bool,
    /// The policies that are judged.
    pub subjects: Vec<String>,
    /// How many rivals they are judged against.
    pub rivals: usize,
    /// Every policy, the highest geometric mean first; the references among them.
    pub rows: Vec<LeagueRow>,
    /// Every pairing, by number.
    pub pairings: Vec<Pairing>,
}

/// One policy over all pairings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct LeagueRow {
    /// The policy.
    pub policy: String,
    /// Geometric mean of its ratios.
    pub geometric_mean: Bounded,
    /// Median of its ratios.
    pub median: f64,
    /// 5th percentile of its ratios.
    pub fifth_percentile: Bounded,
    /// Its least ratio.
    pub worst: f64,
    /// The number of the pairing of that.
    pub worst_number: u32,
    /// Pairings in which its ratio is at least that of a win.
    pub wins: usize,
    /// Pairings in which it starves a section.
    pub starved: usize,
    /// Geometric mean of its scores over those of each reference.
    pub of_reference: Vec<f64>,
}

/// One pairing, under every policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Pairing {
    /// Its number.
    pub number: u32,
    /// What its array is.
    pub array: Classes,
    /// What its job is.
    pub job: Classes,
    /// The rival with the highest score.
    pub best: String,
    /// The commands that run it again under the first subject and that rival.
    pub replay: String,
    /// The subjects, the rivals and the references.
    pub entries: Vec<PairingEntry>,
}

/// One policy in one pairing.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PairingEntry {
    /// The policy.
    pub policy: String,
    /// Its score.
    pub score: f64,
    /// Its score over that of the best rival.
    pub ratio: f64,
    /// The least part of a section's score over that under the best rival.
    pub least_section: f64,
    /// The section of that.
    pub least_section_name: String,
    /// Greatest 99th percentile of a section over that under the best rival, where both have reads
    /// enough.
    pub p99_ratio: Option<f64>,
    /// The same for the 99.9th percentile.
    pub p99_9_ratio: Option<f64>,
    /// Comparison with the last build of a subject that ran here.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_build: Option<LastBuild>,
}

/// A policy in one pairing by its last build.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct LastBuild {
    /// Name of that build: of the program that is the policy, or of this one.
    pub build: String,
    /// The policy's score over its score by that build.
    pub ratio: f64,
}

/// A subject against its last build.
#[derive(Clone, Debug, PartialEq)]
pub struct LastBuildComparison {
    pub build: String,
    /// Number of pairings that both ran.
    pub pairings: usize,
    pub geometric_mean: Bounded,
    /// Pairings in which this build is better, and those in which it is worse, by more than a tie.
    pub changes: (usize, usize),
    /// Least ratio, with the number of its pairing.
    pub worst: (f64, u32),
}

/// The first subject in the pairings of one class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassRow {
    pub class: Class,
    pub pairings: usize,
    pub geometric_mean: Bounded,
    /// 5th percentile of the ratios.
    pub fifth_percentile: f64,
    pub worst: f64,
    pub worst_number: u32,
    pub starved: usize,
    /// The rival with the highest geometric mean in these pairings.
    pub best_rival: String,
    /// That geometric mean.
    pub best_rival_mean: f64,
}

/// Tails of a subject where it ties with the best rival.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tails {
    pub ties: usize,
    /// Ties in which the 99th percentile is known, and those in which it is too long.
    pub p99: (usize, usize),
    /// The same for the 99.9th percentile.
    pub p99_9: (usize, usize),
}

impl Standings {
    /// The standings of a sample from the outcomes of its pairings.
    pub(super) fn new(request: &LeagueRequest, records: &[PairingRecord]) -> Standings {
        let pairing = |record| Pairing::new(request, record);
        Standings::of_pairings(request, records.iter().map(pairing).collect())
    }

    /// The standings of a sample from its pairings, by number.
    fn of_pairings(request: &LeagueRequest, pairings: Vec<Pairing>) -> Standings {
        let row = |index| LeagueRow::new(index, &pairings);
        let mut rows: Vec<LeagueRow> = (0..pairings[0].entries.len()).map(row).collect();
        rows.sort_by(|left, right| {
            right.geometric_mean.value.total_cmp(&left.geometric_mean.value)
        });
        Standings {
            command: request.command.clone(),
            seed: request.seed,
            quick: request.quick,
            subjects: request.subjects.clone(),
            rivals: request.rivals.len(),
            rows,
            pairings,
        }
    }

    /// The row of a policy. Panics if it takes no part.
    pub fn row(&self, policy: &str) -> &LeagueRow {
        self.rows.iter().find(|row| row.policy == policy).expect("every policy has a row")
    }

    /// The rival with the highest geometric mean.
    pub fn best_rival(&self) -> &LeagueRow {
        let is_rival = |row: &&LeagueRow| self.is_rival(&row.policy);
        self.rows.iter().find(is_rival).expect("a league has a rival")
    }

    fn is_rival(&self, policy: &str) -> bool {
        !is_reference(policy) && !self.subjects.iter().any(|subject| subject == policy)
    }

    /// The score of one policy over that of another, geometric mean over all pairings.
    pub fn compared(&self, policy: &str, other: &str) -> Bounded {
        let logarithm = |pairing: &Pairing| {
            logarithm(pairing.entry(policy).ratio) - logarithm(pairing.entry(other).ratio)
        };
        let logarithms: Vec<f64> = self.pairings.iter().map(logarithm).collect();
        bounded(&logarithms, exponential_mean)
    }

    /// A subject against its last build, of those that ran the one that ran the most pairings.
    pub fn last_build(&self, subject: &str) -> Option<LastBuildComparison> {
        let mut by_build: BTreeMap<&str, Vec<(&Pairing, f64)>> = BTreeMap::new();
        for pairing in &self.pairings {
            if let Some(last) = &pairing.entry(subject).last_build {
                by_build.entry(&last.build).or_default().push((pairing, last.ratio));
            }
        }
        let (build, ratios) = by_build.into_iter().max_by_key(|(_, ratios)| ratios.len())?;
        let logarithms: Vec<f64> = ratios.iter().map(|(_, ratio)| logarithm(*ratio)).collect();
        let count = |is_it: fn(f64) -> bool| ratios.iter().filter(|it| is_it(it.1)).count();
        let worst = ratios.iter().min_by(|left, right| left.1.total_cmp(&right.1))?;
        Some(LastBuildComparison {
            build: build.to_owned(),
            pairings: ratios.len(),
            geometric_mean: bounded(&logarithms, exponential_mean),
            changes: (count(|ratio| ratio > 1.0 / LEAST), count(|ratio| ratio < LEAST)),
            worst: (worst.1, worst.0.number),
        })
    }

    pub fn tails(&self, subject: &str) -> Tails {
        let mut tails = Tails::default();
        for pairing in &self.pairings {
            let entry = pairing.entry(subject);
            if !(LEAST..=1.0 / LEAST).contains(&entry.ratio) {
                continue;
            }
            tails.ties += 1;
            for (count, ratio) in
                [(&mut tails.p99, entry.p99_ratio), (&mut tails.p99_9, entry.p99_9_ratio)]
            {
                count.0 += usize::from(ratio.is_some());
                count.1 += usize::from(ratio.is_some_and(|ratio| ratio > TAIL_MOST));
            }
        }
        tails
    }

    /// The pairings, those first where the first subject has the least ratio.
    pub fn worst_first(&self) -> Vec<&Pairing> {
        let mut pairings: Vec<&Pairing> = self.pairings.iter().collect();
        let ratio = |pairing: &Pairing| pairing.entry(&self.subjects[0]).ratio;
        pairings.sort_by(|left, right| ratio(left).total_cmp(&ratio(right)));
        pairings
    }

    /// The first subject by class of array (`of` gives the classes of an array), or of job.
    pub fn by_class(&self, of: fn(&Pairing) -> &Classes) -> Vec<ClassRow> {
        let mut by_class: BTreeMap<&Class, Vec<&Pairing>> = BTreeMap::new();
        let mut dimensions: Vec<&str> = Vec::new();
        for pairing in &self.pairings {
            for class in &of(pairing).0 {
                by_class.entry(class).or_default().push(pairing);
                if !dimensions.contains(&&*class.dimension) {
                    dimensions.push(&class.dimension);
                }
            }
        }
        let place = |row: &ClassRow| dimensions.iter().position(|it| *it == row.class.dimension);
        let mut rows: Vec<ClassRow> = by_class
            .into_iter()
            .map(|(class, pairings)| self.class_row(class, &pairings))
            .collect();
        rows.sort_by_key(place);
        rows
    }

    fn class_row(&self, class: &Class, pairings: &[&Pairing]) -> ClassRow {
        let subject = &self.subjects[0];
        let ratios = |policy: &str| -> Vec<f64> {
            pairings.iter().map(|pairing| pairing.entry(policy).ratio).collect()
        };
        let own = ratios(subject);
        let logarithms: Vec<f64> = own.iter().copied().map(logarithm).collect();
        let worst = pairings
            .iter()
            .min_by(|left, right| left.entry(subject).ratio.total_cmp(&right.entry(subject).ratio))
            .expect("a class has a pairing");
        let mean = |row: &LeagueRow| {
            let logarithms: Vec<f64> = ratios(&row.policy).into_iter().map(logarithm).collect();
            (exponential_mean(&logarithms), row.policy.clone())
        };
        let rivals = self.rows.iter().filter(|row| self.is_rival(&row.policy)).map(mean);
        let best = rivals.max_by(|left, right| left.0.total_cmp(&right.0));
        let (best_rival_mean, best_rival) = best.expect("a league has a rival");
        let is_starved = |pairing: &&&Pairing| pairing.entry(subject).is_starved();
        ClassRow {
            class: class.clone(),
            pairings: pairings.len(),
            geometric_mean: bounded(&logarithms, exponential_mean),
            fifth_percentile: fifth_percentile(&own),
            worst: worst.entry(subject).ratio,
            worst_number: worst.number,
            starved: pairings.iter().filter(is_starved).count(),
            best_rival,
            best_rival_mean,
        }
    }
}

pub(super) fn is_reference(policy: &str) -> bool {
    REFERENCES.contains(&policy)
}

/// The logarithm of a ratio, which is bounded below.
fn logarithm(ratio: f64) -> f64 {
    ratio.max(RATIO_MIN).ln()
}

impl LeagueRow {
    /// Of the policy with this place in every pairing.
    fn new(index: usize, pairings: &[Pairing]) -> LeagueRow {
        let entries = || pairings.iter().map(|pairing| &pairing.entries[index]);
        let mut ratios: Vec<f64> = entries().map(|entry| entry.ratio).collect();
        let logarithms: Vec<f64> = ratios.iter().copied().map(logarithm).collect();
        let worst =
            (0..ratios.len()).min_by(|&left, &right| ratios[left].total_cmp(&ratios[right]));
        let worst = worst.expect("a sample has a pairing");
        let of_reference = |reference: &&str| {
            let of = |pairing: &Pairing| {
                logarithm(pairing.entries[index].ratio) - logarithm(pairing.entry(reference).ratio)
            };
            exponential_mean(&pairings.iter().map(of).collect::<Vec<f64>>())
        };
        let (worst_number, worst_ratio) = (pairings[worst].number, ratios[worst]);
        let fifth_percentile = bounded(&ratios, fifth_percentile);
        ratios.sort_by(f64::total_cmp);
        LeagueRow {
            policy: pairings[0].entries[index].policy.clone(),
            geometric_mean: bounded(&logarithms, exponential_mean),
            median: median(&ratios),
            fifth_percentile,
            worst: worst_ratio,
            worst_number,
            wins: ratios.iter().filter(|ratio| **ratio >= WIN).count(),
            starved: entries().filter(|entry| entry.is_starved()).count(),
            of_reference: REFERENCES.iter().map(of_reference).collect(),
        }
    }
}

impl Pairing {
    /// A pairing whose record has the outcome under every policy.
    pub(super) fn new(request: &LeagueRequest, record: &PairingRecord) -> Pairing {
        let contenders = request.contenders();
        let entry = |policy: &String| record.entry(policy).expect("the pairing is done");
        let entries: Vec<&EntryRecord> = contenders.iter().map(entry).collect();
        // A section that made no request under any policy does not tell policies apart.
        let is_alive = |place: &usize| {
            let has_score = |entry: &&&EntryRecord| entry.sections[*place].score > 0.0;
            entries.iter().filter(has_score).any(|entry| !is_reference(&entry.policy))
        };
        let judged: Vec<usize> = (0..entries[0].sections.len()).filter(is_alive).collect();
        let score = |entry: &EntryRecord| match &judged[..] {
            [] => 0.0,
            judged => geometric_mean(
                &judged.iter().map(|&place| entry.sections[place].score).collect::<Vec<f64>>(),
            ),
        };
        let best = request
            .rivals
            .iter()
            .map(entry)
            // `max_by` takes the last of equals; the first in the list is wanted.
            .rev()
            .max_by(|left, right| score(left).total_cmp(&score(right)))
            .expect("a league has a rival");
        let best_score = score(best);
        let compared = |entry: &&EntryRecord| {
            let is_subject = request.subjects.contains(&entry.policy);
            let last = record.last(&entry.policy).filter(|_| is_subject).map(|last| LastBuild {
                build: last.build_name(),
                ratio: ratio(score(entry), score(last)),
            });
            let compared = PairingEntry::new(entry, best, &judged, [score(entry), best_score]);
            PairingEntry { last_build: last, ..compared }
        };
        Pairing {
            number: record.number,
            array: record.array.clone(),
            job: record.job.clone(),
            best: best.policy.clone(),
            replay: request.replay_command(record.number, [&request.subjects[0], &best.policy]),
            entries: entries.iter().map(compared).collect(),
        }
    }

    /// What a policy achieved. Panics if it takes no part.
    pub fn entry(&self, policy: &str) -> &PairingEntry {
        let found = self.entries.iter().find(|entry| entry.policy == policy);
        found.expect("a policy that takes part is in every pairing")
    }
}

impl PairingEntry {
    fn new(
        own: &EntryRecord,
        best: &EntryRecord,
        judged: &[usize],
        [score, best_score]: [f64; 2],
    ) -> PairingEntry {
        let pairs = || judged.iter().map(|&place| (&own.sections[place], &best.sections[place]));
        let least = pairs()
            .map(|(own, best)| (ratio(own.score, best.score), own.name.clone()))
            .min_by(|left, right| left.0.total_cmp(&right.0));
        let (least_section, least_section_name) = least.unwrap_or((1.0, String::new()));
        let tail = |reads: u64, of: fn(&SectionFigures) -> f64| {
            let known = pairs().filter(|(own, best)| own.reads.min(best.reads) >= reads);
            known.map(|(own, best)| ratio(of(own), of(best))).reduce(f64::max)
        };
        PairingEntry {
            policy: own.policy.clone(),
            score,
            ratio: ratio(score, best_score),
            least_section,
            least_section_name,
            p99_ratio: tail(READS_FOR_P99, |section| section.p99_us),
            p99_9_ratio: tail(READS_FOR_P99_9, |section| section.p99_9_us),
            last_build: None,
        }
    }

    /// True if a section gets less than half of what it gets under the best rival.
    pub fn is_starved(&self) -> bool {
        self.least_section < STARVED
    }
}

/// `of / to`; 1 if `to` is zero, so that neither policy is ahead.
fn ratio(of: f64, to: f64) -> f64 {
    if to > 0.0 { of / to } else { 1.0 }
}

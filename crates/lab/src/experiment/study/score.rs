//! Scores: one number for what a policy achieved under a job in one repeat, the higher the better.
//!
//! The default score of a job is the geometric mean over its sections of
//!
//! - throughput: requests per second of the section's measured window, or
//! - one over the mean latency, for a section whose requests come at a rate of their own: there any
//!   policy that keeps up has the same throughput.
//!
//! A geometric mean weighs sections alike, whatever their units and their speed; a sum would be
//! that of the section with the smallest requests. Requests are counted, not bytes: the sizes of a
//! section are drawn by the job, so that both orders are the same. Reads, writes and trims of a
//! section count together. Their proportion is the job's, so that no policy gains by leaving one
//! kind waiting. Flushes are waited for by the writes between them, which shows in the throughput;
//! in a mean latency the time of the flushes is added to that of the other requests.
//!
//! Background sections do not count, unless all are. Nor does a section in which no policy
//! completed a single request: it does not tell policies apart. A policy that completed nothing in
//! a section where another one did has a score of zero.
//!
//! A [`Goal`] replaces the figure of each section.

use super::goal::{Figure, Goal, Term};
use super::statistics::Scored;
use super::summary::CellSummary;
use super::{Group, Yardstick};
use crate::experiment::record::{IoKind, SectionRecord};

#[derive(Clone, Debug, PartialEq)]
pub struct Scoring {
    factors: Vec<Factor>,
    /// True if a cell does not have the latency that a factor needs.
    pub(super) lacks_latencies: bool,
}

/// One factor of a geometric mean.
#[derive(Clone, Debug, PartialEq)]
struct Factor {
    section: String,
    figure: Figure,
    /// True for a mean latency to which the time of the flushes is added.
    has_flushes: bool,
}

impl Scoring {
    /// The scoring of a job by `goal`, from all its cells. Panics if there is no cell.
    pub fn new<'a>(goal: &Goal, cells: impl Iterator<Item = &'a CellSummary> + Clone) -> Scoring {
        let first = cells.clone().next().expect("a job has a cell");
        let is_alive = |section: &&SectionRecord| {
            let mut of_cells = cells.clone().filter_map(|cell| cell.section(&section.name));
            of_cells.any(|it| completed(it) > 0)
        };
        let alive = || first.run.sections.iter().filter(is_alive);
        let foreground = || alive().filter(|section| !section.is_background);
        let judged: Vec<&SectionRecord> = match foreground().next() {
            Some(_) => foreground().collect(),
            None => alive().collect(),
        };
        let flushes = |section: &SectionRecord| {
            let mut of_cells = cells.clone().filter_map(|cell| cell.section(&section.name));
            of_cells.any(|it| it.flush.ios > 0)
        };
        let factor = |section: &&SectionRecord| match goal.figure {
            None => Factor::of_section(section, flushes(section)),
            Some(figure) => Factor { section: section.name.clone(), figure, has_flushes: false },
        };
        let factors: Vec<Factor> = judged.iter().map(factor).collect();
        let is_lacking = |factor: &Factor| {
            let mut of_cells = cells.clone().filter_map(|cell| cell.section(&factor.section));
            of_cells.any(|section| factor.is_unknown(section))
        };
        Scoring { lacks_latencies: factors.iter().any(is_lacking), factors }
    }

    /// The score of a cell; zero if nothing was completed that counts, and for all cells if one
    /// lacks latencies.
    pub fn score(&self, cell: &CellSummary) -> f64 {
        let value = |factor: &Factor| {
            let section = cell.section(&factor.section);
            section.map_or(0.0, |section| factor.score(section))
        };
        match &self.factors[..] {
            [] => 0.0,
            _ if self.lacks_latencies => 0.0,
            // Not by way of its logarithm, which would round it.
            [factor] => value(factor),
            factors => {
                let sum: f64 = factors.iter().map(|factor| value(factor).ln()).sum();
                // The logarithm of zero is minus infinity: the score is zero, whatever the others.
                (sum / factors.len() as f64).exp()
            }
        }
    }

    /// True if the section takes part in the score.
    pub fn counts(&self, section: &str) -> bool {
        self.factors.iter().any(|factor| factor.section == section)
    }

    pub fn yardstick(&self) -> Yardstick {
        match &self.factors[..] {
            [Factor { figure: Figure::Iops, .. }] => Yardstick::Iops,
            [Factor { figure: Figure::Mean, has_flushes: false, .. }] => Yardstick::MeanLatency,
            _ => Yardstick::Score,
        }
    }

    /// What the score is made of: the figures of sections.
    pub fn terms(&self) -> Vec<Term> {
        let term =
            |factor: &Factor| Term { section: factor.section.clone(), figure: factor.figure };
        self.factors.iter().map(term).collect()
    }

    /// The figure of each of [`Scoring::terms`]: the one by which policies are ranked.
    pub(super) fn figures(&self, group: &Group<'_>) -> Vec<f64> {
        self.factors.iter().map(|factor| factor.figure_of(group.cells)).collect()
    }

    pub(super) fn scores(&self, group: &Group<'_>) -> Vec<Scored> {
        let scored =
            |cell: &CellSummary| Scored { seed: cell.identity.seed, score: self.score(cell) };
        group.cells.iter().map(scored).collect()
    }
}

/// The figure of a section in the default score, the higher the better; zero if no request that
/// counts succeeded.
pub fn section_score(section: &SectionRecord) -> f64 {
    Factor::of_section(section, section.flush.ios > 0).score(section)
}

impl Factor {
    /// The factor of a section in the default score.
    fn of_section(section: &SectionRecord, has_flushes: bool) -> Factor {
        let figure = if section.has_rate { Figure::Mean } else { Figure::Iops };
        let has_flushes = has_flushes && section.has_rate;
        Factor { section: section.name.clone(), figure, has_flushes }
    }

    /// Returns true if the section has requests without the latency that the factor needs.
    fn is_unknown(&self, section: &SectionRecord) -> bool {
        let kinds = if self.has_flushes { &IoKind::ALL[..] } else { &IoKind::SCORED };
        kinds.iter().any(|&kind| self.figure.is_unknown(section.direction(kind)))
    }

    /// The figure of a section, the higher the better.
    fn score(&self, section: &SectionRecord) -> f64 {
        if self.is_unknown(section) {
            0.0
        } else if self.has_flushes {
            inverse_mean_with_flushes(section)
        } else {
            self.figure.score(section)
        }
    }

    /// What the mean score of the repeats amounts to: a rate, or a latency in microseconds. Zero if
    /// no request succeeded.
    fn figure_of(&self, cells: &[CellSummary]) -> f64 {
        let sections = cells.iter().filter_map(|cell| cell.section(&self.section));
        let mean = sections.map(|section| self.score(section)).sum::<f64>() / cells.len() as f64;
        match self.figure {
            Figure::Iops | Figure::Mib => mean,
            _ if mean > 0.0 => 1e6 / mean,
            _ => 0.0,
        }
    }
}

/// Reads, writes and trims per second that they and the flushes between them took, all times added
/// up. Zero if no request succeeded.
fn inverse_mean_with_flushes(section: &SectionRecord) -> f64 {
    let total_ns = IoKind::ALL.iter().map(|&kind| {
        let requests = section.direction(kind);
        requests.ios as f64 * requests.percentiles.mean_ns as f64
    });
    let total_ns: f64 = total_ns.sum();
    if total_ns > 0.0 { 1e9 * completed(section) as f64 / total_ns } else { 0.0 }
}

/// Requests that succeeded, of the kinds that count.
fn completed(section: &SectionRecord) -> u64 {
    IoKind::SCORED.iter().map(|&kind| section.direction(kind).ios).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::record::{DirectionRecord, Percentiles, RunRecord};
    use mirrorball_core::histogram::Histogram;
    use mirrorball_core::units::Nanos;

    fn figures(iops: f64, latency_us: u64) -> DirectionRecord {
        let mut latency = Histogram::default();
        let ios = (10.0 * iops) as u64;
        (0..ios).for_each(|_| latency.record(Nanos::from_micros(latency_us)));
        let percentiles = Percentiles::from(&latency);
        DirectionRecord {
            ios,
            iops,
            mib_per_s: iops / 256.0,
            percentiles,
            latency,
            ..DirectionRecord::default()
        }
    }

    fn section(name: &str, read: DirectionRecord) -> SectionRecord {
        SectionRecord { name: name.to_owned(), read, ..SectionRecord::default() }
    }

    fn cell(sections: Vec<SectionRecord>) -> CellSummary {
        let run = RunRecord { sections, ..RunRecord::default() };
        CellSummary { run, ..CellSummary::default() }
    }

    fn near(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-9 * right.abs()
    }

    /// 900 small and 4 large requests per second, or 400 and 16: sums are 904 and 416, geometric
    /// means 60 and 80.
    #[test]
    fn sections_weigh_alike_whatever_their_speed() {
        let two = |small, large| {
            cell(vec![section("small", figures(small, 100)), section("large", figures(large, 9))])
        };
        let (starving, fair) = (two(900.0, 4.0), two(400.0, 16.0));
        let scoring = Scoring::new(&Goal::default(), [&starving, &fair].into_iter());
        assert_eq!(scoring.yardstick(), Yardstick::Score);
        assert!(near(scoring.score(&starving), 60.0) && near(scoring.score(&fair), 80.0));
    }

    #[test]
    fn a_section_with_a_rate_counts_by_its_mean_latency() {
        let mut paced = cell(vec![section("paced", figures(100.0, 400))]);
        paced.run.sections[0].has_rate = true;
        let scoring = Scoring::new(&Goal::default(), [&paced].into_iter());
        assert_eq!(scoring.yardstick(), Yardstick::MeanLatency);
        assert!(near(scoring.score(&paced), 2_500.0));
        paced.run.sections.push(section("free", figures(100.0, 400)));
        let scoring = Scoring::new(&Goal::default(), [&paced].into_iter());
        assert!(near(scoring.score(&paced), 500.0), "the root of 2500 times 100");
    }

    /// 100 writes per second of 400 us, each with a flush of 9.6 ms: the flush shows in no other
    /// figure, because the rate is that of the job.
    #[test]
    fn flushes_of_a_section_with_a_rate_are_part_of_its_mean_latency() {
        let mut paced = section("log", DirectionRecord::default());
        paced.write = figures(100.0, 400);
        paced.has_rate = true;
        let plain = cell(vec![paced.clone()]);
        paced.flush = figures(100.0, 9_600);
        let flushing = cell(vec![paced]);
        let scoring = Scoring::new(&Goal::default(), [&plain, &flushing].into_iter());
        assert!((scoring.score(&plain) / 2_500.0 - 1.0).abs() < 0.01);
        assert!((scoring.score(&flushing) / 100.0 - 1.0).abs() < 0.01);
        assert_eq!(scoring.yardstick(), Yardstick::Score);
        let cells = [flushing];
        let [mean_us] = scoring.figures(&Group { policy: "", cells: &cells })[..] else { panic!() };
        assert!((mean_us / 1e4 - 1.0).abs() < 0.01, "{mean_us}");
        let alone = Scoring::new(&Goal::default(), [&plain].into_iter());
        assert_eq!(alone.yardstick(), Yardstick::MeanLatency);
    }

    #[test]
    fn reads_writes_and_trims_of_a_section_count_together() {
        let mut mixed = section("mixed", figures(70.0, 10));
        mixed.write = figures(30.0, 10);
        mixed.trim = figures(5.0, 10);
        mixed.flush = figures(1_000.0, 10);
        let cell = cell(vec![mixed]);
        let scoring = Scoring::new(&Goal::default(), [&cell].into_iter());
        assert_eq!((scoring.yardstick(), scoring.score(&cell)), (Yardstick::Iops, 105.0));
    }

    /// The first policy starves a section that the second one serves; a third section fails under
    /// both, and a fourth is background load.
    #[test]
    fn nothing_completed_is_a_score_of_zero_unless_no_policy_completed_anything() {
        let of = |starved: f64| {
            let mut load = section("load", figures(500.0, 10));
            load.is_background = true;
            let mut failing = section("failing", DirectionRecord::default());
            failing.read.errors = 9;
            let starved = section("starved", figures(starved, 10));
            cell(vec![section("a", figures(400.0, 10)), starved, failing, load])
        };
        let (starving, fair) = (of(0.0), of(100.0));
        let scoring = Scoring::new(&Goal::default(), [&starving, &fair].into_iter());
        assert_eq!(scoring.score(&starving), 0.0);
        assert!(near(scoring.score(&fair), 200.0));
        assert!(scoring.counts("starved") && !scoring.counts("failing") && !scoring.counts("load"));
        let alone = Scoring::new(&Goal::default(), [&starving].into_iter());
        assert_eq!(alone.score(&starving), 400.0);
    }

    #[test]
    fn where_all_sections_are_background_all_count() {
        let mut load = cell(vec![section("load", figures(500.0, 10))]);
        load.run.sections[0].is_background = true;
        let scoring = Scoring::new(&Goal::default(), [&load].into_iter());
        assert_eq!(scoring.score(&load), 500.0);
        let nothing = cell(vec![section("idle", DirectionRecord::default())]);
        let scoring = Scoring::new(&Goal::default(), [&nothing].into_iter());
        assert_eq!(scoring.score(&nothing), 0.0);
    }

    #[test]
    fn a_goal_is_the_figure_of_every_section() {
        let cell =
            cell(vec![section("small", figures(400.0, 500)), section("large", figures(16.0, 9))]);
        let scoring = Scoring::new(&Goal::parse("p99").unwrap(), [&cell].into_iter());
        let p99_ns = |index: usize| cell.run.sections[index].read.percentiles.p99_ns as f64;
        assert!(near(scoring.score(&cell), 1e9 / (p99_ns(0) * p99_ns(1)).sqrt()));
        assert!((p99_ns(0) / 5e5 - 1.0).abs() < 0.02);
        let scoring = Scoring::new(&Goal::parse("mib").unwrap(), [&cell].into_iter());
        assert!(near(scoring.score(&cell), 80.0 / 256.0));
        assert_eq!(scoring.yardstick(), Yardstick::Score);
    }
}

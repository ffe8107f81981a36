//! One cell in a line: the rates, percentiles and shares that tables are made of.

use super::Direction;
use crate::experiment::record::{
    CellRecord, DirectionRecord, Percentiles, SectionRecord, per_second,
};
use mirrorball_core::histogram::Histogram;
use mirrorball_core::units::MIB;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellSummary {
    /// Name of the array.
    pub array: String,
    /// Name of the job.
    pub job: String,
    /// Canonical policy string, or `oracle`.
    pub policy: String,
    /// Its seed.
    pub seed: u64,
    /// Reads of all sections together.
    pub read: Figures,
    /// Writes of all sections together.
    pub write: Figures,
    /// What each member served of the foreground reads.
    pub shares: Vec<MemberShare>,
    /// Member reads in vain, because another mirror had answered before; those of background
    /// work are among them.
    pub extra_reads: u64,
    /// Member reads that were withdrawn before the member began them, for the same reason: they
    /// cost nothing.
    #[serde(default)]
    pub cancelled_reads: u64,
    /// All member reads; the record of the cell has them.
    #[serde(skip)]
    pub member_reads: u64,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figures {
    /// Requests that succeeded.
    pub ios: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Successful requests per second during which any section with such requests was measured.
    pub iops: f64,
    /// MiB per second of the same time.
    pub mib_per_s: f64,
    /// Mean and percentiles of the latency.
    pub percentiles: Percentiles,
    /// The bins they are read off; the record of the cell has them.
    #[serde(skip)]
    pub latency: Histogram,
}

/// What one member served of the foreground reads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemberShare {
    /// Its devid.
    pub devid: u64,
    /// Reads.
    pub reads: u64,
    /// Its part of all members' reads, 0 to 1.
    pub share: f64,
}

impl CellSummary {
    /// The summary of a record; `None` if its histograms are damaged.
    pub fn new(record: &CellRecord) -> Option<CellSummary> {
        let reads = record.members.iter().map(|member| (member.devid, member.foreground_reads));
        Some(CellSummary {
            array: record.cell.array.clone(),
            job: record.cell.job.clone(),
            policy: record.cell.policy.clone(),
            seed: record.cell.seed,
            read: figures(record.reads())?,
            write: figures(record.writes())?,
            shares: shares(reads.collect()),
            extra_reads: record.members.iter().map(|member| member.extra_reads).sum(),
            cancelled_reads: record.members.iter().map(|member| member.cancelled_reads).sum(),
            member_reads: record.members.iter().map(|member| member.reads).sum(),
        })
    }

    /// The requests of one kind.
    pub fn figures(&self, direction: Direction) -> &Figures {
        match direction {
            Direction::Read => &self.read,
            Direction::Write => &self.write,
        }
    }

    /// The kind that a reader looks at first: reads, or writes if it reads nothing.
    pub fn main_figures(&self) -> &Figures {
        if self.read.is_idle() { &self.write } else { &self.read }
    }
}

impl Figures {
    /// Whether nothing of the kind was asked.
    pub fn is_idle(&self) -> bool {
        self.ios == 0 && self.errors == 0
    }
}

fn figures<'a>(
    sections: impl Iterator<Item = (&'a SectionRecord, &'a DirectionRecord)> + Clone,
) -> Option<Figures> {
    let mut figures = Figures::default();
    let mut bytes = 0;
    for (_, direction) in sections.clone() {
        figures.ios += direction.ios;
        figures.errors += direction.errors;
        bytes += direction.bytes;
        figures.latency.merge(&direction.latency.to_histogram()?);
    }
    let window = |(section, _): (&SectionRecord, _)| {
        (section.from_ns, section.from_ns + section.measured_ns)
    };
    let measured_ns = covered_ns(sections.map(window).collect());
    figures.iops = per_second(figures.ios as f64, measured_ns);
    figures.mib_per_s = per_second(bytes as f64 / MIB as f64, measured_ns);
    figures.percentiles = Percentiles::from(&figures.latency);
    Some(figures)
}

/// How much time these windows cover together, each given by its start and its end.
fn covered_ns(mut windows: Vec<(u64, u64)>) -> u64 {
    windows.sort_unstable();
    let mut covered_ns = 0;
    let mut reached_ns = 0;
    for (from_ns, until_ns) in windows {
        covered_ns += until_ns.saturating_sub(from_ns.max(reached_ns));
        reached_ns = reached_ns.max(until_ns);
    }
    covered_ns
}

/// Member reads in vain for each that was of use, over all repeats together.
pub(super) fn extra_per_read(cells: &[CellSummary]) -> f64 {
    per_read(cells, |cell| cell.extra_reads)
}

/// Member reads that were withdrawn for each that was of use, over all repeats together.
pub(super) fn withdrawn_per_read(cells: &[CellSummary]) -> f64 {
    per_read(cells, |cell| cell.cancelled_reads)
}

fn per_read(cells: &[CellSummary], counted: fn(&CellSummary) -> u64) -> f64 {
    let sum = |of: fn(&CellSummary) -> u64| cells.iter().map(of).sum::<u64>();
    let of_use = sum(|cell| cell.member_reads).saturating_sub(sum(|cell| cell.extra_reads));
    sum(counted) as f64 / of_use.max(1) as f64
}

/// Shares over all repeats together.
pub(super) fn merged_shares(cells: &[CellSummary]) -> Vec<MemberShare> {
    let mut reads: Vec<(u64, u64)> = Vec::new();
    for share in cells.iter().flat_map(|cell| &cell.shares) {
        match reads.iter_mut().find(|(devid, _)| *devid == share.devid) {
            Some((_, sum)) => *sum += share.reads,
            None => reads.push((share.devid, share.reads)),
        }
    }
    shares(reads)
}

fn shares(reads: Vec<(u64, u64)>) -> Vec<MemberShare> {
    let all: u64 = reads.iter().map(|(_, reads)| reads).sum();
    let share = |reads| reads as f64 / all.max(1) as f64;
    reads
        .into_iter()
        .map(|(devid, reads)| MemberShare { devid, reads, share: share(reads) })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_reads_are_told_against_all_reads_of_the_members() {
        let cell = |foreground, member_reads, extra_reads| CellSummary {
            array: String::new(),
            job: String::new(),
            policy: String::new(),
            seed: 1,
            read: Figures::default(),
            write: Figures::default(),
            shares: shares(vec![(1, foreground)]),
            extra_reads,
            cancelled_reads: 2 * extra_reads,
            member_reads,
        };
        assert_eq!(extra_per_read(&[cell(10, 300, 100)]), 0.5, "most of them in the background");
        assert_eq!(extra_per_read(&[cell(10, 300, 100), cell(10, 100, 0)]), 1.0 / 3.0);
        assert_eq!(extra_per_read(&[cell(0, 0, 0)]), 0.0);
        assert_eq!(withdrawn_per_read(&[cell(10, 300, 100)]), 1.0);
    }

    #[test]
    fn windows_cover_what_any_of_them_covers() {
        assert_eq!(covered_ns(vec![]), 0);
        assert_eq!(covered_ns(vec![(5, 10)]), 5, "a late start is not measured");
        assert_eq!(covered_ns(vec![(10, 20), (0, 5)]), 15, "nor is what lies between two groups");
        assert_eq!(covered_ns(vec![(0, 10), (5, 12), (6, 7)]), 12, "sections side by side");
    }
}

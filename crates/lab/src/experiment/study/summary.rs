//! One cell in a line: the rates, percentiles and shares that tables are made of, by section.

use crate::experiment::record::{
    ArrayCacheRecord, CellRecord, ControllerRecord, DirectionRecord, Percentiles, SectionRecord,
    per_second,
};
use mirrorball_core::histogram::Histogram;
use mirrorball_core::units::MIB;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CellSummary {
    /// Name of the array.
    pub array: String,
    /// Name of the job.
    pub job: String,
    /// Canonical policy string, or `oracle`.
    pub policy: String,
    /// Its seed.
    pub seed: u64,
    /// Its score, set by the study that it is part of; zero before.
    #[serde(default)]
    pub score: f64,
    /// Sections of the job, in the order of the file, each with its clones together.
    pub sections: Vec<SectionSummary>,
    /// Foreground reads by member.
    pub shares: Vec<MemberShare>,
    /// Member reads whose data was not needed, because another mirror had answered before; those of
    /// background work are among them.
    pub extra_reads: u64,
    /// Member reads that were withdrawn before the member began them, for the same reason: they
    /// cost nothing.
    #[serde(default)]
    pub cancelled_reads: u64,
    /// Reads for which the policy had more than one mirror to choose from; none if it was not
    /// counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choices: Option<u64>,
    /// What the cache tier in front of the array did; none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub array_cache: Option<ArrayCacheRecord>,
    /// What the controller in front of the array did; none without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerRecord>,
    /// All member reads; the record of the cell has them.
    #[serde(skip)]
    pub member_reads: u64,
}

/// One section of a job in one cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SectionSummary {
    /// Its name; a number is added where an earlier section of the job has the same.
    pub name: String,
    /// True for background load, which takes no part in the score.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_background: bool,
    /// True if all its requests come at a rate of their own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub has_rate: bool,
    /// Requests per second that it asks for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked_iops: Option<f64>,
    /// How much the write rate changed from the first half of the measured window to the second, as
    /// a fraction of the first; none if it wrote too little to tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_rate_change: Option<f64>,
    /// True if it wrote, and the disks' write caches can hold all writes of the run.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub writes_fit_cache: bool,
    /// Length of its measured window.
    pub measured_ns: u64,
    /// Reads.
    #[serde(default, skip_serializing_if = "Figures::is_idle")]
    pub read: Figures,
    /// Writes.
    #[serde(default, skip_serializing_if = "Figures::is_idle")]
    pub write: Figures,
    /// Trims.
    #[serde(default, skip_serializing_if = "Figures::is_idle")]
    pub trim: Figures,
    /// Flushes (fsync and fdatasync).
    #[serde(default, skip_serializing_if = "Figures::is_idle")]
    pub fsync: Figures,
}

/// Kind of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum IoKind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Trims (discards).
    Trim,
    /// Flushes (fsync and fdatasync).
    Fsync,
}

/// Requests of one kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Figures {
    /// Requests that succeeded.
    pub ios: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Successful requests per second of the section's measured window.
    pub iops: f64,
    /// MiB per second of the same window.
    pub mib_per_s: f64,
    /// Mean and percentiles of the latency.
    pub percentiles: Percentiles,
    /// The bins they are read off; the record of the cell has them.
    #[serde(skip)]
    pub latency: Histogram,
}

/// Foreground reads that one member served.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct MemberShare {
    /// Its devid.
    pub devid: u64,
    /// Reads.
    pub reads: u64,
    /// Its part of all members' reads, 0 to 1.
    pub share: f64,
}

impl IoKind {
    /// All kinds, in the order in which they are shown.
    pub const ALL: [IoKind; 4] = [IoKind::Read, IoKind::Write, IoKind::Trim, IoKind::Fsync];
    /// Kinds that a score counts. A flush is part of the write stream that waits for it.
    pub const SCORED: [IoKind; 3] = [IoKind::Read, IoKind::Write, IoKind::Trim];

    /// Its name in tables, CSV and goals.
    pub fn name(self) -> &'static str {
        match self {
            IoKind::Read => "read",
            IoKind::Write => "write",
            IoKind::Trim => "trim",
            IoKind::Fsync => "fsync",
        }
    }
}

impl CellSummary {
    /// The summary of a record; `None` if its histograms are damaged.
    pub fn new(record: &CellRecord) -> Option<CellSummary> {
        let reads = record.members.iter().map(|member| (member.devid, member.foreground_reads));
        let names = distinct_names(record.sections.iter().map(|section| section.name.as_str()));
        let sections = names.into_iter().zip(&record.sections);
        let sections = sections.map(|(name, section)| SectionSummary::new(name, section));
        let sections: Vec<SectionSummary> = sections.collect::<Option<_>>()?;
        Some(CellSummary {
            array: record.cell.array.clone(),
            job: record.cell.job.clone(),
            policy: record.cell.policy.clone(),
            seed: record.cell.seed,
            score: 0.0,
            sections,
            shares: shares(reads.collect()),
            extra_reads: record.members.iter().map(|member| member.extra_reads).sum(),
            cancelled_reads: record.members.iter().map(|member| member.cancelled_reads).sum(),
            choices: record.choices,
            array_cache: record.array_cache,
            controller: record.controller,
            member_reads: record.members.iter().map(|member| member.reads).sum(),
        })
    }

    /// The section of that name.
    pub fn section(&self, name: &str) -> Option<&SectionSummary> {
        self.sections.iter().find(|section| section.name == name)
    }
}

/// The names of sections as they are shown: fio allows several of one name, which are numbered from
/// the second on.
pub fn distinct_names<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut distinct: Vec<String> = Vec::new();
    for name in names {
        let mut candidate = name.to_owned();
        let mut number = 2;
        while distinct.contains(&candidate) {
            candidate = format!("{name}#{number}");
            number += 1;
        }
        distinct.push(candidate);
    }
    distinct
}

impl SectionSummary {
    fn new(name: String, section: &SectionRecord) -> Option<SectionSummary> {
        let figures = |record: &Option<DirectionRecord>| match record {
            Some(direction) => Figures::new(direction, section.measured_ns),
            None => Some(Figures::default()),
        };
        Some(SectionSummary {
            name,
            is_background: section.is_background,
            has_rate: section.has_rate,
            asked_iops: section.asked_iops,
            write_rate_change: section.write_rate_change,
            writes_fit_cache: section.writes_fit_cache,
            measured_ns: section.measured_ns,
            read: figures(&section.read)?,
            write: figures(&section.write)?,
            trim: figures(&section.trim)?,
            fsync: figures(&section.flush)?,
        })
    }

    /// The requests of one kind.
    pub fn figures(&self, kind: IoKind) -> &Figures {
        match kind {
            IoKind::Read => &self.read,
            IoKind::Write => &self.write,
            IoKind::Trim => &self.trim,
            IoKind::Fsync => &self.fsync,
        }
    }

    /// The kind by which the section is shown: reads if it makes any, else writes, else trims.
    pub fn main_kind(&self) -> Option<IoKind> {
        IoKind::SCORED.into_iter().find(|&kind| !self.figures(kind).is_idle())
    }
}

impl Figures {
    fn new(direction: &DirectionRecord, measured_ns: u64) -> Option<Figures> {
        let latency = direction.latency.to_histogram()?;
        Some(Figures {
            ios: direction.ios,
            errors: direction.errors,
            iops: per_second(direction.ios as f64, measured_ns),
            mib_per_s: per_second(direction.bytes as f64 / MIB as f64, measured_ns),
            percentiles: Percentiles::from(&latency),
            latency,
        })
    }

    /// True if there was no request of the kind.
    pub fn is_idle(&self) -> bool {
        self.ios == 0 && self.errors == 0
    }
}

/// Member reads that were not needed, per read that was, over all repeats together.
pub(super) fn extra_per_read(cells: &[CellSummary]) -> f64 {
    per_read(cells, |cell| cell.extra_reads)
}

/// Member reads that were withdrawn, per read that was needed, over all repeats together.
pub(super) fn withdrawn_per_read(cells: &[CellSummary]) -> f64 {
    per_read(cells, |cell| cell.cancelled_reads)
}

fn per_read(cells: &[CellSummary], counted: fn(&CellSummary) -> u64) -> f64 {
    let sum = |of: fn(&CellSummary) -> u64| cells.iter().map(of).sum::<u64>();
    let needed = sum(|cell| cell.member_reads).saturating_sub(sum(|cell| cell.extra_reads));
    sum(counted) as f64 / needed.max(1) as f64
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
    fn extra_reads_are_counted_per_read_of_all_members() {
        let cell = |foreground, member_reads, extra_reads| CellSummary {
            array: String::new(),
            job: String::new(),
            policy: String::new(),
            seed: 1,
            score: 0.0,
            sections: Vec::new(),
            shares: shares(vec![(1, foreground)]),
            extra_reads,
            cancelled_reads: 2 * extra_reads,
            choices: None,
            array_cache: None,
            controller: None,
            member_reads,
        };
        assert_eq!(extra_per_read(&[cell(10, 300, 100)]), 0.5, "most of them in the background");
        assert_eq!(extra_per_read(&[cell(10, 300, 100), cell(10, 100, 0)]), 1.0 / 3.0);
        assert_eq!(extra_per_read(&[cell(0, 0, 0)]), 0.0);
        assert_eq!(withdrawn_per_read(&[cell(10, 300, 100)]), 1.0);
    }

    #[test]
    fn sections_of_one_name_are_numbered() {
        let distinct = distinct_names(["a", "b", "a", "a"].into_iter());
        assert_eq!(distinct, ["a", "b", "a#2", "a#3"]);
    }
}

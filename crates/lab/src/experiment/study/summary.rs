//! One cell in a line: the rates, percentiles and shares that tables are made of, by section.

use crate::experiment::record::{CellRecord, MemberRecord, SectionRecord};
use mirrorball_disk::cache_tier::CacheTierCounts;
use mirrorball_disk::controller::ControllerCounts;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// One cell.
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    pub score: f64,
    /// Sections of the job, in the order of the file, each with its clones together. A number is
    /// added to a name that an earlier section has.
    pub sections: Vec<SectionRecord>,
    /// Foreground reads by member.
    pub shares: Vec<MemberShare>,
    /// Member reads whose data was not needed, because another mirror had answered before; those of
    /// background work are among them.
    pub extra_reads: u64,
    /// Member reads that were withdrawn before the member began them, for the same reason: they
    /// cost nothing.
    pub cancelled_reads: u64,
    /// Reads for which the policy had more than one mirror to choose from; none if it was not
    /// counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choices: Option<u64>,
    /// What the cache tier in front of the array did; none without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array_cache: Option<CacheTierCounts>,
    /// What the controller in front of the array did; none without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerCounts>,
    /// All member reads; the record of the cell has them.
    #[serde(skip)]
    pub member_reads: u64,
}

/// Foreground reads that one member served.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct MemberShare {
    /// Its devid.
    pub devid: u64,
    /// Reads.
    pub reads: u64,
    /// Its part of all members' reads, 0 to 1.
    pub share: f64,
}

impl CellSummary {
    /// The summary of a record.
    pub fn new(record: &CellRecord) -> CellSummary {
        let CellRecord { cell, run, .. } = record;
        let mut sections = run.sections.clone();
        let names = distinct_names(sections.iter().map(|section| section.name.as_str()));
        sections.iter_mut().zip(names).for_each(|(section, name)| section.name = name);
        let sum = |of: fn(&MemberRecord) -> u64| run.members.iter().map(of).sum();
        CellSummary {
            array: cell.array.clone(),
            job: cell.job.clone(),
            policy: cell.policy.clone(),
            seed: cell.seed,
            score: 0.0,
            sections,
            shares: shares(run.members.iter().map(|it| (it.devid, it.foreground_reads)).collect()),
            extra_reads: sum(|member| member.extra_reads),
            cancelled_reads: sum(|member| member.cancelled_reads),
            choices: run.choices,
            array_cache: run.array_cache,
            controller: run.controller,
            member_reads: sum(|member| member.reads),
        }
    }

    /// The section of that name.
    pub fn section(&self, name: &str) -> Option<&SectionRecord> {
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

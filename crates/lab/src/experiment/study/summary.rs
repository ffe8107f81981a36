//! One cell of a study: the record of its run, and its score.

use crate::experiment::record::{
    CellIdentity, CellRecord, IntervalsRecord, MemberRecord, RunRecord, SamplesRecord,
    SectionRecord,
};
#[cfg(test)]
use schemars::JsonSchema;
use serde::Serialize;

/// One cell.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CellSummary {
    /// Which cell it is.
    #[serde(flatten)]
    pub identity: CellIdentity,
    /// Its score, set by the study that it is part of; zero before.
    pub score: f64,
    /// The record of its run, without the run over time. A number is added to the name of a section
    /// that an earlier section has.
    #[serde(flatten)]
    pub run: RunRecord,
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
    pub fn new(record: CellRecord) -> CellSummary {
        let CellRecord { cell: identity, mut run, .. } = record;
        run.intervals = IntervalsRecord::default();
        run.samples = SamplesRecord::default();
        let names = distinct_names(run.sections.iter().map(|section| section.name.as_str()));
        run.sections.iter_mut().zip(names).for_each(|(section, name)| section.name = name);
        CellSummary { identity, score: 0.0, run }
    }

    pub fn section(&self, name: &str) -> Option<&SectionRecord> {
        self.run.sections.iter().find(|section| section.name == name)
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

/// Member reads that `counted` counts per member read that was needed, over all repeats together.
pub(super) fn per_read(cells: &[CellSummary], counted: fn(&MemberRecord) -> u64) -> f64 {
    let sum = |of| cells.iter().map(|cell| cell.run.sum_of_members(of)).sum::<u64>();
    let needed = sum(|member| member.reads).saturating_sub(sum(|member| member.extra_reads));
    sum(counted) as f64 / needed.max(1) as f64
}

/// Shares over all repeats together.
pub(super) fn merged_shares(cells: &[CellSummary]) -> Vec<MemberShare> {
    let mut shares: Vec<MemberShare> = Vec::new();
    for &MemberRecord { devid, foreground_reads: reads, .. } in
        cells.iter().flat_map(|cell| &cell.run.members)
    {
        match shares.iter_mut().find(|share| share.devid == devid) {
            Some(share) => share.reads += reads,
            None => shares.push(MemberShare { devid, reads, share: 0.0 }),
        }
    }
    let all: u64 = shares.iter().map(|share| share.reads).sum();
    shares.iter_mut().for_each(|share| share.share = share.reads as f64 / all.max(1) as f64);
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_reads_are_counted_per_read_of_all_members() {
        let cell = |foreground_reads, reads, extra_reads| {
            let member =
                MemberRecord { foreground_reads, reads, extra_reads, ..Default::default() };
            let run = RunRecord { members: vec![member], ..RunRecord::default() };
            CellSummary { run, ..CellSummary::default() }
        };
        let extra = |cells: &[CellSummary]| per_read(cells, |member| member.extra_reads);
        assert_eq!(extra(&[cell(10, 300, 100)]), 0.5, "most of them in the background");
        assert_eq!(extra(&[cell(10, 300, 100), cell(10, 100, 0)]), 1.0 / 3.0);
        assert_eq!(extra(&[cell(0, 0, 0)]), 0.0);
    }

    #[test]
    fn sections_of_one_name_are_numbered() {
        let distinct = distinct_names(["a", "b", "a", "a"].into_iter());
        assert_eq!(distinct, ["a", "b", "a#2", "a#3"]);
    }
}

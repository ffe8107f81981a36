//! The repeats of one row of a recipe, from which measures are taken.

use mirrorball_core::histogram::Histogram;
use mirrorball_sim::record::{MemberRecord, RunRecord, SectionRecord};

/// The repeats of one row, and the section of the job that is measured.
pub(super) struct Pool<'a> {
    pub(super) records: Vec<&'a RunRecord>,
    pub(super) section: Option<&'a str>,
}

impl Pool<'_> {
    fn jobs<'b>(&'b self, record: &'b RunRecord) -> impl Iterator<Item = &'b SectionRecord> {
        let wanted = |job: &&SectionRecord| self.section.is_none_or(|name| job.name == name);
        record.sections.iter().filter(wanted)
    }

    /// The mean over the repeats of something in each.
    fn mean(&self, of: impl Fn(&RunRecord) -> f64) -> f64 {
        self.records.iter().map(|record| of(record)).sum::<f64>() / self.records.len() as f64
    }

    /// What the measured sections count in a second, together.
    pub(super) fn job_rate(&self, count: impl Fn(&SectionRecord) -> u64) -> f64 {
        let rate = |job: &SectionRecord| count(job) as f64 / job.measured.as_secs_f64().max(1e-9);
        self.mean(|record| self.jobs(record).map(rate).sum())
    }

    /// How long the longest of the measured sections took.
    pub(super) fn job_seconds(&self) -> f64 {
        self.mean(|record| {
            self.jobs(record).map(|job| job.measured.as_secs_f64()).fold(0.0, f64::max)
        })
    }

    /// Latencies of the reads of all repeats.
    pub(super) fn read_latency(&self) -> Histogram {
        let mut merged = Histogram::default();
        for record in &self.records {
            self.jobs(record).for_each(|job| merged.merge(&job.read.latency));
        }
        merged
    }

    pub(super) fn member(&self, devid: u64, of: impl Fn(&MemberRecord) -> u64) -> f64 {
        self.mean(|record| {
            let member = record.members.iter().find(|member| member.devid == devid);
            member.map_or(f64::NAN, |member| of(member) as f64)
        })
    }

    /// The same in a second.
    pub(super) fn member_rate(&self, devid: u64, of: impl Fn(&MemberRecord) -> u64) -> f64 {
        self.member(devid, of) / self.mean(|record| record.measured.as_secs_f64())
    }

    /// Something of all members together.
    pub(super) fn all_members(&self, of: impl Fn(&MemberRecord) -> u64) -> f64 {
        self.mean(|record| record.members.iter().map(|member| of(member) as f64).sum())
    }

    /// A counter that the policy keeps of a member.
    pub(super) fn counter(&self, devid: u64, name: &str) -> f64 {
        self.mean(|record| {
            let counters = &record.counters;
            let found = counters.iter().find(|it| it.name == name && it.devid == Some(devid));
            found.map_or(f64::NAN, |counter| counter.value as f64)
        })
    }
}

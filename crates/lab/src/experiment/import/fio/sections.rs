//! fio's jobs as sections: clones added up, groups one after the other.
//!
//! fio does not say when a job began. Jobs of one group start together, and a group begins where
//! the longest job of the one before has ended: so it is with `stonewall`, which is what makes
//! groups nearly always (`new_group` without it would have them run at once).

use super::NS_PER_MS;
use super::document::{Direction, Document, FioJob};
use super::groups;
use super::latency::{histogram, mean_ns};
use crate::experiment::record::{DirectionRecord, LatencySource, SectionRecord, per_second};
use anyhow::{Result, anyhow, bail};
use mirrorball_core::histogram::Histogram;
use mirrorball_core::units::Nanos;
use mirrorball_sim::job::Declared;

/// No run takes longer than this: nine years.
const RUN_MAX: Nanos = Nanos(1 << 58);

pub(super) struct Sections {
    sections: Vec<Section>,
}

/// Clones of one job.
struct Section {
    /// How many clones fio ran, however it reports them.
    clones: u64,
    latency: LatencySource,
    /// True if fio reports several jobs in it, and the options are not those of all.
    is_of_several: bool,
    record: SectionRecord,
}

impl Sections {
    pub(super) fn new(document: &Document) -> Result<Sections> {
        let mut sections: Vec<Section> = Vec::new();
        let mut group = document.jobs[0].groupid;
        let (mut group_from, mut group_until) = (Nanos::ZERO, Nanos::ZERO);
        let are_clones = |left: &FioJob, right: &FioJob| {
            (&left.jobname, left.groupid) == (&right.jobname, right.groupid)
        };
        for clones in document.jobs.chunk_by(are_clones) {
            if clones[0].groupid != group {
                group = clones[0].groupid;
                group_from = group_until;
            }
            let mut section = Section::new(clones, group_from)?;
            section.is_of_several = groups::are_of_several(document, &clones[0], &section.record);
            group_until = group_until.max(section.record.until());
            if group_until > RUN_MAX {
                bail!("has a runtime that is too long to be true");
            }
            sections.push(section);
        }
        Ok(Sections { sections })
    }

    /// Default name of the run: the names of its jobs.
    pub(super) fn joined_names(&self) -> String {
        let names: Vec<&str> =
            self.sections.iter().map(|section| section.record.name.as_str()).collect();
        names.join("+")
    }

    /// From the start of the first section to the end of the last.
    pub(super) fn measured(&self) -> Nanos {
        let ends = self.sections.iter().map(|section| section.record.until());
        ends.max().unwrap_or_default()
    }

    /// Names of the sections in which fio reports several jobs, with options that are not of all.
    pub(super) fn of_several(&self) -> Vec<String> {
        let several = self.sections.iter().filter(|section| section.is_of_several);
        several.map(|section| section.record.name.clone()).collect()
    }

    /// The records, with what the sections of `job_text` declare.
    pub(super) fn records(&self, job_text: &str) -> Vec<SectionRecord> {
        let declared = Declared::of_text(job_text);
        let record = |(index, section): (usize, &Section)| {
            let mut record = section.record.clone();
            let own = declared.get(index).filter(|(name, _)| *name == record.name);
            if let Some((_, declared)) = own.filter(|_| !section.is_of_several) {
                record.has_rate = declared.has_rate;
                record.asked_iops = declared.asked_iops;
            }
            record
        };
        self.sections.iter().enumerate().map(record).collect()
    }

    /// The poorest source of any section.
    pub(super) fn latency_source(&self) -> LatencySource {
        let sources = self.sections.iter().map(|section| section.latency);
        sources.max().expect("a document has a job")
    }

    /// When the clone of this number, from one on, began. Zero has no number: the run itself.
    pub(super) fn clone_from_ns(&self, number: u64) -> u64 {
        let mut last = 0;
        let section = self.sections.iter().find(|section| {
            last += section.clones;
            number <= last
        });
        section.map_or(0, |section| section.record.from.0)
    }

    /// The time of the longest section, and the requests of all.
    pub(super) fn longest(&self) -> (Nanos, u64) {
        let records = || self.sections.iter().map(|section| &section.record);
        let ios = records().flat_map(SectionRecord::directions).map(|it| it.ios);
        let longest = records().map(|record| record.measured).max();
        (longest.unwrap_or_default(), ios.fold(0, u64::saturating_add))
    }

    /// Bytes of a read on average; none if there were none.
    pub(super) fn mean_read_bytes(&self) -> Option<f64> {
        let reads = || self.sections.iter().map(|section| &section.record.read);
        let ios: f64 = reads().map(|read| read.ios as f64).sum();
        let bytes: f64 = reads().map(|read| read.bytes as f64).sum();
        (ios > 0.0).then(|| bytes / ios)
    }
}

impl Section {
    fn new(clones: &[FioJob], from: Nanos) -> Result<Section> {
        let name = clones[0].jobname.clone();
        let is_split = clones.iter().all(|job| {
            let kinds = [&job.read, &job.write, &job.trim];
            job.mixed.is_none() || kinds.iter().any(|direction| direction.total_ios > 0)
        });
        if !is_split {
            bail!(
                "job `{name}` has one figure for reads and writes together\n  help: run fio \
                 without unified_rw_reporting"
            );
        }
        // With `continue_on_error` fio counts errors.
        if let Some(job) = clones.iter().find(|job| job.error != 0 && job.total_err == 0) {
            let error = std::io::Error::from_raw_os_error(job.error.min(4_095) as i32);
            bail!(
                "job `{name}` ended before its time, so its figures are of a part of the run: \
                 {error}\n  help: mend the cause and run fio again; with continue_on_error=all it \
                 goes on, and counts errors"
            );
        }
        let runtime_ms = clones.iter().map(FioJob::runtime).max().unwrap_or(0);
        let measured = Nanos(runtime_ms.saturating_mul(NS_PER_MS));
        let mut latency = LatencySource::TotalBins;
        let mut direction = |pick: fn(&FioJob) -> &Direction| -> Result<DirectionRecord> {
            let all: Vec<&Direction> = clones.iter().map(pick).collect();
            let (record, source) =
                combined(&all, measured).map_err(|error| anyhow!("job `{name}` {error:#}"))?;
            latency = latency.max(source);
            Ok(record)
        };
        let mut record = SectionRecord {
            from,
            measured,
            read: direction(|job| &job.read)?,
            write: direction(|job| &job.write)?,
            trim: direction(|job| &job.trim)?,
            flush: direction(|job| &job.sync)?,
            name: clones[0].jobname.clone(),
            ..SectionRecord::default()
        };
        let ios: u64 = record.directions().iter().map(|direction| direction.ios).sum();
        if ios == 0 && clones.iter().all(|job| job.total_err == 0) {
            bail!("job `{name}` has no finished requests, so there is nothing to import");
        }
        // fio does not say which kind of requests failed.
        let kinds = [&mut record.read, &mut record.write, &mut record.trim];
        if let Some(first) = kinds.into_iter().find(|direction| direction.ios > 0) {
            first.errors = clones.iter().map(|job| job.total_err).fold(0, u64::saturating_add);
        }
        Ok(Section { clones: clone_count(clones), latency, is_of_several: false, record })
    }
}

/// As many as fio reports, or as `numjobs` says if it reports them together.
fn clone_count(clones: &[FioJob]) -> u64 {
    let option = clones[0].options.get("numjobs").and_then(|value| value.as_str()?.parse().ok());
    (clones.len() as u64).max(option.unwrap_or(1))
}

/// One record of all clones' requests of a kind. Without the latencies of some, it has at most the
/// mean.
fn combined(all: &[&Direction], measured: Nanos) -> Result<(DirectionRecord, LatencySource)> {
    let mut latency = Histogram::default();
    let mut poorest = LatencySource::TotalBins;
    let (mut ios, mut bytes, mut sum_ns) = (0u64, 0u64, Some(0.0));
    for direction in all.iter().filter(|direction| direction.total_ios > 0) {
        let (histogram, source) = histogram(direction)?;
        latency.merge(&histogram);
        poorest = poorest.max(source);
        ios = ios.saturating_add(direction.total_ios);
        bytes = bytes.saturating_add(direction.io_bytes);
        let of_direction = mean_ns(direction).map(|mean| mean * direction.total_ios as f64);
        sum_ns = sum_ns.zip(of_direction).map(|(sum, more)| sum + more);
    }
    if poorest == LatencySource::Absent {
        latency = Histogram::default();
    }
    // A latency may be known of fewer requests than fio counted.
    let iops = per_second(ios as f64, measured);
    let mut record = DirectionRecord::new(latency, bytes, 0, measured);
    (record.ios, record.iops) = (ios, iops);
    if record.lacks_percentiles() {
        record.percentiles.mean_ns = sum_ns.map_or(0, |sum| (sum / ios as f64).round() as u64);
    }
    Ok((record, poorest))
}

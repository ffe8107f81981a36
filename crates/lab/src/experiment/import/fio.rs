//! fio's output (`--output-format=json` or `json+`, version 3) and its logs, as one saved cell.
//!
//! One run of fio is one cell: its jobs are the sections, clones that fio reports one by one are
//! added up, groups follow each other (fio begins one at each `stonewall`). `json+` has the bins
//! of every latency, the same that [`mirrorball_core::histogram`] has, so nothing is lost. Plain
//! `json` has percentiles only: those are kept, and what lies between them is not known.
//!
//! fio puts completion latencies into bins, and total ones, from the intended submission on as a
//! simulation counts them, if `lat_percentiles=1` asks for it. The total is taken where it is
//! there; [`ImportRecord`] says which it was.
//!
//! The disks that fio watched (`disk_util`) become members. The kernel counts for them, so work of
//! others on the same disks is included. Source: fio's HOWTO and `stat.c`, version 3.33.

mod document;
mod groups;
mod job_text;
mod latency;
mod logs;
mod sections;

pub use logs::Log;

use super::ImportLabels;
use crate::experiment::build::BuildIdentity;
use crate::experiment::environment::Environment;
use crate::experiment::hash::stable_hash;
use crate::experiment::record::{
    CellIdentity, CellRecord, ImportRecord, MemberRecord, RunRecord, SCHEMA_VERSION,
};
use anyhow::{Result, bail};
use document::{Disk, Document};
use mirrorball_core::units::format_bytes;
use sections::Sections;

/// Nanoseconds in fio's millisecond.
const NS_PER_MS: u64 = 1_000_000;
/// Bytes in a sector, as the kernel counts them.
const SECTOR_BYTES: u64 = 512;

/// Size of the largest output that is read: one of many hundred jobs is smaller.
pub const RESULT_BYTES_MAX: u64 = 12 << 20;

/// The cell that one output of fio and its logs make. Its repeat and seed are those of the first.
/// Fails if the text holds no output of fio 2 or 3, or none with requests; the message follows the
/// name of the file.
pub fn cell(text: &[u8], logs: &[Log], about: &ImportLabels) -> Result<CellRecord> {
    if text.len() as u64 > RESULT_BYTES_MAX {
        bail!(
            "is larger than {}\n  help: of a run with --status-interval give the last state only; \
             logs are given with --log",
            format_bytes(RESULT_BYTES_MAX)
        );
    }
    let document = Document::read(text)?;
    let sections = Sections::new(&document)?;
    let job = about.job.clone().unwrap_or_else(|| sections.joined_names());
    let members = members(&document);
    let (intervals, over_time) = logs::intervals(logs, &sections)?;
    let of_several = sections.of_several();
    let job_text = job_text::job_text(&document, &of_several);
    let record = CellRecord {
        schema_version: SCHEMA_VERSION,
        build: BuildIdentity::with_hash(""),
        key: key(text, about, &job),
        cell: CellIdentity {
            array: about.array.clone(),
            job,
            policy: about.policy.clone(),
            repeat: 0,
            seed: 1,
            duration_ns: None,
        },
        environment: environment(&document),
        array_text: about.array_text.clone(),
        run: RunRecord {
            measured: sections.measured(),
            sections: sections.records(&job_text),
            member_ios: members.iter().map(|it| it.reads.saturating_add(it.writes)).sum(),
            members,
            intervals,
            ..RunRecord::default()
        },
        job_text,
        imported: Some(ImportRecord {
            program: document.version.clone(),
            timestamp_s: document.timestamp,
            latency: sections.latency_source(),
            latency_over_time: over_time,
            of_several,
            disks: document.disks().map(|disk| disk.name.clone()).collect(),
        }),
    };
    match record.damage() {
        Some(what) => bail!("cannot be right: {what}"),
        None => Ok(record),
    }
}

/// Whether an output of fio says that the run was to go on: a signal stopped it, or its last state
/// is not that of its end.
pub fn is_partial(text: &[u8]) -> bool {
    String::from_utf8_lossy(text).contains("fio: terminating on signal")
        || Document::read(text).is_ok_and(|document| document.is_partial())
}

/// The same result of fio under the same names gives the same key, whatever logs are given with it.
fn key(text: &[u8], about: &ImportLabels, job: &str) -> String {
    let ImportLabels { array, array_text, policy, .. } = about;
    let names = [array.as_str(), array_text, policy, job];
    let text = String::from_utf8_lossy(text);
    stable_hash([&*text].into_iter().chain(names))
}

/// Of the machine fio says its name at most, and that only where it ran as a server.
fn environment(document: &Document) -> Environment {
    let unknown = || "unknown".to_owned();
    let host = document.jobs.iter().find_map(|job| job.hostname.clone());
    Environment {
        host: host.unwrap_or_else(unknown),
        system: unknown(),
        kernel: unknown(),
        cpu: unknown(),
        cpus: 0,
    }
}

fn members(document: &Document) -> Vec<MemberRecord> {
    let all: u64 = document.disks().fold(0, |sum, disk| sum.saturating_add(disk.read_ios));
    let member = |(devid, disk): (u64, &Disk)| MemberRecord {
        devid,
        foreground_reads: disk.read_ios,
        share: disk.read_ios as f64 / all.max(1) as f64,
        reads: disk.read_ios,
        writes: disk.write_ios,
        read_bytes: disk.read_sectors.saturating_mul(SECTOR_BYTES),
        written_bytes: disk.write_sectors.saturating_mul(SECTOR_BYTES),
        read_wait_mean_ns: disk.read_ticks.saturating_mul(NS_PER_MS) / disk.read_ios.max(1),
        ..MemberRecord::default()
    };
    (1..).zip(document.disks()).map(member).collect()
}

#[cfg(test)]
mod tests;

//! The saved outcome of a pairing: what each policy achieved in each section.
//!
//! A results folder has `sample.json`, which says what the folder is for, and one file per pairing.
//! A file belongs to the texts of its array and job: if those change, it counts as missing. Each
//! policy's outcome names the build that made it, so another build runs the policy again.

use super::LeagueRequest;
use super::class::Classes;
use crate::experiment::build::BuildIdentity;
use crate::experiment::hash::stable_hash;
use crate::experiment::plan::Plan;
use crate::experiment::record::{SCHEMA_VERSION, SectionRecord};
use crate::experiment::results::digest::{self, Integrity};
use crate::experiment::results::{SAMPLE_FILE, folder_problem, write_whole};
use crate::experiment::study::CellSummary;
use crate::experiment::study::score::section_score;
use anyhow::{Result, anyhow, bail};
use mirrorball_core::policies::{PROGRAM_FAMILY, short_policy_name};
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// A results folder of a random league.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

/// Which sample a folder is of. Another one would overwrite its pairings, which have the same
/// numbers.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct SampleMark {
    schema_version: u32,
    seed: u64,
    quick: bool,
}

impl SampleMark {
    fn of(request: &LeagueRequest) -> SampleMark {
        let &LeagueRequest { seed, quick, .. } = request;
        SampleMark { schema_version: SCHEMA_VERSION, seed, quick }
    }
}

impl fmt::Display for SampleMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = if self.quick { ", short runs" } else { "" };
        write!(f, "seed {}{length}", self.seed)
    }
}

/// The outcome of one pairing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct PairingRecord {
    /// Hash of the texts of the array and the job, and of the seed of the cells.
    pub key: String,
    /// Number of the pairing in its sample, from one.
    pub number: u32,
    /// What its array is.
    pub array: Classes,
    /// What its job is.
    pub job: Classes,
    /// One for each policy that was run.
    pub entries: Vec<EntryRecord>,
    /// Outcomes of the subjects by their last builds, before those in `entries`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last: Vec<EntryRecord>,
}

/// The outcome of one pairing under one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct EntryRecord {
    /// Canonical string of the policy, or the name of an oracle.
    pub policy: String,
    /// Build of the program that ran it.
    pub build: BuildIdentity,
    /// One for each section of the job.
    pub sections: Vec<SectionFigures>,
    /// Member reads whose data was not needed, because another mirror had answered.
    pub extra_reads: u64,
}

/// One section under one policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SectionFigures {
    /// Its name.
    pub name: String,
    /// Its part of the score, the higher the better: requests per second, or 1/mean latency if the
    /// job sets the rate.
    pub score: f64,
    /// Requests per second.
    pub iops: f64,
    /// Reads that succeeded.
    pub reads: u64,
    /// 99th percentile of the latency of reads, in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile of the latency of reads, in microseconds.
    pub p99_9_us: f64,
}

impl Folder {
    /// Creates a results folder for the sample of a request, or opens it. Fails if the folder holds
    /// something else or another sample, or cannot be written.
    pub fn open(path: &Path, request: &LeagueRequest) -> Result<Folder> {
        let own = SampleMark::of(request);
        let shown = path.display();
        let mark = path.join(SAMPLE_FILE);
        let help = "choose another folder with -o";
        if !mark.exists() {
            let is_empty = match fs::read_dir(path) {
                Ok(mut entries) => entries.next().is_none(),
                Err(error) if error.kind() == ErrorKind::NotFound => true,
                Err(error) => {
                    let problem = folder_problem(path, &error);
                    bail!("cannot use {shown} as results folder: {problem}\n  help: {help}");
                }
            };
            if !is_empty {
                bail!("{shown} is not empty and holds no results of a sample\n  help: {help}");
            }
            fs::create_dir_all(path).map_err(|error| {
                let problem = folder_problem(path, &error);
                anyhow!("cannot create the results folder {shown}: {problem}\n  help: {help}")
            })?;
            let text = serde_json::to_string(&own).expect("a mark is plain data") + "\n";
            write_whole(&mark, text.as_bytes())?;
        }
        let text = fs::read_to_string(&mark)
            .map_err(|error| anyhow!("cannot read {}: {error}", mark.display()))?;
        let found: Option<SampleMark> = serde_json::from_str(&text).ok();
        if found.as_ref() != Some(&own) {
            let found = found.map_or("another version".to_owned(), |found| found.to_string());
            bail!("{shown} holds the sample of {found}, not of {own}\n  help: {help}");
        }
        Ok(Folder { path: path.to_owned() })
    }

    /// The saved record of a pairing, if it is of the array and the job of `plan`.
    pub(super) fn load(&self, number: u32, plan: &Plan) -> Option<PairingRecord> {
        let text = fs::read_to_string(self.file(number)).ok()?;
        let is_intact = digest::check(&text) == Integrity::Intact;
        let record: Option<PairingRecord> =
            is_intact.then(|| serde_json::from_str(&text).ok()).flatten();
        record.filter(|record| record.key == key(plan))
    }

    pub(super) fn save(&self, record: &PairingRecord) -> Result<()> {
        let text = serde_json::to_string(record).expect("a record is plain data");
        write_whole(&self.file(record.number), digest::seal(&text).as_bytes())
    }

    fn file(&self, number: u32) -> PathBuf {
        self.path.join(format!("pairing-{number:05}.json"))
    }
}

/// Hash of all that decides the outcome, apart from policy and build.
pub(super) fn key(plan: &Plan) -> String {
    let (array, job) = (&plan.array, &plan.jobs[0]);
    let (schema, seed) = (SCHEMA_VERSION.to_string(), plan.seeds[0].to_string());
    stable_hash([&*schema, &array.text, &array.fingerprint, &job.text, &job.fingerprint, &seed])
}

impl PairingRecord {
    /// Keeps, for each subject, the outcome of its last build: of another build of this program, or
    /// of another object of a program with the same name and parameters. The outcomes of a name are
    /// in the order in which they were asked for. Returns true if something changed.
    pub(super) fn set_last(&mut self, request: &LeagueRequest, build: &BuildIdentity) -> bool {
        let contenders = request.contenders();
        let mut is_changed = false;
        for subject in &request.subjects {
            let name = without_hash(subject);
            let is_own = |entry: &EntryRecord| entry.policy == *subject && entry.build == *build;
            let is_other = |entry: &EntryRecord| {
                let is_free = entry.policy == *subject || !contenders.contains(&entry.policy);
                is_free && !is_own(entry) && without_hash(&entry.policy) == name
            };
            let own = self.entries.iter().position(is_own);
            let Some(other) = self.entries.iter().rposition(is_other) else { continue };
            if own > Some(other) {
                continue;
            }
            self.last.retain(|last| without_hash(&last.policy) != name);
            self.last.push(self.entries[other].clone());
            if let Some(own) = own {
                let entry = self.entries.remove(own);
                self.entries.push(entry);
            }
            is_changed = true;
        }
        is_changed
    }

    /// The outcome of the last build of a subject, if there was one.
    pub(super) fn last(&self, subject: &str) -> Option<&EntryRecord> {
        self.last.iter().find(|last| without_hash(&last.policy) == without_hash(subject))
    }

    /// The outcome under a policy, if it was run.
    pub fn entry(&self, policy: &str) -> Option<&EntryRecord> {
        self.entries.iter().find(|entry| entry.policy == policy)
    }
}

/// A policy string without the hash of its program: the same for all builds of one.
fn without_hash(policy: &str) -> String {
    let is_program = policy.starts_with(PROGRAM_FAMILY);
    let Some(start) = policy.find('@').filter(|_| is_program) else { return policy.to_owned() };
    let length = policy[start..].find(['?', '+']).unwrap_or(policy.len() - start);
    format!("{}{}", &policy[..start], &policy[start + length..])
}

impl EntryRecord {
    /// Name of the build that made it: of a program, or of this one.
    pub(super) fn build_name(&self) -> String {
        match self.policy.starts_with(PROGRAM_FAMILY) {
            true => short_policy_name(&self.policy),
            false => self.build.to_string(),
        }
    }

    pub(super) fn new(build: &BuildIdentity, cell: &CellSummary) -> EntryRecord {
        let judged = cell.run.sections.iter().filter(|section| !section.is_background);
        EntryRecord {
            policy: cell.identity.policy.clone(),
            build: build.clone(),
            sections: judged.map(SectionFigures::new).collect(),
            extra_reads: cell.run.sum_of_members(|member| member.extra_reads),
        }
    }
}

impl SectionFigures {
    fn new(section: &SectionRecord) -> SectionFigures {
        let microseconds = |ns: u64| ns as f64 / 1e3;
        let percentiles = &section.read.percentiles;
        SectionFigures {
            name: section.name.clone(),
            score: section_score(section),
            iops: section.read.iops + section.write.iops + section.trim.iops,
            reads: section.read.ios,
            p99_us: microseconds(percentiles.p99_ns),
            p99_9_us: microseconds(percentiles.p99_9_ns),
        }
    }
}

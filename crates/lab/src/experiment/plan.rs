//! The plan of an experiment: which cells are run, in which order, with which seeds.
//!
//! A plan is an array, jobs, policies and seeds; its cells are all combinations, in the order
//! jobs, policies, repeats. The seed of a cell depends on its repeat alone: every policy faces the
//! same streams of requests on disks with the same draws of chance, so that policies are compared
//! in pairs (see [`crate::experiment::study::statistics`]). The oracle runs last under each job.
//!
//! The plan is saved as `plan.json` in the results folder with everything that is needed to repeat
//! it. Parsing is not done here; see [`crate::experiment::inputs`].

use crate::experiment::build::BuildIdentity;
use crate::experiment::environment::Environment;
use crate::experiment::hash::stable_hash;
use crate::experiment::record::{CellIdentity, CellRecord, ORACLE, RunRecord, SCHEMA_VERSION};
use mirrorball_core::policies::PolicyProgram;
use mirrorball_core::units::Nanos;
#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// An experiment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Plan {
    /// [`SCHEMA_VERSION`] when it was made.
    pub schema_version: u32,
    /// Build of the program that runs it.
    pub build: BuildIdentity,
    /// A command that runs it again, apart from where results go.
    pub command: String,
    /// The machine it was made on.
    pub environment: Environment,
    /// The array.
    pub array: InputText,
    /// The jobs, in the order they were named.
    pub jobs: Vec<InputText>,
    /// Canonical policy strings, without the oracle.
    pub policies: Vec<String>,
    /// The programs among the policies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramObject>,
    /// Reference that runs with the policies.
    #[serde(default, skip_serializing_if = "Reference::is_oracle")]
    pub reference: Reference,
    /// One seed for each repeat.
    pub seeds: Vec<u64>,
    /// Most looks at the results of which each may end the repeats, 1 to 5.
    #[serde(default = "one_look", skip_serializing_if = "is_one")]
    pub looks: u32,
    /// Replaces every section's `runtime`, if given.
    pub duration_ns: Option<u64>,
    /// The same for single jobs, by their names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub job_durations_ns: BTreeMap<String, u64>,
    /// Figure that policies were ranked by when it was made, if not by the default score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<String>,
    /// Policy that gains were stated against when it was made, if it was named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub baseline: Option<String>,
}

/// An array or a job as text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct InputText {
    /// Its name in results: the file's name without its ending.
    pub name: String,
    /// The file.
    pub text: String,
    /// Hash of what was parsed. It changes when a file that this one refers to (a model profile, an
    /// included job) changes, although the text is the same.
    pub fingerprint: String,
}

/// A program as it was run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ProgramObject {
    /// Its canonical name, with which policy strings begin that name it.
    pub name: String,
    /// The WebAssembly object, two hexadecimal digits for each byte.
    pub object: String,
}

/// Reference that runs with the policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Reference {
    /// The oracle.
    #[default]
    Oracle,
    /// None: the future of real disks is unknown.
    Nothing,
}

/// Options of a plan besides its array and jobs.
#[derive(Clone, Debug)]
pub struct Choices {
    /// Canonical policy strings.
    pub policies: Vec<String>,
    /// One seed for each repeat.
    pub seeds: Vec<u64>,
    /// Replaces every section's `runtime`, if given.
    pub duration_ns: Option<u64>,
}

/// One (array, job, policy, seed).
#[derive(Clone, Copy, Debug)]
pub struct Cell<'a> {
    pub plan: &'a Plan,
    /// Its job, by its place in the plan.
    pub job_index: usize,
    /// Canonical policy string, or [`ORACLE`].
    pub policy: &'a str,
    /// Which repeat, from zero.
    pub repeat: u32,
    pub seed: u64,
}

impl Plan {
    /// A plan made by this program on this machine. Panics if there is no job, no policy or no
    /// repeat: the command line sees to that.
    pub fn new(
        build: BuildIdentity,
        array: InputText,
        jobs: Vec<InputText>,
        choices: Choices,
        command: String,
    ) -> Plan {
        let some = !jobs.is_empty() && !choices.policies.is_empty() && !choices.seeds.is_empty();
        assert!(some, "a plan without cells");
        Plan {
            schema_version: SCHEMA_VERSION,
            build,
            command,
            environment: Environment::current(),
            array,
            jobs,
            policies: choices.policies,
            programs: Vec::new(),
            reference: Reference::Oracle,
            seeds: choices.seeds,
            looks: 1,
            duration_ns: choices.duration_ns,
            job_durations_ns: BTreeMap::new(),
            rank: None,
            baseline: None,
        }
    }

    /// Keeps the programs that policies of the plan name.
    #[must_use]
    pub fn with_programs(self, programs: &[Arc<dyn PolicyProgram>]) -> Plan {
        Plan { programs: programs.iter().map(ProgramObject::new).collect(), ..self }
    }

    /// Runs a repeat with each of these seeds. Panics if there is none.
    #[must_use]
    pub fn with_seeds(self, seeds: Vec<u64>) -> Plan {
        assert!(!seeds.is_empty(), "a plan without cells");
        Plan { seeds, ..self }
    }

    /// Lets each of so many looks at the results end the repeats.
    #[must_use]
    pub fn with_looks(self, looks: u32) -> Plan {
        Plan { looks, ..self }
    }

    /// What replaces the `runtime` of the sections of a job, if anything does.
    pub fn duration_of(&self, job: &str) -> Option<u64> {
        self.job_durations_ns.get(job).copied().or(self.duration_ns)
    }

    /// The simulated time of the jobs, in words.
    pub fn duration_in_words(&self) -> String {
        let general = self.duration_ns.map(|duration| Nanos(duration).to_string());
        let own = self.job_durations_ns.iter();
        let own = own.map(|(job, &duration)| format!("{job} {}", Nanos(duration)));
        let all: Vec<String> = general.into_iter().chain(own).collect();
        if all.is_empty() { "that of the jobs".to_owned() } else { all.join(", ") }
    }

    /// `other` with the repeats of this plan, if those of one begin those of the other.
    pub(crate) fn with_repeats_of(&self, other: &Plan) -> Plan {
        let begins = self.seeds.starts_with(&other.seeds) || other.seeds.starts_with(&self.seeds);
        let other = other.clone();
        if begins { other.with_seeds(self.seeds.clone()) } else { other }
    }

    /// The plan with the ranking of `other`, which has the same cells.
    pub(crate) fn with_ranking_of(self, other: &Plan) -> Plan {
        let Plan { command, rank, baseline, .. } = other.clone();
        Plan { command, rank, baseline, ..self }
    }

    /// The policies and, last, the oracle if it takes part.
    pub fn contenders(&self) -> impl Iterator<Item = &str> {
        let oracle = self.reference.is_oracle().then_some(ORACLE);
        self.policies.iter().map(String::as_str).chain(oracle)
    }

    /// Every cell, in the order of the plan.
    pub fn cells(&self) -> Vec<Cell<'_>> {
        let mut cells = Vec::new();
        for job_index in 0..self.jobs.len() {
            for policy in self.contenders() {
                for (repeat, &seed) in (0..).zip(&self.seeds) {
                    cells.push(Cell { plan: self, job_index, policy, repeat, seed });
                }
            }
        }
        cells
    }

    /// Differences of `other`, found in a results folder, from this plan; empty if both measure the
    /// same. The command and the machine are not compared.
    pub fn differences(&self, other: &Plan) -> Vec<String> {
        let seeds = |plan: &Plan| format!("{:?}", plan.seeds);
        let schema = |plan: &Plan| plan.schema_version.to_string();
        let names = |plan: &Plan| {
            plan.jobs.iter().map(|job| job.name.as_str()).collect::<Vec<&str>>().join(", ")
        };
        let by_value = [
            ("build of the program", other.build.to_string(), self.build.to_string()),
            ("version of the schema", schema(other), schema(self)),
            ("array", other.array.name.clone(), self.array.name.clone()),
            ("jobs", names(other), names(self)),
            ("policies", other.policies.join(", "), self.policies.join(", ")),
            ("seeds", seeds(other), seeds(self)),
            ("duration", other.duration_in_words(), self.duration_in_words()),
        ];
        let mut differences: Vec<String> = by_value
            .into_iter()
            .filter(|(_, saved, requested)| saved != requested)
            .map(|(what, saved, requested)| format!("{what}: saved {saved}; requested {requested}"))
            .collect();
        let array = (std::slice::from_ref(&self.array), std::slice::from_ref(&other.array));
        // An array and a job may have the same name.
        for (ours, theirs) in [array, (&self.jobs, &other.jobs)] {
            for source in ours {
                let is_changed = |there: &InputText| there.name == source.name && there != source;
                if theirs.iter().any(is_changed) {
                    differences.push(format!("the contents of `{}` are different", source.name));
                }
            }
        }
        differences
    }
}

impl ProgramObject {
    /// A loaded program as it is saved.
    pub fn new(program: &Arc<dyn PolicyProgram>) -> ProgramObject {
        let digits = program.object().iter().map(|byte| format!("{byte:02x}"));
        ProgramObject { name: program.name().to_owned(), object: digits.collect() }
    }

    /// The bytes of the object, or `None` if the text was changed.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let byte = |at: usize| u8::from_str_radix(self.object.get(at..at + 2)?, 16).ok();
        (0..self.object.len()).step_by(2).map(byte).collect()
    }
}

fn one_look() -> u32 {
    1
}

fn is_one(looks: &u32) -> bool {
    *looks == 1
}

impl Reference {
    fn is_oracle(&self) -> bool {
        *self == Reference::Oracle
    }
}

impl Cell<'_> {
    pub fn job(&self) -> &InputText {
        &self.plan.jobs[self.job_index]
    }

    pub fn identity(&self) -> CellIdentity {
        CellIdentity {
            array: self.plan.array.name.clone(),
            job: self.job().name.clone(),
            policy: self.policy.to_owned(),
            repeat: self.repeat,
            seed: self.seed,
            duration_ns: self.duration_ns(),
        }
    }

    /// What replaces the `runtime` of its job's sections, if anything does.
    pub fn duration_ns(&self) -> Option<u64> {
        self.plan.duration_of(&self.job().name)
    }

    /// Hash of everything that decides its result. Cells with equal keys have equal results, so a
    /// saved cell with this key is not run again.
    pub fn key(&self) -> String {
        let Plan { build, array, .. } = self.plan;
        let job = self.job();
        let duration =
            self.duration_ns().map_or("none".to_owned(), |duration| duration.to_string());
        let is_own = |program: &&ProgramObject| self.policy.starts_with(&program.name);
        let program = self.plan.programs.iter().find(is_own);
        stable_hash([
            &*SCHEMA_VERSION.to_string(),
            &build.version,
            &build.hash,
            &array.text,
            &array.fingerprint,
            &job.text,
            &job.fingerprint,
            self.policy,
            &self.seed.to_string(),
            &duration,
            program.map_or("", |program| &program.object),
        ])
    }

    /// Its record, of which an executor returned `run`.
    pub fn record(&self, run: RunRecord) -> CellRecord {
        CellRecord {
            schema_version: SCHEMA_VERSION,
            build: self.plan.build.clone(),
            key: self.key(),
            cell: self.identity(),
            environment: self.plan.environment.clone(),
            array_text: self.plan.array.text.clone(),
            job_text: self.job().text.clone(),
            run,
            imported: None,
        }
    }

    /// The name of its file, without a folder.
    pub fn file_name(&self) -> String {
        self.identity().file_name(&self.key())
    }
}

#[cfg(test)]
mod tests;

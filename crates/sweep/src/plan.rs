//! The plan of a sweep: the texts of arrays and jobs, and which cells they make.
//!
//! Cells are all combinations of pairs (an array and a job), policies and repeats, in this order,
//! or a random sample of them. They are not listed in the plan, which is as small for millions of
//! cells as for a few. The plan is one JSON file, `sweep.json`; equal input and build give equal
//! bytes, and its hash tells parts of this sweep from those of others.

use anyhow::{Context, Result, bail};
use mirrorball_core::policies::Registry;
use mirrorball_core::rng::Rng;
use mirrorball_lab::experiment::build::BuildIdentity;
use mirrorball_lab::experiment::environment::Environment;
use mirrorball_lab::experiment::hash::stable_hash;
use mirrorball_lab::experiment::inputs::Inputs;
use mirrorball_lab::experiment::plan::{Cell, InputText, Plan, ProgramObject, Reference};
use mirrorball_lab::experiment::record::{ORACLE, SCHEMA_VERSION};
use rayon::iter::{IntoParallelIterator, ParallelIterator};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepPlan {
    /// Version of the saved structures when it was made.
    pub schema_version: u32,
    /// Build of the program that made it, which alone can run it.
    pub build: BuildIdentity,
    /// Canonical policy strings, and the oracle if it takes part.
    pub policies: Vec<String>,
    /// Replaces every section's `runtime`, if given.
    pub duration_ns: Option<u64>,
    /// Which cells are run, if not all.
    pub sample: Option<CellSample>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<ProgramObject>,
    /// The programs, loaded.
    #[serde(skip)]
    registry: Registry,
    /// Cells that run together.
    pub pairs: Vec<SweepPair>,
    pub arrays: Vec<SweepInput>,
    pub jobs: Vec<SweepInput>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepInput {
    pub name: String,
    pub text: String,
    pub fingerprint: String,
    /// The parameters that vary, with their values.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vary: BTreeMap<String, serde_json::Value>,
}

/// An array and a job that run together, and with which seeds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SweepPair {
    /// Number of the array in the plan, from zero.
    pub array: u32,
    /// Number of the job in the plan, from zero.
    pub job: u32,
    /// Seed of the first repeat; the n-th has this plus n.
    pub seed: u64,
    /// Number of repeats, the same for all pairs.
    pub repeats: u32,
    /// Approximate cost of one of its cells, in simulated requests.
    #[serde(default = "one")]
    pub cost: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellSample {
    pub cells: u64,
    pub seed: u64,
}

fn one() -> u32 {
    1
}

/// The hash that identifies a cell.
pub type CellKey = u128;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SweepCell {
    /// Pair, by number.
    pub pair: u32,
    /// Policy, by number.
    pub policy: u32,
    /// Repeat, from zero.
    pub repeat: u32,
}

impl SweepPlan {
    /// Every job on every array under every policy, with one seed.
    pub fn grid(
        build: BuildIdentity,
        arrays: Vec<SweepInput>,
        jobs: Vec<SweepInput>,
        policies: Vec<String>,
        duration_ns: Option<u64>,
    ) -> SweepPlan {
        let pair = |array, job| SweepPair { array, job, seed: 1, repeats: 1, cost: 1 };
        let of_array = |array| (0..jobs.len() as u32).map(move |job| pair(array, job));
        let pairs = (0..arrays.len() as u32).flat_map(of_array).collect();
        let schema_version = SCHEMA_VERSION;
        SweepPlan {
            schema_version,
            build,
            policies,
            duration_ns,
            sample: None,
            programs: Vec::new(),
            registry: Registry::default(),
            pairs,
            arrays,
            jobs,
        }
    }

    /// The same with so many repeats of each pair from each of these seeds on.
    #[must_use]
    pub fn with_seeds(self, seeds: &[u64], repeats: u32) -> SweepPlan {
        let with = |pair| seeds.iter().map(move |&seed| SweepPair { seed, repeats, ..pair });
        SweepPlan { pairs: self.pairs.into_iter().flat_map(with).collect(), ..self }
    }

    /// The same with so many random cells of the grid, drawn with a seed.
    #[must_use]
    pub fn with_sample(self, sample: Option<(u64, u64)>) -> SweepPlan {
        SweepPlan { sample: sample.map(|(cells, seed)| CellSample { cells, seed }), ..self }
    }

    /// The same with programs that policies name.
    #[must_use]
    pub fn with_programs(self, registry: Registry) -> SweepPlan {
        let programs = registry.programs().iter().map(ProgramObject::new).collect();
        SweepPlan { programs, registry, ..self }
    }

    /// Loads its programs into a registry, without which no cell of theirs can run. Fails if the
    /// registry cannot load them.
    pub fn load_programs(&mut self, mut registry: Registry) -> Result<()> {
        for program in &self.programs {
            let loaded = program.bytes().map(|object| registry.load(&object)).transpose()?;
            if loaded.is_none_or(|loaded| loaded.name() != program.name) {
                bail!("the program `{}` of the sweep was changed", program.name);
            }
        }
        self.registry = registry;
        Ok(())
    }

    /// Reads a plan from its text. Fails if this version cannot read it.
    pub fn parse(text: &str) -> Result<SweepPlan> {
        let plan: SweepPlan = serde_json::from_str(text).context("is not a plan of a sweep")?;
        let is_inside = |pair: &SweepPair| {
            (pair.array as usize) < plan.arrays.len() && (pair.job as usize) < plan.jobs.len()
        };
        let repeats = plan.repeats();
        let is_sound = plan.pairs.iter().all(|pair| is_inside(pair) && pair.repeats == repeats);
        if !is_sound || plan.cell_count() == 0 || plan.cell_count() > plan.grid_cells() {
            bail!("was changed, so that it is no plan any more");
        }
        Ok(plan)
    }

    pub fn text(&self) -> String {
        serde_json::to_string_pretty(self).expect("a plan is plain data") + "\n"
    }

    pub fn hash(&self) -> String {
        stable_hash([&*self.text()])
    }

    pub fn pair_count(&self) -> u32 {
        self.pairs.len() as u32
    }

    pub fn grid_cells(&self) -> u64 {
        let each = self.policies.len() as u64 * u64::from(self.repeats());
        self.pairs.len() as u64 * each
    }

    pub fn cell_count(&self) -> u64 {
        self.sample.map_or_else(|| self.grid_cells(), |sample| sample.cells)
    }

    fn repeats(&self) -> u32 {
        self.pairs.first().map_or(0, |pair| pair.repeats)
    }

    /// Every cell, in the order of the plan: pairs, policies, repeats.
    pub fn cells(&self) -> Vec<SweepCell> {
        let (policies, repeats) = (self.policies.len() as u64, u64::from(self.repeats()));
        let cell = |place: u64| SweepCell {
            pair: (place / (policies * repeats)) as u32,
            policy: (place / repeats % policies) as u32,
            repeat: (place % repeats) as u32,
        };
        match self.sample {
            None => (0..self.grid_cells()).map(cell).collect(),
            Some(sample) => sample.places(self.grid_cells()).into_iter().map(cell).collect(),
        }
    }

    /// The keys of `cells`, in their order.
    pub fn keys(&self, cells: &[SweepCell]) -> Vec<CellKey> {
        let of_pair = |cells: &[SweepCell]| -> Vec<CellKey> {
            let Some(first) = cells.first() else { return Vec::new() };
            let plan = self.lab_plan(first.pair);
            cells.iter().map(|cell| self.key(&plan, *cell)).collect()
        };
        let chunks: Vec<&[SweepCell]> =
            cells.chunk_by(|left, right| left.pair == right.pair).collect();
        chunks.into_par_iter().flat_map_iter(of_pair).collect()
    }

    fn key(&self, plan: &Plan, cell: SweepCell) -> CellKey {
        let key = self.lab_cell(plan, cell).key();
        u128::from_str_radix(&key, 16).expect("a key is 32 hexadecimal digits")
    }

    /// The inputs of a pair, parsed. Fails if they do not fit each other, or are not on this
    /// machine what they were where the plan was made.
    pub fn inputs(&self, pair: u32) -> Result<Inputs> {
        let (array, job) = self.texts(pair);
        let about = || format!("job `{}` on array `{}`", job.name, array.name);
        let inputs = Inputs::from_texts((&array.name, &array.text), &[(&job.name, &job.text)])
            .with_context(about)?
            .with_registry(self.registry.clone());
        if inputs.array_source.fingerprint != array.fingerprint
            || inputs.job_sources[0].fingerprint != job.fingerprint
        {
            bail!(
                "{}: files that they refer to are not the ones of the plan\n  help: make them the \
                 same on every machine",
                about()
            );
        }
        Ok(inputs)
    }

    pub fn texts(&self, pair: u32) -> (&SweepInput, &SweepInput) {
        let SweepPair { array, job, .. } = self.pairs[pair as usize];
        (&self.arrays[array as usize], &self.jobs[job as usize])
    }

    /// The experiment of a pair, without the results' origin.
    pub fn lab_plan(&self, pair: u32) -> Plan {
        let (array, job) = self.texts(pair);
        let SweepPair { seed, repeats, .. } = self.pairs[pair as usize];
        let source = |input: &SweepInput| InputText {
            name: input.name.clone(),
            text: input.text.clone(),
            fingerprint: input.fingerprint.clone(),
        };
        let is_policy = |policy: &&String| *policy != ORACLE;
        Plan {
            schema_version: self.schema_version,
            build: self.build.clone(),
            command: String::new(),
            environment: Environment::current(),
            array: source(array),
            jobs: vec![source(job)],
            policies: self.policies.iter().filter(is_policy).cloned().collect(),
            programs: self.programs.clone(),
            reference: Reference::Nothing,
            seeds: (0..repeats).map(|repeat| seed.wrapping_add(repeat.into())).collect(),
            looks: 1,
            duration_ns: self.duration_ns,
            job_durations_ns: BTreeMap::new(),
            rank: None,
            baseline: None,
        }
    }

    /// A cell of the experiment of its pair.
    pub fn lab_cell<'a>(&'a self, plan: &'a Plan, cell: SweepCell) -> Cell<'a> {
        Cell {
            plan,
            job_index: 0,
            policy: &self.policies[cell.policy as usize],
            repeat: cell.repeat,
            seed: plan.seeds[cell.repeat as usize],
        }
    }

    /// The names of the parameters that vary, in alphabetical order.
    pub fn varied(&self) -> Vec<&str> {
        let inputs = self.arrays.iter().chain(&self.jobs);
        let names: BTreeSet<&str> =
            inputs.flat_map(|input| input.vary.keys()).map(String::as_str).collect();
        names.into_iter().collect()
    }
}

impl CellSample {
    /// The places of the sample among `all`, rising. Floyd's algorithm: a draw for each place.
    ///
    /// Source: Bentley, Floyd, "Programming pearls: a sample of brilliance", CACM 30 (9), 1987.
    fn places(self, all: u64) -> Vec<u64> {
        let mut rng = Rng::stream(self.seed, "sample of a sweep");
        let mut places = BTreeSet::new();
        for last in all - self.cells..all {
            let drawn = rng.below(last + 1);
            places.insert(if places.contains(&drawn) { last } else { drawn });
        }
        places.into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(name: &str) -> SweepInput {
        let (name, fingerprint) = (name.to_owned(), name.to_owned());
        SweepInput { name, text: String::new(), fingerprint, vary: BTreeMap::new() }
    }

    fn plan() -> SweepPlan {
        let policies = ["a", "b", "c"].map(str::to_owned).to_vec();
        let build = BuildIdentity::with_hash("0");
        let (arrays, jobs) = (vec![input("x"), input("y")], vec![input("z")]);
        SweepPlan::grid(build, arrays, jobs, policies, None).with_seeds(&[7], 2)
    }

    #[test]
    fn cells_are_in_the_order_of_pairs_policies_and_repeats() {
        let plan = plan();
        let cells = plan.cells();
        assert_eq!(cells.len() as u64, plan.cell_count());
        assert!(cells.is_sorted_by(|left, right| left < right));
        assert_eq!(cells[5], SweepCell { pair: 0, policy: 2, repeat: 1 });
        let keys: BTreeSet<CellKey> = plan.keys(&cells).into_iter().collect();
        assert_eq!(keys.len(), 12);
        assert_eq!(SweepPlan::parse(&plan.text()).unwrap(), plan);
    }

    #[test]
    fn a_sample_has_distinct_cells_of_the_grid() {
        let all = plan().cells();
        for cells in 1..=12 {
            let drawn = plan().with_sample(Some((cells, 5))).cells();
            assert_eq!(drawn.len() as u64, cells);
            assert!(drawn.is_sorted_by(|left, right| left < right));
            assert!(drawn.iter().all(|cell| all.contains(cell)));
        }
        let draw = |seed| plan().with_sample(Some((6, seed))).cells();
        assert_eq!(draw(1), draw(1));
        assert!((2..10).any(|seed| draw(seed) != draw(1)));
    }

    #[test]
    fn a_changed_plan_is_refused() {
        let text = plan().text();
        for (from, to) in [("\"array\": 1", "\"array\": 2"), ("\"repeats\": 2", "\"repeats\": 0")] {
            assert!(text.contains(from));
            assert!(SweepPlan::parse(&text.replacen(from, to, 1)).is_err(), "{from}");
        }
        assert!(SweepPlan::parse("{}").is_err());
    }
}

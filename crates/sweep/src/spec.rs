//! The file that describes a sweep: arrays, jobs, policies and seeds, each one or a list.
//!
//! Names are those of the options of `compare`. An array or a job is a name, or a table with a
//! `name` and the parameters to `vary`, each with a list of values. Files are looked for next to
//! the sweep's own file.

use crate::cost;
use crate::plan::{SweepInput, SweepPlan};
use crate::vary;
use anyhow::{Context, Result, anyhow, bail};
use mirrorball_core::policies::Registry;
use mirrorball_core::units::parse_duration;
use mirrorball_lab::experiment::build::BuildIdentity;
use mirrorball_lab::experiment::inputs;
use mirrorball_lab::experiment::plan::InputText;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::Value;

/// Most cells that a plan may have: a process needs about 120 bytes of memory for each.
pub const CELLS_MAX: u64 = 10_000_000;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepSpec {
    pub array: OneOrMany<SpecInput>,
    /// The jobs, each of which runs on every array.
    pub job: OneOrMany<SpecInput>,
    /// Policies and globs of policies, as `compare --policy` takes them.
    #[serde(default = "all_policies")]
    pub policy: OneOrMany<String>,
    #[serde(default = "one")]
    pub repeats: u32,
    /// Seed of the first repeat, or a list of seeds, each for one repeat.
    #[serde(default = "first_seed")]
    pub seed: OneOrMany<u64>,
    /// Replaces every section's `runtime`, if given.
    pub duration: Option<String>,
    /// Whether the oracle runs, too.
    #[serde(default)]
    pub oracle: bool,
    /// Number of cells to draw at random from the grid; all if there is none.
    pub sample: Option<u64>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

/// An array or a job in the file of a sweep.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub enum SpecInput {
    /// By its name alone.
    Name(String),
    Varied(VariedInput),
}

/// An array or a job with parameters that vary.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VariedInput {
    /// A built-in one, or the path of a file.
    pub name: String,
    /// Values of each parameter. All combinations are run.
    #[serde(default)]
    pub vary: BTreeMap<String, Vec<Value>>,
}

fn all_policies() -> OneOrMany<String> {
    OneOrMany::One("all".to_owned())
}

fn one() -> u32 {
    1
}

fn first_seed() -> OneOrMany<u64> {
    OneOrMany::One(1)
}

impl<T> OneOrMany<T> {
    fn as_slice(&self) -> &[T] {
        match self {
            OneOrMany::One(item) => std::slice::from_ref(item),
            OneOrMany::Many(items) => items,
        }
    }
}

impl SpecInput {
    fn parts(&self) -> (&str, Vec<(&str, &[Value])>) {
        match self {
            SpecInput::Name(name) => (name, Vec::new()),
            SpecInput::Varied(VariedInput { name, vary }) => {
                let vary = vary.iter().map(|(path, values)| (path.as_str(), values.as_slice()));
                (name, vary.collect())
            }
        }
    }
}

impl SweepSpec {
    /// Reads a sweep from its text. Fails if it is not TOML, or a key is unknown, missing or has
    /// the wrong kind of value.
    pub fn parse(text: &str) -> Result<SweepSpec> {
        toml::from_str(text).map_err(|error| anyhow!("{}", error.to_string().trim_end()))
    }

    /// The policies as one list, separated by commas.
    pub fn policy_list(&self) -> String {
        self.policy.as_slice().join(",")
    }

    /// The plan of this build, whose policies may name the programs of `registry`. Files are
    /// relative to `folder`. Fails if an input cannot be read or understood, is not whole without
    /// other files, or does not fit another; and if there are no cells or too many.
    pub fn plan(
        &self,
        folder: &Path,
        build: BuildIdentity,
        registry: Registry,
    ) -> Result<SweepPlan> {
        let arrays = variants(self.array.as_slice(), folder, ARRAY)?;
        let jobs = variants(self.job.as_slice(), folder, JOB)?;
        let policies = self.policies(&arrays, &registry)?;
        let duration_ns = self.duration.as_deref().map(duration_ns).transpose()?;
        let seeds = self.seed.as_slice();
        let is_list = matches!(self.seed, OneOrMany::Many(_));
        let distinct: BTreeSet<&u64> = seeds.iter().collect();
        if is_list && (self.repeats > 1 || distinct.len() < seeds.len()) {
            bail!("`seed`: a list has each seed once, and goes without `repeats`");
        }
        if seeds.iter().any(|seed| seed.checked_add(u64::from(self.repeats)).is_none()) {
            bail!("`seed` and `repeats`: the last seed exceeds 64 bits\n  help: lower `seed`");
        }
        let plan = SweepPlan::grid(build, arrays, jobs, policies, duration_ns)
            .with_programs(registry)
            .with_seeds(seeds, self.repeats)
            .with_sample(self.sample.zip(seeds.first().copied()));
        let grid = plan.grid_cells();
        if grid == 0 {
            bail!(
                "the sweep has no cells: `array`, `job`, `policy`, `repeats` and each list of \
                   `vary` need at least one value"
            );
        }
        if plan.cell_count() > CELLS_MAX {
            bail!(
                "the sweep has {} cells; at most {CELLS_MAX} are allowed\n  help: give \
                   `sample`, the number of cells to draw at random",
                plan.cell_count()
            );
        }
        if self.sample.is_some_and(|cells| cells == 0 || cells > grid) {
            bail!("`sample`: give a number from 1 to {grid}, the number of cells of the grid");
        }
        cost::with_costs(plan)
    }

    fn policies(&self, arrays: &[SweepInput], registry: &Registry) -> Result<Vec<String>> {
        let specs = registry.parse_list(&self.policy_list()).context("`policy`")?;
        for array in arrays {
            let spec = inputs::array_of_text(&array.name, &array.text)?;
            let devids: Vec<u64> = spec.members.iter().map(|member| member.devid).collect();
            for policy in &specs {
                policy.build(&devids).with_context(|| format!("`policy` on `{}`", array.name))?;
            }
        }
        let oracle = self.oracle.then(|| mirrorball_lab::experiment::record::ORACLE.to_owned());
        Ok(specs.iter().map(ToString::to_string).chain(oracle).collect())
    }
}

fn duration_ns(text: &str) -> Result<u64> {
    match parse_duration(text) {
        Ok(duration) if duration.0 > 0 => Ok(duration.0),
        _ => bail!("`duration`: `{text}` is no time\n  help: give a time such as \"500ms\""),
    }
}

struct InputReader {
    kind: &'static str,
    load: fn(&str) -> Result<InputText>,
    set: fn(&str, &str, &Value) -> Result<String>,
    /// The fingerprint of a text that has no other file around it.
    fingerprint: fn(&str, &str) -> Result<String>,
}

const ARRAY: InputReader = InputReader {
    kind: "array",
    load: |name| Ok(inputs::load_array(name)?.0),
    set: vary::array_text,
    fingerprint: |name, text| {
        refuse_relative_models(text)?;
        Ok(inputs::fingerprint(&inputs::array_of_text(name, text)?))
    },
};

const JOB: InputReader = InputReader {
    kind: "job",
    load: |name| Ok(inputs::load_job(name)?.0),
    set: vary::job_text,
    fingerprint: |name, text| Ok(inputs::job_fingerprint(&inputs::job_of_text(name, text)?)),
};

/// Refuses an array with a model that is a file next to it: other machines do not have it.
fn refuse_relative_models(text: &str) -> Result<()> {
    let table: toml::Table = text.parse()?;
    let members = table.get("member").and_then(Value::as_array).into_iter().flatten();
    let mut models = members.filter_map(|member| member.get("model")?.as_str());
    match models.find(|model| model.ends_with(".toml") && !model.starts_with('/')) {
        Some(model) => bail!("the model `{model}` is another file"),
        None => Ok(()),
    }
}

/// All variants of the inputs of one kind, in the order of the file.
fn variants(entries: &[SpecInput], folder: &Path, reader: InputReader) -> Result<Vec<SweepInput>> {
    let mut all = Vec::new();
    for entry in entries {
        let (name, vary) = entry.parts();
        let path = folder.join(name);
        let found = if path.exists() { path.to_string_lossy().into_owned() } else { name.into() };
        let source = (reader.load)(&found)?;
        let mut made = vec![(source.text.clone(), Vec::new())];
        for (parameter, values) in vary {
            if values.is_empty() {
                bail!("`{name}`: `vary`: give at least one value of `{parameter}`");
            }
            let mut next = Vec::new();
            for (text, chosen) in &made {
                for value in values {
                    let changed = (reader.set)(text, parameter, value);
                    let changed = changed.with_context(|| format!("`{name}`: `vary`"))?;
                    let value = (parameter.to_owned(), varied_value(value));
                    next.push((changed, [&chosen[..], &[value]].concat()));
                }
            }
            made = next;
        }
        for (text, vary) in made {
            let fingerprint = (reader.fingerprint)(&source.name, &text);
            let fingerprint = fingerprint.with_context(|| shown(name, &vary, reader.kind))?;
            if vary.is_empty() && fingerprint != source.fingerprint {
                bail!("{}: it depends on environment variables", shown(name, &vary, reader.kind));
            }
            let vary = vary.into_iter().collect();
            all.push(SweepInput { name: source.name.clone(), text, fingerprint, vary });
        }
    }
    Ok(all)
}

fn shown(name: &str, vary: &[(String, serde_json::Value)], kind: &str) -> String {
    let vary: Vec<String> = vary.iter().map(|(path, value)| format!("{path} = {value}")).collect();
    let with = if vary.is_empty() { String::new() } else { format!(" with {}", vary.join(", ")) };
    format!("the {kind} `{name}`{with}, which a sweep needs in one text without other files")
}

/// A value as it is saved: a number, or a text.
fn varied_value(value: &Value) -> serde_json::Value {
    match value {
        Value::Integer(number) => (*number).into(),
        Value::Float(number) => (*number).into(),
        Value::String(text) => text.as_str().into(),
        other => other.to_string().into(),
    }
}

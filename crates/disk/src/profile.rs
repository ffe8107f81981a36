//! Model profiles: the parameters of one disk model, the figures published about it, and their
//! sources.
//!
//! A profile is a TOML file:
//!
//! ```toml
//! name = "hdd-5k4"
//! summary = "2.5-inch notebook disk, 5400 rpm"
//! kind = "hdd"                 # hdd, ssd or delay
//! capacity = "320GB"
//! optimal_io = "0B"            # io_opt as the kernel would report it; 0 if left out
//! [parameters]                 # of that kind of model; an unknown key is an error
//! rpm = 5400
//! [[expect]]                   # a published figure that the model must meet, by a test
//! what = "randread-qd1/iops"   # a workload and a statistic
//! value = 57.0
//! unit = "IOPS"
//! tolerance = 0.1              # a fraction; the statistic's own if left out
//! host = true                  # false if measured at the device, without a host
//! source = "who published it"
//! note = "why this figure was chosen, or why the model misses it"
//! [[distribution]]             # published quantiles, for the demerit figure
//! what = "randread-qd1"
//! unit = "ms"
//! source = "who published it"
//! quantiles = [[0.5, 17.7], [0.99, 28.4]]
//! ```
//!
//! The built-in profiles are files of this form, compiled in. `kinds` has the kinds of model, and
//! `file` the tables of the text.
//!
//! Non-goal: fitting parameters to a drive, which `mirrorball_host::probe` does.

mod file;
mod kinds;

use crate::figure::{Expectation, LatencyDistribution};
use crate::model::{Model, ModelParameters};
use file::{from_toml, position_of, position_of_key, wrong_value};
use kinds::{KINDS, KindOnly};
use mirrorball_core::diagnostic::{Diagnostic, Escaped};
use mirrorball_core::units::format_bytes;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;
use toml::Value;

#[cfg(test)]
mod tests;

/// A disk model with its parameters, the figures that it must meet, and their sources.
#[derive(Clone, Debug)]
pub struct ModelProfile {
    /// The name by which array files refer to it.
    pub name: String,
    pub summary: String,
    /// The kind of model: `hdd`, `ssd` or `delay`.
    pub kind: &'static str,
    pub capacity_bytes: u64,
    /// Whether the kernel would report it as rotational.
    pub rotational: bool,
    /// The optimal I/O size it reports (`io_opt`), or zero for none.
    pub optimal_io_bytes: u64,
    /// Published figures that it must meet.
    pub expectations: Vec<Expectation>,
    pub distributions: Vec<LatencyDistribution>,
    parameters: Arc<dyn ModelParameters>,
    table: toml::Table,
}

/// The built-in profiles, in the order of listings.
const BUILTINS: [(&str, &str); 24] = [
    ("hdd-15k", include_str!("profiles/hdd-15k.toml")),
    ("hdd-10k", include_str!("profiles/hdd-10k.toml")),
    ("hdd-7k2-18tb", include_str!("profiles/hdd-7k2-18tb.toml")),
    ("hdd-7k2-ent", include_str!("profiles/hdd-7k2-ent.toml")),
    ("hdd-7k2-14tb", include_str!("profiles/hdd-7k2-14tb.toml")),
    ("hdd-7k2-4tb", include_str!("profiles/hdd-7k2-4tb.toml")),
    ("hdd-7k2-desktop", include_str!("profiles/hdd-7k2-desktop.toml")),
    ("hdd-7k2-desktop-worn", include_str!("profiles/hdd-7k2-desktop-worn.toml")),
    ("hdd-5k4-8tb", include_str!("profiles/hdd-5k4-8tb.toml")),
    ("hdd-5k4-1tb", include_str!("profiles/hdd-5k4-1tb.toml")),
    ("hdd-5k4-4tb", include_str!("profiles/hdd-5k4-4tb.toml")),
    ("hdd-smr", include_str!("profiles/hdd-smr.toml")),
    ("hdd-5k4", include_str!("profiles/hdd-5k4.toml")),
    ("ssd-sata-consumer", include_str!("profiles/ssd-sata-consumer.toml")),
    ("ssd-sata-plp", include_str!("profiles/ssd-sata-plp.toml")),
    ("ssd-sata-qlc", include_str!("profiles/ssd-sata-qlc.toml")),
    ("ssd-sata-dramless", include_str!("profiles/ssd-sata-dramless.toml")),
    ("nvme-gen3", include_str!("profiles/nvme-gen3.toml")),
    ("nvme-gen4", include_str!("profiles/nvme-gen4.toml")),
    ("nvme-tlc-ent", include_str!("profiles/nvme-tlc-ent.toml")),
    ("nvme-tlc-real", include_str!("profiles/nvme-tlc-real.toml")),
    ("sd-a1", include_str!("profiles/sd-a1.toml")),
    ("usb-stick", include_str!("profiles/usb-stick.toml")),
    ("delay", include_str!("profiles/delay.toml")),
];

impl ModelProfile {
    /// The names of the built-in profiles, in a fixed order.
    pub fn builtin_names() -> impl Iterator<Item = &'static str> {
        BUILTINS.iter().map(|&(name, _)| name)
    }

    /// The built-in profiles, in a fixed order.
    pub fn builtins() -> impl Iterator<Item = ModelProfile> {
        BUILTINS.iter().map(|(name, text)| {
            ModelProfile::parse(text, name).expect("a test reads every built-in profile")
        })
    }

    /// The built-in profile called `name`. Fails if there is none; the help has the closest name.
    pub fn builtin(name: &str) -> Result<ModelProfile, Diagnostic> {
        match BUILTINS.iter().find(|(candidate, _)| *candidate == name) {
            Some((name, text)) => ModelProfile::parse(text, name),
            None => {
                let error = Diagnostic::new(format!("there is no built-in model `{name}`"));
                let names: Vec<&str> = ModelProfile::builtin_names().collect();
                match ModelProfile::names_that_begin(name) {
                    Some(help) => Err(error.with_help(help)),
                    None => Err(error.with_suggestion(name, &names, "the built-in models are")),
                }
            }
        }
    }

    /// The built-in models whose names begin with `name` and a hyphen, for help, if several do.
    pub(crate) fn names_that_begin(name: &str) -> Option<String> {
        let is_kin = |known: &&str| known.starts_with(&format!("{name}-"));
        let kin: Vec<&str> = ModelProfile::builtin_names().filter(is_kin).collect();
        (kin.len() > 1).then(|| format!("the models {name}-* are {}", kin.join(", ")))
    }

    /// Reads a profile. `origin` names the text in error messages; usually it is a path. Fails if
    /// it is not TOML, a key is missing, unknown or has the wrong kind of value, or no disk can
    /// have these parameters.
    pub fn parse(text: &str, origin: &str) -> Result<ModelProfile, Diagnostic> {
        let locate = |error: toml::de::Error| from_toml(text, origin, &error);
        let table: Option<toml::Table> = text.parse().ok();
        if table.as_ref().is_some_and(|it| it.contains_key("member") && !it.contains_key("kind")) {
            let error = Diagnostic::new("this is an array file, not a model profile");
            let help = "give the profile of one disk, which has a line with `kind`";
            return Err(error.in_file(origin).with_help(help));
        }
        if table.is_some_and(|it| !it.contains_key("kind")) {
            let kinds = KINDS.map(|kind| kind.name).join(", ");
            let help = format!(
                "add a line `kind = \"{}\"`, or another of the kinds {kinds}; `mirrorball probe \
                 DEVICE -o FILE` writes a profile",
                KINDS[0].name
            );
            return Err(Diagnostic::new("the key `kind` is missing")
                .in_file(origin)
                .with_help(help));
        }
        let kind_name = toml::from_str::<KindOnly>(text).map_err(locate)?.kind;
        let kind = KINDS.iter().find(|kind| kind.name == kind_name.get_ref());
        let kind = kind.ok_or_else(|| {
            let word = kind_name.get_ref();
            let error = Diagnostic::new(format!("there is no kind of model `{word}`"));
            let error = error.in_file(origin).at(position_of(text, &kind_name.span()));
            error.with_suggestion(word, &KINDS.map(|kind| kind.name), "the kinds are")
        })?;
        let (file, parameters) = (kind.from_text)(text).map_err(locate)?;
        for (key, value) in [("name", &file.name), ("summary", &file.summary)] {
            if value.chars().any(Escaped::is_invisible) {
                let message = format!("`{key}` contains control characters");
                return Err(Diagnostic::new(message).in_file(origin));
            }
        }
        let checked = parameters.check().and_then(|()| {
            check_capacity(parameters.as_ref(), file.capacity)
                .map_err(|problem| format!("`capacity` {problem}"))
        });
        checked.map_err(|message| {
            let position = position_of_key(text, &message);
            let error = Diagnostic::new(message).in_file(origin);
            match position {
                Some(position) => error.at(position),
                None => error,
            }
        })?;
        let at = |span: Range<usize>, fault: Diagnostic| {
            fault.in_file(origin).at(position_of(text, &span))
        };
        let expectations = file.expect.into_iter().map(|row| {
            let span = row.span();
            row.into_inner().check().map_err(|fault| at(span, fault))
        });
        let distributions = file.distribution.into_iter().map(|row| {
            let span = row.span();
            row.into_inner().check().map_err(|fault| at(span, fault))
        });
        Ok(ModelProfile {
            name: file.name,
            summary: file.summary,
            kind: kind.name,
            capacity_bytes: file.capacity,
            rotational: file.rotational.unwrap_or(kind.rotational),
            optimal_io_bytes: file.optimal_io,
            expectations: expectations.collect::<Result<_, _>>()?,
            distributions: distributions.collect::<Result<_, _>>()?,
            parameters,
            table: file.parameters,
        })
    }

    /// Replaces some parameters, as `set` in an array file does. Removes the published figures,
    /// because they describe the original. Does not check the capacity. Fails if a parameter is
    /// unknown or its value does not fit.
    pub fn with_overrides(mut self, overrides: toml::Table) -> Result<ModelProfile, Diagnostic> {
        if overrides.is_empty() {
            return Ok(self);
        }
        let origin = format!("set for model `{}`", self.name);
        let kind = KINDS.iter().find(|kind| kind.name == self.kind).expect("it was read by a kind");
        let read = |overrides: toml::Table| {
            let mut table = self.table.clone();
            table.extend(overrides);
            (kind.from_table)(table.clone()).map(|parameters| (table, parameters))
        };
        let read_all = read(overrides.clone()).map_err(|error| {
            // Errors of a table have no position: the first override that fails alone is to blame.
            let fails =
                |pair: &(String, Value)| read(toml::Table::from_iter([pair.clone()])).is_err();
            match overrides.into_iter().find(fails) {
                Some((key, value)) => wrong_value(&key, &value, error.message()).in_file(&origin),
                None => Diagnostic::of_serde(error.message()).in_file(&origin),
            }
        });
        (self.table, self.parameters) = read_all?;
        let checked = self.parameters.check();
        checked.map_err(|message| Diagnostic::new(message).in_file(&origin))?;
        self.expectations.clear();
        self.distributions.clear();
        Ok(self)
    }

    /// The same with another capacity, which is not checked, and without the published figures.
    #[must_use]
    pub fn with_capacity(mut self, capacity_bytes: u64) -> ModelProfile {
        self.capacity_bytes = capacity_bytes;
        self.expectations.clear();
        self.distributions.clear();
        self
    }

    /// Checks that a disk of this model can have its capacity.
    ///
    /// # Errors
    /// What is wrong, to follow the name of the capacity: `is 1 byte, but …`.
    pub fn check_capacity(&self) -> Result<(), String> {
        check_capacity(self.parameters.as_ref(), self.capacity_bytes)
    }

    /// Sizes in bytes that a disk of this model can have.
    pub fn capacities(&self) -> RangeInclusive<u64> {
        self.parameters.capacities()
    }

    /// The parameters, as the profile wrote them.
    pub fn parameter_table(&self) -> &toml::Table {
        &self.table
    }

    /// The same without name, summary and published figures: what decides how the model behaves.
    #[must_use]
    pub fn canonical(&self) -> ModelProfile {
        let (name, summary) = (String::new(), String::new());
        let (expectations, distributions) = (Vec::new(), Vec::new());
        ModelProfile { name, summary, expectations, distributions, ..self.clone() }
    }

    /// Number of commands that the disk accepts at once, as it reports it to the kernel.
    pub fn queue_depth(&self) -> u32 {
        self.parameters.queue_depth()
    }

    /// Bytes of writes that fit into the caches of the disk; zero without a cache.
    pub fn write_cache_bytes(&self) -> u64 {
        self.parameters.write_cache_bytes()
    }

    pub fn build(&self, seed: u64) -> Box<dyn Model> {
        self.parameters.build(self.capacity_bytes, seed)
    }
}

/// Says what is wrong with a size of a disk of these parameters, to follow its name.
fn check_capacity(parameters: &dyn ModelParameters, bytes: u64) -> Result<(), String> {
    let range = parameters.capacities();
    if range.contains(&bytes) {
        return Ok(());
    }
    let size = format_bytes(bytes);
    Err(match bytes < *range.start() {
        true => format!("is {size}, but the model needs at least {}", format_bytes(*range.start())),
        false => {
            format!("is {size}, but the model can have at most {}", format_bytes(*range.end()))
        }
    })
}

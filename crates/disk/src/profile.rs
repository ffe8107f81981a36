//! Model profiles: the parameters of one kind of disk, what it is expected to do, and who says so.
//!
//! A profile is a TOML file:
//!
//! ```toml
//! name = "hdd-5k4"
//! summary = "2.5-inch notebook disk, 5400 rpm"
//! kind = "hdd"                 # hdd, ssd or delay
//! capacity = "320GB"
//! optimal_io = "0B"            # what the kernel would report as io_opt; 0 if left out
//! [parameters]                 # of that kind; an unknown one is an error
//! rpm = 5400
//! [[expect]]                   # what the model is held to, by a test
//! what = "randread-qd1/iops"   # a workload and a statistic of `characterise`
//! value = 57.0
//! unit = "IOPS"
//! tolerance = 0.1              # a fraction; left out, the statistic's own
//! source = "who published it"
//! note = "why this figure and not another, or why it is not met"
//! [[distribution]]             # published quantiles, for the demerit figure
//! what = "randread-qd1"
//! unit = "ms"
//! source = "who published it"
//! quantiles = [[0.5, 17.7], [0.99, 28.4]]
//! ```
//!
//! The built-in profiles are such files, compiled in. Parameters know how to check themselves and
//! how to build a model; a new kind of model is one row of `KINDS`. Non-goal: fitting parameters to
//! a drive, which is `calibrate`'s.

use crate::characterise::{FigureUnit, ModelWorkload, Statistic};
use crate::delay::DelayParameters;
use crate::hdd::HddParameters;
use crate::model::Model;
use crate::ssd::SsdParameters;
use mirrorball_core::diagnostic::{Diagnostic, TextPosition};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub mod quantity;
#[cfg(test)]
mod tests;

/// The parameters of one kind of model: plain data that builds it.
pub trait ModelParameters: fmt::Debug + Send + Sync {
    /// Whether a disk of `capacity_bytes` can be built from these.
    ///
    /// # Errors
    /// What is wrong, naming the parameter between backticks.
    fn check(&self, capacity_bytes: u64) -> Result<(), String>;

    /// How many commands the disk accepts at once, as it tells the kernel; the rest wait in the
    /// host.
    fn queue_depth(&self) -> u32;

    /// Builds the model. Equal seeds build equal models.
    ///
    /// # Panics
    /// If [`ModelParameters::check`] would refuse.
    fn build(&self, capacity_bytes: u64, seed: u64) -> Box<dyn Model>;
}

/// A kind of disk: its parameters, what is expected of it, and the sources.
#[derive(Clone, Debug)]
pub struct ModelProfile {
    /// What array files call it.
    pub name: String,
    /// One line for a listing.
    pub summary: String,
    /// The kind of model: `hdd`, `ssd` or `delay`.
    pub kind: &'static str,
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// Whether the kernel would report it as rotational.
    pub rotational: bool,
    /// The optimal I/O size it reports (`io_opt`), or zero for none.
    pub optimal_io_bytes: u64,
    /// What it is held to.
    pub expectations: Vec<Expectation>,
    /// Published distributions of its latency.
    pub distributions: Vec<LatencyDistribution>,
    parameters: Arc<dyn ModelParameters>,
    table: toml::Table,
}

/// A published figure that the model is held to.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    /// What is run.
    pub workload: &'static ModelWorkload,
    /// What is read off it.
    pub statistic: &'static Statistic,
    /// The published figure, in `unit`.
    pub value: f64,
    /// The unit it was published in.
    pub unit: &'static FigureUnit,
    /// How far off the model may be, as a fraction of `value`.
    pub tolerance: f64,
    /// Who published it.
    pub source: String,
    /// Why this figure, or why the model deviates; empty if there is nothing to say.
    pub note: String,
}

/// Published quantiles of a latency.
#[derive(Clone, Debug, PartialEq)]
pub struct LatencyDistribution {
    /// What was run.
    pub workload: &'static ModelWorkload,
    /// (Fraction, latency in seconds), both ascending.
    pub quantiles: Vec<(f64, f64)>,
    /// Who published it.
    pub source: String,
}

/// The built-in profiles, in the order of listings.
const BUILTINS: [(&str, &str); 9] = [
    ("hdd-15k", include_str!("profiles/hdd-15k.toml")),
    ("hdd-7k2-ent", include_str!("profiles/hdd-7k2-ent.toml")),
    ("hdd-7k2-desktop", include_str!("profiles/hdd-7k2-desktop.toml")),
    ("hdd-5k4", include_str!("profiles/hdd-5k4.toml")),
    ("ssd-sata-consumer", include_str!("profiles/ssd-sata-consumer.toml")),
    ("ssd-sata-plp", include_str!("profiles/ssd-sata-plp.toml")),
    ("nvme-tlc-ent", include_str!("profiles/nvme-tlc-ent.toml")),
    ("nvme-tlc-real", include_str!("profiles/nvme-tlc-real.toml")),
    ("delay", include_str!("profiles/delay.toml")),
];

/// The kinds of model.
const KINDS: [ModelKind; 3] = [
    ModelKind::of::<HddParameters>("hdd", true),
    ModelKind::of::<SsdParameters>("ssd", false),
    ModelKind::of::<DelayParameters>("delay", false),
];

/// How to read the profiles of one kind of model.
struct ModelKind {
    name: &'static str,
    rotational: bool,
    from_text: fn(&str) -> Result<Read, toml::de::Error>,
    from_table: fn(toml::Table) -> Result<Arc<dyn ModelParameters>, toml::de::Error>,
}

/// A profile as read, with its parameters apart.
type Read = (ProfileFile<toml::Table>, Arc<dyn ModelParameters>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ProfileFile<P> {
    name: String,
    summary: String,
    /// Read before, by [`KindOnly`].
    #[serde(rename = "kind")]
    _kind: serde::de::IgnoredAny,
    #[serde(deserialize_with = "quantity::bytes")]
    capacity: u64,
    rotational: Option<bool>,
    #[serde(default, deserialize_with = "quantity::bytes")]
    optimal_io: u64,
    parameters: P,
    #[serde(default)]
    expect: Vec<toml::Spanned<ExpectRow>>,
    #[serde(default)]
    distribution: Vec<toml::Spanned<DistributionRow>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ExpectRow {
    what: String,
    value: f64,
    unit: String,
    tolerance: Option<f64>,
    source: String,
    #[serde(default)]
    note: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DistributionRow {
    what: String,
    unit: String,
    source: String,
    quantiles: Vec<(f64, f64)>,
}

/// As much of a profile as tells which reader it needs; the rest is that reader's to judge.
#[derive(Deserialize)]
struct KindOnly {
    kind: toml::Spanned<String>,
}

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

    /// The built-in profile called `name`.
    ///
    /// # Errors
    /// If there is none; the hint has the nearest name.
    pub fn builtin(name: &str) -> Result<ModelProfile, Diagnostic> {
        match BUILTINS.iter().find(|(candidate, _)| *candidate == name) {
            Some((name, text)) => ModelProfile::parse(text, name),
            None => {
                let error = Diagnostic::new(format!("there is no built-in model `{name}`"));
                let names: Vec<&str> = ModelProfile::builtin_names().collect();
                Err(error.with_suggestion(name, &names, "the built-in models are"))
            }
        }
    }

    /// Reads a profile. `origin` is what error messages call the text: its path, as a rule.
    ///
    /// # Errors
    /// If it is not TOML, a key is missing, unknown or has the wrong kind of value, or the
    /// parameters make no disk.
    pub fn parse(text: &str, origin: &str) -> Result<ModelProfile, Diagnostic> {
        let locate = |error: toml::de::Error| from_toml(text, origin, &error);
        let kind_name = toml::from_str::<KindOnly>(text).map_err(locate)?.kind;
        let kind = KINDS.iter().find(|kind| kind.name == kind_name.get_ref());
        let kind = kind.ok_or_else(|| {
            let word = kind_name.get_ref();
            let error = Diagnostic::new(format!("there is no kind of model `{word}`"));
            let error = error.in_file(origin).at(position_of(text, &kind_name.span()));
            error.with_suggestion(word, &KINDS.map(|kind| kind.name), "the kinds are")
        })?;
        let (file, parameters) = (kind.from_text)(text).map_err(locate)?;
        parameters.check(file.capacity).map_err(|message| {
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

    /// The same profile with some parameters replaced: an array file's `set`. What was expected of
    /// the original is not expected of the result.
    ///
    /// # Errors
    /// If a parameter is unknown or its value does not fit.
    pub fn with_overrides(mut self, overrides: toml::Table) -> Result<ModelProfile, Diagnostic> {
        if overrides.is_empty() {
            return Ok(self);
        }
        let origin = format!("set for model `{}`", self.name);
        self.table.extend(overrides);
        let kind = KINDS.iter().find(|kind| kind.name == self.kind).expect("it was read by a kind");
        self.parameters = (kind.from_table)(self.table.clone())
            .map_err(|error| explain(error.message()).in_file(&origin))?;
        let checked = self.parameters.check(self.capacity_bytes);
        checked.map_err(|message| Diagnostic::new(message).in_file(&origin))?;
        self.expectations.clear();
        self.distributions.clear();
        Ok(self)
    }

    /// The parameters, as the profile wrote them.
    pub fn parameter_table(&self) -> &toml::Table {
        &self.table
    }

    /// What decides how a disk of this profile behaves, as a table with its keys in order: without
    /// its name, its summary and the published figures.
    pub fn canonical_table(&self) -> toml::Table {
        let ModelProfile {
            name: _,
            summary: _,
            kind,
            capacity_bytes,
            rotational,
            optimal_io_bytes,
            expectations: _,
            distributions: _,
            parameters: _,
            table,
        } = self;
        toml::Table::from_iter([
            ("kind".to_owned(), (*kind).into()),
            ("capacity_bytes".to_owned(), (*capacity_bytes as i64).into()),
            ("rotational".to_owned(), (*rotational).into()),
            ("optimal_io_bytes".to_owned(), (*optimal_io_bytes as i64).into()),
            ("parameters".to_owned(), table.clone().into()),
        ])
    }

    /// How many commands the disk accepts at once, as it tells the kernel.
    pub fn queue_depth(&self) -> u32 {
        self.parameters.queue_depth()
    }

    /// Builds the model. Equal seeds build equal models.
    pub fn build(&self, seed: u64) -> Box<dyn Model> {
        self.parameters.build(self.capacity_bytes, seed)
    }
}

impl ModelKind {
    const fn of<P>(name: &'static str, rotational: bool) -> ModelKind
    where
        P: ModelParameters + DeserializeOwned + 'static,
    {
        ModelKind {
            name,
            rotational,
            from_text: |text| {
                // Twice: once with the parameters' own types, whose errors know their line, and
                // once as a table, for overrides to be laid over.
                let parameters = toml::from_str::<ProfileFile<P>>(text)?.parameters;
                Ok((toml::from_str(text)?, Arc::new(parameters)))
            },
            from_table: |table| Ok(Arc::new(P::deserialize(table)?)),
        }
    }
}

impl ExpectRow {
    fn check(self) -> Result<Expectation, Diagnostic> {
        let (workload, statistic) = self.what.split_once('/').unwrap_or((&self.what, ""));
        let statistic = find(Statistic::all(), |row| row.name, "statistic", statistic)?;
        let unit = find(FigureUnit::all(), |row| row.name, "unit", &self.unit)?;
        if unit.dimension != statistic.dimension {
            let message = format!("`{}` is not counted in {}", self.what, self.unit);
            return Err(Diagnostic::new(message));
        }
        Ok(Expectation {
            workload: find(ModelWorkload::all(), |row| row.name, "workload", workload)?,
            statistic,
            value: self.value,
            unit,
            tolerance: self.tolerance.unwrap_or(statistic.tolerance),
            source: self.source,
            note: self.note,
        })
    }
}

impl DistributionRow {
    fn check(self) -> Result<LatencyDistribution, Diagnostic> {
        let unit = find(FigureUnit::all(), |row| row.name, "unit", &self.unit)?;
        let rising = self.quantiles.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
        let within = self.quantiles.iter().all(|&(fraction, _)| 0.0 < fraction && fraction < 1.0);
        if !rising || !within || self.quantiles.is_empty() {
            let message = "`quantiles` must be [fraction, latency] pairs, fractions rising from 0 \
                           to 1 and latencies not falling";
            return Err(Diagnostic::new(message));
        }
        let scaled = self.quantiles.iter().map(|&(at, value)| (at, value * unit.scale)).collect();
        Ok(LatencyDistribution {
            workload: find(ModelWorkload::all(), |row| row.name, "workload", &self.what)?,
            quantiles: scaled,
            source: self.source,
        })
    }
}

/// The row of a constant table called `word`.
fn find<T>(
    rows: &'static [T],
    name: fn(&T) -> &'static str,
    noun: &str,
    word: &str,
) -> Result<&'static T, Diagnostic> {
    rows.iter().find(|row| name(row) == word).ok_or_else(|| {
        let names: Vec<&str> = rows.iter().map(name).collect();
        let error = Diagnostic::new(format!("there is no {noun} `{word}`"));
        error.with_suggestion(word, &names, "use one of")
    })
}

fn from_toml(text: &str, origin: &str, error: &toml::de::Error) -> Diagnostic {
    let diagnostic = explain(error.message()).in_file(origin);
    match error.span() {
        Some(span) => diagnostic.at(position_of(text, &span)),
        None => diagnostic,
    }
}

/// serde names an unknown field and the known ones between backticks: the first is what was
/// written, and the nearest of the others is what was probably meant.
fn explain(message: &str) -> Diagnostic {
    let names: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match names.split_first() {
        Some((word, known)) if message.starts_with("unknown field") => {
            let error = Diagnostic::new(format!("unknown key `{word}`"));
            error.with_suggestion(word, known, "the known keys are")
        }
        _ => Diagnostic::new(message.trim_end().replace('\n', ", ")),
    }
}

fn position_of(text: &str, span: &Range<usize>) -> TextPosition {
    TextPosition::of_byte(text, span.start)
}

/// The line that sets the key named first in `message`, for faults found after parsing.
fn position_of_key(text: &str, message: &str) -> Option<TextPosition> {
    let key = message.split('`').nth(1)?;
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        if line.split('=').next().is_some_and(|left| left.trim() == key) {
            let indent = line.len() - line.trim_start().len();
            return Some(TextPosition::of_byte(text, start + indent));
        }
        start += line.len();
    }
    None
}

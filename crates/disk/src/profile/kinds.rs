//! The kinds of model: for each, how to read the parameters of a profile.
//!
//! A new kind of model is one row of [`KINDS`].

use super::file::ProfileFile;
use crate::delay::DelayParameters;
use crate::hdd::HddParameters;
use crate::model::ModelParameters;
use crate::ssd::SsdParameters;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;

pub(super) const KINDS: [ModelKind; 3] = [
    ModelKind::of::<HddParameters>("hdd", true),
    ModelKind::of::<SsdParameters>("ssd", false),
    ModelKind::of::<DelayParameters>("delay", false),
];

pub(super) struct ModelKind {
    /// The value of `kind` in a profile.
    pub(super) name: &'static str,
    /// Whether a disk of this kind is rotational, unless its profile says otherwise.
    pub(super) rotational: bool,
    pub(super) from_text: fn(&str) -> Result<ParsedProfile, toml::de::Error>,
    /// Reads parameters alone.
    pub(super) from_table: fn(toml::Table) -> Result<Arc<dyn ModelParameters>, toml::de::Error>,
}

/// A profile with its parameters as a table, and the parameters with their own types.
pub(super) type ParsedProfile = (ProfileFile<toml::Table>, Arc<dyn ModelParameters>);

/// The kind of a profile, which decides how to read the rest.
#[derive(Deserialize)]
pub(super) struct KindOnly {
    pub(super) kind: toml::Spanned<String>,
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
                // Reads the text twice: with the parameters' own types, whose errors have a
                // position, and as a table, which overrides can replace.
                let parameters = toml::from_str::<ProfileFile<P>>(text)?.parameters;
                Ok((toml::from_str(text)?, Arc::new(parameters)))
            },
            from_table: |table| Ok(Arc::new(P::deserialize(table)?)),
        }
    }
}

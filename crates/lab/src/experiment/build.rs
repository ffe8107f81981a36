//! Build identity: tells two builds of the program apart, so that results of an older one are
//! never taken for those of a newer one.
//!
//! The identity is a hash of the sources that decide results: policies, models, the simulator and
//! the lab's experiments. All who compile the same sources have the same identity, with whatever
//! compiler and features, so they can check each other's results; what only prints results is no
//! part of it. `build.rs` of this crate makes it.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

pub const PROGRAM_VERSION: &str = env!("CARGO_PKG_VERSION");

/// Digits of the hash that are shown to people.
const DIGITS_SHOWN: usize = 12;

/// Version of the program and hash of its sources.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct BuildIdentity {
    /// Version of the program.
    pub version: String,
    /// Hash of the sources, 32 hexadecimal digits.
    pub hash: String,
}

impl BuildIdentity {
    pub fn current() -> BuildIdentity {
        BuildIdentity::with_hash(env!("MIRRORBALL_SOURCES"))
    }

    /// Identity of this version of the program with a given hash, for results that were not made
    /// by the running program.
    pub fn with_hash(hash: impl Into<String>) -> BuildIdentity {
        BuildIdentity { version: PROGRAM_VERSION.to_owned(), hash: hash.into() }
    }
}

impl fmt::Display for BuildIdentity {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { version, hash } = self;
        match hash.get(..DIGITS_SHOWN).unwrap_or(hash) {
            "" => formatter.write_str(version),
            shown => write!(formatter, "{version} ({shown})"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_running_program_has_an_identity() {
        assert_eq!(BuildIdentity::current().hash.len(), 32);
        let shown = BuildIdentity::with_hash("0123456789abcdef").to_string();
        assert_eq!(shown, format!("{PROGRAM_VERSION} (0123456789ab)"));
    }
}

//! `compare --system`: the policies that a storage system offers, and what to do on it.

use anyhow::{Result, bail};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::{Spec, parse_list};
use mirrorball_disk::array_file::ArraySpec;
use mirrorball_lab::evaluation::advice::{Advice, policy_in_force};
use mirrorball_lab::experiment::study::Study;
use mirrorball_lab::experiment::systems::{self, Setting, System, Version};
use std::str::FromStr;

/// A storage system, of some version or the newest: `btrfs`, `btrfs:6.12`.
#[derive(Clone, Debug)]
pub(crate) struct ChosenSystem {
    pub(crate) system: &'static System,
    pub(crate) version: Option<Version>,
    text: String,
}

/// What the system offers for an array.
pub(crate) struct Offered {
    system: &'static System,
    settings: Vec<Setting>,
    /// Canonical string of the policy in force.
    pub(crate) now: String,
}

impl FromStr for ChosenSystem {
    type Err = String;

    fn from_str(text: &str) -> Result<ChosenSystem, String> {
        let (name, version) = match text.split_once(':') {
            Some((name, version)) => (name, Some(version.parse()?)),
            None => (text, None),
        };
        let system = systems::find(name).map_err(|error: Diagnostic| error.to_string())?;
        Ok(ChosenSystem { system, version, text: text.to_owned() })
    }
}

impl ChosenSystem {
    /// As it was written.
    pub(super) fn as_written(&self) -> &str {
        &self.text
    }

    /// What it offers for `array`.
    ///
    /// # Errors
    /// If the array marks a member as write-mostly, which is one of the settings to compare.
    pub(crate) fn offered(&self, array: &ArraySpec) -> Result<Offered> {
        if let Some(member) = array.members.iter().find(|member| member.write_mostly) {
            bail!(
                "the array marks member {} as write-mostly, which is a setting that --system \
                 compares\n  help: remove `write_mostly` from the array file",
                member.devid
            );
        }
        let settings = self.system.settings(array, self.version.as_ref());
        Ok(Offered { system: self.system, settings, now: policy_in_force(array, self.system) })
    }
}

impl Offered {
    /// The policy in force, what the system offers, and the policies of `list`; none twice.
    pub(crate) fn with(&self, list: &str) -> Result<Vec<Spec>, Diagnostic> {
        let own = self.settings.iter().map(|setting| setting.spec.as_str());
        let mut specs: Vec<Spec> = Vec::new();
        for spec in [self.now.as_str()].into_iter().chain(own) {
            specs.push(Spec::parse(spec)?);
        }
        specs.extend(parse_list(list)?);
        let mut unique: Vec<Spec> = Vec::new();
        for spec in specs {
            if !unique.contains(&spec) {
                unique.push(spec);
            }
        }
        Ok(unique)
    }

    /// What to do.
    pub(crate) fn advice(&self, study: &Study, array: &ArraySpec) -> Advice {
        Advice::new(study, self.system, &self.settings, &self.now, array)
    }
}

//! The storage system that is asked about, and the policies that it offers for an array.

use super::{Advice, policy_in_force};
use crate::experiment::inputs::Inputs;
use crate::experiment::study::Study;
use crate::experiment::systems::{self, Setting, System, Version, WorkLimit};
use anyhow::{Result, anyhow, bail};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::{Registry, Spec};
use mirrorball_disk::array_file::{ArrayEdit, ArrayFile, ArraySpec};
use std::str::FromStr;

/// Name of the version among what is not known of an array.
pub const VERSION: &str = "the version of the system";

/// A storage system, of some version or the newest: `btrfs`, `btrfs:6.12`.
#[derive(Clone, Debug)]
pub struct ChosenSystem {
    pub system: &'static System,
    /// The version; none for the newest.
    pub version: Option<Version>,
    /// What its user should know: the version is newer than what is known, or is not known.
    pub note: Option<String>,
    text: String,
}

#[derive(Clone, Debug)]
pub struct Offered {
    system: &'static System,
    settings: Vec<Setting>,
    /// Canonical string of the policy in force.
    pub now: String,
}

impl FromStr for ChosenSystem {
    type Err = String;

    fn from_str(text: &str) -> Result<ChosenSystem, String> {
        let (name, version) = match text.split_once(':') {
            Some((name, "")) => {
                return Err(format!(
                    "the version after `{text}` is missing\n  help: write for example \
                     {name}:6.12, or {name} for the newest version"
                ));
            }
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        let message = |error: Diagnostic| error.to_string();
        let system = systems::find(name).map_err(message)?;
        if let Some(version) = version.filter(|version| version.contains(':')) {
            return Err(format!("`{version}` is not a version such as 6.12"));
        }
        let version = version.map(str::parse).transpose()?;
        if let Some(version) = &version {
            system.check_version(version).map_err(message)?;
        }
        let note = version.as_ref().and_then(|version| system.note_if_newer(version));
        Ok(ChosenSystem { system, version, note, text: text.to_owned() })
    }
}

impl ChosenSystem {
    /// The system that an array was found with. If no policy of its version is known, the newest
    /// version counts.
    pub fn found(name: &str, version: Option<&str>) -> Result<ChosenSystem> {
        let system = systems::find(name)?;
        let version: Option<Version> = version.and_then(|version| version.parse().ok());
        let unknown = version.as_ref().and_then(|it| system.check_version(it).err());
        let version = version.filter(|_| unknown.is_none());
        let note = match unknown {
            Some(error) => Some(format!("{}; the newest version is assumed", error.message)),
            None => version.as_ref().and_then(|version| system.note_if_newer(version)),
        };
        Ok(ChosenSystem { system, version, note, text: name.to_owned() })
    }

    pub fn as_written(&self) -> &str {
        &self.text
    }

    /// The offer for an array. Flags of its members are settings to compare: the inputs that are
    /// returned have them in the policy in force. Fails if the system has no policy for an array of
    /// this profile.
    pub fn offered(&self, inputs: Inputs) -> Result<(Inputs, Offered)> {
        let mut inputs = self.without_flags(inputs)?;
        if let (Some(_), Some(source)) = (&self.version, &mut inputs.array.source) {
            let not_known = source.not_known.iter().flat_map(|all| all.split("; "));
            let others: Vec<&str> = not_known.filter(|it| *it != VERSION).collect();
            source.not_known = (!others.is_empty()).then(|| others.join("; "));
        }
        let array = &inputs.array;
        let profile = self.system.check_profile(array);
        profile.map_err(|error| anyhow!("--system {error}"))?;
        let system = self.system.serving(array);
        let settings = system.settings(array, self.version.as_ref());
        if let (true, Some(version)) = (settings.is_empty(), &self.version) {
            let (of, profile) = (&system.version_of, array.profile.name());
            bail!(
                "{} of {of} {version} has no read policy for an array of profile {profile}\n  \
                 help: the version is that of {of}, as in --system {}:6.12; leave it out for the \
                 newest",
                system.title,
                system.name
            );
        }
        let now = policy_in_force(array, system, &settings);
        Ok((inputs, Offered { system, settings, now }))
    }

    fn without_flags(&self, inputs: Inputs) -> Result<Inputs> {
        let spec = &inputs.array;
        if !spec.members.iter().any(|member| member.write_mostly) {
            return Ok(inputs);
        }
        let system = self.system.serving(spec);
        let settings = system.settings(spec, self.version.as_ref());
        let file_name = spec.file_name.clone();
        let mut edit = ArrayEdit::new(&ArrayFile::parse(&inputs.array_source.text, &file_name)?);
        edit.set_in_force(system.name, &policy_in_force(spec, system, &settings));
        Ok(inputs.with_array(ArrayFile::parse(&edit.text(), &file_name)?))
    }
}

impl Offered {
    /// The limit that the system, in this version, can put on its rebuild or scrub.
    pub fn limit(
        &self,
        version: Option<&Version>,
    ) -> Option<(&'static System, &'static WorkLimit)> {
        Some((self.system, self.system.limit_of(version)?))
    }

    /// The policy in force, what the system offers, and the policies of `list`, which may name
    /// programs of `registry`; none twice. Fails if the list names what is no policy.
    pub fn with(&self, list: &str, registry: &Registry) -> Result<Vec<Spec>, Diagnostic> {
        let own = self.settings.iter().map(|setting| setting.spec.as_str());
        let mut specs: Vec<Spec> = Vec::new();
        for spec in [self.now.as_str()].into_iter().chain(own) {
            specs.push(Spec::parse(spec)?);
        }
        specs.extend(registry.parse_list(list)?);
        let mut unique: Vec<Spec> = Vec::new();
        for spec in specs {
            if !unique.contains(&spec) {
                unique.push(spec);
            }
        }
        Ok(unique)
    }

    /// The steps to take. The disks of the members `failed` are to be replaced first.
    pub fn advice(&self, study: &Study, array: &ArraySpec, failed: &[u64]) -> Advice {
        Advice::new(study, self.system, &self.settings, &self.now, array, failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mirrorball_disk::array_file::ArrayFile;

    /// What a system says of an array of equal disks with this profile.
    fn check(system: &str, profile: &str, count: usize) -> Result<(), String> {
        let text = format!(
            "name = \"equal\"\nprofile = \"{profile}\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\n\
             count = {count}\n"
        );
        let array = ArrayFile::parse(&text, "equal.toml").unwrap().spec;
        systems::find(system).unwrap().check_profile(&array).map_err(|error| error.to_string())
    }

    #[test]
    fn a_part_of_a_system_is_for_arrays_of_its_profiles() {
        assert_eq!((check("md", "raid1", 2), check("zfs", "raid1", 2)), (Ok(()), Ok(())));
        let error = check("md-raid10", "raid1", 2).unwrap_err();
        assert_eq!(error, "md-raid10: the array has profile raid1\n  help: give --system md");
    }

    #[test]
    fn a_system_that_mirrors_on_all_devices_has_no_array_with_fewer_copies() {
        for system in ["btrfs", "bcachefs"] {
            assert_eq!(check(system, "raid1", 3), Ok(()));
        }
        let error = check("md", "raid1", 3).unwrap_err();
        assert!(error.contains("md: it has a copy on each device, and the array 2 copies on 3"));
        assert!(error.ends_with("for an array of md write `layout = \"md-raid1\"`"), "{error}");
        assert!(check("zfs", "raid1", 3).is_err() && check("lvm", "raid1c3", 4).is_err());
    }
}

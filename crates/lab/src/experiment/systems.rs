//! Storage systems: which read policies each offers, since when, and how to set them.
//!
//! The data are the files of the folder `systems/`, one per system. An *offer* is a policy of the
//! system, or a family of them: with each of several values, for each member, or for each sensible
//! set of members. [`System::settings`] expands the offers for an array into [`Setting`]s, each of
//! which is one policy to compare, and the commands that put it into force.
//!
//! **Sensible sets.** Members that are alike (the same model, size and link, no faults) form a
//! class. A set that is worth marking as write-mostly is a union of classes, but not all of them:
//! reading from some of several equal members only makes them slower.

mod commands;
mod release;
mod setting;
mod version;

pub(crate) use commands::is_plain;
pub use commands::{Commands, InForce, state_command};
pub use setting::{Availability, Setting};
pub use version::Version;

use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::geometry::ArrayLayout;
use mirrorball_core::policies::{self, Spec};
use mirrorball_core::suggest::did_you_mean;
use mirrorball_disk::array_file::ArraySpec;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::LazyLock;

/// The files of the systems, by name.
const FILES: [(&str, &str); 18] = [
    ("btrfs", include_str!("../../systems/btrfs.toml")),
    ("md", include_str!("../../systems/md.toml")),
    ("md-raid10", include_str!("../../systems/md-raid10.toml")),
    ("lvm", include_str!("../../systems/lvm.toml")),
    ("dm", include_str!("../../systems/dm.toml")),
    ("dm-mirror", include_str!("../../systems/dm-mirror.toml")),
    ("zfs", include_str!("../../systems/zfs.toml")),
    ("gmirror", include_str!("../../systems/gmirror.toml")),
    ("drbd", include_str!("../../systems/drbd.toml")),
    ("nvme", include_str!("../../systems/nvme.toml")),
    ("serve", include_str!("../../systems/serve.toml")),
    ("bcachefs", include_str!("../../systems/bcachefs.toml")),
    ("graid", include_str!("../../systems/graid.toml")),
    ("spdk", include_str!("../../systems/spdk.toml")),
    ("raidframe", include_str!("../../systems/raidframe.toml")),
    ("crucible", include_str!("../../systems/crucible.toml")),
    ("solaris", include_str!("../../systems/solaris.toml")),
    ("vxvm", include_str!("../../systems/vxvm.toml")),
];

/// A storage system and what it offers.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct System {
    /// Its name on the command line.
    #[serde(skip)]
    pub name: &'static str,
    /// Its name in text.
    pub title: String,
    /// The program whose version decides what the system offers.
    pub version_of: String,
    /// The policy in force if nothing was set.
    pub default: String,
    /// What commands of the system mean by the name of an array, where they have one.
    pub array_name: Option<String>,
    /// The layouts of arrays that it has, as in array files.
    pub layouts: Vec<String>,
    /// True if its members are paths to one device, which only a rule for paths can use.
    #[serde(default)]
    pub is_multipath: bool,
    /// True if its first member is the local one, and the others are reached over a network.
    #[serde(default)]
    pub has_peers: bool,
    /// What users should know of the names of its settings.
    pub remark: Option<String>,
    /// The newest version whose sources were read.
    pub newest_read: Option<Version>,
    /// The system whose rule serves the arrays of a profile, where it is another one.
    #[serde(default)]
    pub instead: BTreeMap<String, String>,
    /// Command that restores the default, for a system whose settings add up. It runs before the
    /// command of another setting. Other systems have one setting, which a new one replaces. A line
    /// that `restore` has, too, is left out of both.
    pub reset: Option<String>,
    /// Command that restores what was in force, after `reset`.
    pub restore: Option<String>,
    /// Command that takes a failed member out, before `replace`.
    pub remove: Option<String>,
    /// How to find out why it does not rebuild onto a free spare; none if it never does by itself.
    pub spare: Option<String>,
    /// Commands, one a line, that put the disk `/dev/NEW` in the place of a failed member.
    pub replace: Option<String>,
    /// Command that takes back a member that was taken offline, or is connected again.
    pub online: Option<String>,
    /// What to do with a failed member, `{old}`, for which a spare stands in.
    pub stand_in: Option<String>,
    /// What to do where some data have no copy left.
    pub lost: Option<String>,
    /// Command that mounts it without the failed member, which `replace` needs.
    pub unmounted: Option<String>,
    /// Command that shows the state of the members and what runs in the background.
    pub state: Option<String>,
    /// Command that shows the errors that it has counted; `state` does if there is none.
    pub errors: Option<String>,
    /// Command that gives space back which is allocated and holds little.
    pub compact: Option<String>,
    /// Command that spreads the data over all members.
    pub spread: Option<String>,
    /// The limit that it can put on its rebuild or scrub.
    pub limit: Option<WorkLimit>,
    /// The read-ahead of the array, in KiB.
    pub read_ahead: Option<NumberSetting>,
    /// What it offers, in the order of the file.
    #[serde(rename = "offer")]
    pub offers: Vec<Offer>,
}

/// A policy that a system offers, or a family of policies.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Offer {
    /// The policy; `{value}` and `{devid}` stand for what it is offered with, `*` for all policies.
    pub policy: String,
    /// A modifier that is added once for each member of a set.
    pub modifier: Option<String>,
    /// The profiles of the arrays that it is for; all if not given.
    pub profiles: Option<Vec<String>>,
    /// True if it is only for arrays with rotational members and others.
    #[serde(default)]
    pub mixed: bool,
    #[serde(default)]
    pub values: Vec<String>,
    /// The members, or sets of members, that it is offered for.
    pub members: Option<OfferedMembers>,
    /// The first version that has it; the first of all if not given.
    pub since: Option<Version>,
    /// The last version that has it.
    pub until: Option<Version>,
    /// True if it is named for the arrays of machines with an earlier version, with the version
    /// that it takes.
    #[serde(default)]
    pub named_before: bool,
    /// What not every installation of the system has; `{devid}` is that of the first member it
    /// names.
    pub requires: Option<String>,
    /// True if it is decided when the array is created.
    #[serde(default)]
    pub is_at_creation: bool,
    /// The patch that adds it, if no release has it.
    pub patch: Option<String>,
    /// Commands that put it into force, as root, one on each line.
    pub set: Option<String>,
    /// Command that adds the new disk of a failed member, where the setting takes another one than
    /// `set`.
    pub add: Option<String>,
    /// Command that shows what is in force.
    pub check: Option<String>,
    /// How it survives a restart.
    pub persist: Option<String>,
    /// Command that restores what was in force.
    pub undo: Option<String>,
    /// What else its user should know.
    pub note: Option<String>,
    /// True if the system refuses the command while the array is not in sync.
    #[serde(default)]
    pub needs_sync: bool,
    pub source: String,
    /// False if not everything was read in a source.
    #[serde(default = "is_verified")]
    pub verified: bool,
}

/// A limit on a rebuild or a scrub, as a rate of each device in KiB/s.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WorkLimit {
    /// The work whose rate is worth a choice.
    pub work: LimitedWork,
    /// The limit in force if nothing was set; none if there is none.
    pub default_kib: Option<u64>,
    pub knob: NumberSetting,
}

/// A number that a system lets its user set. In templates `{kib}` stands for it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NumberSetting {
    pub name: String,
    /// The first version that has it; the first of all if not given.
    since: Option<Version>,
    set: String,
    check: String,
    /// How it survives a restart.
    persist: String,
    /// Command that restores what was in force, `{previous}`, or the default.
    undo: String,
    pub source: String,
}

/// Work that a system can limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitedWork {
    Rebuild,
    /// A scrub, of each device at its own rate.
    Scrub,
}

/// The members that a family of policies is offered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OfferedMembers {
    /// Each member by itself.
    Each,
    /// Each sensible set of members.
    Sets,
    /// One of each kind, but not of the kind of the first.
    Kinds,
    /// All that are not rotational, together.
    Flash,
}

fn is_verified() -> bool {
    true
}

static SYSTEMS: LazyLock<Vec<System>> = LazyLock::new(|| {
    let system = |(name, text): &(&'static str, &str)| {
        let system: System = toml::from_str(text)
            .unwrap_or_else(|error| panic!("systems/{name}.toml is compiled in: {error}"));
        System { name, ..system }
    };
    FILES.iter().map(system).collect()
});

pub fn all() -> &'static [System] {
    &SYSTEMS
}

/// The system of this name. Fails if there is none; the message suggests a name.
pub fn find(name: &str) -> Result<&'static System, Diagnostic> {
    let names = || all().iter().map(|system| system.name);
    all().iter().find(|system| system.name == name).ok_or_else(|| {
        let listed = || format!("the systems are {}", listed_names().join(", "));
        let help = did_you_mean(name, names()).unwrap_or_else(listed);
        let what = match name {
            "" => "the name of the system is missing".to_owned(),
            name => format!("unknown system `{name}`"),
        };
        Diagnostic::new(what).with_help(help)
    })
}

/// The names of the systems that users name. One that serves some arrays instead of another, as
/// `md-raid10` instead of `md`, is chosen by the profile of the array.
fn listed_names() -> Vec<&'static str> {
    let is_own = |(index, system): &(usize, &System)| whole_system(*index, system.name).is_none();
    all().iter().enumerate().filter(is_own).map(|(_, system)| system.name).collect()
}

/// The system, among those before `index`, that leaves arrays of some profile to the system `name`.
fn whole_system(index: usize, name: &str) -> Option<&'static System> {
    all()[..index].iter().find(|system| system.serves_by(name))
}

/// The offers that hold a policy, each with its system. `serve`, which offers all, is last.
pub fn offers_of(policy: &'static str) -> impl Iterator<Item = (&'static System, &'static Offer)> {
    let offers = |system: &'static System| system.offers.iter().map(move |offer| (system, offer));
    let is_for_all = |(_, offer): &(_, &Offer)| offer.policy == "*";
    let own = all().iter().flat_map(offers).filter(move |(_, offer)| offer.holds(policy));
    own.chain(all().iter().flat_map(offers).filter(is_for_all))
}

/// The systems that have a policy for arrays of a profile, each with its offer.
pub fn offers_for(
    policy: &'static str,
    profile: &str,
) -> impl Iterator<Item = (&'static System, &'static Offer)> {
    let fits = move |(system, offer): &(&System, &Offer)| {
        let profiles = offer.profiles.as_ref();
        !system.instead.contains_key(profile)
            && profiles.is_none_or(|all| all.iter().any(|it| it == profile))
    };
    offers_of(policy).filter(fits)
}

impl Offer {
    /// True if the policy of this name is among those of the offer, `*` aside.
    fn holds(&self, policy: &str) -> bool {
        let name = self.policy.split(':').next().unwrap_or_default();
        match name.strip_suffix("{value}") {
            Some(family) => self.values.iter().any(|value| format!("{family}{value}") == policy),
            None => name == policy,
        }
    }

    /// A template of the offer with the policy's own name in it, where the offer holds several.
    pub fn written_for(&self, policy: &str, template: &str) -> String {
        let family = self.policy.strip_suffix("{value}").filter(|family| family.ends_with('/'));
        match family.and_then(|family| policy.strip_prefix(family)) {
            Some(name) => template.replace("{value}", name),
            None => template.to_owned(),
        }
    }

    /// Which releases have it and on what condition, in words: `Linux btrfs 6.14 or later, with a
    /// kernel built with CONFIG_BTRFS_EXPERIMENTAL`.
    pub fn availability(&self, system: &System) -> String {
        let title = &system.title;
        let versions = match (&self.since, &self.until) {
            _ if self.patch.is_some() => String::new(),
            (None, None) => String::new(),
            (Some(since), None) => format!(" ({} {since} or later)", system.version_of),
            (None, Some(until)) => format!(" ({} {until} or earlier)", system.version_of),
            (Some(since), Some(until)) => format!(" ({} {since} to {until})", system.version_of),
        };
        let patch =
            self.patch.as_ref().map_or_else(String::new, |it| format!(" with a patch: {it}"));
        let requires =
            self.requires.as_ref().map_or_else(String::new, |it| format!(", needs {it}"));
        let requires = requires.replace("{devid}", "N");
        format!("{title}{versions}{patch}{requires}")
    }

    /// True if it is one policy for all members, without a value.
    fn is_rule(&self) -> bool {
        self.modifier.is_none() && !self.policy.contains(['*', '{'])
    }

    /// True if a release of this version has it; of any version, if none is given.
    fn is_in(&self, version: Option<&Version>) -> bool {
        let fits = |version: &Version| {
            self.since.as_ref().is_none_or(|since| since <= version)
                && self.until.as_ref().is_none_or(|until| version.is_within(until))
        };
        // Without a version, what the newest release has.
        self.patch.is_none() && version.map_or(self.until.is_none(), fits)
    }
}

impl System {
    /// The limit that a release of this version can put on its work; of any version, if none is
    /// given.
    pub fn limit_of(&self, version: Option<&Version>) -> Option<&WorkLimit> {
        let is_here = |since: &Version| version.is_none_or(|version| since <= version);
        self.limit.as_ref().filter(|limit| limit.knob.since.as_ref().is_none_or(is_here))
    }

    /// True if a release of this version has an offer of the system; without a version, if the
    /// newest one has it whose sources were read.
    pub fn has(&self, offer: &Offer, version: Option<&Version>) -> bool {
        offer.is_in(version.or(self.newest_read.as_ref()))
    }

    /// The rules of releases, for arrays where there is no choice.
    fn release_rules(&self) -> impl Iterator<Item = &Offer> + Clone {
        let has_no_choice =
            |offer: &&Offer| offer.is_rule() && offer.set.is_none() && offer.requires.is_none();
        self.offers.iter().filter(has_no_choice)
    }

    /// True if a policy is the rule of a release, which that release has instead of a choice.
    pub fn is_rule_of_release(&self, policy: &str) -> bool {
        self.release_rules().any(|rule| rule.policy == policy)
    }

    /// The rule of a release for arrays of a profile; `stated` if it is none, or none is known.
    pub fn rule_of_release(&self, stated: &str, version: &Version, profile: &str) -> String {
        let rules = self.release_rules();
        let mut here =
            rules.filter(|rule| rule.is_for_profile(profile) && rule.is_in(Some(version)));
        let is_here = here.clone().any(|rule| rule.policy == stated);
        let other = here.next().filter(|_| self.is_rule_of_release(stated) && !is_here);
        other.map_or_else(|| stated.to_owned(), |rule| rule.policy.clone())
    }

    /// The spec of the policy in force if nothing was set, where the system offers `settings`: the
    /// default, or the first rule of a release or a profile that does not have it. Panics if the
    /// system's file names a policy that is not in the table; a test holds that it does not.
    pub fn default_spec(&self, settings: &[Setting]) -> String {
        let default = Spec::parse(&self.default).expect("a system's default is a policy");
        let default = default.to_string();
        let is_here =
            |setting: &&Setting| !matches!(setting.availability, Availability::NotHere(_));
        let here = settings.iter().filter(is_here);
        // An offer for some of the members has to be set, whatever its policy is.
        let mut of_all = here.clone().filter(|setting| setting.offer.members.is_none());
        if of_all.any(|setting| setting.spec == default) {
            return default;
        }
        let mut rules = here.filter(|setting| setting.offer.is_rule());
        rules.next().map_or(default, |setting| setting.spec.clone())
    }

    /// The system whose rule serves `array`: this one, unless it has another for arrays of that
    /// profile, as md has for RAID10. Panics if the system's file names a system that does not
    /// exist; a test holds that it does not.
    pub fn serving(&'static self, array: &ArraySpec) -> &'static System {
        let other = self.instead.get(array.profile.name());
        other.map_or(self, |name| find(name).expect("the files name systems that exist"))
    }

    /// True if arrays of some profile are served by the system `other` instead of this one.
    fn serves_by(&self, other: &str) -> bool {
        self.instead.values().any(|name| name == other)
    }

    /// Checks that this system serves `array`: one that serves only some profiles of another fails
    /// if the array has another, one that mirrors on all members if it has fewer copies.
    pub fn check_profile(&self, array: &ArraySpec) -> Result<(), Diagnostic> {
        let profile = array.profile.name();
        let (copies, members) = (array.profile.copies(), array.members.len());
        let places_copies = self.layouts.is_empty() || self.layouts.iter().any(|it| it == "btrfs");
        let is_unstriped_mirror = copies > 1 && !array.profile.is_striped();
        if array.layout == ArrayLayout::BTRFS
            && (is_unstriped_mirror && copies < members && !places_copies)
        {
            let message = format!(
                "{}: it has a copy on each device, and the array {copies} copies on {members}",
                self.name
            );
            let layouts: Vec<String> =
                self.layouts.iter().map(|it| format!("`layout = \"{it}\"`")).collect();
            return Err(Diagnostic::new(message).with_help(format!(
                "for an array of {} write {}",
                self.name,
                layouts.join(" or ")
            )));
        }
        let index = all().iter().position(|system| system.name == self.name).unwrap_or(0);
        let Some(whole) = whole_system(index, self.name) else { return Ok(()) };
        match whole.instead.get(profile) {
            Some(name) if name == self.name => Ok(()),
            _ => {
                let message = format!("{}: the array has profile {profile}", self.name);
                Err(Diagnostic::new(message).with_help(format!("give --system {}", whole.name)))
            }
        }
    }

    /// The names of all policies that the offers hold.
    fn policies_of(offer: &Offer) -> Vec<String> {
        match offer.policy.as_str() {
            "*" => policies::all().map(|info| info.name.to_owned()).collect(),
            policy => vec![policy.to_owned()],
        }
    }
}

#[cfg(test)]
mod tests;

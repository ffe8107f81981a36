//! Settings: what a system offers for one array, policy by policy.
//!
//! An array that was found in a running system may have a list of what that system offers. It goes
//! before what the versions and conditions of the offers say.

use super::{Offer, OfferedMembers, System, Version};
use mirrorball_core::policies::Spec;
use mirrorball_disk::array_file::{ArraySpec, MemberSource, MemberSpec};
use std::collections::BTreeMap;

/// Most classes of members of which all unions are compared. Of more, each class by itself is, and
/// all but that one.
const CLASSES_MAX: usize = 4;

/// One policy that a system offers for an array.
#[derive(Clone, Debug)]
pub struct Setting {
    pub spec: String,
    pub offer: &'static Offer,
    /// Where it can be had.
    pub availability: Availability,
    /// What stands for `{value}`.
    pub(super) value: Option<String>,
    pub(super) members: Vec<usize>,
}

/// Where a setting can be had.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Availability {
    /// In every installation of the version, or in the running one, which says so.
    Offered,
    /// In installations that have this.
    OnCondition(String),
    /// Not in the running installation, which would need this.
    NotHere(String),
}

impl System {
    /// What the system offers for an array, in the order of its file; no policy twice.
    ///
    /// A policy that an array cannot have, such as one for a member that is not there, is left out.
    pub fn settings(&'static self, array: &ArraySpec, version: Option<&Version>) -> Vec<Setting> {
        let running = self.running(array, version);
        let is_offered = |offer: &&Offer| {
            let is_in = || running.is_some_and(|running| offer.is_among(running));
            // What a later version has is named with what it takes.
            let is_later = || offer.is_only_later(running, version);
            offer.is_for(array) && (self.has(offer, version) || is_in() || is_later())
        };
        let offers = self.offers.iter().filter(is_offered);
        let mut settings: Vec<Setting> = Vec::new();
        let expanded = offers.flat_map(|offer| {
            let since = offer.since.as_ref();
            let release = since.map(|since| format!("{} {since} or later", self.version_of));
            let takes: Vec<String> = release.into_iter().chain(offer.requires.clone()).collect();
            let takes = takes.join(" and ");
            let is_later = offer.is_only_later(running, version);
            let mut settings = expand(offer, array, running);
            for setting in &mut settings {
                match &mut setting.availability {
                    it if is_later => *it = Availability::NotHere(takes.clone()),
                    // The default of the newest version is assumed, too.
                    Availability::OnCondition(it) if version.is_none() && !offer.is_at_creation => {
                        it.clone_from(&takes);
                    }
                    _ => {}
                }
            }
            settings
        });
        for setting in expanded {
            if settings.iter().all(|other| other.spec != setting.spec) {
                settings.push(setting);
            }
        }
        settings
    }

    /// What the running system says that it offers, if the array was found in it and no other
    /// version is asked about.
    fn running<'a>(&self, array: &'a ArraySpec, version: Option<&Version>) -> Option<&'a [String]> {
        let source = array.source.as_ref()?;
        let found_in: Option<Version> = source.version.as_ref()?.parse().ok();
        let is_it =
            source.system == self.name && version.is_none_or(|it| Some(it) == found_in.as_ref());
        (is_it && !source.offered.is_empty()).then_some(&source.offered[..])
    }
}

impl Offer {
    fn is_for(&self, array: &ArraySpec) -> bool {
        let is_rotational = |member: &MemberSpec| member.is_rotational();
        let is_mixed =
            || array.members.iter().any(is_rotational) && !array.members.iter().all(is_rotational);
        self.is_for_profile(array.profile.name()) && (!self.mixed || is_mixed())
    }

    pub(super) fn is_for_profile(&self, profile: &str) -> bool {
        self.profiles.as_ref().is_none_or(|profiles| profiles.iter().any(|it| it == profile))
    }

    /// True if what a running system lists has the policy, by the name before its value.
    fn is_among(&self, running: &[String]) -> bool {
        let name = self.policy.split('/').next_back().unwrap_or_default();
        let bare = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
        self.set.is_some() && running.iter().any(|listed| bare(listed) == bare(name))
    }

    /// True if a release has it only from a later version on, and it is named all the same: the
    /// running system does not list it among what it has, or lists nothing and the file says so.
    fn is_only_later(&self, running: Option<&[String]>, version: Option<&Version>) -> bool {
        let (Some(since), Some(version)) = (&self.since, version) else { return false };
        let is_named = running.map_or(self.named_before, |running| !self.is_among(running));
        self.patch.is_none() && self.until.is_none() && version < since && is_named
    }

    /// Where the offer for a member can be had.
    fn availability_in(&self, running: Option<&[String]>, devid: Option<u64>) -> Availability {
        let devid = devid.map(|devid| devid.to_string()).unwrap_or_default();
        let requires = self.requires.as_ref().map(|text| text.replace("{devid}", &devid));
        match (running, requires) {
            (Some(running), _) if self.is_among(running) => Availability::Offered,
            (Some(_), Some(requires)) => Availability::NotHere(requires),
            (Some(_), None) => Availability::NotHere("another version".to_owned()),
            (None, Some(requires)) => Availability::OnCondition(requires),
            (None, None) => Availability::Offered,
        }
    }
}

pub(super) fn expand(
    offer: &'static Offer,
    array: &ArraySpec,
    running: Option<&[String]>,
) -> Vec<Setting> {
    let devids: Vec<u64> = array.members.iter().map(|member| member.devid).collect();
    let sets = match offer.members {
        None => vec![Vec::new()],
        Some(OfferedMembers::Each) => {
            let in_service =
                (0..devids.len()).filter(|&member| array.members[member].is_in_service());
            in_service.map(|member| vec![member]).collect()
        }
        Some(OfferedMembers::Sets) => sensible_sets(&array.members),
        Some(OfferedMembers::Kinds) => {
            classes(&array.members).into_iter().skip(1).map(|class| vec![class[0]]).collect()
        }
        Some(OfferedMembers::Flash) => vec![non_rotational(&array.members)],
    };
    let values: Vec<Option<&String>> = match &offer.values[..] {
        [] => vec![None],
        values => values.iter().map(Some).collect(),
    };
    let mut settings = Vec::new();
    for policy in System::policies_of(offer) {
        for (members, value) in sets.iter().flat_map(|set| values.iter().map(move |v| (set, v))) {
            let mut text = policy.replace("{value}", value.map_or("", String::as_str));
            if let Some(&member) = members.first() {
                text = text.replace("{devid}", &devids[member].to_string());
            }
            for &member in members {
                if let Some(modifier) = &offer.modifier {
                    text += &format!("+{modifier}:{}", devids[member]);
                }
            }
            let spec = Spec::parse(&text);
            let Some(spec) = spec.ok().filter(|spec| spec.build(&devids).is_ok()) else {
                continue;
            };
            let (members, value) = (members.clone(), value.cloned());
            let devid = members.first().map(|&member| devids[member]);
            let availability = offer.availability_in(running, devid);
            settings.push(Setting { spec: spec.to_string(), offer, availability, value, members });
        }
    }
    settings
}

/// The members in service that are not rotational, by their indexes.
fn non_rotational(members: &[MemberSpec]) -> Vec<usize> {
    let is_flash = |member: &MemberSpec| member.is_in_service() && !member.is_rotational();
    (0..members.len()).filter(|&index| is_flash(&members[index])).collect()
}

/// The classes of members that are alike, by the indexes of those in service.
fn classes(members: &[MemberSpec]) -> Vec<Vec<usize>> {
    let mut classes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, member) in members.iter().enumerate().filter(|(_, it)| it.is_in_service()) {
        let first = members.iter().position(|other| are_alike(other, member));
        classes.entry(first.unwrap_or(index)).or_default().push(index);
    }
    classes.into_values().collect()
}

/// The sets of members that are worth telling from the others, by their indexes.
fn sensible_sets(members: &[MemberSpec]) -> Vec<Vec<usize>> {
    let classes = classes(members);
    let count = classes.len();
    let masks: Vec<u32> = match count {
        0 | 1 => Vec::new(),
        2..=CLASSES_MAX => (1..(1 << count) - 1).collect(),
        _ => {
            let all = (1_u32 << count.min(31)) - 1;
            (0..count.min(31)).flat_map(|class| [1 << class, all & !(1 << class)]).collect()
        }
    };
    let set = |mask: &u32| {
        let chosen = classes.iter().enumerate().filter(|(class, _)| mask >> class & 1 == 1);
        let mut set: Vec<usize> = chosen.flat_map(|(_, class)| class.iter().copied()).collect();
        set.sort_unstable();
        set
    };
    masks.iter().map(set).collect()
}

/// True if two members are the same to a policy.
fn are_alike(one: &MemberSpec, other: &MemberSpec) -> bool {
    let model = |member: &MemberSpec| match &member.source {
        MemberSource::Model(profile) => Some(format!("{profile:?}")),
        MemberSource::Path(_) | MemberSource::Uri(_) => None,
    };
    let traits = |member: &MemberSpec| {
        let over = format!("{:?}, {:?}", member.faults, member.cache);
        (member.range.size_bytes, member.link, over, member.rotational, member.write_mostly)
    };
    model(one).is_some() && model(one) == model(other) && traits(one) == traits(other)
}

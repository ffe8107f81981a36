//! Settings: what a system offers for one array, policy by policy, with the commands.

use super::{Offer, OfferedMembers, System, Version};
use mirrorball_core::policies::Spec;
use mirrorball_core::units::parse_bytes;
use mirrorball_disk::array_file::{ArraySpec, MemberSource, MemberSpec};
use std::collections::BTreeMap;

/// Most classes of members of which all unions are compared. Of more, each class by itself is, and
/// all but that one.
const CLASSES_MAX: usize = 4;

/// One policy that a system offers for an array.
#[derive(Clone, Debug)]
pub struct Setting {
    /// Canonical policy string.
    pub spec: String,
    /// The offer.
    pub offer: &'static Offer,
    /// What stands for `{value}`.
    value: Option<String>,
    /// Indexes of the members that it names.
    members: Vec<usize>,
}

/// The commands of a setting. What is not known is written in capitals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commands {
    /// Put it into force; none if there is nothing to do.
    pub set: Vec<String>,
    /// Shows what is in force.
    pub check: Option<String>,
    /// How it survives a restart.
    pub persist: Option<String>,
    /// Restore what was in force.
    pub undo: Vec<String>,
}

impl System {
    /// What the system offers for an array, in the order of its file; no policy twice.
    ///
    /// A policy that an array cannot have, such as one for a member that is not there, is left out.
    pub fn settings(&'static self, array: &ArraySpec, version: Option<&Version>) -> Vec<Setting> {
        let offers = self.offers.iter().filter(|offer| offer.is_in(version));
        let mut settings: Vec<Setting> = Vec::new();
        for setting in offers.flat_map(|offer| expand(offer, array)) {
            if settings.iter().all(|other| other.spec != setting.spec) {
                settings.push(setting);
            }
        }
        settings
    }
}

pub(super) fn expand(offer: &'static Offer, array: &ArraySpec) -> Vec<Setting> {
    let devids: Vec<u64> = array.members.iter().map(|member| member.devid).collect();
    let sets = match offer.members {
        None => vec![Vec::new()],
        Some(OfferedMembers::Each) => (0..devids.len()).map(|member| vec![member]).collect(),
        Some(OfferedMembers::Sets) => sensible_sets(&array.members),
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
            settings.push(Setting { spec: spec.to_string(), offer, value, members });
        }
    }
    settings
}

/// The sets of members that are worth telling from the others, by their indexes.
fn sensible_sets(members: &[MemberSpec]) -> Vec<Vec<usize>> {
    let mut classes: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, member) in members.iter().enumerate() {
        let first = members.iter().position(|other| are_alike(other, member));
        classes.entry(first.unwrap_or(index)).or_default().push(index);
    }
    let classes: Vec<Vec<usize>> = classes.into_values().collect();
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
        let fault = format!("{:?}", member.faults);
        (member.range.size_bytes, member.link, fault, member.rotational, member.write_mostly)
    };
    model(one).is_some() && model(one) == model(other) && traits(one) == traits(other)
}

impl Setting {
    /// The commands for an array. `previous` is the setting in force, as the system writes it.
    pub fn commands(&self, array: &ArraySpec, previous: Option<&str>) -> Commands {
        let source = array.source.clone().unwrap_or_default();
        // The values of policies have the suffixes of the kernel, which are powers of 1024.
        let bytes = self.value.as_deref().and_then(|value| parse_bytes(&format!("{value}iB")).ok());
        let mut words = vec![
            ("{policy}", self.spec.clone()),
            ("{value}", self.value.clone().unwrap_or_default()),
            ("{bytes}", bytes.map_or_else(String::new, |bytes| bytes.to_string())),
            ("{array}", source.name.unwrap_or_else(|| "ARRAY".to_owned())),
            ("{fsid}", source.fsid.unwrap_or_else(|| "FSID".to_owned())),
            ("{minor}", "MINOR".to_owned()),
            ("{control}", "CONTROL-SOCKET".to_owned()),
            ("{previous}", previous.unwrap_or("PREVIOUS").to_owned()),
        ];
        let members: Vec<&MemberSpec> =
            self.members.iter().map(|&member| &array.members[member]).collect();
        if let [member] = members[..] {
            words.push(("{devid}", member.devid.to_string()));
        }
        let fill = |text: &str| {
            words.iter().fold(text.to_owned(), |text, (word, value)| text.replace(word, value))
        };
        // A command that names a member is given once for each.
        let for_members = |text: &String| -> Vec<String> {
            let text = fill(text);
            if !text.contains("{member}") && !text.contains("{device}") {
                return vec![text];
            }
            let of_member = |member: &&MemberSpec| {
                let unknown = format!("DEVICE-{}", member.devid);
                let device = member.device.clone().unwrap_or(unknown);
                let kernel_name = device.strip_prefix("/dev/").unwrap_or(&device).to_owned();
                text.replace("{member}", &kernel_name).replace("{device}", &device)
            };
            members.iter().map(of_member).collect()
        };
        Commands {
            set: self.offer.set.iter().flat_map(for_members).collect(),
            check: self.offer.check.as_deref().map(fill),
            persist: self.offer.persist.as_deref().map(fill),
            undo: self.offer.undo.iter().flat_map(for_members).collect(),
        }
    }
}

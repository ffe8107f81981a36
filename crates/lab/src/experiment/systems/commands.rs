//! The commands of a setting for one array.
//!
//! Templates have words in braces: `{value}`, `{devid}`, `{member}`, `{array}`, …. A command that
//! names a member is given once for each member of the setting, and each line of a template is a
//! command. `{previous}` is what is in force as the system writes it, `{previous.1}` to
//! `{previous.9}` are the parameters of its policy.

use super::{Availability, NumberSetting, Offer, Setting, System};
use mirrorball_core::policies::Spec;
use mirrorball_core::units::parse_bytes;
use mirrorball_disk::array_file::{ArraySource, ArraySpec, MemberSpec};
#[cfg(test)]
use schemars::JsonSchema;

/// Parameters of a policy that templates can name.
const PARAMETERS_MAX: usize = 9;

/// The modifier of a policy string that stands for a flag of a member.
const FLAG: &str = "write-mostly";

/// The commands of a setting. What is not known is written in capitals.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Commands {
    /// Put it into force; none if there is nothing to do.
    pub set: Vec<String>,
    /// Add the new disk of a failed member with its flag, where that is another command than `set`.
    pub add: Vec<String>,
    /// Shows what is in force.
    pub check: Option<String>,
    /// How it survives a restart.
    pub persist: Option<String>,
    /// Restore what was in force.
    pub undo: Vec<String>,
    /// What stands for each word in capitals, in words.
    pub placeholders: Vec<String>,
}

/// The words of templates, what commands have where their value is not known, and its meaning.
/// That of the array is the system's own.
const UNKNOWN: [(&str, &str, &str); 11] = [
    ("{array}", "ARRAY", ""),
    ("{fsid}", "FSID", "the UUID of the file system, which `btrfs filesystem show` prints"),
    ("{nqn}", "NQN", "the name of the subsystem, which `nvme list-subsys` prints"),
    ("{minor}", "MINOR", "the number of the device: 0 for /dev/drbd0"),
    ("{control}", "CONTROL-SOCKET", "the path given to `mirrorball serve` as --control"),
    ("{previous}", "PREVIOUS", "the setting in force before"),
    ("{previous_sectors}", "SECTORS", "what the command under `check` printed before"),
    ("{value}", "VALUE", "the parameter of the policy"),
    ("{bytes}", "BYTES", "the parameter of the policy, in bytes"),
    ("{devid}", "DEVID", "the devid of the member"),
    ("{policy}", "POLICY", "the name of the policy"),
];
/// The folder of an array in templates.
const IN_SYSFS: &str = "/sys/block/{array}";
/// How commands name a member whose device is not known.
const UNKNOWN_DEVICE: &str = "DEVICE-";
/// How commands name the disk in the place of a failed one.
const NEW_DEVICE: &str = "/dev/NEW";

/// What is in force before a setting is.
#[derive(Clone, Copy, Debug)]
pub struct InForce<'a> {
    pub spec: &'a str,
    /// As the system writes it, if that is known.
    pub written: Option<&'a str>,
    /// Whether it is what is in force if nothing was set.
    pub is_default: bool,
    /// The devids of failed members: their disks are replaced first.
    pub failed: &'a [u64],
}

impl Commands {
    /// True if a command, or the text on how it persists, has this word.
    fn has(&self, word: &str) -> bool {
        let mut all = self.set.iter().chain(&self.add).chain(&self.undo);
        all.any(|it| it.contains(word))
            || self.check.iter().chain(&self.persist).any(|it| it.contains(word))
    }

    /// Says that `undo` restores the default, where what is in force is not known.
    pub(crate) fn note_unknown_before(&mut self, is_flag: bool) {
        if self.undo.is_empty() {
            return;
        }
        let before = self.persist.take().map_or_else(String::new, |it| {
            format!("{it}{} ", if it.ends_with('.') { "" } else { "." })
        });
        let other = match self.check {
            Some(_) if is_flag => "leave it out if `check` shows the flag before",
            Some(_) => "if `check` shows another value before, set that instead",
            None => "if another value is in force now, set that instead",
        };
        self.persist = Some(format!("{before}`undo` restores the default: {other}"));
    }
}

impl Setting {
    /// Returns true if commands on the running array put it into force: those of the offer, or the
    /// reset of other settings. A setting that takes a new array or another kernel has none.
    fn is_set_by_commands(&self) -> bool {
        match self.availability {
            Availability::NotHere(_) => false,
            Availability::Offered => true,
            Availability::OnCondition(_) => self.offer.set.is_some(),
        }
    }

    /// The commands for an array of `system` in which `now` is in force. None for a setting that
    /// no command on the array puts into force; of one that takes a new array, how it persists.
    pub fn commands(&self, system: &System, array: &ArraySpec, now: InForce<'_>) -> Commands {
        let words = self.words(array, now);
        if !self.is_set_by_commands() {
            let is_here = matches!(self.availability, Availability::OnCondition(_));
            let persist = self.offer.persist.as_ref().filter(|_| is_here).cloned();
            let persist = filled(&persist, &words, &[]).pop();
            return Commands { persist, ..Commands::default() };
        }
        let fill = |template: &Option<String>, members: &[&MemberSpec]| {
            filled(template, &words, &named(members, now.failed))
        };
        let all = self.named_members(array);
        let adds_up = !now.is_default && now.spec != self.spec;
        // A flag that stays is not written again.
        let stays = |member: &MemberSpec| {
            let is_flag = self.offer.modifier.as_deref() == Some(FLAG);
            let is_here = all.iter().any(|own| own.devid == member.devid);
            adds_up && is_flag && is_here && is_marked(now.spec, member.devid)
        };
        let has_left = |member: &&&MemberSpec| !stays(member);
        let own: Vec<&MemberSpec> = all.iter().filter(has_left).copied().collect();
        // The disk in the place of a failed one has no flag.
        let is_new =
            |member: &MemberSpec| self.offer.add.is_some() && now.failed.contains(&member.devid);
        let marked = |member: &&MemberSpec| {
            is_marked(now.spec, member.devid) && !stays(member) && !is_new(member)
        };
        let marked: Vec<&MemberSpec> = array.members.iter().filter(marked).collect();
        let of_system = |template: &Option<String>| match adds_up {
            true => fill(template, &marked),
            false => Vec::new(),
        };
        let reset = of_system(&system.reset);
        let restore = of_system(&system.restore);
        // A value that is in force is not written again.
        let differ = |own: &[String], other: &[String]| -> Vec<String> {
            own.iter().filter(|line| !other.contains(line)).cloned().collect()
        };
        let (reset, restore) = (differ(&reset, &restore), differ(&restore, &reset));
        // A flag that is taken back is seen, and lasts, as one that is set.
        let is_of_flag =
            |it: &&Offer| it.modifier.as_deref() == Some(FLAG) && it.policy == self.offer.policy;
        let of_flag = system.offers.iter().find(is_of_flag);
        let only_takes_back = adds_up && !marked.is_empty() && self.offer.set.is_none();
        let says = of_flag.filter(|_| only_takes_back).unwrap_or(self.offer);
        let added: Vec<&MemberSpec> = all.iter().copied().filter(|it| is_new(it)).collect();
        let set: Vec<&MemberSpec> = own.iter().copied().filter(|it| !is_new(it)).collect();
        let mut commands = Commands {
            set: last_writes([reset, fill(&self.offer.set, &set)].concat()),
            add: if added.is_empty() { Vec::new() } else { fill(&self.offer.add, &added) },
            check: fill(&says.check, &all).pop(),
            persist: fill(&says.persist, &all).pop(),
            undo: last_writes([fill(&self.offer.undo, &own), restore].concat()),
            placeholders: Vec::new(),
        };
        let is_stated = |it: &ArraySource| it.policy.is_some() || it.in_force.is_some();
        if now.is_default && !array.source.as_ref().is_some_and(is_stated) {
            commands.note_unknown_before(self.offer.modifier.as_deref() == Some(FLAG));
        }
        commands.placeholders = system.placeholders(|word| commands.has(word));
        commands
    }

    /// The commands that put it into force whichever setting of the system is: each flag is taken
    /// back first.
    pub fn commands_from_any(&self, system: &System, array: &ArraySpec) -> Vec<String> {
        if !self.is_set_by_commands() {
            return Vec::new();
        }
        let now = InForce { spec: &system.default, written: None, is_default: false, failed: &[] };
        let words = self.words(array, now);
        let every: Vec<&MemberSpec> = array.members.iter().collect();
        let reset = filled(&system.reset, &words, &named(&every, &[]));
        let own = named(&self.named_members(array), &[]);
        [reset, filled(&self.offer.set, &words, &own)].concat()
    }

    fn named_members<'a>(&self, array: &'a ArraySpec) -> Vec<&'a MemberSpec> {
        self.members.iter().map(|&member| &array.members[member]).collect()
    }

    /// What stands for the words of templates.
    fn words(&self, array: &ArraySpec, now: InForce<'_>) -> Vec<(String, String)> {
        let source = array.source.clone().unwrap_or_default();
        // The values of policies have the suffixes of the kernel, which are powers of 1024.
        let bytes = self.value.as_deref().and_then(|value| parse_bytes(&format!("{value}iB")).ok());
        let mut words = vec![
            ("{policy}", self.spec.clone()),
            ("{value}", self.value.clone().unwrap_or_default()),
            ("{bytes}", bytes.map_or_else(String::new, |bytes| bytes.to_string())),
        ];
        let known = [
            (IN_SYSFS, in_sysfs(source.name.as_deref())),
            ("{array}", source.name),
            ("{nqn}", source.fsid.clone()),
            ("{fsid}", source.fsid),
            ("{previous}", now.written.map(str::to_owned)),
        ];
        let plain = |value: Option<String>| value.filter(|value| is_plain(value));
        words.extend(known.into_iter().filter_map(|(word, value)| Some((word, plain(value)?))));
        if let [member] = self.members[..] {
            words.push(("{devid}", array.members[member].devid.to_string()));
        }
        // The first value of a word counts.
        words.extend(UNKNOWN.map(|(word, shown, _)| (word, shown.to_owned())));
        let words = words.into_iter().map(|(word, value)| (word.to_owned(), value));
        // These are for a policy in force of another system.
        let unknown = |number| (format!("{{previous.{number}}}"), format!("PREVIOUS-{number}"));
        let unknown = (1..=PARAMETERS_MAX).map(unknown);
        words.chain(parameters(now.spec)).chain(unknown).collect()
    }
}

impl NumberSetting {
    /// The commands that set it to `kib` on `array`, where `previous` is in force.
    pub fn commands(
        &self,
        system: &System,
        array: &ArraySpec,
        kib: u64,
        previous: Option<u64>,
    ) -> Commands {
        let source = array.source.clone().unwrap_or_default();
        let plain = |value: Option<String>| value.filter(|value| is_plain(value));
        let known = [
            ("{kib}", Some(kib.to_string())),
            ("{sectors}", Some((kib * 2).to_string())),
            ("{previous}", previous.map(|kib| kib.to_string())),
            ("{previous_sectors}", previous.map(|kib| (kib * 2).to_string())),
            (IN_SYSFS, in_sysfs(source.name.as_deref())),
            ("{array}", plain(source.name)),
            ("{fsid}", plain(source.fsid)),
        ];
        let words = known.into_iter().filter_map(|(word, value)| Some((word, value?)));
        let words = words.chain(UNKNOWN.map(|(word, shown, _)| (word, shown.to_owned())));
        let words: Vec<_> = words.map(|(word, value)| (word.to_owned(), value)).collect();
        let fill = |template: &str| filled(&Some(template.to_owned()), &words, &[]);
        let mut commands = Commands {
            set: fill(&self.set),
            check: fill(&self.check).pop(),
            persist: fill(&self.persist).pop(),
            undo: fill(&self.undo),
            ..Commands::default()
        };
        commands.placeholders = system.placeholders(|word| commands.has(word));
        commands
    }
}

impl System {
    /// What the words in capitals stand for that are in the commands.
    fn placeholders(&self, is_used: impl Fn(&str) -> bool) -> Vec<String> {
        let meaning = |meaning: &'static str| match (meaning, &self.array_name) {
            ("", Some(own)) => own.clone(),
            (meaning, _) => meaning.to_owned(),
        };
        let is_numbered = is_used("PREVIOUS-");
        let is_shown = |shown: &str| is_used(shown) && !(is_numbered && shown == "PREVIOUS");
        let used = UNKNOWN.iter().filter(|(_, shown, _)| is_shown(shown));
        let used = used.map(|(_, shown, text)| format!("{shown} is {}", meaning(text)));
        let device = format!("{UNKNOWN_DEVICE}N is the device of devid N, as sdb1 or /dev/sdb1");
        // By its path, or the name of the kernel. With several failed members, each has a number.
        let new_word = NEW_DEVICE.trim_start_matches("/dev/");
        let new = match is_used(&format!("{new_word}-")) {
            true => "NEW-N is the disk in the place of the failed devid N",
            false => "NEW is the disk in the place of the one that failed",
        };
        let numbered = "PREVIOUS-N is parameter N of the policy in force before".to_owned();
        let used = used.chain(is_numbered.then_some(numbered));
        let used = used.chain(is_used(UNKNOWN_DEVICE).then_some(device));
        used.chain(is_used(new_word).then(|| new.to_owned())).collect()
    }

    /// A template as text, with words in capitals, and what they stand for.
    pub fn described(&self, template: &str) -> (String, Vec<String>) {
        let replace =
            |text: String, (word, shown, _): &(&str, &str, &str)| text.replace(word, shown);
        let text = UNKNOWN.iter().fold(template.to_owned(), replace);
        let text = text.replace("{member}", "DEVICE-N").replace("{device}", "DEVICE-N");
        let numbered = |text: String, number| {
            text.replace(&format!("{{previous.{number}}}"), &format!("PREVIOUS-{number}"))
        };
        let text = (1..=PARAMETERS_MAX).fold(text, numbered);
        let placeholders = self.placeholders(|word| text.contains(word));
        (text, placeholders)
    }
}

/// Text with commands about the state of an array, or of a member, from a template of its system.
pub fn state_command(template: &str, array: &ArraySpec, member: Option<&MemberSpec>) -> String {
    let source = array.source.clone().unwrap_or_default();
    let known = |value: Option<String>, unknown: &str| {
        value.filter(|value| is_plain(value)).unwrap_or_else(|| unknown.to_owned())
    };
    let devid = member.map_or(0, |member| member.devid);
    let name = |member: &MemberSpec| member.device.clone().or(member.kernel_name.clone());
    let device = member.and_then(name);
    let devices = array.members.iter().map(|it| name(it).filter(|name| is_plain(name)));
    let devices: Option<Vec<String>> = devices.collect();
    let group = source.name.as_ref().and_then(|it| Some(it.split_once('/')?.0.to_owned()));
    let words = [
        (IN_SYSFS, in_sysfs(source.name.as_deref()).unwrap_or_else(|| IN_SYSFS.to_owned())),
        ("{group}", known(group, "GROUP")),
        ("{array}", known(source.name, "ARRAY")),
        ("{devices}", devices.map_or("DEVICES".to_owned(), |all| all.join(" "))),
        ("{mount}", known(source.mount, "MOUNT")),
        ("{devid}", devid.to_string()),
        ("{device}", known(device, &format!("{UNKNOWN_DEVICE}{devid}"))),
    ];
    words.iter().fold(template.to_owned(), |text, (word, value)| text.replace(word, value))
}

/// The folder of an array whose name is a path below `/dev`, as `md/data`: sysfs has the name of
/// the kernel, which is not known then.
fn in_sysfs(name: Option<&str>) -> Option<String> {
    name.filter(|it| it.contains('/')).map(|_| "/sys/block/ARRAY".to_owned())
}

/// The commands but for writes to a file that a later one writes again.
fn last_writes(mut commands: Vec<String>) -> Vec<String> {
    let file = |command: &String| Some(command.rsplit_once(" > ")?.1.to_owned());
    let files: Vec<Option<String>> = commands.iter().map(file).collect();
    let mut index = 0..;
    commands.retain(|_| {
        let own = index.next().unwrap_or_default();
        files[own].is_none() || !files[own + 1..].contains(&files[own])
    });
    commands
}

/// The parameters of a policy string, with its defaults, as plain numbers.
fn parameters(spec: &str) -> Vec<(String, String)> {
    let Ok(parsed) = Spec::parse(spec) else { return Vec::new() };
    let written = spec.split('+').next().unwrap_or_default();
    let mut written = written.split(':').skip(1);
    let parameters = parsed.info().map_or(&[][..], |info| info.parameters);
    let infos = parameters.iter().take(PARAMETERS_MAX);
    let value = |(number, info): (usize, &mirrorball_core::policies::ParameterInfo)| {
        let default = || info.default.map(|value| value.to_string());
        // A number without a suffix is read as it is, and one with a suffix is in bytes.
        let plain = |text: &str| match text.parse::<u64>() {
            Ok(number) => Some(number.to_string()),
            Err(_) => parse_bytes(&format!("{text}iB")).ok().map(|bytes| bytes.to_string()),
        };
        let value = written.next().and_then(plain).or_else(default)?;
        Some((format!("{{previous.{number}}}"), value))
    };
    (1..).zip(infos).filter_map(value).collect()
}

/// True if a policy string names the member as write-mostly.
fn is_marked(spec: &str, devid: u64) -> bool {
    spec.split('+').any(|part| part == format!("{FLAG}:{devid}"))
}

/// True if a shell takes the value as one word, as it is. Commands are run as root: a name that
/// could be anything else is left to the user.
pub(crate) fn is_plain(value: &str) -> bool {
    let is_safe = |it: char| it.is_ascii_alphanumeric() || "-_./:+@%=,".contains(it);
    !value.is_empty() && !value.starts_with('-') && value.chars().all(is_safe)
}

struct NamedDevice {
    /// Its path, such as `/dev/sda1`.
    path: String,
    /// The name of the kernel, such as `sda1`.
    kernel_name: String,
}

impl NamedDevice {
    fn of_path(path: String) -> NamedDevice {
        let kernel_name = path.strip_prefix("/dev/").unwrap_or(&path).to_owned();
        NamedDevice { path, kernel_name }
    }
}

/// The devices of members, in commands. Those of failed members are their new disks.
fn named(members: &[&MemberSpec], failed: &[u64]) -> Vec<NamedDevice> {
    let plain = |name: &Option<String>| name.clone().filter(|name| is_plain(name));
    let device = |member: &&MemberSpec| match failed {
        [devid] if *devid == member.devid => NamedDevice::of_path(NEW_DEVICE.to_owned()),
        failed if failed.contains(&member.devid) => {
            NamedDevice::of_path(format!("{NEW_DEVICE}-{}", member.devid))
        }
        _ => {
            let unknown = || format!("{UNKNOWN_DEVICE}{}", member.devid);
            let named = NamedDevice::of_path(plain(&member.device).unwrap_or_else(unknown));
            match plain(&member.kernel_name) {
                Some(kernel_name) => NamedDevice { kernel_name, ..named },
                // A link, whose target has another name.
                None if named.kernel_name.contains('/') => {
                    NamedDevice { kernel_name: unknown(), ..named }
                }
                None => named,
            }
        }
    };
    members.iter().map(device).collect()
}

/// A template with its words filled in, once for each device if it names one; a command for each
/// line.
fn filled(
    template: &Option<String>,
    words: &[(String, String)],
    devices: &[NamedDevice],
) -> Vec<String> {
    let Some(template) = template else { return Vec::new() };
    let fill = |text: String, (word, value): &(String, String)| text.replace(word, value);
    let text = words.iter().fold(template.clone(), fill);
    if !text.contains("{member}") && !text.contains("{device}") {
        return text.lines().map(str::to_owned).collect();
    }
    let of_device = |device: &NamedDevice| {
        let text = text.replace("{member}", &device.kernel_name);
        let text = text.replace("{device}", &device.path);
        text.lines().map(str::to_owned).collect::<Vec<String>>()
    };
    devices.iter().flat_map(of_device).collect()
}

//! The commands of a setting for one array.
//!
//! Templates have words in braces: `{value}`, `{devid}`, `{member}`, `{array}`, …. A command that
//! names a member is given once for each member of the setting. `{previous}` is what is in force as
//! the system writes it, `{previous.1}` to `{previous.9}` are the parameters of its policy.

use super::{Availability, Setting, System};
use mirrorball_core::policies::Spec;
use mirrorball_core::units::parse_bytes;
use mirrorball_disk::array_file::{ArraySpec, MemberSpec};

/// Parameters of a policy that templates can name.
const PARAMETERS_MAX: usize = 9;

/// The commands of a setting. What is not known is written in capitals.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Commands {
    /// Put it into force; none if there is nothing to do.
    pub set: Vec<String>,
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
const UNKNOWN: [(&str, &str, &str); 9] = [
    ("{array}", "ARRAY", ""),
    ("{fsid}", "FSID", "the UUID of the file system, which `btrfs filesystem show` prints"),
    ("{minor}", "MINOR", "the number of the device: 0 for /dev/drbd0"),
    ("{control}", "CONTROL-SOCKET", "the path given to `mirrorball serve` as --control"),
    ("{previous}", "PREVIOUS", "the setting in force before"),
    ("{value}", "VALUE", "the parameter of the policy"),
    ("{bytes}", "BYTES", "the parameter of the policy, in bytes"),
    ("{devid}", "DEVID", "the devid of the member"),
    ("{policy}", "POLICY", "the name of the policy"),
];
/// How commands name a member whose device is not known.
const UNKNOWN_DEVICE: &str = "DEVICE-";

/// What is in force before a setting is.
#[derive(Clone, Copy, Debug)]
pub struct InForce<'a> {
    /// Canonical policy string.
    pub spec: &'a str,
    /// As the system writes it, if that is known.
    pub written: Option<&'a str>,
    /// Whether it is what is in force if nothing was set.
    pub is_default: bool,
}

impl Setting {
    /// The commands for an array of `system` in which `now` is in force. None for a setting that
    /// the running system does not have.
    pub fn commands(&self, system: &System, array: &ArraySpec, now: InForce<'_>) -> Commands {
        if matches!(self.availability, Availability::NotHere(_)) {
            return Commands::default();
        }
        let words = self.words(array, now);
        let of_setting: Vec<&MemberSpec> =
            self.members.iter().map(|&member| &array.members[member]).collect();
        let own = |template: &Option<String>| filled(template, &words, &of_setting);
        let adds_up = !now.is_default && now.spec != self.spec;
        let marked: Vec<&MemberSpec> =
            array.members.iter().filter(|member| is_marked(now.spec, member.devid)).collect();
        let of_system = |template: &Option<String>| match adds_up {
            true => filled(template, &words, &marked),
            false => Vec::new(),
        };
        let set = [of_system(&system.reset), own(&self.offer.set)].concat();
        let check = own(&self.offer.check).pop();
        let undo = [own(&self.offer.undo), of_system(&system.restore)].concat();
        let shown: Vec<&String> = set.iter().chain(&check).chain(&undo).collect();
        let placeholders = system.placeholders(|word| shown.iter().any(|it| it.contains(word)));
        Commands { set, check, persist: own(&self.offer.persist).pop(), undo, placeholders }
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
            ("{array}", source.name),
            ("{fsid}", source.fsid),
            ("{previous}", now.written.map(str::to_owned)),
        ];
        words.extend(known.into_iter().filter_map(|(word, value)| Some((word, value?))));
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

impl System {
    /// What the words in capitals stand for that are in the commands.
    fn placeholders(&self, is_used: impl Fn(&str) -> bool) -> Vec<String> {
        let meaning = |meaning: &'static str| match (meaning, &self.array_name) {
            ("", Some(own)) => own.clone(),
            (meaning, _) => meaning.to_owned(),
        };
        let used = UNKNOWN.iter().filter(|(_, shown, _)| is_used(shown));
        let used = used.map(|(_, shown, text)| format!("{shown} is {}", meaning(text)));
        let device = format!("{UNKNOWN_DEVICE}N is the device of devid N, as sdb1 or /dev/sdb1");
        used.chain(is_used(UNKNOWN_DEVICE).then_some(device)).collect()
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

/// The parameters of a policy string, with its defaults, as plain numbers.
fn parameters(spec: &str) -> Vec<(String, String)> {
    let Ok(parsed) = Spec::parse(spec) else { return Vec::new() };
    let written = spec.split('+').next().unwrap_or_default();
    let mut written = written.split(':').skip(1);
    let infos = parsed.info().parameters.iter().take(PARAMETERS_MAX);
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
    spec.split('+').any(|part| part == format!("write-mostly:{devid}"))
}

/// A template with its words filled in, once for each member if it names one.
fn filled(
    template: &Option<String>,
    words: &[(String, String)],
    members: &[&MemberSpec],
) -> Vec<String> {
    let Some(template) = template else { return Vec::new() };
    let fill = |text: String, (word, value): &(String, String)| text.replace(word, value);
    let text = words.iter().fold(template.clone(), fill);
    if !text.contains("{member}") && !text.contains("{device}") {
        return vec![text];
    }
    let of_member = |member: &&MemberSpec| {
        let unknown = format!("{UNKNOWN_DEVICE}{}", member.devid);
        let device = member.device.clone().unwrap_or(unknown);
        let kernel_name = device.strip_prefix("/dev/").unwrap_or(&device).to_owned();
        text.replace("{member}", &kernel_name).replace("{device}", &device)
    };
    members.iter().map(of_member).collect()
}

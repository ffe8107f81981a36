//! The table `[source]` of an array file: the storage system that the array was found in.
//!
//! `mirrorball detect` writes it, with the names that commands of that system need. It does not
//! change a simulation, so it is no part of the canonical text.

use super::reader::{TomlSection, TomlSource};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::policies::Spec;
use std::fmt::{self, Display, Formatter};
use toml::de::DeTable;

/// The array of a machine that an array file describes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArraySource {
    /// The storage system: `btrfs`, `md`, `md-raid10`, `lvm`, `dm`, `zfs`, `nvme`, ….
    pub system: String,
    /// Version of the system: that of the kernel, or of OpenZFS.
    pub version: Option<String>,
    /// Name of the array in commands of the system: `md0`, `vg/lv`, `tank`, `nvme-subsys0`.
    pub name: Option<String>,
    /// UUID of the file system.
    pub fsid: Option<String>,
    pub mount: Option<String>,
    /// The read policy in use, as the system writes it.
    pub policy: Option<String>,
    /// The same with all settings that choose among copies, as `compare --policy` takes it.
    pub in_force: Option<String>,
    /// The read policies that the running system offers, as it writes them.
    pub offered: Vec<String>,
    /// Unusual state, such as `degraded`.
    pub condition: Option<String>,
    /// Spares that are free.
    pub spares: Vec<String>,
    /// The limit in force on its rebuild or scrub, in KiB/s of each device.
    pub limit_kib: Option<u64>,
    /// True if that limit was set for this array, false if it is that of the machine.
    pub limit_is_own: bool,
    /// Facts that could not be read, so that something else was assumed.
    pub not_known: Option<String>,
}

impl ArraySource {
    /// The source that the text of an array file has, without reading the models that it names;
    /// `None` if it has none, or is no array file.
    pub fn of_text(text: &str) -> Option<ArraySource> {
        let table = DeTable::parse(text).ok()?;
        read_array_source(&TomlSource { file: "", text }.root(&table)).ok()?
    }

    /// Returns true if both are of one array: by the UUID, else by the name.
    pub fn is_same_array(&self, other: &ArraySource) -> bool {
        let is_same = match (&self.fsid, &other.fsid) {
            (Some(ours), Some(theirs)) => ours == theirs,
            _ => self.name == other.name,
        };
        self.system == other.system && is_same
    }
}

/// The array in words: `btrfs pool (UUID 585f)`.
impl Display for ArraySource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.system)?;
        // A btrfs without a label is called by its UUID.
        let name = self.name.as_ref().filter(|name| Some(*name) != self.fsid.as_ref());
        match (name, &self.fsid) {
            (Some(name), Some(fsid)) => write!(f, " {name} (UUID {fsid})"),
            (Some(name), None) => write!(f, " {name}"),
            (None, Some(fsid)) => write!(f, " (UUID {fsid})"),
            (None, None) => Ok(()),
        }
    }
}

/// How well the model of a member is known to fit the real disk. The best comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ModelConfidence {
    /// Parameters fitted to measurements of this disk.
    Fitted,
    /// The same, but the host was late while it measured.
    FittedLate,
    /// The disk has a model name that the profile is for.
    KnownModel,
    /// The profile is the usual one for the class of the disk.
    ClassDefault,
    /// Not even the class of the disk is certain.
    Guessed,
}

impl ModelConfidence {
    /// All, the best first.
    pub const ALL: [ModelConfidence; 5] = [
        ModelConfidence::Fitted,
        ModelConfidence::FittedLate,
        ModelConfidence::KnownModel,
        ModelConfidence::ClassDefault,
        ModelConfidence::Guessed,
    ];

    /// Name in array files.
    pub fn name(self) -> &'static str {
        match self {
            ModelConfidence::Fitted => "fitted",
            ModelConfidence::FittedLate => "fitted, host late",
            ModelConfidence::KnownModel => "known model",
            ModelConfidence::ClassDefault => "class default",
            ModelConfidence::Guessed => "guessed",
        }
    }
}

/// Reads `[source]`, if the file has it.
pub(super) fn read_array_source(root: &TomlSection<'_>) -> Result<Option<ArraySource>, Diagnostic> {
    let Some(source) = root.table("source", "[source]")? else { return Ok(None) };
    source.allow_only(&[
        "system", "version", "name", "fsid", "mount", "policy", "in_force", "offered", "condition",
        "spares", "limit_kib", "limit_is_own", "not_known",
    ])?;
    let text = |key| Ok(source.printable_text(key)?.map(|text| text.value.to_owned()));
    let Some(system) = text("system")? else {
        let error = source.error("[source] has no `system`");
        return Err(error.with_help("for example system = \"btrfs\""));
    };
    Ok(Some(ArraySource {
        system,
        version: text("version")?,
        name: text("name")?,
        fsid: text("fsid")?,
        mount: text("mount")?,
        policy: text("policy")?,
        in_force: read_in_force(&source)?,
        offered: source.texts("offered")?,
        condition: text("condition")?,
        spares: source.texts("spares")?,
        limit_kib: source.integer("limit_kib")?.filter(|kib| *kib > 0),
        limit_is_own: source.flag("limit_is_own")?.unwrap_or(false),
        not_known: text("not_known")?,
    }))
}

/// Reads `in_force`, in its canonical form.
fn read_in_force(source: &TomlSection<'_>) -> Result<Option<String>, Diagnostic> {
    let Some(written) = source.printable_text("in_force")? else { return Ok(None) };
    let spec = Spec::parse(written.value).map_err(|error| Diagnostic {
        help: error.help,
        ..source.source.error(written.start, error.message)
    })?;
    Ok(Some(spec.to_string()))
}

/// Reads `confidence` of a member.
pub(super) fn read_confidence(
    member: &TomlSection<'_>,
) -> Result<Option<ModelConfidence>, Diagnostic> {
    let Some(written) = member.text("confidence")? else { return Ok(None) };
    let found = ModelConfidence::ALL.into_iter().find(|known| known.name() == written.value);
    found.map(Some).ok_or_else(|| {
        let names = ModelConfidence::ALL.map(ModelConfidence::name);
        let message = format!("unknown confidence `{}`", written.value);
        member
            .source
            .error(written.start, message)
            .with_suggestion(written.value, &names, "the known ones are")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::array_file::ArrayFile;

    const MEMBERS: &str = "[[member]]\nmodel = \"hdd-5k4\"\ndevice = \"/dev/sda1\"\n\
        confidence = \"class default\"\n[[member]]\nmodel = \"hdd-5k4\"\n";
    const SOURCE: &str = "profile = \"raid1\"\n[source]\nsystem = \"btrfs\"\n\
        version = \"6.12.1\"\nname = \"pool\"\nfsid = \"585f\"\nmount = \"/srv\"\n\
        policy = \"pid\"\nin_force = \"pid\"\noffered = [\"pid\", \"devid:1\"]\n\
        condition = \"degraded\"\nnot_known = \"the level\"\n";

    #[test]
    fn source_and_devices_are_read_and_do_not_change_the_canonical_text() {
        let with = ArrayFile::parse(&format!("{SOURCE}{MEMBERS}"), "a.toml").unwrap().spec;
        let source = with.source.as_ref().unwrap();
        assert_eq!(source.system, "btrfs");
        assert_eq!(source.offered, ["pid", "devid:1"]);
        assert_eq!(source.in_force.as_deref(), Some("btrfs/pid"), "in its canonical form");
        assert_eq!(source.mount.as_deref(), Some("/srv"));
        assert_eq!(source.condition.as_deref(), Some("degraded"));
        assert_eq!(source.not_known.as_deref(), Some("the level"));
        assert_eq!(with.members[0].device.as_deref(), Some("/dev/sda1"));
        assert_eq!(with.members[0].confidence, Some(ModelConfidence::ClassDefault));
        assert_eq!(with.members[1].device, None);
        let without = "profile = \"raid1\"\n[[member]]\nmodel = \"hdd-5k4\"\ncount = 2\n";
        let without = ArrayFile::parse(without, "a.toml").unwrap().spec;
        assert_eq!(without.source, None);
        assert_eq!(without.canonical_text(), with.canonical_text());
    }

    #[test]
    fn an_array_is_known_again_by_its_uuid_and_else_by_its_name() {
        let source = ArraySource::of_text(&format!("{SOURCE}{MEMBERS}")).unwrap();
        assert_eq!(source.to_string(), "btrfs pool (UUID 585f)");
        let renamed = ArraySource { name: Some("other".to_owned()), ..source.clone() };
        assert!(source.is_same_array(&renamed));
        let other = ArraySource { fsid: Some("1111".to_owned()), ..source.clone() };
        assert!(!source.is_same_array(&other), "of the same label");
        let md = |name: &str| ArraySource {
            system: "md".to_owned(),
            name: Some(name.to_owned()),
            ..ArraySource::default()
        };
        assert!(md("md0").is_same_array(&md("md0")) && !md("md0").is_same_array(&md("md1")));
        assert_eq!(md("md0").to_string(), "md md0");
        let unnamed = ArraySource { name: source.fsid.clone(), ..source };
        assert_eq!(unnamed.to_string(), "btrfs (UUID 585f)");
        let fitted = "[source]\nsystem = \"md\"\n[[member]]\nmodel = \"not-here.toml\"\n";
        assert_eq!(ArraySource::of_text(fitted).unwrap().system, "md");
        assert_eq!(ArraySource::of_text("profile = \"raid1\"\n"), None);
    }

    #[test]
    fn mistakes_in_source_are_reported_at_their_place() {
        for (from, to, place, message) in [
            ("system = \"btrfs\"\n", "", "a.toml:2:1: ", "[source] has no `system`"),
            ("policy", "polisy", "a.toml:8:1: ", "did you mean `policy`?"),
            ("in_force = \"pid\"", "in_force = \"pit\"", "a.toml:9:12: ", "`pit`"),
            ("\"devid:1\"", "2", "a.toml:10:11: ", "`offered` must be a list of printable strings"),
            ("class default", "class defaul", "a.toml:16:14: ", "did you mean `class default`?"),
            ("/dev/sda1", "\\u0007", "a.toml:15:10: ", "`device`"),
            ("/dev/sda1\"", "/dev/sda1\"\ncount = 2", "a.toml:15:10: ", "but `count` is 2"),
        ] {
            let text = format!("{SOURCE}{MEMBERS}").replacen(from, to, 1);
            let error = ArrayFile::parse(&text, "a.toml").unwrap_err().to_string();
            assert!(error.starts_with(place) && error.contains(message), "{error}");
        }
    }
}

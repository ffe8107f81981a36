//! Identity of an array and its members, also after a restart, when the kernel may have
//! given them other names.

use super::array::{DetectedArray, DetectedMember, StorageSystem};
use super::block::BlockDevice;
use super::disk::DetectedDisk;
use super::leaf::leaf;
use super::sysroot::Sysroot;
use serde::{Deserialize, Serialize};
use std::fmt;

const UUID: &str = "UUID";
/// The UUID in sysfs. Of arrays with metadata 0.90 its bytes are in another order than mdadm's.
const SYSFS_UUID: &str = "UUID in sysfs";
const NAME: &str = "name";

/// Identifiers of one array or member: kind and value, the surest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Identifiers {
    values: Vec<(String, String)>,
}

impl Identifiers {
    fn add(&mut self, kind: &str, value: Option<String>) {
        self.values.extend(value.map(|value| (kind.to_owned(), value)));
    }

    fn get(&self, kind: &str) -> Option<&str> {
        self.values.iter().find(|it| it.0 == kind).map(|it| it.1.as_str())
    }

    /// Whether `other` is of the same array or member, by the surest kind that both have; `None` if
    /// they share no kind.
    pub(crate) fn matches(&self, other: &Identifiers) -> Option<bool> {
        self.values.iter().find_map(|(kind, value)| Some(other.get(kind)? == value))
    }

    /// True if `other` is surely not the same member: a number of a place may be given again.
    pub(crate) fn is_surely_another(&self, other: &Identifiers) -> bool {
        let mut shared =
            self.values.iter().filter_map(|(kind, it)| Some((kind, it, other.get(kind)?)));
        let differs = |(kind, before, now): (&String, &String, &str)| {
            before != now && !["slot", "number"].contains(&kind.as_str())
        };
        shared.next().is_some_and(differs)
    }

    /// The surest value, and its kind.
    pub(crate) fn surest(&self) -> Option<(&str, &str)> {
        self.values.first().map(|(kind, value)| (kind.as_str(), value.as_str()))
    }
}

impl fmt::Display for Identifiers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.surest() {
            Some((kind, value)) => write!(f, "{kind} {value}"),
            None => f.write_str("without an identifier"),
        }
    }
}

/// Identity of an array; its name if it has nothing better.
pub(crate) fn array_identifiers(sysroot: &Sysroot, array: &DetectedArray) -> Identifiers {
    match array.system {
        StorageSystem::Md | StorageSystem::MdRaid10 => md_identifiers(sysroot, &array.name),
        _ => identifiers(array.id.clone(), None, &array.name),
    }
}

pub(crate) fn nvme_identifiers(sysroot: &Sysroot, subsystem: &str) -> Identifiers {
    let nqn = sysroot.text(&format!("/sys/class/nvme-subsystem/{subsystem}/subsysnqn"));
    identifiers(nqn, None, subsystem)
}

/// The kernel's name of the md array with these identifiers; `likely` is tried first.
pub(crate) fn find_md(sysroot: &Sysroot, wanted: &Identifiers, likely: &str) -> Option<String> {
    let mut names = sysroot.names("/sys/block");
    names.retain(|name| sysroot.exists(&format!("/sys/block/{name}/md")));
    names.sort_by_key(|name| name != likely);
    names.into_iter().find(|name| wanted.matches(&md_identifiers(sysroot, name)) == Some(true))
}

/// The members of an md array by the kernel's name, with what identifies each within the array.
/// What two members share identifies neither.
pub(crate) fn md_members(sysroot: &Sysroot, array: &str) -> Vec<(String, Identifiers)> {
    let names = sysroot.names(&format!("/sys/block/{array}/md"));
    let names = names.iter().filter_map(|name| name.strip_prefix("dev-"));
    let all: Vec<(String, Identifiers)> =
        names.map(|name| (name.to_owned(), member_identifiers(sysroot, array, name))).collect();
    let (names, identities): (Vec<String>, Vec<Identifiers>) = all.into_iter().unzip();
    names.into_iter().zip(unique(&identities)).collect()
}

/// Identity of each member within an array that is no md array, in the order of the members.
pub(crate) fn member_identities(sysroot: &Sysroot, array: &DetectedArray) -> Vec<Identifiers> {
    let of_member = |member: &DetectedMember| {
        let name = member.kernel_name.as_deref();
        let device = name.and_then(|name| BlockDevice::by_name(sysroot, name));
        let mut all = device.map_or_else(Identifiers::default, |it| of_device(sysroot, &it));
        // The metadata of the volume or pool keeps the order of its members.
        all.add("number", Some(member.devid.to_string()));
        all
    };
    unique(&array.members.iter().map(of_member).collect::<Vec<Identifiers>>())
}

/// The identifiers that no two members share.
fn unique(all: &[Identifiers]) -> Vec<Identifiers> {
    let is_unique = |pair: &&(String, String)| {
        all.iter().filter(|other| other.values.contains(pair)).count() == 1
    };
    let kept = |it: &Identifiers| it.values.iter().filter(is_unique).cloned().collect();
    all.iter().map(|it| Identifiers { values: kept(it) }).collect()
}

fn identifiers(uuid: Option<String>, sysfs_uuid: Option<String>, name: &str) -> Identifiers {
    let mut all = Identifiers::default();
    all.add(UUID, uuid);
    all.add(SYSFS_UUID, sysfs_uuid);
    if all.values.is_empty() {
        all.add(NAME, Some(name.to_owned()));
    }
    all
}

fn md_identifiers(sysroot: &Sysroot, name: &str) -> Identifiers {
    let hex = |text: String| {
        let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
        (digits.len() == 32).then(|| digits.to_lowercase())
    };
    let device = BlockDevice::by_name(sysroot, name);
    let udev = device.and_then(|device| udev_value(sysroot, &device, "MD_UUID"));
    let uuid = udev.or_else(|| {
        let path = format!("/dev/{name}");
        let command = ["mdadm", "--detail", &path];
        let output = sysroot.tool_output(&format!("mdadm-detail-{name}"), &command).ok()?;
        let uuid = output.lines().find_map(|line| line.trim().strip_prefix("UUID :"))?;
        Some(uuid.to_owned())
    });
    let sysfs_uuid = sysroot.text(&format!("/sys/block/{name}/md/uuid"));
    identifiers(uuid.and_then(hex), sysfs_uuid.and_then(hex), name)
}

fn member_identifiers(sysroot: &Sysroot, array: &str, member: &str) -> Identifiers {
    let folder = format!("/sys/block/{array}/md/dev-{member}");
    let device = BlockDevice::at(sysroot, &format!("{folder}/block"))
        .or_else(|| BlockDevice::by_name(sysroot, member));
    let mut all = device.map_or_else(Identifiers::default, |it| of_device(sysroot, &it));
    // The superblock of the member says which slot it has.
    all.add("slot", sysroot.number(&format!("{folder}/slot")).map(|slot| slot.to_string()));
    all
}

fn of_device(sysroot: &Sysroot, device: &BlockDevice) -> Identifiers {
    let mut all = Identifiers::default();
    all.add("device UUID", udev_value(sysroot, device, "ID_FS_UUID_SUB"));
    let (_, mapping) = device.mapper(sysroot);
    all.add("mapping", (!mapping.is_empty()).then_some(mapping));
    let below = leaf(sysroot, device);
    let begin = below.begin_bytes.unwrap_or(0);
    if let Some(disk) = &below.disk {
        let wwid = sysroot.text(&disk.file("device/wwid"));
        let wwid = wwid.or_else(|| sysroot.text(&disk.file("wwid")));
        let place = |id: String| format!("{id} from byte {begin}");
        all.add("WWID", wwid.map(place));
        all.add("serial number", DetectedDisk::read(sysroot, disk).serial.map(place));
    }
    all
}

/// A value of the entry of a device in the database of udev.
fn udev_value(sysroot: &Sysroot, device: &BlockDevice, name: &str) -> Option<String> {
    let number = sysroot.text(&device.file("dev"))?;
    let text = sysroot.raw_text(&format!("/run/udev/data/b{number}"))?;
    let mut values = text.lines().filter_map(|line| line.strip_prefix("E:")?.strip_prefix(name));
    values.find_map(|rest| rest.strip_prefix('=')).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn recorded(name: &str) -> Sysroot {
        Sysroot::recorded(
            &Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots").join(name),
        )
    }

    fn of(pairs: &[(&str, &str)]) -> Identifiers {
        let owned = |(kind, value): &(&str, &str)| ((*kind).to_owned(), (*value).to_owned());
        Identifiers { values: pairs.iter().map(owned).collect() }
    }

    #[test]
    fn the_surest_kind_that_both_have_decides() {
        let before = of(&[("UUID", "a"), ("WWID", "w"), ("slot", "1")]);
        assert_eq!(before.matches(&of(&[("WWID", "w"), ("slot", "0")])), Some(true));
        assert_eq!(before.matches(&of(&[("WWID", "x"), ("slot", "1")])), Some(false));
        assert_eq!(before.matches(&of(&[("name", "md0")])), None);
        assert_eq!(before.matches(&Identifiers::default()), None);
    }

    #[test]
    fn an_array_of_md_is_found_by_its_uuid_and_not_by_its_name() {
        let sysroot = recorded("md-raid1-hdd-ssd");
        let identity = md_identifiers(&sysroot, "md0");
        assert_eq!(identity.surest(), Some((UUID, "6a7b1cf305836719a38e9f19423ff1af")));
        assert_eq!(find_md(&sysroot, &identity, "md127").as_deref(), Some("md0"));
        assert_eq!(find_md(&sysroot, &of(&[(UUID, "other")]), "md0"), None);
        assert_eq!(find_md(&sysroot, &of(&[(NAME, "md0")]), "md0"), None, "a name is not enough");
    }

    #[test]
    fn what_two_members_share_identifies_neither() {
        let folder = tempfile::tempdir().unwrap();
        let sysroot = Sysroot::recorded(folder.path());
        for (member, slot, wwid) in [("sda", "0\n", "same\n"), ("sdb", "1\n", "same\n")] {
            let disk = sysroot.host_path(&format!("/sys/block/{member}/device"));
            let member = sysroot.host_path(&format!("/sys/block/md0/md/dev-{member}"));
            for (path, file, text) in [(disk, "wwid", wwid), (member, "slot", slot)] {
                fs::create_dir_all(&path).unwrap();
                fs::write(path.join(file), text).unwrap();
            }
        }
        let shared = md_members(&sysroot, "md0");
        assert_eq!(shared[1], ("sdb".to_owned(), of(&[("slot", "1")])));
        fs::write(sysroot.host_path("/sys/block/sda/device/wwid"), "other\n").unwrap();
        let unique = md_members(&sysroot, "md0");
        assert_eq!(unique[0].1, of(&[("WWID", "other from byte 0"), ("slot", "0")]));
    }
}

//! Links that disks share, from the places of the disks in sysfs: a bus of USB, a port of SATA with
//! a port multiplier or of SAS with an expander, and one disk with several members.

use super::array::{DetectedMember, SharedLink};
use super::block::BlockDevice;
use super::sysroot::Sysroot;
use mirrorball_core::units::parse_bytes;
use mirrorball_disk::profile::ModelProfile;

/// Speed of a bus of USB in Mbit/s, and the rate that disks reach on it together.
const USB_RATES: [(u64, u64); 5] = [
    (12, 1_000_000),
    (480, 35_000_000),
    (5000, 400_000_000),
    (10_000, 900_000_000),
    (20_000, 1_800_000_000),
];
/// Speed of a bus of USB that does not say it.
const USB_SPEED_ASSUMED: u64 = 480;
/// Rate of a port of SATA at 6 Gbit/s.
const SATA_PORT_BYTES_PER_S: u64 = 550_000_000;
/// Rate of 4 lanes of SAS at 12 Gbit/s.
const SAS_BYTES_PER_S: u64 = 4_400_000_000;

/// The link that a disk shares with others, by its place. A port of SATA or SAS is one if several
/// disks are behind it.
pub(super) fn shared_link(sysroot: &Sysroot, disk: &BlockDevice) -> Option<SharedLink> {
    let folder = disk.folder();
    let numbered = |prefix: &'static str| {
        let is_it =
            |name: &&str| name.strip_prefix(prefix).is_some_and(|rest| rest.parse::<u32>().is_ok());
        folder.split('/').find(is_it)
    };
    if let Some(bus) = numbered("usb") {
        let (above, _) = folder.split_once(&format!("/{bus}/"))?;
        let stated = sysroot.number(&format!("{above}/{bus}/speed"));
        let speed = stated.unwrap_or(USB_SPEED_ASSUMED);
        let (_, bytes_per_s) = USB_RATES.iter().rfind(|(least, _)| *least <= speed)?;
        let assumed = if stated.is_none() { ", assumed" } else { "" };
        let reason = format!("bus of USB at {speed} Mbit/s{assumed}");
        return Some(SharedLink { name: bus.to_owned(), bytes_per_s: *bytes_per_s, reason });
    }
    if folder.contains("/expander-") {
        let port = folder.split('/').find(|name| name.starts_with("port-"))?;
        let reason = "port of SAS with an expander, assumed at 4 lanes of 12 Gbit/s".to_owned();
        return Some(SharedLink { name: port.to_owned(), bytes_per_s: SAS_BYTES_PER_S, reason });
    }
    let port = numbered("ata")?;
    let reason = "port of SATA with a port multiplier, assumed at 6 Gbit/s".to_owned();
    Some(SharedLink { name: port.to_owned(), bytes_per_s: SATA_PORT_BYTES_PER_S, reason })
}

/// Leaves the links that members share, and gives members on one disk its rate together.
pub(super) fn settle_links(members: &mut [DetectedMember]) {
    let disk = |member: &DetectedMember| member.disk.as_ref().map(|disk| disk.name.clone());
    let disks: Vec<Option<String>> = members.iter().map(disk).collect();
    let ports: Vec<Option<String>> =
        members.iter().map(|member| member.link.as_ref().map(|link| link.name.clone())).collect();
    for (index, member) in members.iter_mut().enumerate() {
        let Some(own) = &disks[index] else { continue };
        let others = || (0..disks.len()).filter(move |&other| other != index);
        let is_port = |link: &SharedLink| !link.name.starts_with("usb");
        let has_other_disk =
            others().any(|other| ports[other] == ports[index] && disks[other] != disks[index]);
        if member.link.as_ref().is_some_and(is_port) && !has_other_disk {
            member.link = None;
        }
        // Of a member on several disks, the others are not known.
        let is_one = !member.is_on_several;
        if is_one && member.link.is_none() && others().any(|other| disks[other] == disks[index]) {
            let reason = "one disk with several members".to_owned();
            let bytes_per_s = rate_of_disk(&member.model.profile);
            member.link =
                bytes_per_s.map(|rate| SharedLink { name: own.clone(), bytes_per_s: rate, reason });
        }
    }
}

/// The rate of one stream of a disk at its fastest place.
fn rate_of_disk(profile: &str) -> Option<u64> {
    let profile = ModelProfile::builtin(profile).ok()?;
    let rate = |name: &str| {
        let text = profile.parameter_table().get(name)?.as_str()?;
        parse_bytes(text.strip_suffix("/s")?).ok()
    };
    ["outer_rate", "link"].iter().find_map(|name| rate(name))
}

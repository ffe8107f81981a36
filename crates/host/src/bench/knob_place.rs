//! Where a knob of a journal is now.
//!
//! Paths of md and NVMe have names that the kernel gives in the order in which it finds devices.
//! After a restart `md0` may be `md127`, and `sda` the other disk of a mirror. So the array is
//! found by what identifies it, and the member by what identifies that.

use super::knob::Knob;
use super::knob_path::KnobPath;
use crate::detect::{
    DetectedArray, Identifiers, Sysroot, array_identifiers, detect_at, find_md, md_members,
    member_identities, nvme_identifiers,
};
use mirrorball_core::diagnostic::Diagnostic;

const NVME_SUBSYSTEMS: &str = "/sys/class/nvme-subsystem/";

/// The parts of the path of a knob of md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MdPath<'a> {
    pub(crate) array: &'a str,
    pub(crate) member: Option<&'a str>,
    file: &'a str,
}

impl<'a> MdPath<'a> {
    /// The parts; `None` for a path of another system.
    pub(crate) fn of(path: &'a str) -> Option<MdPath<'a>> {
        let (array, rest) = path.strip_prefix("/sys/block/")?.split_once("/md/")?;
        let of_member = rest.strip_prefix("dev-").and_then(|rest| rest.split_once('/'));
        Some(match of_member {
            Some((member, file)) => MdPath { array, member: Some(member), file },
            None => MdPath { array, member: None, file: rest },
        })
    }
}

/// Why a knob is not found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum KnobLoss {
    /// The array or the member is not there; with what to do.
    NotThere(String),
    /// The array is complete without the member that had it.
    MemberReplaced,
}

impl KnobLoss {
    /// The loss of a member of which the array has these others.
    fn of_member(
        reason: String,
        is_complete: bool,
        wanted: &Identifiers,
        members: &[Identifiers],
    ) -> KnobLoss {
        // One of which only the place can be read may be the member.
        let are_others = members.iter().all(|found| wanted.is_surely_another(found));
        match is_complete && are_others {
            true => KnobLoss::MemberReplaced,
            false => KnobLoss::NotThere(reason),
        }
    }
}

/// A knob of the array with this identity, and of the member with that one if it is of a member, at
/// its present path. Fails if the array or the member is not there; with what to do.
pub(crate) fn locate(
    sysroot: &Sysroot,
    identity: &Identifiers,
    knob: &Knob,
    of_member: &Identifiers,
) -> Result<Knob, KnobLoss> {
    let at = |path: String| Knob { path, kind: knob.kind };
    if let Some(path) = MdPath::of(&knob.path) {
        let Some(array) = find_md(sysroot, identity, path.array) else {
            return Err(KnobLoss::NotThere(format!(
                "the array that was {} ({identity}) is not there: assemble it",
                path.array
            )));
        };
        let Some(was) = path.member else {
            return Ok(at(format!("/sys/block/{array}/md/{}", path.file)));
        };
        let members = md_members(sysroot, &array);
        let is_it = |(_, found): &&(String, Identifiers)| of_member.matches(found) == Some(true);
        let Some((member, _)) = members.iter().find(is_it) else {
            let reason = format!(
                "the member of {array} that was {was} ({of_member}) is not in the array: add it \
                 again"
            );
            let degraded = sysroot.number(&format!("/sys/block/{array}/md/degraded"));
            let found: Vec<Identifiers> = members.into_iter().map(|(_, found)| found).collect();
            return Err(KnobLoss::of_member(reason, degraded == Some(0), of_member, &found));
        };
        return Ok(at(format!("/sys/block/{array}/md/dev-{member}/{}", path.file)));
    }
    if let Some(
        place @ (KnobPath::LvmFlag { volume: name, device }
        | KnobPath::ZpoolScheduler { pool: name, device }),
    ) = KnobPath::of(&knob.path)
    {
        let device = device_now(sysroot, identity, name, device, of_member)?;
        return Ok(at(place.at_device(&device).unwrap_or_else(|| knob.path.clone())));
    }
    let subsystem = knob.path.strip_prefix(NVME_SUBSYSTEMS);
    if let Some((was, file)) = subsystem.and_then(|rest| rest.split_once('/')) {
        // The kernel numbers subsystems in the order in which it finds them.
        let mut names = sysroot.names(NVME_SUBSYSTEMS);
        names.sort_by_key(|name| name != was);
        let is_it =
            |name: &String| identity.matches(&nvme_identifiers(sysroot, name)) == Some(true);
        let Some(name) = names.into_iter().find(is_it) else {
            let reason = format!("the subsystem that was {was} ({identity}) is not there");
            return Err(KnobLoss::NotThere(reason));
        };
        return Ok(at(format!("{NVME_SUBSYSTEMS}{name}/{file}")));
    }
    // The path of a knob of btrfs has the UUID, and the module of ZFS is one.
    Ok(knob.clone())
}

/// The path of the device of an array of LVM or ZFS that was `was`.
fn device_now(
    sysroot: &Sysroot,
    identity: &Identifiers,
    name: &str,
    was: &str,
    of_member: &Identifiers,
) -> Result<String, KnobLoss> {
    let gone =
        || KnobLoss::NotThere(format!("{name} ({identity}) is not there: activate or import it"));
    let array = detect_at(sysroot, name).map_err(|_| gone())?;
    if identity.matches(&array_identifiers(sysroot, &array)) != Some(true) {
        return Err(gone());
    }
    let identities = member_identities(sysroot, &array);
    let mut members = array.members.iter().zip(&identities);
    let member = members.find(|(_, found)| of_member.matches(found) == Some(true));
    let device = member.and_then(|(member, _)| member.device.clone());
    device.ok_or_else(|| {
        let reason = format!("the device of {name} that was {was} ({of_member}) is not in it");
        KnobLoss::of_member(reason, !array.condition.degraded, of_member, &identities)
    })
}

/// Identity of the member that a knob belongs to; nothing for a knob of the array. Fails if nothing
/// tells the member from the others.
pub(crate) fn identity_of_member(
    sysroot: &Sysroot,
    array: &DetectedArray,
    knob: &Knob,
) -> Result<Identifiers, Diagnostic> {
    let unknown = |name: &str| {
        let what = format!(
            "nothing tells the member {name} of {} from the others, so that its flag could not be \
             restored",
            array.name
        );
        Diagnostic::new(what).with_help("use the setting in force")
    };
    let found = match (MdPath::of(&knob.path), KnobPath::of(&knob.path)) {
        (Some(MdPath { member: Some(name), .. }), _) => {
            let members = md_members(sysroot, &array.name).into_iter();
            let found = members.clone().find(|(member, _)| member == name);
            (name, found.map(|(_, identity)| identity))
        }
        (_, Some(KnobPath::LvmFlag { device, .. } | KnobPath::ZpoolScheduler { device, .. })) => {
            let mut members = array.members.iter();
            let place = members.position(|member| member.device.as_deref() == Some(device));
            let mut identities = member_identities(sysroot, array);
            (device, place.map(|place| identities.swap_remove(place)))
        }
        _ => return Ok(Identifiers::default()),
    };
    match found {
        (_, Some(identity)) if identity.surest().is_some() => Ok(identity),
        (name, _) => Err(unknown(name)),
    }
}

#[cfg(test)]
mod tests {
    use super::MdPath;

    #[test]
    fn a_path_of_md_has_an_array_and_perhaps_a_member() {
        let of = |path| MdPath::of(path).map(|it| (it.array, it.member, it.file));
        let state = "/sys/block/md0/md/dev-sda/state";
        assert_eq!(of(state), Some(("md0", Some("sda"), "state")));
        assert_eq!(of("/sys/block/md/1/md/sync_min"), Some(("md/1", None, "sync_min")));
        assert_eq!(of("/sys/fs/btrfs/F/read_policy"), None);
    }
}

//! The settings among which `tune --auto` chooses: each keeps reads away from some members.
//!
//! | system | alternatives |
//! |---|---|
//! | md raid1, LVM raid1 | every set of write-mostly members but all of them |
//! | btrfs of two devices, where the kernel has `devid` | the other device |
//! | ZFS, hard disks and others in a mirror | the increments that leave hard disks to the last |
//!
//! The usual setting is what is in force when the service starts.

use crate::bench::arms::ArmSet;
use crate::bench::knob::{Knob, KnobKind};
use crate::bench::knob_path::KnobPath;
use crate::bench::request::description;
use crate::detect::{DetectedArray, DetectedMember, StorageSystem, Sysroot};
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_health::control::{ChangeCost, ReadSetting};

/// Members of which all sets are offered at most: as many alternatives as there are sets.
const MEMBERS_MAX: usize = 6;
/// The setting of ZFS that reads hard disks last.
const ZFS_FLASH_FIRST: &str = "zfs/mirror:100:0:100";

/// The alternatives of an array: what they avoid, and the value of each knob.
#[derive(Clone, Debug)]
pub(super) struct AlternativeSet {
    pub(super) knobs: Vec<Knob>,
    /// The text of each knob under the usual setting.
    pub(super) shown: Vec<String>,
    /// The alternatives, the usual one first, each with its values.
    pub(super) all: Vec<(ReadSetting, Vec<String>)>,
    pub(super) cost: ChangeCost,
}

/// The alternatives of an array whose setting `now` is in force. Fails if the system has no setting
/// that keeps reads away from a member.
pub(super) fn alternatives(
    sysroot: &Sysroot,
    array: &DetectedArray,
    now: &str,
) -> Result<AlternativeSet, Diagnostic> {
    let members = &array.members;
    let set = match array.system {
        StorageSystem::Md => flags(sysroot, array, now, ["off", "on"], |member| {
            let name = member.kernel_name.as_deref()?;
            Some(format!("/sys/block/{}/md/dev-{name}/state", array.name))
        }),
        StorageSystem::Lvm if now.starts_with("md/raid1") && !now.starts_with("md/raid10") => {
            flags(sysroot, array, now, ["n", "y"], |member| {
                Some(KnobPath::lvm(&array.name, member.device.as_deref()?))
            })
        }
        StorageSystem::Btrfs if members.len() == 2 => devids(sysroot, array, now),
        StorageSystem::Zfs => increments(sysroot, array, now)?,
        _ => None,
    };
    set.filter(|set| set.all.len() > 1).ok_or_else(|| {
        let what = format!(
            "{} has no setting that keeps reads away from one of its members, and can be undone",
            array.name
        );
        let help = "--auto needs md raid1 or LVM raid1; btrfs of two devices with \
                    CONFIG_BTRFS_EXPERIMENTAL; or ZFS with hard disks and others in a mirror";
        Diagnostic::new(what).with_help(help)
    })
}

/// Every set of flagged members but that of all.
fn flags(
    sysroot: &Sysroot,
    array: &DetectedArray,
    now: &str,
    [off, on]: [&str; 2],
    path: impl Fn(&DetectedMember) -> Option<String>,
) -> Option<AlternativeSet> {
    let count = array.members.len();
    if count > MEMBERS_MAX {
        return None;
    }
    let paths: Option<Vec<String>> = array.members.iter().map(path).collect();
    let found = paths?.into_iter().map(|path| {
        KnobPath::of(&path)?;
        Knob::found(sysroot, &path)
    });
    let (knobs, shown): (Vec<Knob>, Vec<String>) =
        found.collect::<Option<Vec<_>>>()?.into_iter().unzip();
    let usual: Vec<bool> = array.members.iter().map(|member| member.write_mostly).collect();
    let bare = now.split('+').next().unwrap_or_default();
    let alternative = |set: usize| {
        let avoids: Vec<bool> = (0..count).map(|member| set >> member & 1 == 1).collect();
        let marked = array.members.iter().zip(&avoids).filter(|(_, avoided)| **avoided);
        let marks = marked.map(|(member, _)| format!("+write-mostly:{}", member.devid));
        let spec = format!("{bare}{}", marks.collect::<String>());
        let values = avoids.iter().map(|avoided| if *avoided { on } else { off });
        let values = values.map(str::to_owned).collect();
        (ReadSetting { spec, avoids }, values)
    };
    let mut all: Vec<(ReadSetting, Vec<String>)> = (0..(1 << count) - 1).map(alternative).collect();
    all.sort_by_key(|(alternative, _)| alternative.avoids != usual);
    Some(AlternativeSet { knobs, shown, all, cost: ChangeCost::Suspends })
}

/// The usual setting, and each device of two alone.
fn devids(sysroot: &Sysroot, array: &DetectedArray, now: &str) -> Option<AlternativeSet> {
    let has_devid = array.policy.offered.iter().any(|it| it.split(':').next() == Some("devid"));
    let path = format!("/sys/fs/btrfs/{}/read_policy", array.id.as_deref()?);
    KnobPath::of(&path).filter(|_| has_devid)?;
    let (knob, shown) = Knob::found(sysroot, &path)?;
    let devids = [array.members[0].devid, array.members[1].devid];
    let avoids_now = |avoided: usize| now == format!("btrfs/devid:{}", devids[1 - avoided]);
    let usual = ReadSetting { spec: now.to_owned(), avoids: (0..2).map(avoids_now).collect() };
    let alone = |avoided: usize| {
        let devid = devids[1 - avoided];
        let spec = format!("btrfs/devid:{devid}");
        let avoids = (0..2).map(|member| member == avoided).collect();
        (ReadSetting { spec, avoids }, vec![format!("devid:{devid}")])
    };
    let mut all = vec![(usual, vec![knob.kind.value(&shown)])];
    all.extend((0..2).map(alone).filter(|(it, _)| it.spec != now));
    Some(AlternativeSet { knobs: vec![knob], shown: vec![shown], all, cost: ChangeCost::Free })
}

/// The usual increments, and those that leave hard disks to the last.
fn increments(
    sysroot: &Sysroot,
    array: &DetectedArray,
    now: &str,
) -> Result<Option<AlternativeSet>, Diagnostic> {
    let rotates = |member: &DetectedMember| {
        member.disk.as_ref().is_some_and(|disk| disk.rotational == Some(true))
    };
    let avoids: Vec<bool> = array.members.iter().map(rotates).collect();
    let (described, _) = description(array)?;
    let set = ArmSet::new(sysroot, array, &described.spec, Some(ZFS_FLASH_FIRST));
    let Ok(set) = set else { return Ok(None) };
    let is_known = set.knobs.iter().all(|knob| knob.kind == KnobKind::Plain);
    let shown: Option<Vec<String>> = set.knobs.iter().map(|knob| knob.raw(sysroot)).collect();
    let (Some(shown), [arm]) = (shown.filter(|_| is_known), set.arms.as_slice()) else {
        return Ok(None);
    };
    let usual_avoids = vec![false; avoids.len()];
    let usual = ReadSetting { spec: now.to_owned(), avoids: usual_avoids };
    let other = ReadSetting { spec: arm.spec.clone(), avoids };
    let mut all = vec![(usual, set.in_force.clone())];
    let is_choice =
        arm.spec != now && other.avoids.contains(&true) && other.avoids.contains(&false);
    all.extend(is_choice.then(|| (other, arm.values.clone())));
    Ok(Some(AlternativeSet { knobs: set.knobs, shown, all, cost: ChangeCost::Free }))
}

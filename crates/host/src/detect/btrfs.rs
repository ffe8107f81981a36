//! btrfs: `/sys/fs/btrfs/FSID` of a mounted file system.
//!
//! The folder `devices` has the devices and `devinfo` the devids, but neither says which belongs to
//! which: an ioctl does, on this machine, and `btrfs filesystem show` in a recorded copy.

mod counts;
mod work;

use super::array::{
    DetectError, DetectedArray, DetectedLimit, DetectedMember, DetectedPolicy, StorageSystem,
};
use super::block::BlockDevice;
use super::btrfs_device::{BtrfsDevice, parse_show};
use super::disk::bracketed;
use super::live;
use super::members::{
    complete, is_kernel_since, kernel_release, no_mirror, notes_on, read_member, unreadable,
};
use super::mounts::{MountEntry, mounts};
use super::pasted::MADE_UP_FSID;
use super::stack::StackLayer;
use super::sysroot::{Sysroot, base_name};
use super::tools::BTRFS_SHOW;
use mirrorball_core::geometry::Profile;
use mirrorball_core::policies::Spec;
use mirrorball_core::units::TIB;

const FOLDER: &str = "/sys/fs/btrfs";

pub(super) struct Btrfs<'a> {
    sysroot: &'a Sysroot,
    fsid: String,
}

impl<'a> Btrfs<'a> {
    pub(super) fn all(sysroot: &'a Sysroot) -> Vec<Btrfs<'a>> {
        let fsids = sysroot.names(FOLDER).into_iter().filter(|name| name.contains('-'));
        fsids.map(|fsid| Btrfs { sysroot, fsid }).collect()
    }

    pub(super) fn find(sysroot: &'a Sysroot, name: &str) -> Option<Btrfs<'a>> {
        let device = BlockDevice::by_path(sysroot, name);
        Btrfs::all(sysroot).into_iter().find(|btrfs| {
            let has_device = |device: &BlockDevice| btrfs.device_names().contains(&device.name);
            btrfs.fsid == name || device.as_ref().is_some_and(has_device)
        })
    }

    /// Those with this label, which is not unique.
    pub(super) fn labelled(sysroot: &'a Sysroot, label: &str) -> Vec<Btrfs<'a>> {
        let mut all = Btrfs::all(sysroot);
        all.retain(|btrfs| btrfs.text("label").is_some_and(|text| text == label));
        all
    }

    /// UUID, and where it is mounted, in words.
    pub(super) fn described(&self) -> String {
        let mount = self.mount().map(|mount| format!(" at {}", mount.point));
        format!("the btrfs with the UUID {}{}", self.fsid, mount.unwrap_or_default())
    }

    fn text(&self, file: &str) -> Option<String> {
        self.sysroot.text(&self.path(file))
    }

    fn path(&self, file: &str) -> String {
        format!("{FOLDER}/{}/{file}", self.fsid)
    }

    fn device_names(&self) -> Vec<String> {
        self.sysroot.names(&self.path("devices"))
    }

    fn devids(&self) -> Vec<u64> {
        let names = self.sysroot.names(&self.path("devinfo"));
        names.iter().filter_map(|name| name.parse().ok()).collect()
    }

    fn flag(&self, devid: u64, file: &str) -> bool {
        self.sysroot.flag(&self.path(&format!("devinfo/{devid}/{file}"))).unwrap_or(false)
    }

    /// The only device of a btrfs that has just one: an array may be below it.
    pub(super) fn only_device(&self) -> Option<BlockDevice> {
        match self.device_names().as_slice() {
            [name] if self.devids().len() <= 1 => BlockDevice::by_name(self.sysroot, name),
            _ => None,
        }
    }

    pub(super) fn layer(&self) -> StackLayer {
        StackLayer::plain(self.name(), "btrfs on one device")
    }

    /// Label, else its UUID.
    fn name(&self) -> String {
        self.text("label").unwrap_or_else(|| self.fsid.clone())
    }

    /// Describes it as an array. Fails if its data have no copies, or its devices cannot be read.
    pub(super) fn array(&self) -> Result<DetectedArray, DetectError> {
        let mut notes = Vec::new();
        let profile = self.profile(&mut notes)?;
        let mount = self.mount();
        let mut not_known = Vec::new();
        let mut members = self.members(mount.as_ref(), &mut notes, &mut not_known)?;
        let mut condition = self.condition(mount.as_ref(), &members, &mut notes);
        let space = self.space(&members, profile);
        let empty = leave_out_empty(&mut members, mount.as_ref(), &mut notes);
        let remarks = [space, empty].into_iter().flatten();
        condition.remark = remarks.reduce(|all, remark| format!("{all}; {remark}"));
        let known = Profile::ALL.into_iter().find(|it| it.name() == profile);
        if known.is_some_and(|it| members.len() < it.rules().members_min) {
            let what = format!("btrfs {}: {profile} on {} devices", self.name(), members.len());
            return Err(unreadable(what, "some of its devices are not listed"));
        }
        notes.extend(self.with_one_copy(&members, profile));
        complete(&mut members);
        notes.extend(notes_on(&members));
        let mut policy = self.policy();
        if let Some(devid) = policy.text.as_deref().and_then(preferred_devid)
            && members.iter().all(|member| member.devid != devid)
        {
            notes.push(format!("the policy reads from devid {devid}, which is no member"));
            not_known.push("the read policy");
            policy.spec = None;
        }
        if policy.spec.is_none() && policy.text.is_none() {
            notes.push("`read_policy` cannot be read: taken for the default".to_owned());
            not_known.push("the read policy");
        }
        Ok(DetectedArray {
            system: StorageSystem::Btrfs,
            version: kernel_release(self.sysroot),
            name: self.name(),
            id: Some(self.fsid.clone()).filter(|it| !it.starts_with(MADE_UP_FSID)),
            profile,
            layout: None,
            mount: mount.map(|mount| mount.point),
            read_ahead_kb: self.sysroot.number(&self.path("bdi/read_ahead_kb")),
            limit: self.limit(),
            policy,
            members,
            condition,
            stack: vec![StackLayer::mirrored(self.name(), format!("btrfs {profile}"))],
            notes,
            not_known,
        })
    }

    /// The profiles of one kind of chunks, that with most data first: the folders in
    /// `allocation/KIND`.
    fn profiles(&self, kind: &str) -> Vec<String> {
        let folder = self.path(&format!("allocation/{kind}"));
        let bytes = |name: &String| {
            let number = |file: &str| self.sysroot.number(&format!("{folder}/{name}/{file}"));
            (number("used_bytes"), number("total_bytes"))
        };
        let mut written = self.sysroot.names(&folder);
        written.retain(|name| self.sysroot.exists(&format!("{folder}/{name}/total_bytes")));
        written.sort_by_key(|name| std::cmp::Reverse(bytes(name)));
        written
    }

    /// The profile of the data; that of the metadata if only these have copies.
    fn profile(&self, notes: &mut Vec<String>) -> Result<&'static str, DetectError> {
        let fsid = &self.fsid;
        let of_data = self.profiles("data");
        let Some(first) = of_data.first() else {
            let what = format!("btrfs {fsid} does not show the profile of its data");
            return Err(unreadable(what, "if it is being mounted or unmounted, try again later"));
        };
        if of_data.len() > 1 {
            notes.push(format!(
                "the data have several profiles ({}), as in an unfinished convert: the largest \
                 is used",
                of_data.join(", ")
            ));
        }
        let with_copies = |name: &String| {
            let known = Profile::ALL.into_iter().find(|profile| profile.name() == name);
            known.filter(|profile| profile.copies() > 1).map(Profile::name)
        };
        let of_metadata = self.profiles("metadata");
        let metadata = of_metadata.first();
        match (with_copies(first), metadata.and_then(with_copies)) {
            (Some(profile), metadata) => {
                let other = metadata.filter(|metadata| *metadata != profile);
                notes.extend(other.map(|other| format!("the metadata are {other}")));
                Ok(profile)
            }
            (None, Some(metadata)) => {
                notes.push(format!(
                    "the data are {first}, without copies to choose among: this describes the \
                     metadata, which are {metadata}"
                ));
                notes.push("a scrub reads the data, too, so it takes longer".to_owned());
                Ok(metadata)
            }
            (None, None) => Err(no_mirror(
                format!("the data of btrfs {} have the profile `{first}`", self.name()),
                "read policies choose among copies on several devices: raid1, raid1c3, raid1c4 \
                 or raid10",
            )),
        }
    }

    /// How much of the data has fewer copies than it should, while members are missing.
    fn with_one_copy(&self, members: &[DetectedMember], profile: &str) -> Option<String> {
        members.iter().find(|member| member.is_failed)?;
        let text = self.sysroot.tool(&BTRFS_SHOW).ok()?;
        let held: u64 = members.iter().filter_map(|member| member.used_bytes).sum();
        let mut lines = text.lines().skip_while(|line| !line.contains(&self.fsid));
        let total: u64 =
            lines.find_map(|line| line.split_once("bytes used ")?.1.trim().parse().ok())?;
        let copies = Profile::ALL.into_iter().find(|it| it.name() == profile)?.copies() as u64;
        let lost = total.checked_mul(copies)?.checked_sub(held).filter(|lost| *lost > 0)?;
        let left = copies - 1;
        let s = if left == 1 { "y" } else { "ies" };
        let tib = lost as f64 / TIB as f64;
        Some(format!(
            "about {tib:.1} TiB of the data have {left} cop{s} left, until the missing device is \
             replaced"
        ))
    }

    /// Where it is mounted: the first mount of one of its devices.
    pub(super) fn mount(&self) -> Option<MountEntry> {
        let names = self.device_names();
        let is_ours = |mount: &MountEntry| {
            let device = BlockDevice::by_path(self.sysroot, &mount.source);
            mount.kind == "btrfs" && device.is_some_and(|device| names.contains(&device.name))
        };
        mounts(self.sysroot).into_iter().find(is_ours)
    }

    fn members(
        &self,
        mount: Option<&MountEntry>,
        notes: &mut Vec<String>,
        not_known: &mut Vec<&'static str>,
    ) -> Result<Vec<DetectedMember>, DetectError> {
        let known = self.devices(mount, notes).unwrap_or_else(|assumed| {
            not_known.push("which device has which devid");
            assumed
        });
        let mut devids = self.devids();
        if devids.is_empty() {
            // Before Linux 5.6 there is no `devinfo`.
            devids = known.iter().map(|device| device.devid).collect();
        }
        let mut members = Vec::new();
        for devid in devids {
            if self.flag(devid, "replace_target") {
                notes.push(format!("devid {devid} is the target of a replace: not a member yet"));
                continue;
            }
            let is_missing = self.flag(devid, "missing");
            let found = known.iter().find(|device| device.devid == devid);
            let name = found.filter(|_| !is_missing).map(|device| self.kernel_name(&device.path));
            let device = name.and_then(|name| BlockDevice::by_name(self.sysroot, &name));
            let mut member = read_member(self.sysroot, devid, device.as_ref());
            if let Some(bytes) = found.map(|device| device.total_bytes).filter(|bytes| *bytes > 0) {
                member.size_bytes = Some(bytes);
            }
            member.used_bytes = found.filter(|_| !is_missing).and_then(|device| device.used_bytes);
            member.errors = self.errors(devid);
            if device.is_none() && !is_missing {
                notes.push(format!("the device of devid {devid} is not known"));
                member.state = "device not known".to_owned();
                member.is_failed = false;
            }
            members.push(member);
        }
        match members.iter().any(|member| member.disk.is_some()) {
            true => Ok(members),
            false => {
                let what = format!("no device of btrfs {} can be read", self.fsid);
                Err(unreadable(what, "if it is being mounted or unmounted, try again later"))
            }
        }
    }

    /// The limit on a scrub: the least that a device has.
    fn limit(&self) -> Option<DetectedLimit> {
        let of =
            |devid| self.sysroot.number(&self.path(&format!("devinfo/{devid}/scrub_speed_max")));
        let set = self.devids().into_iter().filter_map(of).filter(|bytes| *bytes >= 1024);
        Some(DetectedLimit { kib: set.min()? / 1024, is_own: true })
    }

    /// Which device has which devid. Fails if it cannot be read; with what is assumed.
    fn devices(
        &self,
        mount: Option<&MountEntry>,
        notes: &mut Vec<String>,
    ) -> Result<Vec<BtrfsDevice>, Vec<BtrfsDevice>> {
        let found = match mount {
            Some(mount) if self.sysroot.is_live() => {
                let folder = self.sysroot.host_path(&mount.point);
                live::btrfs_devices(&folder).map_err(|error| {
                    format!("cannot ask btrfs for its devices at {}: {error}", mount.point)
                })
            }
            _ => self.sysroot.tool(&BTRFS_SHOW).map(|text| parse_show(&text, &self.fsid)),
        };
        match found {
            Ok(devices) if !devices.is_empty() => return Ok(devices),
            Ok(_) => notes.push("`btrfs filesystem show` does not list the file system".to_owned()),
            Err(reason) => notes.push(reason),
        }
        let present = |devid: &u64| !self.flag(*devid, "missing");
        let devids: Vec<u64> = self.devids().into_iter().filter(present).collect();
        notes.push(
            "which device has which devid is not known: assumed in the order of their names"
                .to_owned(),
        );
        let device =
            |(devid, name)| BtrfsDevice { devid, total_bytes: 0, used_bytes: None, path: name };
        Err(devids.into_iter().zip(self.device_names()).map(device).collect())
    }

    /// The kernel's name of a device path: that of the file system's own list, if it is there.
    fn kernel_name(&self, path: &str) -> String {
        let resolved = BlockDevice::by_path(self.sysroot, path).map(|device| device.name);
        resolved.unwrap_or_else(|| base_name(path).to_owned())
    }

    fn policy(&self) -> DetectedPolicy {
        let Some(written) = self.text("read_policy") else {
            // Before Linux 5.11 there is no such file, and no choice.
            let has_file = is_kernel_since(self.sysroot, (5, 11)) != Some(false);
            let spec = (!has_file).then(|| "btrfs/pid".to_owned());
            return DetectedPolicy { spec, ..DetectedPolicy::default() };
        };
        let active = bracketed(&written);
        let offered = written.split_whitespace();
        let offered = offered.map(|word| word.trim_matches(['[', ']']).to_owned()).collect();
        let spec = active.as_deref().and_then(policy_spec);
        DetectedPolicy { text: active, spec, offered, settings: Vec::new() }
    }
}

/// Leaves out members that hold nothing while others do, and names them: no read goes there until a
/// balance.
fn leave_out_empty(
    members: &mut Vec<DetectedMember>,
    mount: Option<&MountEntry>,
    notes: &mut Vec<String>,
) -> Option<String> {
    let is_empty = |member: &DetectedMember| {
        !member.is_failed && member.used_bytes == Some(0) && member.device.is_some()
    };
    let holds = |member: &DetectedMember| member.filled_bytes().is_some();
    if members.iter().filter(|member| holds(member)).count() < 2 {
        return None;
    }
    let empty = members.iter().filter(|member| is_empty(member));
    let named: Vec<String> = empty.map(|member| format!("devid {}", member.devid)).collect();
    let place = mount.map_or("MOUNT-POINT", |mount| mount.point.as_str());
    notes.extend(members.iter().filter(|member| is_empty(member)).map(|member| {
        format!(
            "devid {} ({}) holds nothing: reads and scrubs do not use it, so it is left out; \
             `btrfs balance start --full-balance {place}` spreads the data over it",
            member.devid,
            member.device.as_deref().unwrap_or_default()
        )
    }));
    members.retain(|member| !is_empty(member));
    (!named.is_empty()).then(|| format!("nothing on {}", named.join(" and ")))
}

/// True if a device holds a btrfs, mounted or not, as udev knows or its superblock says.
pub(super) fn is_on(sysroot: &Sysroot, device: &BlockDevice) -> bool {
    /// Place and text of the magic number in the first superblock.
    const MAGIC: (u64, [u8; 8]) = (64 * 1024 + 64, *b"_BHRfS_M");
    let number = sysroot.text(&device.file("dev")).unwrap_or_default();
    let udev = sysroot.raw_text(&format!("/run/udev/data/b{number}")).unwrap_or_default();
    if udev.lines().any(|line| line == "E:ID_FS_TYPE=btrfs") {
        return true;
    }
    sysroot.is_live() && live::has_bytes(&device.device_path(sysroot), MAGIC.0, &MAGIC.1)
}

/// The policy as `compare` takes it.
fn policy_spec(active: &str) -> Option<String> {
    let name = active.split(':').next()?;
    let spec = match name {
        "pid" | "round-robin" | "devid" | "latency" => format!("btrfs/{active}"),
        "queue" | "queue-adaptive" | "latency-rr" => format!("kakra/{name}"),
        _ => return None,
    };
    // The kernel may write a value that the policy cannot have here, as `round-robin:0`.
    Spec::parse(&spec).is_ok().then_some(spec)
}

/// The member that the policy `devid:N` reads from.
fn preferred_devid(active: &str) -> Option<u64> {
    active.strip_prefix("devid:")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_of_the_kernel_have_specs() {
        for (active, spec) in [
            ("pid", Some("btrfs/pid")),
            ("round-robin:262144", Some("btrfs/round-robin:262144")),
            ("devid:2", Some("btrfs/devid:2")),
            ("round-robin:0", None),
            ("queue", Some("kakra/queue")),
            ("other", None),
        ] {
            assert_eq!(policy_spec(active).as_deref(), spec);
        }
    }
}

//! Linux md: the folder `md` of an array in sysfs. Everything is readable without root.

use super::array::{
    ArrayCondition, DetectError, DetectedArray, DetectedLimit, DetectedMember, DetectedPolicy,
    StorageSystem,
};
use super::block::BlockDevice;
use super::members::{
    COPIES_HELP, complete, counted_errors, kernel_release, mount_point, notes_on, percent,
    read_member, unreadable,
};
use super::stack::StackLayer;
use super::sysroot::Sysroot;
use mirrorball_core::geometry::{ArrayLayout, LayoutError, Profile};

/// Advice if a file of an array cannot be read.
const STOPPING: &str = "if the array is being started or stopped, try again later";
/// Most members that are read, as md allows with version 1 metadata.
const MEMBERS_MAX: u64 = 1920;

/// An md array of level raid1 or raid10.
pub(super) struct Md<'a> {
    sysroot: &'a Sysroot,
    device: BlockDevice,
    level: String,
}

/// How raid10 places copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Raid10Layout {
    pub(super) near: u64,
    pub(super) far: u64,
    pub(super) is_offset: bool,
}

impl Raid10Layout {
    /// From the number in the superblock: near copies, 256 times far copies, and a bit for
    /// `offset`.
    pub(super) fn from_number(number: u64) -> Raid10Layout {
        Raid10Layout {
            near: (number & 0xff).max(1),
            far: ((number >> 8) & 0xff).max(1),
            is_offset: number & 0x1_0000 != 0,
        }
    }

    pub(super) fn copies(self) -> u64 {
        self.near * self.far
    }

    /// `near`, `far` or `offset`.
    pub(super) fn kind(self) -> &'static str {
        match self {
            Raid10Layout { far: 1, .. } => "near",
            Raid10Layout { is_offset: true, .. } => "offset",
            Raid10Layout { .. } => "far",
        }
    }

    /// As array files have it. Fails if array files do not have it for this many members; with the
    /// reason.
    pub(super) fn array_layout(
        self,
        members: usize,
        chunk_bytes: Option<u64>,
    ) -> Result<ArrayLayout, String> {
        if self.near > 1 && self.far > 1 {
            let Raid10Layout { near, far, .. } = self;
            return Err(format!("{near} near and {far} far copies at once are not modelled"));
        }
        let name = format!("md-raid10-{}:{}", self.kind(), self.copies());
        let mut layout: ArrayLayout = name.parse().map_err(|error: LayoutError| error.message)?;
        if let Some(bytes) = chunk_bytes {
            layout = layout.with_chunk(bytes).map_err(|error| error.message)?;
        }
        layout.check_members(members).map_err(|error| error.diagnostic().message)?;
        Ok(layout)
    }
}

/// The layout of this name, which is one of the table.
pub(super) fn fixed_layout(name: &str) -> ArrayLayout {
    name.parse().expect("the layout is in the table")
}

/// The profile of an array with a layout other than that of btrfs.
pub(super) fn profile_of_layout(layout: ArrayLayout, members: usize) -> &'static str {
    layout.profile(members).map_or("raid1", Profile::name)
}

impl<'a> Md<'a> {
    /// The array on this device, if it is one that mirrors.
    pub(super) fn at(sysroot: &'a Sysroot, device: &BlockDevice) -> Option<Md<'a>> {
        let level = device.md_level(sysroot)?;
        let is_mirrored = level == "raid1" || level == "raid10";
        let md = Md { sysroot, device: device.clone(), level };
        // A raid1 may have one slot.
        (is_mirrored && md.number("raid_disks") != Some(1)).then_some(md)
    }

    fn text(&self, file: &str) -> Option<String> {
        self.sysroot.text(&self.device.file(&format!("md/{file}")))
    }

    fn number(&self, file: &str) -> Option<u64> {
        self.sysroot.number(&self.device.file(&format!("md/{file}")))
    }

    /// Describes it. Fails if the number of its members, or its layout, cannot be read or has no
    /// profile.
    pub(super) fn array(&self) -> Result<DetectedArray, DetectError> {
        let name = &self.device.name.replace('!', "/");
        let Some(slots) = self.number("raid_disks").filter(|slots| *slots <= MEMBERS_MAX) else {
            let what = format!("{name}: cannot read the number of its members (md/raid_disks)");
            return Err(unreadable(what, STOPPING));
        };
        let mut notes = Vec::new();
        if self.text("raid_disks").is_some_and(|text| text.contains('(')) {
            notes.push("the array is being reshaped: the new shape is described".to_owned());
        }
        let mut members = self.members(slots, &mut notes);
        let bays = self.leave_out_empty_bays(&mut members, &mut notes);
        if members.iter().all(|member| member.disk.is_none()) {
            let what = format!("{name}: none of its {slots} members can be read");
            let pasted = "paste the output of `cat /proc/mdstat`, which names them";
            return Err(unreadable(what, if self.sysroot.is_pasted() { pasted } else { STOPPING }));
        }
        let condition = self.condition(&members, bays);
        let empty = members.iter().filter(|member| member.device.is_none()).count();
        if empty > 0 && self.number("degraded") == Some(0) {
            // Members came or went while they were read.
            let what = format!(
                "{name}: the devices of {empty} of its members cannot be read, but it is complete \
                 (md/degraded)"
            );
            return Err(unreadable(what, "try again: its devices may be changing"));
        }
        let layout = self.layout(members.len())?;
        complete(&mut members);
        notes.extend(notes_on(&members));
        notes.extend(copies_on_one_disk(layout, &members));
        notes.extend(self.short_read_ahead());
        if self.text("bitmap_type").is_some_and(|types| types.contains("[llbitmap]")) {
            notes.push(
                "its bitmap is an llbitmap: a resync covers only what was written".to_owned(),
            );
        }
        let is_raid10 = self.level == "raid10";
        let is_flagged = members.iter().any(|member| member.write_mostly);
        if is_raid10 && is_flagged {
            notes.push("write-mostly has no effect on the reads of a raid10".to_owned());
        }
        let mut array = DetectedArray {
            system: if is_raid10 { StorageSystem::MdRaid10 } else { StorageSystem::Md },
            version: kernel_release(self.sysroot),
            name: name.clone(),
            id: None,
            profile: profile_of_layout(layout, members.len()),
            layout: Some(layout),
            mount: mount_point(self.sysroot, &self.device),
            read_ahead_kb: self.sysroot.number(&self.device.file("queue/read_ahead_kb")),
            limit: self.limit(&mut notes),
            policy: self.policy(&members, &mut notes),
            members,
            condition,
            stack: vec![StackLayer::mirrored(
                self.device.device_path(self.sysroot),
                format!("md {}", self.level),
            )],
            notes,
            not_known: Vec::new(),
        };
        self.note_unread(&mut array);
        Ok(array)
    }

    /// Notes which files of its state cannot be read.
    fn note_unread(&self, array: &mut DetectedArray) {
        let is_unread = |member: &&DetectedMember| !member.is_failed && member.state.is_empty();
        let unread = array.members.iter().filter(is_unread);
        let unread: Vec<String> = unread.filter_map(|member| member.kernel_name.clone()).collect();
        if !unread.is_empty() {
            for member in array.members.iter_mut().filter(|it| it.state.is_empty()) {
                "not known".clone_into(&mut member.state);
            }
            let note = format!(
                "the state of {} cannot be read: taken for in sync and not write-mostly",
                unread.join(", ")
            );
            array.add_not_known("the state of a member", note);
            // The flags of members are part of it.
            (array.policy.spec, array.policy.text) = (None, None);
        }
        if self.text("sync_action").is_none() && !array.condition.is_stopped() {
            let note = "`sync_action` cannot be read: taken for idle".to_owned();
            array.add_not_known("whether a resync or a check runs", note);
        }
        if self.number("component_size").is_none_or(|kib| kib == 0) {
            let note = "`component_size` cannot be read: the members are taken for as large as \
                        their devices";
            array.add_not_known("the size of the members", note.to_owned());
        }
    }

    /// A member that is a raid0 works with all its disks only if a reader is ahead by a stripe.
    fn short_read_ahead(&self) -> Option<String> {
        let ahead = self.sysroot.number(&self.device.file("queue/read_ahead_kb"))?;
        let stripe_kib = |member: &BlockDevice| {
            let is_striped = member.md_level(self.sysroot).as_deref() == Some("raid0");
            let chunk =
                self.sysroot.number(&member.file("md/chunk_size")).filter(|_| is_striped)?;
            chunk.checked_mul(member.slaves(self.sysroot).len() as u64).map(|it| it / 1024)
        };
        let stripe = self.device.slaves(self.sysroot).iter().filter_map(stripe_kib).max()?;
        // Without any the owner does not want it.
        (1..stripe).contains(&ahead).then(|| {
            let (name, sectors) = (&self.device.name, stripe.saturating_mul(4));
            format!(
                "the read-ahead of {name} is {ahead} KiB, and a stripe of a raid0 below it is \
                 {stripe} KiB: for one stream one disk works at a time; `blockdev --setra \
                 {sectors} /dev/{name}` makes all of them work"
            )
        })
    }

    /// The limit on its rebuild: its own, or that of the machine.
    fn limit(&self, notes: &mut Vec<String>) -> Option<DetectedLimit> {
        /// The rate that md keeps up whatever else the disks do, if nothing was set.
        const LEAST_KIB: u64 = 1000;
        let of_machine = |name: &str| self.sysroot.number(&format!("/proc/sys/dev/raid/{name}"));
        let least = self.number("sync_speed_min").or_else(|| of_machine("speed_limit_min"));
        notes.extend(least.filter(|kib| *kib > LEAST_KIB).map(|kib| {
            format!(
                "a rebuild keeps up {kib} KiB/s (sync_speed_min) however slow readers become: \
                 simulated with {LEAST_KIB} KiB/s"
            )
        }));
        let is_own = self.text("sync_speed_max").is_some_and(|text| text.contains("(local)"));
        let kib = self.number("sync_speed_max").or_else(|| of_machine("speed_limit_max"))?;
        Some(DetectedLimit { kib, is_own }).filter(|limit| limit.kib > 0)
    }

    fn layout(&self, members: usize) -> Result<ArrayLayout, DetectError> {
        let name = &self.device.name;
        let help = COPIES_HELP;
        if self.level == "raid1" {
            let layout = fixed_layout("md-raid1");
            let checked = layout.check_members(members).map(|()| layout);
            return checked.map_err(|error| {
                unreadable(format!("{name}: {}", error.diagnostic().message), help)
            });
        }
        let Some(number) = self.number("layout") else {
            let what = format!("{name}: cannot read the layout of its copies");
            return Err(unreadable(what, STOPPING));
        };
        let chunk_bytes = self.number("chunk_size").filter(|bytes| *bytes > 0);
        let layout = Raid10Layout::from_number(number).array_layout(members, chunk_bytes);
        layout.map_err(|reason| unreadable(format!("{name}: {reason}"), help))
    }

    /// The members by slot. A failed one has lost its slot: if one slot is empty and one device
    /// failed, they belong together.
    fn members(&self, slots: u64, notes: &mut Vec<String>) -> Vec<DetectedMember> {
        let devices = self.devices();
        let in_slot = |slot: u64| {
            let has_slot = |device: &&MdDevice| device.slot == Some(slot);
            devices.iter().filter(has_slot).find(|device| !device.has("replacement"))
        };
        let empty = (0..slots).filter(|slot| in_slot(*slot).is_none()).count();
        let failed: Vec<&MdDevice> =
            devices.iter().filter(|it| it.slot.is_none() && it.has("faulty")).collect();
        let spares = spares(&devices);
        if !spares.is_empty() {
            notes.push(format!("spares, not members: {}", spares.join(", ")));
        }
        if empty != 1 || failed.len() > 1 {
            notes.extend(failed.iter().map(|device| {
                format!("{} has failed: it is not a member any more", device.block.name)
            }));
        }
        let replacements = devices.iter().filter(|device| device.has("replacement"));
        notes
            .extend(replacements.map(|device| {
                format!("{} replaces a member: not a member yet", device.block.name)
            }));
        let member = |slot: u64| {
            let device = in_slot(slot).or(match failed.as_slice() {
                [one] if empty == 1 => Some(*one),
                _ => None,
            });
            self.member(slot, device)
        };
        (0..slots).map(member).collect()
    }

    /// Leaves out the empty slots of the system partition of a NAS, which has one for each bay, and
    /// returns their number. Whether something is missing there the array does not say.
    fn leave_out_empty_bays(
        &self,
        members: &mut Vec<DetectedMember>,
        notes: &mut Vec<String>,
    ) -> usize {
        /// Least number of slots, and largest size, of such an array.
        const LEAST: (usize, u64) = (4, 16 << 20);
        let there = members.iter().filter(|member| member.device.is_some()).count();
        let empty = members.len() - there;
        let is_small = self.number("component_size").is_some_and(|kib| kib <= LEAST.1);
        let is_system = self.level == "raid1" && members.len() >= LEAST.0 && is_small;
        if !is_system || empty == 0 || there < 2 {
            return 0;
        }
        members.retain(|member| member.device.is_some());
        notes.push(
            "empty slots are left out: the system partition of a NAS has a slot for each bay"
                .to_owned(),
        );
        empty
    }

    fn devices(&self) -> Vec<MdDevice> {
        let names = self.sysroot.names(&self.device.file("md"));
        let names = names.iter().filter_map(|name| name.strip_prefix("dev-"));
        names.filter_map(|name| self.md_device(name)).collect()
    }

    fn md_device(&self, name: &str) -> Option<MdDevice> {
        let folder = self.device.file(&format!("md/dev-{name}"));
        let block = BlockDevice::at(self.sysroot, &format!("{folder}/block"))
            .or_else(|| BlockDevice::by_name(self.sysroot, name))?;
        let state = self.sysroot.text(&format!("{folder}/state")).unwrap_or_default();
        let errors = self.sysroot.text(&format!("{folder}/errors")).unwrap_or_default();
        Some(MdDevice {
            errors: counted_errors([("corrected read", errors.as_str())].into_iter()),
            slot: self.sysroot.number(&format!("{folder}/slot")),
            offset_bytes: self
                .sysroot
                .number(&format!("{folder}/offset"))
                .unwrap_or(0)
                .saturating_mul(512),
            state,
            block,
        })
    }

    fn member(&self, slot: u64, device: Option<&MdDevice>) -> DetectedMember {
        let block = device.map(|device| &device.block);
        let mut member = read_member(self.sysroot, slot + 1, block);
        // KiB, whatever the documentation says.
        let size_bytes = self.number("component_size").and_then(|kib| kib.checked_mul(1024));
        member.size_bytes = size_bytes.filter(|bytes| *bytes > 0).or(member.size_bytes);
        let Some(device) = device else { return member };
        member.begin_bytes =
            member.begin_bytes.and_then(|begin| begin.checked_add(device.offset_bytes));
        member.is_failed = device.has("faulty");
        let is_read = !device.state.is_empty();
        member.is_rebuilding = is_read && !member.is_failed && !device.has("in_sync");
        member.write_mostly = device.has("write_mostly");
        member.state.clone_from(&device.state);
        member.errors.clone_from(&device.errors);
        member
    }

    /// The condition of the array with these members; `bays` of its slots are left out.
    fn condition(&self, members: &[DetectedMember], bays: usize) -> ArrayCondition {
        let missing = members.iter().filter(|member| member.is_failed).count();
        let state = self.text("array_state");
        let stopped = state.filter(|state| ArrayCondition::STOPPED.contains(&state.as_str()));
        let action = self.text("sync_action").filter(|action| action != "idle").or(stopped);
        let completed = self.text("sync_completed").unwrap_or_default();
        let sectors = completed.split_once('/').and_then(|(done, total)| {
            Some((done.trim().parse().ok()?, total.trim().parse().ok()?))
        });
        let progress = sectors.and_then(|(done, total)| percent(done, total));
        let kib_per_s = self.number("sync_speed").filter(|speed| *speed > 0);
        let hours_left = sectors.zip(kib_per_s).map(|((done, total), kib_per_s)| {
            total.saturating_sub(done) as f64 / 2.0 / kib_per_s as f64 / 3600.0
        });
        ArrayCondition {
            degraded: missing > 0 || self.number("degraded").is_some_and(|it| it > bays as u64),
            missing,
            // One that is being rebuilt may stand in no slot yet.
            spares: match missing {
                1.. if action.is_none() => spares(&self.devices()),
                _ => Vec::new(),
            },
            progress_percent: progress.filter(|_| action.is_some()),
            hours_left: hours_left.filter(|_| action.is_some()),
            activity: action,
            remark: (bays > 0).then(|| {
                let (is, what) = match bays {
                    1 => ("is", "a bay without a disk, or a disk that is gone"),
                    _ => ("are", "bays without a disk, or disks that are gone"),
                };
                format!("{bays} of {} slots {is} empty: {what}", members.len() + bays)
            }),
            ..ArrayCondition::default()
        }
    }

    fn policy(&self, members: &[DetectedMember], notes: &mut Vec<String>) -> DetectedPolicy {
        let mut settings = Vec::new();
        let flagged = members.iter().filter(|member| member.write_mostly);
        let flagged: Vec<&str> = flagged.map(DetectedMember::name).collect();
        if !flagged.is_empty() {
            settings.push(("write-mostly".to_owned(), flagged.join(" ")));
        }
        if let Some(backlog) = self.number("bitmap/backlog").filter(|backlog| *backlog > 0) {
            settings.push(("write-behind".to_owned(), backlog.to_string()));
            notes.push(
                "write-behind is on: a write may complete before it is on the members that are \
                 write-mostly"
                    .to_owned(),
            );
        }
        // The rule of raid10 follows from the layout.
        let spec = format!("md/{}", self.level);
        let text = Some(format!("md {}", self.level));
        DetectedPolicy { text, spec: Some(spec), offered: Vec::new(), settings }
    }
}

fn spares(devices: &[MdDevice]) -> Vec<String> {
    let free = devices.iter().filter(|it| it.slot.is_none() && it.has("spare"));
    free.map(|it| it.block.name.clone()).collect()
}

/// A note for each disk that all copies of some data are on.
fn copies_on_one_disk(layout: ArrayLayout, members: &[DetectedMember]) -> Vec<String> {
    let copies = match layout.to_string().strip_prefix("md-raid10-near:") {
        Some(near) => near.parse().unwrap_or(members.len()),
        None => members.len(),
    };
    let disk = |member: &DetectedMember| {
        // Of one on several disks, only the first is known.
        let whole = member.disk.as_ref().filter(|_| !member.is_on_several);
        whole.map(|disk| disk.name.clone())
    };
    let is_one = |group: &&[DetectedMember]| group.iter().all(|it| disk(it) == disk(&group[0]));
    let groups = members.chunks(copies).filter(|_| members.len().is_multiple_of(copies));
    let disks = groups.filter(is_one).filter_map(|group| disk(&group[0]));
    disks.map(|it| format!("all copies of some data are on {it}: they are lost with it")).collect()
}

struct MdDevice {
    block: BlockDevice,
    slot: Option<u64>,
    offset_bytes: u64,
    /// Words between commas.
    state: String,
    errors: Option<String>,
}

impl MdDevice {
    fn has(&self, word: &str) -> bool {
        self.state.split(',').any(|it| it.trim() == word)
    }
}

#[cfg(test)]
mod tests {
    use super::Raid10Layout;

    #[test]
    fn layouts_of_raid10_are_read_from_their_number() {
        for (number, name) in
            [(258, "md-raid10-near:2"), (513, "md-raid10-far:2"), (66049, "md-raid10-offset:2")]
        {
            let layout = Raid10Layout::from_number(number).array_layout(4, Some(65536)).unwrap();
            assert_eq!((layout.to_string().as_str(), layout.chunk_bytes()), (name, Some(65536)));
        }
        let near_three = Raid10Layout::from_number(259);
        assert_eq!(near_three.array_layout(5, None).unwrap().to_string(), "md-raid10-near:3");
        assert!(near_three.array_layout(2, None).unwrap_err().contains("needs at least 3"));
        let both = Raid10Layout::from_number(514).array_layout(4, None).unwrap_err();
        assert_eq!(both, "2 near and 2 far copies at once are not modelled");
        let odd = Raid10Layout::from_number(258).array_layout(4, Some(100)).unwrap_err();
        assert!(odd.contains("100 bytes"), "{odd}");
    }
}

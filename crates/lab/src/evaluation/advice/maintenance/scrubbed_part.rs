//! Which part of an array decides how long its scrub takes.

use super::{LOADS, MaintenanceOptions, Window, WorkTime, allocated_bytes, job, run_all};
use anyhow::Result;
use mirrorball_core::geometry::{ChunkMap, LayoutKind, Profile};
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArraySpec, MemberSource};

/// Simulated time of a part of a scrub, to find the slowest.
const PART_WINDOW: Nanos = Nanos(200_000_000);

/// The part of an array that one cursor scrubs. md and LVM have one for all members. ZFS scrubs all
/// vdevs at once, and btrfs all devices, each at its own rate: the one that takes longest decides.
pub(super) struct ScrubbedPart {
    pub(super) array: ArraySpec,
    pub(super) bytes: u64,
    pub(super) bytes_of_part: u64,
    /// Number of such parts that work at once.
    pub(super) parts: f64,
    /// Number of devices that are read at once for one cursor.
    pub(super) copies: usize,
}

impl ScrubbedPart {
    /// The part that takes longest; `None` if the simulation of parts was stopped.
    pub(super) fn of(
        array: &ArraySpec,
        map: &ChunkMap,
        options: &MaintenanceOptions<'_>,
    ) -> Result<Option<ScrubbedPart>> {
        let own = |member: usize| allocated_bytes(map, member);
        let in_service =
            || (0..array.members.len()).filter(|&it| array.members[it].is_in_service());
        let bytes = in_service().map(own).sum();
        let copies = map.copies();
        let members = |member: usize| match array.layout.kind() {
            LayoutKind::ZfsMirror => (member / copies * copies..).take(copies).collect(),
            _ => vec![member; copies],
        };
        let model = |member: usize| match &array.members[member].source {
            MemberSource::Model(profile) => format!("{:?}", profile.canonical()),
            MemberSource::Path(_) | MemberSource::Uri(_) => String::new(),
        };
        let is_parted = matches!(array.layout.kind(), LayoutKind::ZfsMirror | LayoutKind::Btrfs);
        if !options.has_cursors || !is_parted || copies == 1 {
            let (array, bytes_of_part) = (array.clone(), bytes);
            return Ok(Some(ScrubbedPart { array, bytes, bytes_of_part, parts: 1.0, copies }));
        }
        let mut slowest: Option<(f64, ScrubbedPart)> = None;
        let mut seen = Vec::new();
        for member in in_service() {
            let members: Vec<usize> = members(member);
            let alike = members.iter().map(|&it| (own(it), model(it)));
            let alike: Vec<_> = alike.collect();
            if seen.contains(&alike) {
                continue;
            }
            seen.push(alike);
            let is_read = |it: &usize| array.members[*it].is_in_service();
            let bytes_of_part = members.iter().copied().filter(is_read).map(own).sum();
            let part = ScrubbedPart::new(array, &members, bytes, bytes_of_part);
            let window =
                [Window { array: part.array.clone(), job: job(&LOADS[0], "scrub from=50%", None) }];
            let Some(runs) = run_all(&window, "mirrorball/first", PART_WINDOW, options)? else {
                return Ok(None);
            };
            let hours = WorkTime::new(&[], &runs, 1.0, part.bytes_of_part).hours;
            let hours = hours.unwrap_or(f64::INFINITY);
            if slowest.as_ref().is_none_or(|(longest, _)| hours > *longest) {
                slowest = Some((hours, part));
            }
        }
        Ok(slowest.map(|(_, part)| part))
    }

    fn new(array: &ArraySpec, members: &[usize], bytes: u64, bytes_of_part: u64) -> ScrubbedPart {
        let mut part = array.clone();
        part.members = members.iter().map(|&member| array.members[member].clone()).collect();
        let profile = match array.layout.kind() {
            LayoutKind::Btrfs => Profile::fitting(members.len()),
            _ => array.layout.profile(members.len()),
        };
        part.profile = profile.unwrap_or(array.profile);
        if array.layout.kind() == LayoutKind::Btrfs {
            for (member, devid) in part.members.iter_mut().zip(1..) {
                member.devid = devid;
            }
        }
        let parts = bytes as f64 / bytes_of_part.max(1) as f64;
        ScrubbedPart { array: part, bytes, bytes_of_part, parts, copies: members.len() }
    }
}

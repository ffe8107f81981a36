//! Counters of btrfs: errors of its devices, and the space of its chunks.

use super::super::array::{DetectedMember, NEARLY_FULL};
use super::super::members::counted_errors;
use super::Btrfs;
use mirrorball_core::geometry::Profile;
use mirrorball_core::units::GIB;

impl Btrfs<'_> {
    /// The errors of a device since its counters were reset, which survives a restart.
    pub(super) fn errors(&self, devid: u64) -> Option<String> {
        let text = self.sysroot.raw_text(&self.path(&format!("devinfo/{devid}/error_stats")))?;
        let counts = text.lines().filter_map(|line| line.split_once(' '));
        let kind = |name: &'_ str| match name.split('_').next() {
            Some("corruption") => "checksum",
            Some("read") => "read",
            Some("write") => "write",
            Some("flush") => "flush",
            _ => "other",
        };
        counted_errors(counts.map(|(name, count)| (kind(name), count.trim())))
    }

    /// How its space is used up, in words, if its data can get no further chunk.
    pub(super) fn space(&self, members: &[DetectedMember], profile: &str) -> Option<String> {
        let free = |member: &DetectedMember| {
            let size = member.size_bytes?;
            Some((size.saturating_sub(member.used_bytes?), (size / 10).min(GIB)))
        };
        let has_all = members.iter().all(|member| !member.is_failed);
        let free = members.iter().map(free).collect::<Option<Vec<(u64, u64)>>>()?;
        let with_room = free.iter().filter(|(bytes, chunk)| bytes >= chunk).count();
        let copies = Profile::ALL.into_iter().find(|it| it.name() == profile)?.copies();
        let number = |file: &str| {
            self.sysroot.number(&self.path(&format!("allocation/data/{profile}/{file}")))
        };
        let used = number("used_bytes")?.saturating_mul(100).checked_div(number("total_bytes")?)?;
        (has_all && with_room < copies && used <= 100).then(|| match used >= NEARLY_FULL {
            true => {
                format!("nearly full, {used} % of the data chunks is used, and none can be added")
            }
            false => format!("no unallocated space, {used} % of the data chunks is used"),
        })
    }
}

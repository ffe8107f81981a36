//! A detected array as advice is given for it.

use super::array::{DetectedArray, DetectedMember};
use mirrorball_lab::evaluation::advice::answer::OutOfService;

impl DetectedArray {
    /// The array when it is whole again, as far as its disks are known, and its members that are
    /// not in service; none if none is. Flags of members are settings that are compared with
    /// others, no properties of the disks: they become a part of the policy in force.
    pub fn into_advised(mut self) -> Option<(DetectedArray, Vec<OutOfService>)> {
        if !self.has_paths() && self.members.iter().all(|member| member.is_failed) {
            return None;
        }
        let is_out = |member: &&DetectedMember| {
            member.disk.is_some() && (member.is_failed || member.is_rebuilding)
        };
        let out = self.members.iter().filter(is_out).map(|member| OutOfService {
            devid: member.devid,
            is_failed: member.is_failed,
            recovered_bytes: self.recovered_bytes(member),
        });
        let out: Vec<OutOfService> = out.collect();
        self.policy.spec = self.in_force();
        for member in &mut self.members {
            member.write_mostly = false;
            member.is_rebuilding = false;
            member.is_failed &= member.disk.is_none();
        }
        Some((self, out))
    }
}

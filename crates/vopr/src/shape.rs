//! The shape of a history: its volume, and what may happen to it. All follows from the seed.

use crate::history::ExtraFaults;
use mirrorball_core::geometry::Profile;
use mirrorball_core::rng::Rng;

/// Whether the disks keep their promises.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Promises {
    /// They do.
    Kept,
    /// A flush succeeds and makes nothing durable. No volume survives that: it shows that a broken
    /// rule is found.
    FlushLies,
}

/// See the page of this module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HistoryShape {
    pub(crate) seed: u64,
    pub(crate) promises: Promises,
    pub(crate) profile: Profile,
    pub(crate) members: usize,
    pub(crate) member_bytes: u64,
    pub(crate) has_checksums: bool,
    /// Number of spares at first.
    pub(crate) spares: u64,
    /// The member on another machine.
    pub(crate) remote: Option<usize>,
    pub(crate) extra: ExtraFaults,
    /// The member with the disk that damages its data.
    pub(crate) bad_row: usize,
}

impl HistoryShape {
    pub(crate) fn of(seed: u64, promises: Promises) -> HistoryShape {
        const MIRRORED: [(Profile, usize); 4] =
            [(Profile::Raid1, 2), (Profile::Raid1c3, 3), (Profile::Raid10, 4), (Profile::Raid1, 3)];
        let rng = &mut Rng::stream(seed, "shape");
        let extra = match rng.below(6) {
            0 => ExtraFaults::Damage,
            1 => ExtraFaults::Identity,
            2 => ExtraFaults::Losses,
            _ => ExtraFaults::None,
        };
        let is_losing = extra == ExtraFaults::Losses;
        let (profile, members) = MIRRORED[rng.below(if is_losing { 2 } else { 4 }) as usize];
        let member = |rng: &mut Rng| rng.below(members as u64) as usize;
        let has_checksums = promises == Promises::Kept && rng.below(2) == 0;
        // In an eighth, the volume has so many regions that a member which comes back lacks only
        // some. With tables of checksums, each of three members has to have a chunk.
        let member_bytes = match rng.below(8) {
            0 if !is_losing => 37 << 20,
            _ if has_checksums && (profile, members) == (Profile::Raid1, 3) => 21 << 20,
            _ => 7 << 20,
        };
        HistoryShape {
            seed,
            promises,
            profile,
            members,
            member_bytes,
            has_checksums,
            spares: if is_losing { 0 } else { rng.below(6).saturating_sub(3) },
            remote: (!is_losing && rng.below(4) == 0).then(|| member(rng)),
            extra,
            bad_row: member(rng),
        }
    }

    pub(crate) fn in_words(&self) -> String {
        let mut text = format!("{} over {} members", self.profile.name(), self.members);
        if let Some(remote) = self.remote {
            text += &format!(", devid {} on another machine", remote + 1);
        }
        text + if self.has_checksums { ", with checksums" } else { "" }
    }
}

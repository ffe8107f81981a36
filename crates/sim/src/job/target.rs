//! Devices and files that a section works on, as places on the volume.

use mirrorball_core::units::SECTOR_BYTES;
use serde::Serialize;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Region {
    pub offset: u64,
    pub bytes: u64,
}

/// A region that a clone works on, and the device or file that holds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkRegion {
    pub region: Region,
    /// As fio finds or makes it: a request may reach beyond the region, but not beyond this.
    pub container: Region,
}

/// Devices or files that a section works on.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub enum JobTarget {
    /// Equal parts of the volume; the whole of it if there is one.
    Devices {
        /// The parts of this section, from zero.
        parts: Vec<u64>,
        of: u64,
    },
    Files(FileLayout),
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct FileLayout {
    /// Sets of files: one if all clones share them. Clone `n` has the set `n % sets`.
    pub sets: Vec<Vec<Region>>,
    /// Size of each file before its first clone makes it larger, if a section above made it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub made_bytes: Vec<u64>,
}

impl Default for JobTarget {
    fn default() -> JobTarget {
        JobTarget::VOLUME
    }
}

impl JobTarget {
    pub const VOLUME: JobTarget = JobTarget::Devices { parts: Vec::new(), of: 1 };

    /// Whether it is the volume itself.
    pub fn is_volume(&self) -> bool {
        matches!(self, JobTarget::Devices { of: 1, .. })
    }

    /// Number of files or devices of a clone.
    pub fn count(&self) -> usize {
        match self {
            JobTarget::Devices { parts, .. } => parts.len().max(1),
            JobTarget::Files(layout) => layout.sets[0].len(),
        }
    }

    /// The whole devices or files of a clone, and how much of each there is before it begins.
    pub(super) fn containers(&self, clone: u32, volume_bytes: u64) -> Vec<(Region, u64)> {
        match self {
            JobTarget::Devices { of: 1, .. } => {
                vec![(Region { offset: 0, bytes: volume_bytes }, volume_bytes)]
            }
            JobTarget::Devices { parts, of } => {
                let bytes = volume_bytes / of / SECTOR_BYTES * SECTOR_BYTES;
                let part = |part: &u64| (Region { offset: part * bytes, bytes }, bytes);
                parts.iter().map(part).collect()
            }
            JobTarget::Files(FileLayout { sets, made_bytes }) => {
                let made = made_bytes.iter().copied().chain(std::iter::repeat(0));
                sets[clone as usize % sets.len()].iter().copied().zip(made).collect()
            }
        }
    }
}

//! The metadata of a device, as they were found before its volume is assembled.

use super::bad_blocks::BadBlockRecord;
use super::dirty_record::DirtyRecord;
use super::scrub_record::ScrubRecord;
use super::slots::NewestLabel;
use super::stale_map::StaleMap;

/// Metadata that were found on a device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FoundMember {
    pub newest: NewestLabel,
    /// The newest record of its dirty log.
    pub record: Option<DirtyRecord>,
    /// True if a newer one may be damaged.
    pub may_lack_record: bool,
    pub scrub: Option<ScrubRecord>,
    /// The stale maps that can be read.
    pub stale_maps: Vec<StaleMap>,
    /// The newest list of bad blocks on it, and the slot of that.
    pub bad_blocks: Option<(BadBlockRecord, usize)>,
}

impl FoundMember {
    /// A device with this label and nothing else.
    pub fn of_label(newest: NewestLabel) -> FoundMember {
        FoundMember {
            newest,
            record: None,
            may_lack_record: false,
            scrub: None,
            stale_maps: Vec::new(),
            bad_blocks: None,
        }
    }

    /// The regions that were written to when it left. A young copy of it may lack what was written
    /// then, unless it was made after a stop in good order.
    pub(crate) fn last_regions(&self) -> impl Iterator<Item = u32> + use<'_> {
        let record = self.record.as_ref().filter(|_| !self.newest.found.label.is_clean);
        record.into_iter().flat_map(|record| record.regions.iter().copied())
    }
}

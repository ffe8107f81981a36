//! Records of a mirrored volume on its members, so that its data survive crashes and failures of
//! members: labels, dirty log, stale map and checksums.
//!
//! - [`label`]: what the records say: encodings, and the rules by which a volume is assembled from
//!   them. Pure functions.
//! - [`checksum`]: the checksums of the data.
//! - [`StoreGate`]: the state machine that keeps the records up to date while the volume runs. It
//!   is the [`Gate`](mirrorball_core::volume::gate::Gate) of the volume: writes start when a record
//!   of them is durable, and replies are given when the labels say who missed a write.
//!
//! Nothing here reads a clock or a file. Read `store` first, then `admission`, which says what
//! waits for what.

mod admission;
mod bad_blocks;
pub mod checksum;
mod checksum_checks;
mod checksum_pages;
mod checksum_store;
mod dirty_log;
pub mod label;
mod label_claims;
mod label_updates;
mod label_writer;
mod log_updates;
mod members;
mod metadata;
mod mismatched_blocks;
mod scrub_progress;
mod stale_regions;
mod stop;
mod store;
#[cfg(test)]
mod tests;
mod unflushed_repairs;
mod unsynced_regions;
mod volume_data;
mod volume_labels;

pub use checksum_checks::DifferingBlock;
pub use label_updates::LabelsUnwritable;
pub use store::StoreGate;
pub use unsynced_regions::REGION_BYTES;
pub use volume_data::StoreVolume;
pub use volume_labels::{VolumeLabels, has_lost_bad_blocks};

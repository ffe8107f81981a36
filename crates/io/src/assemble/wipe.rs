//! Removes what a device holds of other programs, or of an earlier volume.

use super::open::Open;
use mirrorball_core::geometry::RESERVED_BYTES;
use mirrorball_store::label::{BAD_BLOCKS_OFFSET, LABEL_SLOTS};
use std::io;

/// Bytes at the end of a device that are zeroed.
const END_BYTES: u64 = 1 << 20;
/// Bytes at its begin, with the last place where LUKS2 has a second header.
const BEGIN_BYTES: u64 = 5 << 20;

/// Zeroes both ends, where other programs keep their metadata.
pub(super) fn wipe(open: &Open) -> io::Result<()> {
    let end = open.size_bytes() - open.size_bytes() % 4096;
    // Not in one write: a server may take no more at once.
    for offset in (0..BEGIN_BYTES.min(end)).step_by(END_BYTES as usize) {
        open.write(offset, &vec![0; END_BYTES.min(end - offset) as usize])?;
    }
    open.write(end.saturating_sub(END_BYTES), &vec![0; END_BYTES.min(end) as usize])
}

/// Zeroes the labels, the dirty log, the progress of a scrub and the list of bad blocks.
pub(super) fn clear_metadata(open: &Open) -> io::Result<()> {
    clear_metadata_but(open, &[])
}

/// Does the same, but writes these bytes where the list of bad blocks is.
pub(super) fn clear_metadata_but(open: &Open, bad_blocks: &[u8]) -> io::Result<()> {
    let mut bytes = vec![0; (RESERVED_BYTES - LABEL_SLOTS[0]) as usize];
    let at = (BAD_BLOCKS_OFFSET - LABEL_SLOTS[0]) as usize;
    bytes[at..at + bad_blocks.len()].copy_from_slice(bad_blocks);
    open.write(LABEL_SLOTS[0], &bytes)
}

//! Writes to a member before its label is relied on.

use mirrorball_store::label::{LABEL_SLOTS, Label, METADATA_BYTES, NewestLabel};
use std::io;

/// The writes, each an offset and bytes, which are to be made durable in this order:
///
/// - The newest label, the same bytes in the same slot, because the next one overwrites the other
///   slot. After a flush that failed, what is read may be only in a cache that later flushes pass
///   over.
/// - Zeroes in the other slot if a power cut left a part of a label there: what it lacks could come
///   with a part of the next one.
///
/// # Errors
/// If `read`, of a range, fails.
pub(crate) fn writes_before_use(
    newest: &NewestLabel,
    read: impl Fn(u64, u32) -> io::Result<Vec<u8>>,
) -> io::Result<Vec<(u64, Vec<u8>)>> {
    let (slot, other) = (LABEL_SLOTS[newest.slot], LABEL_SLOTS[1 - newest.slot]);
    let mut writes = vec![(slot, read(slot, METADATA_BYTES as u32)?)];
    let bytes = read(other, METADATA_BYTES as u32)?;
    if Label::decode(&bytes, other).is_err() && bytes.iter().any(|&byte| byte != 0) {
        writes.push((other, vec![0; METADATA_BYTES]));
    }
    Ok(writes)
}

//! Splits write-zeroes and discard requests, which may cover a whole volume.
//!
//! Zeroes are written from one buffer, a piece at a time. A discard of striped members needs an I/O
//! for each strip, so the length of one discard is limited too.

use crate::driver::Driver;
use crate::driver::buffers::{BufferKey, Slice};
use crate::executor::Target;

const ZERO_BYTES: usize = 1 << 20;
/// Size of one discard of a volume: a thousand strips.
const DISCARD_BYTES: u64 = 64 << 20;

/// Acquires a buffer of zeroes, as long as the longest [`zero_step`].
pub(crate) fn zeroes(driver: &mut Driver) -> BufferKey {
    let buffer = driver.acquire(ZERO_BYTES);
    driver.bytes_mut(Slice::data(buffer, 0, ZERO_BYTES)).fill(0);
    buffer
}

/// Number of bytes to zero next, of those that are left.
pub(crate) fn zero_step(left: u64) -> u64 {
    left.min(ZERO_BYTES as u64)
}

/// Number of bytes to discard next, of those that are left. A member is discarded by one I/O of any
/// length.
pub(crate) fn discard_step(target: Target, left: u64) -> u64 {
    match target {
        Target::Volume => left.min(DISCARD_BYTES),
        Target::Member(_) => left,
    }
}

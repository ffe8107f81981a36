//! Requests for any length, done step by step.
//!
//! A client may ask for a whole volume to be zeroed or discarded. Zeroes are written from one
//! buffer, a piece at a time. And a discard of striped members is an I/O for each strip: what is
//! discarded by one order is bounded, so that a request costs no more at once than others do.

use crate::driver::Driver;
use crate::driver::buffers::{BufferKey, Slice};
use crate::executor::Target;

/// Zeroes are written in pieces of this size.
const ZERO_BYTES: usize = 1 << 20;
/// A volume is discarded in pieces of this size: a thousand strips.
const DISCARD_BYTES: u64 = 64 << 20;

/// A buffer of zeroes, for what [`zero_step`] says.
pub(crate) fn zeroes(driver: &mut Driver) -> BufferKey {
    let buffer = driver.buffers.acquire(ZERO_BYTES);
    driver.buffers.bytes_mut(Slice::data(buffer, 0, ZERO_BYTES)).fill(0);
    buffer
}

/// How many of the bytes that are left are zeroed next.
pub(crate) fn zero_step(left: u64) -> u64 {
    left.min(ZERO_BYTES as u64)
}

/// How many of the bytes that are left are discarded next. For a member alone it is one I/O,
/// however many those are.
pub(crate) fn discard_step(target: Target, left: u64) -> u64 {
    match target {
        Target::Volume => left.min(DISCARD_BYTES),
        Target::Member(_) => left,
    }
}

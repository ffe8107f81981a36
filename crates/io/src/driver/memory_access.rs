//! Methods of the driver for the memory of its buffers.
//!
//! They are the only way to a buffer from outside of the driver.

use super::Driver;
use super::buffers::{BufferKey, Slice};

impl Driver {
    /// Allocates a buffer of at least `data_bytes`. Its contents are arbitrary.
    #[inline]
    pub fn acquire(&mut self, data_bytes: usize) -> BufferKey {
        self.buffers.acquire(data_bytes)
    }

    /// Allocates a buffer as [`Driver::acquire`] does, whose memory is in one piece if the system
    /// has huge pages. Each takes one at least.
    pub fn acquire_in_one_piece(&mut self, data_bytes: usize) -> BufferKey {
        self.buffers.acquire_in_one_piece(data_bytes)
    }

    /// Number of buffers that are not released.
    #[cfg(test)]
    pub(crate) fn buffers_held(&self) -> usize {
        self.buffers.held()
    }

    /// Frees a buffer.
    ///
    /// # Panics
    /// If an operation in flight uses it.
    #[inline]
    pub fn release(&mut self, key: BufferKey) {
        self.buffers.release(key);
    }

    /// The bytes of a slice.
    ///
    /// # Panics
    /// If an operation in flight may write to the buffer.
    #[inline]
    pub fn bytes(&self, slice: Slice) -> &[u8] {
        self.buffers.bytes(slice)
    }

    /// The bytes of a slice of a buffer to other parts of which operations in flight may write.
    ///
    /// # Panics
    /// If an operation in flight may write to the slice.
    pub(crate) fn bytes_of_part(&self, slice: Slice) -> &[u8] {
        self.buffers.bytes_of_part(slice)
    }

    /// The bytes of a slice, to be changed.
    ///
    /// # Panics
    /// If an operation in flight uses the buffer.
    #[inline]
    pub fn bytes_mut(&mut self, slice: Slice) -> &mut [u8] {
        self.buffers.bytes_mut(slice)
    }

    /// Copies the bytes of a slice to another buffer.
    ///
    /// # Panics
    /// If the lengths or the buffers do not allow it: as [`Driver::bytes`] and
    /// [`Driver::bytes_mut`].
    pub fn copy(&mut self, from: Slice, to: Slice) {
        self.buffers.copy(from, to);
    }

    /// Copies the bytes of a slice to another buffer, of which operations in flight may use other
    /// parts.
    ///
    /// # Panics
    /// If it is the same buffer, or an operation in flight may write to the first.
    pub(crate) fn deliver(&mut self, from: Slice, to: Slice) {
        self.buffers.deliver(from, to);
    }
}

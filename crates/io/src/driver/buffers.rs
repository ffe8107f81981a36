//! Buffers: memory that the kernel reads and writes while operations are in flight.
//!
//! The driver owns a buffer, which never moves; other code has its key. Accessing a buffer that an
//! operation in flight may write to panics, so a mistake cannot return torn data.
//!
//! The data of a buffer begins on a page, as O_DIRECT requires. [`HEAD_BYTES`] bytes before it are
//! for the header of a reply, so that header and data are sent as one slice.
//!
//! Released buffers are kept by size and reused, so a steady state allocates nothing. Large ones
//! are freed.

use mirrorball_core::slab::Slab;

/// Bytes before the data of a buffer, for the header of a reply.
pub const HEAD_BYTES: usize = 64;

/// Data begins on a multiple of this.
const PAGE_BYTES: usize = 4096;
/// Buffers up to this size are kept for reuse.
const KEPT_BYTES_MAX: usize = 1 << 20;
/// Number of kept sizes: powers of two from a page on.
const CLASSES: usize = 9;

mirrorball_core::slab_key! {
    /// Names a buffer of the driver.
    pub struct BufferKey;
}

/// A range of bytes in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    /// The buffer.
    pub buffer: BufferKey,
    /// First byte; the data of a buffer begins at [`HEAD_BYTES`].
    pub start: usize,
    /// Number of bytes.
    pub length: usize,
}

impl Slice {
    /// `length` bytes at `offset` into the data of `buffer`.
    pub fn data(buffer: BufferKey, offset: usize, length: usize) -> Slice {
        Slice { buffer, start: HEAD_BYTES + offset, length }
    }

    /// The slice without its first `skip` bytes.
    pub fn after(self, skip: usize) -> Slice {
        Slice { start: self.start + skip, length: self.length - skip, ..self }
    }
}

/// Memory whose data is aligned to a page.
#[derive(Default)]
pub(super) struct Memory {
    bytes: Vec<u8>,
    /// Where the head begins: [`HEAD_BYTES`] before a page.
    skip: usize,
    data_bytes: usize,
}

impl Memory {
    pub(super) fn new(data_bytes: usize) -> Memory {
        // The system maps zeroed memory of this size lazily, so a client that announces much data
        // and sends none uses no memory.
        let bytes = vec![0; data_bytes + HEAD_BYTES + PAGE_BYTES];
        let data = (bytes.as_ptr() as usize + HEAD_BYTES).next_multiple_of(PAGE_BYTES);
        let skip = data - HEAD_BYTES - bytes.as_ptr() as usize;
        Memory { bytes, skip, data_bytes }
    }

    pub(super) fn slice(&self, start: usize, length: usize) -> &[u8] {
        assert!(start + length <= HEAD_BYTES + self.data_bytes, "a slice lies within its buffer");
        &self.bytes[self.skip + start..][..length]
    }

    pub(super) fn slice_mut(&mut self, start: usize, length: usize) -> &mut [u8] {
        assert!(start + length <= HEAD_BYTES + self.data_bytes, "a slice lies within its buffer");
        &mut self.bytes[self.skip + start..][..length]
    }
}

/// How an operation in flight uses a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    /// The kernel reads it.
    Source,
    /// The kernel writes to it.
    Target,
}

struct Buffer {
    memory: Memory,
    sources: u32,
    targets: u32,
}

/// All buffers of a driver.
#[derive(Default)]
pub struct Buffers {
    slab: Slab<BufferKey, Buffer>,
    free: [Vec<Memory>; CLASSES],
}

impl Buffers {
    /// Allocates a buffer of at least `data_bytes`. Its contents are arbitrary.
    pub fn acquire(&mut self, data_bytes: usize) -> BufferKey {
        let memory = match class(data_bytes) {
            Some(class) => {
                let spare = self.free[class].pop();
                spare.unwrap_or_else(|| Memory::new(PAGE_BYTES << class))
            }
            None => Memory::new(data_bytes),
        };
        self.slab.insert(Buffer { memory, sources: 0, targets: 0 })
    }

    /// Frees a buffer.
    ///
    /// # Panics
    /// If an operation in flight uses it.
    pub fn release(&mut self, key: BufferKey) {
        let buffer = self.slab.remove(key).expect("a buffer is released once");
        assert_eq!(buffer.sources + buffer.targets, 0, "a buffer in use is not released");
        if let Some(class) = class(buffer.memory.data_bytes) {
            self.free[class].push(buffer.memory);
        }
    }

    /// The bytes of a slice.
    ///
    /// # Panics
    /// If an operation in flight may write to the buffer.
    #[inline]
    pub fn bytes(&self, slice: Slice) -> &[u8] {
        let buffer = self.slab.get(slice.buffer);
        assert_eq!(buffer.targets, 0, "no access to a buffer that the kernel writes");
        buffer.memory.slice(slice.start, slice.length)
    }

    /// The bytes of a slice, to be changed.
    ///
    /// # Panics
    /// If an operation in flight uses the buffer.
    #[inline]
    pub fn bytes_mut(&mut self, slice: Slice) -> &mut [u8] {
        let buffer = self.slab.get_mut(slice.buffer);
        assert_eq!(
            buffer.sources + buffer.targets,
            0,
            "no change of a buffer that the kernel uses"
        );
        buffer.memory.slice_mut(slice.start, slice.length)
    }

    /// Copies the bytes of a slice to another buffer.
    ///
    /// # Panics
    /// If the lengths or the buffers do not allow it: as [`Buffers::bytes`] and
    /// [`Buffers::bytes_mut`].
    pub fn copy(&mut self, from: Slice, to: Slice) {
        self.bytes_mut(to);
        self.deliver(from, to);
    }

    /// Copies the bytes of a slice to another buffer, of which operations in flight may use other
    /// parts.
    ///
    /// # Panics
    /// If it is the same buffer, or an operation in flight may write to the first.
    pub(crate) fn deliver(&mut self, from: Slice, to: Slice) {
        assert_ne!(from.buffer, to.buffer, "another buffer");
        // Taken out for the time of the copy; what it points to stays where it is.
        let mut target = std::mem::take(&mut self.slab.get_mut(to.buffer).memory);
        target.slice_mut(to.start, to.length).copy_from_slice(self.bytes(from));
        self.slab.get_mut(to.buffer).memory = target;
    }

    /// The first byte of a slice, for the kernel.
    #[inline]
    pub(super) fn pointer(&self, slice: Slice) -> *const u8 {
        self.slab.get(slice.buffer).memory.slice(slice.start, slice.length).as_ptr()
    }

    /// The first byte of a slice, for the kernel to write to.
    #[inline]
    pub(super) fn pointer_mut(&mut self, slice: Slice) -> *mut u8 {
        let memory = &mut self.slab.get_mut(slice.buffer).memory;
        memory.slice_mut(slice.start, slice.length).as_mut_ptr()
    }

    /// The bytes of a slice for a backend that writes to them in place of the kernel.
    pub(super) fn target(&mut self, slice: Slice) -> &mut [u8] {
        self.slab.get_mut(slice.buffer).memory.slice_mut(slice.start, slice.length)
    }

    pub(super) fn begin_use(&mut self, key: BufferKey, kind: Use) {
        *self.users(key, kind) += 1;
    }

    pub(super) fn end_use(&mut self, key: BufferKey, kind: Use) {
        *self.users(key, kind) -= 1;
    }

    fn users(&mut self, key: BufferKey, kind: Use) -> &mut u32 {
        let buffer = self.slab.get_mut(key);
        match kind {
            Use::Source => &mut buffer.sources,
            Use::Target => &mut buffer.targets,
        }
    }
}

/// Index of the list that keeps buffers of this size, if they are kept.
fn class(data_bytes: usize) -> Option<usize> {
    let bytes = data_bytes.max(PAGE_BYTES).next_power_of_two();
    (bytes <= KEPT_BYTES_MAX).then(|| (bytes / PAGE_BYTES).trailing_zeros() as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_aligned_and_memory_reused() {
        let mut buffers = Buffers::default();
        let mut seen = Vec::new();
        for bytes in [1, 4096, 5000, 1 << 20, 3 << 20] {
            let key = buffers.acquire(bytes);
            let data = Slice::data(key, 0, bytes);
            assert_eq!(buffers.pointer(data) as usize % PAGE_BYTES, 0);
            buffers.bytes_mut(data).fill(7);
            buffers.release(key);
            seen.push(buffers.free.iter().map(Vec::len).sum::<usize>());
        }
        assert_eq!(seen, [1, 1, 2, 3, 3], "the second reuses the first, the last is given back");
    }

    #[test]
    #[should_panic(expected = "no access")]
    fn a_buffer_that_the_kernel_writes_to_cannot_be_read() {
        let mut buffers = Buffers::default();
        let key = buffers.acquire(512);
        buffers.begin_use(key, Use::Target);
        buffers.bytes(Slice::data(key, 0, 512));
    }

    #[test]
    #[should_panic(expected = "within its buffer")]
    fn a_slice_cannot_leave_its_buffer() {
        let mut buffers = Buffers::default();
        let key = buffers.acquire(4096);
        buffers.bytes(Slice::data(key, 4096, 1));
    }
}

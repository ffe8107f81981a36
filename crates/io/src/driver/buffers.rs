//! Buffers: memory that the kernel reads and writes while operations are in flight.
//!
//! The driver owns a buffer, which never moves; other code has its key, and reaches the bytes
//! through methods of [`super::Driver`]. No reference to `Buffers` leaves the driver, so a buffer
//! can be neither taken out nor exchanged. Accessing a buffer that an operation in flight may write
//! to panics, so a mistake cannot return torn data; a buffer that an operation uses is not freed,
//! also where a panic unwinds.
//!
//! The data of a buffer begins on a page, as O_DIRECT requires. [`HEAD_BYTES`] bytes before it are
//! for the header of a reply, so that header and data are sent as one slice.
//!
//! Released buffers are kept by size and reused, so a steady state allocates nothing: also one of
//! full stripes, which are larger than the longest I/O of most members. Larger ones are freed, and
//! so are those that exceed `KEPT_BYTES_PER_CLASS`: the memory of many clients is given back when
//! they have left.

use super::Driver;
pub use super::memory::HEAD_BYTES;
use super::memory::{Memory, PAGE_BYTES};
use mirrorball_core::slab::Slab;
use std::ops::Range;

/// Buffers up to this size are kept for reuse.
const KEPT_BYTES_MAX: usize = 8 << 20;
/// Number of kept sizes: powers of two from a page on.
const CLASSES: usize = 12;
/// Bytes of each size that are kept: more than one client has in flight as a rule.
const KEPT_BYTES_PER_CLASS: usize = 8 << 20;

mirrorball_core::slab_key! {
    pub struct BufferKey;
}

/// A range of bytes in a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Slice {
    pub buffer: BufferKey,
    /// First byte; the data of a buffer begins at [`HEAD_BYTES`].
    pub start: usize,
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

/// How an operation in flight uses a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Use {
    Source,
    Target,
}

struct Buffer {
    memory: Memory,
    sources: u32,
    targets: u32,
    /// A slice that the kernel writes to, and further ones: one needs no allocation.
    target: Option<Range<usize>>,
    more_targets: Vec<Range<usize>>,
}

impl Buffer {
    fn new(memory: Memory) -> Buffer {
        Buffer { memory, sources: 0, targets: 0, target: None, more_targets: Vec::new() }
    }

    fn begin_target(&mut self, slice: Slice) {
        self.targets += 1;
        let range = slice.start..slice.start + slice.length;
        match self.target {
            None => self.target = Some(range),
            Some(_) => self.more_targets.push(range),
        }
    }

    /// Ends the use of a slice, of which a beginning may have been left out meanwhile.
    fn end_target(&mut self, slice: Slice) {
        self.targets -= 1;
        let end = slice.start + slice.length;
        if self.target.as_ref().is_some_and(|range| range.end == end) {
            self.target = None;
        } else {
            let at = self.more_targets.iter().position(|range| range.end == end);
            self.more_targets.swap_remove(at.expect("a use ends that began"));
        }
    }
}

#[derive(Default)]
pub(super) struct Buffers {
    slab: Slab<BufferKey, Buffer>,
    free: FreeMemory,
}

/// Memory of buffers that were released, for others, by size.
#[derive(Default)]
pub(super) struct FreeMemory([Vec<Memory>; CLASSES]);

impl Buffers {
    /// Buffers that use this memory first.
    pub(super) fn with_memory(free: FreeMemory) -> Buffers {
        Buffers { slab: Slab::default(), free }
    }

    /// Removes and returns the memory of all buffers, which nothing uses any more.
    pub(super) fn take_memory(&mut self) -> FreeMemory {
        let keys: Vec<BufferKey> = self.slab.iter().map(|(key, _)| key).collect();
        for buffer in keys.into_iter().filter_map(|key| self.slab.remove(key)) {
            self.free.keep(buffer.memory);
        }
        std::mem::take(&mut self.free)
    }

    /// The bytes of a slice. Panics if an operation in flight may write to the buffer.
    #[inline]
    pub(super) fn bytes(&self, slice: Slice) -> &[u8] {
        let buffer = self.slab.get(slice.buffer);
        assert_eq!(buffer.targets, 0, "no access to a buffer that the kernel writes");
        buffer.memory.slice(slice.start, slice.length)
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

    pub(super) fn begin_use(&mut self, slice: Slice, kind: Use) {
        let buffer = self.slab.get_mut(slice.buffer);
        match kind {
            Use::Source => buffer.sources += 1,
            Use::Target => buffer.begin_target(slice),
        }
    }

    pub(super) fn end_use(&mut self, slice: Slice, kind: Use) {
        let buffer = self.slab.get_mut(slice.buffer);
        match kind {
            Use::Source => buffer.sources -= 1,
            Use::Target => buffer.end_target(slice),
        }
    }
}

impl FreeMemory {
    /// Keeps memory for reuse, or frees it.
    fn keep(&mut self, memory: Memory) {
        if let Some(class) = class(memory.data_bytes())
            && self.0[class].len() < KEPT_BYTES_PER_CLASS / (PAGE_BYTES << class)
        {
            self.0[class].push(memory);
        }
    }
}

/// Index of the list that keeps buffers of this size, if they are kept.
fn class(data_bytes: usize) -> Option<usize> {
    let bytes = data_bytes.max(PAGE_BYTES).next_power_of_two();
    (bytes <= KEPT_BYTES_MAX).then(|| (bytes / PAGE_BYTES).trailing_zeros() as usize)
}

/// The only way to a buffer from outside of the driver.
impl Driver {
    /// Allocates a buffer of at least `data_bytes`. Its contents are arbitrary.
    pub fn acquire(&mut self, data_bytes: usize) -> BufferKey {
        let memory = match class(data_bytes) {
            Some(class) => {
                let spare = self.buffers.free.0[class].pop();
                spare.unwrap_or_else(|| Memory::new(PAGE_BYTES << class))
            }
            None => Memory::new(data_bytes),
        };
        self.buffers.slab.insert(Buffer::new(memory))
    }

    /// Allocates a buffer as [`Driver::acquire`] does, whose memory is in one piece if the system
    /// has huge pages. Each takes one at least.
    pub fn acquire_in_one_piece(&mut self, data_bytes: usize) -> BufferKey {
        let bytes = class(data_bytes).map_or(data_bytes, |class| PAGE_BYTES << class);
        self.buffers.slab.insert(Buffer::new(Memory::in_one_piece(bytes)))
    }

    /// Number of buffers that are not released.
    #[cfg(test)]
    pub(crate) fn buffers_held(&self) -> usize {
        self.buffers.slab.len()
    }

    /// Frees a buffer. Panics if an operation in flight uses it.
    pub fn release(&mut self, key: BufferKey) {
        let buffer = self.buffers.slab.get(key);
        // Before it is removed: unwinding would free memory that the kernel uses.
        assert_eq!(buffer.sources + buffer.targets, 0, "a buffer in use is not released");
        let buffer = self.buffers.slab.remove(key).expect("a buffer is released once");
        self.buffers.free.keep(buffer.memory);
    }

    /// The bytes of a slice. Panics if an operation in flight may write to the buffer.
    #[inline]
    pub fn bytes(&self, slice: Slice) -> &[u8] {
        self.buffers.bytes(slice)
    }

    /// The bytes of a slice of a buffer to other parts of which operations in flight may write.
    /// Panics if an operation in flight may write to the slice.
    pub(crate) fn bytes_of_part(&self, slice: Slice) -> &[u8] {
        let buffer = self.buffers.slab.get(slice.buffer);
        let wanted = slice.start..slice.start + slice.length;
        let mut targets = buffer.target.iter().chain(&buffer.more_targets);
        let is_target = targets.any(|it| it.start < wanted.end && wanted.start < it.end);
        assert!(!is_target, "no access to bytes that the kernel writes");
        buffer.memory.slice(slice.start, slice.length)
    }

    /// The bytes of a slice, to be changed. Panics if an operation in flight uses the buffer.
    #[inline]
    pub fn bytes_mut(&mut self, slice: Slice) -> &mut [u8] {
        let buffer = self.buffers.slab.get_mut(slice.buffer);
        let uses = buffer.sources + buffer.targets;
        assert_eq!(uses, 0, "no change of a buffer that the kernel uses");
        buffer.memory.slice_mut(slice.start, slice.length)
    }

    /// Copies the bytes of a slice to another buffer. Panics if the lengths or the buffers do not
    /// allow it: as [`Driver::bytes`] and [`Driver::bytes_mut`].
    pub fn copy(&mut self, from: Slice, to: Slice) {
        self.bytes_mut(to);
        self.deliver(from, to);
    }

    /// Copies the bytes of a slice to another buffer, of which operations in flight may use other
    /// parts. Panics if it is the same buffer, or an operation in flight may write to the first.
    pub(crate) fn deliver(&mut self, from: Slice, to: Slice) {
        let [source, target] = self.buffers.slab.get_two_mut(from.buffer, to.buffer);
        assert_eq!(source.targets, 0, "no access to a buffer that the kernel writes");
        let target = target.memory.slice_mut(to.start, to.length);
        target.copy_from_slice(source.memory.slice(from.start, from.length));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::sim::{SimOptions, SimulatedWorld};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn driver() -> Driver {
        Driver::simulated(&SimulatedWorld::new(SimOptions::default()))
    }

    #[test]
    fn data_is_aligned_and_memory_reused() {
        let mut driver = driver();
        let mut seen = Vec::new();
        for bytes in [1, 4096, 5000, 1 << 20, 5 << 20, 6 << 20, 9 << 20] {
            let key = driver.acquire(bytes);
            let data = Slice::data(key, 0, bytes);
            assert_eq!(driver.buffers.pointer(data) as usize % PAGE_BYTES, 0);
            driver.bytes_mut(data).fill(7);
            driver.release(key);
            seen.push(driver.buffers.free.0.iter().map(Vec::len).sum::<usize>());
        }
        assert_eq!(
            seen,
            [1, 1, 2, 3, 4, 4, 4],
            "sizes of a class share one, the last is given back"
        );
    }

    #[test]
    fn memory_of_a_burst_is_given_back() {
        let mut driver = driver();
        for bytes in [4096, 256 << 10, 1 << 20, 5 << 20] {
            let keys: Vec<BufferKey> =
                (0..(128 << 20) / bytes).map(|_| driver.acquire(bytes)).collect();
            keys.into_iter().for_each(|key| driver.release(key));
            let kept =
                driver.buffers.free.0.iter().flatten().map(Memory::data_bytes).sum::<usize>();
            assert!(kept <= 4 * KEPT_BYTES_PER_CLASS, "{kept} bytes are kept");
        }
    }

    /// The panic of `act`, which must not free the memory that the kernel uses.
    fn panics_and_keeps(driver: &mut Driver, key: BufferKey, act: impl FnOnce(&mut Driver)) {
        let place = Slice::data(key, 0, 512);
        let before = driver.buffers.pointer(place);
        let caught = catch_unwind(AssertUnwindSafe(|| act(driver)));
        assert!(caught.is_err());
        assert_eq!(driver.buffers.pointer(place), before, "the buffer is where it was");
        assert_eq!(driver.buffers.free.0.iter().flatten().count(), 0, "and not free");
    }

    #[test]
    fn a_buffer_in_use_survives_misuse() {
        let mut driver = driver();
        let [key, other] = [0; 2].map(|_| driver.acquire(4096));
        let whole = |buffer| Slice::data(buffer, 0, 4096);
        driver.buffers.begin_use(whole(key), Use::Target);
        panics_and_keeps(&mut driver, key, |driver| driver.release(key));
        driver.buffers.begin_use(whole(other), Use::Target);
        let [from, to] = [other, key].map(|buffer| Slice::data(buffer, 0, 512));
        panics_and_keeps(&mut driver, key, |driver| driver.deliver(from, to));
        driver.buffers.end_use(whole(other), Use::Target);
        for (start, length) in [(usize::MAX, 2), (4096, usize::MAX), (4095, 66)] {
            let to = Slice { buffer: key, start, length };
            panics_and_keeps(&mut driver, key, |driver| driver.deliver(from, to));
        }
        driver.deliver(from, to);
    }

    #[test]
    #[should_panic(expected = "no access")]
    fn a_buffer_that_the_kernel_writes_to_cannot_be_read() {
        let mut driver = driver();
        let key = driver.acquire(512);
        driver.buffers.begin_use(Slice::data(key, 0, 512), Use::Target);
        driver.bytes(Slice::data(key, 0, 512));
    }

    #[test]
    fn a_part_can_be_read_while_the_kernel_writes_to_others() {
        let mut driver = driver();
        let key = driver.acquire(4096);
        let part = |number: usize| Slice::data(key, 512 * number, 512);
        for number in [0, 2, 3] {
            driver.buffers.begin_use(part(number), Use::Target);
        }
        assert_eq!(driver.bytes_of_part(part(1)).len(), 512);
        // The kernel wrote the first half, and was asked for the rest.
        driver.buffers.end_use(part(2).after(256), Use::Target);
        assert_eq!(driver.bytes_of_part(part(2)).len(), 512);
        for number in [0, 3] {
            let refused = |driver: &mut Driver| drop(driver.bytes_of_part(part(number)).to_vec());
            panics_and_keeps(&mut driver, key, refused);
            driver.buffers.end_use(part(number), Use::Target);
        }
        assert_eq!(driver.bytes(Slice::data(key, 0, 4096)).len(), 4096);
    }

    #[test]
    #[should_panic(expected = "within its buffer")]
    fn a_slice_cannot_leave_its_buffer() {
        let mut driver = driver();
        let key = driver.acquire(4096);
        driver.bytes(Slice::data(key, 4096, 1));
    }
}

//! Memory of one buffer: zeroed, with data that begins on a page.
//!
//! Large memory is mapped from the system, so it is zeroed when it is touched and given back when
//! it is freed, whatever the heap does: a client that announces much data and sends none uses no
//! memory, and the memory of many clients does not stay with the process. Small memory is from the
//! heap, because the system limits the number of mappings.
//!
//! One of the three files with `unsafe` code: a mapping is a pointer and a length.

#![allow(unsafe_code, reason = "mapped memory is a pointer; see the page above")]

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
use std::ptr::NonNull;

/// Bytes before the data of a buffer, for the header of a reply.
pub const HEAD_BYTES: usize = 64;
/// Data begins on a multiple of this.
pub(super) const PAGE_BYTES: usize = 4096;
/// Size and alignment of a huge page on most architectures.
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Memory of at least this size is mapped.
const MAPPED_BYTES_MIN: usize = 256 << 10;

/// Memory whose data is aligned to a page, after a head of [`HEAD_BYTES`].
pub(super) struct Memory {
    bytes: Storage,
    /// Where the head begins: [`HEAD_BYTES`] before a page.
    skip: usize,
    data_bytes: usize,
}

enum Storage {
    Heap(Vec<u8>),
    Mapped(Mapping),
}

/// Private anonymous memory of the process.
struct Mapping {
    first: NonNull<u8>,
    length: usize,
}

// SAFETY: it is memory of the process, not of a thread, and has one owner.
unsafe impl Send for Mapping {}
// SAFETY: a shared reference only reads it.
unsafe impl Sync for Mapping {}

impl Memory {
    pub(super) fn new(data_bytes: usize) -> Memory {
        let length = data_bytes.saturating_add(HEAD_BYTES + PAGE_BYTES);
        let mapping = if length < MAPPED_BYTES_MIN { None } else { Mapping::new(length) };
        // If the system maps nothing, the allocator decides what to do about it.
        let bytes = mapping.map_or_else(|| Storage::Heap(vec![0; length]), Storage::Mapped);
        let first = bytes.get().as_ptr() as usize;
        let skip = (first + HEAD_BYTES).next_multiple_of(PAGE_BYTES) - HEAD_BYTES - first;
        Memory { bytes, skip, data_bytes }
    }

    /// Memory that the system is asked to have in one piece, from huge pages: a device that limits
    /// the number of pieces then takes a long read as one request. It is as any other if the system
    /// has no huge page.
    pub(super) fn in_one_piece(data_bytes: usize) -> Memory {
        let length = data_bytes.saturating_add(2 * HUGE_PAGE_BYTES);
        let Some(mapping) = Mapping::new(length) else { return Memory::new(data_bytes) };
        mapping.prefer_huge_pages();
        let first = mapping.first.as_ptr() as usize;
        let skip = (first + HEAD_BYTES).next_multiple_of(HUGE_PAGE_BYTES) - HEAD_BYTES - first;
        Memory { bytes: Storage::Mapped(mapping), skip, data_bytes }
    }

    #[inline]
    pub(super) fn data_bytes(&self) -> usize {
        self.data_bytes
    }

    #[inline]
    pub(super) fn slice(&self, start: usize, length: usize) -> &[u8] {
        self.check(start, length);
        &self.bytes.get()[self.skip + start..][..length]
    }

    #[inline]
    pub(super) fn slice_mut(&mut self, start: usize, length: usize) -> &mut [u8] {
        self.check(start, length);
        let bytes = match &mut self.bytes {
            Storage::Heap(bytes) => bytes.as_mut_slice(),
            Storage::Mapped(mapping) => mapping.get_mut(),
        };
        &mut bytes[self.skip + start..][..length]
    }

    #[inline]
    fn check(&self, start: usize, length: usize) {
        let is_within =
            start.checked_add(length).is_some_and(|end| end <= HEAD_BYTES + self.data_bytes);
        assert!(is_within, "a slice lies within its buffer");
    }
}

impl Storage {
    #[inline]
    fn get(&self) -> &[u8] {
        match self {
            Storage::Heap(bytes) => bytes,
            Storage::Mapped(mapping) => mapping.get(),
        }
    }
}

impl Mapping {
    fn new(length: usize) -> Option<Mapping> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: the system chooses an unused address.
        let first = unsafe { mmap_anonymous(std::ptr::null_mut(), length, protection, flags) };
        let first = NonNull::new(first.ok()?.cast())?;
        Some(Mapping { first, length })
    }

    fn prefer_huge_pages(&self) {
        let first = self.first.as_ptr().cast();
        // SAFETY: it is memory of this mapping; what it holds does not change.
        let _ = unsafe { madvise(first, self.length, Advice::LinuxHugepage) };
    }

    #[inline]
    fn get(&self) -> &[u8] {
        // SAFETY: the mapping has this length, is zeroed, and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.length) }
    }

    #[inline]
    fn get_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `self` is the only owner.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.length) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it was mapped with this length, and nothing refers to it any more.
        let _ = unsafe { munmap(self.first.as_ptr().cast(), self.length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_in_one_piece_begins_where_a_huge_page_does() {
        for bytes in [0, 4096, 1 << 20, 5 << 20] {
            let mut memory = Memory::in_one_piece(bytes);
            assert_eq!(memory.slice(HEAD_BYTES, bytes).as_ptr() as usize % HUGE_PAGE_BYTES, 0);
            assert!(memory.slice(0, HEAD_BYTES + bytes).iter().all(|&byte| byte == 0));
            memory.slice_mut(0, HEAD_BYTES + bytes).fill(7);
        }
    }

    #[test]
    fn memory_of_every_size_is_zeroed_aligned_and_writable() {
        for bytes in [0, 1, 4096, 100_000, MAPPED_BYTES_MIN - 4160, MAPPED_BYTES_MIN, 5 << 20] {
            let mut memory = Memory::new(bytes);
            assert_eq!(memory.slice(HEAD_BYTES, bytes).as_ptr() as usize % PAGE_BYTES, 0);
            assert!(memory.slice(0, HEAD_BYTES + bytes).iter().all(|&byte| byte == 0));
            memory.slice_mut(0, HEAD_BYTES + bytes).fill(7);
            assert!(memory.slice(0, HEAD_BYTES + bytes).iter().all(|&byte| byte == 7));
        }
    }
}

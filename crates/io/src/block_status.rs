//! Block status: which ranges of a volume or member hold data, and which are holes.
//!
//! A range is a hole only if it is a hole on *every* mirror that could serve a read of it. If one
//! member applied a discard and another did not, a client must not skip data that another read
//! would return. Ranges whose state is unknown count as data.
//!
//! Members in memory are looked up at once. Files are searched with `lseek`, which may wait for a
//! disk, so a `blocking_worker` does it. A write has reached every mirror before its
//! reply, so later queries see it.
//!
//! Non-goals: detecting zeroes that were written; holes of remote members.

use rustix::fs::{SeekFrom, fstat, seek};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Bytes of memory that a query covers at most; clients query the rest again. Bounds the time that
/// a query blocks the service to a fraction of a millisecond.
pub(crate) const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// Number of segments of a query at most; see [`MEMORY_BYTES_MAX`].
pub(crate) const SEGMENTS_MAX: usize = 512;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtentKind {
    Data,
    /// It is not allocated, and reads as zeroes.
    Hole,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusExtent {
    pub length: u64,
    pub kind: ExtentKind,
}

/// A range of a volume or member that is contiguous on each of its mirrors.
pub(crate) struct StatusSegment<P> {
    pub(crate) length: u64,
    /// Start on each mirror that could serve a read; `None` if a mirror cannot be queried.
    pub(crate) sources: Option<Vec<P>>,
}

/// The storage of a mirror from an offset on.
pub(crate) trait ExtentSource {
    /// The extent that begins `skip` bytes later, cut to `length` bytes.
    fn extent_at(&self, skip: u64, length: u64) -> StatusExtent;
}

/// A file from an offset on.
pub(crate) struct FileSource {
    pub(crate) file: Arc<OwnedFd>,
    pub(crate) offset: u64,
}

/// Limits of the extents in a reply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StatusLimits {
    /// Number of extents at most; at least one.
    pub(crate) extents_max: usize,
    /// Extents begin and end at multiples of this.
    pub(crate) block_bytes: u64,
}

impl ExtentSource for FileSource {
    fn extent_at(&self, skip: u64, length: u64) -> StatusExtent {
        let offset = self.offset + skip;
        let until = |end: u64| length.min(end - offset);
        let (length, kind) = match seek(&*self.file, SeekFrom::Data(offset)) {
            Ok(data) if data > offset => (until(data), ExtentKind::Hole),
            Ok(_) => {
                let hole = seek(&*self.file, SeekFrom::Hole(offset));
                (hole.map_or(length, until).max(1), ExtentKind::Data)
            }
            Err(Errno::NXIO) => {
                // No data up to the end of the file; a truncated file counts as data.
                let size_bytes = fstat(&*self.file).map_or(0, |stat| stat.st_size as u64);
                let whole = size_bytes >= offset + length;
                (length, if whole { ExtentKind::Hole } else { ExtentKind::Data })
            }
            Err(_) => (length, ExtentKind::Data),
        };
        StatusExtent { length, kind }
    }
}

/// Finds the extents of these segments, which are consecutive and begin at a block.
pub(crate) fn find_extents<P: ExtentSource>(
    segments: &[StatusSegment<P>],
    limits: StatusLimits,
) -> Vec<StatusExtent> {
    let mut extents: Vec<StatusExtent> = Vec::new();
    for StatusSegment { length, sources } in segments {
        let mut done = 0;
        while done < *length {
            let extent = match sources {
                Some(sources) => {
                    in_blocks(first_extent(sources, done, length - done), limits, length - done)
                }
                None => StatusExtent { length: length - done, kind: ExtentKind::Data },
            };
            let count = extents.len();
            match extents.last_mut() {
                Some(last) if last.kind == extent.kind => last.length += extent.length,
                _ if count == limits.extents_max => return extents,
                _ => extents.push(extent),
            }
            done += extent.length;
        }
    }
    extents
}

/// The first extent of a segment: data if it is data on any mirror.
fn first_extent<P: ExtentSource>(sources: &[P], skip: u64, length: u64) -> StatusExtent {
    let mut hole = StatusExtent { length, kind: ExtentKind::Hole };
    for source in sources {
        let seen = source.extent_at(skip, hole.length);
        if seen.kind == ExtentKind::Data {
            return seen;
        }
        hole = seen;
    }
    hole
}

/// Aligns an extent to blocks: a block that is only partly a hole is data. `rest` is the length up
/// to the end of the segment.
fn in_blocks(extent: StatusExtent, limits: StatusLimits, rest: u64) -> StatusExtent {
    let StatusExtent { length, kind } = extent;
    let block = limits.block_bytes;
    match kind {
        _ if length == rest => extent,
        ExtentKind::Hole if length >= block => {
            StatusExtent { length: length - length % block, kind }
        }
        _ => {
            let length = length.next_multiple_of(block).min(rest);
            StatusExtent { length, kind: ExtentKind::Data }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::member::memory::{MemorySource, MemoryStore};
    use proptest::prelude::*;
    use std::fs::File;
    use std::os::unix::fs::FileExt;

    const PIECE: u64 = 64 << 10;

    fn extent(length: u64, kind: ExtentKind) -> StatusExtent {
        StatusExtent { length, kind }
    }

    proptest! {
        /// Two mirrors in memory: whatever is reported as a hole is one on both, and no more than
        /// the piece around a written byte counts as data.
        #[test]
        fn a_hole_is_one_on_every_mirror(
            writes in prop::collection::vec((0..2usize, 0..64u64), 0..20),
            begin in 0..64u64,
            extents_max in 1..9usize,
        ) {
            let mut stores = [MemoryStore::default(), MemoryStore::default()];
            for &(mirror, piece) in &writes {
                stores[mirror].write(piece * PIECE + 700, &[1]);
            }
            let length = (64 - begin) * PIECE;
            let sources = stores.iter().map(|store| MemorySource { store, offset: begin * PIECE });
            let segment = StatusSegment { length, sources: Some(sources.collect()) };
            let limits = StatusLimits { extents_max, block_bytes: 512 };
            let extents = find_extents(&[segment], limits);
            prop_assert!((1..=extents_max).contains(&extents.len()));
            let mut at = begin;
            for StatusExtent { length, kind } in &extents {
                for piece in at..at + length / PIECE {
                    let written = writes.iter().any(|&(_, other)| other == piece);
                    prop_assert_eq!(written, *kind == ExtentKind::Data, "{}", piece);
                }
                at += length / PIECE;
            }
            prop_assert!(at == 64 || extents.len() == extents_max);
        }
    }

    #[test]
    fn a_file_tells_its_holes_and_a_short_one_tells_nothing() {
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.set_len(8 << 20).unwrap();
        file.write_all_at(&[1; 4096], 2 << 20).unwrap();
        let source = |file: &File, offset| FileSource {
            file: Arc::new(OwnedFd::from(file.try_clone().unwrap())),
            offset,
        };
        let seek = |length, block_bytes, offset| {
            let sources = Some(vec![source(&file, offset)]);
            find_extents(
                &[StatusSegment { length, sources }],
                StatusLimits { extents_max: 9, block_bytes },
            )
        };
        let (hole, data) = (ExtentKind::Hole, ExtentKind::Data);
        assert_eq!(
            seek(7 << 20, 512, 1 << 20),
            [extent(1 << 20, hole), extent(4096, data), extent((6 << 20) - 4096, hole)]
        );
        // Blocks that are larger than those of the filesystem.
        assert_eq!(
            seek(7 << 20, 3 << 19, 1 << 20),
            [extent(3 << 19, data), extent(11 << 19, hole)]
        );
        // It ends before the member does.
        assert_eq!(seek(1 << 20, 512, (7 << 20) + 1), [extent(1 << 20, data)]);
        let unknown = StatusSegment::<FileSource> { length: 5, sources: None };
        let limits = StatusLimits { extents_max: 9, block_bytes: 512 };
        assert_eq!(find_extents(&[unknown], limits), [extent(5, data)]);
    }
}

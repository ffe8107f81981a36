//! Where a target holds data, and where it reads as zeroes: what block status tells of.
//!
//! A range counts as a hole only if it is one on *every* mirror that could serve a read of it: a
//! discard that one member took and another did not, or members that differ unnoticed, must not
//! make a client skip what another read would bring. Whatever is not known counts as data.
//!
//! Memory tells at once. Files are asked with `lseek`, which may wait for a disk, so that is left
//! to an errand. A write that was replied to before has reached every mirror, so that it is seen.
//!
//! Non-goals: zeroes that were written, which are data; the holes of other machines.

use rustix::fs::{SeekFrom, fstat, seek};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// How many bytes of memory a survey covers at most, and how many segments: a client asks for the
/// rest again. So none holds the loop up for longer than a fraction of a millisecond.
pub(crate) const MEMORY_BYTES_MAX: u64 = 64 << 20;
/// See [`MEMORY_BYTES_MAX`].
pub(crate) const SEGMENTS_MAX: usize = 512;

/// What a range is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ExtentKind {
    /// It may hold anything.
    Data,
    /// It takes no room, and reads as zeroes.
    Hole,
}

/// A range of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct StatusExtent {
    /// Number of bytes.
    pub length: u64,
    /// Of what kind.
    pub kind: ExtentKind,
}

/// A part of a target, as far as it lies in one piece on each of its mirrors.
pub(crate) struct StatusSegment<P> {
    /// Number of bytes.
    pub(crate) length: u64,
    /// Where it begins on each mirror that could serve a read; nothing where one does not tell.
    pub(crate) sources: Option<Vec<P>>,
}

/// A source that tells what is there.
pub(crate) trait ExtentSource {
    /// What is so many bytes behind this source, for at most `length` bytes.
    fn extent_at(&self, skip: u64, length: u64) -> StatusExtent;
}

/// A source in a file.
pub(crate) struct FileSource {
    pub(crate) file: Arc<OwnedFd>,
    pub(crate) offset: u64,
}

/// How a survey is to be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StatusLimits {
    /// At most so many extents, and at least one.
    pub(crate) extents_max: usize,
    /// They begin and end at multiples of this.
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
                // No data to the end of the file. If it was cut short, that is not as it should be.
                let size_bytes = fstat(&*self.file).map_or(0, |stat| stat.st_size as u64);
                let whole = size_bytes >= offset + length;
                (length, if whole { ExtentKind::Hole } else { ExtentKind::Data })
            }
            Err(_) => (length, ExtentKind::Data),
        };
        StatusExtent { length, kind }
    }
}

/// Surveys these segments, which follow each other and begin at a block.
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

/// What is there on all mirrors: data if it is that on any.
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

/// Gives what is a hole in part to the data beside it. `rest` is how much there is from here on.
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
        /// Two mirrors in memory: whatever is told to be a hole is one on both, and no more than
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

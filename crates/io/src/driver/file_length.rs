//! Lengths of files that the driver owns.

use super::endpoint::Resource;
use super::{Backend, Driver, FileSize, Handle};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::ops::Range;

/// What a filesystem allocates for a write is within units of this size: a huge page of tmpfs.
pub(crate) const DATA_UNIT: u64 = 2 << 20;

impl Driver {
    /// The size of a file.
    ///
    /// # Errors
    /// As `fstat`.
    pub fn file_size(&self, file: Handle) -> Result<FileSize, Errno> {
        match (&self.descriptors.get(file).resource, &self.backend) {
            (Resource::Fd(fd), _) => Ok(FileSize::of(&rustix::fs::fstat(fd)?)),
            (Resource::Simulated(object), Backend::Simulated(simulation)) => {
                Ok(simulation.file_size(*object))
            }
            (Resource::Simulated(_), _) => Err(Errno::BADF),
        }
    }

    /// Where a device ends.
    ///
    /// # Errors
    /// As `lseek`.
    pub(crate) fn device_end(&self, device: Handle) -> Result<u64, Errno> {
        match &self.descriptors.get(device).resource {
            Resource::Fd(fd) => rustix::fs::seek(fd, SeekFrom::End(0)),
            Resource::Simulated(_) => Ok(self.file_size(device)?.size_bytes),
        }
    }

    /// Makes a file that is shorter this long.
    ///
    /// # Errors
    /// As `ftruncate`.
    pub(crate) fn lengthen(&self, file: Handle, size_bytes: u64) -> Result<(), Errno> {
        match (&self.descriptors.get(file).resource, &self.backend) {
            (Resource::Fd(fd), _) => {
                rustix::fs::ftruncate(fd, size_bytes)?;
                rustix::fs::fdatasync(fd)
            }
            (Resource::Simulated(object), Backend::Simulated(simulation)) => {
                simulation.extend_to(*object, size_bytes)
            }
            (Resource::Simulated(_), _) => Err(Errno::BADF),
        }
    }

    /// The offset of the last [`DATA_UNIT`] of a range in which a file has data; `None` if it has
    /// none there, or that is not known. The range begins at a unit.
    pub(crate) fn last_data(&self, file: Handle, range: Range<u64>) -> Option<u64> {
        let Resource::Fd(fd) = &self.descriptors.get(file).resource else { return None };
        let has_data = |from: u64| {
            let data = rustix::fs::seek(fd, SeekFrom::Data(from));
            data.is_ok_and(|at| at < range.end)
        };
        // The first for which it does not hold.
        let (mut low, mut high) = (range.start / DATA_UNIT, range.end.div_ceil(DATA_UNIT));
        if low >= high || !has_data(range.start) {
            return None;
        }
        while high - low > 1 {
            let middle = low.midpoint(high);
            match has_data(middle * DATA_UNIT) {
                true => low = middle,
                false => high = middle,
            }
        }
        Some(low * DATA_UNIT)
    }

    /// Where the last data of a range of a file end, its begin if it has none there; `None` if that
    /// is not known.
    pub(crate) fn data_end(&self, file: Handle, range: Range<u64>) -> Option<u64> {
        let Resource::Fd(fd) = &self.descriptors.get(file).resource else { return None };
        let mut data_end = range.start;
        while let Ok(begin) = rustix::fs::seek(fd, SeekFrom::Data(data_end))
            && begin < range.end
            && let Ok(hole) = rustix::fs::seek(fd, SeekFrom::Hole(begin))
            && hole > data_end
        {
            data_end = hole.min(range.end);
        }
        Some(data_end)
    }

    /// True if the filesystem of a file frees no space of what is only written, as ext4, XFS and
    /// tmpfs do and those that compress do not.
    pub(crate) fn keeps_allocated(&self, file: Handle) -> bool {
        const EXT4_XFS_TMPFS: [i64; 3] = [0xef53, 0x5846_5342, 0x0102_1994];
        match &self.descriptors.get(file).resource {
            Resource::Fd(fd) => rustix::fs::fstatfs(fd)
                .is_ok_and(|filesystem| EXT4_XFS_TMPFS.contains(&filesystem.f_type)),
            Resource::Simulated(_) => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::BackendKind;
    use std::os::unix::fs::FileExt;

    #[test]
    fn the_last_data_of_a_file_are_found() {
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.set_len(64 << 20).unwrap();
        for place in [5 << 20, 17 << 20] {
            file.write_all_at(&[1; 4096], place + 8192).unwrap();
        }
        let mut driver = Driver::new(Some(BackendKind::Threads)).unwrap().0;
        let handle = driver.adopt(file.into()).unwrap();
        let last = |from: u64, to: u64| driver.last_data(handle, from << 20..to << 20);
        assert_eq!(last(0, 64), Some(16 << 20));
        assert_eq!(last(0, 17), Some(4 << 20), "the data begin behind the end");
        assert_eq!((last(6, 16), last(18, 64), last(4, 4)), (None, None, None));
    }
}

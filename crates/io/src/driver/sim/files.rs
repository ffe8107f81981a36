//! The files of a simulated world, as a test reaches them.

use super::file::SimFile;
use super::{FileFault, Misdirection, Object, ObjectId, SimulatedWorld};

impl SimulatedWorld {
    pub fn add_file(&self, size_bytes: u64) -> ObjectId {
        self.world().add(Object::File(SimFile::new(size_bytes)))
    }

    pub fn set_fault(&self, file: ObjectId, fault: FileFault) {
        let mut world = self.world();
        world.file(file).fault = fault;
        world.unpark(file);
    }

    /// Has all blocking writes fail after so many, as if the power were lost then.
    pub fn limit_writes(&self, count: Option<u64>) {
        self.world().writes_left = count;
    }

    pub fn fault(&self, file: ObjectId) -> FileFault {
        self.world().file(file).fault
    }

    /// Loses some of the changes of a file that were not synced, as a power failure would.
    pub fn lose_unsynced(&self, file: ObjectId) {
        let world = &mut *self.world();
        if let Object::File(file) = &mut world.objects[file.0 as usize] {
            file.lose_unsynced(&mut world.rng);
        }
    }

    /// Writes to a file, and makes all of it durable.
    pub fn write_file(&self, file: ObjectId, offset: u64, bytes: &[u8]) {
        self.world().file(file).write(offset, bytes);
        self.sync_file(file);
    }

    /// Writes to a file, and makes nothing durable.
    pub fn write_unsynced(&self, file: ObjectId, offset: u64, bytes: &[u8]) {
        self.world().file(file).write(offset, bytes);
    }

    /// Has a range of a file read as zeroes.
    pub fn discard(&self, file: ObjectId, offset: u64, length: u64) {
        self.world().file(file).discard(offset, length);
    }

    /// Makes all that was written to a file durable.
    pub fn sync_file(&self, file: ObjectId) {
        let mut world = self.world();
        let file = world.file(file);
        file.sync(file.changes());
    }

    /// The bytes of a range of a file, as a read would return them now.
    pub fn read_file(&self, file: ObjectId, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let read = self.world().file(file).read(offset, &mut bytes);
        bytes.truncate(read);
        bytes
    }

    /// Returns true if ranges of two files hold the same: each is a file and an offset.
    pub fn holds_same(&self, one: (ObjectId, u64), other: (ObjectId, u64), length: u64) -> bool {
        let world = self.world();
        match [one, other].map(|(file, _)| &world.objects[file.0 as usize]) {
            [Object::File(first), Object::File(second)] => {
                first.equals(one.1, (second, other.1), length)
            }
            _ => panic!("{one:?} or {other:?} is no file"),
        }
    }

    /// Reads of a file what would be left after a power cut that loses all that may be lost.
    pub fn read_durable(&self, file: ObjectId, offset: u64, length: usize) -> Vec<u8> {
        self.world().file(file).read_durable(offset, length)
    }

    /// Has reads of a file return what its medium holds, without what failed syncs lost.
    pub fn drop_cache(&self, file: ObjectId) {
        self.world().file(file).drop_cache();
    }

    /// Changes bits of a byte of a file, as a damaged medium does.
    pub fn flip(&self, file: ObjectId, offset: u64, bits: u8) {
        self.world().file(file).flip(offset, bits);
    }

    /// Loses sectors of a file: reads of them fail until they are written.
    pub fn lose_sectors(&self, file: ObjectId, offset: u64, length: usize) {
        self.world().file(file).lose_sectors(offset, length);
    }

    /// Returns true if reads of a range fail, because a sector of it is lost.
    pub fn has_lost(&self, file: ObjectId, offset: u64, length: usize) -> bool {
        self.world().file(file).has_lost(offset, length)
    }

    /// Has the next write to a range of a file go to a wrong place, or none from now on.
    pub fn misdirect(&self, file: ObjectId, misdirection: Option<Misdirection>) {
        self.world().file(file).misdirect(misdirection);
    }

    /// The writes that went to a wrong place since the last call: offset, length, and that place.
    pub fn take_misdirected(&self, file: ObjectId) -> Vec<(u64, u64, u64)> {
        self.world().file(file).take_misdirected()
    }

    /// Adds a file with the contents of another.
    pub fn copy_file(&self, file: ObjectId) -> ObjectId {
        let mut world = self.world();
        let copy = world.file(file).copy();
        world.add(Object::File(copy))
    }
}

//! The mounted folder: a file for each export, and the calls that it supports.
//!
//! A file is like a block device: its size is fixed, and truncating it changes nothing.
//!
//! Calls that need I/O go to the queue; the others are answered here.

use super::call_queue::{Call, CallKind, CallQueue};
use crate::export::Durability;
use crate::export::Export;
use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, InitFlags, KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Inode number of the first file; 1 is the folder.
const FIRST_FILE: u64 = 2;
/// How long the kernel may cache attributes. They never change, but a cached answer would hide that
/// the server is gone.
const TTL: Duration = Duration::ZERO;
/// Size limit of a request; the kernel splits longer ones.
const REQUEST_BYTES: u32 = 1 << 20;
/// Limit of background requests in flight, among which the kernel counts the I/O of loop devices.
const BACKGROUND_MAX: u16 = 1024;

/// See the module documentation.
pub(super) struct Files {
    pub(super) exports: Vec<Export>,
    pub(super) queue: Arc<CallQueue>,
    pub(super) owner: (u32, u32),
}

impl Files {
    /// File name of an export: `volume`, if it is the only one.
    pub(super) fn name<'a>(exports: &'a [Export], export: &'a Export) -> &'a str {
        if exports.len() == 1 { "volume" } else { &export.name }
    }

    fn find(&self, inode: INodeNo) -> Result<(usize, &Export), Errno> {
        let file = inode.0.checked_sub(FIRST_FILE).ok_or(Errno::EISDIR)? as usize;
        self.exports.get(file).map(|export| (file, export)).ok_or(Errno::ENOENT)
    }

    fn attributes(&self, inode: INodeNo) -> Result<FileAttr, Errno> {
        let (kind, perm, size, blksize) = match inode {
            INodeNo::ROOT => (FileType::Directory, 0o500, 0, 4096),
            inode => {
                let (_, export) = self.find(inode)?;
                (FileType::RegularFile, 0o600, export.size_bytes, export.block_bytes)
            }
        };
        Ok(FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: self.owner.0,
            gid: self.owner.1,
            rdev: 0,
            blksize: blksize.max(4096),
            flags: 0,
        })
    }

    /// Index of the file, if the range to change lies in it.
    fn within(&self, inode: INodeNo, offset: u64, length: u64) -> Result<usize, Errno> {
        let (file, export) = self.find(inode)?;
        match offset.checked_add(length) {
            Some(end) if end <= export.size_bytes => Ok(file),
            _ => Err(Errno::ENOSPC),
        }
    }

    fn put(&self, request: &Request, file: usize, kind: CallKind) {
        self.queue.put(Call { file, stream: request.pid().into(), kind });
    }
}

impl Filesystem for Files {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Without this the kernel submits the I/O of a loop device one at a time. On an old kernel
        // that lacks it everything is slower, but correct.
        let _ = config.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let refused = |nearest| io::Error::other(format!("the kernel accepts at most {nearest}"));
        config.set_max_background(BACKGROUND_MAX).map_err(refused)?;
        config.set_max_write(REQUEST_BYTES).map_err(|nearest| {
            io::Error::other(format!("the kernel accepts at most {nearest} bytes"))
        })?;
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let exports = &self.exports;
        let is_it = |export: &Export| name == Files::name(exports, export);
        let found = exports.iter().position(is_it).filter(|_| parent == INodeNo::ROOT);
        match found.map(|file| self.attributes(INodeNo(FIRST_FILE + file as u64))) {
            Some(Ok(attributes)) => reply.entry(&TTL, &attributes, Generation(0)),
            _ => reply.error(Errno::ENOENT),
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.attributes(inode) {
            Ok(attributes) => reply.attr(&TTL, &attributes),
            Err(error) => reply.error(error),
        }
    }

    /// Changes nothing: programs that write images truncate the file first.
    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.getattr(request, inode, handle, reply);
    }

    fn open(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.find(inode) {
            Ok((file, _)) => {
                let flags = FopenFlags::FOPEN_DIRECT_IO | FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES;
                reply.opened(FileHandle(file as u64), flags);
            }
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &self,
        request: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.find(inode) {
            Err(error) => reply.error(error),
            Ok((_, export)) if offset >= export.size_bytes || size == 0 => reply.data(&[]),
            Ok((file, export)) => {
                let length = u64::from(size).min(export.size_bytes - offset);
                self.put(request, file, CallKind::Read { offset, length, reply });
            }
        }
    }

    fn write(
        &self,
        request: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.within(inode, offset, data.len() as u64) {
            Err(error) => reply.error(error),
            Ok(_) if data.is_empty() => reply.written(0),
            Ok(file) => {
                // With O_DSYNC a write must be durable when it returns. O_SYNC contains that bit.
                let durability = match flags.0 & libc::O_DSYNC {
                    0 => Durability::Later,
                    _ => Durability::AtReply,
                };
                let data = self.queue.copy_into_spare(data);
                self.put(request, file, CallKind::Write { offset, data, durability, reply });
            }
        }
    }

    /// Closing a file makes nothing durable. After this error the kernel does not call again.
    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fsync(&self, request: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        match self.find(inode) {
            Ok((file, _)) => self.put(request, file, CallKind::Flush { reply }),
            Err(error) => reply.error(error),
        }
    }

    /// Punches a hole, which then reads as zeroes: loop devices zero blocks this way. Other modes
    /// are not supported; the kernel falls back to writes.
    fn fallocate(
        &self,
        request: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        if mode != libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE {
            return reply.error(Errno::EOPNOTSUPP);
        }
        let unit = self.find(inode).map_or(1, |(_, export)| u64::from(export.block_bytes));
        match self.within(inode, offset, length) {
            Ok(_) if [offset, length].iter().any(|number| !number.is_multiple_of(unit)) => {
                reply.error(Errno::EINVAL);
            }
            Ok(file) => self.put(request, file, CallKind::Punch { offset, length, reply }),
            Err(error) => reply.error(error),
        }
    }

    /// Reports everything as data.
    fn lseek(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        let size_bytes = self.find(inode).map_or(0, |(_, export)| export.size_bytes);
        match whence {
            _ if !(0..size_bytes as i64).contains(&offset) => reply.error(Errno::ENXIO),
            libc::SEEK_DATA => reply.offset(offset),
            libc::SEEK_HOLE => reply.offset(size_bytes as i64),
            _ => reply.error(Errno::EINVAL),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        if inode != INodeNo::ROOT {
            return reply.error(Errno::ENOTDIR);
        }
        let folders = [".", ".."].map(|name| (INodeNo::ROOT, FileType::Directory, name));
        let files = (FIRST_FILE..).zip(&self.exports).map(|(number, export)| {
            (INodeNo(number), FileType::RegularFile, Files::name(&self.exports, export))
        });
        let entries = (1..).zip(folders.into_iter().chain(files));
        for (next, (inode, kind, name)) in entries.skip(offset as usize) {
            if reply.add(inode, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}

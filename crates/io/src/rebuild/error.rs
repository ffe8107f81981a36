//! Why rebuilds and replacements are refused.

use std::fmt;

/// Why a rebuild cannot start.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RebuildError {
    /// The members are served without a volume.
    #[error(
        "cannot {0}: no volume is served, only disks\n  help: `serve`, and `emulate` with an array \
         and without --members, serve a volume"
    )]
    NoVolume(RebuildTask),
    /// Nothing may be written to members.
    #[error("cannot {0}: the volume is read-only\n  help: restart the server without --read-only")]
    ReadOnly(RebuildTask),
    #[error("the volume has no member with devid {0}\n  help: `ctl members` lists the members")]
    NoSuchMember(u64),
    /// The device was removed, and may be in use for something else.
    #[error(
        "the device of the member with devid {0} was removed, so there is none to rebuild it on\n  \
         help: `ctl members replace {0} DEVICE` rebuilds it on any device"
    )]
    Removed(u64),
    /// The member is in sync.
    #[error(
        "the member with devid {0} is in sync: there is nothing to rebuild\n  help: `ctl members` \
         shows the states of the members"
    )]
    InSync(u64),
    /// It has not failed, so its device is open.
    #[error(
        "the member with devid {0} has not failed, and has its device\n  help: `ctl members \
         replace {0} DEVICE` moves it to another one"
    )]
    Works(u64),
    /// The profile has no redundancy.
    #[error(
        "the profile of the volume keeps a single copy of the data: there is nothing to rebuild \
         from\n  help: restore the data from a backup"
    )]
    NoCopy,
    /// Every other member has failed, too.
    #[error(
        "the other members do not have all data in sync, and the member may have what they lack: \
         there is nothing to rebuild from\n  help: `ctl status` shows what the other members lack; \
         save what can be read"
    )]
    NoSource,
    /// The member to copy from is on a server that does not answer, or may have lost writes.
    #[error(
        "devid {0}, which has the only copy of some data, cannot be read now: there is nothing to \
         rebuild from\n  help: `ctl status` shows what to do about devid {0}"
    )]
    UnreachableSource(u64),
    #[error("the member with devid {devid} cannot be rebuilt yet: {why}")]
    NotBack { devid: u64, why: String },
    /// The device cannot take its place.
    #[error("the device cannot take the place of the member with devid {devid}: {why}")]
    Unfit { devid: u64, why: String },
    /// It is being opened for an earlier request.
    #[error(
        "the member with devid {0} is already being opened for a rebuild\n  help: run the command \
         again when `ctl status` shows the rebuild"
    )]
    Opening(u64),
    /// It is being replaced.
    #[error(
        "the member with devid {devid} is being copied to `{device}`, which takes its place then\n\
         \x20 help: `ctl status` shows how far that is; `ctl members remove --spare {device}` ends \
         the copy"
    )]
    Copying { devid: u64, device: String },
    /// It works, and may have the only copy of some data.
    #[error(
        "cannot replace the storage of devid {devid} now: it may have the only copy of some data, \
         because devid {other} is not in sync\n  help: {}", match is_rebuilding {
            true => format!("wait for the rebuild of devid {other}: `ctl status` shows it"),
            false => format!("rebuild devid {other} first"),
        }
    )]
    Needed {
        devid: u64,
        /// The member that is not in sync.
        other: u64,
        /// True if that is being rebuilt.
        is_rebuilding: bool,
    },
    /// The member is in sync, and only files and block devices get a copy while it stays in use.
    #[error(
        "the member with devid {devid} is in use, and cannot be copied to an NBD server: \
         `{device}`\n  help: give a file or block device; or give the member up first, with what \
         the others cannot read: `ctl members fail {devid}`"
    )]
    Remote { devid: u64, device: String },
    /// The device that was named is the member itself, which works.
    #[error(
        "`{device}` is the member with devid {devid} already\n  help: give another device; `ctl \
         members rebuild {devid} --rate BYTES` changes the rate of a rebuild"
    )]
    SameDevice { devid: u64, device: String },
    /// The device that was named is another member.
    #[error("`{device}` is the member with devid {devid}\n  help: give a device that is no member")]
    OtherMember { devid: u64, device: String },
    /// The members have no device.
    #[error(
        "members that are emulated have no device to replace\n  help: members of `serve` can be \
         replaced"
    )]
    Emulated,
}

/// The request that an error is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RebuildTask {
    /// A rebuild on the same device.
    Rebuild,
    /// A device in the place of a member.
    Replace,
    /// A device in the place of the member that has failed.
    Add,
    /// A place without a device.
    Remove,
    /// A member that is not used any more.
    Fail,
}

impl fmt::Display for RebuildTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RebuildTask::Rebuild => "rebuild the member",
            RebuildTask::Replace => "replace the member",
            RebuildTask::Add => "add a device",
            RebuildTask::Remove => "remove the member",
            RebuildTask::Fail => "fail the member",
        })
    }
}

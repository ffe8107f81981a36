//! Errors of volumes that are served by the labels of their members.

use crate::assemble::{AssembleError, PARITY_HELP};
use crate::examine::{DeviceError, MapError};
use mirrorball_core::geometry::Profile;

/// Why a labelled volume cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum LabelledError {
    /// The label of a device cannot be used.
    #[error("`{device}` {error}")]
    Unreadable { device: String, error: DeviceError },
    /// No device has a label.
    #[error(
        "`{device}` has no label{contents}\n  help: give members of a volume; if their labels were \
         overwritten, `mirrorball create --restore FILE {device}` writes one back that was \
         saved; \
         `mirrorball create` makes a new volume and destroys what devices contain"
    )]
    NoLabel {
        /// The first device.
        device: String,
        /// Contents of the device, as the end of a sentence.
        contents: String,
    },
    /// A device has no label, and another has one.
    #[error(
        "`{device}` has no label, so it is no member of `{volume}`\n  help: to put it in the place \
         of a missing member, start without it (--degraded), then run `ctl members replace DEVID \
         {device}`"
    )]
    Foreign { device: String, volume: String },
    /// No device has a label.
    #[error(
        "no member of a volume was found\n  help: `mirrorball examine` shows the labels of \
         devices; `mirrorball create` makes a new volume and destroys what the devices contain"
    )]
    Nothing,
    /// Every device of a volume is discarded.
    #[error(
        "every device of the volume `{0}` is discarded (--discard), so no copy of its data is \
         left\n  help: leave out --discard for the device to keep"
    )]
    AllDiscarded(String),
    #[error("the devices belong to several volumes: {list}\n  help: {choice}")]
    Several { list: String, choice: &'static str },
    #[error("several volumes have the name `{name}`: {list}\n  help: give the UUID: --volume UUID")]
    SameName { name: String, list: String },
    #[error("no device belongs to the volume `{wanted}`{found}")]
    NoSuchVolume { wanted: String, found: String },
    /// A device to discard is not among the devices.
    #[error("--discard {device}: it is not among the devices of the volume\n  help: {known}")]
    NotThere { device: String, known: String },
    /// A member that is given up as lost is there, or no member has the UUID.
    #[error("--discard {uuid}: {why}")]
    NotLost {
        uuid: String,
        /// Which of both, and what to do.
        why: &'static str,
    },
    /// Only the user can decide about some devices.
    #[error("cannot start `{name}`: {problems}")]
    Doubtful {
        name: String,
        problems: String,
        /// True if a member was not found that may decide it once it is there.
        lacks_member: bool,
    },
    /// Members that were in sync are missing.
    #[error(
        "cannot start `{name}`: {missing}\n  help: connect the device, or start with --read-only, \
         as a missing member may have newer data, or with --degraded: then `ctl members replace \
         {devid} DEVICE` rebuilds the missing member on any device, or a later start with its own \
         device does"
    )]
    NeedsDegraded {
        name: String,
        /// The devid of the member, or a word for that if there are several.
        devid: String,
        missing: String,
    },
    /// Members that do not know of the end of a rebuild would start without the rebuilt one.
    #[error("cannot start {0}")]
    Announced(String),
    /// Some data are on none of the members in sync.
    #[error(
        "cannot start `{name}`: some of its data are on no member that is in sync; {missing}\n  \
         help: connect the members that have the rest, or start with --read-only, which serves \
         what can be read; a member that left may have the rest as it was then: look at it alone \
         with --read-only, and if it is right, start it alone with --degraded"
    )]
    Incomplete { name: String, missing: String },
    /// No member has data in sync.
    #[error(
        "cannot start `{name}`: no member that is there has data in sync; {missing}\n  help: \
         connect the members that have the data"
    )]
    NothingLeft { name: String, missing: String },
    /// The volume has parity.
    #[error(
        "cannot start `{name}`: it is a {profile} of an earlier version, and parity is simulated \
         and emulated, not served\n  help: copy the data with the version that created it; \
         {PARITY_HELP}"
    )]
    Parity { name: String, profile: Profile },
    /// The data cannot be found on the members.
    #[error(transparent)]
    Layout(#[from] MapError),
    /// Only a newer version may write.
    #[error(
        "the volume `{0}` uses features that this version of mirrorball may only read\n  help: \
         start it with --read-only"
    )]
    ReadOnlyFeatures(String),
    /// A device is smaller than its label says.
    #[error(
        "`{device}` has {size_bytes} bytes, but the member with devid {devid} has {needed_bytes} \
         by its label: it was truncated, or is not the whole device\n  help: give the whole \
         device, or start with --discard {device} and rebuild the member on another device: `ctl \
         members replace {devid} DEVICE`"
    )]
    TooSmall { device: String, devid: u64, size_bytes: u64, needed_bytes: u64 },
    /// The ranges that members lack would be read as data.
    #[error(
        "cannot start `{0}`: the list of its bad blocks is lost on all members that are there\n  \
         help: connect the others; if this is the last copy, `mirrorball examine --save FILE` and \
         `mirrorball create --restore FILE` make it usable, and bad blocks are read as data"
    )]
    BadBlocksLost(String),
    #[error("{0}")]
    Policy(String),
    /// A device cannot be opened, or the system failed.
    #[error(transparent)]
    Assemble(#[from] AssembleError),
}

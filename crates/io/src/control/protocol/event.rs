//! The events of a service, as a client of the control socket gets them: a line of JSON each.
//!
//! ```text
//! {"number":7,"time_unix_ms":1795384801250,"event":"rebuild-finished","devid":2}
//! ```

use super::VolumeHealth;
use serde::{Deserialize, Serialize};

/// Something that happened to a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceEvent {
    /// Counts the events of the service, from 1.
    pub number: u64,
    /// When it was noticed: milliseconds since 1970, by the clock of the machine.
    pub time_unix_ms: u64,
    /// What changed.
    #[serde(flatten)]
    pub change: StateChange,
}

/// What an event is about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum StateChange {
    /// The service started. Events of what is not as it should be at that time follow.
    ServiceStarted {
        /// Whether all members are in sync.
        health: VolumeHealth,
    },
    /// The service was stopped, and ends when its clients have their replies: the last event.
    ServiceStopping,
    /// The health of the volume changed.
    HealthChanged {
        /// The health from now on.
        health: VolumeHealth,
    },
    /// A member failed, by itself or on request, and is not used.
    MemberFailed {
        /// The member.
        devid: u64,
        /// What went wrong; `None` if it had failed before the service started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// No connection with the server of a member is open any more. It is tried again.
    MemberUnreachable {
        /// The member.
        devid: u64,
    },
    /// A member that was unreachable can be used again.
    MemberReachable {
        /// The member.
        devid: u64,
    },
    /// The device of a member was not found when the volume was started.
    MemberMissing {
        /// The member.
        devid: u64,
    },
    /// The device of a failed member was removed.
    MemberRemoved {
        /// The member.
        devid: u64,
    },
    /// A device was made a spare.
    SpareAdded {
        /// Path or URI of the device.
        device: String,
    },
    /// A spare was given up.
    SpareRemoved {
        /// Path or URI of the device, or its UUID.
        device: String,
    },
    /// A spare could not take the place of a member, and is not tried again.
    SpareFailed {
        /// Path or URI of the device.
        device: String,
        /// Why not.
        error: String,
    },
    /// Another device takes the place of a member: a spare, or one that the user named.
    MemberReplaced {
        /// The member.
        devid: u64,
        /// Path or URI of the device.
        device: String,
    },
    /// The rebuild of a member starts, or goes on after a restart.
    RebuildStarted {
        /// The member.
        devid: u64,
    },
    /// A member returned data that do not match their checksums. Follows when the number of blocks
    /// has doubled since the last event, so a bad disk has few of them.
    ChecksumMismatch {
        /// The member.
        devid: u64,
        /// Number of blocks of 4 KiB since the start of the service.
        blocks: u64,
    },
    /// A fifth, two, three or four of the rebuild of a member are done.
    RebuildProgress {
        /// The member.
        devid: u64,
        /// 20, 40, 60 or 80.
        percent: u64,
    },
    /// A step of the rebuild of a member failed. It is tried again every 10 s.
    RebuildStalled {
        /// The member.
        devid: u64,
        /// Why.
        reason: String,
    },
    /// Requests of clients failed, because too few members could be read or written. Recorded when
    /// their number has doubled since the last event.
    RequestsFailed {
        /// Number of reads since the start of the service.
        reads: u64,
        /// Number of writes, flushes and discards.
        writes: u64,
        /// The last error of a member that is used, if there was one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        reason: Option<String>,
    },
    /// A member was rebuilt, and is in sync.
    RebuildFinished {
        /// The member.
        devid: u64,
    },
    /// Checksums could not be read on the only members that may have them. Their blocks are read
    /// as if they had none until they are written or scrubbed.
    ChecksumsLost {
        /// Pages of 512 checksums since the start of the service. Recorded when their number has
        /// doubled.
        pages: u64,
    },
    /// Mirrors may differ, and are being synchronised.
    ResyncStarted {
        /// Bytes of the volume.
        unsynced_bytes: u64,
    },
    /// All mirrors are synchronised.
    ResyncFinished,
    /// A scrub started, or goes on after a restart.
    ScrubStarted,
    /// The scrub was paused.
    ScrubPaused,
    /// The scrub goes on after a pause.
    ScrubResumed,
    /// The scrub was given up.
    ScrubCancelled,
    /// A scrub checked the whole volume.
    ScrubFinished {
        /// Number of blocks of 4 KiB that differed between mirrors.
        differing_blocks: u64,
        /// Number of blocks of those that were made equal.
        repaired_blocks: u64,
        /// Number of blocks of 4 KiB, on any member, that did not match their checksums.
        #[serde(default)]
        mismatched_blocks: u64,
        /// Number of blocks of 4 KiB that no mirror could read, or that no mirror has right.
        unreadable_blocks: u64,
        /// Bytes of the volume that were not compared, because members were not in sync.
        #[serde(default)]
        uncompared_bytes: u64,
    },
    /// Another policy chooses the mirrors.
    PolicyChanged {
        /// Its name.
        policy: String,
    },
    /// A program does not choose the mirrors any more, or was not started: its fallback does.
    PolicyFault {
        /// The program and what it did, or why it was not started.
        fault: String,
    },
    /// Events before this one were not sent, because the client did not take them in time.
    EventsLost {
        /// Their number.
        count: u64,
    },
}

//! The events of a service, as a client of the control socket gets them: a line of JSON each.
//!
//! ```text
//! {"number":7,"time_unix_ms":1795384801250,"event":"rebuild-finished","devid":2}
//! ```

use super::Condition;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceEvent {
    /// Counts the events of the service, from 1.
    pub number: u64,
    /// When it was noticed: milliseconds since 1970, by the clock of the machine.
    pub time_unix_ms: u64,
    #[serde(flatten)]
    pub change: StateChange,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum StateChange {
    /// The service started. Conditions at that time follow.
    ServiceStarted,
    /// The service was stopped, and ends when its clients have their replies: the last event.
    ServiceStopping,
    Began(Condition),
    /// A condition goes on: a fifth of a rebuild is done, or a count has doubled.
    Changed(Condition),
    /// A condition is over.
    Ended(Condition),
    SpareAdded {
        device: String,
    },
    SpareRemoved {
        /// Path or URI of the device, or its UUID.
        device: String,
    },
    /// Another device takes the place of a member: a spare, or one that the user named.
    MemberReplaced {
        devid: u64,
        device: String,
    },
    /// A scrub started, or goes on after a restart.
    ScrubStarted,
    ScrubPaused,
    /// The scrub goes on after a pause.
    ScrubResumed,
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
        policy: String,
    },
    /// Events before this one were not sent, because the client did not take them in time.
    EventsLost {
        count: u64,
    },
}

//! Conditions: what may be wrong with a volume, a member or a spare.
//!
//! One table has the name, the severity and the texts of each. `ctl status`, the events, the
//! metrics, the lines of a service on stderr, `examine` and the notes of a start print them.

mod state;
#[cfg(test)]
mod tests;
mod texts;

use crate::executor::MemberFault;
use crate::rebuild::MemberCopy;
use mirrorball_core::diagnostic::quoted;
use mirrorball_core::io::VolumeError;
use mirrorball_core::units::{Nanos, counted, format_bytes};
use serde::{Deserialize, Serialize};
pub use state::ReportedState;
use std::fmt;
pub(crate) use texts::diverged_help;
pub use texts::{duration_text, limit_text, mismatch_text};
use texts::{
    failed_help, failed_member_text, failed_text, missing_help, missing_spare_text, progress_text,
    recovery_text, stalled_text, unreachable_help, unreachable_text, unsynced_text,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// No data and no copies are in danger.
    Note,
    /// The volume mends it by itself, or it needs attention soon.
    Warning,
    /// Copies or data are lost, or clients get errors.
    Error,
}

impl Severity {
    pub fn name(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// Something that is wrong, in words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Condition {
    /// Name, as the chapter "Run a volume" and the metrics have it.
    pub name: String,
    pub severity: Severity,
    /// The member; `None` if it is about the volume or a spare.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub devid: Option<u64>,
    /// The problem, with the member, its device and figures.
    pub text: String,
    /// Advice; `None` if there is nothing to do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub help: Option<String>,
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        self.help.iter().try_for_each(|help| write!(f, "\n  help: {help}"))
    }
}

/// A kind of condition, with the figures of its text.
#[derive(Clone, Debug, PartialEq)]
pub enum Problem<'a> {
    /// A member failed, by itself or on request, and is not used.
    MemberFailed {
        /// The last error before.
        fault: Option<MemberFault>,
        /// True if it stays out at the next start.
        is_kept_out: bool,
    },
    /// A member returns errors and stays in use, because it has the only copy of some data; with
    /// its last error.
    MemberFailing(Option<MemberFault>),
    /// The device of a member was not found at the start.
    MemberMissing,
    /// The device of a member was used without the others, and is left out.
    MemberDiverged,
    /// The device of a failed member was removed.
    MemberRemoved,
    /// No connection with the server of a member is open.
    MemberUnreachable {
        /// True if the server may have lost writes, and is not asked again before a restart.
        needs_restart: bool,
    },
    /// No I/O of a member has ended for a time, though this number is in flight.
    MemberStalled(Nanos, u32),
    /// A member is not in sync everywhere.
    MemberRebuilding(Recovery),
    /// A member is copied to this device, and stays in use until that takes its place.
    MemberReplacing(Recovery, &'a MemberCopy),
    /// A device could not take the place of a member, which stays in use.
    ReplaceFailed(&'a MemberCopy),
    /// No I/O of the device to which a member is copied has ended for a time, though this number is
    /// in flight.
    ReplaceStalled(&'a MemberCopy, Nanos, u32),
    /// A step of a rebuild failed.
    RebuildStalled(VolumeError),
    /// Number of blocks that a member lacks, because no mirror could give them when it was rebuilt
    /// or mirrors were synchronised.
    RebuildLeftBlocks(u64),
    /// Number of blocks of a member that did not match their checksums.
    ChecksumMismatch(u64),
    /// Number of pages of checksums that no member could read.
    ChecksumsLost(u64),
    /// Bytes of the volume in which mirrors may differ.
    MirrorsUnsynced(u64),
    /// Requests of clients that too few members could serve.
    RequestsFailed(FailedCounts),
    /// Blocks that the last scrub left without a right copy, or that differ.
    ScrubLeftBlocks(u64),
    /// Bytes that the last scrub could not compare.
    ScrubIncomplete(u64),
    /// The device of a spare was not found at the start.
    /// With the devid of the member that was being copied to it.
    SpareMissing(Option<u64>),
    /// A spare could not take the place of a member.
    SpareFailed(&'a str),
    /// The fallback of a program decides in place of the program.
    PolicyFault(&'a str),
}

/// How far a rebuild is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Bytes of the member that are in sync.
    pub recovered_bytes: u64,
    pub total_bytes: u64,
    /// True if the member gets only what it missed.
    pub only_missed: bool,
    /// Rate limit in bytes per second.
    pub rate: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedCounts {
    pub reads: u64,
    /// Number of writes, flushes and discards.
    pub writes: u64,
    /// The last error of a member in use: the member, the error and its age.
    pub last_error: Option<(String, MemberFault, Nanos)>,
}

/// State of a volume, which decides what can be done about a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Situation {
    /// Labels are examined, or a volume is about to start.
    NotServed,
    /// The volume is served, and cannot be written.
    ReadOnly,
    /// The volume is served, and members without labels are rebuilt where they are.
    Emulated,
    Served {
        has_spares: bool,
        /// True if a scrub left blocks that differ or do not match.
        has_left_blocks: bool,
    },
}

impl Situation {
    /// A volume that is served, without spares, and of which a scrub left nothing.
    pub const SERVED: Situation = Situation::Served { has_spares: false, has_left_blocks: false };
}

/// The member or spare that a problem is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConditionSubject {
    pub devid: Option<u64>,
    /// Path or URI of its device, or the UUID of a spare without one.
    pub device: Option<String>,
}

impl ConditionSubject {
    pub fn member(devid: u64, device: Option<String>) -> ConditionSubject {
        ConditionSubject { devid: Some(devid), device }
    }

    /// A spare: its device or UUID.
    pub fn spare(name: String) -> ConditionSubject {
        ConditionSubject { devid: None, device: Some(name) }
    }
}

impl fmt::Display for ConditionSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.devid, &self.device) {
            (Some(devid), Some(device)) => write!(f, "devid {devid} ({device})"),
            (Some(devid), None) => write!(f, "devid {devid}"),
            (None, Some(spare)) => write!(f, "spare {spare}"),
            (None, None) => f.write_str("the volume"),
        }
    }
}

impl Problem<'_> {
    /// The row of the table: name, severity, and the text for its end.
    pub fn row(&self) -> (&'static str, Severity, &'static str) {
        use Severity::{Error, Note, Warning};
        match self {
            Problem::MemberFailed { .. } => ("member-failed", Error, "not failed any more"),
            Problem::MemberFailing(_) => ("member-failing", Error, "its errors are over"),
            Problem::MemberMissing => ("member-missing", Error, "not missing any more"),
            Problem::MemberDiverged => ("member-diverged", Error, "not left out any more"),
            Problem::MemberRemoved => ("member-removed", Error, "has a device again"),
            Problem::MemberUnreachable { needs_restart } => {
                let severity = if *needs_restart { Error } else { Warning };
                ("member-unreachable", severity, "its server can be reached again")
            }
            Problem::MemberStalled(..) => ("member-stalled", Warning, "it answers again"),
            Problem::MemberRebuilding(_) => ("member-rebuilding", Warning, "its rebuild ended"),
            Problem::MemberReplacing(..) => ("member-replacing", Warning, "its copy ended"),
            Problem::ReplaceFailed(_) => ("replace-failed", Error, "its replacement began again"),
            Problem::ReplaceStalled(..) => {
                ("replace-stalled", Warning, "its new device answers, or was given up")
            }
            Problem::RebuildStalled(_) => ("rebuild-stalled", Error, "its rebuild goes on"),
            Problem::RebuildLeftBlocks(_) => {
                ("rebuild-left-blocks", Error, "no block is missing on it")
            }
            Problem::ChecksumMismatch(_) => {
                ("checksum-mismatch", Warning, "a scrub found no more of them")
            }
            Problem::ChecksumsLost(_) => {
                ("checksums-lost", Warning, "a scrub has made the checksums that were lost")
            }
            Problem::MirrorsUnsynced(_) => ("mirrors-unsynced", Warning, "all mirrors are equal"),
            Problem::RequestsFailed(_) => {
                ("requests-failed", Error, "a scrub has read all data since requests failed")
            }
            Problem::ScrubLeftBlocks(_) => {
                ("scrub-left-blocks", Error, "the last scrub left no bad blocks")
            }
            Problem::ScrubIncomplete(_) => {
                ("scrub-incomplete", Warning, "the last scrub compared everything")
            }
            Problem::SpareMissing(_) => ("spare-missing", Warning, "not missing any more"),
            Problem::SpareFailed(_) => ("spare-failed", Warning, "not failed any more"),
            Problem::PolicyFault(_) => ("policy-fault", Note, "the policy that was set decides"),
        }
    }

    pub fn name(&self) -> &'static str {
        self.row().0
    }

    /// The state of a member that has this problem; `None` if it may be in any state.
    pub fn state(&self) -> Option<ReportedState> {
        match self {
            Problem::MemberFailed { .. } => Some(ReportedState::Failed),
            Problem::MemberMissing => Some(ReportedState::Missing),
            Problem::MemberDiverged => Some(ReportedState::Diverged),
            Problem::MemberRemoved => Some(ReportedState::Removed),
            Problem::MemberUnreachable { .. } => Some(ReportedState::Unreachable),
            Problem::MemberRebuilding(_) => Some(ReportedState::Rebuilding),
            _ => None,
        }
    }

    /// Changes when an event is due: with each fifth of a rebuild, when a count has doubled, and
    /// when a member that had failed is to stay out.
    pub(crate) fn step(&self) -> u64 {
        let doublings = |count: u64| u64::from(count.checked_ilog2().unwrap_or(0));
        match self {
            Problem::MemberFailed { is_kept_out, .. } => u64::from(*is_kept_out),
            Problem::MemberUnreachable { needs_restart } => u64::from(*needs_restart),
            Problem::MemberRebuilding(Recovery { recovered_bytes, total_bytes, .. })
            | Problem::MemberReplacing(Recovery { recovered_bytes, total_bytes, .. }, _) => {
                let total_bytes = (*total_bytes).max(1);
                (5 * u128::from(*recovered_bytes) / u128::from(total_bytes)).min(4) as u64
            }
            Problem::RequestsFailed(FailedCounts { reads, writes, .. }) => {
                doublings(reads + writes)
            }
            Problem::ChecksumMismatch(count)
            | Problem::ChecksumsLost(count)
            | Problem::RebuildLeftBlocks(count)
            | Problem::ScrubLeftBlocks(count) => doublings(*count),
            _ => 0,
        }
    }

    pub fn describe(&self, subject: &ConditionSubject, situation: Situation) -> Condition {
        let (name, severity, _) = self.row();
        Condition {
            name: name.to_owned(),
            severity,
            devid: subject.devid,
            text: self.text(subject, situation),
            // Texts name `ctl` as the documentation does; these are to be run as they are.
            help: self.help(subject, situation).map(|it| it.replace("`ctl ", "`mirrorball ctl ")),
        }
    }

    fn text(&self, subject: &ConditionSubject, situation: Situation) -> String {
        match self {
            Problem::MemberFailed { fault, is_kept_out } => {
                failed_member_text(subject, *fault, *is_kept_out)
            }
            Problem::MemberFailing(fault) => {
                let fault = fault.map_or(String::new(), |fault| format!(": {fault}"));
                format!("{subject} returns errors, and is used as the last copy of data{fault}")
            }
            Problem::MemberMissing => format!("{subject} is missing"),
            Problem::MemberDiverged => format!(
                "the device of {subject} was used without the others and is left out: it may have \
                 data that they lack"
            ),
            Problem::MemberRemoved => format!("the device of {subject} was removed"),
            Problem::MemberUnreachable { needs_restart } => {
                unreachable_text(subject, *needs_restart)
            }
            Problem::MemberStalled(waits, count) => stalled_text(subject, *waits, *count),
            Problem::MemberRebuilding(recovery) => recovery_text(recovery, subject, situation),
            Problem::MemberReplacing(recovery, copy) => format!(
                "{subject} is being copied to {}, which takes its place then: {}",
                copy.device(),
                progress_text(recovery)
            ),
            Problem::ReplaceFailed(copy) => format!(
                "{} cannot take the place of {subject}, which stays in use: {}",
                copy.device(),
                copy.error.as_deref().unwrap_or_default()
            ),
            Problem::ReplaceStalled(copy, waits, count) => {
                let device = format!("{}, to which {subject} is being copied,", copy.device());
                stalled_text(device, *waits, *count)
            }
            Problem::RebuildStalled(error) => {
                format!("the rebuild of {subject} does not go on: {error}")
            }
            Problem::RebuildLeftBlocks(count) => format!(
                "{subject} lacks {}, which no member could give when they were copied",
                counted(*count, "block of 4 KiB", "blocks of 4 KiB")
            ),
            Problem::ChecksumMismatch(count) => format!("{subject}: {}", mismatch_text(*count)),
            Problem::ChecksumsLost(count) => format!(
                "the checksums of {} could not be read on any member, so reads there are not \
                 verified",
                counted(512 * count, "block", "blocks")
            ),
            Problem::MirrorsUnsynced(bytes) => unsynced_text(*bytes, situation),
            Problem::RequestsFailed(counts) => failed_text(counts),
            Problem::ScrubLeftBlocks(count) => format!(
                "the last scrub left {} that differ, or have no right copy",
                counted(*count, "block of 4 KiB", "blocks of 4 KiB")
            ),
            Problem::ScrubIncomplete(bytes) => format!(
                "the last scrub did not compare {}, because too few members were in sync",
                format_bytes(*bytes)
            ),
            Problem::SpareMissing(copied) => missing_spare_text(subject, *copied),
            Problem::SpareFailed(error) => {
                format!("{subject} could not take the place of a member: {error}")
            }
            Problem::PolicyFault(fault) => {
                format!("the fallback decides in place of the program: {fault}")
            }
        }
    }

    fn help(&self, subject: &ConditionSubject, situation: Situation) -> Option<String> {
        let is_writable = situation != Situation::ReadOnly;
        let is_served = matches!(situation, Situation::Served { .. });
        let devid = subject.devid.unwrap_or(0);
        let text = match self {
            Problem::MemberFailed { is_kept_out, .. } => {
                return failed_help(subject, *is_kept_out, situation);
            }
            Problem::MemberFailing(_) if is_writable => format!(
                "copy the data elsewhere now; when another member is in sync, `ctl members replace \
                 {devid} DEVICE`"
            ),
            Problem::MemberMissing => return missing_help(devid, situation),
            Problem::MemberDiverged if is_served => diverged_help(devid),
            Problem::MemberDiverged => "`serve --read-only DEVICE --export ADDRESS` reads what it \
                                        has; start with `--discard DEVICE` to give that up and \
                                        rebuild it"
                .to_owned(),
            Problem::MemberRemoved if is_writable => format!(
                "`ctl members replace {devid} DEVICE` rebuilds the member on another device"
            ),
            Problem::MemberUnreachable { needs_restart } => {
                unreachable_help(*needs_restart, situation).to_owned()
            }
            Problem::MemberStalled(..) => format!(
                "the system gives up by itself, after 30 s for each try as a rule; `ctl members \
                 fail {devid}` keeps new requests off a member that the volume can do without"
            ),
            Problem::ReplaceFailed(_) if is_writable => {
                format!("`ctl members replace {devid} DEVICE` copies it to another device")
            }
            Problem::ReplaceStalled(copy, ..) if is_writable => format!(
                "writes wait for it; `ctl members remove --spare {}` ends the copy, but not those \
                 in flight",
                quoted(&copy.device())
            ),
            Problem::RebuildStalled(_) => STALLED_HELP.to_owned(),
            Problem::RebuildLeftBlocks(_) if is_writable => LEFT_BLOCKS_HELP.to_owned(),
            Problem::ChecksumMismatch(_) if is_writable => {
                "what another mirror has right was repaired; `ctl scrub start` checks all blocks; \
                 replace the device if the count grows"
                    .to_owned()
            }
            Problem::ChecksumsLost(_) if is_writable => {
                "`ctl scrub start` makes new ones where mirrors are equal".to_owned()
            }
            Problem::RequestsFailed(_) => "`ctl members` shows the last error of each member; a \
                                           block that no mirror has right is an error until it \
                                           is written again, for example from a backup"
                .to_owned(),
            Problem::ScrubLeftBlocks(_) => {
                "`ctl scrub status` shows where, and how to repair them".to_owned()
            }
            Problem::ScrubIncomplete(_) if is_writable => {
                "when all members are in sync, `ctl scrub start`".to_owned()
            }
            Problem::SpareMissing(copied) if is_writable => spare_help(subject, copied.is_some()),
            Problem::SpareFailed(_) if is_writable => spare_help(subject, false),
            Problem::PolicyFault(_) => {
                "`ctl policy NAME` sets a policy; `ctl policy program:FILE` loads the program \
                 again"
                    .to_owned()
            }
            _ => return None,
        };
        Some(text)
    }
}

/// Advice for a spare that is not there, perhaps while a member is copied to it.
fn spare_help(subject: &ConditionSubject, is_copied_to: bool) -> String {
    let name = subject.device.as_deref().unwrap_or_default();
    let name = quoted(name.strip_prefix("UUID ").unwrap_or(name));
    let again = if is_copied_to { "named at the next start, it is used again; " } else { "" };
    format!("{again}`ctl members remove --spare {name}` gives it up")
}

/// Advice for a rebuild whose last step failed.
const STALLED_HELP: &str =
    "it is tried again every 10 s; `ctl members` shows the last error of each member";
/// Advice for a member that lacks blocks.
const LEFT_BLOCKS_HELP: &str =
    "`ctl scrub start` copies those that can be read by then; the others are errors until written";

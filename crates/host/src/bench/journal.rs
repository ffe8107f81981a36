//! The journal: what to put back, on disk before anything is changed.
//!
//! One file per array, in `/var/lib/mirrorball/bench`, because md keeps its flags over a reboot. It
//! is written under a temporary name, flushed, renamed, and its folder flushed, before the first
//! knob is set; and removed when everything is as it was. So a journal that is there names an array
//! that may be changed. It has what identifies the array and the members, because after a reboot
//! their names may be those of others.
//!
//! Restoring writes, runs and removes what a journal says, as root. So one that another user may
//! have written is refused, and so is one that says something that Mirrorball never does.
//!
//! The journal of `tune` lies next to that of `bench`, under another ending: the setting that
//! `tune` applied stays, and `bench` comes and goes meanwhile. Both have one lock.

use super::knob::{Knob, KnobKind};
use super::knob_path::KnobPath;
use crate::detect::{Identifiers, Sysroot};
use mirrorball_core::diagnostic::Diagnostic;
use rustix::fs::{Mode, OFlags, Stat, fchmod, fstat, statfs};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

const FOLDER: &str = "/var/lib/mirrorball/bench";
const VERSION: u32 = 2;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// Longest journal that is read.
const JOURNAL_BYTES_MAX: u64 = 1 << 20;
/// Numbers of file systems that a restart empties: tmpfs, ramfs, overlayfs (of a container).
const VOLATILE: [i64; 3] = [0x0102_1994, 0x8584_58f6, 0x794c_7630];

/// Values to restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Journal {
    version: u32,
    /// The array, as `bench` was asked for it.
    pub(crate) array: String,
    pub(crate) identity: Identifiers,
    /// The boot of the kernel that it was written in; empty if not known.
    pub(crate) boot_id: String,
    pub(crate) process: u32,
    /// The folder that is created for the data to read, if any.
    pub(crate) folder: Option<JournalFolder>,
    pub(crate) knobs: Vec<JournalKnob>,
    /// The fio that `bench` has started, while it runs.
    pub(crate) fio: Option<StartedProcess>,
    /// The setting that `tune` applied; none in a journal of `bench`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) tuned: Option<TunedSetting>,
}

/// The setting of a journal of `tune`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TunedSetting {
    /// Canonical policy string of the setting.
    pub(crate) spec: String,
    /// Canonical policy string of the setting before.
    pub(crate) before: String,
    /// True if it stays when the process that applied it ends.
    pub(crate) stays: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct StartedProcess {
    pub(crate) process: u32,
    /// When it was started, in ticks since the boot: another process may get its number later.
    pub(crate) start_time: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JournalFolder {
    pub(crate) path: String,
    /// The folder of the array that it is in, by its path on the machine.
    pub(crate) above: String,
    /// Number in the file system, once it is created.
    pub(crate) inode: Option<u64>,
}

/// A knob, with what it showed and what it may be set to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct JournalKnob {
    pub(crate) knob: Knob,
    /// Identity of the md member that it belongs to; empty for a knob of the array.
    pub(crate) member: Identifiers,
    /// The text of the file before the first change.
    pub(crate) before: String,
    /// Values that `bench` sets. Another program set any other value.
    pub(crate) ours: Vec<String>,
}

#[derive(Deserialize)]
struct JournalVersion {
    version: u32,
}

impl Journal {
    pub(crate) fn new(
        sysroot: &Sysroot,
        array: &str,
        identity: Identifiers,
        knobs: Vec<JournalKnob>,
    ) -> Journal {
        Journal {
            version: VERSION,
            array: array.to_owned(),
            identity,
            boot_id: boot_id(sysroot),
            process: std::process::id(),
            folder: None,
            knobs,
            fio: None,
            tuned: None,
        }
    }

    /// True if the setting stays until `tune --undo`.
    pub(crate) fn stays(&self) -> bool {
        self.tuned.as_ref().is_some_and(|tuned| tuned.stays)
    }

    /// True if a file of ours sets its values again at each start of the machine.
    pub(crate) fn is_kept_over_restarts(&self) -> bool {
        self.knobs.iter().any(|entry| entry.knob.kind == KnobKind::Text)
    }

    /// True if the machine was started again after the journal was written.
    pub(crate) fn is_of_earlier_boot(&self, sysroot: &Sysroot) -> bool {
        let now = boot_id(sysroot);
        !self.boot_id.is_empty() && !now.is_empty() && self.boot_id != now
    }

    fn encode(&self) -> String {
        serde_json::to_string_pretty(self).expect("a journal is plain data") + "\n"
    }

    fn decode(text: &str) -> Result<Journal, String> {
        let what = |error: serde_json::Error| error.to_string();
        match serde_json::from_str(text).map_err(what)? {
            JournalVersion { version: VERSION } => {
                let journal: Journal = serde_json::from_str(text).map_err(what)?;
                journal.check()?;
                Ok(journal)
            }
            JournalVersion { version } => {
                Err(format!("it has version {version}, and this program reads {VERSION}"))
            }
        }
    }

    /// Checks that it says nothing that `bench` and `tune` never do.
    fn check(&self) -> Result<(), String> {
        let is_kind_of_place = |entry: &JournalKnob| {
            let is_empty = entry.before.is_empty();
            match (KnobPath::of(&entry.knob.path), entry.knob.kind) {
                (None, _) => false,
                // Undoing removes such a file, and writes none.
                (Some(KnobPath::OwnFile), kind) => kind == KnobKind::Text && is_empty,
                (Some(KnobPath::Kernel), KnobKind::Tool | KnobKind::Text) => false,
                (Some(KnobPath::Kernel), kind) => {
                    let is_flag = KnobKind::of(&entry.knob.path, "") == KnobKind::Flag;
                    is_flag == (kind == KnobKind::Flag)
                }
                (Some(_), kind) => kind == KnobKind::Tool,
            }
        };
        match self.knobs.iter().find(|entry| !is_kind_of_place(entry)) {
            Some(other) => {
                Err(format!("it names `{}`, which Mirrorball never sets", other.knob.path))
            }
            None => Ok(()),
        }
    }

    /// Writes the journal so that it survives a crash of the machine. Fails if the folder or the
    /// file cannot be written, or the journal could not be read again.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        self.check().map_err(io::Error::other)?;
        let folder = path.parent().unwrap_or(Path::new("/"));
        let temporary = path.with_extension("journal.new");
        match fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        let mut file = File::options().write(true).create_new(true).mode(0o600).open(&temporary)?;
        file.write_all(self.encode().as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        File::open(folder)?.sync_all()
    }

    /// Reads a journal; `None` if there is none.
    pub(crate) fn read(path: &Path) -> Result<Option<Journal>, Diagnostic> {
        let refuse = |reason: String| {
            let what = format!("cannot read the journal {}: {reason}", path.display());
            Diagnostic::new(what).with_help(
                "it lists each file with its text before the change: write these into the files, \
                 and remove the journal",
            )
        };
        match own_text(path) {
            Ok(text) => Journal::decode(&text).map(Some).map_err(refuse),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(refuse(error.to_string())),
        }
    }
}

/// The text of a file that no other user can have written.
fn own_text(path: &Path) -> io::Result<String> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    check_owner(&fstat(&file)?)?;
    let mut text = String::new();
    Read::by_ref(&mut file).take(JOURNAL_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}

/// Checks that a file is of this user or of root, and that no other user can write to it.
fn check_owner(stat: &Stat) -> io::Result<()> {
    let shared = Mode::WGRP | Mode::WOTH;
    let is_own = [0, geteuid().as_raw()].contains(&stat.st_uid);
    match is_own && !Mode::from_raw_mode(stat.st_mode).intersects(shared) {
        true => Ok(()),
        false => Err(io::Error::other(format!(
            "another user may have written it (owner {}, mode {:o})",
            stat.st_uid,
            stat.st_mode & 0o7777
        ))),
    }
}

/// Removes a journal, for good.
pub(crate) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// The folder of the journals, of this machine or of a recorded copy.
pub(crate) fn folder(sysroot: &Sysroot) -> PathBuf {
    sysroot.host_path(FOLDER)
}

/// Creates the folder of the journals so that it survives a crash of the machine. Other users can
/// neither write to it, nor hold its locks. Fails if it cannot be created, or belongs to another
/// user.
pub(crate) fn create_folder(sysroot: &Sysroot) -> io::Result<PathBuf> {
    let folder = folder(sysroot);
    let mut missing: Vec<&Path> = folder.ancestors().take_while(|path| !path.exists()).collect();
    while let Some(path) = missing.pop() {
        match DirBuilder::new().mode(0o755).create(path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Ok(()) | Err(_) => {}
        }
        File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()?;
    }
    let open = File::open(&folder)?;
    if fstat(&open)?.st_uid != geteuid().as_raw() {
        return Err(io::Error::other("it belongs to another user"));
    }
    fchmod(&open, Mode::RWXU)?;
    Ok(folder)
}

/// The folder of the journals, if a restart of the machine empties it.
pub(crate) fn volatile_folder(sysroot: &Sysroot) -> Option<PathBuf> {
    let folder = folder(sysroot);
    let space = statfs(folder.ancestors().find(|path| path.exists())?).ok()?;
    VOLATILE.contains(&(space.f_type as i64)).then_some(folder)
}

/// Endings of the journals of `bench`, of `tune` and of its service.
pub(crate) const OF_BENCH: &str = "journal";
pub(crate) const OF_TUNE: &str = "tune";
pub(crate) const OF_AUTO: &str = "auto";

pub(crate) fn all(sysroot: &Sysroot, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(sysroot)).into_iter().flatten().flatten();
    let is_journal = |path: &PathBuf| path.extension().is_some_and(|it| it == ending);
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_journal).collect();
    paths.sort();
    paths
}

fn boot_id(sysroot: &Sysroot) -> String {
    sysroot.text(BOOT_ID).unwrap_or_default()
}

#[cfg(test)]
mod tests;

//! The journal: what to put back, on disk before anything is changed.
//!
//! One file per array, in `/var/lib/mirrorball/bench`, because md keeps its flags over a reboot. It
//! is written under a temporary name, flushed, renamed, and its folder flushed, before the first
//! knob is set; and removed when everything is as it was. So a journal that is there names an array
//! that may be changed. It has what identifies the array and the members, because after a reboot
//! their names may be those of others.
//!
//! Restoring writes, runs and removes what a journal says, as root. So one that another user may
//! have written is refused, and so is one that says something that `bench` never does.

use super::knob::{Knob, KnobKind};
use crate::detect::{Identifiers, Sysroot};
use mirrorball_core::diagnostic::Diagnostic;
use rustix::fs::{Mode, OFlags, Stat, fchmod, fstat, statfs};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Folder of the journals and locks.
const FOLDER: &str = "/var/lib/mirrorball/bench";
/// Version of the journal's format.
const VERSION: u32 = 2;
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The command that ends a scrub of btrfs, but for the mount point.
pub(super) const SCRUB_CANCEL: [&str; 3] = ["btrfs", "scrub", "cancel"];
/// Longest journal that is read.
const JOURNAL_BYTES_MAX: u64 = 1 << 20;
/// Numbers of file systems that a restart empties: tmpfs, ramfs, overlayfs (of a container).
const VOLATILE: [i64; 3] = [0x0102_1994, 0x8584_58f6, 0x794c_7630];

/// Values to restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Journal {
    version: u32,
    /// The array, as `bench` was asked for it.
    pub(super) array: String,
    /// Identity of the array.
    pub(super) identity: Identifiers,
    /// The boot of the kernel that it was written in; empty if not known.
    pub(super) boot_id: String,
    /// The process that wrote it.
    pub(super) process: u32,
    /// The folder that is created for the data to read, if any.
    pub(super) folder: Option<JournalFolder>,
    /// The knobs that may be changed.
    pub(super) knobs: Vec<JournalKnob>,
    /// The work in the background that `bench` has started, while it runs.
    pub(super) load: Option<StartedLoad>,
    /// The fio that `bench` has started, while it runs. Journals of earlier versions have none.
    #[serde(default)]
    pub(super) fio: Option<StartedProcess>,
}

/// A process that was started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct StartedProcess {
    pub(super) process: u32,
    /// When it was started, in ticks since the boot: another process may get its number later.
    pub(super) start_time: u64,
}

/// The folder of the data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JournalFolder {
    pub(super) path: String,
    /// The folder of the array that it is in, by its path on the machine.
    pub(super) above: String,
    /// Number in the file system, once it is created. Earlier versions did not record it.
    #[serde(default)]
    pub(super) inode: Option<u64>,
}

/// Work in the background that was started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum StartedLoad {
    /// A check by md, in this file.
    Check(Knob),
    /// Work that this command ends.
    EndedBy(Vec<String>),
}

/// A knob, with what it showed and what it may be set to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JournalKnob {
    pub(super) knob: Knob,
    /// Identity of the md member that it belongs to; empty for a knob of the array.
    pub(super) member: Identifiers,
    /// The text of the file before the first change.
    pub(super) before: String,
    /// Values that `bench` sets. Another program set any other value.
    pub(super) ours: Vec<String>,
}

#[derive(Deserialize)]
struct JournalVersion {
    version: u32,
}

impl Journal {
    /// A journal of this process.
    pub(super) fn new(
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
            load: None,
            fio: None,
        }
    }

    /// True if the machine was started again after the journal was written.
    pub(super) fn is_of_earlier_boot(&self, sysroot: &Sysroot) -> bool {
        let now = boot_id(sysroot);
        !self.boot_id.is_empty() && !now.is_empty() && self.boot_id != now
    }

    /// The journal as text.
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

    /// Checks that it says nothing that `bench` never does.
    fn check(&self) -> Result<(), String> {
        let is_of_kernel = |path: &str| {
            path.starts_with("/sys/") && !path.split('/').any(|component| component == "..")
        };
        let mut paths = self.knobs.iter().map(|entry| &entry.knob.path);
        if let Some(other) = paths.find(|path| !is_of_kernel(path)) {
            return Err(format!("it names `{other}`, which bench never sets"));
        }
        match &self.load {
            Some(StartedLoad::Check(Knob { path, kind }))
                if !is_of_kernel(path)
                    || !path.ends_with("/md/sync_action")
                    || *kind != KnobKind::Plain =>
            {
                Err(format!("it names `{path}`, by which bench starts no check"))
            }
            Some(StartedLoad::EndedBy(command)) if scrubbed_mount(command).is_none() => {
                Err(format!("it has the command `{}`, which bench never runs", command.join(" ")))
            }
            _ => Ok(()),
        }
    }

    /// Writes the journal so that it survives a crash of the machine.
    ///
    /// # Errors
    /// If the folder or the file cannot be written.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
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
    ///
    /// # Errors
    /// If it cannot be read or understood.
    pub(super) fn read(path: &Path) -> Result<Option<Journal>, Diagnostic> {
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

/// The mount point in the command that ends a scrub; `None` if it is another command.
pub(super) fn scrubbed_mount(command: &[String]) -> Option<&str> {
    let [words @ .., mount] = command else { return None };
    let is_cancel = words.iter().map(String::as_str).eq(SCRUB_CANCEL);
    (is_cancel && mount.starts_with('/')).then_some(mount)
}

/// Removes a journal, for good.
///
/// # Errors
/// If it cannot be removed.
pub(super) fn remove(path: &Path) -> io::Result<()> {
    fs::remove_file(path)?;
    File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
}

/// The folder of the journals, of this machine or of a recorded copy.
pub(super) fn folder(sysroot: &Sysroot) -> PathBuf {
    sysroot.host_path(FOLDER)
}

/// Creates the folder of the journals so that it survives a crash of the machine. Other users can
/// neither write to it, nor hold its locks.
///
/// # Errors
/// If it cannot be created, or belongs to another user.
pub(super) fn create_folder(sysroot: &Sysroot) -> io::Result<PathBuf> {
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
pub(super) fn volatile_folder(sysroot: &Sysroot) -> Option<PathBuf> {
    let folder = folder(sysroot);
    let space = statfs(folder.ancestors().find(|path| path.exists())?).ok()?;
    VOLATILE.contains(&(space.f_type as i64)).then_some(folder)
}

/// The journals that are there.
pub(super) fn all(sysroot: &Sysroot) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder(sysroot)).into_iter().flatten().flatten();
    let is_journal = |path: &PathBuf| path.extension().is_some_and(|it| it == "journal");
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_journal).collect();
    paths.sort();
    paths
}

fn boot_id(sysroot: &Sysroot) -> String {
    sysroot.text(BOOT_ID).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{Strategy, any, prop_assert_eq, proptest};
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn journal() -> impl Strategy<Value = Journal> {
        let knob = (any::<String>(), any::<String>(), any::<Vec<String>>());
        let knobs = proptest::collection::vec(knob, 0..4);
        (any::<String>(), any::<Option<String>>(), knobs).prop_map(|(array, folder, knobs)| {
            let knob = |(path, before, ours): (String, _, _)| {
                let path = format!("/sys/{}", path.replace("..", ""));
                let knob = Knob { path, kind: KnobKind::Flag };
                JournalKnob { knob, member: Identifiers::default(), before, ours }
            };
            let cancel = SCRUB_CANCEL.into_iter().chain(["/srv/data"]).map(str::to_owned);
            Journal {
                version: VERSION,
                array,
                identity: Identifiers::default(),
                boot_id: String::new(),
                process: 7,
                folder: folder.map(|path| JournalFolder {
                    above: path.clone(),
                    path,
                    inode: Some(7),
                }),
                knobs: knobs.into_iter().map(knob).collect(),
                load: Some(StartedLoad::EndedBy(cancel.collect())),
                fio: Some(StartedProcess { process: 7, start_time: 9 }),
            }
        })
    }

    proptest! {
        #[test]
        fn every_journal_is_read_as_it_was_written(journal in journal()) {
            prop_assert_eq!(Journal::decode(&journal.encode()), Ok(journal));
        }

        #[test]
        fn no_text_makes_the_reader_panic(text in any::<String>()) {
            let _ = Journal::decode(&text);
        }
    }

    #[test]
    fn a_journal_of_another_version_or_cut_off_is_refused() {
        let sysroot = Sysroot::recorded(Path::new("/nowhere"));
        let text = Journal::new(&sysroot, "md0", Identifiers::default(), Vec::new()).encode();
        let other = text.replace("\"version\": 2", "\"version\": 1");
        assert!(Journal::decode(&other).unwrap_err().contains("version 1"));
        let fewer = "{\"version\": 3}";
        assert!(Journal::decode(fewer).unwrap_err().contains("version 3"));
        for end in 0..text.len() - 2 {
            assert!(Journal::decode(&text[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn a_journal_without_processes_is_of_an_earlier_program() {
        let sysroot = Sysroot::recorded(Path::new("/nowhere"));
        let journal = Journal::new(&sysroot, "md0", Identifiers::default(), Vec::new());
        let text = journal.encode().replace(",\n  \"fio\": null", "");
        assert!(!text.contains("fio"), "{text}");
        assert_eq!(Journal::decode(&text), Ok(journal));
    }

    #[test]
    fn a_journal_with_what_bench_never_does_is_refused() {
        let sysroot = Sysroot::recorded(Path::new("/nowhere"));
        let knob = |path: &str, kind| Knob { path: path.to_owned(), kind };
        let entry = |path: &str| JournalKnob {
            knob: knob(path, KnobKind::Plain),
            member: Identifiers::default(),
            before: "0".to_owned(),
            ours: Vec::new(),
        };
        let ended_by = |words: &[&str]| {
            Some(StartedLoad::EndedBy(words.iter().map(|word| (*word).to_owned()).collect()))
        };
        let action = "/sys/block/md0/md/sync_action";
        for (path, load, refused) in [
            ("/sys/fs/btrfs/F/read_policy", None, None),
            ("/etc/passwd", None, Some("`/etc/passwd`, which bench never sets")),
            ("/sys/../etc/passwd", None, Some("which bench never sets")),
            ("/sys/a", Some(StartedLoad::Check(knob(action, KnobKind::Plain))), None),
            (
                "/sys/a",
                Some(StartedLoad::Check(knob("/proc/sysrq-trigger", KnobKind::Plain))),
                Some("`/proc/sysrq-trigger`, by which bench starts no check"),
            ),
            ("/sys/a", ended_by(&["btrfs", "scrub", "cancel", "/mnt"]), None),
            ("/sys/a", ended_by(&["rm", "-r", "/home"]), Some("`rm -r /home`, which bench never")),
            ("/sys/a", ended_by(&["btrfs", "scrub", "cancel", "-x"]), Some("never runs")),
            ("/sys/a", ended_by(&[]), Some("never runs")),
        ] {
            let mut journal =
                Journal::new(&sysroot, "pool", Identifiers::default(), vec![entry(path)]);
            journal.load = load;
            match (Journal::decode(&journal.encode()), refused) {
                (Ok(_), None) => {}
                (Err(error), Some(part)) => assert!(error.contains(part), "{error}"),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_journal_that_another_user_may_have_written_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool.journal");
        let sysroot = Sysroot::recorded(folder.path());
        let journal = Journal::new(&sysroot, "pool", Identifiers::default(), Vec::new());
        // A link where the text is written first leads nowhere.
        let theirs = folder.path().join("theirs");
        fs::write(&theirs, "kept").unwrap();
        symlink(&theirs, path.with_extension("journal.new")).unwrap();
        journal.write(&path).unwrap();
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "kept");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&path), 0o600);
        assert_eq!(Journal::read(&path), Ok(Some(journal)));

        fs::set_permissions(&path, Permissions::from_mode(0o620)).unwrap();
        let error = Journal::read(&path).unwrap_err().to_string();
        assert!(error.contains("another user may have written it"), "{error}");
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        let link = folder.path().join("link.journal");
        symlink(&path, &link).unwrap();
        assert!(Journal::read(&link).is_err());
        let folder = create_folder(&sysroot).unwrap();
        fs::set_permissions(&folder, Permissions::from_mode(0o777)).unwrap();
        assert_eq!(mode(&create_folder(&sysroot).unwrap()), 0o700);
    }

    #[test]
    fn a_written_journal_replaces_the_one_before() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("md-md0.journal");
        let sysroot = Sysroot::recorded(folder.path());
        assert_eq!(Journal::read(&path), Ok(None));
        for array in ["one", "two"] {
            let journal = Journal::new(&sysroot, array, Identifiers::default(), Vec::new());
            journal.write(&path).unwrap();
            assert_eq!(Journal::read(&path).unwrap().unwrap().array, array);
        }
        remove(&path).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
        let created = create_folder(&sysroot).unwrap();
        assert!(created.is_dir() && created.ends_with("var/lib/mirrorball/bench"));
        assert_eq!(create_folder(&sysroot).unwrap(), created);
    }
}

//! Work in the background of a run: a scrub of the array, or a defragmentation of files that
//! `bench` created. It begins with the run, from the start, begins again if it ends first, and is
//! ended with the run.

use super::data_folder::{DEFRAG_COPY, FRAGMENTED_FILE};
use super::journal::JournalKnob;
use super::knob::{Knob, KnobKind};
use crate::detect::{DetectedArray, StorageSystem, Sysroot};
use mirrorball_core::diagnostic::Diagnostic;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// What md's `sync_action` is set to.
const CHECK: &str = "check";
const IDLE: &str = "idle";
/// One pass: a copy that shares the fragments is written in one piece, and removed.
const DEFRAG_PASS: &str = "cp --reflink=always \"$0\" \"$1\" && \
    btrfs filesystem defragment -f \"$1\"; rm -f \"$1\"";

/// Work in the background of every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundLoad {
    /// None.
    Nothing,
    /// All copies are read and compared.
    Scrub,
    /// Fragmented files are written again in one piece.
    Defrag,
}

/// How a load is started and ended on an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LoadMethod {
    /// By a file of md.
    SyncAction(Knob),
    /// By a program that runs while the load does, and one that ends it, if killing it does not.
    Program { start: Vec<String>, end: Option<Vec<String>> },
}

/// A load that runs. Dropping it ends it.
pub(super) struct RunningLoad<'a> {
    sysroot: &'a Sysroot,
    method: &'a LoadMethod,
    child: Option<Child>,
}

impl LoadMethod {
    /// How `load` runs on an array; none for no load. `folder` holds the files of `bench`.
    ///
    /// # Errors
    /// If bench cannot have that load on this array.
    pub(super) fn new(
        load: BackgroundLoad,
        array: &DetectedArray,
        folder: Option<&Path>,
    ) -> Result<Option<LoadMethod>, Diagnostic> {
        let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect();
        match (load, array.system, &array.mount, folder) {
            (BackgroundLoad::Nothing, ..) => Ok(None),
            (BackgroundLoad::Scrub, StorageSystem::Md | StorageSystem::MdRaid10, ..) => {
                let path = format!("/sys/block/{}/md/sync_action", array.name);
                Ok(Some(LoadMethod::SyncAction(Knob { path, kind: KnobKind::Plain })))
            }
            (BackgroundLoad::Scrub, StorageSystem::Btrfs, Some(mount), _) => {
                Ok(Some(LoadMethod::Program {
                    start: words(&["btrfs", "scrub", "start", "-B", mount]),
                    end: Some(words(&["btrfs", "scrub", "cancel", mount])),
                }))
            }
            (BackgroundLoad::Defrag, StorageSystem::Btrfs, _, Some(folder)) => {
                let path = |name: &str| folder.join(name).display().to_string();
                let (source, copy) = (path(FRAGMENTED_FILE), path(DEFRAG_COPY));
                let start = words(&["sh", "-c", DEFRAG_PASS, &source, &copy]);
                Ok(Some(LoadMethod::Program { start, end: None }))
            }
            (_, system, ..) => {
                let what = format!("bench has no {} of {}", load.name(), system.name());
                let help = "it has a scrub of btrfs and md, and a defragmentation of btrfs";
                Err(Diagnostic::new(what).with_help(help))
            }
        }
    }

    /// The knob that the journal must know.
    pub(super) fn journal_knob(&self, sysroot: &Sysroot) -> Option<JournalKnob> {
        let LoadMethod::SyncAction(knob) = self else { return None };
        Some(JournalKnob {
            knob: knob.clone(),
            before: knob.raw(sysroot)?,
            ours: vec![CHECK.to_owned(), IDLE.to_owned()],
        })
    }

    /// The command that ends the load after a crash.
    pub(super) fn journal_command(&self) -> Option<Vec<String>> {
        match self {
            LoadMethod::Program { end, .. } => end.clone(),
            LoadMethod::SyncAction(_) => None,
        }
    }

    /// Starts it.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn start<'a>(&'a self, sysroot: &'a Sysroot) -> io::Result<RunningLoad<'a>> {
        let mut load = RunningLoad { sysroot, method: self, child: None };
        load.begin()?;
        Ok(load)
    }
}

impl BackgroundLoad {
    fn name(self) -> &'static str {
        match self {
            BackgroundLoad::Nothing => "load",
            BackgroundLoad::Scrub => "scrub",
            BackgroundLoad::Defrag => "defragmentation",
        }
    }
}

impl RunningLoad<'_> {
    fn begin(&mut self) -> io::Result<()> {
        match self.method {
            LoadMethod::SyncAction(knob) => knob.write(self.sysroot, CHECK),
            LoadMethod::Program { start, .. } => {
                self.child = Some(quiet(start).process_group(0).spawn()?);
                Ok(())
            }
        }
    }

    /// Begins it again if it has ended.
    ///
    /// # Errors
    /// If it cannot be started.
    pub(super) fn keep_up(&mut self) -> io::Result<()> {
        let has_ended = match (&mut self.child, self.method) {
            (Some(child), _) => child.try_wait()?.is_some(),
            (None, LoadMethod::SyncAction(knob)) => knob.value(self.sysroot)? == IDLE,
            (None, LoadMethod::Program { .. }) => true,
        };
        if has_ended { self.begin() } else { Ok(()) }
    }
}

impl Drop for RunningLoad<'_> {
    fn drop(&mut self) {
        // Whatever fails here, the journal is left to restore it.
        match self.method {
            LoadMethod::SyncAction(knob) => drop(knob.write(self.sysroot, IDLE)),
            LoadMethod::Program { end: Some(end), .. } => drop(quiet(end).status()),
            LoadMethod::Program { end: None, .. } => {}
        }
        if let Some(child) = &mut self.child {
            if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                let _ = kill_process_group(group, Signal::TERM);
            }
            let _ = child.wait();
        }
    }
}

fn quiet(words: &[String]) -> Command {
    let mut command = Command::new(words.first().map_or("", String::as_str));
    command.args(words.iter().skip(1));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detect::detect_at;

    fn recorded(name: &str, target: &str) -> DetectedArray {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots").join(name);
        detect_at(&Sysroot::recorded(&folder), target).unwrap()
    }

    #[test]
    fn each_system_has_its_own_way() {
        let btrfs = recorded("btrfs-raid1-three", "/srv/data");
        let md = recorded("md-raid1-hdd-ssd", "/srv/data");
        let folder = Path::new("/srv/data/.mirrorball-bench-1");
        let method = |load, array| LoadMethod::new(load, array, Some(folder));
        assert_eq!(method(BackgroundLoad::Nothing, &md), Ok(None));
        let scrub = method(BackgroundLoad::Scrub, &btrfs).unwrap().unwrap();
        let end = scrub.journal_command().unwrap();
        assert_eq!(end, ["btrfs", "scrub", "cancel", "/srv/data"]);
        let check = method(BackgroundLoad::Scrub, &md).unwrap().unwrap();
        assert_eq!(check.journal_command(), None);
        assert!(matches!(check, LoadMethod::SyncAction(knob) if knob.path.contains("md0")));
        assert!(method(BackgroundLoad::Defrag, &btrfs).unwrap().is_some());
        let error = method(BackgroundLoad::Defrag, &md).unwrap_err().to_string();
        assert!(error.contains("no defragmentation of md"), "{error}");
        let lvm = recorded("lvm-raid1", "/srv/data");
        assert!(method(BackgroundLoad::Scrub, &lvm).is_err());
    }

    #[test]
    fn a_program_is_started_again_and_ended() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let ended = folder.path().join("ended");
        let shell = |script: String| vec!["sh".to_owned(), "-c".to_owned(), script];
        let method = LoadMethod::Program {
            start: shell(format!("echo run >> '{}'", runs.display())),
            end: Some(shell(format!("touch '{}'", ended.display()))),
        };
        let sysroot = Sysroot::recorded(folder.path());
        let mut load = method.start(&sysroot).unwrap();
        load.child.as_mut().unwrap().wait().unwrap();
        load.keep_up().unwrap();
        drop(load);
        let text = std::fs::read_to_string(runs).unwrap();
        assert!(text.starts_with("run\n") && ended.exists());
    }
}

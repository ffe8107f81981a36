//! Work in the background of a run: a scrub of the array, or a defragmentation of files that
//! `bench` created. It begins with the run, from the start, begins again if it ends first, and is
//! ended with the run.
//!
//! md goes on with a check where the last one was ended: the kernel moves `sync_min` there. So that
//! file, and `sync_max`, which a whole check resets, get their first values before each check.

use super::data_folder::{DEFRAG_COPY, DataFolder, FRAGMENTED_FILE};
use super::journal::{JournalKnob, SCRUB_CANCEL, StartedLoad};
use super::knob::{Knob, KnobKind};
use super::restore::{CHECK, IDLE};
use super::watchdog::Watchdog;
use crate::detect::{DetectedArray, Identifiers, StorageSystem, Sysroot};
use mirrorball_core::diagnostic::Diagnostic;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Files of md that say which part a check reads.
const POSITIONS: [&str; 2] = ["sync_min", "sync_max"];
/// One pass in the folder of the data: a copy that shares the fragments is written in one piece,
/// and removed.
const DEFRAG_PASS: &str = "cp --reflink=always \"$0\" \"$1\" && \
    btrfs filesystem defragment -f \"$1\"; status=$?; rm -f \"$1\"; exit $status";
/// How often a program is asked to end before it is killed, and the time between.
const END_ATTEMPTS: u32 = 100;
const END_PAUSE: Duration = Duration::from_millis(100);
/// Exit code of a scrub of btrfs that ran to its end and found what it could not correct.
const FOUND_ERRORS: i32 = 3;

/// Work in the background of every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BackgroundLoad {
    Nothing,
    /// All copies are read and compared.
    Scrub,
    /// Fragmented files are written again in one piece.
    Defrag,
}

/// How a load is started and ended on an array.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LoadMethod {
    SyncAction(Knob),
    /// By a program that runs while the load does, and one that ends it, if killing it does not.
    Program {
        start: Vec<String>,
        end: Option<Vec<String>>,
    },
}

#[derive(Clone, Copy)]
pub(super) struct LoadContext<'a> {
    pub(super) sysroot: &'a Sysroot,
    /// Files of md that say which part a check reads, with their first values.
    pub(super) positions: &'a [(Knob, String)],
    pub(super) watchdog: &'a Watchdog,
    /// The folder with the files of `bench`.
    pub(super) folder: Option<&'a DataFolder>,
}

/// A load that runs. Dropping it ends it.
pub(super) struct RunningLoad<'a> {
    context: LoadContext<'a>,
    method: &'a LoadMethod,
    child: Option<Child>,
}

impl LoadMethod {
    /// How `load` runs on an array; none for no load. `has_folder` says that there are files of
    /// `bench`. Fails if bench cannot have that load on this array.
    pub(super) fn new(
        load: BackgroundLoad,
        array: &DetectedArray,
        has_folder: bool,
    ) -> Result<Option<LoadMethod>, Diagnostic> {
        let words = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect();
        match (load, array.system, &array.mount, has_folder) {
            (BackgroundLoad::Nothing, ..) => Ok(None),
            (BackgroundLoad::Scrub, StorageSystem::Md | StorageSystem::MdRaid10, ..) => {
                let path = format!("/sys/block/{}/md/sync_action", array.name);
                Ok(Some(LoadMethod::SyncAction(Knob { path, kind: KnobKind::Plain })))
            }
            (BackgroundLoad::Scrub, StorageSystem::Btrfs, Some(mount), _) => {
                Ok(Some(LoadMethod::Program {
                    start: words(&["btrfs", "scrub", "start", "-B", mount]),
                    end: Some(words(&[&SCRUB_CANCEL[..], &[mount]].concat())),
                }))
            }
            (BackgroundLoad::Defrag, StorageSystem::Btrfs, _, true) => {
                let start = words(&["sh", "-c", DEFRAG_PASS, FRAGMENTED_FILE, DEFRAG_COPY]);
                Ok(Some(LoadMethod::Program { start, end: None }))
            }
            (_, system, ..) => {
                let what = format!("bench has no {} of {}", load.name(), system.name());
                let help = match system {
                    StorageSystem::Md | StorageSystem::MdRaid10 => {
                        "give --background scrub, or --background none"
                    }
                    StorageSystem::Btrfs if array.mount.is_none() => "mount it",
                    StorageSystem::Btrfs => "leave out --read-device, or give --background none",
                    _ => "give --background none",
                };
                Err(Diagnostic::new(what).with_help(help))
            }
        }
    }

    /// The files that the kernel changes during the load, as the journal must know them.
    pub(super) fn journal_knobs(&self, sysroot: &Sysroot) -> Vec<JournalKnob> {
        let LoadMethod::SyncAction(action) = self else { return Vec::new() };
        let folder = action.path.trim_end_matches("sync_action");
        let position = |file: &str| {
            let knob = Knob { path: format!("{folder}{file}"), kind: KnobKind::Position };
            let before = knob.raw(sysroot)?;
            Some(JournalKnob { knob, member: Identifiers::default(), before, ours: Vec::new() })
        };
        POSITIONS.into_iter().filter_map(position).collect()
    }

    /// Record for the journal while the load runs.
    pub(super) fn started(&self) -> Option<StartedLoad> {
        match self {
            LoadMethod::SyncAction(knob) => Some(StartedLoad::Check(knob.clone())),
            LoadMethod::Program { end, .. } => end.clone().map(StartedLoad::EndedBy),
        }
    }

    pub(super) fn start<'a>(&'a self, context: LoadContext<'a>) -> io::Result<RunningLoad<'a>> {
        let mut load = RunningLoad { context, method: self, child: None };
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
        let LoadContext { sysroot, positions, watchdog, folder } = self.context;
        match self.method {
            LoadMethod::SyncAction(knob) => {
                for (position, before) in positions {
                    position.write(sysroot, before)?;
                }
                knob.write(sysroot, CHECK)
            }
            LoadMethod::Program { start, .. } => {
                let mut command = quiet(start);
                if let Some(folder) = folder {
                    command.current_dir(folder.path());
                }
                let child = command.process_group(0).spawn()?;
                let is_known = watchdog.started(child.id());
                self.child = Some(child);
                is_known
            }
        }
    }

    /// Begins it again if it has ended. Fails if it failed, or cannot be started.
    pub(super) fn keep_up(&mut self) -> io::Result<()> {
        let has_ended = match (&mut self.child, self.method) {
            (Some(child), LoadMethod::Program { start, .. }) => match child.try_wait()? {
                None => false,
                Some(status) if matches!(status.code(), Some(0 | FOUND_ERRORS)) => {
                    self.context.watchdog.ended(child.id());
                    true
                }
                Some(status) => {
                    let what = format!("`{}` failed ({status})", start.join(" "));
                    return Err(io::Error::other(what));
                }
            },
            (_, LoadMethod::SyncAction(knob)) => knob.value(self.context.sysroot)? == IDLE,
            (None, LoadMethod::Program { .. }) => true,
        };
        if has_ended { self.begin() } else { Ok(()) }
    }
}

impl Drop for RunningLoad<'_> {
    fn drop(&mut self) {
        // Whatever fails here, the journal is left to restore it.
        match (self.method, &mut self.child) {
            (LoadMethod::SyncAction(knob), _) => {
                // Another action is not ours: a recovery may have begun.
                if knob.value(self.context.sysroot).is_ok_and(|action| action == CHECK) {
                    let _ = knob.write(self.context.sysroot, IDLE);
                }
            }
            (LoadMethod::Program { end, .. }, Some(child)) => {
                // After its end, what runs was started by another program.
                if let Some(end) = end {
                    end_gently(child, end);
                }
                if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
                    let _ = kill_process_group(group, Signal::TERM);
                }
                let _ = child.wait();
                self.context.watchdog.ended(child.id());
            }
            (LoadMethod::Program { .. }, None) => {}
        }
    }
}

/// Has a program ended by another one, until it is: it may not have begun yet what is to be ended,
/// and takes a while to leave its state in order.
fn end_gently(child: &mut Child, end: &[String]) {
    for _ in 0..END_ATTEMPTS {
        if !child.try_wait().is_ok_and(|status| status.is_none()) {
            return;
        }
        let _ = quiet(end).status();
        std::thread::sleep(END_PAUSE);
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
    use std::path::Path;

    fn recorded(name: &str, target: &str) -> DetectedArray {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots").join(name);
        detect_at(&Sysroot::recorded(&folder), target).unwrap()
    }

    #[test]
    fn each_system_has_its_own_way() {
        let btrfs = recorded("btrfs-raid1-three", "/srv/data");
        let md = recorded("md-raid1-hdd-ssd", "/srv/data");
        let method = |load, array| LoadMethod::new(load, array, true);
        assert_eq!(method(BackgroundLoad::Nothing, &md), Ok(None));
        let scrub = method(BackgroundLoad::Scrub, &btrfs).unwrap().unwrap();
        let end = ["btrfs", "scrub", "cancel", "/srv/data"].map(str::to_owned).to_vec();
        assert_eq!(scrub.started(), Some(StartedLoad::EndedBy(end)));
        let check = method(BackgroundLoad::Scrub, &md).unwrap().unwrap();
        assert!(matches!(check, LoadMethod::SyncAction(knob) if knob.path.contains("md0")));
        assert!(method(BackgroundLoad::Defrag, &btrfs).unwrap().is_some());
        let error = method(BackgroundLoad::Defrag, &md).unwrap_err().to_string();
        assert!(error.contains("no defragmentation of md"), "{error}");
        let lvm = recorded("lvm-raid1", "/srv/data");
        assert!(method(BackgroundLoad::Scrub, &lvm).is_err());
    }

    fn shell(script: String) -> Vec<String> {
        vec!["sh".to_owned(), "-c".to_owned(), script]
    }

    /// A program with this script, and one that makes a file to end it.
    fn program(folder: &Path, script: String) -> (LoadMethod, std::path::PathBuf) {
        let ended = folder.join("ended");
        let end = Some(shell(format!("touch '{}'", ended.display())));
        (LoadMethod::Program { start: shell(script), end }, ended)
    }

    #[test]
    fn a_program_is_started_again_and_not_ended_after_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let runs = folder.path().join("runs");
        let (method, ended) = program(folder.path(), format!("echo run >> '{}'", runs.display()));
        let (sysroot, watchdog) = (Sysroot::recorded(folder.path()), Watchdog::idle());
        let context =
            LoadContext { sysroot: &sysroot, positions: &[], watchdog: &watchdog, folder: None };
        let mut load = method.start(context).unwrap();
        for _ in 0..2 {
            load.child.as_mut().unwrap().wait().unwrap();
            load.keep_up().unwrap();
        }
        load.child.as_mut().unwrap().wait().unwrap();
        drop(load);
        assert_eq!(std::fs::read_to_string(runs).unwrap(), "run\n".repeat(3));
        assert!(!ended.exists(), "a scrub that runs now is that of another program");
    }

    #[test]
    fn a_program_that_runs_is_ended_and_one_that_fails_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let (sysroot, watchdog) = (Sysroot::recorded(folder.path()), Watchdog::idle());
        let context =
            LoadContext { sysroot: &sysroot, positions: &[], watchdog: &watchdog, folder: None };
        // As `btrfs scrub start`, which writes what became of the scrub when that was cancelled.
        let in_order = folder.path().join("in-order");
        let script = "trap 'exit 1' TERM; cd \"$(dirname \"$0\")\"; until [ -e ended ]; do \
            sleep 0.01; done; sleep 0.2; touch in-order";
        let (mut method, ended) = program(folder.path(), script.to_owned());
        if let LoadMethod::Program { start, .. } = &mut method {
            start.push(ended.display().to_string());
        }
        drop(method.start(context).unwrap());
        assert!(ended.exists() && in_order.exists(), "it is not killed at once");
        let (method, _) = program(folder.path(), "exit 1".to_owned());
        let mut load = method.start(context).unwrap();
        load.child.as_mut().unwrap().wait().unwrap();
        let error = load.keep_up().unwrap_err().to_string();
        assert!(error.contains("`sh -c exit 1` failed"), "{error}");
    }

    #[test]
    fn a_check_begins_where_the_first_did_and_a_recovery_is_not_ended() {
        let folder = tempfile::tempdir().unwrap();
        let (sysroot, watchdog) = (Sysroot::recorded(folder.path()), Watchdog::idle());
        let path = |file: &str| format!("/sys/block/md0/md/{file}");
        let set = |file: &str, text: &str| {
            let file = sysroot.host_path(&path(file));
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        };
        let shown = |file: &str| sysroot.text(&path(file)).unwrap();
        set("sync_action", "idle");
        set("sync_min", "8");
        set("sync_max", "max");
        let action = Knob { path: path("sync_action"), kind: KnobKind::Plain };
        let method = LoadMethod::SyncAction(action);
        let knobs = method.journal_knobs(&sysroot);
        let positions: Vec<(Knob, String)> =
            knobs.into_iter().map(|it| (it.knob, it.before)).collect();
        assert_eq!(positions.len(), 2);
        let context = LoadContext {
            sysroot: &sysroot,
            positions: &positions,
            watchdog: &watchdog,
            folder: None,
        };
        for _ in 0..2 {
            let load = method.start(context).unwrap();
            assert_eq!((shown("sync_action"), shown("sync_min")), ("check".into(), "8".into()));
            set("sync_min", "4096");
            drop(load);
            assert_eq!(shown("sync_action"), "idle");
        }
        let load = method.start(context).unwrap();
        set("sync_action", "recover");
        drop(load);
        assert_eq!(shown("sync_action"), "recover");
    }
}

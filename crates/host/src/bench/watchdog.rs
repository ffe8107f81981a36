//! The watchdog: a second process that restores the settings if the first one dies.
//!
//! It holds the end of a pipe from `bench` and reads which processes `bench` starts and ends. The
//! kernel closes the pipe when `bench` ends, also by SIGKILL. Then the watchdog ends the processes
//! that are left, and waits for tools such as `lvchange`, which would set a knob after it was
//! restored. If the journal is still there, `bench` did not restore, and the watchdog does; a
//! setting of `tune` that is to stay is left. The watchdog is in a session of its own, so Ctrl-C
//! and the end of the terminal do not reach it.

use super::array_lock::ArrayLock;
use super::journal::Journal;
use super::process_tree::{is_any_started_with, kill_tree, start_time};
use super::restore::{self, RestoreReport};
use super::tool_knob::STARTED_BY;
use crate::detect::Sysroot;
use mirrorball_core::diagnostic::Diagnostic;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, BufRead, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Line that the watchdog writes when it is ready.
const READY: u8 = b'r';
/// How long a tool that was setting a knob is waited for.
const TOOL_MAX: Duration = Duration::from_secs(60);

/// The running watchdog. Dropping it closes the pipe and waits for its end.
#[derive(Debug)]
pub(crate) struct Watchdog {
    child: Child,
}

impl Watchdog {
    /// Starts `command`, which must call [`watch`], and waits until it is ready. Fails if it cannot
    /// be started, or ends at once.
    pub(crate) fn start(command: &[OsString]) -> io::Result<Watchdog> {
        let [program, arguments @ ..] = command else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let output = child.stdout.take();
        let watchdog = Watchdog { child };
        let mut byte = [0];
        let count = output.map_or(Ok(0), |mut output| output.read(&mut byte))?;
        match (count, byte) {
            (1, [READY]) => Ok(watchdog),
            _ => Err(io::Error::other("it ended at once")),
        }
    }

    /// Says that a process was started, which leads its group. Fails if the watchdog does not run
    /// any more.
    pub(crate) fn started(&self, process: u32) -> io::Result<()> {
        self.say(&format!("+{process} {}\n", start_time(process).unwrap_or_default()))
    }

    pub(crate) fn ended(&self, process: u32) {
        // Without a watchdog the next check fails.
        let _ = self.say(&format!("-{process}\n"));
    }

    pub(crate) fn check(&self) -> io::Result<()> {
        self.say("\n")
    }

    fn say(&self, line: &str) -> io::Result<()> {
        let pipe = self.child.stdin.as_ref();
        let mut pipe = pipe.ok_or_else(|| io::Error::from(io::ErrorKind::BrokenPipe))?;
        pipe.write_all(line.as_bytes())
    }

    /// The command of one that is ready and does nothing.
    #[cfg(test)]
    pub(crate) fn idle_command() -> Vec<OsString> {
        ["sh", "-c", "printf r; exec cat > /dev/null"].map(OsString::from).to_vec()
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        // A watchdog that was killed has nothing more to do.
        let _ = self.child.wait();
    }
}

/// Waits for the end of `input`, then ends the processes that `bench` left, and restores what the
/// journal at `path` says, if it is there. Writes to `ready` when it watches.
pub fn watch(
    sysroot: &Sysroot,
    path: &Path,
    input: impl BufRead,
    mut ready: impl Write,
) -> Result<Option<RestoreReport>, Diagnostic> {
    // Fails only in a process that leads its group already, which is as good.
    let _ = rustix::process::setsid();
    let by_parent = format!("{STARTED_BY}={}", std::os::unix::process::parent_id());
    // If `bench` has died meanwhile, `input` ends.
    let _ = ready.write_all(&[READY]).and_then(|()| ready.flush());
    for (process, started) in left_at_end(input) {
        if start_time(process) == Some(started) {
            kill_tree(process);
        }
    }
    // The pipe has no end before the tool is executed, so that none is missed.
    let deadline = Instant::now() + TOOL_MAX;
    while is_any_started_with(&by_parent) && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    let changed = || Journal::read(path).map(|it| it.filter(|journal| !journal.stays()));
    if changed()?.is_none() {
        return Ok(None);
    }
    let _lock = ArrayLock::of_journal(path, true)?;
    let journal = changed()?;
    Ok(journal.map(|journal| restore::restore(sysroot, path, &journal)))
}

/// Reads to the end, and returns the processes that were started and not ended.
fn left_at_end(mut input: impl BufRead) -> BTreeMap<u32, u64> {
    let mut left = BTreeMap::new();
    let mut line = String::new();
    while let Ok(1..) = input.read_line(&mut line) {
        let started = |line: &str| {
            let (process, time) = line.strip_prefix('+')?.split_once(' ')?;
            Some((process.parse::<u32>().ok()?, time.trim().parse::<u64>().ok()?))
        };
        let ended = |line: &str| line.trim().strip_prefix('-')?.parse::<u32>().ok();
        left.extend(started(&line));
        if let Some(process) = ended(&line) {
            left.remove(&process);
        }
        line.clear();
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;

    #[test]
    fn a_watchdog_that_ends_at_once_is_an_error() {
        let command = |words: &[&str]| words.iter().map(OsString::from).collect::<Vec<_>>();
        assert!(Watchdog::start(&command(&["true"])).is_err());
        assert!(Watchdog::start(&command(&["echo", "no"])).is_err());
        let watchdog = Watchdog::start(&command(&["sh", "-c", "printf r"])).unwrap();
        // It has closed its end of the pipe when it has closed its output.
        let gone = (0..1000).any(|_| {
            std::thread::yield_now();
            std::thread::sleep(std::time::Duration::from_millis(5));
            watchdog.check().is_err()
        });
        assert!(gone, "a watchdog that ended later is noticed");
    }

    /// It would set the knob after that was restored.
    #[test]
    fn a_tool_that_was_started_to_set_a_knob_is_waited_for() {
        let mut tool = Command::new("sh");
        let parent = std::os::unix::process::parent_id().to_string();
        let folder = tempfile::tempdir().unwrap();
        let knob = folder.path().join("knob");
        tool.args(["-c", "sleep 1; touch \"$0\""]).arg(&knob).env(STARTED_BY, parent);
        let mut tool = tool.spawn().unwrap();
        let sysroot = Sysroot::recorded(folder.path());
        let path = folder.path().join("none.journal");
        assert_eq!(watch(&sysroot, &path, b"".as_slice(), Vec::new()).unwrap(), None);
        assert!(knob.exists(), "it still runs");
        assert!(tool.wait().unwrap().success());
    }

    #[test]
    fn processes_that_bench_left_are_ended() {
        let mut left = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let mut spared = Command::new("sleep").arg("600").process_group(0).spawn().unwrap();
        let (id, other) = (left.id(), spared.id());
        let started = start_time(id).unwrap();
        let text = format!("\n+{other} 1\n+{id} {started}\n+9999999 5\n-9999999\n");
        let folder = tempfile::tempdir().unwrap();
        let sysroot = Sysroot::recorded(folder.path());
        let mut ready = Vec::new();
        let path = folder.path().join("none.journal");
        let report = watch(&sysroot, &path, text.as_bytes(), &mut ready).unwrap();
        assert_eq!((report, ready.as_slice()), (None, [READY].as_slice()));
        assert!(!left.wait().unwrap().success());
        assert!(spared.try_wait().unwrap().is_none(), "a later process of the same number");
        spared.kill().unwrap();
        spared.wait().unwrap();
    }
}

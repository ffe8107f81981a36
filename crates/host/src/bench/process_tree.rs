//! Processes that `bench` starts, ended with their children.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs;
use std::path::Path;

/// States of a process that has ended: zombie, dead.
const ENDED: [&str; 2] = ["Z", "X"];

/// The processes whose parent is `process`, from Linux's list of the children of its main thread.
pub(super) fn children_of(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// A field of `/proc/PROCESS/stat`, by its number in proc(5), from the state, 3, on.
fn field(process: u32, number: usize) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may have spaces.
    Some(text.rsplit_once(')')?.1.split_whitespace().nth(number - 3)?.to_owned())
}

/// When a process was started, in ticks since the boot; `None` if there is no such process, or it
/// has ended and its parent has not asked how. It tells a process from a later one with the same
/// number.
pub(super) fn start_time(process: u32) -> Option<u64> {
    let is_ended = |state: String| ENDED.contains(&state.as_str());
    let started = field(process, 22)?.parse().ok();
    started.filter(|_| !field(process, 3).is_none_or(is_ended))
}

/// The name of a process; `None` if there is no such process.
pub(super) fn name_of(process: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// The processes that have a file below `folder` open, as far as this process may know.
pub(super) fn processes_with_files_in(folder: &Path) -> Vec<u32> {
    let has_one = |process: &u32| {
        let files = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets.any(|target| target.starts_with(folder))
    };
    numbers_in("/proc").into_iter().filter(has_one).collect()
}

/// True if a process may have been started with this variable, `NAME=value`, in its environment
/// and has not ended, as far as this process may know.
pub(super) fn is_any_started_with(variable: &str) -> bool {
    let has_it = |process: u32| {
        let text = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        text.split(|byte| *byte == 0).any(|it| it == variable.as_bytes())
    };
    // The kernel closes pipes and wakes the parent before the environment has an end. Processes
    // that end, and threads of the kernel, have no file.
    let is_unknown = |process: u32| {
        field(process, 51).is_some_and(|environment_end| environment_end == "0")
            && fs::read_link(format!("/proc/{process}/exe")).is_ok()
    };
    numbers_in("/proc").into_iter().any(|process| is_unknown(process) || has_it(process))
}

/// Bytes that each thread of a process has read from devices, as the kernel accounts them; none
/// where that is not known.
pub(super) fn bytes_read_by_threads_of(process: u32) -> Vec<(u32, u64)> {
    let folder = format!("/proc/{process}/task");
    let bytes = |thread: u32| {
        let text = fs::read_to_string(format!("{folder}/{thread}/io")).ok()?;
        let bytes = text.lines().find_map(|line| line.strip_prefix("read_bytes:"))?;
        Some((thread, bytes.trim().parse().ok()?))
    };
    numbers_in(&folder).into_iter().filter_map(bytes).collect()
}

/// The names in a folder that are numbers, in ascending order.
fn numbers_in(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut numbers: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

/// Ends a process, the group that it leads, and its children at once. The jobs of fio are in
/// sessions of their own.
pub(super) fn kill_tree(process: u32) {
    let pid = |id: u32| i32::try_from(id).ok().and_then(Pid::from_raw);
    for child in children_of(process).into_iter().filter_map(pid) {
        let _ = kill_process(child, Signal::KILL);
    }
    if let Some(leader) = pid(process) {
        let _ = kill_process_group(leader, Signal::KILL);
        let _ = kill_process(leader, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

    #[test]
    fn processes_are_found_by_the_files_that_they_have_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        assert!(processes_with_files_in(&path).is_empty());
        let _file = fs::File::create(path.join("data")).unwrap();
        assert_eq!(processes_with_files_in(&path), [std::process::id()]);
        assert!(name_of(std::process::id()).is_some() && name_of(u32::MAX).is_none());
        assert!(bytes_read_by_threads_of(u32::MAX).is_empty());
    }

    /// The number is known, and pipes are closed, before its environment can be read.
    #[test]
    fn a_process_that_was_just_started_is_found() {
        for _ in 0..200 {
            let mut command = Command::new("sleep");
            let mut child = command.arg("600").env("MIRRORBALL_TEST", "yes").spawn().unwrap();
            let is_found = is_any_started_with("MIRRORBALL_TEST=yes");
            child.kill().unwrap();
            child.wait().unwrap();
            assert!(is_found);
        }
    }

    #[test]
    fn a_process_is_ended_with_children_that_left_its_group() {
        let mut command = Command::new("sh");
        command.args(["-c", "setsid sleep 600 & echo started; wait"]).process_group(0);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut output, &mut line).unwrap();
        assert!(start_time(child.id()).is_some() && start_time(u32::MAX).is_none());
        let below = children_of(child.id());
        assert_eq!(below.len(), 1);
        kill_tree(child.id());
        // Until its parent asks how it ended, the kernel keeps its number.
        while start_time(child.id()).is_some() {
            std::thread::yield_now();
        }
        assert!(name_of(child.id()).is_some());
        child.wait().unwrap();
        // The pipe has no end while a process has it open.
        std::io::Read::read_to_string(&mut output, &mut line).unwrap();
    }
}

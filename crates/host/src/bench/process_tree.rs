//! Processes that `bench` starts, ended with their children.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::fs;

/// The processes whose parent is `process`, from Linux's list of the children of its main thread.
pub(super) fn children_of(process: u32) -> Vec<u32> {
    let path = format!("/proc/{process}/task/{process}/children");
    let text = fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().filter_map(|id| id.parse().ok()).collect()
}

/// When a process was started, in ticks since the boot; `None` if there is no such process. It
/// tells a process from a later one with the same number.
pub(super) fn start_time(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name in parentheses may have spaces. Field 22 is the 20th after it.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

/// Ends a process that leads its group, its group and its children at once. The jobs of fio are in
/// sessions of their own.
pub(super) fn kill_tree(process: u32) {
    let pid = |id: u32| i32::try_from(id).ok().and_then(Pid::from_raw);
    for child in children_of(process).into_iter().filter_map(pid) {
        let _ = kill_process(child, Signal::KILL);
    }
    if let Some(leader) = pid(process) {
        let _ = kill_process_group(leader, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::{Command, Stdio};

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
        child.wait().unwrap();
        // The pipe has no end while a process has it open.
        std::io::Read::read_to_string(&mut output, &mut line).unwrap();
    }
}

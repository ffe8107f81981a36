//! Outputs of the tools of storage systems: run on this machine, or recorded in `tools/` of a copy.
//!
//! Tools are run only to show, with a limit of time, and in the C locale, because their words are
//! matched.

use super::sysroot::Sysroot;
use std::io::Read;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a tool may take. `zpool status` waits while a pool is suspended.
const TIME_MAX: Duration = Duration::from_secs(10);

/// A tool, its arguments, and the name of the file with its recorded output.
pub(super) struct Tool {
    pub(super) file: &'static str,
    pub(super) command: &'static [&'static str],
}

pub(super) const DMSETUP_TABLE: Tool =
    Tool { file: "dmsetup-table", command: &["dmsetup", "table"] };
pub(super) const DMSETUP_STATUS: Tool =
    Tool { file: "dmsetup-status", command: &["dmsetup", "status"] };
pub(super) const ZPOOL_STATUS: Tool =
    Tool { file: "zpool-status", command: &["zpool", "status", "-LP"] };
pub(super) const ZPOOL_LIST: Tool =
    Tool { file: "zpool-list", command: &["zpool", "list", "-Hp", "-o", "name,size,allocated"] };
pub(super) const BTRFS_SHOW: Tool = Tool {
    file: "btrfs-filesystem-show",
    command: &["btrfs", "filesystem", "show", "--mounted", "--raw"],
};

impl Sysroot {
    /// The output of a tool.
    ///
    /// # Errors
    /// If there is none, with the reason.
    pub(super) fn tool(&self, tool: &Tool) -> Result<String, String> {
        self.tool_output(tool.file, tool.command)
    }

    /// The output of a command, or what `file` of a recorded copy has of it.
    ///
    /// # Errors
    /// If there is none, with the reason.
    pub(crate) fn tool_output(&self, file: &str, command: &[&str]) -> Result<String, String> {
        if self.is_live() {
            return run(command);
        }
        let missing = || format!("the recorded copy has no tools/{file}");
        self.raw_text(&format!("/tools/{file}")).ok_or_else(missing)
    }
}

/// Runs a command and returns what it printed.
fn run(command: &[&str]) -> Result<String, String> {
    let line = command.join(" ");
    let child = Command::new(command[0])
        .args(&command[1..])
        .env("LC_ALL", "C")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return Err(format!("cannot run `{line}`: {error}")),
    };
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let output = thread::spawn(move || read(stdout));
    let message = thread::spawn(move || read(stderr));
    let deadline = Instant::now() + TIME_MAX;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
            Ok(None) | Err(_) => {
                // A process that has just ended cannot be killed. One that waits in the kernel, as
                // for a suspended pool, cannot die yet: waiting for it here would never end.
                let _ = child.kill();
                return Err(format!("`{line}` did not end within {} s", TIME_MAX.as_secs()));
            }
        }
    };
    let output = output.join().unwrap_or_default();
    if status.success() {
        return Ok(output);
    }
    let message = message.join().unwrap_or_default();
    let first = message.lines().next().unwrap_or("no message").trim().to_owned();
    let root = if rustix::process::geteuid().is_root() { "" } else { "; try as root" };
    Err(format!("`{line}` failed: {first}{root}"))
}

fn read(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        // What was read before an error is all there will be.
        let _ = pipe.take(1 << 20).read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_that_is_missing_or_fails_says_why() {
        let missing = run(&["mirrorball-no-such-tool", "-v"]).unwrap_err();
        assert!(missing.starts_with("cannot run `mirrorball-no-such-tool -v`"), "{missing}");
        let failed = run(&["ls", "/sys/no-such-folder"]).unwrap_err();
        assert!(failed.starts_with("`ls /sys/no-such-folder` failed: ls: "), "{failed}");
        assert_eq!(run(&["echo", "yes"]).as_deref(), Ok("yes\n"));
    }
}

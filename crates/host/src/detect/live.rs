//! The machine that the program runs on: what its tools print, its device nodes and its disks.
//!
//! Tools are run only to show, with a limit of time, and in the C locale, because their words are
//! matched.

pub(super) use super::btrfs_ioctl::{devices as btrfs_devices, is_scrubbed};

use std::fs::{File, metadata};
use std::io::Read;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long a tool may take. `zpool status` waits while a pool is suspended.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Returns true if `path` is a character device.
pub(super) fn is_char_device(path: &str) -> bool {
    metadata(path).is_ok_and(|it| it.file_type().is_char_device())
}

/// The numbers of the block device that `path` is a node of, as `8:16`.
pub(super) fn block_number(path: &str) -> Option<String> {
    let metadata = metadata(path).ok().filter(|it| it.file_type().is_block_device())?;
    let number = metadata.rdev();
    Some(format!("{}:{}", rustix::fs::major(number), rustix::fs::minor(number)))
}

/// Returns true if a device can be read and has these bytes at this place.
pub(super) fn has_bytes(device: &str, place: u64, bytes: &[u8; 8]) -> bool {
    let mut found = [0; 8];
    let read = File::open(device).and_then(|file| file.read_exact_at(&mut found, place));
    read.is_ok() && found == *bytes
}

pub(super) fn run(command: &[&str]) -> Result<String, String> {
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

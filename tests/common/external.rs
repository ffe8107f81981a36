//! Programs of other projects: fio, nbdkit, libnbd's and qemu's clients, Chromium.
//!
//! A test that needs a program that is not installed, or a right that the user lacks, prints
//! `skipped: …` and passes. Where `CI` is `true` a missing program fails the test: `./test`
//! installs all of them.

use super::Folder;
use super::service::wait_until;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

/// A running program of another project, killed when the test ends.
pub(crate) struct External(Child);

impl External {
    /// Starts a server and waits until `is_ready`; returns `None` if it is not installed.
    pub(crate) fn start(
        folder: &Folder,
        program: &str,
        arguments: &[&str],
        is_ready: impl Fn() -> bool,
    ) -> Option<External> {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder.path("."));
        let Ok(child) = command.stdout(Stdio::null()).spawn() else {
            skip_missing(program);
            return None;
        };
        let server = External(child);
        wait_until(program, is_ready);
        Some(server)
    }
}

impl Drop for External {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs a program to its end; returns `None` if it is not installed.
pub(crate) fn try_run(folder: &Path, program: &str, arguments: &[&str]) -> Option<Output> {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    if output.is_err() {
        skip_missing(program);
    }
    output.ok()
}

/// Runs a program that must succeed and returns what it printed; `None` if it is not installed.
pub(crate) fn run(folder: &Path, program: &str, arguments: &[&str]) -> Option<String> {
    let Output { status, stdout, stderr } = try_run(folder, program, arguments)?;
    let stdout = String::from_utf8_lossy(&stdout).into_owned();
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{program} {arguments:?}: {stdout}{stderr}");
    Some(stdout)
}

/// Has fio write in random order with checksums and read all of it back; returns false if fio is
/// not installed.
pub(crate) fn fio_verify(folder: &Path, target: &[&str]) -> bool {
    let job = ["--name=verify", "--rw=randwrite", "--bs=16k", "--iodepth=16"];
    let verify = ["--verify=crc32c", "--verify_fatal=1"];
    let Some(text) = run(folder, "fio", &[&job[..], &verify, target].concat()) else {
        return false;
    };
    assert!(text.contains("err= 0"), "{text}");
    true
}

/// Reports that a test is skipped because `program` is not installed.
///
/// # Panics
/// In CI, where nothing may be skipped.
pub(crate) fn skip_missing(program: &str) {
    let is_ci = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!is_ci, "{program} is missing: install it");
    eprintln!("skipped: {program} is missing");
}

/// Returns `is_available`; if false, reports that the test is skipped and why. For what no package
/// brings: a kernel driver, a right.
pub(crate) fn skip_unless(is_available: bool, reason: &str) -> bool {
    if !is_available {
        eprintln!("skipped: {reason}");
    }
    is_available
}

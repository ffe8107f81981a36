//! Shared by the tests of the whole program: a folder to run commands in, services of ours, and
//! programs of other projects.

pub(crate) mod external;
pub(crate) mod nbd_client;
pub(crate) mod samples;
pub(crate) mod service;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// Compares the part of a page between `<!-- NAME: generated -->` and `<!-- end of NAME -->` with
/// what was made. Set `UPDATE_CHAPTER=1` to write it.
pub(crate) fn check_generated(page: &str, name: &str, made: &str) {
    let (begin, end) = (format!("<!-- {name}: generated -->\n"), format!("<!-- end of {name} -->"));
    let text = fs::read_to_string(page).expect("the page is kept");
    let (before, rest) = text.split_once(&begin).expect("a begin mark");
    let (kept, after) = rest.split_once(&end).expect("an end mark");
    if std::env::var_os("UPDATE_CHAPTER").is_some() {
        let text = format!("{before}{begin}{}\n{end}{after}", made.trim());
        fs::write(page, text).expect("the page can be written");
    } else {
        assert!(kept.trim() == made.trim(), "{page} is not up to date: UPDATE_CHAPTER=1 ./test");
    }
}

/// A temporary folder that is removed when the test ends.
pub(crate) struct Folder {
    folder: TempDir,
}

impl Folder {
    /// A folder on the disk of the build: `/tmp` may be memory, which refuses `O_DIRECT`.
    pub(crate) fn new() -> Folder {
        Folder { folder: TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// URI of the NBD server that listens at the Unix socket `socket` of this folder.
    pub(crate) fn nbd_uri(&self, socket: &str) -> String {
        format!("nbd+unix:///?socket={}", self.path(socket).display())
    }

    /// The `mirrorball` command with these arguments, run in the folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mirrorball"));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Writes labels to the members of an array file.
    pub(crate) fn create(&self, array: &str) {
        let output = self.run(&["create", array]);
        assert!(output.status.success(), "{}", stderr(&output));
    }

    /// Output of `mirrorball ctl` about the service with the control socket `control`.
    pub(crate) fn ctl(&self, arguments: &[&str]) -> String {
        stdout(&self.run(&[&["ctl", "--control", "control"], arguments].concat()))
    }

    /// Every file below `folder`, with its bytes.
    pub(crate) fn contents(&self, folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        gather(&self.path(folder), &mut files);
        files.sort();
        files
    }

    /// Runs a command that must be refused: exit code 2, one message with all of `parts`, nothing
    /// printed and no file written.
    pub(crate) fn refuses(&self, arguments: &[&str], parts: &[&str]) {
        let before = self.contents(".");
        let output = self.run(arguments);
        let message = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert_eq!(message.matches("error:").count(), 1, "{message}");
        for part in parts {
            assert!(message.contains(part), "{arguments:?}: no `{part}` in\n{message}");
        }
        assert!(output.stdout.is_empty());
        assert!(before == self.contents("."), "{arguments:?} wrote something");
    }
}

fn gather(folder: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            gather(&path, files);
        } else {
            let bytes = if path.is_file() { fs::read(&path).unwrap() } else { Vec::new() };
            files.push((path.file_name().unwrap().into(), bytes));
        }
    }
}

/// Standard output of a run that succeeded.
pub(crate) fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Standard error of a run.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Pseudo-random bytes, the same for every call.
pub(crate) fn noise(bytes: usize) -> Vec<u8> {
    let mut state = 1u64;
    let byte = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 56) as u8
    };
    (0..bytes).map(byte).collect()
}

//! What tests of the whole program share: a folder to run it in, and what it answered.

#![allow(clippy::unwrap_used, reason = "what fails here fails a test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;

/// An empty folder that is gone when the test ends.
pub(crate) struct Folder {
    folder: TempDir,
}

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder { folder: TempDir::new().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with these arguments, run in the folder.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mirrorball"));
        command.args(arguments).current_dir(self.folder.path());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Every file in a folder of it, with its bytes.
    pub(crate) fn contents(&self, folder: &str) -> Vec<(PathBuf, Vec<u8>)> {
        let mut files = Vec::new();
        gather(&self.path(folder), &mut files);
        files.sort();
        files
    }

    /// Runs what must be refused: exit code 2, one message that has all of `parts`, no new file.
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
            files.push((path.file_name().unwrap().into(), fs::read(&path).unwrap()));
        }
    }
}

/// What a run that succeeded printed.
pub(crate) fn stdout(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", stderr(output));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What a run complained of.
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

//! Control sockets: the one of the only volume that is served, and texts that name one.

use crate::ending::Failure;
use anyhow::anyhow;
use mirrorball_core::diagnostic::quoted;
use std::path::{Path, PathBuf};

/// Folder of the control sockets of volumes that systemd serves.
pub(super) const RUN_FOLDER: &str = "/run/mirrorball";

/// The only control socket in a folder. Fails if there are none or several.
pub(super) fn only_control(folder: &Path) -> Result<PathBuf, Failure> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let is_control = |path: &PathBuf| path.extension().is_some_and(|it| it == "ctl");
    let mut found: Vec<PathBuf> = entries.map(|entry| entry.path()).filter(is_control).collect();
    found.sort();
    let folder = folder.display();
    let text = match &found[..] {
        [only] => return Ok(only.clone()),
        [] => format!(
            "missing --control PATH: {folder} has no control socket\n  help: give the path given \
             to `emulate` or `serve` as --control"
        ),
        several => {
            let list: Vec<String> = several.iter().map(|it| it.display().to_string()).collect();
            format!(
                "missing --control PATH: several volumes are served\n  help: give one of {}",
                list.join(", ")
            )
        }
    };
    Err(Failure::WrongUse(anyhow!("{text}")))
}

/// A text of the service with its `ctl` commands as they can be run.
pub(crate) fn with_control(text: &str, control: &Path) -> String {
    let command = format!("`mirrorball ctl --control {} ", quoted(&control.to_string_lossy()));
    text.replace("`mirrorball ctl ", "`ctl ").replace("`ctl ", &command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_commands_name_the_control_socket() {
        assert_eq!(
            with_control("`ctl status`, or `mirrorball ctl members`", Path::new("/tmp/a b")),
            "`mirrorball ctl --control '/tmp/a b' status`, or `mirrorball ctl --control '/tmp/a \
             b' members`"
        );
    }

    #[test]
    fn the_only_socket_is_used_and_several_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let error = |folder: &Path| match only_control(folder) {
            Err(Failure::WrongUse(error)) => error.to_string(),
            other => panic!("{other:?}"),
        };
        assert!(error(folder.path()).contains("has no control socket"));
        assert!(error(&folder.path().join("nosuch")).contains("has no control socket"));
        for name in ["one.ctl", "one.sock"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert!(only_control(folder.path()).unwrap().ends_with("one.ctl"));
        std::fs::write(folder.path().join("two.ctl"), "").unwrap();
        let text = error(folder.path());
        assert!(text.contains("one.ctl, ") && text.contains("two.ctl"), "{text}");
    }
}

//! Settings that are no files of the kernel: those that `lvchange` and `zpool` set, and files that
//! `tune` writes for `multipathd`, `systemd`, `udev` and `modprobe`.
//!
//! A tool is run by its name, with each value as one word, and never by a shell. In a recorded copy
//! of a machine no tool is run: what it would change is changed in the recorded outputs.

use super::knob_path::{KnobPath, MULTIPATH_FILE};
use crate::detect::{Sysroot, detect_at};
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// First line of every file that `tune` writes.
pub(crate) const MARK: &str =
    "# Written by `mirrorball tune`, and removed by `mirrorball tune --undo`.\n";
/// Variable of the environment of every tool that changes a setting: the process that started it.
/// If that is killed, the tool goes on, and the watchdog waits for its end.
pub(super) const STARTED_BY: &str = "MIRRORBALL_STARTED_BY";
/// Values of a flag of LVM, and of the property of a vdev.
pub(super) const FLAG_VALUES: [&str; 2] = ["n", "y"];
pub(super) const SCHEDULER_VALUES: [&str; 3] = ["auto", "on", "off"];

/// The text of `multipath.conf` for a path selector.
pub(super) fn multipath_text(selector: &str) -> String {
    format!("{MARK}overrides {{\n\tpath_selector \"{selector} 0\"\n}}\n")
}

/// The text that a place shows; `None` if it cannot be read.
pub(super) fn read(sysroot: &Sysroot, path: &str) -> Option<String> {
    match KnobPath::of(path)? {
        KnobPath::Kernel => sysroot.raw_text(path),
        KnobPath::LvmFlag { volume, device } => {
            let array = detect_at(sysroot, volume).ok()?;
            let mut members = array.members.iter();
            let member = members.find(|member| member.device.as_deref() == Some(device))?;
            Some(FLAG_VALUES[usize::from(member.write_mostly)].to_owned())
        }
        KnobPath::ZpoolScheduler { pool, device } => {
            let command = ["zpool", "get", "-H", "-o", "value", "scheduler", pool, device];
            let shown = sysroot.tool_output(&scheduler_file(device), &command);
            let shown = shown.ok().map(|text| text.trim().to_owned());
            shown.or_else(|| (!sysroot.is_live()).then(|| SCHEDULER_VALUES[0].to_owned()))
        }
        KnobPath::OwnFile => {
            let file = sysroot.host_path(path);
            match fs::symlink_metadata(&file) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Some(String::new()),
                Err(_) => None,
                Ok(found) if found.is_file() => fs::read_to_string(file).ok(),
                Ok(_) => Some("no regular file".to_owned()),
            }
        }
    }
}

/// Sets a place that is no file of the kernel. Fails if it is none, the value is none of its own,
/// or the tool or the file system refuses.
pub(super) fn write(sysroot: &Sysroot, path: &str, value: &str) -> io::Result<()> {
    let unknown = || io::Error::other(format!("`{value}` is no value of {path}"));
    match KnobPath::of(path) {
        Some(KnobPath::LvmFlag { volume, device }) => {
            if !FLAG_VALUES.contains(&value) {
                return Err(unknown());
            }
            if sysroot.is_live() {
                let flag = format!("{device}:{value}");
                return run(&["lvchange", "--yes", "--writemostly", &flag, volume]);
            }
            set_recorded_flag(sysroot, volume, device, value == FLAG_VALUES[1])
        }
        Some(KnobPath::ZpoolScheduler { pool, device }) => {
            if !SCHEDULER_VALUES.contains(&value) {
                return Err(unknown());
            }
            if sysroot.is_live() {
                return run(&["zpool", "set", &format!("scheduler={value}"), pool, device]);
            }
            let file = sysroot.host_path(&format!("/tools/{}", scheduler_file(device)));
            fs::write(file, format!("{value}\n"))
        }
        Some(KnobPath::OwnFile) => {
            write_own_file(sysroot, path, value)?;
            reload(sysroot, path, value)
        }
        Some(KnobPath::Kernel) | None => Err(unknown()),
    }
}

/// Runs a tool that changes a setting.
fn run(command: &[&str]) -> io::Result<()> {
    let line = command.join(" ");
    let mut tool = Command::new(command[0]);
    tool.args(&command[1..]).env("LC_ALL", "C").stdin(Stdio::null());
    tool.env(STARTED_BY, std::process::id().to_string());
    let output = tool
        .output()
        .map_err(|error| io::Error::new(error.kind(), format!("cannot run `{line}`: {error}")))?;
    if output.status.success() {
        return Ok(());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let last = message.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message");
    Err(io::Error::other(format!("`{line}` failed: {}", last.trim())))
}

/// Creates or replaces a file of ours, or removes it if the text is empty.
fn write_own_file(sysroot: &Sysroot, path: &str, text: &str) -> io::Result<()> {
    let about = |error: io::Error| io::Error::new(error.kind(), format!("{path}: {error}"));
    let shown = read(sysroot, path).ok_or_else(|| about(io::Error::other("cannot be read")))?;
    if !shown.is_empty() && !shown.starts_with(MARK) {
        return Err(about(io::Error::other("it is there, and `mirrorball tune` did not write it")));
    }
    let file = sysroot.host_path(path);
    let folder = file.parent().unwrap_or(Path::new("/")).to_owned();
    if text.is_empty() {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(about(error)),
            Ok(()) | Err(_) => {}
        }
        // A folder of a drop-in that holds nothing else was made for it.
        if folder.extension().is_some_and(|end| end == "d") && path.contains(".mount.d/") {
            let _ = fs::remove_dir(&folder);
        }
        return Ok(());
    }
    fs::create_dir_all(&folder).map_err(about)?;
    let temporary = folder.join(".mirrorball.new");
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(about(error)),
        Ok(()) | Err(_) => {}
    }
    let mut options = File::options();
    let mut new =
        options.write(true).create_new(true).mode(0o644).open(&temporary).map_err(about)?;
    new.write_all(text.as_bytes()).map_err(about)?;
    new.sync_all().map_err(about)?;
    fs::rename(&temporary, &file).map_err(about)?;
    File::open(&folder)?.sync_all()
}

/// Has the program of a file read it.
fn reload(sysroot: &Sysroot, path: &str, text: &str) -> io::Result<()> {
    match path {
        MULTIPATH_FILE if sysroot.is_live() => run(&["multipathd", "reconfigure"]),
        MULTIPATH_FILE => set_recorded_selector(sysroot, text),
        path if path.starts_with("/etc/systemd/") && sysroot.is_live() => {
            // A machine without systemd has nothing that would read it now.
            let _ = run(&["systemctl", "daemon-reload"]);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The recorded output of `zpool get` for a device.
fn scheduler_file(device: &str) -> String {
    format!("zpool-get-scheduler{}", device.replace('/', "-"))
}

/// The recorded output of `dmsetup table`, each line changed.
fn change_recorded_table(
    sysroot: &Sysroot,
    change: impl Fn(&str) -> Option<String>,
) -> io::Result<()> {
    let file = sysroot.host_path("/tools/dmsetup-table");
    let text = fs::read_to_string(&file)?;
    let lines = text.lines().map(|line| change(line).unwrap_or_else(|| line.to_owned()) + "\n");
    fs::write(file, lines.collect::<String>())
}

/// Sets or clears a flag in the recorded table of a volume, as `lvchange` does.
fn set_recorded_flag(sysroot: &Sysroot, volume: &str, device: &str, is_on: bool) -> io::Result<()> {
    let array = detect_at(sysroot, volume).map_err(|_| io::Error::other("no such volume"))?;
    let mut members = array.members.iter();
    let member = members.find(|member| member.device.as_deref() == Some(device));
    let member = member.ok_or_else(|| io::Error::other(format!("{device} is not in {volume}")))?;
    let index = (member.devid - 1).to_string();
    // The device mapper doubles a hyphen within a name.
    let name = volume.split('/').map(|name| name.replace('-', "--")).collect::<Vec<_>>().join("-");
    change_recorded_table(sysroot, |line| {
        let words = line.strip_prefix(&format!("{name}: "))?.split_whitespace();
        let words: Vec<&str> = words.collect();
        let count: usize = words.get(4)?.parse().ok()?;
        let (begin, rest) = (&words[..4], &words[5 + count..]);
        let mut raid: Vec<&str> = words[5..5 + count].to_vec();
        let flag = raid.windows(2).position(|pair| pair == ["write_mostly", index.as_str()]);
        match (flag, is_on) {
            (Some(at), false) => drop(raid.drain(at..at + 2)),
            (None, true) => raid.extend(["write_mostly", index.as_str()]),
            _ => return None,
        }
        let count = raid.len().to_string();
        let all = [begin, &[count.as_str()], &raid, rest].concat();
        Some(format!("{name}: {}", all.join(" ")))
    })
}

/// Sets the selector of every recorded table of multipath: that of the text, or the default.
fn set_recorded_selector(sysroot: &Sysroot, text: &str) -> io::Result<()> {
    let selector = text.split('"').nth(1).and_then(|value| value.split(' ').next());
    let selector = selector.unwrap_or("service-time");
    change_recorded_table(sysroot, |line| {
        let (begin, groups) = line.split_once(" multipath ")?;
        let known = ["round-robin", "queue-length", "service-time", "historical-service-time"];
        let words = groups.split(' ').map(|it| if known.contains(&it) { selector } else { it });
        Some(format!("{begin} multipath {}", words.collect::<Vec<_>>().join(" ")))
    })
}

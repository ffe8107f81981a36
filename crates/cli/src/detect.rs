//! `mirrorball detect`: finds the arrays of this machine and writes array files.

use crate::ending::{Ending, Failure};
use crate::output_file::{self, Existing};
use crate::screen;
use anyhow::{Context, anyhow};
use mirrorball_core::diagnostic::quoted;
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_host::detect::{
    DetectError, DetectedArray, Sysroot, detect_all, detect_at, detect_without_copies, file_stem,
    pasted_machine, what_to_paste,
};
use serde_json::json;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Find an array of this machine and write an array file
///
/// Reads files of the kernel below /sys and /proc, and the output of `zpool` and `dmsetup` where
/// these are needed. Writes nothing but the array file. Without PATH, takes the only array, or
/// lists all.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Finds btrfs on several devices, md raid1 and raid10, LVM RAID, device-mapper \
mirrors and multipath, ZFS mirrors, and NVMe multipath. Needs root for LVM and multipath. Models \
that are guessed are marked in the file. Exit code 1 if an array is found but cannot be read, 2 if \
none is found.

Examples:
  mirrorball detect
  mirrorball detect /srv/data -o my-array.toml
  mirrorball detect /dev/md0 --json"
)]
pub(crate) struct Args {
    /// Mount point or path on it, block device, or name of an array, volume or pool; `-` reads
    /// pasted outputs of /proc/mdstat, mdadm, zpool, btrfs, lvs, multipath, nvme, smartctl, and of
    /// `lsblk -o NAME,SIZE,ROTA,MODEL`
    path: Option<String>,

    /// Write the array file to FILE [default: standard output]
    #[arg(short, long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,

    /// Replace FILE if it exists
    #[arg(long)]
    force: bool,

    /// Print everything that was read as JSON
    #[arg(long)]
    json: bool,

    /// Read a recorded copy of the files of a machine in DIR instead of this machine; with `-`,
    /// pasted outputs, of which PATH names an array
    #[arg(long, value_name = "DIR")]
    sysroot: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    let existing = Existing::from_force(args.force, args.output.as_deref(), "-o FILE")?;
    if let Some(path) = &args.output {
        output_file::check(path, existing).map_err(Failure::WrongUse)?;
    }
    let (sysroot, path) = machine(args.sysroot.as_deref(), args.path.as_ref())?;
    let (arrays, ending) = match path {
        Some(path) => (vec![detect_at(&sysroot, path).map_err(failure)?], Ending::Done),
        None => every_array(args, &sysroot)?,
    };
    match arrays.as_slice() {
        _ if args.json => screen::print(&json_text(&arrays))?,
        [array] => write(args, existing, array)?,
        several if args.output.is_some() => {
            let names: Vec<&str> = several.iter().map(|array| array.name.as_str()).collect();
            let error = anyhow!(
                "this machine has {} arrays: {}\n  help: name one of them, as in `mirrorball \
                 detect {}`",
                names.len(),
                names.join(", "),
                quoted(target(&several[0]))
            );
            return Err(Failure::WrongUse(error));
        }
        several => {
            let place = place_option(args.sysroot.as_deref(), args.path.as_ref());
            screen::print(&screen::broken(&listing(several, &place)))?;
        }
    }
    Ok(ending)
}

/// The machine and what is asked for in it. For the path `-` the machine is what a text on the
/// standard input says of one.
pub(crate) fn machine<'a>(
    folder: Option<&Path>,
    path: Option<&'a String>,
) -> Result<(Sysroot, Option<&'a String>), Failure> {
    /// More than anyone pastes.
    const TEXT_BYTES_MAX: u64 = 1 << 20;
    if !is_pasted(folder, path) {
        return Ok((sysroot(folder)?, path));
    }
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(TEXT_BYTES_MAX).read_to_end(&mut bytes);
    read.context("cannot read the standard input").map_err(Failure::Fault)?;
    let machine = pasted_machine(&String::from_utf8_lossy(&bytes));
    Ok((machine, path.filter(|path| *path != "-")))
}

/// True if the machine is what a text on the standard input says of one.
pub(crate) fn is_pasted(folder: Option<&Path>, path: Option<&String>) -> bool {
    folder == Some(Path::new("-")) || path.is_some_and(|path| path == "-")
}

/// The option of a printed command for the machine that was read, with a blank before it: none for
/// this one.
pub(crate) fn place_option(folder: Option<&Path>, path: Option<&String>) -> String {
    match folder.and_then(Path::to_str) {
        _ if is_pasted(folder, path) => " --sysroot -".to_owned(),
        Some(folder) => format!(" --sysroot {}", quoted(folder)),
        None => String::new(),
    }
}

/// This machine, or the recorded copy of one.
pub(crate) fn sysroot(folder: Option<&Path>) -> Result<Sysroot, Failure> {
    let Some(folder) = folder else { return Ok(Sysroot::live()) };
    if folder.join("sys").is_dir() {
        return Ok(Sysroot::recorded(folder));
    }
    let what = match folder.is_file() {
        true => "is a file, not a folder",
        false => "has no folder `sys`",
    };
    let help = "--sysroot takes a folder with copies of /sys and /proc";
    Err(Failure::WrongUse(anyhow!("{} {what}\n  help: {help}", folder.display())))
}

/// All arrays that can be read, and how the command ends.
fn every_array(args: &Args, sysroot: &Sysroot) -> Result<(Vec<DetectedArray>, Ending), Failure> {
    let mut arrays = Vec::new();
    let mut errors = Vec::new();
    for found in detect_all(sysroot) {
        match found {
            Ok(array) => arrays.push(array),
            Err(error) => errors.push(error),
        }
    }
    if arrays.is_empty() {
        let others = match &detect_without_copies(sysroot)[..] {
            [] => String::new(),
            others => format!(" with copies of the data: {}", others.join("; ")),
        };
        let is_root = args.sysroot.is_some() || rustix::process::geteuid().is_root();
        let (unread, root) = match is_root {
            true => ("", ""),
            false => {
                let unread = "; LVM and multipath were not read, which needs root";
                (unread, "run it as root, or give a path; ")
            }
        };
        let found = "detect finds btrfs on several devices, md raid1 and raid10, LVM RAID, \
                     device-mapper mirrors and multipath, ZFS mirrors, and NVMe multipath";
        let none = || match is_pasted(args.sysroot.as_deref(), args.path.as_ref()) {
            true => {
                let help = what_to_paste(sysroot);
                anyhow!("the text has no array{others}\n  help: {help}; {found}")
            }
            false => anyhow!("found no array{others}{unread}\n  help: {root}{found}"),
        };
        let last = errors.pop();
        for error in errors {
            screen::say(format_args!("error: {:#}", failure(error).cause()));
        }
        return Err(last.map_or_else(|| Failure::WrongUse(none()), failure));
    }
    let ending = if errors.is_empty() { Ending::Done } else { Ending::FoundFailure };
    if args.output.is_some() {
        let errors = errors.into_iter().map(failure).collect();
        return unreadable(&arrays, errors).map_or(Ok((arrays, ending)), Err);
    }
    for error in errors {
        screen::say(format_args!("error: {:#}", failure(error).cause()));
    }
    Ok((arrays, ending))
}

/// The failure of a `command` on running arrays to find one at `target`, which may be what only
/// `advise` reads: a pasted text, an array file or a built-in array.
pub(crate) fn not_running(command: &str, target: &str, error: DetectError) -> Failure {
    let DetectError::NoArray(_) = error else { return failure(error) };
    let quoted = quoted(target);
    let (what, words, help) = match target {
        "-" => ("a pasted text", "-".to_owned(), "reads pasted outputs"),
        _ if target.ends_with(".toml") => ("an array file", quoted, "reads array files"),
        _ if Path::new(target).is_file() => {
            let words = format!("- < {quoted}");
            ("a file on no array", words, "reads pasted outputs of commands, if this file has them")
        }
        _ if ArrayFile::builtin_names().any(|name| name == target) => {
            ("a simulated array", quoted, "simulates it")
        }
        _ => return failure(error),
    };
    let error = format!("{command} needs the running array, and `{target}` is {what}");
    Failure::WrongUse(anyhow!("{error}\n  help: `mirrorball advise {words}` {help}"))
}

pub(crate) fn failure(error: DetectError) -> Failure {
    match error {
        DetectError::NoArray(diagnostic) => Failure::WrongUse(diagnostic.into()),
        DetectError::Unreadable(diagnostic) => Failure::Fault(diagnostic.into()),
    }
}

/// Why none of several arrays is taken for the one that is meant: some cannot be read.
pub(crate) fn unreadable(found: &[DetectedArray], mut errors: Vec<Failure>) -> Option<Failure> {
    let last = errors.pop()?;
    let others = found.len() + errors.len();
    if others == 0 {
        return Some(last);
    }
    for error in &errors {
        screen::say(format_args!("error: {:#}", error.cause()));
    }
    let names: Vec<&str> = found.iter().map(target).collect();
    let help = match &names[..] {
        [] => "give the path of one of them".to_owned(),
        names => format!("give the path of one; these can be read: {}", names.join(", ")),
    };
    let cause = last.cause().to_string();
    Some(Failure::Fault(anyhow!(
        "of {} arrays {} cannot be read: {}\n  help: {help}",
        others + 1,
        errors.len() + 1,
        cause.lines().next().unwrap_or_default()
    )))
}

/// Writes the array file, and says on stderr what is unusual.
fn write(args: &Args, existing: Existing, array: &DetectedArray) -> Result<(), Failure> {
    if let Some(condition) = array.condition_text() {
        screen::say_later(format_args!("warning: {}: {condition}", array.name));
    }
    let text = array.array_file();
    let path = args.output.as_deref().filter(|path| !output_file::is_stdout(path));
    let Some(path) = path else { return screen::print(&text) };
    output_file::write(path, &text, existing).map_err(Failure::Fault)?;
    screen::print(&format!("wrote {}: {}\n", path.display(), array.summary()))
}

fn json_text(arrays: &[DetectedArray]) -> String {
    screen::json(&json!({ "arrays": arrays }))
}

/// One line for each array, with the command that describes it.
fn listing(arrays: &[DetectedArray], place: &str) -> String {
    let lines = arrays.iter().map(|array| {
        let condition = array.condition_text().map(|text| format!(" ({text})"));
        let condition = condition.unwrap_or_default();
        // Two may have one label.
        let is_alone = arrays.iter().filter(|it| it.name == array.name).count() == 1;
        let id = array.id.as_deref().filter(|_| !is_alone);
        format!(
            "{}{condition}\n  mirrorball detect {}{place} -o {}.toml\n",
            array.summary(),
            quoted(id.unwrap_or(target(array))),
            file_stem(id.unwrap_or(&array.name))
        )
    });
    lines.collect()
}

/// The argument that names this array on the command line.
pub(crate) fn target(array: &DetectedArray) -> &str {
    array.mount.as_deref().unwrap_or(&array.name)
}

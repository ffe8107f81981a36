//! Programs inside this machine's kernel: `mirrorball program load`, `unload` and `status`.
//!
//! The kernel needs the modules of `kernel/`. bpftool registers an object; it is called as a
//! program, because the library that it is made of would add a C library to the build. bpftool 7.8
//! crashes after it has registered a `struct_ops` of a module, so success is judged by the link
//! that it pins. A link is in /sys/fs/bpf/mirrorball/ARRAY/1 or 2: a swap pins the new program in
//! the free one before it removes the old.

use super::ProgramAction;
use crate::ending::{Ending, Failure};
use crate::screen;
use anyhow::{Context, anyhow};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Programs of a kernel: where its files are, and how bpftool is called.
struct KernelPrograms {
    root: PathBuf,
    bpftool: PathBuf,
}

pub(super) fn run(action: &ProgramAction) -> Result<Ending, Failure> {
    let machine = KernelPrograms { root: PathBuf::from("/"), bpftool: PathBuf::from("bpftool") };
    let text = match action {
        ProgramAction::Load { object, path } => machine.load(object, path),
        ProgramAction::Unload { path } => machine.unload(path),
        _ => machine.status(),
    };
    screen::say(text?);
    Ok(Ending::Done)
}

impl KernelPrograms {
    fn policies(&self) -> PathBuf {
        self.root.join("sys/kernel/read_policy")
    }

    /// Names of the arrays that ask a policy.
    fn arrays(&self) -> Result<Vec<String>, Failure> {
        let folder = self.policies();
        let entries = fs::read_dir(&folder).map_err(|_| {
            Failure::WrongUse(anyhow!(
                "this kernel cannot run read policies: it has no {}\n  help: build and load the \
                 modules of `kernel/`, whose README.md says how; without them, `mirrorball tune` \
                 sets the policies that the kernel has",
                folder.display()
            ))
        })?;
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        Ok(names)
    }

    /// The array on which a path lies: a device, or a folder of a file system.
    fn array_of(&self, path: &Path) -> Result<String, Failure> {
        let arrays = self.arrays()?;
        let real = fs::canonicalize(path)
            .with_context(|| format!("cannot find `{}`", path.display()))
            .map_err(Failure::WrongUse)?;
        let device = if real.is_dir() { self.device_of(&real) } else { Some(real) };
        let name = device.as_deref().and_then(Path::file_name).map(|it| it.to_string_lossy());
        let found = name.and_then(|name| {
            let file_systems = fs::read_dir(self.root.join("sys/fs/btrfs"));
            let mut uuids = file_systems.into_iter().flatten().flatten();
            let uuid = uuids.find(|it| it.path().join("devices").join(&*name).exists());
            let uuid = uuid.map(|it| it.file_name().to_string_lossy().into_owned());
            arrays.iter().find(|it| **it == name || Some(*it) == uuid.as_ref()).cloned()
        });
        found.ok_or_else(|| {
            Failure::WrongUse(anyhow!(
                "`{}` is on no array that can have a program\n  help: those that can: {}; a module \
                 of `kernel/` serves arrays that were started after it was loaded",
                path.display(),
                if arrays.is_empty() { "none".into() } else { arrays.join(", ") }
            ))
        })
    }

    /// The device that holds a folder, by the mount with the longest path above it.
    fn device_of(&self, folder: &Path) -> Option<PathBuf> {
        let mounts = fs::read_to_string(self.root.join("proc/self/mounts")).ok()?;
        let fields = mounts.lines().map(|line| line.split(' '));
        let pairs = fields.filter_map(|mut line| Some((line.next()?, line.next()?)));
        let above = pairs.filter(|(_, mount)| folder.starts_with(mount));
        above.max_by_key(|(_, mount)| mount.len()).map(|(device, _)| device.into())
    }

    /// Names of an array's policies, and the one in use.
    fn policy(&self, array: &str) -> Result<String, Failure> {
        let file = self.policies().join(array).join("policy");
        fs::read_to_string(&file)
            .with_context(|| format!("cannot read {}", file.display()))
            .map_err(Failure::Fault)
    }

    fn choose(&self, array: &str, policy: &str) -> Result<(), Failure> {
        let file = self.policies().join(array).join("policy");
        fs::write(&file, policy)
            .with_context(|| format!("cannot write `{policy}` to {}", file.display()))
            .map_err(Failure::Fault)
    }

    fn pins(&self, array: &str) -> PathBuf {
        self.root.join("sys/fs/bpf/mirrorball").join(array)
    }

    fn load(&self, object: &Path, path: &Path) -> Result<String, Failure> {
        let array = self.array_of(path)?;
        let before = self.policy(&array)?;
        let pins = self.pins(&array);
        let [old, new] = match pins.join("1").exists() {
            true => [pins.join("1"), pins.join("2")],
            false => [pins.join("2"), pins.join("1")],
        };
        fs::create_dir_all(&new)
            .with_context(|| {
                format!("cannot make {}: is the BPF file system mounted?", new.display())
            })
            .map_err(Failure::Fault)?;
        let registered = self.register(object, &new).and_then(|()| {
            let name = new_policy(&before, &self.policy(&array)?)?;
            self.choose(&array, &name).map(|()| name)
        });
        let unused = if registered.is_ok() { old } else { new };
        forget(&unused)?;
        let name = registered?;
        Ok(format!(
            "`{array}` reads by {name}\n  undo it with `mirrorball program unload {}`",
            path.display()
        ))
    }

    /// Has bpftool register an object and pin its link in a folder.
    fn register(&self, object: &Path, pins: &Path) -> Result<(), Failure> {
        let mut bpftool = Command::new(&self.bpftool);
        let output = bpftool.args(["struct_ops", "register"]).arg(object).arg(pins).output();
        let output = match output {
            Ok(output) => output,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(Failure::WrongUse(anyhow!(
                    "bpftool is missing\n  help: apt-get install bpftool"
                )));
            }
            Err(error) => return Err(Failure::Fault(error.into())),
        };
        if fs::read_dir(pins).is_ok_and(|mut links| links.next().is_some()) {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        let last = lines[lines.len().saturating_sub(4)..].join("\n  ");
        Err(Failure::WrongUse(anyhow!(
            "the kernel refuses `{}`\n  {last}\n  help: compile it with -DMB_KERNEL; dmesg says \
             what the module refuses, docs/policies.md what the verifier accepts",
            object.display()
        )))
    }

    fn unload(&self, path: &Path) -> Result<String, Failure> {
        let array = self.array_of(path)?;
        self.choose(&array, "builtin")?;
        for number in ["1", "2"] {
            forget(&self.pins(&array).join(number))?;
        }
        Ok(format!("`{array}` reads by its built-in rule"))
    }

    fn status(&self) -> Result<String, Failure> {
        let mut text = String::new();
        for array in self.arrays()? {
            text += &format!("{array}: {}\n", self.policy(&array)?.trim());
            let file = self.policies().join(&array).join("statistics");
            let statistics = fs::read_to_string(file).unwrap_or_default();
            for line in statistics.lines() {
                text += &format!("  {line}\n");
            }
        }
        if text.is_empty() {
            text = "no array that can have a program is running\n".into();
        }
        Ok(text.trim_end().to_owned())
    }
}

/// The program that is there now and was not before; the one in use is in brackets.
fn new_policy(before: &str, now: &str) -> Result<String, Failure> {
    let programs = |text: &str| -> Vec<String> {
        let names = text.split_whitespace().map(|name| name.trim_matches(['[', ']']));
        names.filter(|name| name.starts_with("bpf:")).map(str::to_owned).collect()
    };
    let mut known = programs(before);
    let added = programs(now).into_iter().find(|name| {
        let place = known.iter().position(|it| it == name);
        place.map(|at| known.swap_remove(at)).is_none()
    });
    added.ok_or_else(|| {
        Failure::Fault(anyhow!("the object was registered, but the array shows no new policy"))
    })
}

/// Removes a folder with pinned links: the kernel then drops the program.
fn forget(pins: &Path) -> Result<(), Failure> {
    let removed = fs::read_dir(pins).map_or(Ok(()), |links| {
        links.flatten().try_for_each(|link| fs::remove_file(link.path()))?;
        fs::remove_dir(pins)
    });
    removed.with_context(|| format!("cannot remove {}", pins.display())).map_err(Failure::Fault)
}

#[cfg(test)]
#[path = "kernel_tests.rs"]
mod tests;

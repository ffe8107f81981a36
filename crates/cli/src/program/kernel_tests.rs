//! The loader against a folder that looks like a machine, and a script that stands for bpftool.

use super::KernelPrograms;
use crate::ending::Failure;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A machine with the array `md0`. Its bpftool pins a link and adds `bpf:NAME` to the policies, as
/// the kernel does, and then crashes; it refuses objects whose name has `bad`.
fn machine(name: &str) -> (KernelPrograms, PathBuf) {
    let root = std::env::temp_dir().join(format!("mirrorball-{name}-{}", std::process::id()));
    let array = root.join("sys/kernel/read_policy/md0");
    fs::create_dir_all(&array).unwrap();
    fs::create_dir_all(root.join("dev")).unwrap();
    fs::write(array.join("policy"), "[builtin]\n").unwrap();
    fs::write(array.join("statistics"), "decisions 5\ndetached no\n").unwrap();
    let device = root.join("dev/md0");
    fs::write(&device, "").unwrap();
    let bpftool = root.join("bpftool");
    let script = format!(
        "#!/bin/sh\ncase $3 in *bad*) echo 'R1 unbounded memory access' >&2; exit 1 ;; esac\n\
         touch $4/mb_ops\nprintf '\\n%s' bpf:$(basename $3 .o) >>{}/policy\nkill -SEGV $$\n",
        array.display()
    );
    fs::write(&bpftool, script).unwrap();
    fs::set_permissions(&bpftool, fs::Permissions::from_mode(0o755)).unwrap();
    (KernelPrograms { root, bpftool }, device)
}

fn text(failure: Failure) -> String {
    format!("{:#}", failure.into_cause())
}

#[test]
fn program_is_registered_pinned_and_written_to_the_array() {
    let (machine, device) = machine("load");
    let loaded = machine.load(Path::new("fast.o"), &device).unwrap();
    assert!(loaded.starts_with("`md0` reads by bpf:fast\n"), "{loaded}");
    let policy = machine.policies().join("md0/policy");
    assert_eq!(fs::read_to_string(&policy).unwrap(), "bpf:fast");
    assert!(machine.pins("md0").join("1/mb_ops").exists());
    // A swap pins the new one before the old is removed.
    machine.load(Path::new("other.o"), &device).unwrap();
    assert_eq!(fs::read_to_string(&policy).unwrap(), "bpf:other");
    let pins = machine.pins("md0");
    assert!(!pins.join("1").exists() && pins.join("2/mb_ops").exists());
    assert!(machine.status().unwrap().starts_with("md0: bpf:other\n  decisions 5\n"));
    machine.unload(&device).unwrap();
    assert_eq!(fs::read_to_string(&policy).unwrap(), "builtin");
    assert!(!pins.join("2").exists());
    fs::remove_dir_all(&machine.root).unwrap();
}

#[test]
fn refused_object_leaves_the_policy_and_no_pin() {
    let (machine, device) = machine("refused");
    let error = text(machine.load(Path::new("bad.o"), &device).unwrap_err());
    assert!(error.contains("the kernel refuses `bad.o`\n  R1 unbounded memory access"), "{error}");
    let policy = machine.policies().join("md0/policy");
    assert_eq!(fs::read_to_string(policy).unwrap(), "[builtin]\n");
    assert!(!machine.pins("md0").join("1").exists());
    fs::remove_dir_all(&machine.root).unwrap();
}

#[test]
fn kernel_without_the_hook_and_paths_on_no_array_are_refused_in_plain_words() {
    let (machine, device) = machine("without");
    let error = text(machine.load(Path::new("fast.o"), &machine.root).unwrap_err());
    assert!(error.contains("those that can: md0"), "{error}");
    fs::remove_dir_all(machine.policies()).unwrap();
    for error in [machine.load(Path::new("fast.o"), &device), machine.unload(&device)] {
        let error = text(error.unwrap_err());
        assert!(error.starts_with("this kernel cannot run read policies"), "{error}");
    }
    fs::remove_dir_all(&machine.root).unwrap();
}

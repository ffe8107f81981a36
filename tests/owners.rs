//! `advise` for machines of owners, rebuilt from public reports: no command that does harm.
//! `tests/sysroots/owners/` has a machine in a file each.

use crate::common::{Folder, stdout};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Writes the files and links of a machine into a folder.
fn machine(folder: &Folder, name: &str) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots/owners");
    let text = fs::read_to_string(from.join(format!("{name}.txt"))).unwrap();
    let root = folder.path("machine");
    for line in text.lines() {
        let parts: Vec<&str> = line.splitn(3, ' ').collect();
        let (path, content) = (root.join(parts[0]), parts.get(2).copied().unwrap_or_default());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        match parts[1] {
            "->" => symlink(content, path).unwrap(),
            _ => fs::write(path, content.replace("\\n", "\n").replace("\\t", "\t")).unwrap(),
        }
    }
    root
}

/// The advice for an array of a machine, with one space for all white space.
fn advice(name: &str, array: &str, job: &str) -> String {
    let folder = Folder::new();
    let root = machine(&folder, name);
    let root = root.to_str().unwrap();
    let run = ["advise", "--sysroot", root, array, job, "-p", "first", "-d", "200ms", "-n", "2"];
    let text = stdout(&folder.run(&run));
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn a_raid10_of_an_old_kernel_names_the_release_with_another_rule() {
    let text = advice("01-nvme-sata-raid10", "md1", "rand-4k-qd32");
    assert!(text.contains("You have md/raid10-2008"), "{text}");
    assert!(
        text.contains("needs Linux 5.3 or later: the running Linux does not offer it"),
        "{text}"
    );
}

#[test]
fn no_flag_is_cleared_where_that_does_not_lead_to_the_setting() {
    let text = advice("19b-nas-system-raid1-4-bays", "md0", "rand-4k-qd32");
    assert!(text.contains("You have md/raid1-2012+write-mostly:1+write-mostly:2"), "{text}");
    assert!(!text.contains("echo -writemostly"), "{text}");
}

#[test]
fn lvm_is_given_physical_volumes() {
    let text = advice("14b-lvm-raid1-integrity-hdd-ssd", "nas/media", "rand-4k-qd32");
    assert!(text.contains("lvchange --yes --writemostly /dev/sda:y nas/media"), "{text}");
    assert!(!text.contains("_rimage_0_iorig"), "{text}");
}

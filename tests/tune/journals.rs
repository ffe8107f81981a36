//! The journals of `tune`, where names have changed, files are shared, or one of them cannot be
//! undone.

use super::{Machine, multipath};
use crate::common::{stderr, stdout};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

fn journal(machine: &Machine, ending: &str) -> Option<PathBuf> {
    let entries = fs::read_dir(machine.path("var/lib/mirrorball/bench")).into_iter();
    let mut paths = entries.flatten().flatten().map(|it| it.path());
    paths.find(|path| path.extension().is_some_and(|it| it == ending))
}

fn member_file(member: &str, file: &str) -> String {
    format!("sys/devices/virtual/block/md0/md/dev-{member}/{file}")
}

fn states(machine: &Machine) -> [String; 2] {
    ["sda", "sdb"].map(|member| machine.text(&member_file(member, "state")).trim().to_owned())
}

#[test]
fn members_that_have_swapped_names_are_still_undone() {
    let machine = Machine::copy_of("md-raid1-hdd-ssd");
    stdout(&machine.tune(&["md0", "-p", "md/raid1+write-mostly:1", "--apply"]));
    assert_eq!(states(&machine), ["in_sync,write_mostly", "in_sync"]);
    machine.boot("two\n");
    for file in ["slot", "state"] {
        let [one, two] = ["sda", "sdb"].map(|member| machine.path(&member_file(member, file)));
        let (first, second) = (fs::read(&one).unwrap(), fs::read(&two).unwrap());
        fs::write(one, second).unwrap();
        fs::write(two, first).unwrap();
    }
    let swap = |file: &str, from: &str, to: &str| {
        fs::write(machine.path(file), machine.text(file).replace(from, to)).unwrap();
    };
    swap("proc/mdstat", "sdb[1] sda[0]", "sda[1] sdb[0]");
    assert_eq!(states(&machine), ["in_sync", "in_sync,write_mostly"]);
    stdout(&machine.tune(&["md0", "-p", "md/raid1+write-mostly:2", "--apply"]));
    assert_eq!(states(&machine), ["in_sync,write_mostly", "in_sync"]);
    stdout(&machine.tune(&["md0", "--undo"]));
    assert_eq!(states(&machine), ["in_sync", "in_sync"]);
}

#[test]
fn a_file_of_another_array_is_left_and_no_journal_is_written_that_cannot_be_read() {
    let machine = multipath();
    stdout(&machine.tune(&["mpatha", "-p", "dm/queue-length", "--apply"]));
    // The file of the other map, which has a journal of its own.
    fs::remove_file(journal(&machine, "tune").unwrap()).unwrap();
    let before = machine.files();
    let output = machine.tune(&["mpatha", "-p", "dm/round-robin", "--apply"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("`mirrorball tune` did not write it for"),
        "{}",
        stderr(&output)
    );
    assert_eq!(machine.files(), before);
    assert!(stdout(&machine.tune(&["--undo"])).contains("nothing to undo"));
}

#[test]
fn what_a_service_began_with_is_undone_only_behind_it() {
    let machine = Machine::copy_of("md-raid1-hdd-ssd");
    stdout(&machine.tune(&["md0", "-p", "md/raid1+write-mostly:1", "--apply"]));
    let path = journal(&machine, "tune").unwrap();
    let of_service = path.with_extension("auto");
    let text = fs::read_to_string(&path).unwrap();
    fs::copy(&path, &of_service).unwrap();
    let gone = text.replace("\"slot\",\n          \"0\"", "\"slot\",\n          \"7\"");
    assert_ne!(gone, text, "{text}");
    fs::write(&of_service, gone).unwrap();
    for target in [&["--undo"][..], &["md0", "--undo"]] {
        let output = machine.tune(target);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("what came after it is not undone"), "{output:?}");
        assert_eq!(states(&machine), ["in_sync,write_mostly", "in_sync"]);
        assert!(path.exists() && of_service.exists());
    }
    fs::remove_file(of_service).unwrap();
    stdout(&machine.tune(&["md0", "--undo"]));
    assert_eq!(states(&machine), ["in_sync", "in_sync"]);
}

#[test]
fn another_pool_with_the_same_parameters_is_undone_first() {
    let machine = Machine::copy_of("zfs-mirror");
    stdout(&machine.tune(&["tank", "-p", "zfs/mirror:100", "--apply"]));
    let path = journal(&machine, "tune").unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let of_other = text.replace("\"tank\"", "\"other\"").replace("11730289456214490277", "17");
    fs::write(&path, of_other).unwrap();
    let before = machine.files();
    let output = machine.tune(&["tank", "-p", "zfs/mirror:5:5", "--apply"]);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("tune has set other, which shares settings with tank"), "{said}");
    assert_eq!(machine.files(), before);
}

#[test]
fn a_subsystem_that_has_got_another_number_is_still_undone() {
    let machine = Machine::copy_of("nvme-multipath");
    stdout(&machine.tune(&["nvme-subsys0", "-p", "nvme/round-robin", "--apply"]));
    let class = machine.path("sys/class/nvme-subsystem");
    let folder = machine.path("sys/devices/virtual/nvme-subsystem");
    fs::rename(folder.join("nvme-subsys0"), folder.join("nvme-subsys3")).unwrap();
    fs::remove_file(class.join("nvme-subsys0")).unwrap();
    let target = "../../devices/virtual/nvme-subsystem/nvme-subsys3";
    symlink(target, class.join("nvme-subsys3")).unwrap();
    let listed = stdout(&machine.tune(&["--status"]));
    assert!(listed.contains("nvme/round-robin, in force"), "{listed}");
    stdout(&machine.tune(&["--undo"]));
    assert_eq!(fs::read_to_string(folder.join("nvme-subsys3/iopolicy")).unwrap(), "numa\n");
}

//! `mirrorball advise` on recorded copies of machines, and `compare --system`.

use crate::common::{Folder, stderr, stdout};
use std::path::Path;

/// Advice for a recorded machine, from short runs.
fn advice(root: &str, more: &[&str]) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots").join(root);
    let folder = folder.canonicalize().unwrap();
    let fixed = ["advise", "--sysroot", folder.to_str().unwrap(), "-d", "300ms", "-n", "2"];
    stdout(&Folder::new().run(&[&fixed[..], more].concat()))
}

/// The lines of the answer under a name, up to the next.
fn entry<'a>(text: &'a str, name: &str) -> &'a str {
    let from = text.find(name).unwrap_or_else(|| panic!("no `{name}` in\n{text}"));
    let rest = &text[from..];
    let end = ["\nWith more", "\nBest known", "\n\n"].iter().filter_map(|it| rest[1..].find(it));
    &rest[..end.min().map_or(rest.len(), |end| end + 1)]
}

#[test]
fn each_system_is_advised_in_its_own_commands() {
    for (root, in_force, command) in [
        ("md-raid1-hdd-ssd", "md/raid1", "echo writemostly > /sys/block/md0/md/dev-sda/state"),
        ("lvm-raid1", "md/raid1", "lvchange --yes --writemostly /dev/sda:y vg0/data"),
        ("luks-on-lvm-on-md", "md/raid1", "/sys/block/md0/md/dev-sda2/state"),
        ("zfs-mirror", "zfs/mirror", "/sys/module/zfs/parameters"),
        ("nvme-multipath", "nvme/numa", "/sys/class/nvme-subsystem/nvme-subsys0/iopolicy"),
    ] {
        let text = advice(root, &["-p", "mirrorball/first"]);
        assert!(entry(&text, "You have").contains(in_force), "{root}: {text}");
        let best = entry(&text, "Best offered");
        assert!(best.contains(command) && best.contains("undo"), "{root}: {text}");
        assert!(best.contains("times as fast"), "{root}: {text}");
    }
}

#[test]
fn a_system_without_a_better_setting_says_so() {
    for root in ["btrfs-raid1-three", "md-raid10"] {
        let text = advice(root, &["-p", "mirrorball/first"]);
        assert!(entry(&text, "Best offered").contains("offers nothing better"), "{root}: {text}");
    }
    // This kernel has the policies, but a build without the option shows `pid` alone.
    let text = advice("btrfs-raid1-loop", &["-p", "mirrorball/first"]);
    let more = entry(&text, "With more");
    assert!(more.contains("CONFIG_BTRFS_EXPERIMENTAL") && more.contains("/read_policy"), "{text}");
}

#[test]
fn a_flag_that_is_set_is_what_the_array_has() {
    let text = advice("md-raid1-writemostly", &["-p", "mirrorball/first"]);
    assert!(entry(&text, "You have").contains("md/raid1+write-mostly:"), "{text}");
    assert!(entry(&text, "Best offered").contains("offers nothing better"), "{text}");
}

#[test]
fn advice_needs_an_array_and_its_system() {
    let folder = Folder::new();
    std::fs::write(
        folder.path("a.toml"),
        "name = \"a\"\nprofile = \"raid1\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\ncount = 2\n",
    )
    .unwrap();
    folder.refuses(&["advise", "a.toml"], &["which storage system", "--system"]);
    folder.refuses(&["advise", "a.toml", "--system", "mdd"], &["unknown system `mdd`", "`md`"]);
    folder.refuses(&["advise", "a.toml", "--system", ""], &["the name of the system is missing"]);
    folder
        .refuses(&["advise", "a.toml", "--system", "md:"], &["the version after `md:` is missing"]);
    folder.refuses(&["advise", "a.toml", "--system", "md:2"], &["for Linux 2", "from 6.9"]);
    folder.refuses(&["advise", "--sysroot", "."], &["has no folder `sys`"]);
    std::fs::create_dir(folder.path("sys")).unwrap();
    folder.refuses(&["advise", "--sysroot", "."], &[". has no array that can be read"]);
    std::fs::write(folder.path("x.txt"), "").unwrap();
    folder.refuses(&["advise", "x.txt"], &["x.txt", "give it a name that ends in .toml"]);
    folder.refuses(&["advise", "/nonexistent/path"], &["/nonexistent/path"]);
    let output = folder.run(&["advise", "a.toml", "--system", "md", "-d", "200ms", "-n", "2"]);
    let text = stdout(&output);
    assert!(entry(&text, "Best offered").contains("offers nothing better"), "{text}");
    assert!(stderr(&output).contains("cells: 0 reused"), "{}", stderr(&output));
    let more = folder.run(&["advise", "a.toml", "--system", "md", "-d", "200ms", "-n", "3"]);
    assert!(stdout(&more).contains("You have"), "another number of repeats is another folder");
}

#[test]
fn a_raid10_of_md_is_advised_by_the_rule_of_raid10() {
    let short = ["rand-4k-qd1", "-d", "50ms", "-n", "2", "-p", "first"];
    let advise = ["advise", "eight-hdd-raid10", "--system", "md:99"];
    let output = Folder::new().run(&[&advise[..], &short].concat());
    assert!(entry(&stdout(&output), "You have").contains("md/raid10"));
    assert!(stderr(&output).contains("note: Linux 99 is newer than"), "{}", stderr(&output));
}

#[test]
fn compare_takes_the_settings_of_a_system() {
    let folder = Folder::new();
    std::fs::write(
        folder.path("pair.toml"),
        "name = \"pair\"\nprofile = \"raid1\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\n\
         [[member]]\nmodel = \"ssd-sata-plp\"\nsize = \"960GB\"\n",
    )
    .unwrap();
    let command =
        ["compare", "pair.toml", "rand-4k-qd1", "--system", "md", "-p", "first", "-d", "1s"];
    let text = stdout(&folder.run(&command));
    assert!(
        text.contains("times as fast as `md/raid1`"),
        "the baseline is what is in force: {text}"
    );
    let best = entry(&text, "Best offered");
    assert!(best.contains("md/raid1+write-mostly:1") && best.contains("dev-DEVICE-1"), "{text}");
    std::fs::write(
        folder.path("flagged.toml"),
        "name = \"pair\"\nprofile = \"raid1\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\n\
         write_mostly = true\n[[member]]\nmodel = \"hdd-7k2-ent\"\n",
    )
    .unwrap();
    folder.refuses(
        &["compare", "flagged.toml", "rand-4k-qd1", "--system", "md"],
        &["member 1 as write-mostly", "remove `write_mostly`"],
    );
}

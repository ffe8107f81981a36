//! `mirrorball advise` with jobs of any length, and on arrays that are stopped, degraded, being
//! rebuilt or without copies: recorded machines with some of their files changed.

use crate::common::{Folder, stderr, stdout};
use std::fs;
use std::path::Path;

/// Options for a short answer about one job.
const SHORT: [&str; 6] = ["-p", "first", "-d", "50ms", "-n", "2"];

/// Copies a recorded machine into `folder`, and writes files of its md0; `None` removes one.
fn machine(folder: &Folder, name: &str, to: &str, files: &[(&str, Option<&str>)]) {
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots").join(name);
    let recorded = recorded.canonicalize().unwrap();
    let mut command = std::process::Command::new("cp");
    assert!(command.arg("-a").arg(recorded).arg(folder.path(to)).status().unwrap().success());
    for (file, content) in files {
        let path = folder.path(to).join("sys/block/md0/md").join(file);
        match content {
            Some(content) => fs::write(path, content).unwrap(),
            None => fs::remove_file(path).unwrap(),
        }
    }
}

/// The answer, on one line.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn of_a_running_recovery_the_rest_is_rebuilt() {
    let folder = Folder::new();
    let recover = [
        ("dev-sda/state", Some("spare\n")),
        ("sync_action", Some("recover\n")),
        ("sync_completed", Some("500000000 / 1953260928\n")),
    ];
    machine(&folder, "md-raid1-hdd-ssd", "md", &recover);
    let text = stdout(&folder.run(&[&["advise", "--sysroot", "md"][..], &SHORT].concat()));
    assert!(text.contains("recovery at 25.6 %: wait for its end first"), "{text}");
    assert!(text.contains("rebuild of devid 1 (74 % left)"), "{text}");
    // The file of `detect` says the same.
    let detect = ["detect", "--sysroot", "md", "-o", "md0.toml"];
    assert!(folder.run(&detect).status.success());
    let text = stdout(&folder.run(&[&["advise", "md0.toml"][..], &SHORT].concat()));
    assert!(text.contains("rebuild of devid 1 (74 % left)"), "{text}");
}

#[test]
fn a_stopped_array_gets_no_commands() {
    let folder = Folder::new();
    let stopped = [("array_state", Some("inactive\n")), ("sync_action", None)];
    machine(&folder, "md-raid1-hdd-ssd", "md", &stopped);
    assert!(folder.run(&["detect", "--sysroot", "md", "-o", "md0.toml"]).status.success());
    for array in [&["advise", "--sysroot", "md"][..], &["advise", "md0.toml"]] {
        let output = folder.run(&[array, &["rand-4k-qd1"], &SHORT].concat());
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
        let error = stderr(&output);
        assert!(error.contains("the array is not running (its state is inactive)"), "{error}");
    }
}

#[test]
fn the_new_disk_of_a_failed_member_is_added_with_its_flag() {
    let folder = Folder::new();
    machine(&folder, "md-raid1-degraded", "md", &[]);
    let run = [&["advise", "--sysroot", "md", "rand-4k-qd1"][..], &SHORT].concat();
    let text = stdout(&folder.run(&run));
    assert!(text.contains("add    mdadm /dev/md0 --add --write-mostly /dev/NEW"), "{text}");
    assert!(!text.contains("set    echo"), "{text}");
    let first = text.clone();
    let text = words(&text);
    for part in [
        "replace devid 1 first: `mdadm /dev/md0 --remove /dev/sda`, `mdadm /dev/md0 --add \
         --write-mostly /dev/NEW`",
        "NEW is the disk in the place of the one that failed",
        "until then devid 2 serves all reads",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    // The file that was saved says the same.
    let saved = ["advise", "mirrorball-results/md0.toml", "rand-4k-qd1"];
    let saved = stdout(&folder.run(&[&saved[..], &SHORT].concat()));
    let is_state = |line: &&str| line.starts_with("State ");
    assert_eq!(saved.lines().find(is_state), first.lines().find(is_state), "{saved}");
    // If the flag is in force already, the new disk does not have it.
    fs::write(folder.path("md/sys/block/md0/md/dev-sda/state"), "faulty,write_mostly\n").unwrap();
    let text = stdout(&folder.run(&run));
    assert!(text.contains("nothing better than md/raid1+write-mostly:1"), "{text}");
    assert!(text.contains("add    mdadm /dev/md0 --add --write-mostly /dev/NEW"), "{text}");
}

#[test]
fn a_missing_disk_can_be_replaced_by_one_of_a_model() {
    let folder = Folder::new();
    let pair = "name = \"pair\"\nlayout = \"md-raid1\"\n[source]\nsystem = \"md\"\n[[member]]\n\
                model = \"hdd-7k2-ent\"\nfailed = true\n\
                [[member]]\nmodel = \"ssd-sata-consumer\"\n";
    fs::write(folder.path("pair.toml"), pair).unwrap();
    let run = [&["advise", "pair.toml", "rand-4k-qd1"][..], &SHORT].concat();
    let output = folder.run(&run);
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    assert!(error.contains("`mirrorball advise pair.toml --what-if replace=1:MODEL`"), "{error}");
    let text = stdout(&folder.run(&[&run[..], &["--what-if", "replace=1:hdd-5k4"]].concat()));
    let state = "State degraded: replace devid 1 first: `mdadm /dev/ARRAY --add --write-mostly \
                 /dev/NEW`; one more failure loses all data State the answer is for after that: \
                 devid 1 is replaced by hdd-5k4 of";
    assert!(words(&text).starts_with(state), "{text}");
    assert!(text.contains("devid 1: simulated as hdd-5k4"), "{text}");
    assert!(text.contains("md/raid1+write-mostly:1"), "{text}");
    assert!(!text.contains("What if"), "the array as it is has no answer: {text}");
    let more = ["--what-if", "replace=1:hdd-5k4", "--what-if", "replace=2:nvme-gen4"];
    let text = stdout(&folder.run(&[&run[..], &more].concat()));
    let [state, change] = ["State ", "What if       devid 2 is replaced by nvme-gen4 of the "];
    assert!(text.starts_with(state) && text.contains(change), "{text}");
    let unknown = [&run[..], &["--what-if", "replace=1:hdd-5k5"]].concat();
    folder.refuses(&unknown, &["there is no model `hdd-5k5`", "did you mean"]);
}

#[test]
fn a_member_with_errors_comes_first_and_is_the_one_to_replace() {
    let folder = Folder::new();
    machine(&folder, "zfs-mirror", "zfs", &[]);
    let status = folder.path("zfs/tools/zpool-status");
    let text = fs::read_to_string(&status).unwrap();
    let counted = text.replace("/dev/sdb1  ONLINE       0     0     0", "/dev/sdb1 ONLINE 0 0 12");
    assert_ne!(counted, text);
    fs::write(&status, counted).unwrap();
    machine(&folder, "btrfs-raid1-three", "btrfs", &[]);
    let file = "btrfs/sys/fs/btrfs";
    let fsid = fs::read_dir(folder.path(file)).unwrap().flatten().map(|it| it.file_name());
    let fsid = fsid.into_iter().find(|it| it.to_string_lossy().contains('-')).unwrap();
    let stats = folder.path(file).join(fsid).join("devinfo/3/error_stats");
    fs::write(stats, "write_errs 0\nread_errs 2\nflush_errs 0\ncorruption_errs 1\n").unwrap();
    for (machine, state) in [
        (
            "zfs",
            "State sdb1: 12 checksum errors: find out why before anything else (`zpool status -v \
                 tank`); often the disk, its cable or its port",
        ),
        (
            "btrfs",
            "2 read and 1 checksum errors: find out why before anything else (`btrfs device \
                   stats /srv/data`)",
        ),
    ] {
        let run = [&["advise", "--sysroot", machine, "rand-4k-qd1"][..], &SHORT].concat();
        let text = words(&stdout(&folder.run(&run)));
        assert!(text.contains(state), "{text}");
    }
    let member = "[[member]]\nmodel = \"hdd-7k2-ent\"\n";
    let pair = "name = \"pair\"\nlayout = \"zfs-mirror:2\"\n[source]\nsystem = \"zfs\"\n";
    let ssd = member.replace("hdd-7k2-ent", "ssd-sata-consumer");
    let pair = format!("{pair}{ssd}{member}errors = \"12 checksum errors\"\n");
    fs::write(folder.path("pair.toml"), pair).unwrap();
    let run = [&["advise", "pair.toml", "rand-4k-qd1"][..], &SHORT, &["--what-if"]].concat();
    let text = stdout(&folder.run(&run));
    // Counted errors may be those of a cable: they rule no change out.
    let all = ["replace=2:ssd-sata-consumer", "replace=1:nvme-gen4", "add=ssd-sata-consumer"];
    assert!(all.iter().all(|it| text.contains(it)), "{text}");
}

/// The others may have the last copy.
#[test]
fn only_a_member_that_is_missing_or_rebuilt_is_to_be_replaced() {
    let folder = Folder::new();
    let head = "name = \"pool\"\nlayout = \"zfs-mirror:2\"\n[source]\nsystem = \"zfs\"\n";
    let member = "[[member]]\nmodel = \"hdd-7k2-ent\"\n";
    for (count, out) in [(2, "rebuilding = \"1GB\"\n"), (4, "failed = true\n")] {
        let others = member.repeat(count - 2);
        let text = format!("{head}{member}errors = \"1 read error\"\n{member}{out}{others}");
        fs::write(folder.path("pool.toml"), text).unwrap();
        let run = [&["advise", "pool.toml", "rand-4k-qd1"][..], &SHORT, &["--what-if"]].concat();
        let text = stdout(&folder.run(&run));
        let others = ["replace=1:", "replace=3:", "layout=", "add="];
        assert!(
            text.contains("replace=2:") && !others.iter().any(|it| text.contains(it)),
            "{text}"
        );
    }
}

#[test]
fn what_keeps_no_copies_is_named_without_a_path_too() {
    let folder = Folder::new();
    machine(&folder, "md-raid1-hdd-ssd", "md", &[("level", Some("raid5\n"))]);
    let words = "with copies of the data: md0 is md raid5 of 2 devices, which has parity";
    let root = folder.path("md");
    for command in ["detect", "advise"] {
        Folder::new().refuses(&[command, "--sysroot", root.to_str().unwrap()], &[words]);
    }
    machine(&folder, "md-raid1-hdd-ssd", "no-level", &[("level", None)]);
    for command in ["detect", "advise"] {
        let output = folder.run(&[command, "--sysroot", "no-level"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("md0: cannot read its level"), "{}", stderr(&output));
    }
}

#[test]
fn what_a_far_layout_takes_and_which_disk_of_drbd_is_local_is_said() {
    let folder = Folder::new();
    machine(&folder, "md-raid10-far", "md", &[]);
    let more = ["--what-if", "add=hdd-7k2-desktop"];
    let run = [&["advise", "--sysroot", "md", "rand-4k-qd1"][..], &SHORT, &more].concat();
    let text = stdout(&folder.run(&run));
    assert!(words(&text).contains("is added (md cannot reshape a far layout"), "{text}");
    assert!(text.contains("The best setting of each, in requests/s: md/raid10 now"), "{text}");
    // One ZFS mirror gets a third copy; several get a whole mirror.
    let pair = "name = \"pair\"\nlayout = \"zfs-mirror:2\"\n[source]\nsystem = \"zfs\"\n\
                [[member]]\nmodel = \"hdd-7k2-ent\"\ncount = 2\n";
    fs::write(folder.path("pair.toml"), pair).unwrap();
    let run = [&["advise", "pair.toml", "rand-4k-qd1"][..], &SHORT, &more].concat();
    let text = words(&stdout(&folder.run(&run)));
    assert!(text.contains("hdd-7k2-desktop of the size of the smallest member is added"), "{text}");
    let run = ["advise", "hdd-ssd-raid1", "rand-4k-qd1", "--system", "drbd"];
    let text = words(&stdout(&folder.run(&[&run[..], &SHORT].concat())));
    assert!(text.contains("devid 1 is taken for the local disk, and no network"), "{text}");
}

#[test]
fn each_single_change_is_tried_and_ranked() {
    let folder = Folder::new();
    let run = ["advise", "hdd-ssd-raid1", "rand-4k-qd1", "--system", "md"];
    let text = stdout(&folder.run(&[&run[..], &SHORT, &["--what-if"]].concat()));
    assert!(text.starts_with("What if       --what-if replace="), "{text}");
    let row = |change: &str| {
        let mut lines = text.lines();
        lines.position(|line| line.trim_start().starts_with(&format!("{change} ")))
    };
    let faster = row("replace=2:nvme-gen4").expect("a faster SSD is tried");
    let same = row("replace=1:ssd-sata-plp").expect("a second SSD is tried");
    assert!(faster < same && row("layout=md-raid10-far").is_some(), "{text}");
    assert!(row("layout=md-raid1").is_none(), "the layout in use is no change: {text}");
    // The change that is named by itself brings the same: the size of the disk, the jobs and the
    // seeds are.
    let json = |change: &[&str]| -> serde_json::Value {
        let output = folder.run(&[&run[..], &SHORT, &["-f", "json", "--what-if"], change].concat());
        serde_json::from_str(&stdout(&output)).unwrap()
    };
    let all = json(&[]);
    for change in ["replace=1:nvme-gen4", "replace=2:nvme-gen4", "add=ssd-sata-plp"] {
        let mut ranked = all["changes"].as_array().unwrap().iter();
        let ranked = ranked.find(|it| it["change"] == change).unwrap();
        assert_eq!(ranked["gain"], json(&[change])["what_if"]["gain"], "{change}");
    }
    // Both are 2.5 times as fast: the one that must be bought anyway stands first.
    let other = Folder::new();
    machine(&other, "md-raid1-degraded", "md", &[]);
    let degraded =
        [&["advise", "--sysroot", "md", "rand-4k-qd32"][..], &SHORT, &["--what-if"]].concat();
    let text = words(&stdout(&other.run(&degraded)));
    let first = text.find("replace=1:nvme-gen4 brings most: ").expect("devid 1 has failed");
    assert!(!text[first..].contains("replace=2:"), "{text}");
    let small =
        stderr(&folder.run(&[&run[..], &SHORT, &["--what-if", "replace=1:hdd-15k:1GB"]].concat()));
    assert!(small.contains("note: the volume has") && small.contains("less than now"), "{small}");
    let both = ["--what-if", "add=nvme-gen4", "--what-if"];
    folder.refuses(&[&run[..], &both].concat(), &["tries each by itself", "leave out the others"]);
}

/// Half of the 32 requests wait for the hard disk at the end, whatever the length.
#[test]
fn a_factor_does_not_depend_on_the_length_of_the_jobs() {
    let policies = "md/raid1+write-mostly:1";
    let run = ["advise", "hdd-ssd-raid1", "rand-4k-qd32", "--system", "md", "-f", "json"];
    for length in ["200ms", "2s"] {
        let more = ["-p", policies, "-n", "2", "-d", length];
        let text = stdout(&Folder::new().run(&[&run[..], &more].concat()));
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["array"]["advice"]["offered"]["spec"], "md/raid1", "{length}: {text}");
    }
}

/// The requests differ in the way to the array only.
#[test]
fn one_array_has_one_description() {
    let folder = Folder::new();
    machine(&folder, "md-raid1-hdd-ssd", "md", &[]);
    for target in ["/srv/data", "/dev/md0", "md0"] {
        let run = ["advise", "--sysroot", "md", target, "rand-4k-qd1"];
        let output = folder.run(&[&run[..], &SHORT].concat());
        assert!(stderr(&output).contains("mirrorball-results/md0.toml"), "{}", stderr(&output));
    }
    assert!(!folder.path("mirrorball-results/md0-2.toml").exists());
}

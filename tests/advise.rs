//! `mirrorball advise` on recorded copies of machines, and `compare --system`.

use crate::common::{Folder, stderr, stdout};
use std::path::Path;

/// Advice for a recorded machine, from short runs.
fn advice(root: &str, more: &[&str]) -> String {
    let root = sysroot(root);
    let given = more.contains(&"-d");
    let short = if given { &["-n", "2"][..] } else { &["-n", "2", "-d", "300ms"] };
    stdout(&Folder::new().run(&[&["advise", "--sysroot", &root], more, short].concat()))
}

/// The folder of a recorded machine.
fn sysroot(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots").join(name);
    folder.canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// The lines of the answer under a name, up to the next.
fn entry<'a>(text: &'a str, name: &str) -> &'a str {
    let from = text.find(name).unwrap_or_else(|| panic!("no `{name}` in\n{text}"));
    let rest = &text[from..];
    let end = ["\nWith more", "\nBest known", "\nConfidence", "\n\n"]
        .iter()
        .filter_map(|it| rest[1..].find(it));
    &rest[..end.min().map_or(rest.len(), |end| end + 1)]
}

#[test]
fn each_system_is_advised_in_its_own_commands() {
    for (root, in_force, command) in [
        ("md-raid1-hdd-ssd", "md/raid1", "echo writemostly > /sys/block/md0/md/dev-sda/state"),
        ("lvm-raid1", "md/raid1", "lvchange --yes --writemostly /dev/sda:y vg0/data"),
        ("luks-on-lvm-on-md", "md/raid1", "/sys/block/md0/md/dev-sda2/state"),
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
    for root in ["btrfs-raid1-three", "md-raid10", "zfs-mirror"] {
        let text = advice(root, &["-p", "mirrorball/first"]);
        assert!(entry(&text, "Best offered").contains("nothing better than"), "{root}: {text}");
    }
    // This version of Linux has the policies, but the kernel does not: nothing is to be written.
    let text = advice("btrfs-raid1-loop", &["pool", "seq-read", "-p", "mirrorball/first"]);
    let more: Vec<&str> = entry(&text, "On condition").split_whitespace().collect();
    let needs = "CONFIG_BTRFS_EXPERIMENTAL: the running Linux does not offer it";
    assert!(more.join(" ").contains(needs), "{text}");
    assert!(!text.contains("/read_policy"), "{text}");
}

#[test]
fn each_recorded_machine_has_what_is_in_force_there() {
    for (root, array, in_force) in [
        ("btrfs-raid1-loop", "pool", "btrfs/pid"),
        ("btrfs-raid1-loop-degraded", "pool", "btrfs/pid"),
        ("btrfs-raid1-three", "pool", "btrfs/pid"),
        ("dm-multipath", "mpatha", "dm/service-time"),
        ("luks-on-lvm-on-md", "/srv/data", "md/raid1"),
        ("lvm-raid1", "vg0/data", "md/raid1"),
        ("lvm-raid1-writemostly", "vg0/data", "md/raid1+write-mostly:1"),
        ("md-raid1-checking", "md0", "md/raid1"),
        ("md-raid1-degraded", "md0", "md/raid1"),
        ("md-raid1-hdd-ssd", "md0", "md/raid1"),
        ("md-raid1-resyncing", "md0", "md/raid1"),
        ("md-raid1-writemostly", "md0", "md/raid1+write-mostly:1"),
        ("md-raid10", "md0", "md/raid10"),
        ("md-raid10-far", "md0", "md/raid10"),
        ("nvme-multipath", "nvme-subsys0", "nvme/numa"),
        ("zfs-mirror", "tank", "zfs/mirror"),
    ] {
        let text = advice(root, &[array, "rand-4k-qd1", "-p", "first", "-d", "50ms"]);
        let now = entry(&text, "You have");
        assert_eq!(now.lines().next(), Some(&*format!("You have      {in_force}")), "{root}");
    }
}

#[test]
fn parameters_of_zfs_that_were_set_are_in_force_and_restored() {
    let folder = Folder::new();
    let output = folder.run(&["detect", "--sysroot", &sysroot("zfs-mirror"), "-o", "tank.toml"]);
    stdout(&output);
    let text = std::fs::read_to_string(folder.path("tank.toml")).unwrap();
    let tuned = text.replace("\"zfs/mirror\"", "\"zfs/mirror:0:0:7\"");
    assert_ne!(text, tuned);
    std::fs::write(folder.path("tank.toml"), tuned).unwrap();
    let run = ["advise", "tank.toml", "rand-4k-qd1", "-p", "first", "-d", "200ms", "-n", "2"];
    let text = stdout(&folder.run(&run));
    assert!(entry(&text, "You have").contains("zfs/mirror:0:0:7"), "{text}");
    let best = entry(&text, "Best offered");
    let set =
        |value| format!("echo {value} > /sys/module/zfs/parameters/zfs_vdev_mirror_rotating_inc");
    assert!(best.contains(&set(0)) && best.contains(&set(7)), "undo restores: {text}");
    assert!(!best.contains("rotating_seek_offset"), "the default is in force: {text}");
    assert!(best.contains("check  ") && best.contains("/etc/modprobe.d"), "{text}");
}

#[test]
fn flags_in_an_array_file_are_what_the_array_has() {
    let folder = Folder::new();
    let root = sysroot("md-raid1-writemostly");
    stdout(&folder.run(&["detect", "--sysroot", &root, "-o", "pair.toml"]));
    let run = ["advise", "pair.toml", "rand-4k-qd1", "-p", "first", "-d", "100ms", "-n", "2"];
    let text = stdout(&folder.run(&run));
    let compare = ["compare", "pair.toml", "rand-4k-qd1", "--system", "md"];
    let compared = stdout(&folder.run(&[&compare[..], &run[3..]].concat()));
    for text in [text, compared] {
        assert!(entry(&text, "You have").contains("md/raid1+write-mostly:1"), "{text}");
        assert!(entry(&text, "Best offered").contains("nothing better than"), "{text}");
    }
}

#[test]
fn a_missing_member_whose_disk_is_not_known_is_left_out() {
    let run = ["pool", "rand-4k-qd1", "-p", "first"];
    let text = advice("btrfs-raid1-loop-degraded", &run);
    assert!(text.contains("The disk of devid 3 is not known"), "{text}");
    assert!(text.contains("devid 3: missing, not read"), "{text}");
    assert!(!text.contains("btrfs/devid:3"), "{text}");

    // The file of a detected array is answered as its path is.
    let folder = Folder::new();
    let (root, more) = (sysroot("md-raid1-degraded"), ["rand-4k-qd1", "-d", "50ms", "-n", "2"]);
    let detect = ["detect", "--sysroot", &root, "-o", "md0.toml"];
    assert!(folder.run(&detect).status.success());
    let of_file = stdout(&folder.run(&[&["advise", "md0.toml"][..], &more].concat()));
    let of_path = stdout(&folder.run(&[&["advise", "--sysroot", &root][..], &more].concat()));
    assert!(of_path.contains("the array when it is whole"), "{of_path}");
    assert_eq!(of_file, of_path);

    // Of two members one remains, so there is nothing to advise.
    let pair = "layout = \"md-raid1\"\n[source]\nsystem = \"md\"\n[[member]]\n\
                model = \"hdd-7k2-ent\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\nfailed = true\n";
    std::fs::write(folder.path("pair.toml"), pair).unwrap();
    let output = folder.run(&["advise", "pair.toml", "rand-4k-qd1"]);
    assert_eq!(output.status.code(), Some(1));
    let error = stderr(&output);
    let first = "pair: degraded: replace devid 2 first: `mdadm /dev/ARRAY --add /dev/NEW`; one";
    assert!(error.contains(first), "{error}");
    assert!(error.contains("no read has a choice"), "{error}");
    assert!(error.contains("`mirrorball advise pair.toml --what-if replace=2:MODEL`"), "{error}");
}

#[test]
fn a_failed_member_is_marked_in_the_answer_and_is_the_one_rebuilt() {
    let text = advice("md-raid1-degraded", &["-p", "first", "-d", "50ms"]);
    let line = text.lines().find(|line| line.contains("devid 1, /dev/sda")).unwrap();
    assert!(line.contains("out of service now"), "{text}");
    assert!(text.contains("rebuild of devid 1"), "{text}");
    let short = ["rand-4k-qd1", "-p", "first", "-d", "50ms", "--format", "json"];
    let json: serde_json::Value =
        serde_json::from_str(&advice("md-raid1-degraded", &short)).unwrap();
    let members = &json["array"]["members"];
    assert_eq!(
        (&members[0]["is_in_service"], &members[1]["is_in_service"]),
        (&false.into(), &true.into())
    );

    // Without a member in service there is nothing to rebuild a disk from.
    let folder = Folder::new();
    copy(&folder, "md-raid1-degraded", "both");
    std::fs::write(folder.path("both/sys/block/md0/md/dev-sdb/state"), "faulty\n").unwrap();
    let output = folder.run(&["advise", "--sysroot", "both", "rand-4k-qd1"]);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("no member has the data"), "{}", stderr(&output));
}

/// Copies a recorded machine, or a part of it, into `folder`.
fn copy(folder: &Folder, name: &str, to: &str) {
    let to = folder.path(to);
    let mut command = std::process::Command::new("cp");
    assert!(command.arg("-a").arg(sysroot(name)).arg(to).status().unwrap().success());
}

#[test]
fn paths_are_no_disks_to_replace_scrub_or_rebuild() {
    let text = advice("dm-multipath", &["-p", "first", "-d", "50ms"]);
    for part in ["1 path down: repair it first", "out of service now", "Time of a flush"] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    assert!(!text.contains("rebuild") && !text.contains("replace it"), "{text}");
    let text = advice("nvme-multipath", &["-p", "mirrorball/first"]);
    let best: Vec<&str> = entry(&text, "Best offered").split_whitespace().collect();
    assert!(best.join(" ").contains("only if the paths, not the device, are the limit"), "{text}");
    let root = sysroot("nvme-multipath");
    for change in ["replace=2:ssd-sata-plp", "add=nvme-gen4", "each"] {
        let run = ["advise", "--sysroot", &root, "rand-4k-qd1", "--what-if", change];
        let output = Folder::new().run(&run);
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("are paths to one device"), "{}", stderr(&output));
        assert!(!stderr(&output).contains("simulated"), "{}", stderr(&output));
    }
}

#[test]
fn what_cannot_be_read_is_in_the_confidence_and_an_unreadable_array_is_not_passed_over() {
    let folder = Folder::new();
    copy(&folder, "lvm-raid1-writemostly", "lvm");
    std::fs::remove_dir_all(folder.path("lvm/tools")).unwrap();
    let short = ["rand-4k-qd1", "-p", "first", "-d", "50ms", "-n", "2"];
    let text = stdout(&folder.run(&[&["advise", "--sysroot", "lvm"][..], &short].concat()));
    assert!(entry(&text, "You have").contains("md/raid1, the default"), "{text}");
    let words: Vec<&str> = entry(&text, "Confidence").split_whitespace().collect();
    let confidence = words.join(" ");
    assert!(confidence.contains("not known: level, write-mostly members"), "{text}");
    assert!(confidence.contains("over the default, which may not be in force"), "{text}");

    copy(&folder, "md-raid1-hdd-ssd", "one");
    std::fs::remove_file(folder.path("one/sys/block/md0/md/raid_disks")).unwrap();
    let output = folder.run(&[&["advise", "--sysroot", "one"][..], &short].concat());
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("md0: cannot read the number"), "{}", stderr(&output));
    // Of two arrays, the one that can be read is not taken for the one that is meant.
    std::fs::remove_dir_all(folder.path("one/tools")).unwrap();
    copy(&folder, "zfs-mirror/tools", "one/tools");
    std::fs::create_dir_all(folder.path("one/sys/module/zfs")).unwrap();
    for command in
        [&["detect", "--sysroot", "one", "-o", "x.toml"][..], &["advise", "--sysroot", "one"]]
    {
        let output = folder.run(command);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        let error = stderr(&output);
        assert!(
            error.contains("of 2 arrays 1 cannot be read") && error.contains("tank"),
            "{error}"
        );
    }
}

#[test]
fn advice_needs_an_array_and_its_system() {
    let folder = Folder::new();
    std::fs::write(
        folder.path("a.toml"),
        "name = \"a\"\nprofile = \"raid1\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\ncount = 2\n",
    )
    .unwrap();
    folder.refuses(&["advise", "a.toml"], &["a.toml names no storage system", "[source]"]);
    folder.refuses(&["advise", "a.toml", "--system", "mdd"], &["unknown system `mdd`", "`md`"]);
    folder.refuses(&["advise", "a.toml", "--system", ""], &["the name of the system is missing"]);
    folder
        .refuses(&["advise", "a.toml", "--system", "md:"], &["the version after `md:` is missing"]);
    folder.refuses(&["advise", "a.toml", "--system", "md:2"], &["for Linux 2", "from 2.6.36 on"]);
    folder.refuses(&["advise", "--sysroot", "."], &["has no folder `sys`"]);
    std::fs::create_dir(folder.path("sys")).unwrap();
    folder.refuses(
        &["advise", "--sysroot", "."],
        &[". has no array that can be read\n  help: give the path of an array"],
    );
    std::fs::write(folder.path("x.txt"), "").unwrap();
    folder.refuses(&["advise", "x.txt"], &["x.txt", "give it a name that ends in .toml"]);
    folder.refuses(&["advise", "/nonexistent/path"], &["/nonexistent/path", "an array file"]);
    folder.refuses(&["advise", ""], &["the path is missing"]);
    let job = ["advise", "--sysroot", ".", "rand-4k-qd1"];
    folder.refuses(&job, &["`rand-4k-qd1` is a job", "give an array before"]);
    let root = sysroot("btrfs-raid1-loop");
    let both = ["advise", "two-ssd-raid1", "--system", "md", "--sysroot", &root];
    folder.refuses(&both, &["--sysroot has no effect with a built-in array", "leave it out"]);
    let other = folder.run(&["advise", "--sysroot", &root, "--system", "zfs"]);
    assert_eq!((other.status.code(), other.stdout.len()), (Some(2), 0), "{}", stderr(&other));
    assert!(stderr(&other).contains("is of the storage system btrfs"), "{}", stderr(&other));
    let output = folder.run(&["advise", "a.toml", "--system", "md", "-d", "200ms", "-n", "2"]);
    let text = stdout(&output);
    assert!(entry(&text, "Best offered").contains("nothing better than"), "{text}");
    assert!(stderr(&output).contains("cells: 0 reused"), "{}", stderr(&output));
    let more = folder.run(&["advise", "a.toml", "--system", "md", "-d", "200ms", "-n", "3"]);
    assert!(stdout(&more).contains("You have"), "another number of repeats is another folder");
}

#[test]
fn without_an_array_an_example_is_answered_and_of_several_one_is_named() {
    let short = ["rand-4k-qd1", "-d", "50ms", "-n", "2", "-p", "first"];
    // The machine of the tests may have arrays of its own.
    let output = Folder::new().run(&[&["advise"][..], &short].concat());
    if output.status.success() && stdout(&output).starts_with("An example: this machine has no") {
        let text = stdout(&output);
        let offered = text.lines().position(|line| line.starts_with("Best offered")).unwrap();
        assert!(offered < 6, "the decision is in the first lines:\n{text}");
        assert!(entry(&text, "You have").contains("md/raid1, the default"), "{text}");
    }
    let folder = Folder::new();
    copy(&folder, "md-raid1-hdd-ssd", "two");
    std::fs::remove_dir_all(folder.path("two/tools")).unwrap();
    copy(&folder, "zfs-mirror/tools", "two/tools");
    std::fs::create_dir_all(folder.path("two/sys/module/zfs")).unwrap();
    let output = folder.run(&["advise", "--sysroot", "two"]);
    let error = stderr(&output);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{error}");
    let lines: Vec<&str> = error.lines().collect();
    assert_eq!(lines.len(), 3, "{error}");
    assert!(lines[0].ends_with("two has 2 arrays; name one:"), "{error}");
    assert!(
        lines[1].starts_with("  mirrorball advise /srv/data --sysroot two  # md md0 at /srv/data"),
        "{error}"
    );
}

#[test]
fn where_no_read_has_a_choice_nothing_is_advised() {
    let short = ["rand-4k-qd1", "-d", "50ms", "-n", "2", "-p", "first"];
    let advise = ["advise", "five-hdd-raid6", "--system", "btrfs"];
    let text = stdout(&Folder::new().run(&[&advise[..], &short].concat()));
    assert!(entry(&text, "Best offered").contains("nothing to choose: each read has"), "{text}");
    assert!(!text.contains("no request succeeded") && !text.contains("Best known"), "{text}");
}

#[test]
fn a_change_of_hardware_is_answered_together_with_the_array_as_it_is() {
    let folder = Folder::new();
    let pair = ["advise", "hdd-ssd-raid1", "rand-4k-qd1", "rand-4k-qd32", "--system", "md"];
    let short = ["-p", "first", "-d", "200ms", "-n", "2"];
    let text = stdout(
        &folder.run(&[&pair[..], &short, &["--what-if", "replace=1:ssd-sata-plp"]].concat()),
    );
    let text = text.replace("\n              ", " ");
    for part in [
        "What if       devid 1 is replaced by ssd-sata-plp of the same size: ",
        "With the change: devid 1 is replaced by ssd-sata-plp",
        "devid 1: simulated as ssd-sata-plp (as --what-if says)",
        "devid 2: simulated as ssd-sata-plp (as the array says)",
        "It would have md/raid1",
        "The best setting of each, in requests/s: md/raid1+write-mostly:1 now, md/raid1 then",
    ] {
        assert!(text.contains(part), "no `{part}` in\n{text}");
    }
    let row = text.lines().rfind(|line| line.contains("rand-4k-qd32")).unwrap();
    let gain: f64 = row.split_whitespace().last().unwrap().parse().unwrap();
    assert!((1.8..2.2).contains(&gain), "two SSDs serve twice as many reads: {text}");
    assert!(folder.path("mirrorball-results/HDD-and-SATA-SSD--RAID1-what-if.toml").exists());

    let refuse = |change: &str, messages: &[&str]| {
        folder.refuses(&[&pair[..], &["--what-if", change]].concat(), messages);
    };
    refuse("replace=7:ssd-sata-plp", &["no member has devid 7", "the devids are 1, 2"]);
    refuse("add=ssd-sata-pl", &["no model `ssd-sata-pl`", "did you mean `ssd-sata-plp`?"]);
    for (system, layout, message) in [
        ("md", "raid5", "md has no layout raid5 with copies; its layouts are md-raid1, md-raid10-"),
        ("md", "zfs-mirror:2", "md has no layout zfs-mirror:2 with copies; its layouts are md-"),
        ("zfs", "md-raid10-far:2", "its layouts are zfs-mirror"),
        ("btrfs", "md-raid10-far:2", "its layouts are raid1, raid10, raid1c3, raid1c4"),
        ("drbd", "md-raid1", "with copies, and none to choose from"),
    ] {
        let change = format!("layout={layout}");
        let run = ["advise", "hdd-ssd-raid1", "rand-4k-qd1", "--system", system];
        folder.refuses(&[&run[..], &["--what-if", &change]].concat(), &[message]);
    }
    let far = [&pair[..], &short, &["--what-if", "layout=md-raid10-far:2"]].concat();
    assert!(stdout(&folder.run(&far)).contains("It would have md/raid10\n"));
    refuse("remove=1", &["write replace=DEVID:MODEL, add=MODEL, layout=NAME"]);
    let twice = ["--what-if", "replace=1:hdd-15k", "--what-if", "replace=1:nvme-gen3"];
    folder.refuses(&[&pair[..], &twice].concat(), &["--what-if: devid 1 is replaced twice"]);
    let three = ["advise", "eight-hdd-raid10", "--system", "zfs", "--what-if", "add=hdd-7k2-ent"];
    stdout(&folder.run(&[&three[..], &["rand-4k-qd1"], &short].concat()));
}

#[test]
fn less_space_after_a_change_is_noted() {
    let root = sysroot("md-raid1-hdd-ssd");
    let pair = ["advise", "--sysroot", &root, "rand-4k-qd1"];
    let short = ["-p", "first", "-n", "2", "-d", "50ms"];
    let said = |array: &[&str], change: &str| {
        let output = Folder::new().run(&[array, &short, &["--what-if", change]].concat());
        assert!(output.status.success(), "{output:?}");
        stderr(&output).replace("\n  ", " ")
    };
    let small = said(&pair, "replace=1:hdd-10k:300GB");
    assert!(small.contains(" less than now: a new disk is smaller"), "{small}");
    let same = said(&pair, "replace=1:hdd-10k");
    assert!(!same.contains("less than now"), "{same}");
    // A far layout of two disks loses a part of a chunk.
    let far = said(&pair, "layout=md-raid10-far");
    assert!(!far.contains("less than now"), "{far}");
    let eight = ["advise", "eight-hdd-raid10", "rand-4k-qd1", "--system", "md"];
    let copies = said(&eight, "layout=md-raid1");
    assert!(copies.contains(" less than now: its data must fit into that"), "{copies}");
}

#[test]
fn an_array_file_is_asked_about_after_its_machine_and_under_another_name() {
    let folder = Folder::new();
    let root = sysroot("md-raid1-hdd-ssd");
    let short = ["rand-4k-qd1", "-p", "first", "-n", "2", "-d", "50ms"];
    stdout(&folder.run(&[&["advise", "--sysroot", &root], &short[..]].concat()));
    stdout(&folder.run(&["detect", "--sysroot", &root, "-o", "my-array.toml"]));
    stdout(&folder.run(&[&["advise", "my-array.toml"], &short[..]].concat()));
    std::fs::rename(folder.path("my-array.toml"), folder.path("other.toml")).unwrap();
    let again = stdout(&folder.run(&[&["advise", "other.toml"], &short[..]].concat()));
    assert!(again.contains("md/raid1+write-mostly:1"), "{again}");
}

#[test]
fn an_answer_is_written_as_json_and_as_a_page() {
    let folder = Folder::new();
    let run = ["advise", "two-ssd-raid1", "--system", "md", "-p", "first", "-d", "50ms", "-n", "2"];
    let more = ["--format", "json", "--report", "page.html", "--what-if", "add=nvme-gen4"];
    let output = folder.run(&[&run[..], &more].concat());
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let array = &json["array"];
    assert_eq!(array["advice"]["now"], "md/raid1");
    assert_eq!(array["jobs"].as_array().unwrap().len(), 8, "the standard mix");
    assert_eq!(array["jobs"][0]["policies"][0]["relative"], 1.0);
    assert!(array["jobs"][0]["policies"][0]["spread"].is_number());
    let work = array["maintenance"]["work"].as_array().unwrap();
    assert_eq!(
        (work.len(), &work[0]["work"], &work[0]["load"]),
        (6, &"scrub".into(), &"idle".into())
    );
    assert!(work[5]["times"][0]["hours"].as_f64().unwrap() > 0.0);
    assert!(array["maintenance"]["flushes"][0]["p50_ns"].as_u64().unwrap() > 0);
    assert_eq!(json["what_if"]["array"]["members"][2]["model"], "nvme-gen4");
    assert!(json["what_if"]["gain"].as_f64().unwrap() > 1.5);

    let page = std::fs::read_to_string(folder.path("page.html")).unwrap();
    let decision = "<dt>You have</dt><dd>md/raid1, the default";
    for part in ["id=\"advice\"", decision, "Time of a scrub", "<dt>What if</dt><dd>nvme-gen4"] {
        assert!(page.contains(part), "no `{part}` in the page");
    }
    assert!(!page.contains("Use <strong>"), "another verdict");
    let before = page.split(" title=\"hide md/raid1\"").next().unwrap();
    let number = before.rsplit("data-hide=").next().unwrap();
    assert!(!page.contains(&format!("[data-policy={number}]")), "the user's own policy is shown");
    // A page of ours is replaced, another file kept.
    let again = [&run[..], &["--report", "page.html"]].concat();
    stdout(&folder.run(&again));
    assert!(!std::fs::read_to_string(folder.path("page.html")).unwrap().contains("What if"));
    std::fs::write(folder.path("page.html"), "mine").unwrap();
    folder.refuses(&again, &["page.html already exists", "--force"]);
}

#[test]
fn a_narrow_terminal_has_the_whole_answer() {
    let folder = Folder::new();
    let run = ["advise", "hdd-ssd-raid1", "--system", "btrfs", "-p", "mirrorball/auto", "-n", "2"];
    let mut command = folder.command(&[&run[..], &["-d", "300ms"]].concat());
    let text = stdout(&command.env("COLUMNS", "40").output().unwrap());
    let is_long = |line: &&str| line.chars().count() > 40 && !line.contains(" /sys/");
    assert_eq!(text.lines().find(is_long), None);
    // A column that does not fit is below the others.
    let tables = |first: &str| text.lines().filter(|line| line.starts_with(first)).count();
    assert_eq!((tables("  rand-4k-qd32-scrub "), tables("  scrub")), (1, 2), "{text}");
    let below = |line: &str| line.trim() == "on condition";
    assert!(text.lines().any(below), "{text}");
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
    assert!(entry(&text, "You have").contains("md/raid1, the default"), "{text}");
    // The best of all may be a policy that the system does not have.
    assert!(!text.contains("Use `"), "{text}");
    let best = entry(&text, "Best offered");
    assert!(best.contains("md/raid1+write-mostly:1") && best.contains("dev-DEVICE-1"), "{text}");
}

//! `advise` for machines of owners, rebuilt from public reports: no command that does harm.
//! `tests/sysroots/owners/` has a machine in a file each.

use crate::common::{Folder, stderr, stdout};
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

#[test]
fn an_array_of_a_pasted_text_is_named_by_the_command_that_is_printed() {
    let folder = Folder::new();
    let text = "md2 : active raid1 sata1p3[0] sata2p3[1]\n      3902296384 blocks [2/2] [UU]\n\n\
                md0 : active raid1 sata1p1[0] sata2p1[1]\n      2490176 blocks [12/2] [UU_]\n";
    fs::write(folder.path("pasted.txt"), text).unwrap();
    let run = |arguments: &[&str]| {
        let file = fs::File::open(folder.path("pasted.txt")).unwrap();
        folder.command(arguments).stdin(file).output().unwrap()
    };
    let short = ["rand-4k-qd1", "-p", "first", "-d", "50ms", "-n", "2"];
    let error = stderr(&run(&[&["advise", "-"][..], &short].concat()));
    assert!(error.contains("the text has 2 arrays; name one:"), "{error}");
    assert!(error.contains("mirrorball advise md2 --sysroot -  # md md2: raid1"), "{error}");
    let list = stdout(&run(&["detect", "-"]));
    assert!(list.contains("mirrorball detect md2 --sysroot - -o md2.toml"), "{list}");
    let file = stdout(&run(&["detect", "md0", "--sysroot", "-"]));
    assert!(file.contains("10 of 12 slots are empty") && !file.contains("failed"), "{file}");
    let answer = stdout(&run(&[&["advise", "md2", "--sysroot", "-"][..], &short].concat()));
    let words = answer.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("what disks these are (`lsblk -o NAME,SIZE,ROTA,MODEL`"), "{answer}");
}

#[test]
fn a_version_that_is_given_is_known() {
    let folder = Folder::new();
    let text = "nvme-subsys1 - NQN=nqn.1988-11.com.dell:powerstore\n    iopolicy=numa\n\\\n \
                +- nvme1 tcp traddr=10.0.0.1 live optimized\n \
                +- nvme2 tcp traddr=10.0.0.2 live optimized\n";
    fs::write(folder.path("pasted.txt"), text).unwrap();
    let short = ["rand-4k-qd1", "-p", "first", "-d", "50ms", "-n", "2"];
    let all = |words: &[&str]| {
        let pasted = fs::File::open(folder.path("pasted.txt")).unwrap();
        let arguments = [&["advise"], words, &short].concat();
        let output = folder.command(&arguments).stdin(pasted).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let all = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        all.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let unknown = all(&["-"]);
    assert!(unknown.contains("not known: the version of the system"), "{unknown}");
    assert!(unknown.contains("note: the version of the system is not known"), "{unknown}");
    let file = "mirrorball-results/nvme-subsys1.toml";
    for words in [&["-", "--system", "nvme:6.12"], &[file, "--system", "nvme:6.12"]] {
        let known = all(words);
        assert!(!known.contains("the version of the system"), "{known}");
    }
    // Before 6.11 the kernel has no queue-depth, which is simulated all the same: a newer one has.
    let cells = |words: &[&str]| all(words).split(" cells:").next().unwrap().to_owned();
    let [old, new] = ["nvme:6.8", "nvme:6.12"].map(|system| cells(&[file, "--system", system]));
    assert!(old.ends_with(" 8") && new.ends_with(" 8"), "{old}\n{new}");
}

/// The rate of work that runs says more of its time than a simulation.
#[test]
fn the_rate_of_running_work_stands_next_to_what_is_simulated() {
    let folder = Folder::new();
    let text = "md0 : active raid1 sdb1[2] sda1[0]\n      3906884608 blocks [2/1] [U_]\n      \
                [=>...]  recovery =  7.4% (289123456/3906884608) finish=402.7min \
                speed=149715K/sec\n\nNAME SIZE ROTA MODEL\nsda 3.6T 1 WDC WD40EFRX-68N32N0\n\
                sdb 3.6T 1 ST4000VN008-2DR166\n";
    fs::write(folder.path("pasted.txt"), text).unwrap();
    let pasted = fs::File::open(folder.path("pasted.txt")).unwrap();
    let mut advise = folder.command(&["advise", "-", "-n", "2", "-d", "50ms"]);
    let text = stdout(&advise.stdin(pasted).output().unwrap());
    assert!(text.contains("\n    rest, at its rate"), "{text}");
    assert!(text.contains("State         recovery: 6.7 h left at its rate, and 9."), "{text}");
    assert!(text.contains("time  reads/s     ±  99 % within"), "{text}");
}

/// A member that is gone has a slot in md, and a number as its name in a pool of ZFS.
#[test]
fn what_to_replace_comes_first_however_little_is_known_of_it() {
    let pair = "md0 : active raid1 sda1[0]\n      976630464 blocks super 1.2 [2/1] [U_]\n";
    let pool = "  pool: tank\n state: DEGRADED\nconfig:\n\n\tNAME STATE READ WRITE CKSUM\n\
        \ttank DEGRADED 0 0 0\n\t  mirror-0 DEGRADED 0 0 0\n\t    sda ONLINE 0 0 0\n\
        \t    12345678901234567890 UNAVAIL 0 0 0  was /dev/sdb1\n\t    sdc ONLINE 0 0 0\n";
    for (text, command, code) in [
        (pair, "`mdadm /dev/md0 --add /dev/NEW`", 1),
        (pool, "`zpool replace tank 12345678901234567890 /dev/NEW`", 0),
    ] {
        let folder = Folder::new();
        fs::write(folder.path("pasted.txt"), text).unwrap();
        let mut advise = folder.command(&["advise", "-", "rand-4k-qd1", "-n", "2", "-d", "50ms"]);
        let pasted = fs::File::open(folder.path("pasted.txt")).unwrap();
        let output = advise.stdin(pasted).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let all = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        let words: Vec<&str> = all.split_whitespace().collect();
        let expected = format!("replace devid 2 first: {command}");
        assert!(words.join(" ").contains(&expected), "{all}");
    }
}

#[test]
fn the_paths_below_an_array_are_no_arrays_to_choose_from() {
    let folder = Folder::new();
    let root = machine(&folder, "02-raid10-on-multipath");
    let error = stderr(&folder.run(&["advise", "--sysroot", root.to_str().unwrap()]));
    // The spares of the array are multipath, too.
    assert!(error.contains("has 3 arrays; name one:"), "{error}");
    assert!(error.contains("mirrorball advise /data --sysroot "), "{error}");
}

#[test]
fn of_many_equal_members_one_line_is_printed() {
    let text = advice("08-zfs-33-mirrors", "big", "rand-4k-qd1");
    assert!(text.contains("devids 1 to 8, /dev/"), "{text}");
    let text = advice("13-raid1-recovering", "md127", "rand-4k-qd1");
    assert!(!text.contains("find the member that is missing"), "{text}");
    assert!(text.contains("wait for its end first (`cat /proc/mdstat`); until then one"), "{text}");
}

/// An owner measured one disk with 82 MB/s, and md raid10 far of two with 150.
#[test]
fn a_far_layout_of_two_disks_reads_with_the_rates_of_both() {
    let folder = Folder::new();
    let disk = "[[member]]\nmodel = \"hdd-7k2-desktop\"\n";
    let far = "layout = \"md-raid10-far:2\"\n[host]\nread_ahead_kb = 2048\n";
    fs::write(folder.path("one.toml"), format!("profile = \"single\"\n{disk}")).unwrap();
    fs::write(folder.path("far.toml"), format!("{far}{disk}count = 2\n")).unwrap();
    for (job, options) in [("direct", "direct=1\nbs=4m"), ("seq", "bs=128k")] {
        let job = format!("{job}.fio");
        let text = format!("[j]\nioengine=psync\nrw=read\n{options}\ntime_based\nruntime=9\n");
        fs::write(folder.path(&job), text).unwrap();
        let rate = |array: &str| {
            let run = ["compare", array, &job, "-p", "first", "-d", "500ms", "-n", "2"];
            let more = ["--no-oracle", "--format", "json"];
            let json = stdout(&folder.run(&[&run[..], &more].concat()));
            let json: serde_json::Value = serde_json::from_str(&json).unwrap();
            json["jobs"][0]["rows"][0]["score"]["value"].as_f64().unwrap()
        };
        let times = rate("far.toml") / rate("one.toml");
        assert!((1.83..2.05).contains(&times), "{job}: {times}");
    }
}

#[test]
fn layouts_of_a_new_array_are_compared_with_the_commands_that_make_them() {
    let folder = Folder::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots/md-raid1-hdd-ssd");
    let short = ["-d", "200ms", "-n", "2", "--new"];
    let machine = ["advise", "--system", "md", "--sysroot", root.to_str().unwrap()];
    let disks = ["/dev/sda", "ssd-sata-plp:2TB"];
    let text = stdout(&folder.run(&[&machine[..], &short, &disks].concat()));
    assert!(text.starts_with("A new array of hdd-7k2-desktop (known model) and ssd-sata-plp:2TB"));
    let create = "mdadm --create /dev/md0 --level=1 --raid-devices=2 DISK2 --write-mostly /dev/sda";
    assert!(text.contains(create), "{text}");
    let four = [&["advise", "-f", "json"][..], &short, &["4*hdd-7k2-4tb"]].concat();
    let json: serde_json::Value = serde_json::from_str(&stdout(&folder.run(&four))).unwrap();
    let of = |layout: &str| {
        let mut all = json["layouts"].as_array().unwrap().iter();
        all.find(|it| it["layout"] == layout).unwrap().clone()
    };
    let create = of("md-raid10-far:2")["create"][0].clone();
    assert!(create.as_str().unwrap().contains("--level=10 --layout=f2 --raid-devices=4 DISK1"));
    let create = "zpool create tank mirror DISK1 DISK2 mirror DISK3 DISK4";
    assert_eq!(of("zfs-mirror:2")["create"][0], create);
    // Which of unlike disks are copies of each other does not depend on their order.
    let mixed = ["2*hdd-7k2-4tb", "2*ssd-sata-plp:4TB"];
    let mixed = stdout(&folder.run(&[&["advise"][..], &short, &mixed].concat()));
    for part in [
        "DISK1 and DISK2 are hdd-7k2-4tb; DISK3 and DISK4 are ssd-sata-plp:4TB\n",
        "--level=10 --layout=n2 --raid-devices=4 DISK1 DISK3 DISK2 DISK4",
    ] {
        assert!(mixed.contains(part), "no `{part}` in\n{mixed}");
    }
    for layout in ["md-raid10-near:2", "zfs-mirror:2"] {
        let row = mixed.lines().find(|it| it.trim_start().starts_with(layout)).unwrap();
        let reads: u32 = row.split_whitespace().nth(1).unwrap().parse().unwrap();
        assert!(reads > 80, "{mixed}");
    }
    assert_eq!(of("raid1c3")["survives"], 2);
    let speed = |layout: &str, kind: &str, job: usize| of(layout)[kind][job]["value"].as_f64();
    // Each write goes to half as many disks.
    let sequential = |layout: &str| speed(layout, "writes", 1).unwrap();
    assert!(sequential("md-raid10-near:2") > 1.5 * sequential("md-raid1"));
    folder.refuses(&["advise", "--new", "hdd-smr"], &["an array with copies has 2 to 16 disks"]);
    folder.refuses(&["advise", "--new", "hdd-smr", "sdz"], &["--new: there is no model `sdz`"]);
    folder.refuses(&["advise", "--new", "hdd"], &["--new: there is no model `hdd`"]);
    let none = ["--new: there is no disk /dev/sdz", "help: a disk of --new is a model"];
    folder.refuses(&["advise", "--new", "hdd-smr", "/dev/sdz"], &none);
    let none = ["advise", "--system", "drbd", "--new", "2*hdd-smr"];
    folder.refuses(&none, &["--new: drbd has no layout of 2 disks"]);
}

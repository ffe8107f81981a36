//! Steps for states of arrays.

use super::*;
use crate::evaluation::advice::tests::array;
use mirrorball_core::member::MemberState;
use mirrorball_disk::array_file::ArrayFile;

#[test]
fn the_most_urgent_step_stands_first() {
    let system = find("zfs").unwrap();
    let mut pool = array("zfs", "");
    pool.members[1].errors = Some("12 checksum errors".to_owned());
    let begins = |condition: &str, expected: &[&str]| {
        let steps = first_steps(system, &pool, Some(condition), &[], &[]);
        assert_eq!(steps.len(), expected.len(), "{steps:?}");
        for (step, words) in steps.iter().zip(expected) {
            let all = words.split('…').all(|it| step.contains(it));
            assert!(all, "{words} is not in: {steps:?}");
        }
    };
    let missing = "degraded: find the member that is missing or not online first";
    begins("degraded; scrub at 3 %", &[missing, "12 checksum errors", "scrub at 3 %"]);
    begins("nearly full", &["12 checksum errors", "free space first"]);
    let pair = array("btrfs", "pid");
    let empty = first_steps(find("btrfs").unwrap(), &pair, Some("nothing on devid 3"), &[], &[]);
    assert!(
        empty[0].contains("spread the data first (`btrfs balance start --full-balance "),
        "{empty:?}"
    );
    let spare = "degraded, the spare sdc stands in for sdb (FAULTED); resilver at 5 %";
    let waits = "resilver at 5 %: wait for its end first…one more failure loses all data";
    begins(spare, &["12 checksum errors", waits, "replace that disk then"]);
    let commands = |old: &str| {
        let state = format!("degraded, the spare sdc stands in for {old} (FAULTED)");
        let steps = first_steps(find("zfs").unwrap(), &array("zfs", ""), Some(&state), &[], &[]);
        steps[0].split_once(": replace that disk first").unwrap().1.to_owned()
    };
    let both = [" `zpool replace md0 sdb /dev/NEW`,", " `zpool detach md0 sdb`"];
    assert!(both.iter().all(|it| commands("sdb").contains(it)), "{}", commands("sdb"));
    assert!(!commands("sdb;reboot").contains("reboot"), "a name is one word of a shell");
}

/// The disk with the errors is the one that is replaced, once, with the flag that it is to have.
#[test]
fn a_failed_disk_is_one_step_with_one_command() {
    let mut pair = array("md", "md raid1");
    pair.members[0].errors = Some("34 read errors".to_owned());
    let out = [OutOfService { devid: 1, is_failed: true, recovered_bytes: 0 }];
    let add = ["mdadm /dev/md0 --add --write-mostly /dev/NEW".to_owned()];
    let degraded = Some("degraded, 1 member out of service");
    let steps = first_steps(find("md").unwrap(), &pair, degraded, &out, &add);
    let [step] = &steps[..] else { panic!("{steps:?}") };
    let parts = [
        "replace devid 1 first: `mdadm /dev/md0 --remove /dev/sda`, \
         `mdadm /dev/md0 --add --write-mostly /dev/NEW`",
        "; devid 1 has 34 read errors: its cable or its port can cause them, too",
    ];
    assert!(parts.iter().all(|part| step.contains(part)), "{step}");
}

#[test]
fn a_free_spare_takes_the_place_of_a_failed_disk() {
    let step = |system: &str, spares: &[&str]| {
        let condition = Some("degraded, 1 member out of service");
        let out = [OutOfService { devid: 1, is_failed: true, recovered_bytes: 0 }];
        let (system, mut array) = (find(system).unwrap(), array(system, ""));
        let spares = spares.iter().map(|it| (*it).to_owned()).collect();
        array.source.as_mut().unwrap().spares = spares;
        first_steps(system, &array, condition, &out, &[]).remove(0)
    };
    for bad in ["$(touch${IFS}a)", "sde`id`;reboot", "-f", "a b"] {
        let zfs = step("zfs", &[bad]);
        assert!(
            zfs.contains("`zpool replace md0 /dev/sda /dev/NEW`") && !zfs.contains(bad),
            "{zfs}"
        );
    }
    let zfs = step("zfs", &["sdc", "sdd"]);
    assert!(zfs.contains(": replace devid 1 first: `zpool replace md0 /dev/sda sdc`;"), "{zfs}");
    let md = step("md", &["sdc1"]);
    let parts = [
        "service: a spare is free, but no rebuild runs: find out why first (`grep . ",
        "`mdadm --readwrite /dev/md0`",
        "); then take devid 1 out: `mdadm /dev/md0 --remove /dev/sda`; one more failure",
    ];
    assert!(parts.iter().all(|part| md.contains(part)) && !md.contains("NEW"), "{md}");
}

#[test]
fn a_disk_that_was_taken_offline_or_removed_is_not_replaced() {
    let step = |state: &str| {
        let mut pool = array("zfs", "");
        pool.members[1].state = MemberState::Failed;
        pool.members[1].system_state = Some(state.to_owned());
        let degraded = Some("degraded, 1 member out of service");
        first_steps(find("zfs").unwrap(), &pool, degraded, &[], &[]).remove(0)
    };
    let steps = ["OFFLINE", "REMOVED", "FAULTED"].map(step);
    let parts = [
        "take devid 2 online first: `zpool online md0 /dev/sdb`; one more",
        "connect devid 2 again first, then `zpool online md0 /dev/sdb`; one more",
        "replace devid 2 first: `zpool replace md0 /dev/sdb /dev/NEW`; one more",
    ];
    assert!(steps.iter().zip(parts).all(|(step, part)| step.contains(part)), "{steps:?}");
}

#[test]
fn a_new_disk_of_lvm_is_in_the_group_before_the_repair() {
    let mut volume = array("lvm", "");
    volume.source.as_mut().unwrap().name = Some("vg0/data".to_owned());
    volume.members[1].state = MemberState::Failed;
    let degraded = Some("degraded, 1 member out of service");
    let step = first_steps(find("lvm").unwrap(), &volume, degraded, &[], &[]).remove(0);
    let commands = "first: `pvcreate /dev/NEW`, `vgextend vg0 /dev/NEW`, `lvconvert --repair \
                    vg0/data`, `vgreduce --removemissing vg0`";
    assert!(step.contains(commands), "{step}");
}

/// A pair of a raid10, a mirror of a pool, and more devices of a btrfs than it can miss.
#[test]
fn where_a_block_has_no_copy_no_disk_is_replaced() {
    let lost = |system: &str, layout: &str, failed: &[usize]| {
        let mut text = format!("{layout}\n[source]\nsystem = \"{system}\"\nname = \"a0\"\n");
        for member in 1..=4 {
            let state = if failed.contains(&member) { "failed = true" } else { "" };
            text += &format!(
                "[[member]]\nmodel = \"hdd-7k2-ent\"\ndevice = \"/dev/sd{member}\"\n{state}\n"
            );
        }
        lost_data(&ArrayFile::parse(&text, "a.toml").unwrap().spec)
    };
    let (near, zfs) = ("layout = \"md-raid10-near:2\"", "layout = \"zfs-mirror:2\"");
    let btrfs = "profile = \"raid1\"";
    for (system, layout, failed, how) in [
        (
            "md-raid10",
            near,
            &[1, 2],
            "`mdadm --assemble --force /dev/a0 /dev/sd1 /dev/sd2 /dev/sd3",
        ),
        ("zfs", zfs, &[3, 4], "again, then `zpool clear a0`"),
        ("btrfs", btrfs, &[1, 4], "`mount -o ro,degraded /dev/sd2 MOUNT`"),
    ] {
        let text = lost(system, layout, failed).unwrap();
        let parts = ["some data have no copy left (out of", "replace no disk: connect", how];
        assert!(parts.iter().all(|part| text.contains(part)), "{text}");
        assert_eq!(lost(system, layout, &[2]), None);
    }
    for (system, layout) in [("md-raid10", near), ("zfs", zfs)] {
        assert_eq!(lost(system, layout, &[2, 3]), None, "{system}: one of each pair");
    }
}

#[test]
fn a_balance_that_runs_or_cannot_work_is_not_started() {
    let steps = |condition: &str| {
        first_steps(find("btrfs").unwrap(), &array("btrfs", "pid"), Some(condition), &[], &[])
    };
    let running = steps("balance; nothing on devid 3");
    assert!(running.iter().all(|it| !it.contains("balance start")), "{running:?}");
    let full = steps(
        "nearly full, 99 % of the data chunks is used, and none can be added; nothing \
                      on devid 3",
    );
    assert!(full[0].contains("add one more disk: each chunk needs"), "{full:?}");
    assert!(full[1].contains("spread the data then"), "{full:?}");
}

#[test]
fn a_btrfs_without_a_device_is_mounted_degraded_to_replace_it() {
    let mut pair = array("btrfs", "pid");
    pair.members[0].state = MemberState::Failed;
    let system = find("btrfs").unwrap();
    let degraded = Some("degraded, 1 member out of service");
    let first = |pair: &ArraySpec| first_steps(system, pair, degraded, &[], &[]).remove(0);
    let step = first(&pair);
    let parts = [
        "`btrfs replace start 1 /dev/NEW MOUNT`",
        "; if it is not mounted: `mount -o degraded ",
        "; MOUNT is its mount point",
    ];
    assert!(parts.iter().all(|part| step.contains(part)), "{step}");
    pair.source.as_mut().unwrap().mount = Some("/srv".to_owned());
    let step = first(&pair);
    assert!(step.contains("/dev/NEW /srv`") && !step.contains("degraded /"), "{step}");
}

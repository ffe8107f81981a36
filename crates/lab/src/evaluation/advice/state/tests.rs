//! Steps for states of arrays.

use super::*;
use crate::evaluation::advice::tests::array;
use crate::experiment::systems::find;
use mirrorball_core::member::MemberState;

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
    let words = "service: it is rebuilt onto a spare by itself (`cat /proc/mdstat`); take devid \
                 1 out: `mdadm /dev/md0 --remove /dev/sda`; one more failure";
    assert!(md.contains(words) && !md.contains("NEW"), "{md}");
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

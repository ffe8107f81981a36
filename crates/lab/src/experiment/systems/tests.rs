//! The files of the systems, and what they offer for arrays.

use super::*;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use std::collections::BTreeSet;

fn array(text: &str) -> ArraySpec {
    ArrayFile::parse(text, "a.toml").unwrap().spec
}

fn hdd_and_ssd() -> ArraySpec {
    array(
        "name = \"pair\"\nprofile = \"raid1\"\n[source]\nsystem = \"md\"\nname = \"md0\"\n\
         [[member]]\nmodel = \"hdd-7k2-ent\"\nsize = \"1TB\"\ndevice = \"/dev/sda1\"\n\
         [[member]]\nmodel = \"ssd-sata-plp\"\nsize = \"960GB\"\ndevice = \"/dev/sdb1\"\n",
    )
}

fn specs(system: &str, array: &ArraySpec, version: Option<&str>) -> Vec<String> {
    let version = version.map(|version| version.parse().unwrap());
    let settings = find(system).unwrap().settings(array, version.as_ref());
    settings.into_iter().map(|setting| setting.spec).collect()
}

#[test]
fn every_policy_says_where_it_can_be_had() {
    for info in policies::all() {
        let systems: Vec<&str> = offers_of(info.name).map(|(system, _)| system.name).collect();
        assert!(systems.contains(&"serve"), "{}", info.name);
        let is_our_own = ["mirrorball", "research"].contains(&info.family());
        assert_eq!(systems.len() > 1, !is_our_own, "{}: {systems:?}", info.name);
    }
}

#[test]
fn every_offer_expands_to_policies_of_the_table() {
    let array = hdd_and_ssd();
    for system in all() {
        let expanded: BTreeSet<String> = system
            .offers
            .iter()
            .flat_map(|offer| {
                let settings = setting::expand(offer, &array);
                assert!(!settings.is_empty(), "{}: {}", system.name, offer.policy);
                assert!(offer.set.is_none() || offer.patch.is_some() || offer.undo.is_some());
                settings.into_iter().map(|setting| setting.spec)
            })
            .collect();
        assert!(expanded.contains(&system.default_spec()), "{}", system.name);
    }
}

#[test]
fn write_mostly_is_offered_for_each_kind_of_member() {
    let two = hdd_and_ssd();
    let expected = ["md/raid1", "md/raid1+write-mostly:1", "md/raid1+write-mostly:2"];
    assert_eq!(specs("md", &two, None), expected);
    let equal = array(
        "name = \"e\"\nprofile = \"raid1\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\ncount = 3\n",
    );
    assert_eq!(specs("md", &equal, None), ["md/raid1"], "marking some of equal disks only costs");
    let three = array(
        "name = \"t\"\nprofile = \"raid1c3\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\ncount = 2\n\
         [[member]]\nmodel = \"ssd-sata-plp\"\n",
    );
    assert_eq!(
        specs("md", &three, None),
        ["md/raid1", "md/raid1+write-mostly:1+write-mostly:2", "md/raid1+write-mostly:3"]
    );
}

#[test]
fn a_version_has_what_its_release_had() {
    let array = hdd_and_ssd();
    assert_eq!(specs("btrfs", &array, Some("6.12.9")), ["btrfs/pid"]);
    let newer = specs("btrfs", &array, Some("6.14"));
    assert!(newer.contains(&"btrfs/devid:2".to_owned()), "{newer:?}");
    assert!(newer.contains(&"btrfs/round-robin:4K".to_owned()), "{newer:?}");
    assert!(!newer.iter().any(|spec| spec.starts_with("kakra/")), "a patch is in no release");
    assert_eq!(specs("nvme", &array, Some("6.1")), ["nvme/numa", "nvme/round-robin"]);
    assert_eq!(specs("gmirror", &array, Some("8.0")).last().unwrap(), "gmirror/load-old");
    assert_eq!(specs("serve", &array, None).len(), policies::all().count());
}

#[test]
fn a_version_without_a_known_policy_is_refused_and_a_newer_one_is_noted() {
    let check = |system: &str, version: &str| {
        find(system).unwrap().check_version(&version.parse().unwrap()).map_err(|it| it.to_string())
    };
    assert_eq!(
        check("md", "2").unwrap_err(),
        "no read policy of Linux md, RAID1 is known for Linux 2\n  help: known are the versions \
         2.6.36 to 3.5, and from 6.9; without `:2` the newest counts"
    );
    for (system, version) in [("md", "6.12.9"), ("md", "3.0"), ("btrfs", "5.4"), ("zfs", "0.5")] {
        assert_eq!(check(system, version), Ok(()), "{system} {version}");
    }
    let note = |version: &str| find("btrfs").unwrap().note_if_newer(&version.parse().unwrap());
    assert!(note("99").unwrap().contains("Linux 99 is newer than Linux 7.2"));
    assert_eq!([note("7.2"), note("7.2.13"), note("7"), note("6.12")], [const { None }; 4]);
}

#[test]
fn an_array_of_another_profile_is_served_by_the_system_for_it() {
    let raid10 = array(
        "name = \"t\"\nprofile = \"raid10\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\ncount = 4\n",
    );
    let serving = |system: &str, array: &ArraySpec| find(system).unwrap().serving(array).name;
    assert_eq!([serving("md", &raid10), serving("lvm", &raid10)], ["md-raid10"; 2]);
    assert_eq!(serving("md-raid10", &hdd_and_ssd()), "md");
    assert_eq!(serving("md", &hdd_and_ssd()), "md");
    assert_eq!(serving("btrfs", &raid10), "btrfs");
    for system in all() {
        for other in system.instead.values() {
            assert!(find(other).is_ok(), "{}: {other}", system.name);
        }
    }
}

#[test]
fn commands_name_the_array_and_its_devices() {
    let array = hdd_and_ssd();
    let settings = find("md").unwrap().settings(&array, None);
    let commands = settings[1].commands(&array, None);
    assert_eq!(commands.set, ["echo writemostly > /sys/block/md0/md/dev-sda1/state"]);
    assert_eq!(commands.undo, ["echo -writemostly > /sys/block/md0/md/dev-sda1/state"]);
    let btrfs = find("btrfs").unwrap().settings(&array, None);
    let round_robin = btrfs.iter().find(|setting| setting.spec.ends_with(":64K")).unwrap();
    let commands = round_robin.commands(&array, Some("pid"));
    assert_eq!(commands.set, ["echo round-robin:65536 > /sys/fs/btrfs/FSID/read_policy"]);
    assert_eq!(commands.undo, ["echo 'pid' > /sys/fs/btrfs/FSID/read_policy"]);
    assert_eq!(settings[0].commands(&array, None).set, Vec::<String>::new());
}

#[test]
fn unknown_systems_are_refused_with_a_suggestion() {
    let error = find("btrf").unwrap_err().to_string();
    assert!(error.contains("unknown system `btrf`") && error.contains("`btrfs`"), "{error}");
    assert!(find("ext4").unwrap_err().to_string().contains("md-raid10"));
    assert!(find("").unwrap_err().to_string().starts_with("the name of the system is missing"));
}

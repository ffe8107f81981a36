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
        // The first member is what dm-mirror reads.
        let is_our_own =
            ["mirrorball", "research"].contains(&info.family()) && info.name != "mirrorball/first";
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
                let settings = setting::expand(offer, &array, None);
                assert!(!settings.is_empty(), "{}: {}", system.name, offer.policy);
                assert!(offer.set.is_none() || offer.patch.is_some() || offer.undo.is_some());
                settings.into_iter().map(|setting| setting.spec)
            })
            .collect();
        assert!(expanded.contains(&system.default_spec(&[])), "{}", system.name);
    }
}

#[test]
fn every_system_whose_commands_name_an_array_says_what_the_name_is() {
    for system in all() {
        let templates = system.offers.iter().flat_map(|it| [&it.set, &it.check, &it.undo]);
        let names_one = templates.flatten().any(|template| template.contains("{array}"));
        assert!(!names_one || system.array_name.is_some(), "{}", system.name);
    }
}

#[test]
fn write_mostly_is_offered_for_each_kind_of_member() {
    let two = hdd_and_ssd();
    let expected = ["md/raid1", "md/raid1+write-mostly:1", "md/raid1+write-mostly:2", "md/raid1:2"];
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
        [
            "md/raid1",
            "md/raid1+write-mostly:1+write-mostly:2",
            "md/raid1+write-mostly:3",
            "md/raid1:3",
        ]
    );
}

#[test]
fn a_version_has_what_its_release_had() {
    let array = hdd_and_ssd();
    let pid = availability(&array, Some("6.12.9"), "btrfs/pid");
    assert_eq!(pid, Some(Availability::Offered));
    let newer = specs("btrfs", &array, Some("6.14"));
    assert!(newer.contains(&"btrfs/devid:2".to_owned()), "{newer:?}");
    assert!(newer.contains(&"btrfs/round-robin:4K".to_owned()), "{newer:?}");
    assert!(!newer.iter().any(|spec| spec.starts_with("kakra/")), "a patch is in no release");
    assert_eq!(specs("nvme", &array, Some("6.1"))[..2], ["nvme/numa", "nvme/round-robin"]);
    assert_eq!(specs("gmirror", &array, Some("8.0")).last().unwrap(), "gmirror/load-old");
    assert_eq!(specs("serve", &array, None).len(), policies::all().count());
}

/// The commands of a setting while something is in force.
fn commands(system: &str, array: &ArraySpec, now: &str, setting: &str) -> Commands {
    commands_with_failed(system, array, now, setting, &[])
}

/// The same with members whose disks are replaced first.
fn commands_with_failed(
    system: &str,
    array: &ArraySpec,
    now: &str,
    setting: &str,
    failed: &[u64],
) -> Commands {
    let system = find(system).unwrap();
    let settings = system.settings(array, None);
    let setting = settings.iter().find(|it| it.spec == setting).expect(setting);
    setting.commands(
        system,
        array,
        InForce {
            spec: now,
            written: Some("pid"),
            is_default: now == system.default_spec(&[]),
            failed,
        },
    )
}

#[test]
fn a_version_without_a_known_policy_is_refused_and_a_newer_one_is_noted() {
    let check = |system: &str, version: &str| {
        find(system).unwrap().check_version(&version.parse().unwrap()).map_err(|it| it.to_string())
    };
    assert_eq!(
        check("md", "2").unwrap_err(),
        "no read policy of Linux md, RAID1 is known for Linux 2\n  help: the read policies of \
         these versions are known: from 2.6.36 on; name the nearest of them, or leave out `:2` \
         for the newest"
    );
    for (system, version) in
        [("md", "6.12.9"), ("md", "3.0"), ("md", "3.10"), ("btrfs", "5.4"), ("zfs", "0.5")]
    {
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
    assert_eq!(serving("md", &raid10), "md-raid10");
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
fn the_default_is_the_rule_of_the_release_and_the_profile() {
    let default = |system: &str, array: &ArraySpec, version: Option<&str>| {
        let system = find(system).unwrap();
        let version = version.map(|version| version.parse().unwrap());
        system.default_spec(&system.settings(array, version.as_ref()))
    };
    let raid10 = array(
        "name = \"t\"\nprofile = \"raid10\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\ncount = 4\n",
    );
    for system in ["md", "lvm"] {
        assert_eq!(default(system, &hdd_and_ssd(), None), "md/raid1");
        assert_eq!(default(system, &hdd_and_ssd(), Some("6.8.2")), "md/raid1");
        assert_eq!(default(system, &hdd_and_ssd(), Some("6.1.192")), "md/raid1-2016");
        for version in ["3.6", "3.10", "4.4.302", "4.9.337"] {
            assert_eq!(default(system, &hdd_and_ssd(), Some(version)), "md/raid1-2012");
        }
    }
    assert_eq!(default("md", &hdd_and_ssd(), Some("3.5")), "md/raid1-2010");
    assert_eq!(default("btrfs", &hdd_and_ssd(), Some("6.12")), "btrfs/pid");
    let marked = "md/raid1-2010+write-mostly:1".to_owned();
    assert!(specs("md", &hdd_and_ssd(), Some("3.5")).contains(&marked));
    assert!(specs("lvm", &hdd_and_ssd(), Some("2.03")).is_empty(), "the version is Linux's");
    for system in ["md-raid10", "lvm"] {
        let rules =
            ["4.19.0-5-amd64", "5.2.21", "5.3", "6.1"].map(|v| default(system, &raid10, Some(v)));
        assert_eq!(rules, ["md/raid10-2008", "md/raid10-2008", "md/raid10", "md/raid10"]);
    }
    let old = find("md-raid10").unwrap().settings(&raid10, Some(&"4.19.0-5".parse().unwrap()));
    let needs = |setting: &Setting| (setting.spec.clone(), setting.availability.clone());
    let later = Availability::NotHere("Linux 5.3 or later".to_owned());
    assert_eq!(needs(&old[0]), ("md/raid10".to_owned(), later));
    assert_eq!(needs(&old[1]), ("md/raid10-2008".to_owned(), Availability::Offered));
    let old = specs("md", &hdd_and_ssd(), Some("6.1"));
    assert_eq!(old[1], "md/raid1-2016+write-mostly:1");
    assert_eq!((old[3].as_str(), old.len()), ("md/raid1-2016:2", 4));
    let older = [
        "md/raid1-2012",
        "md/raid1-2012+write-mostly:1",
        "md/raid1-2012+write-mostly:2",
        "md/raid1-2012:2",
    ];
    assert_eq!(specs("md", &hdd_and_ssd(), Some("3.10")), older);
}

#[test]
fn commands_name_the_array_and_its_devices() {
    let array = hdd_and_ssd();
    let marked = commands("md", &array, "md/raid1", "md/raid1+write-mostly:1");
    assert_eq!(marked.set, ["echo writemostly > /sys/block/md0/md/dev-sda1/state"]);
    assert_eq!(marked.undo, ["echo -writemostly > /sys/block/md0/md/dev-sda1/state"]);
    let round_robin = commands("btrfs", &array, "btrfs/pid", "btrfs/round-robin:64K");
    assert_eq!(round_robin.set, ["echo round-robin:65536 > /sys/fs/btrfs/FSID/read_policy"]);
    assert_eq!(round_robin.undo, ["echo 'pid' > /sys/fs/btrfs/FSID/read_policy"]);
    assert_eq!(commands("md", &array, "md/raid1", "md/raid1").set, Vec::<String>::new());
}

/// Flags and module parameters stay until they are reset.
#[test]
fn settings_that_add_up_are_reset_first_and_restored_last() {
    let array = hdd_and_ssd();
    let file = |member| format!("/sys/block/md0/md/dev-{member}/state");
    let (clear, mark) = (
        |member| format!("echo -writemostly > {}", file(member)),
        |member| format!("echo writemostly > {}", file(member)),
    );
    let other = commands("md", &array, "md/raid1+write-mostly:2", "md/raid1+write-mostly:1");
    assert_eq!(other.set, [clear("sdb1"), mark("sda1")]);
    assert_eq!(other.undo, [clear("sda1"), mark("sdb1")]);
    let none = commands("md", &array, "md/raid1+write-mostly:1", "md/raid1");
    assert_eq!((none.set, none.undo), (vec![clear("sda1")], vec![mark("sda1")]));
    assert!(none.check.unwrap().starts_with("cat /proc/mdstat"), "the flag is shown there");
    assert!(none.persist.unwrap().starts_with("persists"), "a flag that is taken back stays so");
    let same = commands("md", &array, "md/raid1+write-mostly:1", "md/raid1+write-mostly:1");
    assert_eq!(same.set, [mark("sda1")]);

    // Both are marked: only the flag that goes is written.
    let both = "md/raid1+write-mostly:1+write-mostly:2";
    let fewer = commands("md", &array, both, "md/raid1+write-mostly:1");
    assert_eq!((fewer.set, fewer.undo), (vec![clear("sdb1")], vec![mark("sdb1")]));

    let tuned = commands("zfs", &array, "zfs/mirror:7:1:20:0:64K", "zfs/mirror:0");
    // Each value once, and only those that differ.
    let value = |value: &str, parameter: &str| {
        format!("echo {value} > /sys/module/zfs/parameters/zfs_vdev_mirror_{parameter}")
    };
    let [inc, offset, seek_inc] = ["rotating_inc", "rotating_seek_offset", "rotating_seek_inc"];
    let set = [value("0", inc), value("1048576", offset), value("0", seek_inc)];
    assert_eq!(tuned.set, set);
    let undo = [value("7", seek_inc), value("20", inc), value("65536", offset)];
    assert_eq!(tuned.undo, undo);
    let plain = commands("zfs", &array, "zfs/mirror:5:1:5", "zfs/mirror");
    assert_eq!((plain.set, plain.undo), (vec![value("0", inc)], vec![value("5", inc)]));
    assert!(plain.check.unwrap().starts_with("grep . /sys/module/zfs/parameters"));
    assert!(plain.persist.unwrap().contains("/etc/modprobe.d"));
}

#[test]
fn the_new_disk_of_a_failed_member_is_added_with_its_flag() {
    let array = hdd_and_ssd();
    let marked = |system: &str, now: &str, failed: &[u64]| {
        commands_with_failed(system, &array, now, "md/raid1+write-mostly:1", failed)
    };
    let new = marked("md", "md/raid1", &[1]);
    assert_eq!(new.add, ["mdadm /dev/md0 --add --write-mostly /dev/NEW"]);
    assert_eq!(new.set, Vec::<String>::new());
    assert_eq!(new.undo, ["echo -writemostly > /sys/block/md0/md/dev-NEW/state"]);
    // The flag of the disk that failed is gone with it.
    assert_eq!(marked("md", "md/raid1+write-mostly:1", &[1]).add.len(), 1);
    assert_eq!(marked("md", "md/raid1", &[2]).add, Vec::<String>::new());
    assert_eq!(marked("md", "md/raid1", &[]).set.len(), 1);
    let of_lvm = marked("lvm", "md/raid1", &[1]);
    assert_eq!(of_lvm.set, ["lvchange --yes --writemostly /dev/NEW:y md0"]);
}

#[test]
fn commands_of_dm_gmirror_and_nvme_are_for_a_shell() {
    let array = hdd_and_ssd();
    let dm = commands("dm", &array, "dm/service-time", "dm/round-robin");
    assert_eq!(dm.set.len(), 3, "{dm:?}");
    assert!(
        dm.set[1].starts_with("printf 'overrides {\\n\\tpath_selector \"round-robin 0\"\\n}\\n'")
    );
    assert_eq!(dm.set[2], "multipathd reconfigure");
    assert_eq!(dm.undo[0], "rm /etc/multipath/conf.d/mirrorball.conf");
    let prefer = commands("gmirror", &array, "gmirror/load", "gmirror/prefer+prefer-member:2");
    let expected = ["gmirror configure -b prefer md0", "gmirror configure -p 255 md0 sdb1"];
    assert_eq!(prefer.set, expected, "nothing that costs the mirror a copy");
    let nvme = commands("nvme", &array, "nvme/numa", "nvme/round-robin");
    assert!(nvme.persist.unwrap().contains("ATTR{subsysnqn}==\"NQN\""));
}

#[test]
fn a_name_that_is_no_plain_word_is_left_to_the_user() {
    let pair = |name: &str, device: &str| {
        array(&format!(
            "name = \"p\"\nprofile = \"raid1\"\n[source]\nsystem = \"md\"\nname = '{name}'\n\
             [[member]]\nmodel = \"hdd-7k2-ent\"\ndevice = '{device}'\n\
             [[member]]\nmodel = \"ssd-sata-plp\"\n"
        ))
    };
    let set = |name: &str, device: &str| {
        commands("md", &pair(name, device), "md/raid1", "md/raid1+write-mostly:1").set
    };
    assert_eq!(
        set("md0; reboot", "/dev/$(reboot)"),
        ["echo writemostly > /sys/block/ARRAY/md/dev-DEVICE-1/state"]
    );
    for unsafe_name in ["-rf", "a b", "`a`", "a|b", "a>b", "a\"b", "a\\b", "*"] {
        assert!(set(unsafe_name, "/dev/sda")[0].contains("/ARRAY/"), "{unsafe_name}");
    }
}

#[test]
fn a_device_of_the_mapper_has_the_name_that_sysfs_has() {
    let text = "name = \"p\"\nprofile = \"raid1\"\n[source]\nsystem = \"md\"\nname = \"md0\"\n\
        [[member]]\nmodel = \"hdd-7k2-ent\"\n\
        device = \"/dev/mapper/vg-a\"\nkernel_name = \"dm-3\"\n\
        [[member]]\nmodel = \"ssd-sata-plp\"\n";
    let marked = commands("md", &array(text), "md/raid1", "md/raid1+write-mostly:1");
    assert_eq!(marked.set, ["echo writemostly > /sys/block/md0/md/dev-dm-3/state"]);
    let of_lvm = commands("lvm", &array(text), "md/raid1", "md/raid1+write-mostly:1");
    assert_eq!(of_lvm.set, ["lvchange --yes --writemostly /dev/mapper/vg-a:y md0"]);
}

/// The order of devices is chosen when an array is created: clearing the flags of the running array
/// leaves it with other speeds than the new array.
#[test]
fn what_takes_a_new_array_has_no_commands_on_the_array() {
    let array = hdd_and_ssd();
    let order = commands("md", &array, "md/raid1+write-mostly:1", "md/raid1:2");
    assert!(order.set.is_empty() && order.undo.is_empty() && order.check.is_none(), "{order:?}");
    assert!(order.persist.is_some_and(|text| text.contains("mdadm --create")));
    let settings = find("md").unwrap().settings(&array, None);
    let order = settings.iter().find(|setting| setting.spec == "md/raid1:2").unwrap();
    assert!(order.commands_from_any(find("md").unwrap(), &array).is_empty());
}

/// An array of btrfs in a running kernel that offers these policies.
fn running_btrfs(version: &str, offered: &str) -> ArraySpec {
    array(&format!(
        "name = \"b\"\nprofile = \"raid1\"\n[source]\nsystem = \"btrfs\"\nversion = \"{version}\"\n\
         fsid = \"1-2\"\noffered = [{offered}]\n[[member]]\nmodel = \"hdd-7k2-ent\"\ncount = 2\n"
    ))
}

fn availability(array: &ArraySpec, version: Option<&str>, spec: &str) -> Option<Availability> {
    let version = version.map(|version| version.parse().unwrap());
    let settings = find("btrfs").unwrap().settings(array, version.as_ref());
    settings.into_iter().find(|it| it.spec == spec).map(|it| it.availability)
}

#[test]
fn what_the_running_system_offers_goes_before_its_version() {
    let option = "a kernel built with CONFIG_BTRFS_EXPERIMENTAL".to_owned();
    let plain = running_btrfs("6.18.4", "\"pid\"");
    let not_here = Some(Availability::NotHere(option.clone()));
    for version in [None, Some("6.18.4")] {
        assert_eq!(availability(&plain, version, "btrfs/pid"), Some(Availability::Offered));
        assert_eq!(availability(&plain, version, "btrfs/devid:1"), not_here);
    }
    let other = availability(&plain, Some("6.19"), "btrfs/devid:1");
    assert_eq!(other, Some(Availability::OnCondition(option)), "another kernel is asked for");
    let commands = commands("btrfs", &plain, "btrfs/pid", "btrfs/devid:1");
    assert_eq!(commands, Commands::default(), "what the kernel refuses is not to be written");

    let experimental = running_btrfs("6.18.4", "\"pid\", \"round-robin:262144\", \"devid:1\"");
    for spec in ["btrfs/devid:2", "btrfs/round-robin:64K"] {
        assert_eq!(availability(&experimental, None, spec), Some(Availability::Offered));
    }
    let patched = running_btrfs("6.18.4", "\"pid\", \"queue\"");
    assert_eq!(availability(&patched, None, "kakra/queue"), Some(Availability::Offered));
    assert_eq!(availability(&plain, None, "kakra/queue"), None, "a patch is in no release");
}

#[test]
fn a_member_that_is_missing_is_in_no_setting() {
    let one_missing = array(
        "name = \"t\"\nprofile = \"raid1c3\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\n\
         [[member]]\nmodel = \"ssd-sata-plp\"\n[[member]]\nmodel = \"hdd-15k\"\nfailed = true\n",
    );
    assert!(!specs("btrfs", &one_missing, None).contains(&"btrfs/devid:3".to_owned()));
    let expected = ["md/raid1", "md/raid1+write-mostly:1", "md/raid1+write-mostly:2", "md/raid1:2"];
    assert_eq!(specs("md", &one_missing, None), expected);
}

/// As for an array that was described for one system, and compared with another.
#[test]
fn no_command_has_an_unfilled_word() {
    for system in all() {
        for setting in system.settings(&hdd_and_ssd(), None) {
            let now = InForce { spec: "btrfs/pid", written: None, is_default: false, failed: &[] };
            let Commands { set, check, undo, .. } = setting.commands(system, &hdd_and_ssd(), now);
            for command in set.iter().chain(&check).chain(&undo) {
                for word in ["{previous", "{value", "{array", "{member", "{device", "{fsid"] {
                    assert!(!command.contains(word), "{}: {command}", setting.spec);
                }
            }
        }
    }
}

/// The parameters of what was in force before are not known where another system had them.
#[test]
fn numbered_words_are_explained() {
    let zfs = find("zfs").unwrap();
    let now = InForce { spec: "btrfs/pid", written: None, is_default: false, failed: &[] };
    let setting = zfs.settings(&hdd_and_ssd(), None).remove(0);
    let Commands { undo, placeholders, .. } = setting.commands(zfs, &hdd_and_ssd(), now);
    assert!(undo.iter().any(|command| command.contains("echo PREVIOUS-5 >")), "{undo:?}");
    let expected = "PREVIOUS-N is parameter N of the policy in force before";
    assert!(placeholders.iter().any(|it| it == expected), "{placeholders:?}");
    assert!(!placeholders.iter().any(|it| it.starts_with("PREVIOUS is")), "{placeholders:?}");
}

/// Whatever is not known: no name, no device, another policy in force, one or two failed members.
#[test]
fn each_word_in_capitals_is_explained() {
    let words = ["ARRAY", "FSID", "NQN", "MINOR", "CONTROL-SOCKET", "PREVIOUS", "PREVIOUS-N"];
    let words =
        [&words[..], &["VALUE", "BYTES", "DEVID", "POLICY", "DEVICE-N", "NEW", "NEW-N", "SECTORS"]];
    let words = words.concat();
    let is_part = |it: char| !it.is_ascii_alphanumeric() && it != '-' && it != '_';
    let plain = |word: &str| match word.rsplit_once('-') {
        Some((name, number)) if number.parse::<u64>().is_ok() => format!("{name}-N"),
        _ => word.to_owned(),
    };
    let mut seen = std::collections::BTreeSet::new();
    let failures: [&[u64]; 3] = [&[], &[1], &[1, 2]];
    let mut check = |of: &str, commands: &Commands| {
        let Commands { set, add, check, persist, undo, placeholders } = commands;
        let all = set.iter().chain(add).chain(check).chain(persist).chain(undo);
        let used = all.flat_map(|command| command.split(is_part)).map(plain);
        for word in used.filter(|word| words.contains(&word.as_str())) {
            let is_explained = placeholders.iter().any(|it| it.starts_with(&format!("{word} is ")));
            assert!(is_explained, "{word} of {of}: {commands:?}");
            seen.insert(word);
        }
    };
    for (system, failed) in all().iter().flat_map(|it| failures.map(|failed| (it, failed))) {
        for setting in system.settings(&hdd_and_ssd(), None) {
            let now = InForce { spec: "btrfs/pid", written: None, is_default: false, failed };
            check(&setting.spec, &setting.commands(system, &hdd_and_ssd(), now));
        }
        let limit = system.limit.as_ref().map(|limit| &limit.knob);
        for knob in limit.into_iter().chain(&system.read_ahead) {
            check(&knob.name, &knob.commands(system, &hdd_and_ssd(), 5000, None));
        }
    }
    assert!(["NEW-N", "PREVIOUS-N", "SECTORS"].iter().all(|it| seen.contains(*it)), "{seen:?}");
}

#[test]
fn what_a_later_kernel_has_is_named_with_its_version() {
    let takes = "Linux 6.14 or later and a kernel built with CONFIG_BTRFS_EXPERIMENTAL".to_owned();
    let in_6_12 = |offered: &str| {
        availability(&running_btrfs("6.12.3", offered), Some("6.12.3"), "btrfs/devid:1")
    };
    // A pasted array does not say what its kernel offers.
    for offered in ["\"pid\"", ""] {
        assert_eq!(in_6_12(offered), Some(Availability::NotHere(takes.clone())), "{offered}");
    }
    assert_eq!(in_6_12("\"pid\", \"devid:1\""), Some(Availability::Offered), "backported");
    let any = availability(&hdd_and_ssd(), None, "btrfs/devid:1");
    assert_eq!(any, Some(Availability::OnCondition(takes)), "of no known version");
}

#[test]
fn a_raid10_of_lvm_has_no_flags() {
    let raid10 = array(
        "layout = \"md-raid10-near:2\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\n\
                        [[member]]\nmodel = \"ssd-sata-plp\"\n",
    );
    assert_eq!(specs("lvm", &raid10, None), ["md/raid10"]);
}

#[test]
fn unknown_systems_are_refused_with_a_suggestion() {
    let error = find("btrf").unwrap_err().to_string();
    assert!(error.contains("unknown system `btrf`") && error.contains("`btrfs`"), "{error}");
    let listed = find("ext4").unwrap_err().to_string();
    assert!(listed.contains("btrfs, md, lvm,") && !listed.contains("md-raid10"), "{listed}");
    assert!(find("").unwrap_err().to_string().starts_with("the name of the system is missing"));
}

//! Every command of every system and setting goes through a table of what each tool accepts, and
//! the flags and parameters that the commands leave are those of the setting.

use super::tests::{names, sysroots};
use super::{DetectedArray, Sysroot, detect_all};
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_lab::evaluation::advice::policy_in_force;
use mirrorball_lab::experiment::systems::{self, Availability, Commands, InForce, System};
use std::collections::BTreeSet;

/// Commands that tools accept, a line each, with words in `<>` for the classes of
/// [`is_of_class`].
const GRAMMAR: &str = include_str!("grammar.txt");

fn is_of_class(word: &str, class: &str) -> bool {
    let is_plain = |extra: &str| {
        let is_safe = |it: char| it.is_ascii_alphanumeric() || extra.contains(it);
        !word.is_empty() && !word.starts_with('-') && word.chars().all(is_safe)
    };
    let one_of = |words: &[&str]| words.contains(&word);
    match class {
        "md-flag" => one_of(&["writemostly", "-writemostly"]),
        "md" => word == "ARRAY" || word.starts_with("md") && is_plain("_"),
        // Below /dev, where udev makes a name of the array.
        "md-path" => word.starts_with("md") && is_plain("_/"),
        // The names of sysfs, which never begin with those of the device mapper.
        "kernel" => {
            let number = word.strip_prefix("dm-").map(|it| it.parse::<u32>().is_ok());
            is_plain("-") && !word.starts_with("mapper") && number != Some(false)
        }
        "device" => {
            let hidden = ["_rimage_", "_rmeta_", "_mimage_", "_iorig", "_imeta", "_tdata"];
            word.starts_with("/dev/") && !hidden.iter().any(|it| word.contains(it))
        }
        "volume" => {
            let parts: Vec<&str> = word.split('/').collect();
            // LVM changes the data of a thin pool, and no other hidden volume.
            let hidden = ["_tmeta", "_cmeta", "_cdata", "_corig", "_rimage_", "_pmspare"];
            parts.len() == 2 && !hidden.iter().any(|it| parts[1].contains(it))
        }
        "y-or-n" => one_of(&["y", "n"]),
        "fsid" => is_plain("-") && word.len() == 36 || word == "FSID",
        "bytes" => word.parse::<u64>().is_ok_and(|it| it > 0 && it.is_multiple_of(4096)),
        "number" => word.parse::<u64>().is_ok(),
        "number-or-minor" => word == "MINOR" || word.parse::<u64>().is_ok(),
        "btrfs-patch" => one_of(&["rotation", "latency", "latency-rr", "queue", "queue-adaptive"]),
        "zfs" => one_of(&[
            "zfs_vdev_mirror_rotating_inc",
            "zfs_vdev_mirror_rotating_seek_inc",
            "zfs_vdev_mirror_rotating_seek_offset",
            "zfs_vdev_mirror_non_rotating_inc",
            "zfs_vdev_mirror_non_rotating_seek_inc",
        ]),
        "iopolicy" => one_of(&["numa", "round-robin", "queue-depth", "adaptive", "latency"]),
        "subsystem" => word.strip_prefix("nvme-subsys").is_some_and(|it| it.parse::<u32>().is_ok()),
        "selector" => {
            one_of(&["round-robin", "queue-length", "service-time", "historical-service-time"])
        }
        "balance" => one_of(&["load", "prefer", "round-robin", "split"]),
        "drbd" => {
            let stripe = word.strip_suffix("-striping");
            let stripes = ["32K", "64K", "128K", "256K", "512K", "1M"];
            stripe.is_some_and(|it| stripes.contains(&it))
                || one_of(&["prefer-local", "prefer-remote", "round-robin", "least-pending"])
        }
        "name" => is_plain("-_.:"),
        "word" => is_plain("-_./:+@%=,"),
        other => panic!("no class `{other}`"),
    }
}

/// Whether a text is one of a pattern, whose words in `<>` are classes.
fn fits(text: &str, pattern: &str) -> bool {
    let Some((literal, rest)) = pattern.split_once('<') else { return text == pattern };
    let (class, rest) = rest.split_once('>').expect("a class ends with >");
    let Some(text) = text.strip_prefix(literal) else { return false };
    (0..=text.len()).filter(|&end| text.is_char_boundary(end)).any(|end| {
        let (word, behind) = text.split_at(end);
        !word.contains(' ') && is_of_class(word, class) && fits(behind, rest)
    })
}

/// Panics if a tool would refuse a command.
fn check(command: &str, of: &str) {
    let command = command.split("  #").next().unwrap().trim();
    for part in command.split(" && ") {
        // ` > ` is a redirection in patterns, and no end of a class.
        let is_known = GRAMMAR.lines().any(|pattern| fits(part, pattern));
        assert!(is_known, "{of}: no tool takes `{part}`");
    }
}

/// The flags and parameters that are set, after commands.
fn after(mut state: BTreeSet<String>, commands: &[String]) -> BTreeSet<String> {
    for part in commands.iter().flat_map(|command| command.split(" && ")) {
        let words: Vec<&str> = part.split_whitespace().collect();
        match words[..] {
            ["echo", "writemostly", ">", file] => {
                state.insert(file.to_owned());
            }
            ["echo", "-writemostly", ">", file] => {
                state.remove(file);
            }
            ["lvchange", _, _, target, _] => match target.rsplit_once(':').unwrap() {
                (device, "y") => {
                    state.insert(device.to_owned());
                }
                (device, _) => {
                    state.remove(device);
                }
            },
            ["echo", value, ">", file] => {
                let name = format!("{}=", file.rsplit('/').next().unwrap());
                state.retain(|other| !other.starts_with(&name));
                state.insert(name + value);
            }
            _ => {}
        }
    }
    state
}

/// The members that a policy string names as write-mostly, as the commands of the system do.
fn flagged(spec: &str, array: &ArraySpec, system: &System) -> BTreeSet<String> {
    let members = array.members.iter();
    let named = members.filter(|member| {
        spec.split('+').any(|part| part == format!("write-mostly:{}", member.devid))
    });
    let place = |member: &mirrorball_disk::array_file::MemberSpec| {
        let device = member.device.clone().unwrap();
        let kernel = member.kernel_name.clone();
        let kernel = kernel.unwrap_or_else(|| device.trim_start_matches("/dev/").to_owned());
        let array = array.source.as_ref().unwrap().name.as_deref().unwrap();
        // The name of the kernel is not known then.
        let array = if array.contains('/') { "ARRAY" } else { array };
        match system.name {
            "lvm" => device,
            _ => format!("/sys/block/{array}/md/dev-{kernel}/state"),
        }
    };
    named.map(place).collect()
}

/// Checks all commands of a system for an array, from each setting to each other.
fn check_array(system: &'static System, array: &ArraySpec, of: &str) {
    let settings = system.settings(array, None);
    let default = policy_in_force(array, system, &settings);
    let is_plain = |path: &String| !path.trim_start_matches("/dev/").contains('/');
    let known = array
        .members
        .iter()
        .all(|member| member.kernel_name.is_some() || member.device.as_ref().is_some_and(is_plain));
    let specs: Vec<&str> = settings.iter().map(|it| it.spec.as_str()).chain([&*default]).collect();
    let pairs = settings.iter().flat_map(|it| specs.iter().map(move |now| (it, *now)));
    for (setting, now) in pairs.filter(|(setting, now)| setting.spec != *now) {
        let written = now.split('/').nth(1).filter(|it| !it.contains(':'));
        let is_default = now == system.default_spec(&settings);
        let in_force = InForce { spec: now, written, is_default, failed: &[] };
        let commands = setting.commands(system, array, in_force);
        let Commands { set, add, check: shown, undo, .. } = &commands;
        let of = format!("{of}, {}: {} after {now}", system.name, setting.spec);
        let all = set.iter().chain(add).chain(shown).chain(undo);
        let is_filled = |command: &&String| !command.contains("PREVIOUS");
        all.filter(is_filled).for_each(|command| check(command, &of));
        let is_reached =
            setting.offer.set.is_some() || setting.availability == Availability::Offered;
        assert!(is_reached || set.is_empty() && undo.is_empty(), "{of}: {set:?}");
        if is_reached && known && ["md", "lvm"].contains(&system.name) {
            let before = flagged(now, array, system);
            let there = after(before.clone(), set);
            assert_eq!(there, flagged(&setting.spec, array, system), "{of}: {set:?}");
            assert_eq!(after(there, undo), before, "{of}: {undo:?}");
        }
    }
}

/// Checks the commands of the numbers that a system has besides its policies.
fn check_knobs(system: &System, array: &ArraySpec, machine: &str) {
    let limit = system.limit.as_ref().map(|limit| &limit.knob);
    for knob in limit.into_iter().chain(&system.read_ahead) {
        let Commands { set, check: shown, undo, .. } =
            knob.commands(system, array, 5000, Some(128));
        for command in set.iter().chain(&shown).chain(&undo) {
            check(command, &format!("{machine}: {}", knob.name));
        }
    }
}

/// Checks all commands for an array of `machine`.
pub(super) fn check_detected(array: &DetectedArray, machine: &str) {
    let spec = ArrayFile::parse(&array.array_file(), "a.toml").unwrap().spec;
    let system = systems::find(array.system.name()).unwrap();
    check_array(system, &spec, machine);
    check_knobs(system, &spec, machine);
}

#[test]
fn a_tool_takes_every_command_of_every_system() {
    let fsid = "11111111-2222-4333-8444-555555555555";
    for system in systems::all() {
        let name = match system.name {
            "lvm" => "vg0/data",
            "nvme" => "nvme-subsys0",
            "btrfs" | "zfs" => "pool",
            _ => "md0",
        };
        let text = format!(
            "name = \"a\"\nprofile = \"raid1c3\"\n[source]\nsystem = \"{}\"\nname = \"{name}\"\n\
             fsid = \"{fsid}\"\n\
             [[member]]\nmodel = \"hdd-7k2-ent\"\ndevice = \"/dev/sda1\"\n\
             [[member]]\nmodel = \"ssd-sata-plp\"\ndevice = \"/dev/sdb1\"\n\
             [[member]]\nmodel = \"nvme-gen3\"\ndevice = \"/dev/mapper/luks\"\n\
             kernel_name = \"dm-3\"\n",
            system.name
        );
        let array = ArrayFile::parse(&text, "a.toml").unwrap().spec;
        check_array(system, &array, "an array");
        check_knobs(system, &array, "an array");
    }
}

#[test]
fn a_tool_takes_every_command_for_every_recorded_machine() {
    for machine in names() {
        let found = detect_all(&Sysroot::recorded(&sysroots().join(&machine)));
        for array in found.into_iter().flatten() {
            check_detected(&array, &machine);
        }
    }
}

#[test]
fn the_table_refuses_what_a_tool_refuses() {
    for command in [
        "lvchange --yes --writemostly /dev/mapper/nas-media_rimage_0_iorig:y nas/media",
        "lvchange --yes --writemostly sda:y nas/media",
        "lvchange --yes --writemostly /dev/sda:y vg1/pool_tmeta",
        "echo writemostly > /sys/block/md0/md/dev-mapper/luks/state",
        "echo round-robin:5000 > /sys/fs/btrfs/11111111-2222-4333-8444-555555555555/read_policy",
        "reboot",
    ] {
        assert!(!GRAMMAR.lines().any(|pattern| fits(command, pattern)), "{command}");
    }
}

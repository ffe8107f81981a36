//! Volumes with parity: what survives crashes and lost members.

use super::scrub::scrub;
use super::*;

const NAMES: [&str; 5] = ["a.img", "b.img", "c.img", "d.img", "e.img"];
/// Bytes of the volume that the tests write, in several full stripes.
const BLOCKS: u64 = 24;

/// A volume of this profile over the first `count` members.
fn with_parity(array: &str, count: usize) -> Folder {
    let folder = Folder::new();
    let mut text = format!("{array}\n");
    for name in &NAMES[..count] {
        text += &format!("[[member]]\npath = \"{name}\"\n");
        File::create(folder.path(name)).unwrap().set_len(SIZE_BYTES).unwrap();
    }
    fs::write(folder.path("pair.toml"), text).unwrap();
    let output = folder.run(&["create", "pair.toml"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.contains("the journal takes 5 MiB of each member"), "{text}");
    folder
}

/// The same over members that hold other data.
fn with_old_data(profile: &str, count: usize) -> Folder {
    let folder = with_parity(&format!("profile = \"{profile}\""), count);
    for (name, fill) in NAMES[..count].iter().zip(0xa0..) {
        fs::write(folder.path(name), vec![fill; SIZE_BYTES as usize]).unwrap();
    }
    let output = folder.run(&["create", "pair.toml", "--occupied"]);
    assert!(stdout(&output).contains("computes the parities"), "{}", stderr(&output));
    folder
}

fn write_all(folder: &Folder, base: u8) {
    let mut client = client(folder);
    for block in 0..BLOCKS {
        client.write(block * BLOCK as u64, &[base + block as u8; BLOCK]);
    }
    client.flush();
}

fn assert_all(folder: &Folder, base: u8) {
    let mut client = client(folder);
    for block in 0..BLOCKS {
        let bytes = client.read(block * BLOCK as u64, BLOCK);
        let fill = base + block as u8;
        assert!(bytes == [fill; BLOCK], "block {block} begins with {:x?}", &bytes[..4]);
    }
}

/// The members but those at these places, and the option that is needed then.
fn without(count: usize, missing: &[usize]) -> Vec<&'static str> {
    let members = (0..count).filter(|index| !missing.contains(index)).map(|index| NAMES[index]);
    members.chain(["--degraded"]).collect()
}

#[test]
fn any_member_of_raid5_may_be_lost_and_catches_up() {
    for array in ["profile = \"raid5\"", "layout = \"md-raid5\"\nchunk = \"64K\""] {
        let folder = with_parity(array, 3);
        let service = serve(&folder, &["--scan", "."]);
        write_all(&folder, 10);
        service.terminate();
        let output = folder.run(&["serve", "a.img", "b.img", "--export", "nbd:unix:socket"]);
        assert!(stderr(&output).contains("--degraded"), "{}", stderr(&output));
        for missing in 0..3 {
            let service = serve(&folder, &without(3, &[missing]));
            assert_all(&folder, 10 + missing as u8);
            write_all(&folder, 11 + missing as u8);
            assert_all(&folder, 11 + missing as u8);
            service.terminate();
            let service = serve(&folder, &["--scan", "."]);
            wait_until_in_sync(&folder);
            service.terminate();
        }
    }
}

#[test]
fn two_members_of_raid6_may_be_lost_after_a_crash() {
    let folder = with_parity("profile = \"raid6\"", 5);
    let service = serve(&folder, &["--scan", "."]);
    write_all(&folder, 40);
    service.stop("-KILL");
    for missing in [[0, 1], [2, 4], [1, 3]] {
        let service = serve(&folder, &without(5, &missing));
        assert!(has_line(&service, "without redundancy"), "{:?}", service.lines);
        assert_all(&folder, 40);
        service.stop("-KILL");
        let service = serve(&folder, &["--scan", "."]);
        wait_until_in_sync(&folder);
        service.terminate();
    }
    let service = serve(&folder, &without(5, &[3]));
    assert!(has_line(&service, "with less redundancy"), "{:?}", service.lines);
    service.terminate();
}

/// The members had other data before. What is written is recovered at once.
#[test]
fn a_member_may_be_lost_during_the_first_synchronisation() {
    for (profile, count) in [("raid5", 3), ("raid6", 5)] {
        let folder = with_old_data(profile, count);
        let service = serve(&folder, &["--scan", "."]);
        write_all(&folder, 50);
        service.stop("-KILL");
        for (missing, base) in [(0, 50), (1, 60), (2, 70)] {
            let service = serve(&folder, &without(count, &[missing]));
            assert_all(&folder, base);
            write_all(&folder, base + 10);
            service.stop("-KILL");
            let service = serve(&folder, &["--scan", "."]);
            wait_until_in_sync(&folder);
            service.terminate();
        }
        let service = serve(&folder, &["--scan", "."]);
        assert!(scrub(&folder, &[]).contains("all parities match the data"));
        service.terminate();
    }
}

#[test]
fn what_a_crash_interrupted_is_repeated_from_the_journal() {
    let folder = with_parity("profile = \"raid5\"", 4);
    let service = serve(&folder, &["--scan", "."]);
    write_all(&folder, 70);
    service.stop("-KILL");
    // A member lost what was written to it after the journal.
    let file = File::options().write(true).open(folder.path("b.img")).unwrap();
    file.write_all_at(&[0; BLOCK], DATA as u64).unwrap();
    let read_only = serve(&folder, &["--scan", ".", "--read-only"]);
    assert!(has_line(&read_only, "of its journal are left"), "{:?}", read_only.lines);
    read_only.terminate();
    let service = serve(&folder, &["--scan", "."]);
    assert!(has_line(&service, "of its journal were repeated"), "{:?}", service.lines);
    assert_all(&folder, 70);
    service.terminate();
    for missing in 0..4 {
        let service = serve(&folder, &[&without(4, &[missing])[..], &["--read-only"]].concat());
        assert_all(&folder, 70);
        service.terminate();
    }
}

/// Nothing is written to the members, but reads get what the journal would write: also where a
/// member is missing, and where several entries are over the same bytes.
#[test]
fn read_only_all_is_read_that_a_crash_left_in_the_journal() {
    let folder = with_parity("profile = \"raid5\"", 4);
    let service = serve(&folder, &["--scan", "."]);
    let mut older = client(&folder);
    older.write(4096, &[7; 2 * BLOCK]);
    write_all(&folder, 90);
    older.write(BLOCK as u64 + 512, &[8; 4096]);
    older.flush();
    service.stop("-KILL");
    // Members lost what was written to them after the journal, in parts of what it has.
    for (name, offset, length) in [("a.img", 1000, BLOCK), ("b.img", 0, 700), ("c.img", 5, 9000)] {
        let file = File::options().write(true).open(folder.path(name)).unwrap();
        file.write_all_at(&vec![0xee; length], DATA as u64 + offset).unwrap();
    }
    let before: Vec<Vec<u8>> = NAMES[..4].iter().map(|name| data(&folder, name)).collect();
    let assert_written = || {
        let mut client = client(&folder);
        let whole = client.read(0, BLOCKS as usize * BLOCK);
        for block in 0..BLOCKS {
            let mut expected = [90 + block as u8; BLOCK];
            if block == 1 {
                expected[512..512 + 4096].fill(8);
            }
            let bytes = client.read(block * BLOCK as u64, BLOCK);
            assert!(bytes == expected, "block {block} begins with {:x?}", &bytes[..4]);
            let at = block as usize * BLOCK;
            assert!(whole[at..at + BLOCK] == expected, "block {block} in one read of all");
        }
        assert!(client.read(BLOCK as u64, 1024) == [[91; 512], [8; 512]].concat());
    };
    for missing in [None, Some(0), Some(1), Some(2), Some(3)] {
        let members = without(4, missing.as_slice());
        let read_only = serve(&folder, &[&members[..], &["--read-only"]].concat());
        assert!(has_line(&read_only, "journal are left; reads return"), "{:?}", read_only.lines);
        assert_written();
        let status = folder.ctl(&["status"]);
        assert!(!status.contains("too few"), "{status}");
        read_only.terminate();
    }
    for (name, before) in NAMES.iter().zip(before) {
        assert!(data(&folder, name) == before, "{name} was changed");
    }
    let service = serve(&folder, &without(4, &[2]));
    assert_written();
    service.terminate();
}

/// Something else wrote over the journals after a crash.
#[test]
fn a_journal_that_was_overwritten_is_no_empty_one() {
    let folder = with_parity("profile = \"raid5\"", 3);
    let overwrite = |name: &str| {
        let file = File::options().write(true).open(folder.path(name)).unwrap();
        file.write_all_at(&vec![0x5a; 5 << 20], SIZE_BYTES - (5 << 20)).unwrap();
    };
    let service = serve(&folder, &["--scan", "."]);
    client(&folder).write(0, &[1; BLOCK]);
    service.stop("-KILL");
    let service = serve(&folder, &["--scan", "."]);
    assert!(!has_line(&service, "cannot be read"), "a new volume: {:?}", service.lines);
    write_all(&folder, 20);
    service.stop("-KILL");
    overwrite("b.img");
    let service = serve(&folder, &["--scan", "."]);
    let note = "its journal cannot be read (it was overwritten: nothing in it is of this member)";
    assert!(has_line(&service, note), "{:?}", service.lines);
    assert_all(&folder, 20);
    wait_until_in_sync(&folder);
    write_all(&folder, 30);
    service.stop("-KILL");
    let service = serve(&folder, &["--scan", "."]);
    assert!(!has_line(&service, "cannot be read"), "a rebuilt member: {:?}", service.lines);
    service.stop("-KILL");
    overwrite("a.img");
    overwrite("c.img");
    let refused = refusal(&folder, &["--scan", "."]);
    assert!(refused.contains(".img` cannot be read (it was overwritten"), "{refused}");
    let service = serve(&folder, &["--scan", ".", "--read-only"]);
    assert!(has_line(&service, "nothing is recovered from parities"), "{:?}", service.lines);
    assert_all(&folder, 30);
    service.terminate();
}

/// One member of raid5 has a part of the data, and cannot start alone.
#[test]
fn the_advice_for_too_few_members_is_what_parity_can_do() {
    let folder = with_parity("profile = \"raid5\"", 3);
    let service = serve(&folder, &["--scan", "."]);
    write_all(&folder, 60);
    folder.ctl(&["members", "fail", "3"]);
    client(&folder).write(0, &[61; BLOCK]);
    service.terminate();
    let refused = refusal(&folder, &["a.img", "c.img", "--degraded"]);
    for part in ["start with --read-only, which serves what", "if 2 of the 3 members left at"] {
        assert!(refused.contains(part), "{refused}");
    }
    let refused = refusal(&folder, &["c.img", "--degraded"]);
    assert!(refused.contains("--read-only without the other devices serves that"), "{refused}");
    for (members, fills) in [(&["a.img", "c.img"][..], [61, 62]), (&["c.img"], [63, 64])] {
        let service = serve(&folder, &[members, &["--read-only"]].concat());
        let read = |block: u64| {
            client(&folder).request(NbdRequest::Read, block * BLOCK as u64, &[], BLOCK)
        };
        let found: Vec<u8> = (0..BLOCKS).flat_map(|it| read(it).ok()).map(|it| it[0]).collect();
        assert!(found.len() > 4 && fills.iter().any(|it| found.contains(it)), "{found:?}");
        service.terminate();
    }
}

#[test]
fn what_parity_cannot_have_is_refused() {
    let folder = with_parity("profile = \"raid5\"", 3);
    let refused = |arguments: &[&str], part: &str| {
        let output = folder.run(arguments);
        assert!(!output.status.success() && stderr(&output).contains(part), "{}", stderr(&output));
    };
    refused(&["create", "pair.toml", "--occupied", "--checksums"], "cannot have checksums");
    for name in &NAMES[..3] {
        File::create(folder.path(name)).unwrap().set_len(SIZE_BYTES).unwrap();
    }
    refused(&["adopt", "pair.toml"], "cannot be adopted");
}

/// Two parities tell which member has the wrong strip, and give back what it had. One parity does
/// not, so a repair takes the data as they are.
#[test]
fn a_scrub_finds_a_wrong_strip_and_repairs_it() {
    for (profile, count) in [("raid6", 5), ("raid5", 3)] {
        let folder = with_parity(&format!("profile = \"{profile}\""), count);
        let service = serve(&folder, &["pair.toml"]);
        write_all(&folder, 30);
        assert!(scrub(&folder, &[]).contains("(100.0 %)\n  all parities match the data\n"));
        service.terminate();
        let before = data(&folder, "b.img");
        let file = File::options().write(true).open(folder.path("b.img")).unwrap();
        file.write_all_at(&[before[100] ^ 4], DATA as u64 + 100).unwrap();
        let service = serve(&folder, &["--scan", "."]);
        let found = scrub(&folder, &[]);
        assert!(found.contains("did not match the data in 1 block of 4 KiB\n"), "{found}");
        assert!(found.contains("1 block of 4 KiB left as it was\n"), "{found}");
        let next = match profile {
            "raid6" => "next: `ctl scrub start --repair` corrects what the parities show",
            _ => "if it was wrong, `ctl members replace DEVID DEVICE` with its own device or",
        };
        assert!(found.contains(next), "{found}");
        let devid = "devid 2 had wrong data in 1 block of 4 KiB";
        assert_eq!(found.contains(devid), profile == "raid6", "{found}");
        let refused = folder.run(&[
            "ctl",
            "--control",
            "control",
            "scrub",
            "start",
            "--repair",
            "--from",
            "1",
        ]);
        assert!(stderr(&refused).contains("the volume has parity"), "{}", stderr(&refused));
        let found = scrub(&folder, &["--repair"]);
        assert!(found.contains("  1 block of 4 KiB repaired\n"), "{found}");
        assert!(scrub(&folder, &[]).contains("all parities match the data"));
        folder.ctl(&["members", "fail", "1"]);
        let status = folder.ctl(&["status"]);
        if profile == "raid6" {
            assert!(status.contains("  one more member may fail\n"), "{status}");
            assert_all(&folder, 30);
            let found = scrub(&folder, &[]);
            assert!(found.contains("all parities match the data"), "one parity is left: {found}");
        } else {
            assert!(status.contains("  no other member may fail now\n"), "{status}");
            let refused = folder.run(&["ctl", "--control", "control", "scrub", "start"]);
            assert!(stderr(&refused).contains("nothing to compare"), "{}", stderr(&refused));
        }
        service.terminate();
        // Behind the data is the journal.
        let is_given_back = data(&folder, "b.img")[..4 << 20] == before[..4 << 20];
        assert_eq!(is_given_back, profile == "raid6");
    }
}

/// A rebuild copies only what the member missed, so what a scrub found stays. The member takes its
/// own place, and gets all of it.
#[test]
fn a_member_in_doubt_is_replaced_by_its_own_device() {
    let folder = with_parity("profile = \"raid5\"", 3);
    let service = serve(&folder, &["pair.toml"]);
    write_all(&folder, 30);
    service.terminate();
    let before = data(&folder, "b.img");
    let file = File::options().write(true).open(folder.path("b.img")).unwrap();
    file.write_all_at(&[before[100] ^ 4], DATA as u64 + 100).unwrap();
    let service = serve(&folder, &["a.img", "b.img", "c.img"]);
    scrub(&folder, &[]);
    let replace = format!("`ctl members replace 2 {}` copies all", folder.path("b.img").display());
    let text = folder.ctl(&["members", "fail", "2"]);
    assert!(text.contains(&replace) && text.contains("rebuild 2` only what it missed"), "{text}");
    assert!(folder.ctl(&["status"]).contains(&replace));
    folder.ctl(&["members", "replace", "2", "b.img"]);
    wait_until_in_sync(&folder);
    let rebuilt = "devid 2 was rebuilt since this scrub started: `ctl scrub start` shows what is";
    assert!(folder.ctl(&["status"]).contains(rebuilt));
    let found = scrub(&folder, &[]);
    assert!(found.contains("all parities match the data") && !found.contains("rebuilt"), "{found}");
    assert!(!folder.ctl(&["members", "fail", "1"]).contains("only what it missed"));
    service.terminate();
    assert!(data(&folder, "b.img")[..4 << 20] == before[..4 << 20]);
}

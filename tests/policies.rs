//! Tests of `mirrorball policies`: the listing, the pages, and the table made from them.

use crate::common::{Folder, check_generated, stderr};
use std::process::Output;

const CHAPTER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/policies.md");

fn policies(arguments: &[&str]) -> Output {
    let folder = Folder::new();
    let mut command = folder.command(&["policies"]);
    command.env_remove("COLUMNS").args(arguments).output().expect("the program runs")
}

fn stdout(arguments: &[&str]) -> String {
    let output = policies(arguments);
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The rows of the pages' tables, each policy and modifier once.
#[test]
fn the_table_of_all_policies_is_up_to_date() {
    let pages = stdout(&["--format", "markdown"]);
    let rows = pages.lines().filter(|line| line.starts_with("| `"));
    let table: Vec<&str> =
        ["| name | aliases | rule |", "|---|---|---|"].into_iter().chain(rows).collect();
    assert!(table.len() > 60, "{} rows", table.len());
    check_generated(CHAPTER, "policies", &table.join("\n"));
}

#[test]
fn every_family_is_listed_with_its_policies_then_the_modifiers() {
    let listing = stdout(&[]);
    for family in mirrorball_core::policies::FAMILIES {
        let heading = format!("{} (", family.1[0].family());
        assert!(listing.contains(&heading), "{heading}");
        for info in family.1 {
            assert!(listing.contains(&format!("  {}", info.usage())), "{}", info.name);
        }
    }
    assert!(listing.contains("\nbtrfs (Linux btrfs)\n"));
    let research =
        "\nresearch (power of two choices, Linux IPVS, Twitter Finagle, C3, Prequal, LinnOS)\n";
    assert!(listing.contains(research), "a family of several systems names each");
    let (_, modifiers) = listing.split_once("\nmodifiers (").expect("they have a heading");
    for info in mirrorball_core::policies::modifiers::ALL {
        assert!(modifiers.contains(&format!("  +{}", info.name)), "{}", info.name);
    }
}

#[test]
fn a_system_lists_the_modifiers_that_it_offers() {
    for (system, is_listed) in [("md", true), ("lvm", true), ("zfs", false)] {
        let listing = stdout(&["--system", system]);
        assert_eq!(listing.contains("  +write-mostly"), is_listed, "{system}: {listing}");
        assert!(!listing.contains("+hedge["), "{system}: {listing}");
    }
}

#[test]
fn words_in_commands_that_the_user_replaces_are_explained() {
    for (policy, parts) in [
        ("pid", &["/sys/fs/btrfs/FSID/read_policy", "FSID is the UUID of the file system"][..]),
        ("zfs/mirror", &["rotating_seek_inc=VALUE", "VALUE is the parameter of the policy"]),
        ("drbd/round-robin", &["--read-balancing=round-robin", "MINOR is the number"]),
        ("nvme/round-robin", &["ARRAY is the subsystem, for example nvme-subsys0"]),
    ] {
        let page = stdout(&[policy]);
        for part in parts {
            assert!(page.contains(part), "{policy}: no `{part}` in\n{page}");
        }
        for word in ["{array}", "{fsid}", "{previous", "{value}", "{member}", "{device}"] {
            assert!(!page.contains(word), "{policy}: {word} in\n{page}");
        }
    }
}

#[test]
fn a_family_is_listed_alone() {
    for name in ["btrfs", "btrfs/*"] {
        let listing = stdout(&[name]);
        assert!(listing.starts_with("btrfs (Linux btrfs)\n"), "{name}: {listing}");
        assert!(listing.contains("  btrfs/round-robin") && !listing.contains("\nzfs ("), "{name}");
    }
    assert_eq!(stdout(&["all"]), stdout(&[]));
    // A family whose name is an alias, too.
    let listing = stdout(&["md"]);
    assert!(listing.starts_with("md (Linux md)\n") && listing.contains("  md/raid10"), "{listing}");
    assert!(listing.ends_with("`md` alone is an alias of `md/raid1`.\n"), "{listing}");
}

#[test]
fn the_listing_fits_the_terminal_and_is_complete() {
    let whole = stdout(&[]);
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<String>>();
    for columns in [72, 80, 132] {
        let folder = Folder::new();
        let output = folder.command(&["policies"]).env("COLUMNS", columns.to_string()).output();
        let listing = String::from_utf8(output.expect("the program runs").stdout).expect("text");
        let widest = listing.lines().max_by_key(|line| line.chars().count()).expect("lines");
        assert!(widest.chars().count() <= columns, "{columns}: {widest}");
        assert_eq!(words(&listing), words(&whole), "{columns}");
    }
}

#[test]
fn a_page_names_its_parameters_and_has_its_sections() {
    let page = stdout(&["latency-rr"]);
    for part in ["kakra/latency-rr", "default: 256K", "one of `window`, `once`", "# Bad at"] {
        assert!(page.contains(part), "no `{part}` in\n{page}");
    }
    let pages = stdout(&["zfs/mirror+hedge"]);
    assert!(
        pages.starts_with("zfs/mirror[:rotating_seek") && pages.contains("\n+hedge[:quantile"),
        "{pages}"
    );
    let page = stdout(&["+hedge"]);
    for part in ["+hedge[:quantile[:budget]]", "a percentage from 50% to 99%", "Barroso"] {
        assert!(page.contains(part), "no `{part}` in\n{page}");
    }
}

#[test]
fn an_unknown_name_is_refused_with_a_suggestion() {
    for (name, message) in [
        ("gmiror/load", "did you mean `gmirror/load`?"),
        ("+hegde", "did you mean `+hedge`?"),
        ("devid:0", "expected a devid of at least 1"),
        ("oracle", "`oracle` is not a policy"),
    ] {
        let output = policies(&[name]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{name}: {error}");
        assert!(error.contains(message), "{name}: {error}");
    }
}

#[test]
fn every_build_writes_a_new_policy() {
    let folder = Folder::new();
    let said = stderr(&folder.run(&["program", "new", "mine"]));
    assert!(said.starts_with("wrote mine/mine.c, its headers, a test and a Makefile\n"), "{said}");
    let source = std::fs::read_to_string(folder.path("mine/mine.c")).unwrap();
    assert!(source.contains("MB_PROGRAM(\"mine\""), "{source}");
    let can_run = folder.run(&["program", "build", "none.c"]);
    assert_eq!(said.contains("--features programs"), stderr(&can_run).contains("--features"));
}

//! Mistakes a user may make in an array file, with the exact answer to each.
//!
//! `{models}` in an answer stands for the names of the built-in models.

mod cache_tests;
mod controller_tests;
mod fault_tests;

use super::*;
use crate::profile::ModelProfile;
use cache_tests::{ARRAY_CACHE, CACHE};
use controller_tests::CONTROLLER;
use fault_tests::FAULT;

/// The text of a file, and the error: its line, its message and, in parentheses, its help.
const WHOLE: &[(&str, &str)] = &[
    (
        "",
        "1: the array has no `profile` (give one of single, raid0, raid1, raid1c3, raid1c4, \
         raid10, raid5, raid6)",
    ),
    (
        "profile = ",
        "1: not valid TOML: string values must be quoted (write the value \
         between quotes, as in profile = \"raid1\")",
    ),
    (
        "profile = raid1",
        "1: not valid TOML: string values must be quoted (write profile = \
         \"raid1\")",
    ),
    ("profile = \"raid1\"\nprofile = \"raid1\"", "2: `profile` is given twice (keep one of them)"),
    (
        "profile = \"raid7\"\n[[member]]\nmodel = \"delay\"",
        "1: unknown profile `raid7` (the profiles are single, raid0, raid1, raid1c3, raid1c4, \
         raid10, raid5, raid6; did you mean `raid6`?)",
    ),
    (
        "profile = \"raid6\"\n[[member]]\nmodel = \"delay\"\ncount = 2",
        "1: profile raid6 needs at least 3 members, but the array has 2 (add members, or use \
         profile raid1)",
    ),
    (
        "profile = \"raid5\"\n[[member]]\nmodel = \"delay\"\ncount = 65",
        "1: a chunk of profile raid5 would span 65 members, but a row of strips with parity spans \
         at most 64 (use fewer members, or `stripe_width_max = 64`)",
    ),
    (
        "profile = \"raid5\"\nstripe_width_max = 65\n[[member]]\nmodel = \"delay\"\ncount = 70",
        "2: a chunk of profile raid5 would span 65 members, but a row of strips with parity spans \
         at most 64 (use fewer members, or `stripe_width_max = 64`)",
    ),
    (
        "layout = \"md-raid5\"\n[[member]]\nmodel = \"delay\"\ncount = 3\nwrite_mostly = true",
        "1: `write_mostly` has no effect with parity: each part of the data is on one member \
         (remove `write_mostly`)",
    ),
    (
        "profile = \"raid5\"\n[[member]]\nmodel = \"delay\"\ncount = 2\n[[member]]\n\
         model = \"delay\"\ncount = 2\nfailed = true",
        "1: 2 members are `failed`, but the parity makes up for 1 at most (remove `failed` from a \
         member)",
    ),
    (
        "rmw_level = 3\nprofile = \"raid5\"\n[[member]]\nmodel = \"delay\"\ncount = 3",
        "1: there is no `rmw_level` 3 (give 0, 1 or 2, as in `/sys/block/mdN/md/rmw_level`)",
    ),
    (
        "profile = \"mirror\"\n[[member]]\nmodel = \"delay\"",
        "1: unknown profile `mirror` (the profiles are single, raid0, raid1, raid1c3, raid1c4, \
         raid10, raid5, raid6)",
    ),
    (
        r#"profile = "raid1""#,
        "1: the array has no [[member]] (for example [[member]] and, below it, model = \
         \"hdd-5k4\")",
    ),
    (
        "profile = \"raid1\"\nmember = 3",
        "2: `member` must be a list of tables, not `3` (write [[member]] on a line of its own, and \
         below it the keys of one member)",
    ),
    (
        "profile = \"raid1\"\nmember = [3]",
        "2: `member` must be a list of tables, not integers (write [[member]] on a line of its \
         own, and below it the keys of one member)",
    ),
    (
        "profile = \"single\"\n\n[[member]]\ncount = 2",
        "3: the member has no `model`, `path` or `uri` (`model` is a path ending in \
         .toml, or one of {models})",
    ),
    (
        "profile = \"single\"\n[[member]]\nmodel = \"hdd-7k2-desktp\"",
        "3: there is no built-in model `hdd-7k2-desktp` (did you mean `hdd-7k2-desktop`?)",
    ),
    (
        "profile = \"single\"\n[[member]]\nmodel = \"hdd-5k4\"\nsize = \"100K\"",
        "4: `size` of a member of model `hdd-5k4` is 100 KiB, but the model needs at least 2 MiB \
         (write for example size = \"500G\")",
    ),
    (
        "profile = \"single\"\n[[member]]\nmodel = \"floppy\"",
        "3: there is no built-in model `floppy` (a model is a path ending in .toml, or one of \
         {models})",
    ),
    (
        "profile = \"single\"\n[[member]]\nmodel = \"delay.toml\"",
        "3: cannot read the model file `delay.toml`: No such file or directory (os error 2) (the \
         path is relative to the folder of the array file)",
    ),
    ("profile = \"single\"\n[[member]]\npath = \"\"", "3: `path` is empty"),
    (
        "profile = \"single\"\n[[member]]\npath = \"/dev/sdb\"\ncount = 2",
        "4: `count` is for disk models, but `path` makes the member a real one (remove one of \
         them)",
    ),
    (
        "link = [{ name = \"hba0\" }]\nprofile = \"single\"\n[[member]]\nmodel = \
         \"delay\"\nlink = \"hba\"",
        "5: there is no link `hba` (did you mean `hba0`?)",
    ),
    (
        "link = [{ name = \"left\" }]\nprofile = \"single\"\n[[member]]\nmodel = \
         \"delay\"\nlink = \"hba\"",
        "5: there is no link `hba` (the links are left)",
    ),
    (
        "profile = \"raid1c3\"\n[[member]]\nmodel = \"delay\"\ncount = 2",
        "1: profile raid1c3 needs at least 3 members, but the array has 2 (add members, or use \
         profile raid1)",
    ),
    (
        "profile = \"raid1c3\"\n[[member]]\npath = \"/dev/sdb\"",
        "1: profile raid1c3 needs at least 3 members, but the array has 1 (add members, or use \
         profile single)",
    ),
    (
        "stripe_width_max = 1\nprofile = \"raid10\"\n[[member]]\nmodel = \"delay\"\ncount = 4",
        "1: stripe_width_max is 1, but a chunk of profile raid10 spans at least 2 members (raise \
         it or remove it)",
    ),
];

/// A line at the top of a raid1 of two delays, and what is said of it.
const TOP: &[(&str, &str)] = &[
    (r#"nmae = "x""#, "1: unknown key `nmae` (did you mean `name`?)"),
    (
        r#"colour = "x""#,
        "1: unknown key `colour` (the known ones are name, profile, layout, chunk, \
         stripe_width_max, rmw_level, used, host, cache, controller, source, policy, link, member, \
         spare)",
    ),
    (
        r#"name = "a\u001b[31mb""#,
        r"1: `name` contains the control character `\u{1b}` (use printable characters)",
    ),
    (
        r#"link = [{ name = "a\tb" }]"#,
        r"1: `name` contains the control character `\t` (use printable characters)",
    ),
    ("name = 3", "1: `name` must be a string, not `3`"),
    (
        r#"stripe_width_max = "four""#,
        r#"1: `stripe_width_max` must be a whole number, at least 0, not `"four"`"#,
    ),
    ("rmw_level = 1", "1: `rmw_level` is for parity, and the profile is raid1 (leave it out)"),
    ("stripe_width_max = -1", "1: `stripe_width_max` must be a whole number, at least 0, not `-1`"),
    (r#"used = "100%""#, "1: `used`: a share is at least 0% and less than 100%, such as 60%"),
    (r#"used = "lots""#, "1: `used`: `lots` is not a share such as 60%, or a size such as 500GB"),
    (r#"used = "lots%""#, "1: `used`: `lots%` is not a share such as 60%, or a size such as 500GB"),
    (
        r#"used = "900TB""#,
        "1: `used` is as large as the volume, so no space is left for jobs (give less, \
         such as used = \"60%\")",
    ),
    ("host = 3", "1: `host` must be a table, not `3`"),
    (
        r#"host = { overhead = "15" }"#,
        "1: `overhead`: `15` has no unit: write for example 15s (the units are ns, \
         us, ms, s, m, h and d)",
    ),
    (
        "host = { overhead = 15 }",
        "1: `overhead`: `15` has no unit: write for example 15s (the units are ns, \
         us, ms, s, m, h and d)",
    ),
    (
        r#"host = { overhead = { jitter = "10%" } }"#,
        "1: `overhead` has no `mean` (for example overhead = { mean = \"15us\", jitter = \"20%\" \
         })",
    ),
    (
        r#"host = { overhead = { mean = "15us", jitter = "101%" } }"#,
        "1: `jitter`: `101%` is not a percentage from 0% to 100%, such as \"10%\"",
    ),
    (
        r#"host = { overhead = { mean = "15us", jitter = 0.1 } }"#,
        "1: `jitter`: `0.1` is not a percentage from 0% to 100%, such as \"10%\"",
    ),
    (
        r#"host = { overhead = { mean = "15us", jiter = "1%" } }"#,
        "1: unknown key `jiter` in `overhead` (did you mean `jitter`?)",
    ),
    ("host = { cpus = 0 }", "1: `cpus` is 0, so no request could be issued (give 1 or more)"),
    ("host = { cpu = 1 }", "1: unknown key `cpu` in [host] (did you mean `cpus`?)"),
    (
        r#"link = [{ read = "1GB/s" }]"#,
        "1: the link has no `name` for members to refer to (add for example name = \"hba0\")",
    ),
    (
        r#"link = [{ name = "a" }, { name = "a" }]"#,
        "1: there are two links `a` (rename one of them)",
    ),
    (
        r#"link = [{ name = "a", read = "1GB" }]"#,
        "1: `read`: `1GB` is not a rate such as 190MB/s or 1.2GB/s (K, M, G, T, P, E and KiB … \
         EiB are powers of 1024, KB … EB powers of 1000)",
    ),
    (
        r#"link = [{ name = "a", write = "0MB/s" }]"#,
        "1: `write` is 0, so no data would pass (remove it for a link without a limit)",
    ),
    (
        r#"link = [{ name = "a", bandwidth = "1MB/s" }]"#,
        "1: unknown key `bandwidth` in [[link]] (the known ones are name, read, write, \
         latency, jitter)",
    ),
];

/// Lines of the only member, a delay, and what is said of them.
const MEMBER: &[(&str, &str)] = &[
    (r#"path = "/dev/sdb""#, "4: `path` contradicts `model` (remove one of them)"),
    (r#"sise = "1TB""#, "4: unknown key `sise` in [[member]] (did you mean `size`?)"),
    (
        "rpm = 4200",
        "4: unknown key `rpm` in [[member]] (the known ones are model, count, link, set, size, \
         length, fault, cache, devid, path, begin, uri, rotational, optimal_io, priority, \
         write_mostly, rebuilding, failed, device, kernel_name, confidence; parameters of the \
         model go into set = { … })",
    ),
    (
        r#"size = "1QB""#,
        "4: `size`: `1QB` has an unknown unit (K, M, G, T, P, E and \
         KiB … EiB are powers of 1024, KB … EB powers of 1000)",
    ),
    (
        r#"size = "4K""#,
        "4: the member with devid 1 has 4 KiB, but a member needs at least 1.1 MiB (write for \
         example size = \"500G\")",
    ),
    (
        "devid = 0",
        "4: `devid` is 0, but members are numbered from 1 (remove `devid` to number the members \
         automatically)",
    ),
    (
        "failed = true",
        "1: every member is `failed`, so no request can be served (remove `failed` from a member)",
    ),
    (
        r#"set = { service = 5 }"#,
        "4: `set` of `delay`: `service` must be a duration such as \"1.4ms\", not `5`",
    ),
    ("count = 0", "4: `count` is 0 (remove the member)"),
    ("count = 1.5", "4: `count` must be a whole number from 1 to 384, not `1.5`"),
    ("count = 70000", "4: `count` must be a whole number from 1 to 384, not `70000`"),
    (
        "count = 200\n[[member]]\nmodel = \"delay\"\ncount = 185",
        "7: the array has 385 members or more, but the limit is 384 (use fewer and larger members)",
    ),
    (
        "devid = 1\ncount = 2",
        "4: `devid` names one member, but `count` is 2 (write one [[member]] for each)",
    ),
    (
        "[[member]]\nmodel = \"delay\"\ndevid = 1",
        "6: devid 1 is taken by the member of line 2 (remove `devid` to number the members \
         automatically)",
    ),
    (r#"link = "hba""#, r#"4: there is no link `hba` (add [[link]] and, below it, name = "hba")"#),
    (
        r#"rebuilding = "9000TB""#,
        "4: `rebuilding` is larger than the member, which has 1 TiB (`rebuilding` is the \
         size recovered so far)",
    ),
    (
        "rebuilding = \"1GB\"\nfailed = true",
        "4: a failed member cannot be `rebuilding` (remove one of them)",
    ),
    (r#"failed = "yes""#, r#"4: `failed` must be true or false, not `"yes"`"#),
    (
        r#"set = { servcie = "1ms" }"#,
        "4: `set` of `delay`: unknown key `servcie` (did you mean `service`?)",
    ),
    (
        r#"set = { service = "1" }"#,
        "4: `set` of `delay`: `service`: `1` has no unit: write for example 1s (the units are \
         ns, us, ms, s, m, h and d)",
    ),
    ("set = { servers = 0 }", "4: `set` of `delay`: `servers` is 0, but a disk needs at least one"),
    ("set = 3", "4: `set` must be a table, not `3`"),
    ("priority = -3", "4: `priority` must be a whole number from 0 to 255, not `-3`"),
    ("priority = 256", "4: `priority` must be a whole number from 0 to 255, not `256`"),
    (
        r#"size = "8000TB""#,
        "4: the members have 7.1 PiB together, but an array can have at most 4 PiB (check the \
         units of the sizes; write for example size = \"500G\")",
    ),
    (
        "fault = { slow = 2 }",
        "4: `fault` must be a list of tables, not `{ slow = 2 }` (write for example fault = [{ \
         slow = 4.0, from = \"10s\" }])",
    ),
];

/// Parses each text as put into its place by `place`, and compares the answers with the table.
fn check(table: &[(&str, &str)], place: impl Fn(&str) -> String) {
    let models = ModelProfile::builtin_names().collect::<Vec<_>>().join(", ");
    for (written, expected) in table {
        let text = place(written);
        let error = ArrayFile::parse(&text, "a.toml").expect_err(&text);
        assert_eq!(error.file.as_deref(), Some("a.toml"), "{text}");
        let Diagnostic { message, help, .. } = &error;
        let help = help.as_ref().map_or(String::new(), |help| format!(" ({help})"));
        let line = error.line.expect("every mistake has a line");
        let expected = expected.replace("{models}", &models);
        assert_eq!(format!("{line}: {message}{help}"), expected, "{text}");
    }
}

/// What the layout is given with, above four members.
const LAYOUT: &[(&str, &str)] = &[
    (
        r#"layout = "md-raid10-fat:2""#,
        "1: unknown layout `md-raid10-fat` (the layouts are btrfs, md-raid1, md-raid10-near, \
         md-raid10-far, md-raid10-offset, lvm-raid1, zfs-mirror, gmirror, md-raid5, md-raid6; \
         did you mean `md-raid10-far`?)",
    ),
    (
        r#"layout = "md-raid6-left-symetric""#,
        "1: unknown layout `md-raid6-left-symetric`: md-raid6 has no rotation `left-symetric` \
         (its rotations are left-symmetric, left-asymmetric, right-symmetric, right-asymmetric, \
         parity-first, parity-last, ddf-zero-restart, ddf-N-restart, ddf-N-continue, \
         left-symmetric-6, left-asymmetric-6, right-symmetric-6, right-asymmetric-6, \
         parity-first-6; did you mean `md-raid6-left-symmetric`?)",
    ),
    (
        "profile = \"raid6\"\nlayout = \"md-raid5\"",
        "1: layout md-raid5-left-symmetric over 4 members is profile raid5, which `profile` \
         contradicts (remove `profile`)",
    ),
    (
        "layout = \"md-raid5\"\nchunk = \"32M\"",
        "2: a chunk of 32 MiB is not possible in md-raid5-left-symmetric (give a power of \
         two from 4K to 16M, such as 64K or 512K)",
    ),
    (
        r#"layout = "btrfs""#,
        "1: the array has no `profile` (give one of single, raid0, raid1, raid1c3, raid1c4, \
         raid10, raid5, raid6)",
    ),
    (
        "layout = \"md-raid1\"\nprofile = \"raid1\"",
        "2: layout md-raid1 over 4 members is profile raid1c4, which `profile` contradicts (remove \
         `profile`)",
    ),
    (
        "profile = \"raid1\"\nlayout = \"md-raid10-near:2\"",
        "1: layout md-raid10-near:2 over 4 members is profile raid10, which `profile` contradicts \
         (remove `profile`)",
    ),
    ("layout = \"md-raid1:2\"", "1: layout md-raid1 takes no number of copies (leave `:2` out)"),
    (
        "layout = \"md-raid10-far:9\"",
        "1: `9` is not a number of copies (give 2 to 4, for example `md-raid10-far:2`)",
    ),
    (
        "layout = \"gmirror\"\nchunk = \"64K\"",
        "2: layout gmirror has no chunk size to choose (leave `chunk` out; it is for layouts of \
         md raid10, raid5 and raid6)",
    ),
    (
        "chunk = \"64K\"\nprofile = \"raid10\"",
        "1: `chunk` is for layouts of md raid10, raid5 and raid6, but `layout` is missing, so it \
         is btrfs (remove `chunk`, or write a layout of md such as md-raid10-near:2 or md-raid5 in \
         place of `profile`)",
    ),
    (
        "layout = \"md-raid10-far:2\"\nchunk = \"100K\"",
        "2: a chunk of 100 KiB is not possible in md-raid10-far:2 (give a power of two \
         from 4K on, such as 64K or 512K)",
    ),
    (
        "stripe_width_max = 2\nlayout = \"md-raid10-near:2\"",
        "1: `stripe_width_max` is for btrfs, and the layout is md-raid10-near:2 (leave it out)",
    ),
    (
        "layout = \"zfs-mirror:3\"",
        "1: layout zfs-mirror:3 makes groups of 3 members, but the array has 4 (add or remove \
         members)",
    ),
    (
        "layout = \"md-raid10-far:2\"\nchunk = \"1GiB\"",
        "5: the member with devid 1 has 1 GiB, but a member needs at least 2.1 GiB (write for \
         example size = \"500G\", or reduce `chunk`)",
    ),
];

fn in_member(lines: &str) -> String {
    format!("profile = \"single\"\n[[member]]\nmodel = \"delay\"\n{lines}\n")
}

#[test]
fn mistakes_in_the_file_as_a_whole() {
    check(WHOLE, str::to_owned);
}

#[test]
fn mistakes_at_the_top_in_the_host_and_in_links() {
    let rest = "profile = \"raid1\"\n[[member]]\nmodel = \"delay\"\ncount = 2";
    check(TOP, |line| format!("{line}\n{rest}\n"));
}

#[test]
fn mistakes_in_the_layout() {
    check(LAYOUT, |lines| {
        format!("{lines}\n[[member]]\nmodel = \"delay\"\nsize = \"1GiB\"\ncount = 4\n")
    });
    let real = |count| {
        let member = "[[member]]\npath = \"/dev/sdX\"\n".repeat(count);
        ArrayFile::parse(&format!("layout = \"md-raid1\"\n{member}"), "a.toml")
    };
    let error = real(5).unwrap_err().to_string();
    assert!(error.contains("a copy on each of the 5 members"), "real members count too: {error}");
    assert_eq!(real(3).unwrap().spec.profile, Profile::Raid1c3);
}

#[test]
fn mistakes_in_a_member() {
    check(MEMBER, in_member);
}

#[test]
fn mistakes_in_a_fault() {
    check(FAULT, |fault| in_member(&format!("fault = [{{ {fault} }}]")));
}

#[test]
fn mistakes_in_a_cache() {
    check(CACHE, |cache| in_member(&format!("cache = {{ {cache} }}")));
}

#[test]
fn a_mistake_is_reported_with_its_column() {
    for (text, place) in [
        ("  nmae = \"x\"", "a.toml:1:3: "),
        ("profile = \"riad1\"", "a.toml:1:11: "),
        ("profile = \"raid1\"\n[host]\ncpus = \"µ\"", "a.toml:3:8: "),
        ("profile = \"single\"\nmember = [{ model = \"delay\" }, { count = 1 }]", "a.toml:2:32: "),
        ("profile = ", "a.toml:1:11: "),
    ] {
        let error = ArrayFile::parse(text, "a.toml").expect_err(text).to_string();
        assert!(error.starts_with(place), "{text}: {error}");
    }
}

proptest::proptest! {
    /// Whatever stands in a file, the answer is an array or an error, never a panic; and an error
    /// names a line of the file.
    #[test]
    fn no_text_panics(
        pieces in proptest::collection::vec((0usize..7, 0usize..80, 0usize..200, 0usize..8), 1..4)
    ) {
        let mut text = String::new();
        for (table, row, cut, kept) in pieces {
            let table = [WHOLE, TOP, LAYOUT, MEMBER, FAULT, CONTROLLER, ARRAY_CACHE][table];
            let mut piece = table[row % table.len()].0.to_owned();
            let end = (cut..cut + kept).find(|&at| piece.is_char_boundary(at));
            if let Some(at) = end.filter(|&at| at < piece.len()) {
                piece.remove(at);
            }
            text.push_str(&piece);
            text.push('\n');
        }
        if let Err(error) = ArrayFile::parse(&text, "a.toml") {
            let line = error.line.expect("a line is to blame");
            proptest::prop_assert!(line >= 1 && line <= text.lines().count().max(1) + 1);
        }
    }
}

//! Tests of the parser of policy strings.

use crate::policies::{Spec, all, parse_list, rounding_notes};
use proptest::prelude::*;

/// Values that Linux 6.15 accepts in `/sys/fs/btrfs/UUID/read_policy` mean the same here.
#[test]
fn values_are_read_as_btrfs_reads_them() {
    for (text, canonical) in [
        ("round-robin:4096", "4K"),
        ("round-robin:4096 \t\n", "4K"),
        ("round-robin:1", "4K"),
        ("round-robin:4097", "8K"),
        ("round-robin:192K", "192K"),
        ("round-robin:192k\n", "192K"),
        ("round-robin:2M", "2M"),
        ("round-robin:4G", "4G"),
        ("round-robin:1E", "1E"),
        ("round-robin:0x2000", "8K"),
        ("round-robin:0X10K", "16K"),
        ("round-robin:010000", "4K"),
        ("devid:5\n", "5"),
        ("devid:01", "1"),
    ] {
        let spec = Spec::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"));
        let written = spec.to_string();
        assert_eq!(written.split_once(':').unwrap().1, canonical, "{text:?}");
    }
}

/// The patterns of fstests btrfs/329 that must fail.
#[test]
fn values_that_btrfs_329_lists_are_refused() {
    for name in ["round-robin", "devid"] {
        for bad in [
            format!("{name}{name}"),
            format!("{name} t"),
            format!(" {name}"),
            format!("_{name}"),
            format!("{name}_"),
            format!("{name}:"),
            format!("{name}: 4096"),
            format!("{name}:4096 typo"),
            format!("{name}:4096typo"),
            format!("{name} :4096"),
            format!("\"{name}\""),
            format!("{name}:0"),
            format!("{name}:-1"),
            format!("{name}:8E"),
            format!("{name}:16E"),
            format!("{name}:09"),
            format!("{name}:0x"),
            format!("{name}:1KK"),
            format!("{name}:1.5K"),
            format!("{name}:1\n2"),
            name.to_uppercase(),
        ] {
            assert!(Spec::parse(&bad).is_err(), "{bad:?}");
        }
    }
}

#[test]
fn specs_are_parsed_and_written() {
    for (text, canonical) in [
        ("pid", "btrfs/pid"),
        ("btrfs/pid", "btrfs/pid"),
        ("round-robin", "btrfs/round-robin"),
        ("round-robin:256K", "btrfs/round-robin:256K"),
        ("round-robin:262144", "btrfs/round-robin:256K"),
        ("round-robin:5000", "btrfs/round-robin:8K"),
        ("btrfs/round-robin:4100", "btrfs/round-robin:8K"),
        ("gmirror/round-robin", "gmirror/round-robin"),
        ("split:5000", "gmirror/split:5000"),
        ("latency", "btrfs/latency"),
        ("kakra/latency:once", "kakra/latency:once"),
        ("latency-rr:1M:window", "kakra/latency-rr:1M:window"),
        ("devid:2", "btrfs/devid:2"),
        ("zfs", "zfs/mirror"),
    ] {
        let spec = Spec::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(spec.to_string(), canonical, "{text}");
        assert_eq!(Spec::parse(canonical).unwrap(), spec);
    }
}

/// The message and the help of the error in a list.
fn refusal(text: &str) -> (String, String) {
    let error = parse_list(text).map(|_| ()).unwrap_err();
    (error.message, error.help.unwrap_or_default())
}

#[test]
fn errors_say_what_is_wrong_and_what_to_write() {
    for (text, message, help) in [
        (
            "round-robin:x",
            "bad value `x` for `bytes` of btrfs/round-robin",
            "expected a size (such as 64K) of at least 1 and below 8E, rounded up to a multiple of \
             4K",
        ),
        (
            "round-robin:",
            "the value for `bytes` of btrfs/round-robin is missing",
            "expected a size (such as 64K) of at least 1 and below 8E, rounded up to a multiple of \
             4K",
        ),
        (
            "devid:0",
            "the value `0` for `id` of btrfs/devid is too small",
            "expected a devid of at least 1",
        ),
        (
            "md/raid1:foo",
            "bad value `foo` for `first` of md/raid1",
            "expected a devid, or 0 for the lowest devid",
        ),
        (
            "kakra/latency:twice",
            "bad value `twice` for `probe` of kakra/latency",
            "expected one of `window`, `once`",
        ),
        ("pid:7", "unexpected value `7` after btrfs/pid", "the syntax is btrfs/pid"),
        (
            "latency-rr:1M:once:2",
            "unexpected value `2` after kakra/latency-rr",
            "the syntax is kakra/latency-rr[:bytes[:probe]]",
        ),
        ("pid,,first", "the policy list `pid,,first` has an empty item", "remove the extra comma"),
        (
            "",
            "the name of the policy is missing",
            "write for example `pid`; `mirrorball policies` lists the policies",
        ),
        (
            "oracle",
            "`oracle` is not a policy, but a reference that only a simulation has",
            "`compare` adds it to every table; `explain --policy oracle` explains it",
        ),
    ] {
        assert_eq!(refusal(text), (message.to_owned(), help.to_owned()), "{text}");
    }
    let (message, help) = refusal("zebra");
    assert_eq!(message, "unknown policy `zebra`");
    assert!(help.contains("mirrorball/*, btrfs/*, "), "{help}");
    assert!(help.contains("`mirrorball policies`"), "{help}");
    let Err(error) = Spec::parse("devid:7").unwrap().build(&[1, 2]) else { panic!("no devid 7") };
    assert_eq!(error.message, "btrfs/devid: the array has no member with devid 7");
    assert_eq!(error.help.as_deref(), Some("the array has the devids 1, 2"));
}

#[test]
fn values_that_do_not_fit_are_refused_instead_of_wrapping() {
    for text in [
        "round-robin:99E",
        "round-robin:16E",
        "round-robin:8E",
        "round-robin:18014398509481985K",
        "round-robin:18446744073709551616",
        "round-robin:0x10000000000001000",
        "round-robin:02000000000000000010000",
        "round-robin:9223372036854775807",
        "latency-rr:99E",
        "split:99E",
        "rotation:99E",
        "drbd/striping:99E",
        "devid:18446744073709551617",
        "devid:9223372036854775808",
        "dm/round-robin:18446744073709551617",
        "dm/historical-service-time:18446744073709551616",
        "pid+hedge:18446744073709551711%",
        "pid+tied:18446744073709551617ms",
        "pid+tied:18446744073709552s",
        "pid+autosit:99999999999999999999s",
        "pid+write-mostly:18446744073709551617",
    ] {
        let (message, help) = refusal(text);
        assert!(message.ends_with(" is too large"), "{text}: {message}");
        assert!(help.starts_with("expected a "), "{text}: {help}");
    }
    let largest = Spec::parse("round-robin:9223372036854771712").unwrap();
    assert_eq!(Spec::parse(&largest.to_string()).unwrap(), largest);
}

#[test]
fn an_unknown_name_is_refused_with_the_similar_names() {
    for (name, help) in [
        ("titovets", "did you mean `btrfs/titovets`?"),
        ("Titovets", "did you mean `btrfs/titovets`?"),
        ("titovest", "did you mean `btrfs/titovets`?"),
        ("raid1", "did you mean `graid/raid1`, `md/raid1` or `spdk/raid1`?"),
        ("queue-lenght", "did you mean `dm/queue-length`?"),
        ("zfs/pid", "did you mean `btrfs/pid`?"),
        ("latecny-rr", "did you mean `latency-rr`?"),
        ("brtfs/pid", "did you mean `btrfs/pid`?"),
        ("BTRFS/Round-Robin", "did you mean `btrfs/round-robin`?"),
    ] {
        assert_eq!(refusal(name), (format!("unknown policy `{name}`"), help.to_owned()));
    }
    let (message, help) = refusal("gmiror/*");
    assert_eq!(message, "unknown policy family `gmiror/*`");
    assert_eq!(help, "did you mean `gmirror/*`?");
    assert_eq!(refusal("BTRFS/*").1, "did you mean `btrfs/*`?");
    assert!(refusal("btrfs/zzzzzz").1.starts_with("the policies of btrfs are btrfs/pid, btrfs/"));
    for several in ["all", "md/*", "pid,queue", "btrfs"] {
        let error = Spec::parse(several).unwrap_err();
        assert_eq!(error.message, format!("`{several}` does not name one policy"));
    }
    let (message, _) = refusal("btrfs/*:4K");
    assert_eq!(message, "`btrfs/*:4K`: a pattern takes no values");
    for pattern in ["btrfs", "btrfs/x*", "p*"] {
        assert_eq!(refusal(pattern).0, format!("`{pattern}` does not name one policy"));
    }
    for info in all() {
        let (_, part) = info.name.split_once('/').unwrap();
        if Spec::parse(part).is_err() {
            assert!(refusal(part).1.contains(info.name), "{part}: {}", refusal(part).1);
        }
    }
}

#[test]
fn control_characters_are_escaped_in_errors() {
    for (text, shown) in [
        ("p\u{1b}[31mid", "unknown policy `p\\u{1b}[31mid`"),
        ("bt\rrfs/*", "unknown policy family `bt\\rrfs/*`"),
        ("pid+he\u{9b}dge", "unknown modifier `+he\\u{9b}dge`"),
        ("round-robin:1\n2", "bad value `1\\n2` for `bytes` of btrfs/round-robin"),
        ("pid:\u{7}", "unexpected value `\\u{7}` after btrfs/pid"),
    ] {
        let error = parse_list(text).unwrap_err().to_string();
        assert!(error.starts_with(shown), "{error}");
        let first_line = error.lines().next().unwrap();
        assert!(!first_line.contains(char::is_control), "{first_line:?}");
    }
}

#[test]
fn lists_contain_policies_families_and_all() {
    let names = |text: &str| -> Vec<String> {
        parse_list(text).unwrap().iter().map(Spec::to_string).collect()
    };
    let all: Vec<&str> = all().map(|info| info.name).collect();
    assert_eq!(names("all"), all);
    assert_eq!(
        names("btrfs/*, queue"),
        [
            "btrfs/pid", "btrfs/round-robin", "btrfs/rotation", "btrfs/devid", "btrfs/latency",
            "btrfs/titovets", "btrfs/inflight", "btrfs/rostecki", "kakra/queue"
        ]
    );
    assert_eq!(
        names("pid,btrfs/pid,round-robin,round-robin:64K").len(),
        3,
        "the same policy is in the list once"
    );
    assert_eq!(names("zfs,all").len(), all.len());
}

proptest! {
    #[test]
    fn no_text_makes_a_parser_panic(text in "[a-z/:*+%, 0-9KMGTPEx\\n_-]{0,40}|\\PC{0,40}") {
        let _ = parse_list(&text).map_err(|error| error.to_string());
        for name in ["pid", "round-robin", "devid"] {
            let _ = Spec::parse(&format!("{name}:{text}")).map_err(|error| error.to_string());
        }
    }

    /// A spec that is written and parsed again is the same spec.
    #[test]
    fn written_specs_are_parsed_again(bytes in 1..=i64::MAX as u64 - 4096, devid in 1..4u64) {
        for text in [format!("round-robin:{bytes}"), format!("devid:{devid}"), "pid".to_owned()] {
            let spec = Spec::parse(&text).unwrap();
            prop_assert_eq!(&Spec::parse(&spec.to_string()).unwrap(), &spec);
            prop_assert!(spec.build(&[1, 2, 3]).is_ok());
        }
    }
}

#[test]
fn errors_in_modifiers_say_what_is_wrong_and_what_to_write() {
    let modifiers = "the modifiers are +hedge, +tied, +autosit, ";
    let leave_out = "leave one of them out";
    for (text, message, help) in [
        ("pid+hegde", "unknown modifier `+hegde`", "did you mean `+hedge`?"),
        ("pid+HEDGE", "unknown modifier `+HEDGE`", "did you mean `+hedge`?"),
        ("pid+", "the modifier after `+` is missing", modifiers),
        ("pid++hedge", "the modifier after `+` is missing", modifiers),
        (
            "hedge",
            "`hedge` is a modifier, not a policy",
            "write it after a policy, as in `pid+hedge`",
        ),
        ("hedge:95", "`hedge` is a modifier, not a policy", "write it after a policy"),
        ("+hedge", "the policy before `+hedge` is missing", "write for example `pid+hedge`"),
        (
            "pid+hedge:49",
            "the value `49` for `quantile` of +hedge is too small",
            "expected a percentage from 50% to",
        ),
        ("pid+hedge:95:0", "the value `0` for `budget` of +hedge is too small", "expected a per"),
        (
            "pid+hedge:95:5:5",
            "unexpected value `5` after +hedge",
            "the syntax is +hedge[:quantile[:",
        ),
        ("pid+tied:1h", "bad value `1h` for `after` of +tied", "expected a time from 0s to 10s"),
        ("pid+hedge+tied", "`+hedge` and `+tied` contradict each other", leave_out),
        ("pid+hedge+hedge", "`+hedge` is given twice", "remove one of them"),
        ("pid+hedge+hedge:90", "`+hedge` and `+hedge:90%` are the same modifier", "remove one"),
        ("pid+autosit+fail-slow", "`+autosit` and `+fail-slow` contradict", leave_out),
        (
            "pid+prefer-member:1+prefer-member:2",
            "`+prefer-member:1` and `+prefer-member:2` are the same modifier",
            "remove one of them",
        ),
        (
            "pid+prefer-member:1+write-mostly:1",
            "`+prefer-member:1` and `+write-mostly:1` contradict",
            leave_out,
        ),
        (
            "pid+write-mostly:1+write-mostly:1",
            "`+write-mostly:1` is given twice",
            "remove one of them",
        ),
        ("read-all-first+hedge", "`crucible/read-all-first` and `+hedge` contradict", leave_out),
        ("all+hedge+tied", "`+hedge` and `+tied` contradict", leave_out),
    ] {
        let (found_message, found_help) = refusal(text);
        assert!(found_message.starts_with(message), "{text}: {found_message}");
        assert!(found_help.starts_with(help), "{text}: {found_help}");
    }
    let absent =
        |text: &str| Spec::parse(text).unwrap().build(&[1, 3]).map(|_| ()).unwrap_err().message;
    let message = |of: &str| format!("{of}: the array has no member with devid 2");
    assert_eq!(absent("pid+write-mostly:2"), message("write-mostly"));
    assert_eq!(absent("pid+write-mostly:1+prefer-member:2"), message("prefer-member"));
    assert_eq!(absent("devid:2"), message("btrfs/devid"));
    assert_eq!(absent("md/raid1:2"), message("md/raid1"));
    // The default of an omitted devid is the array's first.
    let message = "`+prefer-member:1` and `+write-mostly:1` contradict each other";
    assert_eq!(absent("pid+prefer-member+write-mostly:1"), message);
    assert_eq!(absent("pid+write-mostly+prefer-member:1"), message);
    assert!(Spec::parse("pid+prefer-member+write-mostly:1").unwrap().build(&[3, 1]).is_ok());
}

#[test]
fn modifiers_apply_to_every_policy_of_a_list_that_they_do_not_contradict() {
    let names = |text: &str| -> Vec<String> {
        parse_list(text).unwrap().iter().map(Spec::to_string).collect()
    };
    assert_eq!(names("all+hedge").len(), all().count() - 1, "all but read-all-first");
    assert!(names("btrfs/*+autosit").iter().all(|name| name.ends_with("+autosit")));
    assert_eq!(names("pid+tied,btrfs/pid+tied,pid"), ["btrfs/pid+tied", "btrfs/pid"]);
}

#[test]
fn drbd_names_of_stripe_sizes_are_accepted() {
    let canonical = |text: &str| Spec::parse(text).unwrap().to_string();
    assert_eq!(canonical("drbd/32K-striping"), "drbd/striping:32K");
    assert_eq!(canonical("1M-striping+hedge"), "drbd/striping:1M+hedge");
    let error = Spec::parse("drbd/2M-striping").unwrap_err().to_string();
    assert!(error.contains("from 32K to 1M"), "{error}");
    let error = Spec::parse("drbd/big-striping").unwrap_err().to_string();
    assert!(error.starts_with("unknown policy `drbd/big-striping`"), "{error}");
}

#[test]
fn complexity_goes_by_basis_then_modifiers_then_parameters() {
    let complexity = |text: &str| Spec::parse(text).unwrap().complexity();
    let rising = [
        "mirrorball/first", "btrfs/devid:2", "mirrorball/first+hedge", "gmirror/round-robin",
        "btrfs/round-robin", "dm/queue-length", "zfs/mirror", "zfs/mirror+hedge",
        "mirrorball/auto",
    ];
    assert!(rising.map(complexity).is_sorted_by(|left, right| left < right));
}

#[test]
fn a_value_that_is_rounded_up_has_a_note() {
    let list = "btrfs/round-robin:5K+hedge, round-robin:4,round-robin:8K,pid,drbd/40K-striping,x:5";
    assert_eq!(
        rounding_notes(list),
        [
            "`btrfs/round-robin:5K` runs as `btrfs/round-robin:8K`: `bytes` is rounded up to a \
             multiple of 4K",
            "`round-robin:4` runs as `btrfs/round-robin:4K`: `bytes` is rounded up to a multiple \
             of 4K",
            "`drbd/40K-striping` runs as `drbd/striping:64K`: `bytes` is rounded up to a multiple \
             of 32K",
        ]
    );
}

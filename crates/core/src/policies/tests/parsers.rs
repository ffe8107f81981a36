//! Tests of the parser of policy strings.

use crate::policies::{Spec, all, parse_list};
use proptest::prelude::*;

/// What Linux 6.15 accepts in `/sys/fs/btrfs/UUID/read_policy` means the same here.
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
fn specs_are_read_and_written() {
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

#[test]
fn refusals_say_what_to_write() {
    for (text, message) in [
        ("latecny-rr", "unknown policy `latecny-rr`; did you mean `latency-rr`?"),
        ("brtfs/pid", "unknown policy `brtfs/pid`; did you mean `btrfs/pid`?"),
        ("Pid", "unknown policy `Pid`; did you mean `pid`?"),
        ("gmiror/*", "unknown policy family `gmiror/*`; did you mean `gmirror/*`?"),
        (
            "round-robin:x",
            "bad value `x` for `bytes` of btrfs/round-robin: expected a size \
             (such as 64K) of at least 1",
        ),
        ("devid:0", "bad value `0` for `id` of btrfs/devid: expected a devid of at least 1"),
        (
            "kakra/latency:twice",
            "bad value `twice` for `probe` of kakra/latency: expected one of `window`, `once`",
        ),
        ("pid:7", "`7` is too much for btrfs/pid: write btrfs/pid"),
        (
            "latency-rr:1M:once:2",
            "`2` is too much for kakra/latency-rr: write kakra/latency-rr[:bytes[:probe]]",
        ),
        ("pid,,first", "a policy is missing here; `all` means every policy"),
        ("", "a policy is missing here; `all` means every policy"),
    ] {
        assert_eq!(parse_list(text).unwrap_err().to_string(), message, "{text}");
    }
    let far = parse_list("zebra").unwrap_err().to_string();
    assert!(
        far.contains("mirrorball/*, btrfs/*, ") && far.contains("`mirrorball policies`"),
        "{far}"
    );
    let Err(error) = Spec::parse("devid:7").unwrap().build(&[1, 2]) else { panic!("no devid 7") };
    assert_eq!(error.to_string(), "btrfs/devid: the array has no member with devid 7; it has 1, 2");
}

#[test]
fn lists_name_policies_families_and_all() {
    let names = |text: &str| -> Vec<String> {
        parse_list(text).unwrap().iter().map(Spec::to_string).collect()
    };
    let all: Vec<&str> = all().map(|info| info.name).collect();
    assert_eq!(names("all"), all);
    assert_eq!(
        names("btrfs/*, queue"),
        [
            "btrfs/pid",
            "btrfs/round-robin",
            "btrfs/rotation",
            "btrfs/devid",
            "btrfs/latency",
            "btrfs/titovets",
            "btrfs/inflight",
            "btrfs/rostecki",
            "kakra/queue"
        ]
    );
    assert_eq!(names("pid,btrfs/pid,round-robin,round-robin:64K").len(), 3, "the same counts once");
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
fn modifiers_are_refused_with_what_is_wrong() {
    for (text, message) in [
        ("pid+hegde", "unknown modifier `+hegde`; did you mean `+hedge`?"),
        ("pid+", "a modifier is missing behind `+`; there are +hedge, +tied, +autosit, "),
        ("pid++hedge", "a modifier is missing behind `+`; there are +hedge, +tied, +autosit, "),
        ("hedge", "`hedge` is a modifier, not a policy: write it behind one, as in `pid+hedge`"),
        ("hedge:95", "`hedge` is a modifier, not a policy"),
        ("+hedge", "a policy is missing here"),
        (
            "pid+hedge:49",
            "bad value `49` for `quantile` of +hedge: expected a percentage from 50% to",
        ),
        ("pid+hedge:95:0", "bad value `0` for `budget` of +hedge"),
        ("pid+hedge:95:5:5", "`5` is too much for +hedge: write +hedge[:quantile[:budget]]"),
        ("pid+tied:1h", "bad value `1h` for `after` of +tied: expected a time from 0s to 10s"),
        ("pid+hedge+tied", "`+hedge` and `+tied` contradict each other: leave one of them out"),
        ("pid+hedge+hedge:90", "`+hedge` and `+hedge:90%` contradict each other"),
        ("pid+autosit+fail-slow", "`+autosit` and `+fail-slow` contradict"),
        ("pid+prefer-member:1+prefer-member:2", "`+prefer-member:1` and `+prefer-member:2` contra"),
        ("pid+prefer-member:1+write-mostly:1", "`+prefer-member:1` and `+write-mostly:1` contradi"),
        ("pid+write-mostly:1+write-mostly:1", "`+write-mostly:1` and `+write-mostly:1` contradict"),
        ("read-all-first+hedge", "`crucible/read-all-first` and `+hedge` contradict each other"),
        ("all+hedge+tied", "`+hedge` and `+tied` contradict"),
    ] {
        let error = parse_list(text).unwrap_err().to_string();
        assert!(error.starts_with(message), "{text}: {error}");
    }
    let absent =
        |text: &str| Spec::parse(text).unwrap().build(&[1, 3]).map(|_| ()).unwrap_err().to_string();
    let message = |of: &str| format!("{of}: the array has no member with devid 2; it has 1, 3");
    assert_eq!(absent("pid+write-mostly:2"), message("write-mostly"));
    assert_eq!(absent("pid+write-mostly:1+prefer-member:2"), message("prefer-member"));
    assert_eq!(absent("devid:2"), message("btrfs/devid"));
    // A devid that is left out is the array's first.
    let message = "`+prefer-member:1` and `+write-mostly:1` contradict each other: leave one of \
                   them out";
    assert_eq!(absent("pid+prefer-member+write-mostly:1"), message);
    assert_eq!(absent("pid+write-mostly+prefer-member:1"), message);
    assert!(Spec::parse("pid+prefer-member+write-mostly:1").unwrap().build(&[3, 1]).is_ok());
}

#[test]
fn modifiers_go_around_every_policy_of_a_list_that_they_can_go_around() {
    let names = |text: &str| -> Vec<String> {
        parse_list(text).unwrap().iter().map(Spec::to_string).collect()
    };
    assert_eq!(names("all+hedge").len(), all().count() - 1, "all but read-all-first");
    assert!(names("btrfs/*+autosit").iter().all(|name| name.ends_with("+autosit")));
    assert_eq!(names("pid+tied,btrfs/pid+tied,pid"), ["btrfs/pid+tied", "btrfs/pid"]);
}

#[test]
fn drbds_own_names_of_its_stripes_are_understood() {
    let canonical = |text: &str| Spec::parse(text).unwrap().to_string();
    assert_eq!(canonical("drbd/32K-striping"), "drbd/striping:32K");
    assert_eq!(canonical("1M-striping+hedge"), "drbd/striping:1M+hedge");
    let error = Spec::parse("drbd/2M-striping").unwrap_err().to_string();
    assert!(error.contains("from 32K to 1M"), "{error}");
    let error = Spec::parse("drbd/big-striping").unwrap_err().to_string();
    assert!(error.starts_with("unknown policy `drbd/big-striping`"), "{error}");
}

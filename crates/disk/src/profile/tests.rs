//! Profiles as files: what is read, what is overridden, what is refused and with which words.

use super::*;

const SMALL: &str = r#"
name = "small"
summary = "a disk for tests"
kind = "hdd"
capacity = "10GB"

[parameters]
rpm = 6000
surfaces = 2
zones = 3
outer_rate = "100MB/s"
inner_rate = "60MB/s"
seek_track = "1ms"
seek_average = "9ms"
head_switch = "1ms"
write_settle = "0.5ms"
command_overhead = "100us"
interface_rate = "300MB/s"
queue_depth = 8
age_limit = "1s"
segments = 4
segment_size = "1MiB"
read_ahead = "256KiB"
write_cache = 0
write_window = 0
idle_delay = "5ms"
flush_overhead = "0ms"
queued_flush = false

[[expect]]
what = "randread-qd1/iops"
value = 70.0
unit = "IOPS"
source = "a test"

[[distribution]]
what = "randread-qd1"
unit = "ms"
source = "a test"
quantiles = [[0.5, 14.0], [0.99, 25.0]]
"#;

#[test]
fn every_builtin_is_read_under_its_own_name() {
    let names: Vec<&str> = ModelProfile::builtin_names().collect();
    for (profile, name) in ModelProfile::builtins().zip(&names) {
        assert_eq!(profile.name, *name);
        assert_eq!(profile.rotational, name.starts_with("hdd"));
        assert!(!profile.summary.is_empty() && profile.capacity_bytes > 0);
        for expected in &profile.expectations {
            assert!(!expected.source.is_empty(), "{name} names its sources");
        }
    }
    let hdds = ["hdd-15k", "hdd-7k2-ent", "hdd-7k2-desktop", "hdd-5k4"];
    assert!(hdds.iter().all(|name| names.contains(name)));
}

#[test]
fn a_profile_is_read() {
    let profile = ModelProfile::parse(SMALL, "small.toml").unwrap();
    assert_eq!((profile.kind, profile.rotational), ("hdd", true));
    assert_eq!((profile.capacity_bytes, profile.optimal_io_bytes), (10_000_000_000, 0));
    let expected = &profile.expectations[0];
    assert_eq!((expected.workload.name, expected.statistic.name), ("randread-qd1", "iops"));
    assert_eq!((expected.value, expected.tolerance), (70.0, 0.1));
    let quantiles = &profile.distributions[0].quantiles;
    assert!((quantiles[1].1 - 0.025).abs() < 1e-12, "in seconds: {quantiles:?}");
    let shown =
        format!("{SMALL}\n").replace("kind = \"hdd\"", "kind = \"hdd\"\nrotational = false");
    assert!(!ModelProfile::parse(&shown, "small.toml").unwrap().rotational);
}

/// Change of the profile, where the message has to point, and what it has to say.
const MISTAKES: [(&str, &str, usize, &str); 17] = [
    ("rpm = 6000", "rmp = 6000", 8, "unknown key `rmp`\n  help: did you mean `rpm`?"),
    ("rpm = 6000", "", 7, "the key `rpm` is missing"),
    ("rpm = 6000", "rpm = \"fast\"", 8, "invalid type: string \"fast\", expected a whole number"),
    ("rpm = 6000", "rpm = 0", 8, "`rpm` must lie between 60 and 100000"),
    ("\"1ms\"", "\"1\"", 13, "has no unit: write for example 1s"),
    ("\"1ms\"", "1", 13, "expected a duration such as \"1.4ms\""),
    ("\"100MB/s\"", "\"100MB\"", 11, "`100MB` is not a rate such as 190MB/s"),
    ("\"60MB/s\"", "\"160MB/s\"", 11, "`outer_rate` is below `inner_rate`"),
    ("\"9ms\"", "\"0.9ms\"", 14, "`seek_average` is below `seek_track`"),
    ("write_cache = 0", "write_cache = \"1MiB\"", 25, "`write_window` is 0"),
    ("write_cache = 0", "write_cache = -1", 24, "invalid value: integer `-1`"),
    ("\"hdd\"", "\"hd\"", 4, "there is no kind of model `hd`\n  help: did you mean `hdd`?"),
    ("\"10GB\"", "\"10G", 5, ""),
    ("qd1/iops", "qd1/iop", 30, "there is no statistic `iop`\n  help: did you mean `iops`?"),
    ("randread-qd1/iops", "randred-qd1/iops", 30, "did you mean `randread-qd1`?"),
    ("\"IOPS\"", "\"ms\"", 30, "`randread-qd1/iops` is not measured in ms"),
    ("[0.5, 14.0]", "[0.5, 44.0]", 36, "latencies not falling"),
];

#[test]
fn a_mistake_is_reported_with_its_line_and_help() {
    for (from, to, line, message) in MISTAKES {
        assert!(SMALL.contains(from), "{from}");
        let error = ModelProfile::parse(&SMALL.replacen(from, to, 1), "small.toml").unwrap_err();
        let shown = error.to_string();
        assert!(shown.starts_with(&format!("small.toml:{line}:")), "{to}: {shown}");
        assert!(shown.contains(message), "{to}: {shown}");
    }
}

#[test]
fn a_mistake_is_reported_with_its_column() {
    for (from, to, column) in [
        ("rpm = 6000", "  rmp = 6000", 3),
        ("rpm = 6000", "rpm = \"fast\"", 7),
        ("rpm = 6000", "  rpm = 0", 3),
        ("\"hdd\"", "\"hd\"", 8),
        ("qd1/iops", "qd1/iop", 1),
    ] {
        let error = ModelProfile::parse(&SMALL.replacen(from, to, 1), "small.toml").unwrap_err();
        assert_eq!(error.column, Some(column), "{to}: {error}");
    }
}

#[test]
fn a_name_with_control_characters_is_refused() {
    let text = SMALL.replacen("\"small\"", r#""sm\u001ball""#, 1);
    let error = ModelProfile::parse(&text, "small.toml").unwrap_err().to_string();
    assert_eq!(error, "small.toml: `name` contains control characters");
}

#[test]
fn a_profile_without_a_kind_is_answered_with_the_kinds() {
    let error = ModelProfile::parse("", "e.toml").unwrap_err().to_string();
    assert!(error.starts_with("e.toml: the key `kind` is missing\n  help: add a line"), "{error}");
    assert!(error.contains("of the kinds hdd, ") && error.contains("probe DEVICE"), "{error}");
}

#[test]
fn an_unknown_name_gets_the_nearest() {
    let error = ModelProfile::builtin("hdd-7k2-desktp").unwrap_err().to_string();
    let expected = "there is no built-in model `hdd-7k2-desktp`\n  help: did you mean \
                    `hdd-7k2-desktop`?";
    assert_eq!(error, expected);
    let kin = ModelProfile::builtin("hdd").unwrap_err().to_string();
    assert!(kin.contains("help: the models hdd-* are hdd-15k, "), "{kin}");
    let error = ModelProfile::builtin("zzz").unwrap_err().to_string();
    assert!(error.contains("the built-in models are hdd-15k, "), "{error}");
}

fn overrides(text: &str) -> Result<ModelProfile, Diagnostic> {
    let profile = ModelProfile::builtin("hdd-5k4").unwrap();
    profile.with_overrides(text.parse().unwrap())
}

#[test]
fn overrides_change_the_parameters_and_drop_what_was_expected() {
    let profile = overrides("rpm = 4200\nseek_average = \"15ms\"").unwrap();
    assert_eq!(profile.parameter_table()["rpm"].as_integer(), Some(4200));
    assert_eq!(profile.parameter_table()["surfaces"].as_integer(), Some(4));
    assert!(profile.expectations.is_empty());
    let slower = crate::characterise::observe(
        &profile,
        crate::workload::ModelWorkload::named("randread-qd1").unwrap(),
        crate::figure::MeasuredAt::Device,
        1,
    );
    // 15 ms of seek, 7.14 ms half a revolution at 4200 rpm, 0.3 ms overhead and transfer.
    assert!((slower.latencies.mean().as_secs_f64() / 0.02244 - 1.0).abs() < 0.02, "{slower:?}");
    assert_eq!(overrides("").unwrap().expectations.len(), 1, "nothing overridden");
}

#[test]
fn a_wrong_override_is_refused() {
    let unknown = overrides("rmp = 4200").unwrap_err().to_string();
    assert_eq!(unknown, "set for model `hdd-5k4`: unknown key `rmp`\n  help: did you mean `rpm`?");
    for (text, message) in [
        ("rpm = 1", "`rpm` must lie between"),
        ("rpm = \"4200\"", "`rpm` must be a whole number, not `\"4200\"`"),
        ("seek_points = [[1.0, \"20ms\"]]", "either `seek_average` or `seek_points`"),
        ("read_ahead = \"10MiB\"", "does not fit into a segment"),
        ("recovery_probability = 1.5", "between 0 and 1"),
    ] {
        let error = overrides(text).unwrap_err().to_string();
        assert!(error.contains(message), "{text}: {error}");
    }
}

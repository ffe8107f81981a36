//! The canonical text of an array: what decides the results of a simulation, and nothing else.
//!
//! Fingerprints hash this text. It is TOML with every value resolved: one table for each member,
//! sizes in bytes, times in nanoseconds, keys in alphabetical order, defaults written out. So two
//! files that differ in comments, in layout, in the name of the array or in where they are stored
//! have the same canonical text, and a field that is added to an array without a decision whether
//! it belongs here does not compile.
//!
//! Model parameters are copied as their profile writes them: `1.4ms` and `1400us` differ, which
//! costs a repeated simulation and never a stale result. Published figures are left out, because
//! they describe real disks and do not change a model.
//!
//! Non-goal: an array file. The text cannot be read back, because an array file names its models
//! and the canonical text contains them.

use super::spec::{
    ArraySpec, DevicePart, Host, HostOverhead, MemberSource, MemberSpec, Partition, Used,
};
use crate::cache_tier::CacheSpec;
use crate::controller::ControllerSpec;
use crate::fault::{Fault, FaultWindow};
use crate::link::LinkParameters;
use crate::profile::ModelProfile;
use mirrorball_core::geometry::ArrayLayout;
use mirrorball_core::member::MemberState;
use mirrorball_core::units::Nanos;
use mirrorball_core::volume::RmwLevel;
use toml::{Table, Value};

impl ArraySpec {
    /// The canonical text. Equal texts give equal simulations.
    pub fn canonical_text(&self) -> String {
        let ArraySpec {
            name: _,
            file_name: _,
            profile,
            layout,
            stripe_width_max,
            rmw_level,
            used,
            host,
            cache,
            controller,
            source: _,
            links,
            members,
            spares: _,
        } = self;
        let mut models: Vec<Table> = Vec::new();
        let members =
            members.iter().map(|member| Value::Table(canonical_member(member, &mut models)));
        let members: Vec<Value> = members.collect();
        let mut table = Table::new();
        put(&mut table, "profile", text(profile.name()));
        // The default is left out: the text of an array of btrfs is as it was before layouts.
        if *layout != ArrayLayout::BTRFS {
            put(&mut table, "layout", text(&layout.to_string()));
            put_if_some(&mut table, "chunk_bytes", layout.chunk_bytes().map(whole));
        }
        put_if_some(
            &mut table,
            "stripe_width_max",
            stripe_width_max.map(|width| whole(width as u64)),
        );
        match rmw_level {
            RmwLevel::Never => put(&mut table, "rmw_level", whole(0)),
            RmwLevel::FewerReads => {}
            RmwLevel::NoMoreReads => put(&mut table, "rmw_level", whole(2)),
        }
        match used {
            Used::Bytes(bytes) => put(&mut table, "used_bytes", whole(*bytes)),
            Used::Share(share) => put(&mut table, "used_share", Value::Float(*share)),
        }
        put(&mut table, "host", Value::Table(canonical_host(host)));
        // The models of members come first, so that they have the same numbers without a cache.
        let cache = cache.as_ref().map(|it| Value::Table(canonical_cache(it, &mut models)));
        put_if_some(&mut table, "cache", cache);
        let controller = controller.as_ref().map(|it| Value::Table(canonical_controller(it)));
        put_if_some(&mut table, "controller", controller);
        let links = links.iter().map(|link| Value::Table(canonical_link(link))).collect();
        put(&mut table, "links", Value::Array(links));
        put(&mut table, "members", Value::Array(members));
        put(&mut table, "models", Value::Array(models.into_iter().map(Value::Table).collect()));
        table.to_string()
    }
}

fn canonical_host(host: &Host) -> Table {
    let Host { overhead: HostOverhead { mean, jitter }, read_ahead_kb, cpus } = host;
    let mut table = Table::new();
    put(&mut table, "overhead_ns", nanos(*mean));
    put(&mut table, "overhead_jitter", Value::Float(*jitter));
    put(&mut table, "read_ahead_kb", whole(*read_ahead_kb));
    put(&mut table, "cpus", whole(u64::from(*cpus)));
    table
}

fn canonical_controller(controller: &ControllerSpec) -> Table {
    let ControllerSpec { cache_bytes, high_mark, low_mark, depth } = controller;
    let mut table = Table::new();
    put(&mut table, "cache_bytes", whole(*cache_bytes));
    put(&mut table, "high_mark", Value::Float(*high_mark));
    put(&mut table, "low_mark", Value::Float(*low_mark));
    put(&mut table, "depth", whole(u64::from(*depth)));
    table
}

/// The name of a link belongs to it: its random numbers are drawn from the seed and the name.
fn canonical_link(link: &LinkParameters) -> Table {
    let LinkParameters { name, read_rate, write_rate, latency, jitter } = link;
    let mut table = Table::new();
    put(&mut table, "name", text(name));
    put_if_some(&mut table, "read_bytes_per_s", read_rate.map(whole));
    put_if_some(&mut table, "write_bytes_per_s", write_rate.map(whole));
    put(&mut table, "latency_ns", nanos(*latency));
    put(&mut table, "jitter_ns", nanos(*jitter));
    table
}

/// A member. Its model is a number in `models`, to which a model that is not in it is added.
fn canonical_member(member: &MemberSpec, models: &mut Vec<Table>) -> Table {
    let MemberSpec {
        devid,
        source,
        link,
        faults,
        cache,
        priority,
        write_mostly,
        rotational,
        optimal_io_bytes,
        state,
        range: DevicePart { begin_bytes, size_bytes },
        device: _,
        kernel_name: _,
        confidence: _,
        partition,
        line: _,
    } = member;
    let mut table = Table::new();
    put(&mut table, "devid", whole(*devid));
    match source {
        MemberSource::Model(profile) => {
            put(&mut table, "model", model_number(profile, models));
        }
        MemberSource::Path(path) => put(&mut table, "path", text(&path.to_string_lossy())),
        MemberSource::Uri(uri) => put(&mut table, "uri", text(uri)),
    }
    put_if_some(&mut table, "link", link.map(|link| whole(link as u64)));
    let faults = faults.iter().map(|fault| Value::Table(canonical_fault(fault))).collect();
    put(&mut table, "faults", Value::Array(faults));
    put_if_some(
        &mut table,
        "cache",
        cache.as_ref().map(|cache| Value::Table(canonical_cache(cache, models))),
    );
    put(&mut table, "priority", whole(u64::from(*priority)));
    put(&mut table, "write_mostly", Value::Boolean(*write_mostly));
    put_if_some(&mut table, "rotational", rotational.map(Value::Boolean));
    put_if_some(&mut table, "optimal_io_bytes", optimal_io_bytes.map(whole));
    match state {
        MemberState::InSync => {}
        MemberState::Rebuilding { recovered_bytes } => {
            put(&mut table, "recovered_bytes", whole(*recovered_bytes));
        }
        MemberState::Failed => put(&mut table, "failed", Value::Boolean(true)),
    }
    put(&mut table, "begin_bytes", whole(*begin_bytes));
    put_if_some(&mut table, "size_bytes", size_bytes.map(whole));
    // Left out for a whole disk, so that arrays from before there were parts keep their text.
    if let Some(Partition { begin_bytes, length_bytes }) = partition {
        put(&mut table, "partition_begin_bytes", whole(*begin_bytes));
        put(&mut table, "partition_length_bytes", whole(*length_bytes));
    }
    table
}

/// The number of a model in `models`, to which it is added if it is not in it.
fn model_number(profile: &ModelProfile, models: &mut Vec<Table>) -> Value {
    let model = profile.canonical_table();
    let known = models.iter().position(|other| *other == model);
    let index = known.unwrap_or_else(|| {
        models.push(model);
        models.len() - 1
    });
    whole(index as u64)
}

fn canonical_cache(cache: &CacheSpec, models: &mut Vec<Table>) -> Table {
    let CacheSpec { device, mode, sequential_cutoff_bytes, promote_after, warm_share } = cache;
    let mut table = Table::new();
    put(&mut table, "model", model_number(device, models));
    put(&mut table, "mode", text(mode.name()));
    put(&mut table, "sequential_cutoff_bytes", whole(*sequential_cutoff_bytes));
    put(&mut table, "promote_after", whole(u64::from(*promote_after)));
    put(&mut table, "warm_share", Value::Float(*warm_share));
    table
}

fn canonical_fault(fault: &Fault) -> Table {
    let mut table = Table::new();
    match fault {
        Fault::Slow { factor_milli, during } => {
            put(&mut table, "slow_milli", whole(*factor_milli));
            put_window(&mut table, during);
        }
        Fault::Stall { at, length } => {
            put(&mut table, "stall_ns", nanos(*length));
            put(&mut table, "at_ns", nanos(*at));
        }
        Fault::Errors { rate, during } => {
            put(&mut table, "error_rate", Value::Float(*rate));
            put_window(&mut table, during);
        }
        Fault::Bad { offset, length } => {
            put(&mut table, "bad_offset", whole(*offset));
            put(&mut table, "bad_length", whole(*length));
        }
        Fault::Dead { during } => {
            put(&mut table, "dead", Value::Boolean(true));
            put_window(&mut table, during);
        }
    }
    table
}

fn put_window(table: &mut Table, window: &FaultWindow) {
    put(table, "from_ns", nanos(window.from));
    put(table, "until_ns", nanos(window.until));
}

fn put(table: &mut Table, key: &str, value: Value) {
    table.insert(key.to_owned(), value);
}

fn put_if_some(table: &mut Table, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        put(table, key, value);
    }
}

fn text(text: &str) -> Value {
    Value::String(text.to_owned())
}

fn nanos(Nanos(nanos): Nanos) -> Value {
    whole(nanos)
}

/// A whole number. TOML's integers end at 2^63; larger ones ("for ever") are written as a string.
fn whole(number: u64) -> Value {
    match i64::try_from(number) {
        Ok(number) => Value::Integer(number),
        Err(_) => Value::String(number.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use crate::array_file::ArrayFile;

    const ARRAY: &str = r#"
        profile = "raid10"
        stripe_width_max = 4
        used = "60%"
        [host]
        overhead = { mean = "15.01us", jitter = "10%" }
        read_ahead_kb = 128
        cpus = 8
        [[link]]
        name = "hba"
        read = "200MB/s"
        write = "190MB/s"
        latency = "10us"
        jitter = "5us"
        [[member]]
        model = "hdd-5k4"
        count = 3
        size = "300GB"
        begin = "512MiB"
        length = "200GiB"
        link = "hba"
        set = { rpm = 4200 }
        cache = { model = "nvme-gen3", size = "480GB", sequential_cutoff = "8MiB", warm = "20%" }
        [[member]]
        model = "delay"
        devid = 9
        rotational = true
        optimal_io = "128K"
        priority = 3
        write_mostly = true
        rebuilding = "500GB"
        fault = [
            { slow = 4.0, from = "10s", until = "20s" },
            { stall = "2s", at = "30s" },
            { error_rate = 0.001, from = "11s" },
            { bad = { offset = "1GiB", length = "64K" } },
            { dead = true, from = "40s" },
        ]
    "#;

    fn canonical(text: &str, file_name: &str) -> String {
        ArrayFile::parse(text, file_name).expect(text).spec.canonical_text()
    }

    #[test]
    fn name_place_and_layout_of_a_file_are_not_part_of_the_canonical_text() {
        let text = canonical(ARRAY, "here/a.toml");
        let other =
            format!("name = \"other\" # a comment\n\n{ARRAY}").replace("15.01us", "15010ns");
        let other = other.replace("128K", "131072");
        assert_eq!(canonical(&other, "there/b.toml"), text);
        assert_eq!(text.matches("rpm = 4200").count(), 1, "equal models are written once: {text}");
    }

    #[test]
    fn every_value_that_decides_results_is_part_of_the_canonical_text() {
        let text = canonical(ARRAY, "a.toml");
        for (from, to) in [
            ("raid10", "raid0"),
            ("stripe_width_max = 4", ""),
            ("60%", "61%"),
            ("60%", "60GB"),
            ("15.01us", "15.02us"),
            ("jitter = \"10%\"", "jitter = \"11%\""),
            ("read_ahead_kb = 128", "read_ahead_kb = 129"),
            ("cpus = 8", "cpus = 9"),
            ("hba", "bus"),
            ("200MB/s", "201MB/s"),
            ("190MB/s", "191MB/s"),
            ("10us", "11us"),
            ("jitter = \"5us\"", ""),
            ("hdd-5k4", "hdd-15k"),
            ("count = 3", "count = 4"),
            ("300GB", "301GB"),
            ("begin = \"512MiB\"", ""),
            ("length = \"200GiB\"", ""),
            ("link = \"hba\"", ""),
            ("4200", "4300"),
            ("nvme-gen3", "nvme-gen4"),
            ("480GB", "481GB"),
            ("8MiB", "9MiB"),
            ("20%", "21%"),
            ("warm", "mode = \"writearound\", warm"),
            ("warm", "promote_after = 2, warm"),
            ("devid = 9", "devid = 8"),
            ("rotational = true", ""),
            ("128K", "129K"),
            ("priority = 3", "priority = 4"),
            ("write_mostly = true", ""),
            ("rebuilding = \"500GB\"", "failed = true"),
            ("500GB", "501GB"),
            ("slow = 4.0", "slow = 4.1"),
            ("from = \"10s\"", "from = \"10.5s\""),
            ("until = \"20s\"", ""),
            ("stall = \"2s\"", "stall = \"2.001s\""),
            ("30s", "31s"),
            ("0.001", "0.0011"),
            ("1GiB", "2GiB"),
            ("64K", "65K"),
            ("40s", "41s"),
        ] {
            let changed = ARRAY.replace(from, to);
            assert_ne!(changed, ARRAY, "{from}");
            assert_ne!(canonical(&changed, "a.toml"), text, "{from} -> {to}");
        }
    }

    #[test]
    fn a_cache_in_front_of_the_array_is_part_of_the_canonical_text() {
        let with = |cache: &str| canonical(&format!("cache = {{ {cache} }}\n{ARRAY}"), "a.toml");
        let texts = [
            canonical(ARRAY, "a.toml"),
            with("model = \"nvme-gen3\""),
            with("model = \"nvme-gen4\""),
            with("model = \"nvme-gen3\", size = \"100GB\""),
            with("model = \"nvme-gen3\", mode = \"writeback\""),
            with("model = \"nvme-gen3\", sequential_cutoff = \"0\""),
            with("model = \"nvme-gen3\", promote_after = 2"),
            with("model = \"nvme-gen3\", warm = \"1%\""),
        ];
        for (index, text) in texts.iter().enumerate() {
            assert!(!texts[..index].contains(text), "{text}");
        }
        assert_eq!(with("model = \"nvme-gen3\", mode = \"writethrough\""), texts[1]);
    }

    #[test]
    fn the_layout_and_its_chunk_are_part_of_the_canonical_text() {
        let members = "[[member]]\nmodel = \"delay\"\ncount = 4\n";
        let texts = [
            "profile = \"raid10\"\n",
            "layout = \"md-raid10-near:2\"\n",
            "layout = \"md-raid10-far:2\"\n",
            "layout = \"md-raid10-far:3\"\n",
            "layout = \"md-raid10-far:2\"\nchunk = \"64K\"\n",
            "layout = \"zfs-mirror:2\"\n",
            "layout = \"md-raid1\"\n",
            "layout = \"lvm-raid1\"\n",
            "layout = \"gmirror\"\n",
            "profile = \"raid1c4\"\n",
        ]
        .map(|layout| canonical(&format!("{layout}{members}"), "a.toml"));
        for (index, text) in texts.iter().enumerate() {
            assert!(!texts[..index].contains(text), "{text}");
        }
        for (written, same) in [
            ("layout = \"btrfs\"\nprofile = \"raid10\"\n", 0),
            ("layout = \"md-raid10-far\"\nprofile = \"raid10\"\nchunk = \"512K\"\n", 2),
        ] {
            assert_eq!(canonical(&format!("{written}{members}"), "a.toml"), texts[same]);
        }
        assert!(!texts[0].contains("layout") && !texts[0].contains("chunk"), "as before layouts");
    }

    #[test]
    fn canonical_text_of_a_small_array() {
        let array =
            "profile = \"single\"\n[[member]]\nmodel = \"delay\"\nset = { service = \"1ms\" }";
        let expected = r#"links = []
profile = "single"
used_bytes = 0

[host]
cpus = 8
overhead_jitter = 0.1
overhead_ns = 15000
read_ahead_kb = 128

[[members]]
begin_bytes = 0
devid = 1
faults = []
model = 0
priority = 0
write_mostly = false

[[models]]
capacity_bytes = 1099511627776
kind = "delay"
optimal_io_bytes = 0
rotational = false

[models.parameters]
servers = 1
service = "1ms"
"#;
        let text = canonical(array, "a.toml");
        assert_eq!(text, expected);
    }
}

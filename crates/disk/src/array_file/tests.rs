//! The arrays that ship, what a file is resolved to, and model files in its folder.

use super::*;
use crate::fault::{Fault, FaultWindow};
use crate::model::DiskIo;
use mirrorball_core::io::Op;
use mirrorball_core::member::{MemberIndex, MemberState};
use mirrorball_core::rng::Rng;
use std::collections::BTreeMap;

fn parse(text: &str) -> ArraySpec {
    ArrayFile::parse(text, "folder/test.toml").unwrap_or_else(|error| panic!("{error}")).spec
}

fn read(path: &Path) -> Result<ArrayFile, Diagnostic> {
    ArrayFile::parse(&std::fs::read_to_string(path).unwrap(), &path.display().to_string())
}

/// Every file in `arrays/` is compiled in, loads, and makes an array that serves a read.
#[test]
fn the_arrays_that_ship_can_be_built() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../arrays");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "toml"));
    assert_eq!(paths.len(), ArrayFile::builtin_names().count());
    for path in paths {
        let file = read(&path).unwrap_or_else(|error| panic!("{error}"));
        let name = path.file_name().unwrap().display().to_string();
        assert_eq!(ArrayFile::builtin(&name).unwrap().text, file.text);
        let spec = file.spec;
        let capacity_bytes = spec.chunk_map().unwrap().capacity_bytes();
        assert!(spec.used_bytes(capacity_bytes) < capacity_bytes);
        let mut model_array = spec.model_array(1).unwrap();
        assert_eq!(model_array.len(), spec.member_configs().unwrap().len());
        let mut ended = Vec::new();
        for member in (0..model_array.len() as u16).map(MemberIndex) {
            let io = DiskIo { tag: 0, op: Op::Read, offset: 1 << 30, length: 4096 };
            model_array.submit(Nanos::ZERO, member, io);
        }
        while let Some(now) = model_array.next_event() {
            model_array.advance(now, &mut ended);
        }
        assert_eq!(ended.len(), model_array.len(), "{name}");
        assert!(ended.iter().all(|(_, completion)| completion.result.is_ok()), "{name}");
    }
}

/// Where jobs run on the default array, chunks rotate over all six members, and each of the two bad
/// ones is next to a better one: what the comments of the file promise.
#[test]
fn the_default_array_uses_all_six_members() {
    assert_eq!(ArrayFile::DEFAULT, "hetero-hdd-raid1");
    let spec = ArrayFile::builtin(ArrayFile::DEFAULT).unwrap().spec;
    let map = spec.chunk_map().unwrap();
    let start = spec.used_bytes(map.capacity_bytes());
    let mut pairs = BTreeMap::new();
    for chunk in map.chunks().filter(|chunk| chunk.volume_offset >= start) {
        let mut devids: Vec<u64> =
            chunk.stripes.iter().map(|stripe| spec.members[stripe.member.get()].devid).collect();
        devids.sort_unstable();
        *pairs.entry(devids).or_insert(0u32) += 1;
    }
    let total: u32 = pairs.values().sum();
    for pair in [[1, 8], [2, 7], [4, 6]] {
        let share = pairs[&pair.to_vec()];
        assert!(share * 3 >= total - 10, "{pairs:?}");
    }
    assert!(total >= 2000, "there is room for jobs: {total} chunks");
}

/// Every key that an array file may have.
const EVERY_KEY: &str = r#"
name = "all of it"
profile = "raid10"
stripe_width_max = 4
used = "10GB"
[host]
overhead = "20us"
read_ahead_kb = 4096
cpus = 2
[[link]]
name = "a"
[[link]]
name = "b"
read = "200MB/s"
write = "190MB/s"
latency = "10us"
jitter = "5us"
[[member]]
model = "hdd-5k4"
count = 2
link = "b"
size = "100GB"
set = { rpm = 4200 }
fault = [
    { slow = 4.5, from = "10s", until = "20s" },
    { stall = "2s", at = "30s" },
    { error_rate = 0.25, from = "1s" },
    { bad = { offset = "1GiB", length = 4096 } },
    { dead = true },
]
[[member]]
model = "delay"
devid = 9
rotational = true
optimal_io = "128K"
priority = 200
write_mostly = true
rebuilding = "500MB"
[[member]]
model = "delay"
failed = true
"#;

#[test]
fn every_key_is_read() {
    let spec = parse(EVERY_KEY);
    assert_eq!((spec.name.as_str(), spec.file_name.as_str()), ("all of it", "folder/test.toml"));
    assert_eq!((spec.profile, spec.stripe_width_max), (Profile::Raid10, Some(4)));
    assert_eq!((spec.used, spec.used_bytes(1 << 40)), (Used::Bytes(10_000_000_000), 9 << 30));
    let overhead = HostOverhead { mean: Nanos::from_micros(20), jitter: 0.1 };
    let host = Host { overhead, read_ahead_kb: 4096, cpus: 2 };
    assert_eq!(spec.host, host);
    let link = LinkParameters {
        name: "b".to_owned(),
        read_rate: Some(200_000_000),
        write_rate: Some(190_000_000),
        latency: Nanos::from_micros(10),
        jitter: Nanos::from_micros(5),
    };
    assert_eq!(spec.links[1], link);
    assert_eq!((spec.links[0].read_rate, spec.links[0].latency), (None, Nanos::ZERO));
    let second = Nanos::from_secs;
    let faults = [
        Fault::Slow {
            factor_milli: 4500,
            during: FaultWindow { from: second(10), until: second(20) },
        },
        Fault::Stall { at: second(30), length: second(2) },
        Fault::Errors { rate: 0.25, during: FaultWindow { from: second(1), until: Nanos::MAX } },
        Fault::Bad { offset: 1 << 30, length: 4096 },
        Fault::Dead { during: FaultWindow::ALWAYS },
    ];
    assert_eq!((spec.members[1].faults.as_slice(), spec.members[1].link), (&faults[..], Some(1)));
    let MemberSource::Model(profile) = &spec.members[0].source else { panic!("a model") };
    assert_eq!(profile.parameter_table()["rpm"].as_integer(), Some(4200));
    let configs = spec.member_configs().unwrap();
    let devids: Vec<u64> = configs.iter().map(|config| config.devid).collect();
    assert_eq!(devids, [1, 2, 9, 10]);
    assert_eq!(configs.iter().map(|c| c.priority).collect::<Vec<_>>(), [0, 1, 200, 9]);
    assert_eq!((configs[1].size_bytes, configs[1].rotational), (100_000_000_000, true));
    let third = &configs[2];
    assert_eq!(
        (third.rotational, third.optimal_io_bytes, third.write_mostly),
        (true, 131_072, true)
    );
    assert_eq!(third.state, MemberState::Rebuilding { recovered_bytes: 500_000_000 });
    let fourth = &configs[3];
    assert_eq!((fourth.rotational, fourth.state), (false, MemberState::Failed));
}

#[test]
fn members_know_how_deep_a_queue_their_model_takes() {
    let text = "profile = \"raid1\"\n[[member]]\nmodel = \"hdd-5k4\"\nset = { queue_depth = 7 }\n\
                [[member]]\nmodel = \"ssd-sata-plp\"\nset = { queue_depth = 31 }\n\
                [[member]]\nmodel = \"delay\"\nset = { servers = 4 }";
    let configs = parse(text).member_configs().unwrap();
    assert_eq!(configs.iter().map(|config| config.queue_depth).collect::<Vec<_>>(), [7, 31, 4]);
}

#[test]
fn what_is_left_out_has_a_default() {
    let spec = parse("profile = \"single\"\n[[member]]\nmodel = \"delay\"");
    assert_eq!((spec.name.as_str(), spec.used, spec.links.len()), ("test", Used::Bytes(0), 0));
    let overhead = HostOverhead { mean: Nanos::from_micros(15), jitter: 0.1 };
    let host = Host { overhead, read_ahead_kb: 128, cpus: 8 };
    assert_eq!(spec.host, host);
    let config = &spec.member_configs().unwrap()[0];
    assert_eq!((config.devid, config.priority, config.state), (1, 0, MemberState::InSync));
}

#[test]
fn a_share_of_the_volume_is_rounded_to_whole_chunks() {
    let text = "profile = \"single\"\nused = \"60%\"\n[[member]]\nmodel = \"delay\"";
    assert_eq!(parse(text).used_bytes(10 << 30), 6 << 30);
    assert_eq!(parse(text).used_bytes((10 << 30) - 1), 5 << 30);
}

/// A member draws its chance from the seed and its devid: others may come and go, and two of a kind
/// differ.
#[test]
fn a_member_behaves_the_same_among_others() {
    let waits = |text: &str, member: u16, seed: u64| -> Vec<u64> {
        let mut model_array = parse(text).model_array(seed).unwrap();
        let mut ended = Vec::new();
        let mut now = Nanos::ZERO;
        for tag in 0..50 {
            let io = DiskIo { tag, op: Op::Read, offset: (tag * 977) << 20, length: 4096 };
            model_array.submit(now, MemberIndex(member), io);
            while let Some(event) = model_array.next_event() {
                model_array.advance(event, &mut ended);
            }
            now = ended.last().unwrap().1.at;
        }
        ended.iter().map(|(_, completion)| completion.at.0).collect()
    };
    let alone = "profile = \"single\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\ndevid = 3";
    let among = "profile = \"single\"\n[[member]]\nmodel = \"hdd-5k4\"\ncount = 2\n\
                 [[member]]\nmodel = \"hdd-7k2-ent\"";
    assert_eq!(waits(alone, 0, 5), waits(among, 2, 5));
    assert_ne!(waits(alone, 0, 5), waits(alone, 0, 6));
    assert_ne!(waits(among, 0, 5), waits(among, 1, 5), "twins do not share their chance");
}

#[test]
fn the_jitter_of_the_host_overhead_is_ten_percent_unless_given() {
    let overhead = |written: &str| {
        let host = format!("[host]\n{written}\n");
        parse(&format!("profile = \"single\"\n{host}[[member]]\nmodel = \"delay\"")).host.overhead
    };
    let (mean, other) = (Nanos::from_micros(20), Nanos::from_micros(15));
    assert_eq!(overhead("overhead = \"20us\""), HostOverhead { mean, jitter: 0.1 });
    assert_eq!(overhead("overhead = { mean = \"20us\" }"), HostOverhead { mean, jitter: 0.1 });
    assert_eq!(overhead(""), HostOverhead { mean: other, jitter: 0.1 });
    let jitter =
        |percent| overhead(&format!("overhead = {{ mean = \"20us\", jitter = \"{percent}\" }}"));
    assert_eq!(jitter("0%"), HostOverhead { mean, jitter: 0.0 });
    assert_eq!(jitter("12.5 %"), HostOverhead { mean, jitter: 0.125 });
    assert_eq!(jitter("100%"), HostOverhead { mean, jitter: 1.0 });
}

#[test]
fn an_array_may_have_up_to_4_pib_and_384_members() {
    let capacity = |size: &str, count: u32| {
        let members =
            format!("[[member]]\nmodel = \"delay\"\nsize = \"{size}\"\ncount = {count}\n");
        let text = format!("profile = \"raid0\"\n{members}");
        ArrayFile::parse(&text, "a.toml").map(|file| file.spec.members.len()).map_err(|e| e.message)
    };
    assert_eq!(capacity("3PiB", 1), Ok(1));
    assert_eq!(capacity("4PiB", 1), Ok(1));
    assert_eq!(capacity("2PiB", 2), Ok(2));
    assert!(capacity("4.1PiB", 1).unwrap_err().contains("at most 4 PiB"));
    assert_eq!(capacity("10GiB", 384), Ok(384));
    assert!(capacity("10GiB", 385).unwrap_err().contains("the limit is 384"));
}

#[test]
fn real_members_are_kept_and_not_simulated() {
    let text = "profile = \"raid1\"\n[[member]]\nmodel = \"delay\"\n[[member]]\n\
                path = \"/dev/sdc\"\n[[member]]\nuri = \"nbd://replica/export\"";
    let spec = parse(text);
    assert!(matches!(&spec.members[1].source, MemberSource::Path(path) if path.ends_with("sdc")));
    assert!(matches!(&spec.members[2].source, MemberSource::Uri(uri) if uri.starts_with("nbd")));
    let message = "folder/test.toml:4: cannot simulate the member `/dev/sdc`: its `path` names a \
                   real file or device, not a disk model\n  help: write `model = \"hdd-5k4\"` \
                   instead of `path`, or use the array with `mirrorball serve`";
    assert_eq!(spec.member_configs().unwrap_err().to_string(), message);
    assert_eq!(spec.chunk_map().unwrap_err().to_string(), message);
    assert_eq!(spec.model_array(1).err().unwrap().to_string(), message);
}

#[test]
fn a_real_member_may_be_a_part_of_a_device() {
    let read = |more: &str| {
        let text = format!("profile = \"single\"\n[[member]]\npath = \"/dev/sdc\"\n{more}");
        ArrayFile::parse(&text, "test.toml").map(|file| file.spec.members[0].range)
    };
    let part = DevicePart { begin_bytes: 1 << 30, size_bytes: Some(1 << 20) };
    assert_eq!(read("begin = \"1GiB\"\nsize = \"1M\"\n").unwrap(), part);
    assert_eq!(read("").unwrap(), DevicePart::default());
    let unaligned = read("begin = \"1000\"\n").unwrap_err().to_string();
    assert!(unaligned.contains("test.toml:4:9: `begin` is not a multiple of 4096"), "{unaligned}");
    let exported = "profile = \"single\"\n[[member]]\nuri = \"nbd://a\"\nbegin = \"1M\"\n";
    let error = ArrayFile::parse(exported, "test.toml").unwrap_err().to_string();
    assert!(error.contains("`begin` is for a member with a `path` or a `model`"), "{error}");
}

#[test]
fn a_modelled_member_may_be_a_part_of_a_disk() {
    let read = |more: &str| {
        let text = format!("profile = \"single\"\n[[member]]\nmodel = \"hdd-5k4\"\n{more}");
        ArrayFile::parse(&text, "test.toml").map(|file| file.spec)
    };
    let part = |more: &str| read(more).unwrap().members[0].partition;
    let (begin_bytes, length_bytes) = (10 << 30, 20 << 30);
    let expected = Some(Partition { begin_bytes, length_bytes });
    assert_eq!(part("begin = \"10GiB\"\nlength = \"20GiB\""), expected);
    assert_eq!(part("length = \"20GiB\"").unwrap().begin_bytes, 0);
    let rest = part("size = \"100GiB\"\nbegin = \"10GiB\"").unwrap();
    assert_eq!((rest.begin_bytes, rest.length_bytes), (10 << 30, 90 << 30), "the rest of the disk");
    assert_eq!(part("begin = \"0\""), None, "the whole disk");
    assert_eq!(part("size = \"100GiB\"\nlength = \"100GiB\""), None);
    let text = |more: &str| read(more).unwrap().canonical_text();
    assert_eq!(text("begin = \"0\""), text(""), "the same fingerprint");
    let spec = read("begin = \"10GiB\"\nlength = \"20GiB\"").unwrap();
    assert_eq!(spec.member_configs().unwrap()[0].size_bytes, 20 << 30);
    assert!(spec.chunk_map().unwrap().capacity_bytes() <= 20 << 30);
    for (more, message) in [
        ("begin = \"1000\"", "4:9: `begin` is not a multiple of 4096 bytes"),
        ("length = \"5000\"", "4:10: `length` is not a multiple of 4096 bytes"),
        ("length = \"0\"", "4:10: `length` is 0, so nothing would be left"),
        ("begin = \"1TiB\"", "4:9: `begin` is not on the disk, which has 320000000000 bytes"),
        ("begin = \"100GiB\"\nlength = \"200GiB\"", "5:10: the part ends at byte 322122547200"),
        ("begin = \"1GiB\"\nlength = \"16EiB\"", "5:10:"),
        ("length = \"20GiB\"\nrebuilding = \"21GiB\"", "5:14: `rebuilding` is larger than"),
    ] {
        let error = read(more).unwrap_err().to_string();
        assert!(error.contains(&format!("test.toml:{message}")), "{more}: {error}");
    }
}

/// Worth of short seeks: Shoal X7 measured 66 random reads a second over a whole disk of 7200 rpm
/// and 175 within 2 GiB.
#[test]
fn seeks_within_a_small_part_are_short() {
    let mean_ns = |more: &str| {
        let text = format!("profile = \"single\"\n[[member]]\nmodel = \"hdd-7k2-ent\"\n{more}");
        let spec = ArrayFile::parse(&text, "test.toml").unwrap().spec;
        let size = spec.member_configs().unwrap()[0].size_bytes;
        let (mut array, mut rng) = (spec.model_array(1).unwrap(), Rng::new(1));
        let (mut now, mut completions) = (Nanos(1), Vec::new());
        for _ in 0..1000 {
            let offset = rng.below(size / 4096) * 4096;
            let io = DiskIo { tag: 0, op: Op::Read, offset, length: 4096 };
            array.submit(now, MemberIndex(0), io);
            while completions.is_empty() {
                now = array.next_event().unwrap();
                array.advance(now, &mut completions);
            }
            completions.clear();
        }
        now.0 / 1000
    };
    let whole = mean_ns("");
    let small = mean_ns("begin = \"4TiB\"\nlength = \"2GiB\"");
    assert!(small * 2 < whole, "{small} ns in 2 GiB, {whole} ns over the disk");
}

/// A path counts from the folder of the array file; a fault inside a model file is reported there.
#[test]
fn a_model_may_be_a_file_in_the_folder_of_the_array() {
    let folder = std::env::temp_dir().join(format!("mirrorball-array-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("models")).unwrap();
    let model = "name = \"mine\"\nsummary = \"s\"\nkind = \"delay\"\ncapacity = \"3TB\"\n\
                 [parameters]\nservice = \"1ms\"\n";
    std::fs::write(folder.join("models/mine.toml"), model).unwrap();
    std::fs::write(folder.join("models/bad.toml"), model.replace("1ms", "1")).unwrap();
    let array = folder.join("array.toml");
    let load = |name: &str| {
        let text = format!("profile = \"single\"\n[[member]]\nmodel = \"models/{name}.toml\"");
        std::fs::write(&array, text).unwrap();
        read(&array).map(|file| file.spec)
    };
    assert_eq!(load("mine").unwrap().member_configs().unwrap()[0].size_bytes, 3_000_000_000_000);
    let error = load("bad").unwrap_err();
    assert!(error.to_string().contains("models/bad.toml:6:11: "), "{error}");
    let error = load("none").unwrap_err();
    assert!(error.to_string().contains("array.toml:3:9: "), "{error}");
    assert!(error.message.contains("models/none.toml`: No such file"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_built_in_array_is_found_by_name_and_a_wrong_name_answered() {
    let file = ArrayFile::builtin("arrays/two-hdd-raid1.toml").unwrap();
    assert_eq!(file.file_name, "arrays/two-hdd-raid1.toml");
    let error = ArrayFile::builtin("two-hd-raid1").unwrap_err().to_string();
    let expected = "two-hd-raid1: there is no built-in array of this name\n  \
                    help: did you mean `two-hdd-raid1`?";
    assert_eq!(error, expected);
}

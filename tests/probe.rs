//! `mirrorball probe`: models in virtual time, and what it refuses.

use crate::common::{Folder, stderr, stdout};

#[test]
fn a_probed_model_becomes_a_profile_that_arrays_take() {
    let folder = Folder::new();
    let probe = ["probe", "--model", "hdd-15k", "-o", "disk.toml", "--report", "disk.html"];
    let said = stdout(&folder.run(&probe));
    for part in ["verdict: ", "rpm ", "15000", "measured", "random-tenth", "held out"] {
        assert!(said.contains(part), "no `{part}` in\n{said}");
    }
    let page = std::fs::read_to_string(folder.path("disk.html")).unwrap();
    assert!(page.contains("random-qd32"), "the page shows each workload");
    let array = "profile = \"raid1\"\n[[member]]\nmodel = \"disk.toml\"\ncount = 2\n";
    std::fs::create_dir(folder.path("arrays")).unwrap();
    std::fs::write(folder.path("arrays/pair.toml"), array).unwrap();
    std::fs::copy(folder.path("disk.toml"), folder.path("arrays/disk.toml")).unwrap();
    let checked = stdout(&folder.run(&["check", "arrays/pair.toml"]));
    assert!(checked.contains("raid1 over 2 members"), "{checked}");
    folder.refuses(&probe, &["disk.toml already exists", "--force"]);
}

#[test]
fn json_and_toml_have_the_whole_result() {
    let folder = Folder::new();
    let json = folder.run(&["probe", "--model", "hdd-15k", "--format", "json"]);
    let json: serde_json::Value = serde_json::from_str(&stdout(&json)).unwrap();
    assert_eq!(json["class"], "hdd");
    assert_eq!(json["parameters"][0]["name"], "rpm");
    assert_eq!(json["parameters"][0]["origin"], "measured");
    assert!(json["workloads"][0]["demerit_seconds"].is_number());
    let toml = stdout(&folder.run(&["probe", "--model", "hdd-15k", "--format", "toml"]));
    assert!(toml.contains("\nkind = \"hdd\"\n") && toml.contains("# Verdict: "), "{toml}");
}

#[test]
fn what_cannot_be_measured_is_refused_by_name() {
    let folder = Folder::new();
    folder.refuses(&["probe", "missing"], &["cannot probe `missing`: no such file or device"]);
    folder.refuses(&["probe", "."], &["cannot probe `.`: it is a folder", "help: name a block"]);
    let character_device = ["cannot probe `/dev/null`: it is a character device", "help: name a"];
    folder.refuses(&["probe", "/dev/null"], &character_device);
    std::fs::write(folder.path("small"), vec![1; 1 << 20]).unwrap();
    folder.refuses(&["probe", "small"], &["cannot probe `small`: it has 1 MiB", "256 MiB"]);
    let holes = std::fs::File::create(folder.path("holes")).unwrap();
    holes.set_len(1 << 30).unwrap();
    folder.refuses(&["probe", "holes"], &["the file has holes", "help: "]);
    folder.refuses(&["probe", "--model", "hdd-15"], &["no built-in model `hdd-15`", "hdd-15k"]);
    let two = |option: &[&'static str]| [&["probe", "a", "b"], option].concat();
    folder.refuses(&two(&[]), &["cannot probe `a`: no such file or device"]);
    folder.refuses(&two(&["--full"]), &["--full is for one device, and 2 are named", "together"]);
    folder.refuses(&two(&["-o", "x.toml"]), &["-o is for one device"]);
    folder.refuses(&["probe", "small", "./small"], &["./small is named twice"]);
    let neither = folder.run(&["probe"]);
    assert_eq!(neither.status.code(), Some(2), "{}", stderr(&neither));
}

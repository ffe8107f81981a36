//! `mirrorball detect` on recorded copies of machines, and what it writes.

use crate::common::{Folder, stderr, stdout};
use std::path::Path;

fn sysroot(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/sysroots").join(name);
    folder.canonicalize().unwrap().to_str().unwrap().to_owned()
}

#[test]
fn a_detected_array_is_written_checked_and_compared() {
    let folder = Folder::new();
    let root = sysroot("md-raid1-hdd-ssd");
    let output = folder.run(&["detect", "/srv/data", "--sysroot", &root, "-o", "pair.toml"]);
    let said = stdout(&output);
    assert_eq!(said, "wrote pair.toml: md md0 at /srv/data: raid1, 2 members: sda, sdb\n");
    let text = std::fs::read_to_string(folder.path("pair.toml")).unwrap();
    for line in ["system = \"md\"", "name = \"md0\"", "device = \"/dev/sda\""] {
        assert!(text.contains(line), "no `{line}` in\n{text}");
    }
    let checked = stdout(&folder.run(&["check", "pair.toml"]));
    assert!(checked.contains("raid1 over 2 members"), "{checked}");
    let compared = folder.run(&[
        "compare", "pair.toml", "rand-4k-qd1", "--policy", "md/raid1,first", "--duration", "1s",
        "--repeats", "1", "-o", "results",
    ]);
    assert!(stdout(&compared).contains("md/raid1"));

    let again = ["detect", "/srv/data", "--sysroot", &root, "-o", "pair.toml"];
    folder.refuses(&again, &["pair.toml already exists", "--force"]);
    stdout(&folder.run(&[&again[..], &["--force"]].concat()));
}

#[test]
fn without_a_path_the_only_array_is_described_and_json_has_everything() {
    let folder = Folder::new();
    let root = sysroot("md-raid1-degraded");
    let output = folder.run(&["detect", "--sysroot", &root]);
    assert!(stdout(&output).contains("failed = true"));
    let said = stderr(&output);
    assert!(said.contains("warning: md0: degraded, 1 member out of service"), "{said}");
    let json = stdout(&folder.run(&["detect", "md0", "--json", "--sysroot", &root]));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    let array = &json["arrays"][0];
    assert_eq!(array["system"], "md");
    assert_eq!(array["condition"]["degraded"], true);
    assert_eq!(array["members"][1]["disk"]["rotational"], false);
}

#[test]
fn what_is_no_array_is_refused_with_what_was_found() {
    let folder = Folder::new();
    let root = sysroot("md-raid1-hdd-ssd");
    let at = |path| ["detect", path, "--sysroot", &root];
    let message = "no mirrored storage below /dev/sda: it is /dev/sda (disk), which is one device";
    folder.refuses(&at("/dev/sda"), &[message, "it is a member of md0: give md0"]);
    folder.refuses(&at("/dev/sdz"), &["the recorded copy has no block device /dev/sdz"]);
    folder.refuses(&at("nothing"), &["cannot detect an array at `nothing`", "help: "]);
    folder.refuses(&at("/"), &["is on rootfs (rootfs), which is on no block device"]);
    folder.refuses(&["detect", "/no/such/path"], &["`/no/such/path`: there is no such file"]);
    folder.refuses(&["detect", "--sysroot", "."], &["has no folder `sys`"]);
    folder.refuses(&["detect", "/dev/null"], &["/dev/null is a character device, not a block"]);
}

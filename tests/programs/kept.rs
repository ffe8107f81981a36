//! Policies that a volume starts with: `ctl policy NAME --keep`, programs whose objects are missing
//! or another at the next start, and faults that outlast the service.

use super::{build, folder};
use crate::common::nbd_client::NbdClient;
use crate::common::service::{Service, wait_until};
use crate::common::{Folder, stderr};
use serde_json::Value;
use std::fs::{self, File};

/// A policy that takes the first mirror.
const FIRST: &str = "mb_count(1, 1); return 0;";
/// A policy that has a fault at its third read.
const FAULT: &str = "static u32 reads; return reads++ < 2 ? 0 : c->nr;";

/// Creates a volume on two images.
fn create(folder: &Folder, policy: &str) {
    let mut array = "profile = \"raid1\"\n".to_owned();
    for name in ["a.img", "b.img"] {
        array += &format!("[[member]]\npath = \"{name}\"\n");
        File::create(folder.path(name)).unwrap().set_len(24 << 20).unwrap();
    }
    fs::write(folder.path("pair.toml"), array).unwrap();
    let created = folder.run(&["create", "pair.toml", "--policy", policy]);
    assert!(created.status.success(), "{}", stderr(&created));
}

/// A folder with a volume and two programs; `None` without a compiler.
fn labelled() -> Option<Folder> {
    let folder = folder()?;
    create(&folder, "md/raid1");
    build(&folder, "first", FIRST);
    build(&folder, "fault", FAULT);
    Some(folder)
}

fn serve(folder: &Folder, arguments: &[&str]) -> Service {
    let places = ["a.img", "b.img", "--export", "nbd:unix:socket", "--control", "control"];
    Service::start(folder, &[&["serve"], &places[..], arguments].concat())
}

fn refusal(folder: &Folder, name: &str) -> String {
    let output = folder.run(&["ctl", "--control", "control", "policy", name, "--keep"]);
    assert!(!output.status.success(), "{}", stderr(&output));
    stderr(&output)
}

/// Asserts that the volume started with the fallback, and says why in its notes, its status and its
/// events.
fn assert_fallback(folder: &Folder, service: &Service, reason: &str) {
    let notes = service.lines.join("\n");
    assert!(notes.contains("starts with the fallback dm/queue-length: program/"), "{notes}");
    assert!(notes.contains(reason), "{notes}");
    let status = folder.ctl(&["status"]);
    assert!(status.contains("policy dm/queue-length\n"), "{status}");
    assert!(status.contains("the fallback decides in place of the program: "), "{status}");
    assert!(status.contains(reason), "{status}");
    assert!(folder.ctl(&["events"]).contains("\"name\":\"policy-fault\""));
}

fn read_blocks(folder: &Folder) {
    let mut client = NbdClient::connect(folder, "socket");
    for block in 0..8 {
        client.read(block * 4096, 4096);
    }
}

#[test]
fn a_kept_program_is_loaded_at_the_next_start_if_it_is_the_same() {
    let Some(folder) = labelled() else { return };
    let service = serve(&folder, &[]);
    let changed = folder.ctl(&["policy", "program:first.wasm", "--keep"]);
    assert!(changed.ends_with(", which is recorded for later starts\n"), "{changed}");
    service.terminate();
    let examined = folder.run(&["examine", "a.img", "b.img", "--format", "json"]);
    let volumes: Value = serde_json::from_slice(&examined.stdout).unwrap();
    let program = &volumes["volumes"][0]["program"];
    let file = folder.path("first.wasm");
    assert_eq!(program["reference"], format!("program:{}", file.display()));
    assert_eq!(volumes["volumes"][0]["policy"], "dm/queue-length", "its fallback");

    let service = serve(&folder, &[]);
    assert!(folder.ctl(&["policy"]).starts_with("program/first@"));
    read_blocks(&folder);
    assert!(folder.ctl(&["stats", "--format", "json"]).contains("count_1"));
    service.terminate();

    let object = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    let service = serve(&folder, &[]);
    assert_fallback(&folder, &service, "cannot read the program `");
    assert!(refusal(&folder, "program:first.wasm").contains("cannot read the program"));
    service.terminate();

    fs::copy(folder.path("fault.wasm"), &file).unwrap();
    let service = serve(&folder, &[]);
    assert_fallback(
        &folder,
        &service,
        "cannot be used: its file has another program now, program/fault@",
    );
    service.terminate();

    fs::write(&file, object).unwrap();
    let service = serve(&folder, &[]);
    assert!(folder.ctl(&["policy"]).starts_with("program/first@"), "nothing was forgotten");
    let policy = folder.ctl(&["policy", "md/raid1", "--keep"]);
    assert!(policy.contains(" to md/raid1, which is recorded"), "{policy}");
    service.terminate();
    let service = serve(&folder, &[]);
    assert_eq!(folder.ctl(&["policy"]), "md/raid1\n");
    service.terminate();
}

#[test]
fn a_fault_outlasts_the_service() {
    let Some(folder) = labelled() else { return };
    let service = serve(&folder, &[]);
    folder.ctl(&["policy", "program:fault.wasm", "--keep"]);
    read_blocks(&folder);
    let fault = "choose returned 2, but nr is 2";
    wait_until("the fault", || folder.ctl(&["status"]).contains(fault));
    assert!(folder.ctl(&["events"]).contains(fault));
    // It is recorded before the service ends, so a crash does not lose it.
    wait_until("the record", || {
        let examined = folder.run(&["examine", "a.img", "b.img"]);
        String::from_utf8(examined.stdout).unwrap().contains("): ended by a fault\n")
    });
    drop(service);

    for arguments in [&[][..], &["--policy", "program:fault.wasm"]] {
        let service = serve(&folder, arguments);
        assert_fallback(
            &folder,
            &service,
            "was ended by a fault before; `mirrorball ctl --control ",
        );
        read_blocks(&folder);
        assert!(folder.ctl(&["stats", "--format", "json"]).contains("fallback_reads"));
        service.terminate();
    }
    let service = serve(&folder, &["--policy", "program:first.wasm"]);
    assert!(folder.ctl(&["policy"]).starts_with("program/first@"), "another program");
    let again = folder.ctl(&["policy", "program:fault.wasm", "--keep"]);
    assert!(again.contains(" to program/fault@"), "{again}");
    service.terminate();
    let service = serve(&folder, &[]);
    assert!(folder.ctl(&["policy"]).starts_with("program/fault@"), "it was set again");
    service.terminate();
}

#[test]
fn a_volume_that_is_created_with_a_program_starts_with_it() {
    let Some(folder) = folder() else { return };
    build(&folder, "first", FIRST);
    create(&folder, "program:first.wasm");
    let service = serve(&folder, &[]);
    assert!(folder.ctl(&["policy"]).starts_with("program/first@"));
    service.terminate();
    fs::remove_file(folder.path("first.wasm")).unwrap();
    let service = serve(&folder, &[]);
    assert_fallback(&folder, &service, "cannot read the program `");
    service.terminate();
}

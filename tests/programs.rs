//! Policies as programs, from the first file to a row in a table and to a served volume.
//!
//! The policies are compiled by the clang of this machine. Without one the tests are skipped,
//! unless `CI` is set; `./test` installs it.

mod kept;

use crate::common::external::skip_missing;
use crate::common::nbd_client::NbdClient;
use crate::common::samples::{ARRAY, JOB};
use crate::common::service::Service;
use crate::common::{Folder, stderr, stdout};
use mirrorball_program::toolchain::Toolchain;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// A folder with an array and a job; `None` without a compiler.
fn folder() -> Option<Folder> {
    if Toolchain::find().is_err() {
        skip_missing("clang, or its linker wasm-ld,");
        return None;
    }
    let folder = Folder::new();
    fs::write(folder.path("pair.toml"), ARRAY).unwrap();
    fs::write(folder.path("reader.fio"), JOB).unwrap();
    Some(folder)
}

/// Compiles a policy whose `choose` has this body.
fn build(folder: &Folder, name: &str, body: &str) {
    let text = format!(
        "#include \"mirrorball_policy.h\"\nMB_PROGRAM(\"{name}\", \"1\", \"\", \"a test\");\n\
         MB_CHOOSE(c) {{ {body} }}\n"
    );
    let source = format!("{name}.c");
    fs::write(folder.path(&source), text).unwrap();
    stdout(&folder.run(&["program", "build", &source]));
}

/// Compiles an example of the folder `programs`.
fn build_example(folder: &Folder, name: &str) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../programs/{name}.c"));
    let output = format!("{name}.wasm");
    stdout(&folder.run(&["program", "build", source.to_str().unwrap(), "-o", &output]));
}

/// Compiles a policy as its Makefile does for a kernel; `None` if clang does not know BPF.
fn clang_for_bpf(folder: &Folder, policy: &str) -> Option<Output> {
    let targets = Command::new("clang").arg("-print-targets").output().ok()?;
    if !String::from_utf8_lossy(&targets.stdout).contains("bpf ") {
        eprintln!("skipped: no clang with the target bpf");
        return None;
    }
    let makefile = fs::read_to_string(folder.path(&format!("{policy}/Makefile"))).unwrap();
    let line = makefile.lines().find(|line| line.starts_with("\tclang --target=bpf")).unwrap();
    let mut clang = Command::new("clang");
    clang.args(line.split_whitespace().skip(1)).arg("-Werror");
    Some(clang.current_dir(folder.path(policy)).output().unwrap())
}

/// The figures of each policy in a comparison, by policy: what follows the name in its rows.
fn rows(folder: &Folder, results: &str, policy: &str) -> Vec<String> {
    let csv = stdout(&folder.run(&["report", results, "--format", "csv"]));
    let rows = csv.lines().filter_map(|line| Some(line.split_once(policy)?.1.to_owned()));
    rows.collect()
}

/// Compiles the test as the Makefile does, with clang, and runs it.
fn run_test(folder: &Path, name: &str) -> Output {
    let makefile = fs::read_to_string(folder.join("Makefile")).unwrap();
    let line = makefile.lines().find_map(|line| line.strip_prefix("\t$(CC) ")).unwrap();
    let mut clang = Command::new("clang");
    clang.args(line.split_whitespace()).args(["-Wextra", "-Werror"]);
    let compiled = clang.current_dir(folder).output().unwrap();
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    Command::new(folder.join(format!("{name}_test"))).output().unwrap()
}

#[test]
fn the_test_of_a_new_policy_runs_on_this_machine() {
    let Some(outer) = folder() else { return };
    stdout(&outer.run(&["program", "new", "fresh"]));
    let folder = outer.path("fresh");
    let done = run_test(&folder, "fresh");
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    assert_eq!(String::from_utf8_lossy(&done.stdout), "all is as expected\n");
    // A policy that ignores queues fails it.
    let source = folder.join("fresh.c");
    let text = fs::read_to_string(&source).unwrap();
    let without_queue = text.replace(" * (mb_in_flight(m) + 1)", "");
    assert_ne!(text, without_queue);
    fs::write(&source, without_queue).unwrap();
    let failed = run_test(&folder, "fresh");
    let message = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(1), "{message}");
    let expected = "fresh_test.c:33: not so: mb_op_choose(&mb_context) == 0\n";
    assert_eq!(message, expected);
}

/// The steps of the chapter: from a new folder to a row in the table.
#[test]
fn a_new_policy_is_compiled_checked_and_compared() {
    let Some(folder) = folder() else { return };
    stdout(&folder.run(&["program", "new", "mine"]));
    folder.refuses(&["program", "new", "mine"], &["`mine` exists already"]);
    folder.refuses(&["program", "new", "My"], &["`My` cannot be the name of a policy"]);
    let output = folder.run(&["program", "build", "mine/mine.c"]);
    assert!(stderr(&output).starts_with("wrote mine/mine.wasm: program/mine@"), "no warning");
    let compiled = clang_for_bpf(&folder, "mine");
    assert!(compiled.is_none_or(|output| output.status.success()), "for a kernel");
    let checked = stdout(&folder.run(&["program", "check", "mine/mine.wasm"]));
    for part in ["version 0.1\n", "?gain=8: ", "after a fault: dm/queue-length\n", "\nchoose "] {
        assert!(checked.contains(part), "{checked}");
    }
    assert!(checked.starts_with(&stdout(&folder.run(&["policies", "mine/mine.wasm"]))));
    let compare = |policy: &str, folder_name: &str| {
        let words = ["compare", "pair.toml", "reader.fio", "-n", "2", "-d", "300ms", "--policy"];
        stdout(&folder.run(&[&words[..], &[policy, "-o", folder_name]].concat()))
    };
    let table = compare("program:mine/mine.wasm,program:mine/mine.wasm?gain=2,pid", "out");
    assert!(table.contains("program/mine@") && table.contains("?gain=2"), "{table}");
    // Everything that a run needs is in its plan.
    let plan: Value =
        serde_json::from_slice(&fs::read(folder.path("out/plan.json")).unwrap()).unwrap();
    let object = fs::read(folder.path("mine/mine.wasm")).unwrap();
    let digits: String = object.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(plan["programs"][0]["object"], digits);
    assert_eq!(plan["programs"].as_array().unwrap().len(), 1);
    // The same again is read from the saved cells.
    assert_eq!(table, compare("program:mine/mine.wasm,program:mine/mine.wasm?gain=2,pid", "out"));
}

/// A program is a reference of `compare` and `report`, by its file or by what tables show.
#[test]
fn a_program_can_be_the_baseline() {
    let Some(folder) = folder() else { return };
    build(&folder, "last", "return c->nr - 1;");
    let words = ["compare", "pair.toml", "reader.fio", "-n", "1", "-d", "200ms", "-o", "out"];
    let policies = ["--policy", "program:last.wasm,pid", "--format", "json", "--baseline"];
    let report = ["report", "out", "--format", "json", "--baseline"];
    let baseline = |words: &[&str], name: &str| {
        let json = stdout(&folder.run(&[words, &[name]].concat()));
        let study: Value = serde_json::from_str(&json).unwrap();
        study["criteria"]["baseline"].as_str().unwrap().to_owned()
    };
    let words = [&words[..], &policies].concat();
    let name = baseline(&words, "program:last.wasm");
    assert!(name.starts_with("program/last@"), "{name}");
    for written in ["program/last", &name[..20], "program:last.wasm"] {
        assert_eq!(baseline(&report, written), name, "{written}");
    }
    assert_eq!(baseline(&words, "program/last"), name);
    let other = [&words[..], &["program/other"]].concat();
    folder.refuses(&other, &["--baseline: `program/other` is not one of", "add it to --policy"]);
    folder.refuses(&[&report[..], &["program/other"]].concat(), &["they are ", &name]);
}

/// The place of a program in the league, the same by a sweep, and against its last build.
#[test]
fn a_program_takes_part_in_the_league_and_in_sweeps() {
    let Some(folder) = folder() else { return };
    build(&folder, "mine", "return 0;");
    build(&folder, "rival", "return c->nr - 1;");
    let words = [
        "league",
        "--sample",
        "2",
        "--quick",
        "--seed",
        "5",
        "--subject",
        "program:mine.wasm",
        "--policy",
        "program:rival.wasm,btrfs/pid",
    ];
    let table = stdout(&folder.run(&words));
    for part in ["program/mine@", "program/rival@", "Run these again:"] {
        assert!(table.contains(part), "no `{part}` in {table}");
    }
    assert!(!table.contains("its last build"), "{table}");
    let table = table.replace(" \\\n   ", "");
    let replay = table.lines().find(|line| line.contains("--pairing")).unwrap();
    for command in replay.split(" && ") {
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        let words: Vec<&str> = words.iter().map(|word| word.trim_matches('\'')).collect();
        let output = folder.run(&words);
        assert!(output.status.success(), "{command}: {}", stderr(&output));
    }
    if cfg!(feature = "sweeps") {
        fs::create_dir(folder.path("other")).unwrap();
        let spec = "array = \"pair.toml\"\njob = \"reader.fio\"\nduration = \"20ms\"\n\
                    policy = [\"pid\", \"program:mine.wasm\"]\n";
        fs::write(folder.path("sweep.toml"), spec).unwrap();
        let elsewhere = folder.path("sweep.toml");
        let plan = ["sweep", "plan", elsewhere.to_str().unwrap(), "-o", "cells"];
        let mut command = folder.command(&plan);
        stdout(&command.current_dir(folder.path("other")).output().unwrap());
        let ran = stderr(&folder.run(&["sweep", "run", "other/cells"]));
        assert!(ran.contains("2 cells were run"), "{ran}");
    }
    build(&folder, "mine", "return c->nr - 1;");
    let table = stdout(&folder.run(&words));
    let words: Vec<&str> = table.split_whitespace().collect();
    assert!(words.join(" ").contains("times its last build, program/mine@"), "{table}");
}

/// A program that repeats a built-in has its figures, to the last digit.
#[test]
fn an_example_has_the_figures_of_its_builtin() {
    let Some(folder) = folder() else { return };
    build_example(&folder, "md-raid1");
    let words = ["compare", "pair.toml", "reader.fio", "-n", "1", "-d", "500ms", "-o", "out"];
    let policies = "program:md-raid1.wasm,md/raid1,program:md-raid1.wasm+hedge,md/raid1+hedge";
    stdout(&folder.run(&[&words[..], &["--policy", policies]].concat()));
    let plan: Value =
        serde_json::from_slice(&fs::read(folder.path("out/plan.json")).unwrap()).unwrap();
    let program = plan["programs"][0]["name"].as_str().unwrap();
    for modifier in [",", "+hedge"] {
        let [own, builtin] = [program, "md/raid1"]
            .map(|policy| rows(&folder, "out", &format!("{policy}{modifier}")));
        let figures = |rows: &[String]| -> Vec<String> {
            rows.iter().map(|row| row.split(',').skip(1).take(8).collect()).collect()
        };
        assert!(!own.is_empty());
        assert_eq!(figures(&own), figures(&builtin), "{modifier}");
    }
}

#[test]
fn a_fault_fails_the_cell_and_shows_the_context() {
    let Some(folder) = folder() else { return };
    build(&folder, "late", "static u32 n; if (++n > 1000) mb_error(7); return c->nr - 1;");
    let words = ["compare", "pair.toml", "reader.fio", "-n", "1", "-d", "300ms", "-o", "out"];
    let output = folder.run(&[&words[..], &["--policy", "program:late.wasm"]].concat());
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    assert!(message.contains("choose called mb_error(7)"), "{message}");
    assert!(message.contains("\n    .mirror[1] = { .offset = "), "{message}");
    let checked = folder.run(&["program", "check", "late.wasm"]);
    assert_eq!(checked.status.code(), Some(1));
    assert!(stderr(&checked).contains("fault: program/late@"), "{}", stderr(&checked));
    let row = String::from_utf8(checked.stdout).unwrap();
    let row = row.lines().find(|line| line.starts_with("choose ")).unwrap().to_owned();
    assert!(row.ends_with(" fault"), "{row}");
}

/// Random reads are of eight streams; those of a simulation have process ids.
#[test]
fn a_check_finds_a_fault_that_only_simulations_lead_to() {
    let Some(folder) = folder() else { return };
    build(&folder, "streams", "if (c->stream > 64) mb_error(3); return 0;");
    let checked = folder.run(&["program", "check", "streams.wasm"]);
    assert_eq!(checked.status.code(), Some(1));
    let message = stderr(&checked);
    assert!(message.contains("choose called mb_error(3)"), "{message}");
    let table = String::from_utf8(checked.stdout).unwrap();
    assert!(table.contains("\nchoose        60000 "), "the random reads were fine: {table}");
}

/// A running volume changes to a program and back; a fault leaves the volume readable.
#[test]
fn a_volume_changes_to_a_program_and_survives_its_fault() {
    let Some(folder) = folder() else { return };
    build_example(&folder, "peak-ewma");
    build(&folder, "bad", "return c->nr;");
    let arguments = ["emulate", "pair.toml", "--policy", "program:peak-ewma.wasm?decay_ms=500"];
    let place = ["--export", "nbd:unix:socket", "--control", "control"];
    let service = Service::start(&folder, &[&arguments[..], &place].concat());
    let policy = folder.ctl(&["policy"]);
    assert!(policy.starts_with("program/peak-ewma@") && policy.ends_with("?decay_ms=500\n"));
    let mut client = NbdClient::connect(&folder, "socket");
    client.read(0, 4096);
    let changed = folder.ctl(&["policy", "program:bad.wasm"]);
    assert!(changed.contains(" to program/bad@"), "{changed}");
    for block in 0..20 {
        client.read(block * 4096, 4096);
    }
    let status = folder.ctl(&["status"]);
    let fault = "the fallback decides in place of the program: program/bad@";
    assert!(
        status.contains(fault) && status.contains("choose returned 2, but nr is 2"),
        "{status}"
    );
    let stats: Value = serde_json::from_str(&folder.ctl(&["stats", "--format", "json"])).unwrap();
    let counters = stats["policy_counters"].as_array().unwrap();
    let value =
        |name: &str| counters.iter().find(|it| it["name"] == name).unwrap()["value"].as_i64();
    assert_eq!(value("faults"), Some(1));
    assert!(value("fallback_reads").unwrap() >= 1, "{counters:?}");
    let folder_refuses = |name: &str, part: &str| {
        let output = folder.run(&["ctl", "--control", "control", "policy", name]);
        assert!(!output.status.success() && stderr(&output).contains(part), "{}", stderr(&output));
    };
    folder_refuses("program:none.wasm", "cannot read the program");
    folder_refuses("program:pair.toml", "it is not a WebAssembly object");
    folder_refuses("program:peak-ewma.wasm?decay_ms=0", "bad value `0` for `decay_ms`");
    assert!(folder.ctl(&["policy"]).starts_with("program/bad@"));
    assert!(folder.ctl(&["policy", "pid"]).contains(" to btrfs/pid\n"));
    assert!(!folder.ctl(&["status"]).contains("failed"));
    client.read(0, 4096);
    assert_eq!(service.stop("-TERM"), Some(0));
}

#[test]
fn what_is_no_program_is_refused() {
    let Some(folder) = folder() else { return };
    fs::write(folder.path("wrong.c"), "int choose(void) { return missing; }\n").unwrap();
    fs::write(folder.path("empty.wasm"), "").unwrap();
    // The message has an error of clang in it.
    let output = folder.run(&["program", "build", "wrong.c"]);
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{message}");
    assert!(message.contains("failed for `wrong.c`") && message.contains("wrong.c:1:27"));
    assert!(!folder.path("wrong.wasm").exists());
    folder.refuses(&["program", "build", "none.c"], &["cannot read `none.c`"]);
    let compare = |policy| ["compare", "pair.toml", "reader.fio", "--policy", policy];
    folder.refuses(&compare("program:none.wasm"), &["--policy: cannot read the program"]);
    folder.refuses(&compare("program:."), &["it is not a file"]);
    folder.refuses(&compare("program:"), &["the file of the program is missing"]);
    folder.refuses(&compare("program:wrong.c"), &["not a WebAssembly object", "program build"]);
    folder.refuses(&compare("pid,program:empty.wasm"), &["not a WebAssembly object"]);
    folder.refuses(&compare("program/ewma@0123456789ab"), &["is not loaded"]);
    folder.refuses(&compare("empty.wasm"), &["named by its file: program:empty.wasm"]);
}

/// Found by a review: another spelling of the path overwrote the source.
#[test]
fn an_object_replaces_objects_only() {
    let Some(folder) = folder() else { return };
    build(&folder, "first", "return 0;");
    let source = fs::read(folder.path("first.c")).unwrap();
    for output in ["first.c", "./first.c", "pair.toml"] {
        folder.refuses(&["program", "build", "first.c", "-o", output], &["is no WebAssembly"]);
    }
    assert!(fs::read(folder.path("first.c")).unwrap() == source);
    stdout(&folder.run(&["program", "build", "first.c"]));
}

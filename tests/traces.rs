//! `mirrorball import trace` as a user meets it.

use crate::common::{Folder, stdout};
use std::fs;

/// 400 reads of 4 KiB and 100 writes of 8 KiB, one request each millisecond.
fn trace() -> String {
    let line = |index: u64| match index % 5 {
        0 => format!("v,W,{},8192,{}\n", index * 1_048_576, index * 1000),
        _ => format!("v,R,{},4096,{}\n", (index * 7919 % 1000) * 1_048_576, index * 1000),
    };
    (0..500).map(line).collect()
}

#[test]
fn a_trace_is_characterised_and_a_job_fitted_to_it() {
    let folder = Folder::new();
    fs::write(folder.path("web.csv"), trace()).unwrap();
    let shown = stdout(&folder.run(&["import", "trace", "web.csv", "--fit", "web.fio"]));
    for part in ["format    alibaba", "400 reads (1.6 MiB), 100 writes", "80.0 % are reads"] {
        assert!(shown.contains(part), "no `{part}` in\n{shown}");
    }
    let job = stdout(&folder.run(&["check", "web.fio"]));
    assert!(job.contains("random reads (80 %) and writes"), "{job}");
}

#[test]
fn what_is_no_trace_is_refused_with_its_place() {
    let folder = Folder::new();
    fs::write(folder.path("bad.csv"), trace() + "v,R,0,none,1\n").unwrap();
    fs::write(folder.path("job.fio"), "[a]\nrw=read\n").unwrap();
    let import = |more: &[&'static str]| [&["import", "trace"], more].concat();
    let fit = ["bad.csv", "--fit", "new.fio"];
    folder.refuses(&import(&fit), &["bad.csv:501: the length `none` is not a", "help: "]);
    folder.refuses(&import(&["job.fio"]), &["job.fio: the first lines are in no known trace"]);
    folder.refuses(&import(&["missing"]), &["cannot read the trace `missing`", "help: "]);
    folder.refuses(&import(&["bad.csv", "--format", "mrs"]), &["did you mean `msr`?"]);
    folder.refuses(&import(&["bad.csv", "--force"]), &["--force has no effect", "--fit"]);
    folder.refuses(&import(&["bad.csv", "--fit", "job.fio"]), &["job.fio already exists"]);
}

#[test]
fn the_formats_are_listed() {
    let folder = Folder::new();
    let list = stdout(&folder.run(&["import", "trace", "--formats"]));
    assert!(list.contains("msr\n  columns: Timestamp,Hostname,DiskNumber"), "{list}");
}

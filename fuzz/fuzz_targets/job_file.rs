//! No job file makes the reader panic, and what it accepts can be placed on a volume or refused.
//! Includes and variables come from the input itself, so that nothing outside is touched.

#![no_main]

use libfuzzer_sys::fuzz_target;
use mirrorball_core::diagnostic::Diagnostic;
use mirrorball_core::units::{GIB, Nanos};
use mirrorball_sim::job::{JobContext, JobFile};
use mirrorball_sim::workload::{CloneSpec, Next, Workload};

fuzz_target!(|text: &str| {
    let (main, included) = text.split_once('\0').unwrap_or((text, ""));
    let environment = JobContext {
        variable: &|name| (name.len() < 3).then(|| included.to_owned()),
        include: &|_| Ok(included.to_owned()),
        trace: &|_, _, _| Err(Diagnostic::new("no trace")),
    };
    let Ok(file) = JobFile::parse(main, "fuzz.fio", &environment) else {
        return;
    };
    if file.validate_against(64 * GIB).is_err() {
        return;
    }
    for job in &file.sections {
        let clone_spec =
            CloneSpec { clone: 0, volume_bytes: 64 * GIB, group_start: Nanos::ZERO, seed: 1 };
        let mut workload = Workload::new(job, clone_spec);
        let mut now = Nanos::ZERO;
        for _ in 0..100 {
            match workload.next(now) {
                Next::Issue(issue) => {
                    assert!(issue.offset + issue.length <= 64 * GIB);
                    workload.complete(issue.kind, now);
                }
                Next::NotBefore(later) => now = later,
                Next::Wait | Next::Done => break,
            }
        }
    }
});

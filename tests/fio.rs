//! The real fio and we understand each other: the same job file runs under fio and in simulation,
//! tried on every file in `jobs/`; and what the installed fio writes can be imported.
//!
//! Each file is shortened to 64 requests per clone, run by both, and the requests of each section
//! are counted on either side. Where fio is not installed the test says so and passes, unless `CI`
//! is `true`; `./test` installs it.

use crate::common::external::skip_missing;
use mirrorball_disk::array_file::ArrayFile;
use mirrorball_lab::experiment::import::ImportLabels;
use mirrorball_lab::experiment::import::fio::cell;
use mirrorball_sim::engine::{Checks, PolicyUnderTest, Simulation, run};
use mirrorball_sim::job::{JobContext, JobFile};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// Size of the file that fio works on, sparse.
const FILE_BYTES: u64 = 64 << 20;

/// Reads and writes that ended well, by section.
type Counts = BTreeMap<String, u64>;

#[test]
fn every_job_does_the_same_under_fio_and_in_simulation() {
    if !fio_is_installed() {
        return;
    }
    // Not in the system's folder for temporary files, which may be memory and refuse O_DIRECT.
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("the build folder is there");
    let files = job_files();
    assert!(files.len() >= 6, "jobs/ has only {files:?}");
    for path in files {
        let text = shortened(&fs::read_to_string(&path).expect("a job file is readable"));
        let by_fio = run_fio(folder.path(), &text);
        let simulated = simulate(&path, &text);
        assert!(by_fio.values().all(|&requests| requests >= 64), "{path:?}: fio did {by_fio:?}");
        assert_eq!(by_fio, simulated, "{}", path.display());
    }
}

/// Every figure that both have is the same, whichever version of fio is installed.
#[test]
fn what_fio_writes_is_imported() {
    if !fio_is_installed() {
        return;
    }
    let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).expect("the build folder is there");
    let output = Command::new("fio")
        .args(["--name=reader", "--rw=randrw", "--bs=4k", "--size=1m", "--number_ios=200"])
        .args(["--ioengine=psync", "--filename=volume", "--output-format=normal,json+"])
        .current_dir(folder.path())
        .output()
        .expect("fio was there a moment ago");
    let (array, policy) = ("array".to_owned(), "fio".to_owned());
    let about = ImportLabels { array, array_text: String::new(), policy, job: None };
    let record = cell(&output.stdout, &[], &about).expect("fio wrote it");
    let text = String::from_utf8_lossy(&output.stdout);
    let document = &text[text.find("\n{").expect("fio prints JSON")..];
    let mut values = serde_json::Deserializer::from_str(document).into_iter::<Value>();
    let report = values.next().expect("fio prints JSON").expect("fio prints JSON");
    let section = &record.run.sections[0];
    for (ours, name) in [(&section.read, "read"), (&section.write, "write")] {
        let (ours, theirs) = (ours, &report["jobs"][0][name]);
        assert_eq!(Some(ours.ios), theirs["total_ios"].as_u64());
        assert_eq!(Some(ours.bytes), theirs["io_bytes"].as_u64());
        let latency = &theirs["clat_ns"];
        assert_eq!(Some(ours.latency.max().unwrap_or_default().0), latency["max"].as_u64());
        assert_eq!(ours.latency.bins().count(), latency["bins"].as_object().expect("bins").len());
    }
}

fn fio_is_installed() -> bool {
    let installed = Command::new("fio").arg("--version").output().is_ok();
    if !installed {
        skip_missing("fio");
    }
    installed
}

fn job_files() -> Vec<PathBuf> {
    let jobs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../jobs");
    let entries = fs::read_dir(jobs).expect("jobs/ is there");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry of jobs/ is readable").path()).collect();
    files.sort();
    files
}

/// The same job, ended by its number of requests instead of its time.
fn shortened(text: &str) -> String {
    let ends_by_time = |line: &&str| line.starts_with("time_based") || line.starts_with("runtime");
    let lines = text.lines().filter(|line| !ends_by_time(line));
    let with_end = lines.map(|line| match line.starts_with('[') {
        true => format!("{line}\nnumber_ios=64\n"),
        false => format!("{line}\n"),
    });
    with_end.collect()
}

fn run_fio(folder: &Path, text: &str) -> Counts {
    let (job, volume) = (folder.join("job.fio"), folder.join("volume"));
    fs::write(&job, text).expect("the folder is ours");
    let file = fs::File::create(&volume).expect("the folder is ours");
    file.set_len(FILE_BYTES).expect("a sparse file takes no room");
    let output = Command::new("fio")
        .arg(format!("--filename={}", volume.display()))
        .arg("--output-format=json")
        .arg(&job)
        .current_dir(folder)
        .output()
        .expect("fio was there a moment ago");
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{stdout}{}", String::from_utf8_lossy(&output.stderr));
    // fio prints its notes before the document.
    let document = &stdout[stdout.find('{').expect("fio prints JSON")..];
    let report: Value = serde_json::from_str(document).expect("fio prints JSON");
    let sections = report["jobs"].as_array().expect("fio reports jobs");
    let count = |section: &Value| {
        assert_eq!(section["error"], 0, "{text}\n{section:#}");
        let of = |direction: &str| section[direction]["total_ios"].as_u64().expect("a number");
        (section["jobname"].as_str().expect("a name").to_owned(), of("read") + of("write"))
    };
    sections.iter().map(count).collect()
}

fn simulate(path: &Path, text: &str) -> Counts {
    let name = path.display().to_string();
    let jobs = JobFile::parse(text, &name, &JobContext::empty()).expect("fio accepts it too");
    let array = ArrayFile::builtin("two-delays-raid1").expect("the array is built in");
    let record = run(&Simulation {
        array: &array.spec,
        job: &jobs,
        policy: PolicyUnderTest::Policy("first"),
        seed: 1,
        duration: None,
        checks: Checks::On,
    });
    let counts = record.expect("the job fits the array").sections.into_iter();
    counts.map(|job| (job.name, job.read.latency.count() + job.write.latency.count())).collect()
}

//! Jobs on a file of a filesystem, on one member of 1 ms that serves one request at a time.

use super::{assert_near, jobs, simulate};
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_sim::job::{JobContext, JobFile};
use mirrorball_sim::record::RunRecord;

fn array() -> ArraySpec {
    let text = "layout = \"gmirror\"\n[host]\noverhead = \"10us\"\n[[member]]\nmodel = \"delay\"\n\
                count = 2\nsize = \"1GiB\"\nset = { service = \"1ms\", servers = 1 }\n";
    ArrayFile::parse(text, "file.toml").expect("a valid array").spec
}

fn run(pragma: &str, options: &str) -> RunRecord {
    simulate(&array(), &jobs(&format!("; mirrorball: {pragma}\n{options}")), "first")
}

/// The allocation groups have 128 MiB less 32 KiB of headers, and the file 192 MiB: a write of
/// 1 MiB crosses to the next group, as two requests.
#[test]
fn a_write_over_the_end_of_an_extent_is_two_requests() {
    let options = "rw=write\nbs=1m\nsize=192m\niodepth=1\ntime_based=0";
    let whole = run("file=raw", options);
    assert_eq!((whole.sections[0].write.latency.count(), whole.member_ios), (192, 2 * 192));
    let file = run("file=preallocated", options);
    assert_eq!((file.sections[0].write.latency.count(), file.member_ios), (192, 2 * 193));
}

#[test]
fn under_the_exclusive_lock_requests_follow_each_other() {
    let options = "rw=randwrite\nbs=4k\nsize=64m\niodepth=8\nruntime=2\ntime_based";
    let rate = |pragma| {
        let record = run(pragma, options);
        record.sections[0].write.latency.count() as f64 / record.measured.as_secs_f64()
    };
    assert_near(rate("file=sparse lock=exclusive"), 1000.0, 0.01);
    assert_near(rate("file=sparse"), 1000.0, 0.01);
}

/// A hole has no place on the volume: its reads reach no member, and zeroes take the host's time.
#[test]
fn reads_of_holes_reach_no_member() {
    let options = "rw=randread\nbs=4k\nsize=1m\niodepth=1\ntime_based=0";
    assert_eq!(run("file=sparse", options).member_ios, 0);
    assert_eq!(run("file=preallocated", options).member_ios, 256);
}

/// A third of 64 KiB is five blocks and a part, up to which the kernel reads ahead.
#[test]
fn buffered_files_end_with_a_part_of_a_page() {
    let text = "[a]\nrw=read\nsize=64k\nnrfiles=3\n";
    let job = JobFile::parse(text, "files.fio", &JobContext::empty()).expect("a valid job");
    let record = simulate(&array(), &job, "first");
    let read = &record.sections[0].read;
    assert_eq!((read.latency.count(), read.errors), (15, 0));
}

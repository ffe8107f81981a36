//! Golden table: one small run of every policy, so that a change to any rule shows.
//!
//! The array is one on which rules differ: two unequal HDDs and an SSD behind three copies. The
//! jobs are what rules heed: random reads at depth, two streams, and writes that queue. Figures are
//! reads by member and the mean latency of each job. If a rule was meant to change, look at the
//! difference and accept it with `cargo insta review`, or by `INSTA_UPDATE=always cargo test`.

use mirrorball_disk::array_file::ArrayFile;
use mirrorball_sim::engine::{Checks, PolicyUnderTest, Simulation, run};
use mirrorball_sim::job::{JobContext, JobFile};
use std::fmt::Write;

const ARRAY: &str = r#"
name = "golden"
profile = "raid1c3"
[[member]]
model = "hdd-7k2-ent"
size = "100GiB"
[[member]]
model = "hdd-7k2-desktop"
size = "100GiB"
[[member]]
model = "ssd-sata-consumer"
size = "100GiB"
optimal_io = "512KiB"
"#;

const JOBS: &str = "
[global]
filename=/dev/md0
ioengine=libaio
direct=1
size=20G
runtime=40
time_based
[random]
rw=randread
bs=4k
iodepth=4
rate_iops=150
[streams]
rw=read
bs=64k
numjobs=2
offset=20G
offset_increment=20G
rate=8m
[large]
rw=randread
bs=256k
rate_iops=20
[writes]
rw=randwrite
bs=16k
rate_iops=30
";

#[test]
fn one_small_run_of_every_policy() {
    let array = ArrayFile::parse(ARRAY, "golden.toml").expect("a valid array").spec;
    let jobs = JobFile::parse(JOBS, "golden.fio", &JobContext::empty()).expect("valid jobs");
    let mut table =
        String::from("policy               reads by devid 1, 2, 3     mean latency, us\n");
    for policy in mirrorball_core::policies::all() {
        let name = policy.name;
        let policy = PolicyUnderTest::Policy(name);
        let checks = Checks::On;
        let run =
            run(&Simulation { array: &array, job: &jobs, policy, seed: 7, duration: None, checks });
        let record = run.expect("it runs");
        write!(table, "{name:20}").expect("a string takes text");
        for member in &record.members {
            write!(table, " {:6}", member.foreground_reads).expect("a string takes text");
        }
        write!(table, "    ").expect("a string takes text");
        for job in &record.sections {
            let read = &job.read.latency;
            let direction = if read.count() > 0 { read } else { &job.write.latency };
            write!(table, " {:7.0}", direction.mean().0 as f64 / 1e3).expect("a string takes text");
        }
        table.push('\n');
    }
    insta::assert_snapshot!(table);
}

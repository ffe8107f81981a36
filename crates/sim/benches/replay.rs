//! How fast a replay is: lines of a trace that are read, and requests that are simulated.
//!
//! `cargo bench -p mirrorball-sim --bench replay`. The variable `REPLAY_LINES` sets the length of
//! the trace, 1,000,000 lines unless it is set; 10,000,000 lines take 600 MB in the folder for
//! temporary files. The same load is simulated without a trace as well, so the difference is what
//! the trace costs. Of three runs the best counts: other load of the machine only slows one down.

use mirrorball_core::rng::Rng;
use mirrorball_core::units::Nanos;
use mirrorball_disk::array_file::{ArrayFile, ArraySpec};
use mirrorball_sim::engine::{Checks, PolicyUnderTest, Simulation, run};
use mirrorball_sim::job::{JobContext, JobFile};
use mirrorball_trace::TraceFile;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

const ARRAY: &str = "name = \"bench\"\nprofile = \"raid1\"\n[[member]]\nmodel = \"ssd-sata-plp\"\n\
                     count = 2\nsize = \"480GB\"\n";
const OPTIONS: &str = "ioengine=io_uring\ndirect=1\n";
/// Blocks of 4 KiB that the trace reads at random; they fit the array.
const BLOCKS: u64 = 100_000_000;
/// Units of 100 ns from request to request: 25,000 requests/s, less than the array can serve.
const STEP: u64 = 400;
const RUNS: usize = 3;

/// The trace, which is removed in the end.
struct Trace {
    path: PathBuf,
    lines: u64,
}

impl Trace {
    fn write(lines: u64) -> std::io::Result<Trace> {
        let path = std::env::temp_dir().join(format!("mirrorball-{}.csv", std::process::id()));
        let mut file = BufWriter::new(File::create(&path)?);
        let mut rng = Rng::new(1);
        for line in 0..lines {
            let (time, offset) = (128_166_372_000_000_000 + line * STEP, rng.below(BLOCKS) * 4096);
            writeln!(file, "{time},bench,0,Read,{offset},4096,2000")?;
        }
        file.flush()?;
        Ok(Trace { path, lines })
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        // Nothing can be done about a file that stays.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn read_lines(path: &Path) -> u64 {
    let trace = TraceFile::new(path, None, None).expect("a trace");
    let mut reader = trace.open(1).expect("it can be opened");
    let mut records = 0;
    while reader.next_record().expect("a valid line").is_some() {
        records += 1;
    }
    records
}

fn job(options: &str) -> JobFile {
    let text = format!("[job]\n{OPTIONS}{options}");
    JobFile::parse(&text, "bench.fio", &JobContext::process()).expect("a valid job")
}

/// Number of reads that the whole job makes.
fn simulate(array: &ArraySpec, job: &JobFile, duration: Option<Nanos>) -> u64 {
    let (policy, checks) = (PolicyUnderTest::Policy("btrfs/pid"), Checks::Off);
    let simulation = Simulation { array, job, policy, seed: 1, duration, checks };
    run(&simulation).expect("it runs").sections[0].read.latency.count()
}

/// Prints what one of the `count` requests takes.
fn print_rate(name: &str, count: u64, mut work: impl FnMut() -> u64) {
    let time = |work: &mut dyn FnMut() -> u64| {
        let start = Instant::now();
        assert_eq!(work(), count, "{name}: all requests are counted");
        start.elapsed().as_secs_f64()
    };
    let best = (0..RUNS).map(|_| time(&mut work)).fold(f64::INFINITY, f64::min);
    let count = count as f64;
    println!("{name:44} {:7.0} ns {:7.2} M/s", best / count * 1e9, count / best / 1e6);
}

fn main() {
    let lines = std::env::var("REPLAY_LINES")
        .map_or(1_000_000, |lines| lines.parse().expect("REPLAY_LINES is a number of lines"));
    let trace = Trace::write(lines).expect("the folder for temporary files has room");
    let array = ArrayFile::parse(ARRAY, "bench.toml").expect("a valid array").spec;
    println!("{lines} requests of 4 KiB, two SSDs, btrfs/pid; time and rate of each request");
    print_rate("lines read", trace.lines, || read_lines(&trace.path));
    let replay = format!("read_iolog={}\n", trace.path.display());
    let drawn = format!("rw=randread\nbs=4k\nnorandommap\nnumber_ios={lines}\n");
    let cases = [
        (
            "as fast as possible, depth 32: replayed",
            format!("{replay}replay_no_stall=1\niodepth=32\n"),
        ),
        ("as fast as possible, depth 32: drawn", format!("{drawn}iodepth=32\n")),
        ("25,000 requests/s: replayed", replay.clone()),
        ("25,000 requests/s: drawn", format!("{drawn}iodepth=1024\nrate_iops=25000\n")),
    ];
    for (name, options) in cases {
        let job = job(&options);
        print_rate(name, lines, || simulate(&array, &job, None));
    }
}

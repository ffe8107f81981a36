//! Prints the requests of a job file on a disk that answers at once: section, kind, offset, length.
//!
//!     requests FILE [SEED [VOLUME_BYTES]]

use mirrorball_core::units::Nanos;
use mirrorball_sim::job::{JobContext, JobFile};
use mirrorball_sim::workload::{CloneSpec, Next, Workload};
use std::error::Error;
use std::io::{BufWriter, Write, stdout};

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("missing FILE: a job file")?;
    let number = |at, default| std::env::args().nth(at).map_or(Ok(default), |it| it.parse());
    let (seed, volume_bytes) = (number(2, 1)?, number(3, 1 << 50)?);
    let text = String::from_utf8_lossy(&std::fs::read(&path)?).into_owned();
    let file = JobFile::parse(&text, &path, &JobContext::process())?;
    file.validate_against(volume_bytes)?;
    let mut out = BufWriter::new(stdout().lock());
    for job in &file.sections {
        let group_start = Nanos::ZERO;
        let spec = CloneSpec { clone: 0, volume_bytes, group_start, seed };
        let mut workload = Workload::new(job, spec);
        let mut now = Nanos::ZERO;
        loop {
            match workload.next(now) {
                Next::Issue(issue) => {
                    let (kind, offset, length) = (issue.kind, issue.offset, issue.length);
                    writeln!(out, "{} {kind:?} {offset} {length}", job.index)?;
                    workload.complete(issue.kind, now);
                }
                Next::NotBefore(later) => now = later,
                Next::Wait | Next::Done => break,
            }
        }
    }
    Ok(())
}

//! Which threads read, as the kernel accounts it, while fio runs.
//!
//! Each job of fio is a process that reads by itself. With `io_uring` the kernel has threads that
//! read for it as well, each with a number of its own.

use super::process_tree::{bytes_read_by_threads_of, children_of};

/// A thread that has read less than this part of what its job has does not count.
const PART_MIN: f64 = 0.1;

/// The readers of each job of fio, by the first appearance of the job.
#[derive(Default)]
pub(super) struct ReaderLog {
    jobs: Vec<JobReaders>,
}

struct JobReaders {
    process: u32,
    /// Bytes that its threads have read, also of those that have ended.
    threads: Vec<(u32, u64)>,
}

impl ReaderLog {
    pub(super) fn look(&mut self, fio: u32) {
        for process in children_of(fio) {
            self.add(process, &bytes_read_by_threads_of(process));
        }
    }

    fn add(&mut self, process: u32, threads: &[(u32, u64)]) {
        let place = self.jobs.iter().position(|job| job.process == process);
        let place = place.unwrap_or_else(|| {
            self.jobs.push(JobReaders { process, threads: Vec::new() });
            self.jobs.len() - 1
        });
        let known = &mut self.jobs[place].threads;
        for (thread, bytes) in threads {
            match known.iter_mut().find(|it| it.0 == *thread) {
                Some(it) => it.1 = *bytes,
                None => known.push((*thread, *bytes)),
            }
        }
    }

    /// The numbers of the threads that count; a job stands for itself until something is read.
    pub(super) fn numbers(&self) -> Vec<u32> {
        self.jobs.iter().flat_map(JobReaders::numbers).collect()
    }
}

impl JobReaders {
    fn numbers(&self) -> Vec<u32> {
        let all: u64 = self.threads.iter().map(|thread| thread.1).sum();
        if all == 0 {
            return vec![self.process];
        }
        let counts = |thread: &&(u32, u64)| thread.1 as f64 >= PART_MIN * all as f64;
        self.threads.iter().filter(counts).map(|thread| thread.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::ReaderLog;

    #[test]
    fn threads_count_that_read_a_part_of_their_job() {
        let mut log = ReaderLog::default();
        assert!(log.numbers().is_empty());
        log.add(100, &[(100, 0)]);
        log.add(101, &[]);
        assert_eq!(log.numbers(), [100, 101], "before something is read");
        // A thread of io_uring reads for the second job; another one of the first hardly reads.
        log.add(100, &[(100, 4096), (107, 0)]);
        log.add(101, &[(101, 0), (105, 40_960)]);
        assert_eq!(log.numbers(), [100, 105]);
        log.add(100, &[(100, 400_000), (107, 4096)]);
        assert_eq!(log.numbers(), [100, 105]);
        log.add(100, &[(100, 400_000), (107, 400_000)]);
        assert_eq!(log.numbers(), [100, 107, 105]);
    }
}

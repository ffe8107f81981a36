//! Cost of one simulated read inside a model: every built-in profile, random 4 KiB reads in
//! closed loop at depths 1, 4 and 32.
//!
//! A simulation of eight hard disks has to reach 1.5 million reads per second and core, and one of
//! two solid-state disks 5 million (ARCHITECTURE.md, performance); the models are the larger part
//! of that. Criterion prints the reads per second as the throughput of each line.
//!
//! Run with `cargo bench -p mirrorball-disk --bench models`.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mirrorball_core::io::Op;
use mirrorball_core::rng::Rng;
use mirrorball_core::units::{Nanos, SECTOR_BYTES};
use mirrorball_disk::model::{Completion, DiskIo, Model};
use mirrorball_disk::profile::ModelProfile;

criterion_group!(benches, reads);
criterion_main!(benches);

fn reads(criterion: &mut Criterion) {
    for profile in ModelProfile::builtins() {
        let mut group = criterion.benchmark_group(format!("reads/{}", profile.name));
        group.throughput(Throughput::Elements(1));
        for depth in [1, 4, 32] {
            let mut readers = Readers::new(&profile, depth);
            group.bench_function(BenchmarkId::from_parameter(depth), |bencher| {
                bencher.iter(|| readers.complete_one());
            });
        }
        group.finish();
    }
}

/// A model with a fixed number of random reads in flight, each replaced as it completes.
struct Readers {
    model: Box<dyn Model>,
    rng: Rng,
    blocks: u64,
    completions: Vec<Completion>,
}

impl Readers {
    fn new(profile: &ModelProfile, depth: u64) -> Readers {
        let mut readers = Readers {
            model: profile.build(1),
            rng: Rng::new(1),
            blocks: profile.capacity_bytes / SECTOR_BYTES,
            completions: Vec::new(),
        };
        for tag in 0..depth {
            readers.submit(Nanos::ZERO, tag);
        }
        readers
    }

    fn submit(&mut self, now: Nanos, tag: u64) {
        let offset = self.rng.below(self.blocks) * SECTOR_BYTES;
        self.model.submit(now, DiskIo { tag, op: Op::Read, offset, length: SECTOR_BYTES });
    }

    /// Goes on to the next completion and submits another read in its place.
    fn complete_one(&mut self) {
        loop {
            if let Some(completion) = self.completions.pop() {
                return self.submit(completion.at, completion.tag);
            }
            let now = self.model.next_event().expect("reads are in flight");
            self.model.advance(now, &mut self.completions);
        }
    }
}

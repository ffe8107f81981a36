//! How long parity takes per byte of data: computed for a full stripe, updated, recovered.
//!
//! The bound is 0.2 ns a byte.

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use mirrorball_parity::StripeBytes;
use std::hint::black_box;

/// Data and parities of the stripe: five disks of raid5, six of raid6 and twelve of it.
const SHAPES: [(usize, usize); 3] = [(4, 1), (4, 2), (10, 2)];
const COLUMN_BYTES: usize = 64 << 10;

fn syndromes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("parity");
    for (data, parities) in SHAPES {
        let exponents: Vec<u8> = (0..data as u8).collect();
        let mut bytes: Vec<u8> = (0..(data + parities) * COLUMN_BYTES).map(|at| at as u8).collect();
        let mut stripe = StripeBytes::new(&mut bytes, &exponents, parities);
        let shape = format!("{data}+{parities}");
        group.throughput(Throughput::Bytes((data * COLUMN_BYTES) as u64));
        group.bench_function(BenchmarkId::new("compute", &shape), |bencher| {
            bencher.iter(|| stripe.compute(black_box(0..COLUMN_BYTES)));
        });
        let lost: Vec<usize> = (0..parities).collect();
        group.bench_function(BenchmarkId::new("recover", &shape), |bencher| {
            bencher.iter(|| stripe.recover(black_box(0..COLUMN_BYTES), &lost, &lost));
        });
        let new = vec![0x3c; COLUMN_BYTES];
        group.throughput(Throughput::Bytes(COLUMN_BYTES as u64));
        group.bench_function(BenchmarkId::new("update", &shape), |bencher| {
            bencher.iter(|| stripe.update(black_box(data - 1), 0, &new, [true; 2]));
        });
    }
    group.finish();
}

criterion_group!(benches, syndromes);
criterion_main!(benches);

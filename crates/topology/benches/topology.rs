//! Budget: the largest machine loads in less than 50 ms.

use std::hint::black_box;
use std::path::{Path, PathBuf};

use criterion::{Criterion, criterion_group, criterion_main};

#[path = "../tests/it/fixture.rs"]
#[expect(
    dead_code,
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "it belongs to the tests, which use more of it"
)]
mod fixture;

fn load(c: &mut Criterion) {
    let mut group = c.benchmark_group("topology/load");
    let ppc = fixture::unpack("256ppc-8n8s4t");
    group.bench_function("sysfs/256ppc-8n8s4t", |b| {
        b.iter(|| topology::sysfs::read(black_box(&ppc.0)));
    });
    group.bench_function("sysfs/this", |b| {
        b.iter(|| topology::sysfs::read(black_box(Path::new("/"))));
    });
    let xml: PathBuf = fixture::path("xml/192em64t-24n8c2t.v2.xml");
    group.bench_function("xml/192em64t-24n8c2t", |b| {
        b.iter(|| topology::xml::read(black_box(&xml)));
    });
    group.bench_function("synthetic/64x8x2", |b| {
        b.iter(|| topology::synthetic::parse(black_box("64x8x2")));
    });
    group.finish();
}

criterion_group!(benches, load);
criterion_main!(benches);

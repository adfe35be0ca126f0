//! The parts of a catalog one by one, in CPU time of all threads.
//!
//! `make bench` holds discovery to its bars; this tells which part of it became slower.

#[path = "../../bench/src/tree.rs"]
mod tree;

use std::hint::black_box;
use std::time::Duration;

use criterion::measurement::{Measurement, ValueFormatter, WallTime};
use criterion::{BatchSize, BenchmarkId, Criterion, SamplingMode, criterion_group, criterion_main};
use prowess_catalog::skill::Location;
use prowess_catalog::{Catalog, OverviewOptions, Root, ScanOptions, Skill};
use rustix::time::{ClockId, clock_gettime};

/// The CPU time of the process: user and system, of all threads.
struct CpuTime;

impl CpuTime {
    fn now() -> Duration {
        clock_gettime(ClockId::ProcessCPUTime).try_into().unwrap_or_default()
    }
}

impl Measurement for CpuTime {
    type Intermediate = Duration;
    type Value = Duration;

    fn start(&self) -> Duration {
        Self::now()
    }

    fn end(&self, start: Duration) -> Duration {
        Self::now().saturating_sub(start)
    }

    fn add(&self, a: &Duration, b: &Duration) -> Duration {
        *a + *b
    }

    fn zero(&self) -> Duration {
        Duration::ZERO
    }

    fn to_f64(&self, value: &Duration) -> f64 {
        WallTime.to_f64(value)
    }

    fn formatter(&self) -> &dyn ValueFormatter {
        WallTime.formatter()
    }
}

/// A directory of `count` skills and the root that it is.
fn skills(count: usize) -> (tempfile::TempDir, [Root; 1]) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    tree::write(directory.path(), count).expect("skills in it");
    let root = Root::explicit(directory.path());
    (directory, [root])
}

fn discovery(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("discover");
    group.sampling_mode(SamplingMode::Flat);
    for count in [100, 1_000, 10_000] {
        let (_directory, roots) = skills(count);
        group.bench_with_input(BenchmarkId::from_parameter(count), &roots, |bencher, roots| {
            bencher.iter_with_large_drop(|| Catalog::discover(roots, &ScanOptions::default()));
        });
    }
    group.finish();
}

fn refresh(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("refresh");
    group.sampling_mode(SamplingMode::Flat);
    let (_directory, roots) = skills(10_000);
    let catalog = Catalog::discover(&roots, &ScanOptions::default());
    group.bench_function("10000 unchanged", |bencher| {
        bencher.iter(|| catalog.refreshed(&roots, &ScanOptions::default()));
    });
    group.finish();
}

fn parsing(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("parse");
    for (kind, number) in [("plain", 8), ("folded", 9)] {
        let source = tree::manifest(number);
        let location = Location::new(format!("/skills/skill-{number}/SKILL.md"));
        group.bench_function(kind, |bencher| {
            bencher.iter(|| Skill::parse(black_box(source.as_bytes()), &location));
        });
    }
    group.finish();
}

fn reading(criterion: &mut Criterion<CpuTime>) {
    let (_directory, roots) = skills(1_000);
    let view = Catalog::discover(&roots, &ScanOptions::default()).view_all();
    criterion.bench_function("overview/1000", |bencher| {
        bencher.iter(|| view.overview(&OverviewOptions::default()));
    });
    for count in [1_000, 10_000] {
        let (_directory, roots) = skills(count);
        criterion.bench_function(&format!("index/{count}"), |bencher| {
            let discover = || Catalog::discover(&roots, &ScanOptions::default());
            bencher.iter_batched(discover, |catalog| catalog.index().words(), BatchSize::LargeInput);
        });
        let view = Catalog::discover(&roots, &ScanOptions::default()).view_all();
        criterion.bench_function(&format!("search/{count}"), |bencher| {
            bencher.iter(|| view.search(black_box("check signed invoices before sending")));
        });
    }
}

criterion_group! {
    name = catalog;
    config = Criterion::default()
        .with_measurement(CpuTime)
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(3));
    targets = discovery, refresh, parsing, reading
}
criterion_main!(catalog);

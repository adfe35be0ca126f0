use prowess_catalog::*;
use std::time::*;
fn cpu() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 * 1e3 + t.tv_nsec as f64 / 1e6
}
fn main() {
    let p = std::env::args().nth(1).unwrap();
    if std::env::args().nth(2).is_some() {
        let o = ScanOptions::default();
        let roots = [Root::explicit(&p)];
        let c = Catalog::discover(&roots, &o);
        for _ in 0..150 {
            std::hint::black_box(c.refreshed(&roots, &o));
        }
        return;
    }
    let mut best = [f64::MAX; 4];
    for _ in 0..10 {
        let c = cpu();
        let names: Vec<_> =
            std::fs::read_dir(&p).unwrap().map(|e| e.unwrap().path().join("SKILL.md")).collect();
        std::thread::scope(|s| {
            for part in names.chunks(names.len().div_ceil(2)) {
                s.spawn(move || {
                    let mut b = vec![0u8; 64 * 1024];
                    let mut t = 0;
                    for n in part {
                        use std::io::Read;
                        let mut f = std::fs::File::open(n).unwrap();
                        t += f.read(&mut b).unwrap();
                    }
                    std::hint::black_box(t);
                });
            }
        });
        best[0] = best[0].min(cpu() - c);
        let o = ScanOptions::default();
        let roots = [Root::explicit(&p)];
        let c = cpu();
        let w = Instant::now();
        let cat = Catalog::discover(&roots, &o);
        best[1] = best[1].min(cpu() - c);
        let _ = w;
        let c = cpu();
        let again = cat.refreshed(&roots, &o);
        best[2] = best[2].min(cpu() - c);
        assert!(again.is_same(&cat));
        assert_eq!(cat.entries().len(), names.len());
        let c = cpu();
        for e in cat.entries().iter().take(1) {
            std::hint::black_box(e);
        }
        drop(cat);
        drop(again);
        best[3] = best[3].min(cpu() - c);
    }
    println!(
        "floor {:.1} cold {:.1} ({:.2}x) warm {:.1} ({:.2}x) drop {:.1}",
        best[0],
        best[1],
        best[1] / best[0],
        best[2],
        best[2] / best[0],
        best[3]
    );
}

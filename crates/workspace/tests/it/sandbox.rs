//! The local executor against real processes.
use prowess_workspace::executor::local::{LocalExecutor, LocalOptions, sandbox_owner};
use prowess_workspace::{Command, Executor, NoSink};

#[tokio::test]
async fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    for part in ["skills", "work", "out", "runs"] {
        std::fs::create_dir(dir.path().join(part)).unwrap();
    }
    if let Some((u, g)) = sandbox_owner() {
        for part in ["", "skills", "work", "out", "runs"] {
            std::os::unix::fs::chown(dir.path().join(part), Some(u), Some(g)).unwrap();
        }
    }
    let executor = LocalExecutor::new(LocalOptions::default());
    println!("{:?}", executor.probe().await);
    let line = std::env::var("LINE").unwrap_or("echo hi; id; env; ls -la /proc/self/fd /proc/1/fd; cat /proc/1/cmdline | tr '\\0' ' '; ulimit -a; cat /proc/self/cgroup".into());
    let done = executor.run(Command::new(dir.path(), "work", line), &NoSink).await.unwrap();
    println!("{}\n--\n{}\n{:?} {:?} {:?} {:?}", String::from_utf8_lossy(&done.stdout.head), String::from_utf8_lossy(&done.stderr.head), done.exit, done.duration, done.sandbox, done.warnings);
}

//! Case 95: memory that does not belong to a single process.

use prowess_workspace::{Exit, Level, LocalOptions};

use crate::home::{Home, text};
use crate::modes::in_both_modes;

in_both_modes!(
    case_95_files_in_memory_count,
    case_95_shared_mappings_count,
    case_95_what_is_shared_counts_once,
    case_95_memory_counts_under_landlock,
);

/// Allocates memory, in MiB, and waits to be killed.
const HOLD: &str = r#"perl -e '$x = "x" x ($ARGV[0] << 20); sleep $ARGV[1]'"#;

async fn case_95_files_in_memory_count() {
    let home = Home::new();
    // Neither alone is too much.
    let fill = "head -c 60M /dev/zero > /tmp/x; head -c 12M /dev/zero > /dev/shm/x";
    for (line, exit) in [
        (format!("{fill}; sleep 1"), Exit::Code(0)),
        (format!("{HOLD} 64 1"), Exit::Code(0)),
        (format!("{fill}; {HOLD} 64 100"), Exit::OutOfMemory),
    ] {
        let mut command = home.command(&line);
        command.limits.memory = 128 << 20;
        let finished = home.finish(command).await;
        // A control group kills one of several processes, and then the command itself fails.
        assert_eq!(finished.exit, exit, "{line}: {}", text(&finished));
    }
}

async fn case_95_shared_mappings_count() {
    let home = Home::new();
    let mut command = home.command(
        "exec python3 -c 'import mmap, time; held = [mmap.mmap(-1, 1 << 25) for _ in range(6)]\n\
         for one in held: one.write(bytes(1 << 25))\ntime.sleep(100)'",
    );
    command.limits.memory = 128 << 20;
    let finished = home.finish(command).await;
    assert_eq!(finished.exit, Exit::OutOfMemory, "{}", text(&finished));
}

async fn case_95_what_is_shared_counts_once() {
    let home = Home::new();
    let mut command = home.command(
        "exec python3 -c 'import mmap, os, time; held = mmap.mmap(-1, 1 << 26); held.write(bytes(1 << 26))\n\
         for _ in range(4):\n  if os.fork() == 0: held[::4096]; time.sleep(2); os._exit(0)\n\
         for _ in range(4): os.wait()\nprint(\"once\")'",
    );
    command.limits.memory = 160 << 20;
    let finished = home.finish(command).await;
    assert_eq!((text(&finished).as_str(), finished.exit), ("once\n", Exit::Code(0)));
}

async fn case_95_memory_counts_under_landlock() {
    let mut options = LocalOptions::default();
    (options.least, options.strongest) = (Level::Landlock, Level::Landlock);
    let home = Home::with(options);
    // Four times the limit of address space, of which no process has a quarter.
    let mut command = home.command(&format!("for i in 1 2 3; do {HOLD} 64 100 & done; wait -n; exit 9"));
    command.limits.memory = 128 << 20;
    let finished = home.finish(command).await;
    assert_eq!(
        (finished.exit, finished.sandbox.level),
        (Exit::OutOfMemory, Level::Landlock),
        "{}",
        text(&finished)
    );
}

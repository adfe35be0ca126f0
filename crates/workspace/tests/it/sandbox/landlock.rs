//! Tests of the level without bubblewrap: Landlock and the system call filter.

use std::time::Duration;

use prowess_workspace::executor::local::LocalOptions;
use prowess_workspace::{Executor as _, Exit, Level, Missing};

use crate::home::{Home, processes_with, text, unique};
use crate::modes::{SECRET, in_both_modes};

in_both_modes!(
    landlock_needs_the_user_s_word,
    landlock_holds_files,
    landlock_holds_sockets_and_calls,
    landlock_holds_signals,
    landlock_ends_a_group,
);

/// An executor that does not use bubblewrap.
fn home(least: Level) -> Home {
    let mut options = LocalOptions::default();
    options.strongest = Level::Landlock;
    options.least = least;
    Home::with(options)
}

async fn landlock_needs_the_user_s_word() {
    for least in [Level::Bwrap, Level::BwrapNoproc] {
        let error = home(least).executor.probe().await.unwrap_err();
        assert!(error.to_string().contains("allow the level `landlock`"), "{error}");
    }
    // The executor prefers it to no sandbox, even if no sandbox is allowed.
    for least in [Level::Landlock, Level::None] {
        let sandbox = home(least).executor.probe().await.unwrap();
        assert_eq!(sandbox.level, Level::Landlock);
        assert!(sandbox.missing.contains(&Missing::Namespaces), "{sandbox:?}");
    }
}

async fn landlock_holds_files() {
    let home = home(Level::Landlock);
    let outside = tempfile::tempdir().unwrap();
    std::fs::set_permissions(outside.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let file = outside.path().join("file");
    std::fs::write(&file, "outside").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    for name in ["seen", "other"] {
        std::fs::create_dir(home.path().join("skills").join(name)).unwrap();
        std::fs::write(home.path().join("skills").join(name).join("file"), format!("{name}\n")).unwrap();
    }
    let outside = outside.path().display();
    let line = format!(
        "cat {outside}/file; (echo x > {outside}/file) && echo wrote; (echo x > {outside}/new) && echo made; ls {outside} / /root /home; \
         cat /etc/passwd /etc/hostname /proc/1/environ /proc/$PPID/environ; (echo x > /tmp/x) && echo temporary; \
         (echo x >> $SKILLS_DIR/seen/file) && echo skill; cat $SKILLS_DIR/other/file; (echo x > $WORKSPACE_DIR/x) && echo root; \
         exec 2>&1; cat $SKILLS_DIR/seen/file; ls $WORKSPACE_DIR | wc -l; echo made > $OUTPUT_DIR/x; echo x > $TMPDIR/x; echo x > $HOME/x; echo $PWD > $RUN_DIR/x; ls | wc -l"
    );
    let mut command = home.command(&line);
    command.skills = vec!["seen".to_owned()];
    let finished = home.finish(command).await;
    assert_eq!(finished.sandbox.level, Level::Landlock);
    assert_eq!(String::from_utf8_lossy(&finished.stdout.head), "seen\n4\n0\n", "{}", text(&finished));
    assert_eq!(std::fs::read(home.path().join("out/x")).unwrap(), b"made\n");
    assert_eq!(std::fs::read(file).unwrap(), b"outside");
    assert!(!text(&finished).contains(SECRET.1));
}

async fn landlock_holds_sockets_and_calls() {
    let home = home(Level::Landlock);
    let said = home
        .says(
            "perl -e 'for my $f (1, 2, 10, 16, 17, 40) { for my $t (1, 2, 3, 5) { print qq($f $t\\n) if socket(my $s, $f, $t, 0) } } \
             for my $n (101, 272, 310, 321, 425, 165) { print qq($n\\n) if syscall($n, 0, 0, 0, 0, 0) != -1 } print qq(done\\n)'; \
             (: > /dev/tcp/127.0.0.1/22) 2>/dev/null && echo reached; grep -c . /proc/self/status 2>/dev/null",
        )
        .await;
    assert_eq!(said, "done\n");
}

async fn landlock_holds_signals() {
    let home = home(Level::Landlock);
    let own = std::process::id();
    assert_eq!(
        home.says(&format!("kill -0 {own} 2>/dev/null || echo unreachable; sleep 60 & kill $! && echo own"))
            .await,
        "unreachable\nown\n"
    );
}

async fn landlock_ends_a_group() {
    let home = home(Level::Landlock);
    let mark = unique("landlock");
    let mut command =
        home.command(&format!("bash -c 'trap \"\" TERM; exec -a {mark} sleep 600' & sleep 600"));
    command.limits.timeout = Duration::from_millis(700);
    assert_eq!(home.finish(command).await.exit, Exit::TimedOut);
    let until = std::time::Instant::now() + Duration::from_secs(10);
    while !processes_with(&mark).is_empty() {
        assert!(std::time::Instant::now() < until, "{:?}", processes_with(&mark));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

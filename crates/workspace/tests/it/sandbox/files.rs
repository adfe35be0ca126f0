//! Cases 62, 65 and 69: the files that a command may write, and the directory in which it runs.

use std::os::unix::fs::symlink;

use prowess_workspace::executor::NoSink;
use prowess_workspace::executor::local::LocalOptions;
use prowess_workspace::{ExecuteError, Executor as _};

use crate::home::Home;
use crate::modes::in_both_modes;

in_both_modes!(
    case_62_the_system_and_the_skills_are_read_only,
    case_62_the_workspace_s_parts_cannot_be_swapped,
    case_65_proc_sys_is_read_only,
    case_69_a_directory_outside_is_refused,
    case_69_a_linked_directory_leads_nowhere_outside,
    a_linked_input_is_read_only,
    a_linked_input_s_place_follows_no_link,
    a_bound_prefix_is_there_and_in_path,
    what_is_in_a_private_directory_can_be_used,
    the_whole_machine_cannot_be_bound,
);

async fn case_62_the_system_and_the_skills_are_read_only() {
    let home = Home::new();
    std::fs::create_dir(home.path().join("skills/pdf")).unwrap();
    std::fs::write(home.path().join("skills/pdf/SKILL.md"), "text").unwrap();
    let mut command = home.command(
            "for at in /usr/x /usr/bin/x /etc/x /etc/passwd /bin/x /lib/x / /skills/pdf/SKILL.md /skills/x /work/x; do \
             (echo x >> $at) 2>/dev/null && echo wrote $at; done; \
             rm -rf /skills/pdf 2>/dev/null; mv /skills /work/other 2>/dev/null; chmod 777 /skills/pdf/SKILL.md 2>/dev/null && echo changed; \
             mount -o remount,rw /usr 2>/dev/null && echo remounted; cat /skills/pdf/SKILL.md",
        );
    command.skills = vec!["pdf".to_owned()];
    assert_eq!(crate::home::text(&home.finish(command).await), "text");
    assert_eq!(std::fs::read(home.path().join("skills/pdf/SKILL.md")).unwrap(), b"text");
}

async fn case_62_the_workspace_s_parts_cannot_be_swapped() {
    let home = Home::new();
    let said = home
        .says("for part in skills work out runs; do rmdir /work/$part 2>/dev/null; mv /work/$part /work/old 2>/dev/null; ln -s /etc /work/$part 2>/dev/null; done; ls /work; id -u")
        .await;
    assert_eq!(said, "out\nruns\nskills\nwork\n1000\n");
    for part in ["skills", "work", "out", "runs"] {
        assert!(home.path().join(part).symlink_metadata().unwrap().is_dir(), "{part}");
    }
}

async fn case_65_proc_sys_is_read_only() {
    let home = Home::new();
    let said = home
        .says("for at in /proc/sys/kernel/core_pattern /proc/sys/vm/drop_caches /proc/sys/kernel/hostname /proc/sysrq-trigger /proc/sys/net/ipv4/ip_forward; do (echo 1 > $at) 2>/dev/null && echo wrote $at; done; echo done")
        .await;
    assert_eq!(said, "done\n");
}

async fn case_69_a_directory_outside_is_refused() {
    let home = Home::new();
    for directory in ["../../", "..", "/etc", "work/../..", "work/\0"] {
        let mut command = home.command("pwd");
        command.directory = directory.to_owned();
        let error = home.executor.run(command, &NoSink).await.unwrap_err();
        assert!(matches!(error, ExecuteError::Refused(_)), "{directory:?}: {error}");
    }
    let mut command = home.command("pwd");
    command.directory = "work/absent".to_owned();
    let error = home.executor.run(command, &NoSink).await.unwrap_err();
    assert!(matches!(&error, ExecuteError::Refused(why) if why.contains("work/absent")), "{error}");
}

async fn case_69_a_linked_directory_leads_nowhere_outside() {
    let home = Home::new();
    symlink("/root", home.path().join("work/away")).unwrap();
    let mut command = home.command("pwd -P; ls");
    command.directory = "work/away".to_owned();
    assert!(home.executor.run(command, &NoSink).await.is_err());
}

async fn a_linked_input_is_read_only() {
    let home = Home::new();
    let host = tempfile::tempdir().unwrap();
    std::fs::set_permissions(host.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::write(host.path().join("in.csv"), "a,b\n").unwrap();
    let mut command = home.command("cat inputs/in.csv inputs/all/in.csv; for at in inputs/in.csv inputs/all/new; do (echo x > $at) 2>/dev/null && echo wrote; done");
    command.read_only = vec![
        (host.path().join("in.csv"), "work/inputs/in.csv".to_owned()),
        (host.path().to_owned(), "work/inputs/all".to_owned()),
    ];
    let finished = home.finish(command).await;
    assert_eq!(crate::home::text(&finished), "a,b\na,b\n");
}

async fn a_linked_input_s_place_follows_no_link() {
    let home = Home::new();
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), home.path().join("work/inputs")).unwrap();
    let mut command = home.command("true");
    command.read_only = vec![("/etc/hostname".into(), "work/inputs/name".to_owned())];
    assert!(home.executor.run(command, &NoSink).await.is_err());
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

async fn a_bound_prefix_is_there_and_in_path() {
    let prefix = tempfile::tempdir().unwrap();
    let readable = || <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(prefix.path(), readable()).unwrap();
    std::fs::create_dir(prefix.path().join("bin")).unwrap();
    let tool = prefix.path().join("bin/own-tool");
    std::fs::write(&tool, "#!/bin/sh\necho tool\n").unwrap();
    std::fs::set_permissions(&tool, readable()).unwrap();
    let mut options = LocalOptions::default();
    options.read_only.push(prefix.path().to_owned());
    let home = Home::with(options);
    let said =
        home.says(&format!("own-tool; (echo x > {}) 2>/dev/null || echo closed", tool.display())).await;
    assert_eq!(said, "tool\nclosed\n");
}

async fn what_is_in_a_private_directory_can_be_used() {
    // Like the home directory of root, which `nobody` cannot enter.
    let private = tempfile::tempdir().unwrap();
    std::fs::set_permissions(private.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
    let (workspace, prefix) = (private.path().join("workspace"), private.path().join("prefix"));
    std::fs::create_dir_all(prefix.join("bin")).unwrap();
    std::fs::create_dir(&workspace).unwrap();
    crate::home::lay_out(&workspace);
    std::fs::write(private.path().join("key"), "private").unwrap();
    symlink("/usr/bin/env", prefix.join("bin/own-env")).unwrap();
    let mut options = LocalOptions::default();
    options.read_only.push(prefix.clone());
    let home = Home::with(options);
    let mark = crate::home::unique("private");
    let mut command = home.command(&format!(
        "own-env true && echo made > $OUTPUT_DIR/file; ls /mnt; cat {0}/key; echo ok",
        private.path().display()
    ));
    command.workspace.clone_from(&workspace);
    let finished = home.finish(command.clone()).await;
    assert_eq!(
        (finished.stdout.head.as_slice(), std::fs::read(workspace.join("out/file")).unwrap()),
        (&b"ok\n"[..], b"made\n".to_vec())
    );
    command.line = format!("setsid bash -c 'exec -a {mark} sleep 600' & sleep 600");
    command.limits.timeout = std::time::Duration::from_millis(700);
    assert_eq!(home.finish(command).await.exit, prowess_workspace::Exit::TimedOut);
    assert!(crate::home::processes_with(&mark).is_empty());
}

async fn the_whole_machine_cannot_be_bound() {
    for path in ["/", "/proc/self", "/dev", "relative"] {
        let mut options = LocalOptions::default();
        options.read_only.push(path.into());
        let error = Home::with(options).executor.probe().await.unwrap_err();
        assert!(error.to_string().contains("commands cannot be given"), "{error}");
    }
}

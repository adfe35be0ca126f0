//! Cases 55, 56 and 66 to 68: what a command sees of this machine, and what it leaves for the next one.

use prowess_workspace::executor::NoSink;
use prowess_workspace::executor::local::LocalOptions;
use prowess_workspace::{ExecuteError, Executor as _, Level};

use crate::home::{Home, text};
use crate::modes::{LEFT_OPEN, Mode, SECRET, again, in_both_modes};

in_both_modes!(
    case_55_no_host_secret_shows,
    case_55_a_request_s_variables_are_not_in_command_lines,
    case_56_no_private_file_is_there,
    case_66_loaders_are_refused,
    case_66_an_allowed_loader_never_reaches_the_launcher,
    case_67_inherited_descriptors,
    case_67_inherited_descriptors_of_every_number,
    case_68_a_planted_profile,
    secrets_are_redacted_from_both_streams,
);

async fn case_55_no_host_secret_shows() {
    assert_eq!(std::env::var(SECRET.0).unwrap(), SECRET.1, "the test has the secret that must not show");
    let home = Home::new();
    let said = home
        .says("env; cat /proc/*/environ /proc/*/cmdline /proc/*/task/*/environ | tr '\\0' '\\n'; set")
        .await;
    assert!(!said.contains(SECRET.1) && !said.contains(SECRET.0), "{said}");
    assert!(!said.contains("PROWESS_TEST_MODE") && !said.contains("CARGO"), "{said}");
    assert!(said.contains("WORKSPACE_DIR=/work") && said.contains("HOME=/tmp/home"), "{said}");
}

async fn case_55_a_request_s_variables_are_not_in_command_lines() {
    let home = Home::new();
    let mut command = home.command(
        "echo $API_KEY; cat /proc/*/cmdline; touch $WORK_DIR/up; while [ -e up ]; do sleep 0.02; done",
    );
    command.environment.insert("API_KEY".into(), "key-of-the-request".into());
    let up = home.path().join("work/up");
    let look = async {
        while !up.exists() {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        let shown = crate::home::processes_with("key-of-the-request");
        std::fs::remove_file(&up).unwrap();
        shown
    };
    let (finished, shown) = tokio::join!(home.finish(command), look);
    assert_eq!(text(&finished).matches("key-of-the-request").count(), 1);
    assert!(shown.is_empty(), "{shown:?}");
}

async fn case_56_no_private_file_is_there() {
    let home = Home::new();
    let private = "/root /home /etc/shadow /etc/gshadow /etc/ssh /var /boot /sys /run /mnt /opt /srv /etc/ssl/private ~/.ssh";
    let said = home
        .says(&format!("for at in {private}; do [ -e $at ] && echo $at; done; ls /; cat /etc/passwd"))
        .await;
    let passwd =
        "skill:x:1000:1000:skill:/tmp/home:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n";
    let top: Vec<&str> = said.strip_suffix(passwd).unwrap_or_else(|| panic!("{said}")).lines().collect();
    let system = ["bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr"];
    let known = [&system[..], &[".places", "skills", "work", "ws"]].concat();
    assert!(top.iter().all(|name| known.contains(name)), "{top:?}");
}

async fn case_66_loaders_are_refused() {
    let home = Home::new();
    for name in
        ["LD_PRELOAD", "LD_LIBRARY_PATH", "BASH_ENV", "ENV", "PYTHONSTARTUP", "HOME", "BASH_FUNC_ls%%"]
    {
        let mut command = home.command("true");
        command.environment.insert(name.to_owned(), "/work/work/x".into());
        let error = home.executor.run(command, &NoSink).await.unwrap_err();
        assert!(matches!(&error, ExecuteError::Refused(why) if why.contains(name)), "{error}");
    }
}

async fn case_66_an_allowed_loader_never_reaches_the_launcher() {
    let mut options = LocalOptions::default();
    options.allow_loaders.extend(["LD_PRELOAD".to_owned(), "BASH_ENV".to_owned()]);
    let home = Home::with(options);
    let planted = home.path().join("work/planted.so");
    std::fs::write(&planted, "no library").unwrap();
    let mut command = home.command("echo inside; bash -c 'echo child'");
    command.environment.insert("LD_PRELOAD".into(), planted.to_str().unwrap().to_owned());
    command.environment.insert("BASH_ENV".into(), "/work/work/planted.sh".into());
    std::fs::write(home.path().join("work/planted.sh"), "echo sourced").unwrap();
    let finished = home.finish(command).await;
    // The local path does not exist inside: the loader complains once for each program.
    let errors = String::from_utf8_lossy(&finished.stderr.head).into_owned();
    assert!(errors.lines().all(|line| line.contains("cannot be preloaded")), "{errors}");
    let said = String::from_utf8_lossy(&finished.stdout.head).into_owned();
    assert!(said.starts_with("sourced\ninside\nsourced\nchild\n"), "{said}");
}

async fn case_67_inherited_descriptors() {
    let left_open = std::fs::read_link(format!("/proc/self/fd/{LEFT_OPEN}")).unwrap();
    assert_eq!(
        left_open,
        std::path::Path::new("/etc/hostname"),
        "the test has a file open that must not show"
    );
    let home = Home::new();
    let said = home
        .says("ls -l /proc/self/fd | grep -o '[0-9]* -> .*'; echo; ls -l /proc/1/fd | grep -o '[0-9]* -> .*'")
        .await;
    let (own, first) = said.split_once("\n\n").unwrap();
    // Input, two outputs, and the listed directory.
    let numbers: Vec<&str> = own.lines().filter_map(|line| line.split(' ').next()).collect();
    assert_eq!(numbers, ["0", "1", "2", "3"], "{said}");
    // The first process has the same descriptors, some of them more than once.
    let mut held: Vec<&str> = first.lines().filter_map(|line| line.split(" -> ").nth(1)).collect();
    held.sort_unstable();
    held.dedup();
    assert!(held.len() == 3 && held[0] == "/dev/null" && held[2].starts_with("pipe:"), "{said}");
}

/// Descriptor numbers that some level uses, and others that none uses.
const NUMBERS: [i32; 5] = [3, 4, 7, 8, LEFT_OPEN];
/// Set in the process that has all of them open.
const HOLDER: &str = "PROWESS_TEST_HOLDER";

/// A process whose parent left files open.
#[test]
fn holder() {
    if std::env::var_os(HOLDER).is_none() {
        return;
    }
    crate::modes::run("sandbox::secrets::holder", Mode::User, async {
        for number in NUMBERS {
            let file = std::fs::read_link(format!("/proc/self/fd/{number}")).unwrap();
            assert_eq!(file, std::path::Path::new("/etc/hostname"), "{number}");
        }
        for level in [Level::Bwrap, Level::BwrapNoproc, Level::Landlock, Level::None] {
            let mut options = LocalOptions::default();
            (options.strongest, options.least) = (level, level);
            let home = Home::with(options);
            let finished = home
                .run("for n in {3..40}; do (eval \": <&$n\") 2>/dev/null && echo $n; done; echo done")
                .await;
            assert_eq!((finished.sandbox.level, text(&finished).as_str()), (level, "done\n"));
        }
    });
}

async fn case_67_inherited_descriptors_of_every_number() {
    let inner = again("sandbox::secrets::holder", Mode::Root, false);
    let open = NUMBERS.map(|number| format!("{number}</etc/hostname")).join(" ");
    let mut holder = std::process::Command::new("/bin/bash");
    holder
        .args(["-c", &format!("exec \"$@\" {open}"), "bash"])
        .arg(inner.get_program())
        .args(inner.get_args());
    let done = holder.env(HOLDER, "1").output().unwrap();
    let said = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(done.status.success() && said.contains("1 passed"), "{said}");
}

async fn case_68_a_planted_profile() {
    let home = Home::new();
    let plant = "for name in .bash_profile .bash_login .profile .bashrc; do for at in $HOME /tmp $WORK_DIR $RUN_DIR $OUTPUT_DIR; do \
                 echo 'echo planted' > $at/$name; done; done; echo ok";
    assert_eq!(home.says(plant).await, "ok\n");
    assert_eq!(home.says("echo $HOME; ls -A $HOME /tmp").await, "/tmp/home\n/tmp:\nhome\n\n/tmp/home:\n");
    assert_eq!(home.says("bash -lic true 2>/dev/null; echo clean").await, "clean\n");
}

async fn secrets_are_redacted_from_both_streams() {
    let mut options = LocalOptions::default();
    options.redact.push("s3cr3t-value".into());
    let home = Home::with(options);
    let finished =
        home.run("printf s3cr; sleep 0.2; echo 3t-value; echo x s3cr3t-value y >&2; printf s3cr").await;
    assert_eq!(finished.stdout.head, b"[redacted]\ns3cr");
    assert_eq!(finished.stderr.head, b"x [redacted] y\n");
    assert!(!format!("{:?}", home.executor).contains("s3cr3t-value"));
}

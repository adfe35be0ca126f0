//! Runs a test in its own process: once as root, which gives up its privileges, and once as a plain user.
//!
//! The process starts as from a careless parent: with a secret in its environment and an open file.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// The user of the test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Root,
    User,
}

/// Set in the child process.
const MARK: &str = "PROWESS_TEST_MODE";
/// A secret in the environment of the process.
pub(crate) const SECRET: (&str, &str) = ("PROWESS_TEST_SECRET", "correct-horse-battery");
/// A descriptor that the process has open.
pub(crate) const LEFT_OPEN: i32 = 19;
/// A user that is not root and owns nothing.
const PLAIN_USER: u32 = 54321;

/// Runs a test in its mode: here if this is the child process, or in a new one.
pub(crate) fn run(test: &str, mode: Mode, work: impl Future<Output = ()>) {
    if std::env::var_os(MARK).is_some() {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        return runtime.block_on(work);
    }
    let root = rustix::process::geteuid().is_root();
    if mode == Mode::Root && !root {
        let waived = std::env::var_os("PROWESS_WAIVE_ROOT").is_some_and(|value| value == "1");
        assert!(waived, "{test} must run as root: do so, or set PROWESS_WAIVE_ROOT=1 to go without");
        return;
    }
    let done = again(test, mode, root).output().unwrap();
    let said = [done.stdout, done.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    assert!(done.status.success() && said.contains("1 passed"), "as {mode:?}: {said}");
}

/// The command that runs this test binary again, for one test.
pub(crate) fn again(test: &str, mode: Mode, root: bool) -> Command {
    let mut command = Command::new("/bin/bash");
    command.args(["-c", &format!("exec \"$@\" {LEFT_OPEN}</etc/hostname"), "bash"]);
    if mode == Mode::User && root {
        let user = PLAIN_USER.to_string();
        command.args([
            "setpriv",
            "--reuid",
            &user,
            "--regid",
            &user,
            "--clear-groups",
            "--inh-caps=-all",
            "--",
        ]);
    }
    command.arg(binary()).args([test, "--exact", "--nocapture", "--test-threads=1"]);
    command.env(MARK, "1").env("RUST_BACKTRACE", "0").env(SECRET.0, SECRET.1).current_dir("/");
    command
}

/// A copy of this binary in a directory that every user can enter.
fn binary() -> &'static PathBuf {
    static COPY: OnceLock<PathBuf> = OnceLock::new();
    COPY.get_or_init(|| {
        let own = std::env::current_exe().unwrap();
        if own.to_string_lossy().contains("prowess-it-") {
            return own;
        }
        let stamp = own
            .metadata()
            .unwrap()
            .modified()
            .unwrap()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap()
            .as_nanos();
        let at = std::env::temp_dir()
            .join(format!("prowess-it-{}-{stamp:x}", rustix::process::geteuid().as_raw()));
        if !at.exists() {
            clear_old();
            let part = at.with_extension(std::process::id().to_string());
            std::fs::copy(own, &part).unwrap();
            std::fs::set_permissions(&part, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
            std::fs::rename(part, &at).unwrap();
        }
        at
    })
}

/// Removes the copies of earlier builds.
fn clear_old() {
    let prefix = format!("prowess-it-{}-", rustix::process::geteuid().as_raw());
    for entry in std::fs::read_dir(std::env::temp_dir()).unwrap().flatten() {
        let old = entry.metadata().and_then(|metadata| metadata.modified()).is_ok_and(|modified| {
            modified.elapsed().is_ok_and(|age| age > std::time::Duration::from_secs(3600))
        });
        if old && entry.file_name().to_string_lossy().starts_with(&prefix) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// Makes two tests of each function, `as_root::name` and `as_user::name`.
macro_rules! in_both_modes {
    ($($name:ident),* $(,)?) => {
        mod as_root { $(
            #[test]
            fn $name() {
                let path = concat!(module_path!(), "::", stringify!($name));
                crate::modes::run(path.split_once("::").unwrap().1, crate::modes::Mode::Root, super::$name());
            }
        )* }
        mod as_user { $(
            #[test]
            fn $name() {
                let path = concat!(module_path!(), "::", stringify!($name));
                crate::modes::run(path.split_once("::").unwrap().1, crate::modes::Mode::User, super::$name());
            }
        )* }
    };
}
pub(crate) use in_both_modes;

/// Makes a test `alone::name` of each function that checks its whole process.
macro_rules! alone {
    ($($name:ident),* $(,)?) => {
        mod alone { $(
            #[test]
            fn $name() {
                let path = concat!(module_path!(), "::", stringify!($name));
                crate::modes::run(path.split_once("::").unwrap().1, crate::modes::Mode::Root, super::$name());
            }
        )* }
    };
}
pub(crate) use alone;

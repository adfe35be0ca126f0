//! Case 94: programs that run as somebody else are not left on the host.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Child, Output, Stdio};

use super::{act, below, said, without_bubblewrap, world};
use crate::chat::{eventually, is_running};
use crate::world::World;

/// Where workspaces are.
const STATE: &str = "home/.local/state/prowess";

/// Makes set-uid and set-gid files in every way that there is, and says what came of each.
const SCRIPT: &str = r"
import ctypes, errno, os, platform, struct
X86 = dict(open=2, creat=85, chmod=90, fchmod=91, mknod=133, openat=257, mknodat=259, fchmodat=268, openat2=437, fchmodat2=452)
ARM = dict(mknodat=33, fchmod=52, fchmodat=53, openat=56, openat2=437, fchmodat2=452)
CALLS = X86 if platform.machine() == 'x86_64' else ARM
libc = ctypes.CDLL(None, use_errno=True)
HERE, MAKE, TEMPORARY, PROGRAM, BITS = -100, os.O_CREAT | os.O_WRONLY, os.O_TMPFILE | os.O_WRONLY, 0o100755, 0o6755
os.umask(0)
def call(name, *given):
    if name not in CALLS: return
    given = [ctypes.c_char_p(one.encode()) if isinstance(one, str) else one if isinstance(one, bytes) else ctypes.c_long(one) for one in given]
    made = libc.syscall(ctypes.c_long(CALLS[name]), *given)
    print(name, 'done' if made >= 0 else errno.errorcode[ctypes.get_errno()])
def plain(path):
    open(path, 'w').close()
    return path
for place in os.environ['OUTPUT_DIR'], os.environ['WORK_DIR']:
    os.makedirs(place + '/deep/er')
    at = lambda name: place + '/deep/er/' + name
    call('chmod', plain(at('chmod')), BITS)
    call('chmod', place, 0o2755)
    call('fchmod', os.open(plain(at('fchmod')), os.O_RDONLY), BITS)
    call('fchmodat', HERE, plain(at('fchmodat')), BITS)
    call('fchmodat2', HERE, plain(at('fchmodat2')), BITS, 0)
    call('creat', at('creat'), BITS)
    call('open', at('open'), MAKE, BITS)
    call('openat', HERE, at('openat'), MAKE, BITS)
    call('openat2', HERE, at('openat2'), struct.pack('QQQ', MAKE, BITS, 0), 24)
    call('mknod', at('mknod'), PROGRAM | BITS, 0)
    call('mknodat', HERE, at('mknodat'), PROGRAM | BITS, 0)
    call('openat', HERE, place, TEMPORARY, BITS)
# What is usual still works, and a mode that nobody reads means nothing.
usual = plain(os.environ['HOME'] + '/usual')
os.chmod(usual, 0o755)
call('openat', HERE, usual, os.O_RDONLY, BITS)
print('ready')
";

/// Files and directories of all workspaces that have a set-uid or set-gid bit.
fn with_set_ids(world: &World) -> Vec<String> {
    let has = |at: &&std::path::PathBuf| std::fs::symlink_metadata(at).unwrap().mode() & 0o6000 != 0;
    let found = below(&world.path(STATE));
    found.iter().filter(has).map(|at| at.file_name().unwrap().to_string_lossy().into_owned()).collect()
}

/// Everything that makes such a bit is refused.
fn is_refused(world: &World, output: &Output) {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.pop(), Some("ready"), "{}", said(output));
    assert_eq!(lines.pop(), Some("openat done"), "{}", said(output));
    let passed: Vec<&&str> = lines.iter().filter(|line| line.ends_with(" done")).collect();
    assert!(passed.is_empty() && lines.contains(&"openat2 ENOSYS"), "{}", said(output));
    assert!(below(&world.path(STATE)).iter().any(|at| at.ends_with("deep/er/chmod")), "the script was here");
    assert_eq!(with_set_ids(world), [""; 0]);
}

#[test]
fn case_94_set_ids_are_refused_in_the_sandbox() {
    let world = world(SCRIPT);
    is_refused(&world, &act(&world, &[], "").output().unwrap());
}

#[test]
fn case_94_set_ids_are_refused_without_bubblewrap() {
    let world = world(SCRIPT);
    let mut command = act(&world, &["--sandbox", "landlock"], "");
    without_bubblewrap(&world, &mut command);
    let output = command.output().unwrap();
    assert!(said(&output).contains("sandbox landlock"), "{}", said(&output));
    is_refused(&world, &output);
}

/// Makes such files in the only workspace, as a command can that no filter of ours holds.
fn plant(world: &World) {
    let output = below(&world.path(STATE)).into_iter().find(|at| at.ends_with("ws/out")).unwrap();
    std::fs::create_dir_all(output.join("deep/er")).unwrap();
    for (name, mode) in [("user", 0o4755), ("group", 0o2755), ("both", 0o6111)] {
        let file = output.join("deep/er").join(name);
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    std::fs::set_permissions(output.join("deep"), std::fs::Permissions::from_mode(0o2755)).unwrap();
    assert_eq!(with_set_ids(world).len(), 4);
}

/// Starts a run that waits for a file `go`, and hears that it is there.
fn waiting(world: &World, session: &str) -> Child {
    let mut command = act(world, &["--session", session], session);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.as_mut().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "up");
    child
}

const WAITS: &str = r"
import os, time
print('up')
while not os.path.exists(os.environ['OUTPUT_DIR'] + '/go'): time.sleep(0.02)
";

#[test]
fn case_94_set_ids_are_gone_when_the_run_ends() {
    let world = world(WAITS);
    let mut child = waiting(&world, "one");
    plant(&world);
    let output = below(&world.path(STATE)).into_iter().find(|at| at.ends_with("ws/out")).unwrap();
    std::fs::write(output.join("go"), "").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(with_set_ids(&world), [""; 0]);
}

#[test]
fn case_94_set_ids_are_gone_with_the_start_after_a_kill() {
    let world = world(WAITS);
    let mark = format!("killed-{}", std::process::id());
    let mut child = waiting(&world, &mark);
    plant(&world);
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("the end of the script", || !is_running(&mark));
    assert_eq!(with_set_ids(&world).len(), 4, "a process that is killed takes no bit away");
    // Any start with the same workspaces sees to it, for whatever session.
    let output = world.output(&["run", "hostile", "--", "true"]);
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(with_set_ids(&world), [""; 0]);
}

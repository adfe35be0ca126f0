//! The 20 published checks of sandboxes, in Python: docs/contributing/security-cases.md lists them.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use prowess_workspace::executor::local::sandbox_owner;
use prowess_workspace::{Command, Exit, Finished, Level};

use crate::home::{Home, processes_with, text, unique};
use crate::modes::{SECRET, in_both_modes};

in_both_modes!(
    check_01_read_etc_passwd,
    check_02_read_an_ssh_key,
    check_03_write_to_the_hosts_tmp,
    check_04_directory_traversal,
    check_05_list_the_root,
    check_06_http_request,
    check_07_dns_query,
    check_08_listen_on_a_port,
    check_09_os_system,
    check_10_subprocess,
    check_11_enumerate_processes,
    check_12_signal_a_process,
    check_13_memory_bomb,
    check_14_fork_bomb,
    check_15_cpu_hog,
    check_16_dynamic_import_of_os,
    check_17_eval_and_exec,
    check_18_changing_built_ins,
    check_19_environment_variables,
    check_20_system_information,
);

/// The start of every program: `refused` returns the error of a call, or reports that it succeeded.
const PRELUDE: &str = "
import errno, os, sys, time
def refused(act, *given):
    try:
        act(*given)
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    return 'done'
def read(path):
    with open(path) as file:
        return file.read()
";

/// A command that runs a Python program with this argument.
fn python(home: &Home, program: &str, argument: &str) -> Command {
    std::fs::write(home.path().join("work/check.py"), format!("{PRELUDE}{program}")).unwrap();
    home.command(&format!("exec /usr/bin/python3 -u check.py '{argument}'"))
}

/// The output of a Python program that succeeds in the full sandbox.
async fn says(home: &Home, program: &str, argument: &str) -> String {
    ended_well(&home.finish(python(home, program, argument)).await)
}

fn ended_well(finished: &Finished) -> String {
    assert_eq!((finished.exit, finished.sandbox.level), (Exit::Code(0), Level::Bwrap), "{}", text(finished));
    text(finished)
}

/// A local file that everyone may read and write.
fn open_to_all(directory: &Path, content: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::Builder::new().prefix("prowess-check-").tempfile_in(directory).unwrap();
    file.write_all(content.as_bytes()).unwrap();
    std::fs::set_permissions(file.path(), std::fs::Permissions::from_mode(0o666)).unwrap();
    file
}

/// Waits until the command has made `work/up`.
async fn is_up(home: &Home) {
    let up = home.path().join("work/up");
    let look = async {
        while !up.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), look).await.unwrap();
}

async fn check_01_read_etc_passwd() {
    let said = says(&Home::new(), "print(read('/etc/passwd'), end='')", "").await;
    let written =
        "skill:x:1000:1000:skill:/tmp/home:/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n";
    assert_eq!(said, written);
    assert!(std::fs::read_to_string("/etc/passwd").unwrap().contains("root:"), "the host's is another");
}

async fn check_02_read_an_ssh_key() {
    // Every user of this machine can read this file: only the sandbox hides it.
    let user = tempfile::tempdir().unwrap();
    let key = user.path().join(".ssh/id_ed25519");
    std::fs::create_dir(user.path().join(".ssh")).unwrap();
    std::fs::write(&key, "-----BEGIN OPENSSH PRIVATE KEY-----").unwrap();
    for at in [user.path(), key.parent().unwrap()] {
        std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let program = r"
key = sys.argv[1]
for path in [key, '/proc/self/root' + key, '/proc/1/root' + key, '/proc/1/cwd' + key]:
    print(refused(read, path))
for path in ['~/.ssh', '/root', '/home', '/etc/ssh', '/run']:
    print(refused(os.listdir, os.path.expanduser(path)))
for top, below, files in os.walk('/'):
    below[:] = [] if top in ('/usr', '/proc') else below
    print(*[top for name in below + files if name == '.ssh' or name.startswith('id_')], end='')
";
    assert_eq!(says(&Home::new(), program, key.to_str().unwrap()).await, "ENOENT\n".repeat(9));
}

async fn check_03_write_to_the_hosts_tmp() {
    let home = Home::new();
    let (theirs, name) = (open_to_all(Path::new("/tmp"), "the host's"), unique("prowess-check"));
    let program = r"
there, new = sys.argv[1].split()
print(refused(read, there))
for path in there, new:
    with open(path, 'w') as file: file.write('changed')
print(sorted(os.listdir('/tmp')) == sorted(os.path.basename(path) for path in ('/tmp/home', there, new)))
";
    let given = format!("{} /tmp/{name}", theirs.path().display());
    assert_eq!(says(&home, program, &given).await, "ENOENT\nTrue\n");
    assert_eq!(std::fs::read_to_string(theirs.path()).unwrap(), "the host's");
    assert!(!Path::new("/tmp").join(name).exists());
    // It wrote to its own directory, which is gone.
    assert_eq!(says(&home, "print(os.listdir('/tmp'))", "").await, "['home']\n");
}

async fn check_04_directory_traversal() {
    let home = Home::new();
    let beside = open_to_all(home.path().parent().unwrap(), "beside the workspace");
    let work = home.path().join("work");
    let up = Path::new("../..").join(beside.path().file_name().unwrap());
    assert!(work.join(&up).exists(), "on the host the path leads to the file");
    symlink(beside.path(), work.join("absolute")).unwrap();
    symlink(&up, work.join("relative")).unwrap();
    let program = r"
beside, up = sys.argv[1].split()
climb = '../' * 20
for path in [up, 'absolute', 'relative', climb + beside, '/skills/../..' + beside, '/proc/self/cwd/' + up,
             climb + 'etc/shadow', climb + 'root', '/proc/1/root/etc/shadow', '/work/../../../etc/shadow']:
    print(refused(os.stat, path))
print(os.path.realpath(climb), os.listdir(climb) == os.listdir('/'))
";
    let given = format!("{} {}", beside.path().display(), up.display());
    let said = says(&home, program, &given).await;
    assert_eq!(said, format!("{}/ True\n", "ENOENT\n".repeat(10)));
}

async fn check_05_list_the_root() {
    let program = r"
print(*sorted(os.listdir('/')))
print(*sorted(os.listdir('/work')))
print(refused(os.mkdir, '/new'), refused(os.rmdir, '/tmp'), refused(os.rename, '/etc', '/other'))
";
    let said = says(&Home::new(), program, "").await;
    let (top, rest) = said.split_once('\n').unwrap();
    let system = ["bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sbin", "tmp", "usr"];
    let known = [&system[..], &[".places", "skills", "work", "ws"]].concat();
    assert!(top.split(' ').all(|name| known.contains(&name)), "{top}");
    let (parts, changes) = rest.split_once('\n').unwrap();
    assert_eq!(parts, "out runs skills work");
    assert!(!changes.contains("done"), "{changes}");
}

async fn check_06_http_request() {
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let program = r"
import urllib.request
for to in ['127.0.0.1:' + sys.argv[1], '[::1]:' + sys.argv[1], 'localhost:' + sys.argv[1], '169.254.169.254',
           '1.1.1.1', '[2606:4700:4700::1111]', 'example.com']:
    for scheme in 'http', 'https':
        print(refused(lambda: urllib.request.urlopen(f'{scheme}://{to}/', timeout=20)))
";
    assert_eq!(says(&Home::new(), program, &port).await, "URLError\n".repeat(14));
    assert!(server.accept().is_err(), "nobody came");
}

async fn check_07_dns_query() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    server.set_nonblocking(true).unwrap();
    let port = server.local_addr().unwrap().port().to_string();
    let program = r"
import socket
print(refused(lambda: socket.getaddrinfo('example.com', 80)) != 'done')
query = bytes.fromhex('000101000001000000000000076578616d706c6503636f6d0000010001')
for to in ('1.1.1.1', 53), ('8.8.8.8', 53), ('127.0.0.1', int(sys.argv[1])):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.settimeout(0.5)
        print(refused(lambda: (asking.connect(to), asking.send(query), asking.recv(512))))
print(os.path.exists('/etc/resolv.conf'))
";
    let said = says(&Home::new(), program, &port).await;
    assert_eq!(said, "True\nENETUNREACH\nENETUNREACH\nECONNREFUSED\nFalse\n");
    assert!(server.recv(&mut [0; 64]).is_err(), "nothing came");
}

async fn check_08_listen_on_a_port() {
    let home = Home::new();
    // This machine uses the port already, so a process that can listen on it has another network.
    let theirs = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = theirs.local_addr().unwrap();
    let program = r"
import socket
listener = socket.create_server(('127.0.0.1', int(sys.argv[1])))
with socket.create_connection(listener.getsockname()):
    print(listener.accept()[1][0])
open('up', 'w').close()
while os.path.exists('up'): time.sleep(0.01)
listener.setblocking(False)
print(refused(listener.accept))
";
    let command = python(&home, program, &address.port().to_string());
    let knock = async {
        is_up(&home).await;
        let mut caller = TcpStream::connect(address).unwrap();
        theirs.accept().unwrap().0.write_all(b"the host's").unwrap();
        let mut heard = String::new();
        caller.read_to_string(&mut heard).unwrap();
        std::fs::remove_file(home.path().join("work/up")).unwrap();
        heard
    };
    let (finished, heard) = tokio::join!(home.finish(command), knock);
    assert_eq!((ended_well(&finished).as_str(), heard.as_str()), ("127.0.0.1\nEAGAIN\n", "the host's"));
}

async fn check_09_os_system() {
    let program = r"
for line in 'id -u', 'cat /etc/shadow', 'echo x > /usr/x', 'mount -o remount,rw /usr', 'exit 3':
    print(os.waitstatus_to_exitcode(os.system(f'({line}) 2>/dev/null')) != 0)
os.system('grep -E ^CapEff /proc/self/status')
";
    // It is allowed, and its children have the same limits.
    let expected = "1000\nFalse\nTrue\nTrue\nTrue\nTrue\nCapEff:\t0000000000000000\n";
    assert_eq!(says(&Home::new(), program, "").await, expected);
    assert!(!Path::new("/usr/x").exists());
}

async fn check_10_subprocess() {
    let mark = unique("child");
    let program = r"
import subprocess
def run(*line):
    return subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL)
held = run('grep', '-E', '^(NoNewPrivs|Seccomp):', '/proc/self/status')
print(held.stdout.split(), run('id', '-u').stdout.strip())
for raising in ['su', '-c', 'id'], ['unshare', '-Ur', 'id'], ['nsenter', '-t', '1', '-m', 'id']:
    print(run(*raising).returncode != 0)
subprocess.Popen(['bash', '-c', f'exec -a {sys.argv[1]} sleep 600'], start_new_session=True)
";
    let said = says(&Home::new(), program, &mark).await;
    assert_eq!(said, "['NoNewPrivs:', '1', 'Seccomp:', '2'] 1000\nTrue\nTrue\nTrue\n");
    assert!(processes_with(&mark).is_empty(), "what it left behind is dead");
}

/// A process of this machine, of the same user as the sandbox.
struct Bystander(std::process::Child);

impl Bystander {
    fn new(mark: &str) -> Self {
        let mut command = std::process::Command::new("/usr/bin/sleep");
        command.arg0(mark).arg("600");
        if let Some((user, group)) = sandbox_owner() {
            command.gid(group).uid(user);
        }
        Self(command.spawn().unwrap())
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

async fn check_11_enumerate_processes() {
    let mark = unique("bystander");
    let _bystander = Bystander::new(&mark);
    let program = r"
numbers = [int(name) for name in os.listdir('/proc') if name.isdigit()]
print(1 in numbers, os.getpid() in numbers, len(numbers) <= 3)
print(*[read(f'/proc/{number}/cmdline').split('\0')[0] for number in sorted(numbers)])
";
    let said = says(&Home::new(), program, "").await;
    assert_eq!(said, "True True True\n/bin/sh /usr/bin/python3\n");
    assert_eq!(processes_with(&mark).len(), 1, "the host has more");
}

async fn check_12_signal_a_process() {
    let home = Home::new();
    let mut bystander = Bystander::new(&unique("bystander"));
    let program = r"
for number in map(int, sys.argv[1].split()):
    print(refused(os.kill, number, 9), refused(os.killpg, number, 9), refused(os.pidfd_open, number))
print(refused(os.kill, 1, 0), refused(os.kill, os.getpid(), 0))
print(refused(os.kill, -1, 9))
";
    let given = format!("{} {}", bystander.0.id(), std::process::id());
    let said = says(&home, program, &given).await;
    assert_eq!(said, "ESRCH ESRCH ESRCH\nESRCH ESRCH ESRCH\ndone done\nESRCH\n");
    assert!(bystander.0.try_wait().unwrap().is_none(), "it lives");
}

async fn check_13_memory_bomb() {
    let home = Home::new();
    let mut command =
        python(&home, "held = []\nwhile True: held.append(b'x' * (1 << 20)); time.sleep(0.003)", "");
    command.limits.memory = 128 << 20;
    let finished = home.finish(command).await;
    assert_eq!(finished.exit, Exit::OutOfMemory, "{}", text(&finished));
    // A single large allocation fails too.
    let mut command = python(&home, "held = b'x' * (3 << 30); print('had', 'it')", "");
    command.limits.memory = 128 << 20;
    let finished = home.finish(command).await;
    assert!(finished.exit != Exit::Code(0) && !text(&finished).contains("had it"), "{}", text(&finished));
    assert_eq!(says(&home, "print('alive')", "").await, "alive\n");
}

async fn check_14_fork_bomb() {
    let home = Home::new();
    let mark = unique("bomb");
    let program = r"
first, told = os.getpid(), False
while True:
    if refused(os.fork) == 'EAGAIN' and os.getpid() == first and not told:
        print('no more')
        told = True
";
    let mut command = python(&home, program, &mark);
    command.limits.timeout = Duration::from_secs(3);
    let started = Instant::now();
    let finished = home.finish(command).await;
    assert_eq!((finished.exit, &finished.stdout.head[..]), (Exit::TimedOut, &b"no more\n"[..]));
    assert!(started.elapsed() < Duration::from_secs(30));
    assert!(processes_with(&mark).is_empty(), "none is left");
    assert_eq!(says(&home, "print('alive')", "").await, "alive\n");
}

async fn check_15_cpu_hog() {
    let home = Home::new();
    let mark = unique("hog");
    let program = r"
import resource, signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(*resource.getrlimit(resource.RLIMIT_CPU))
for _ in range(3):
    if os.fork() == 0: break
while True: pass
";
    let mut command = python(&home, program, &mark);
    command.limits.timeout = Duration::from_secs(2);
    let started = Instant::now();
    let finished = home.finish(command).await;
    assert_eq!((finished.exit, text(&finished).as_str()), (Exit::TimedOut, "3 3\n"));
    assert!(started.elapsed() < Duration::from_secs(20));
    assert!(processes_with(&mark).is_empty(), "none is left");
}

async fn check_16_dynamic_import_of_os() {
    let program = r"
import ctypes, importlib
for module in importlib.import_module('o' + 's'), __import__('posix'), sys.modules['os']:
    print(module.getuid(), refused(module.listdir, '/root'), refused(module.mkdir, '/usr/x'))
system = ctypes.CDLL(None, use_errno=True)
for act in (system.ptrace, 16, 1), (system.mount, 0, 0, 0), (system.chroot, b'/work'), (system.unshare, 0x10000000):
    print(act[0](*act[1:]), errno.errorcode[ctypes.get_errno()])
";
    // It is allowed: the sandbox limits the process, not the language. System calls are limited too.
    let expected = "1000 ENOENT EROFS\n".repeat(3) + &"-1 EPERM\n".repeat(4);
    assert_eq!(says(&Home::new(), program, "").await, expected);
}

async fn check_17_eval_and_exec() {
    let program = r#"
print(eval('6 * 7'))
exec("print(refused(read, '/etc/shadow'), refused(os.mkdir, '/etc/x'))")
exec(compile("import socket; print(refused(socket.create_connection, ('1.1.1.1', 80)))", 'made', 'exec'))
open('made.py', 'w').write('print("written and run")')
exec(read('made.py'))
"#;
    let said = says(&Home::new(), program, "").await;
    assert_eq!(said, "42\nENOENT EROFS\nENETUNREACH\nwritten and run\n");
}

async fn check_18_changing_built_ins() {
    let home = Home::new();
    let program = r"
import builtins, site, subprocess
builtins.ascii = lambda of: 'changed'
print(ascii('x'))
print(subprocess.run([sys.executable, '-c', 'print(ascii(1))'], capture_output=True, text=True).stdout, end='')
for where in [os.path.dirname(os.__file__), *site.getsitepackages(), os.path.dirname(sys.executable)]:
    print(refused(open, where + '/sitecustomize.py', 'w') in ('EROFS', 'ENOENT'))
os.makedirs(site.getusersitepackages())
open(site.getusersitepackages() + '/usercustomize.py', 'w').write('import builtins; builtins.ascii = None')
";
    let said = says(&home, program, "").await;
    let (changed, places) = said.split_once("\n1\n").unwrap();
    assert!(changed == "changed" && places.lines().all(|line| line == "True"), "{said}");
    // Neither another process nor the next run, which has a new HOME, is changed.
    assert_eq!(says(&home, "print(ascii(1))", "").await, "1\n");
}

async fn check_19_environment_variables() {
    assert_eq!(std::env::var(SECRET.0).unwrap(), SECRET.1, "the test has the secret that must not show");
    let program = r"
print(*sorted(os.environ))
print([name for name in os.listdir('/proc') if name.isdigit() and sys.argv[1] in read(f'/proc/{name}/environ')])
";
    let said = says(&Home::new(), program, SECRET.0).await;
    let (names, rest) = said.split_once('\n').unwrap();
    let known =
        "HOME LANG OLDPWD OUTPUT_DIR PATH PWD RUN_DIR SHLVL SKILLS_DIR TMPDIR WORKSPACE_DIR WORK_DIR _";
    let unknown: Vec<&str> =
        names.split(' ').filter(|name| !known.split(' ').any(|other| other == *name)).collect();
    assert!(unknown.is_empty(), "{unknown:?}");
    assert_eq!(rest, "[]\n");
}

async fn check_20_system_information() {
    let program = r"
import ctypes, platform, socket
print(platform.release())
print(platform.node(), socket.gethostname(), os.getuid(), os.getgid(), os.getgroups())
for path in ['/etc/hostname', '/etc/machine-id', '/sys', '/var/log', '/boot']:
    print(refused(os.stat, path))
system = ctypes.CDLL(None, use_errno=True)
print(system.klogctl(10, 0, 0), system.sethostname(b'x', 1), refused(open, '/proc/sys/kernel/hostname', 'w'))
print(os.cpu_count() > 0, 'MemTotal' in read('/proc/meminfo'))
";
    let said = says(&Home::new(), program, "").await;
    let (release, rest) = said.split_once('\n').unwrap();
    // The kernel is that of this machine, and so are its version and the size of the machine.
    assert_eq!(release, std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap().trim());
    let (who, rest) = rest.split_once('\n').unwrap();
    assert!(who.starts_with("sandbox sandbox 1000 1000 "), "{who}");
    assert_eq!(rest, format!("{}-1 -1 EROFS\nTrue True\n", "ENOENT\n".repeat(5)));
}

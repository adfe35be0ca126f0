//! Starts the sandbox of a run by hand.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use prowess_workspace::executor::local::{sandbox_owner, system_call_filter};

use super::{SKILL, text};

/// The command line that [`LocalExecutor`](prowess_workspace::LocalExecutor) starts for `bash -lc true`, with two
/// differences that make it cheaper: it leaves out the four small files of `/etc`, and `prlimit` sets the limits
/// instead of a shell. It reads the system call filter from standard input.
pub(super) struct CommandLine {
    arguments: Vec<String>,
    filter: PathBuf,
}

impl CommandLine {
    /// `mounts` are more arguments of bubblewrap.
    pub(super) fn new(workspace: &Path, scratch: &Path, mounts: &str) -> Result<Self> {
        let filter = scratch.join("filter");
        std::fs::write(&filter, system_call_filter().unwrap_or_default())?;
        let workspace = text(workspace)?;
        let drop_root = "/usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all \
                         --inh-caps=-all --no-new-privs";
        let drop_root = if sandbox_owner().is_some() { drop_root } else { "" };
        let etc = [
            "alternatives",
            "fonts",
            "ld.so.cache",
            "localtime",
            "mime.types",
            "ssl/certs",
            "ssl/openssl.cnf",
        ];
        let etc: String = etc.map(|name| format!(" --ro-bind-try /etc/{name} /etc/{name}")).concat();
        let links = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"].map(|name| {
            let target = std::fs::read_link(format!("/{name}"));
            target.map_or_else(|_| String::new(), |target| format!(" --symlink {} /{name}", target.display()))
        });
        let variables = [
            ("HOME", "/tmp/home".to_owned()),
            ("LANG", "C.UTF-8".to_owned()),
            ("OUTPUT_DIR", "/work/out".to_owned()),
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("RUN_DIR", "/work/runs/1".to_owned()),
            ("SKILLS_DIR", "/skills".to_owned()),
            ("SKILL_NAME", SKILL.to_owned()),
            ("TMPDIR", "/tmp".to_owned()),
            ("WORKSPACE_DIR", "/work".to_owned()),
            ("WORK_DIR", "/work/work".to_owned()),
        ];
        let variables = variables.map(|(name, value)| format!(" --setenv {name} {value}")).concat();
        let line = format!(
            "{drop_root} /usr/bin/prlimit --nproc=4096 --nofile=1024 --fsize=268435456 --core=0 --cpu=61 \
             /usr/bin/bwrap --unshare-user --disable-userns --unshare-ipc --unshare-pid --unshare-net --unshare-uts \
             --unshare-cgroup-try --uid 1000 --gid 1000 --hostname sandbox --new-session --die-with-parent --as-pid-1 \
             --cap-drop ALL --ro-bind /usr /usr{etc}{} --proc /proc --ro-bind /proc/sys /proc/sys --dev /dev \
             --size 16777216 --tmpfs /dev/shm --size 67108864 --perms 1777 --tmpfs /tmp --perms 0700 --dir /tmp/home \
             --bind {workspace}/work /work/work --bind {workspace}/out /work/out --bind {workspace}/runs /work/runs \
             --dir /skills --ro-bind {workspace}/skills/{SKILL} /skills/{SKILL}{mounts} \
             --remount-ro /dev --remount-ro / --clearenv{variables} \
             --chdir /skills/{SKILL} --seccomp 0 -- /bin/bash -lc true",
            links.concat()
        );
        Ok(Self { arguments: line.split_whitespace().map(str::to_owned).collect(), filter })
    }

    /// Runs it to its end.
    pub(super) fn run(&self) -> Result<()> {
        let filter = Stdio::from(File::open(&self.filter)?);
        let output =
            Command::new(&self.arguments[0]).args(&self.arguments[1..]).env_clear().stdin(filter).output()?;
        ensure!(
            output.status.success(),
            "the sandbox by hand failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

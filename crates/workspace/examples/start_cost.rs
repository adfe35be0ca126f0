//! What a run of `true` costs here, beside the same bubblewrap command line started by hand.
//!
//! `cargo run --release -p prowess-workspace --example start_cost`

use std::process::{Command as Process, Stdio};
use std::time::{Duration, Instant};

use prowess_workspace::executor::local::{LocalExecutor, LocalOptions, sandbox_owner, system_call_filter};
use prowess_workspace::{Command, Executor as _, Network, NoSink};

const ROUNDS: usize = 50;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workspace = tempfile::tempdir()?;
    for part in ["skills", "work", "out", "runs"] {
        std::fs::create_dir(workspace.path().join(part))?;
    }
    if let Some((user, group)) = sandbox_owner() {
        for part in [".", "work", "out", "runs"] {
            std::os::unix::fs::chown(workspace.path().join(part), Some(user), Some(group))?;
        }
    }
    std::fs::write(workspace.path().join("filter"), system_call_filter().unwrap_or_default())?;
    let executor = LocalExecutor::new(LocalOptions::default());
    executor.probe().await?;
    let script = by_hand(&workspace.path().display().to_string());
    let (mut ours, mut hand, mut networked) = (Vec::new(), Vec::new(), Vec::new());
    // In turns, so that a loaded machine is unfair to both.
    for _ in 0..ROUNDS {
        let started = Instant::now();
        executor.run(Command::new(workspace.path(), "work", "true"), &NoSink).await?;
        ours.push(started.elapsed());
        let started = Instant::now();
        let filter = std::fs::File::open(workspace.path().join("filter"))?;
        let by_hand =
            Process::new(&script[0]).args(&script[1..]).env_clear().stdin(Stdio::from(filter)).output()?;
        assert!(by_hand.status.success(), "{}", String::from_utf8_lossy(&by_hand.stderr));
        hand.push(started.elapsed());
        let started = Instant::now();
        let mut command = Command::new(workspace.path(), "work", "true");
        command.network = Network::Hosts(vec!["example.com".parse()?]);
        executor.run(command, &NoSink).await?;
        networked.push(started.elapsed());
    }
    let ratio = least(&ours).as_secs_f64() / least(&hand).as_secs_f64();
    #[expect(clippy::print_stdout, reason = "it is what this is for")]
    {
        println!("executor {:?}, by hand {:?}, ratio {ratio:.2}", least(&ours), least(&hand));
        println!("executor with a network {:?}", least(&networked));
    }
    Ok(())
}

fn least(times: &[Duration]) -> Duration {
    times.iter().min().copied().unwrap_or_default()
}

/// The same command line as a person would type it, for `bash -lc true` under the same limits. The filter of
/// system calls comes on standard input, which is the way without a further shell.
fn by_hand(workspace: &str) -> Vec<String> {
    let drop_root = "/usr/bin/setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs";
    let etc =
        ["alternatives", "fonts", "ld.so.cache", "localtime", "mime.types", "ssl/certs", "ssl/openssl.cnf"];
    let etc: String = etc.iter().map(|name| format!(" --ro-bind-try /etc/{name} /etc/{name}")).collect();
    let limits = "/usr/bin/prlimit --nproc=4096 --nofile=1024 --fsize=268435456 --core=0 --cpu=61";
    let sandbox = format!(
        "/usr/bin/bwrap --unshare-user --disable-userns --unshare-ipc --unshare-pid --unshare-net --unshare-uts --unshare-cgroup-try \
         --new-session --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/sbin /sbin --symlink usr/lib /lib \
         --symlink usr/lib64 /lib64{etc} --proc /proc --ro-bind /proc/sys /proc/sys --dev /dev --size 67108864 --tmpfs /tmp \
         --size 16777216 --tmpfs /dev/shm --ro-bind {workspace} /ws --bind {workspace}/work /ws/work --bind {workspace}/out /ws/out \
         --bind {workspace}/runs /ws/runs --clearenv --setenv PATH /usr/local/bin:/usr/bin:/bin --setenv HOME /tmp --cap-drop ALL \
         --chdir /ws/work --remount-ro /dev --remount-ro / --seccomp 0 -- /bin/bash -lc true"
    );
    let drop_root = if sandbox_owner().is_some() { drop_root } else { "" };
    format!("{drop_root} {limits} {sandbox}").split_whitespace().map(str::to_owned).collect()
}

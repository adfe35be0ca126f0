//! The machine of the measurements.

use std::fmt;
use std::path::Path;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The properties of a machine that affect the results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Machine {
    cpu: String,
    cores: usize,
    kernel: String,
    filesystem: String,
    rustc: String,
}

impl Machine {
    /// Describes this machine. `directory` has the skills.
    pub(crate) fn this(directory: &Path) -> Self {
        let unknown = || "unknown".to_owned();
        let first_line =
            |path| std::fs::read_to_string(path).ok().and_then(|text| text.lines().next().map(str::to_owned));
        let rustc = Command::new("rustc").arg("--version").output().ok();
        Self {
            cpu: cpu_model().unwrap_or_else(unknown),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: first_line("/proc/sys/kernel/osrelease")
                .map_or_else(unknown, |release| version(&release)),
            filesystem: filesystem(directory).unwrap_or_else(unknown),
            rustc: rustc
                .and_then(|output| String::from_utf8(output.stdout).ok())
                .map_or_else(unknown, |version| version.trim().to_owned()),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cpu, cores, kernel, filesystem, rustc } = self;
        write!(f, "{cpu}, {cores} cores, kernel {kernel}, {filesystem}, {rustc}")
    }
}

fn cpu_model() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The file system of `directory`: that of the longest mount point above it.
fn filesystem(directory: &Path) -> Option<String> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let above = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (point, kind) = (fields.next()?, fields.next()?);
        directory.starts_with(point).then(|| (point.len(), kind.to_owned()))
    });
    above.max_by_key(|(length, _)| *length).map(|(_, kind)| kind)
}

/// The version without the distributor's suffix, which says nothing about speed.
fn version(release: &str) -> String {
    release.split('-').next().unwrap_or_default().to_owned()
}

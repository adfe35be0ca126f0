//! Prints the report of `prowess doctor` for a person.

use std::io::Write as _;

use anyhow::Result;
use prowess_workspace::{Level, Missing};

use super::report::{ContainersReport, LimitsReport, Program, Report};
use crate::sandbox_level;
use crate::terminal::{Style, Terminal, printable, size, styled};

pub(super) fn print(report: &Report, terminal: &mut Terminal) -> Result<()> {
    let verdict = if report.can_run {
        styled("Skills can run here.", Style::Good)
    } else {
        styled("Skills cannot run here yet.", Style::Bad)
    };
    writeln!(terminal, "{verdict}\n")?;
    let mut rows: Vec<(&str, String)> = Vec::new();
    rows.extend(report.problems.iter().map(|problem| ("to fix", problem.clone())));
    rows.push(("prowess", report.version.to_owned()));
    sandbox(report, &mut rows);
    containers(&report.containers, &mut rows);
    for (label, directory) in [("workspaces", &report.workspaces), ("artifacts", &report.artifacts)] {
        let place = directory.path.as_ref().map_or("nowhere".to_owned(), |path| path.display().to_string());
        let state = if directory.writable { "writable" } else { "not writable" };
        rows.push((label, format!("{place} ({state})")));
        rows.extend(directory.note.iter().map(|note| ("", note.clone())));
    }
    limits(&report.limits, &mut rows);
    for (label, text) in rows {
        let label = styled(format!("{label:<12}"), Style::Faint);
        writeln!(terminal, "  {label} {}", printable(&text))?;
    }
    Ok(())
}

/// The local sandbox: its level, its programs, its network and its memory limit.
fn sandbox(report: &Report, rows: &mut Vec<(&str, String)>) {
    let level = report.sandbox.as_ref().map(|sandbox| describe_level(sandbox.level));
    rows.push(("sandbox", level.unwrap_or_else(|| "none works".to_owned())));
    let missing = report.sandbox.iter().flat_map(|sandbox| &sandbox.missing);
    // Memory has its own row.
    let missing = missing.filter(|missing| **missing != Missing::MemoryGroup);
    rows.extend(missing.map(|missing| ("missing", missing.to_string())));
    rows.push(("bubblewrap", describe_program(&report.bubblewrap)));
    if let Some(setpriv) = &report.setpriv {
        rows.push(("setpriv", format!("{}; drops root before commands run", describe_program(setpriv))));
    }
    rows.push(("network", network(report)));
    let memory = match report.memory_cgroup {
        true => "a control group limits the memory of each command",
        false => {
            "no control group: limited per process and by regular checks; /tmp and /dev/shm count separately"
        }
    };
    rows.push(("memory", memory.to_owned()));
}

fn containers(containers: &ContainersReport, rows: &mut Vec<(&str, String)>) {
    if let Some(engine) = &containers.engine {
        rows.push(("engine", format!("{} {} at {}", engine.name, engine.version, engine.socket.display())));
    }
    let verdict = match &containers.problem {
        None => format!("can run, with the image {}", containers.image),
        Some(problem) => format!("not available (optional): {problem}"),
    };
    rows.push(("containers", verdict));
    rows.extend(containers.advice.iter().map(|advice| ("", advice.clone())));
    rows.extend(containers.missing.iter().map(|missing| ("", missing.to_string())));
}

fn limits(limits: &LimitsReport, rows: &mut Vec<(&str, String)>) {
    let of_command = format!(
        "{} s (--timeout up to {} s), {} of memory, {} processes, {} open files",
        limits.timeout_seconds,
        limits.max_timeout_seconds,
        size(limits.memory_bytes),
        limits.processes,
        limits.open_files
    );
    let of_files = format!(
        "{} per file, {} and {} files per workspace, {} in /tmp, {} of output kept, killed at {}",
        size(limits.file_bytes),
        size(limits.workspace_bytes),
        limits.workspace_files,
        size(limits.temporary_bytes),
        size(limits.output_kept_bytes),
        size(limits.output_bytes)
    );
    rows.extend([("limits", of_command), ("", of_files)]);
}

/// What commands can reach on the network.
fn network(report: &Report) -> String {
    let level = report.sandbox.as_ref().map(|sandbox| sandbox.level);
    match (level, &report.socat.path) {
        (Some(Level::Bwrap | Level::BwrapNoproc), Some(path)) => {
            format!("none, or the hosts of --allow-host, through socat at {}", path.display())
        }
        (Some(Level::Bwrap | Level::BwrapNoproc), None) => {
            format!("none; for --allow-host install the Debian package {}", report.socat.package)
        }
        (Some(Level::None), _) => "unrestricted: commands use the network of this machine".to_owned(),
        _ => "none; --allow-host needs a bwrap sandbox".to_owned(),
    }
}

fn describe_level(level: Level) -> String {
    format!("{level}: {}", sandbox_level::describe(level))
}

fn describe_program(program: &Program) -> String {
    match (&program.path, &program.version) {
        (Some(path), Some(version)) => format!("{version} at {}", path.display()),
        (Some(path), None) => path.display().to_string(),
        (None, _) => format!("not found: install the Debian package {}", program.package),
    }
}

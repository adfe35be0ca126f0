//! `prowess package NAME`

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use prowess_catalog::check::Profile;
use prowess_catalog::package::{PackageError, Packaged};
use serde_json::json;

use crate::commands::CommandOutcome;
use crate::commands::check::{ProfileName, human, machine};
use crate::options::RootArgs;
use crate::terminal::{Terminal, count, printable, size};

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The skill's name, or its directory
    #[arg(add = crate::complete::skills_and_paths())]
    skill: String,
    /// The archive to write [default: NAME.skill in the working directory]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace an existing archive
    #[arg(long)]
    force: bool,
    /// The rules that the skill must follow
    #[arg(long, value_enum, default_value_t = ProfileName::Spec)]
    profile: ProfileName,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    root_args: RootArgs,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let mut archive = std::io::Cursor::new(Vec::new());
    let packaged = match pack(options, &mut archive)? {
        Ok(packaged) => packaged,
        Err(PackageError::Invalid(report)) => {
            if options.json {
                terminal.json(&machine::object(&report))?;
            } else {
                human::report(&report, terminal)?;
            }
            terminal.flush()?;
            writeln!(anstream::stderr(), "not packed: fix what `prowess check` finds first")?;
            return Ok(CommandOutcome::Findings);
        }
        Err(error) => bail!("{error}"),
    };
    if options.output.as_deref() == Some(Path::new("-")) {
        bail!("cannot write an archive to standard output; use --output FILE");
    }
    let output = options.output.clone().unwrap_or_else(|| PathBuf::from(format!("{}.skill", packaged.name)));
    save(&output, archive.get_ref(), options.force)?;
    if options.json {
        terminal.json(&json!({
            "name": packaged.name, "archive": output.to_string_lossy(), "bytes": archive.get_ref().len(),
            "files": packaged.files, "left_out": packaged.left_out,
        }))?;
        return Ok(CommandOutcome::Done);
    }
    for path in &packaged.left_out {
        writeln!(terminal, "left out: {}", printable(path))?;
    }
    let (files, bytes) = (count(packaged.files.len(), "file"), size(archive.get_ref().len() as u64));
    writeln!(terminal, "{}: {files}, {bytes}", printable(&output.to_string_lossy()))?;
    Ok(CommandOutcome::Done)
}

/// Packs a directory, if the argument is a path, or the skill of that name.
fn pack(options: &Options, archive: &mut std::io::Cursor<Vec<u8>>) -> Result<Result<Packaged, PackageError>> {
    let profile = Profile::from(options.profile);
    let path = Path::new(&options.skill);
    if options.skill.contains('/') || options.skill == "." || options.skill == ".." {
        if !path.is_dir() {
            bail!("{}: no such directory", path.display());
        }
        return Ok(prowess_catalog::package::package(path, profile, archive));
    }
    Ok(options.root_args.discover()?.find(&options.skill)?.package(profile, archive))
}

/// Writes the archive completely or not at all.
fn save(path: &Path, bytes: &[u8], force: bool) -> Result<()> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let context = || format!("{} cannot be written", path.display());
    if !parent.is_dir() {
        bail!("{} cannot be written: there is no directory {}", path.display(), parent.display());
    }
    let mut file = tempfile::NamedTempFile::new_in(parent).with_context(context)?;
    file.write_all(bytes).with_context(context)?;
    // Others may read it, unlike other temporary files.
    file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644)).with_context(context)?;
    if force {
        file.persist(path).with_context(context)?;
    } else if let Err(error) = file.persist_noclobber(path) {
        if error.error.kind() == std::io::ErrorKind::AlreadyExists {
            bail!("{} already exists; --force replaces it, --output FILE writes elsewhere", path.display());
        }
        return Err(error).with_context(context);
    }
    Ok(())
}

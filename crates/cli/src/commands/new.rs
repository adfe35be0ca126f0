//! `prowess new NAME`

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use prowess_catalog::skill::Location;
use prowess_catalog::{Code, Environment, RootLayout, Skill, SkillName};
use serde_json::json;

use crate::commands::CommandOutcome;
use crate::directories::real_path;
use crate::terminal::{Style, Terminal, printable, styled};

#[derive(Args, Debug)]
pub(crate) struct Options {
    /// The skill's name: lowercase letters, digits and hyphens
    name: String,
    /// The directory to create it in
    #[arg(long = "in", value_name = "DIR", default_value = ".prowess/skills")]
    parent: PathBuf,
    /// What it does and when to use it
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const DESCRIPTION: &str = "Describe in a sentence what this skill does. Use when the user asks for …";

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let description = options.description.as_deref().unwrap_or(DESCRIPTION);
    if SkillName::parse(&options.name).is_ok_and(|name| name.as_str() != options.name) {
        let name = SkillName::spelling(&options.name);
        bail!("cannot create `{}`: this is not a valid skill name; try `{name}`", printable(&options.name));
    }
    let manifest = manifest(&options.name, description);
    refuse_invalid(&options.name, &manifest)?;

    let directory = options.parent.join(&options.name);
    if directory.symlink_metadata().is_ok() {
        bail!(
            "{} already exists; choose another name, or another directory with --in DIR",
            directory.display()
        );
    }
    // Created under another name and then renamed, so that a skill is never visible half finished.
    std::fs::create_dir_all(&options.parent)
        .with_context(|| format!("cannot create {}", options.parent.display()))?;
    let draft = tempfile::Builder::new()
        .prefix(".new-skill-")
        .tempdir_in(&options.parent)
        .with_context(|| format!("cannot write to {}", options.parent.display()))?;
    for (path, text, mode) in [
        ("SKILL.md", manifest.as_str(), 0o644),
        ("scripts/hello.sh", SCRIPT, 0o755),
        ("references/guide.md", REFERENCE, 0o644),
        ("assets/template.md", ASSET, 0o644),
    ] {
        write(&draft.path().join(path), text, mode)?;
    }
    std::fs::set_permissions(draft.path(), std::fs::Permissions::from_mode(0o755))?;
    std::fs::rename(draft.path(), &directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    // It was renamed: there is nothing to clean up.
    let _ = draft.keep();

    let needs_trust = belongs_to_project(&options.parent);
    if options.json {
        terminal.json(&json!({
            "name": options.name, "directory": directory.to_string_lossy(), "needs_trust": needs_trust,
        }))?;
        return Ok(CommandOutcome::Done);
    }
    let directory = printable(&directory.to_string_lossy());
    writeln!(terminal, "{} {directory}", styled("created", Style::Good))?;
    let next = if options.description.is_some() { "write its instructions" } else { "describe it" };
    writeln!(terminal, "Next: {next} in {directory}/SKILL.md, then run `prowess check {directory}`")?;
    if needs_trust {
        writeln!(
            terminal,
            "It belongs to this project: review it, then run `prowess trust` so that models see it"
        )?;
    }
    Ok(CommandOutcome::Done)
}

/// Whether skills in a directory belong to the project, which must be trusted first.
fn belongs_to_project(parent: &Path) -> bool {
    let (Ok(environment), Ok(parent)) = (Environment::of_process(), real_path(parent)) else {
        return false;
    };
    let roots = RootLayout::default().resolve(&environment);
    let mut of_project = roots.iter().filter(|root| root.kind.belongs_to_project());
    of_project.any(|root| real_path(&root.path).is_ok_and(|path| parent.starts_with(path)))
}

/// Refuses a name or description that would not pass `check`.
fn refuse_invalid(name: &str, manifest: &str) -> Result<()> {
    let location = Location::new(format!("/{}/SKILL.md", name.replace('/', "_")));
    let parsed = Skill::parse(manifest.as_bytes(), &location);
    if let Some(found) = parsed
        .diagnostics
        .iter()
        .find(|found| found.code.fails_strict() || found.code == Code::SuspiciousUnicode)
    {
        let suggestion = SkillName::spelling(name);
        let hint = if suggestion.is_empty() || suggestion == name {
            String::new()
        } else {
            format!("; try `{suggestion}`")
        };
        bail!("cannot create `{}`: {}{hint}", printable(name), found.message);
    }
    Ok(())
}

fn write(path: &Path, text: &str, mode: u32) -> Result<()> {
    let context = || format!("{} cannot be written", path.display());
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).with_context(context)?;
    }
    std::fs::write(path, text).with_context(context)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).with_context(context)
}

fn manifest(name: &str, description: &str) -> String {
    let title: Vec<String> = name
        .split('-')
        .map(|word| {
            let mut letters = word.chars();
            letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
        })
        .collect();
    let quoted = |text: &str| serde_json::Value::from(text).to_string();
    format!(
        "---\nname: {}\ndescription: {}\n---\n\n{}",
        quoted(name),
        quoted(description.trim()),
        BODY.replace("{title}", &title.join(" "))
    )
}

const BODY: &str = "\
# {title}

## When to use

Say which requests this skill is for, and which it is not for.

## Steps

1. Read `references/guide.md` if the request is unusual.
2. Run the script and look at what it prints:

   ```bash
   mkdir -p out && bash scripts/hello.sh world > out/hello.txt
   ```

3. Fill in `assets/template.md` with the result and give it to the user.

## Output files

- `out/hello.txt`: what the script printed.

## Edge cases

- Without an argument the script explains how to call it, and exits with 2.
";

const SCRIPT: &str = "\
#!/usr/bin/env bash
# Greets the person named. Replace it with what your skill does.
set -euo pipefail

if [[ $# -ne 1 || \"$1\" == \"--help\" ]]; then
  echo \"usage: hello.sh NAME\" >&2
  [[ \"${1:-}\" == \"--help\" ]] && exit 0
  exit 2
fi

echo \"Hello, $1!\"
";

const REFERENCE: &str = "\
# Guide

Details that are needed only sometimes belong here, so that SKILL.md stays short.
";

const ASSET: &str = "\
# Result

- what was asked:
- what was done:
";

//! `prowess publish DIR --to SITE-DIR`

use std::io::Write as _;
use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use prowess_catalog::check::CheckReport;
use prowess_install::publish::{PublishError, PublishedSite, PublishedSkill, publish};
use serde_json::{Value, json};

use crate::commands::CommandOutcome;
use crate::commands::check::{ProfileName, human, machine};
use crate::installing::shown;
use crate::progress::Progress;
use crate::terminal::{Terminal, count, printable, size};

const AFTER_HELP: &str = "\
prowess writes SITE-DIR/.well-known/agent-skills/index.json and one file for each skill beside it. The index has the digest of each \
file, and `prowess add` and `skills add` check it. Other files of the site stay as they are. The index has exactly the skills of DIR: \
publish all skills of a site together.

Exit codes: 0 published, 1 a skill is invalid and nothing was published, 2 usage error";

#[derive(Args, Debug)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Options {
    /// A skill, or a directory that contains skills
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: PathBuf,
    /// The directory of the web site; it is created if needed
    #[arg(long, value_name = "SITE-DIR", value_hint = clap::ValueHint::DirPath)]
    to: PathBuf,
    /// The rules that the skills must follow
    #[arg(long, value_enum, default_value_t = ProfileName::Spec)]
    profile: ProfileName,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(options: &Options, terminal: &mut Terminal) -> Result<CommandOutcome> {
    let progress = Progress::start("packing skills");
    let published = publish(&options.directory, &options.to, options.profile.into());
    drop(progress);
    match published {
        Ok(site) if options.json => terminal.json(&site_json(&site))?,
        Ok(site) => tell(options, &site, terminal)?,
        Err(PublishError::Invalid(reports)) => {
            tell_invalid(options, &reports, terminal)?;
            return Ok(CommandOutcome::Findings);
        }
        Err(error) => return Err(error.into()),
    }
    Ok(CommandOutcome::Done)
}

fn tell_invalid(options: &Options, reports: &[CheckReport], terminal: &mut Terminal) -> Result<()> {
    if options.json {
        terminal.json(&reports.iter().map(machine::object).collect::<Vec<_>>())?;
    } else {
        reports.iter().try_for_each(|report| human::report(report, terminal))?;
    }
    terminal.flush()?;
    let invalid = count(reports.len(), "invalid skill");
    writeln!(anstream::stderr(), "nothing was published: fix what `prowess check` finds first ({invalid})")?;
    Ok(())
}

fn tell(options: &Options, site: &PublishedSite, terminal: &mut Terminal) -> Result<()> {
    let row = |skill: &PublishedSkill| {
        let state = if skill.is_new { "new" } else { "unchanged" };
        let files = count(skill.files, "file");
        [printable(&skill.name), skill.kind.as_str().to_owned(), files, size(skill.bytes), state.to_owned()]
            .to_vec()
    };
    let rows: Vec<Vec<String>> = site.skills.iter().map(row).collect();
    terminal.table(&["skill", "type", "files", "size", "state"], &rows)?;
    for skill in &site.skills {
        let name = printable(&skill.name);
        for path in &skill.left_out {
            writeln!(terminal, "left out: {name}/{}", printable(path))?;
        }
        if !skill.exceeded.is_empty() {
            let needed = skill.exceeded.join(" ");
            writeln!(terminal, "{name} is larger than usual; to install it, people must set {needed}")?;
        }
    }
    for name in &site.dropped {
        writeln!(terminal, "no longer in the index: {}", printable(name))?;
    }
    writeln!(terminal, "{} in {}", count(site.skills.len(), "skill"), shown(&site.index))?;
    writeln!(
        terminal,
        "Upload {} to the root of a web server, with its hidden directory. Then everybody can run:\n  \
         prowess add https://HOST\n  npx skills add https://HOST",
        shown(&options.to)
    )?;
    Ok(())
}

fn site_json(site: &PublishedSite) -> Value {
    let skill = |skill: &PublishedSkill| {
        json!({
            "name": skill.name, "type": skill.kind.as_str(), "description": skill.description, "url": skill.url,
            "digest": skill.digest.to_string(), "bytes": skill.bytes, "files": skill.files, "is_new": skill.is_new,
            "left_out": skill.left_out, "limits_to_raise": skill.exceeded,
        })
    };
    json!({
        "index": site.index.to_string_lossy(), "skills": site.skills.iter().map(skill).collect::<Vec<_>>(),
        "no_longer_in_the_index": site.dropped, "removed_files": site.removed,
    })
}

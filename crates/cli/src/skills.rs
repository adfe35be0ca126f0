//! The catalog that a command works on.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use prowess_catalog::scan::Links;
use prowess_catalog::{
    Catalog, Code, Diagnostic, Environment, Root, RootLayout, ScanOptions, Severity, SkillEntry, Storage,
    Trust,
};
use prowess_permission::nearest::nearest;

use crate::config::{Config, OfProject};
use crate::options::RootArgs;
use crate::progress::Progress;
use crate::project::Project;
use crate::terminal::printable;
use crate::trust::{self, TrustStatus};

/// The option that has links followed wherever they lead.
const FOLLOW: &str = "--follow-links";

/// The skills of the places that were asked for.
pub(crate) struct Skills {
    pub(crate) catalog: Catalog,
    /// Where it was looked, and where there may be something later.
    pub(crate) roots: Vec<Root>,
    /// Where a person could put a first skill.
    pub(crate) create_in: Vec<String>,
    /// The project around the working directory, if it was looked at.
    pub(crate) project: Option<Project>,
    /// What of it may be used.
    pub(crate) trust_status: TrustStatus,
}

impl RootArgs {
    /// How to scan.
    pub(crate) fn scan_options(&self) -> ScanOptions {
        let mut options = ScanOptions::default();
        options.hidden = self.hidden;
        options.nested = self.nested;
        options.gitignore = self.gitignore;
        options.max_depth = self.max_depth.unwrap_or(options.max_depth);
        if self.follow_links {
            options.links = Links::Anywhere;
        }
        options
    }

    /// Finds the skills.
    pub(crate) fn discover(&self) -> Result<Skills> {
        self.discover_again(&Catalog::empty())
    }

    /// Finds the skills where some are known: those that did not change are the very same.
    pub(crate) fn discover_again(&self, known: &Catalog) -> Result<Skills> {
        let _progress = Progress::start("looking for skills");
        let skills = self.discover_silently(known, &self.scan_options())?;
        tell_caps(&skills.catalog)?;
        Ok(skills)
    }

    /// The same, scanned in another way, with nothing said.
    pub(crate) fn discover_silently(&self, known: &Catalog, options: &ScanOptions) -> Result<Skills> {
        let surroundings = self.surroundings()?;
        let (project, trust_status) = self.project(&surroundings)?;
        let create_in;
        let mut roots: Vec<Root> = if self.only {
            if surroundings.explicit.is_empty() {
                bail!("--only needs a directory to look in: add --root DIR, or set SKILLS_ROOT");
            }
            create_in = Vec::new();
            surroundings.explicit_roots().collect()
        } else {
            create_in = vec![".prowess/skills".to_owned(), "~/.prowess/skills".to_owned()];
            RootLayout::default().resolve(&surroundings)
        };
        if trust_status == TrustStatus::Whole {
            // Those that were looked at, and none that came meanwhile.
            let known = project.as_ref().map_or(&[][..], Project::roots);
            for root in roots.iter_mut().filter(|root| known.iter().any(|known| known.path == root.path)) {
                root.trust = Trust::Trusted;
            }
        }
        for path in &self.root {
            if !surroundings.working_directory.join(path).is_dir() {
                bail!("{}: no such directory; check --root", path.display());
            }
        }
        // What servers offer stays as it is: whoever knows them asks them.
        let servers =
            known.roots().filter(|root| root.place == Storage::Server).map(|root| Root::clone(root));
        let all: Vec<Root> = servers.chain(roots.iter().cloned()).collect();
        // Entry by entry, as it was looked at: what came meanwhile is not among them.
        let catalog = known.refreshed_trusting(&all, options, trust_status.entries(project.as_ref()));
        Ok(Skills { catalog, roots, create_in, project, trust_status })
    }

    /// The project around, and what of it may be used: what is trusted, or all of it for this command.
    fn project(&self, surroundings: &Environment) -> Result<(Option<Project>, TrustStatus)> {
        let project = Project::around(surroundings, &RootLayout::default());
        let trust_status =
            if self.trust_project { TrustStatus::Whole } else { trust::status(project.as_ref())? };
        Ok((project, trust_status))
    }

    fn surroundings(&self) -> Result<Environment> {
        let mut surroundings = Environment::of_process().context("the working directory cannot be read")?;
        if !self.only {
            let roots = Config::load(&OfProject::Nothing, &[])?.settings.skills.roots;
            let mut roots: Vec<PathBuf> = roots.into_iter().map(|root| root.value.0).collect();
            roots.append(&mut surroundings.explicit);
            surroundings.explicit = roots;
        }
        surroundings.explicit.extend(self.root.iter().cloned());
        Ok(surroundings)
    }
}

impl Skills {
    /// Says in one line what of the project is not trusted, if that leaves skills out.
    pub(crate) fn tell_trust(&self) -> Result<()> {
        if let Some(notice) = self.trust_status.notice_of_skills(self.catalog.untrusted().len()) {
            writeln!(anstream::stderr(), "{notice}")?;
        }
        Ok(())
    }

    /// What counts of the project's configuration.
    pub(crate) fn configuration(&self) -> Result<OfProject> {
        self.trust_status.configuration(self.project.as_ref())
    }

    /// Whether what the project tells models counts.
    pub(crate) fn trusts_memory(&self) -> bool {
        self.project.as_ref().is_some_and(|project| self.trust_status.trusts_memory(project))
    }

    /// One line about what of the project is not trusted, and is not used for that.
    pub(crate) fn notice(&self) -> Option<String> {
        self.trust_status.notice(self.project.as_ref(), self.catalog.untrusted().len())
    }

    /// Links below roots that lead out of them, and so were not followed.
    fn skipped_links(&self) -> impl Iterator<Item = &str> {
        // A root that is such a link is not followed by any flag.
        let is_root = |file: &str| self.roots.iter().any(|root| root.path.to_str() == Some(file));
        let outside = self.catalog.diagnostics().filter(|found| found.code == Code::LinkOutsideRoot);
        outside.map(|found| &*found.file).filter(move |file| !is_root(file))
    }

    /// Says in one line which links were not followed, and how to have them followed.
    pub(crate) fn tell_links(&self) -> Result<()> {
        let mut links = self.skipped_links();
        let Some(first) = links.next().map(printable) else { return Ok(()) };
        let more = links.count();
        let (what, they) = match more {
            0 => ("1 link was".to_owned(), "it leads out of its root"),
            more => (format!("{} links were", more + 1), "they lead out of their roots"),
        };
        let others = if more > 0 { format!(" and {more} more") } else { String::new() };
        writeln!(
            anstream::stderr(),
            "{what} not followed because {they}: {first}{others}; use {FOLLOW} to follow links"
        )?;
        Ok(())
    }

    /// The skill called `name`, trusted or not; else an error that helps.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<SkillEntry>> {
        let untrusted = self.catalog.untrusted().iter().rev().find(|entry| entry.skill.name.as_str() == name);
        let found = self.catalog.get(name);
        if let (Some(_), Some(other)) = (found, untrusted) {
            let place = printable(other.skill.location.as_str());
            writeln!(
                anstream::stderr(),
                "this project has another `{}`, which is not trusted: {place}",
                printable(name)
            )?;
        }
        match found.or(untrusted) {
            Some(entry) => Ok(Arc::clone(entry)),
            None => Err(self.not_found(name)),
        }
    }

    /// The directory of the skill called `name`, also if it cannot be loaded as it is.
    pub(crate) fn directory_of(&self, name: &str) -> Result<PathBuf> {
        match self.find(name) {
            Ok(entry) => Ok(entry.skill.location.directory().into()),
            Err(error) => {
                let refused = self.catalog.diagnostics().filter(|found| found.severity == Severity::Error);
                let mut directories = refused.filter_map(|found| Path::new(&*found.file).parent());
                let found =
                    directories.find(|directory| directory.file_name().is_some_and(|last| last == name));
                found.map(Path::to_owned).ok_or(error)
            }
        }
    }

    fn not_found(&self, name: &str) -> anyhow::Error {
        let shown_name = printable(name);
        let of_name = |found: &&Diagnostic| {
            let directory = found.file.rsplit('/').nth(1);
            found.severity == Severity::Error && directory == Some(name)
        };
        if let Some(found) = self.catalog.diagnostics().find(of_name) {
            return anyhow!("`{shown_name}` cannot be loaded: {}", printable(&found.to_string()));
        }
        if let Some(link) = self.skipped_links().find(|link| link.rsplit('/').next() == Some(name)) {
            let link = printable(link);
            return anyhow!(
                "`{shown_name}` is a link that leads out of its root: {link}; use {FOLLOW} to follow it"
            );
        }
        let all = || self.catalog.entries().iter().chain(self.catalog.untrusted());
        if all().next().is_none() {
            return anyhow!(
                "there is no skill `{shown_name}`, and no other skill was found; use --root DIR to look elsewhere, or `prowess new` to create one"
            );
        }
        match nearest(name, all().map(|entry| entry.skill.name.as_str())) {
            Some(known) => {
                anyhow!("there is no skill `{shown_name}`; did you mean `{known}`? `prowess list` shows all")
            }
            None => anyhow!("there is no skill `{shown_name}`; `prowess list` shows all"),
        }
    }
}

/// A list that is not whole says so, whatever it is for.
fn tell_caps(catalog: &Catalog) -> Result<()> {
    let mut met = catalog.diagnostics().filter(|found| {
        found.code.leaves_out() || (found.code == Code::RootMissing && found.severity == Severity::Warning)
    });
    if let Some(first) = met.next() {
        let more = met.count();
        let others = if more > 0 {
            format!(", and {more} more; see `prowess list --diagnostics`")
        } else {
            String::new()
        };
        writeln!(anstream::stderr(), "some places were skipped: {}{others}", printable(&first.to_string()))?;
    }
    Ok(())
}

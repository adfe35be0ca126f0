//! Finds the skills that a command works on.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context as _, Result, anyhow, bail};
use prowess_catalog::scan::Links;
use prowess_catalog::search::IndexCache;
use prowess_catalog::{
    Catalog, Code, Diagnostic, Environment, Root, RootLayout, ScanOptions, Severity, SkillEntry, Storage,
    Trust,
};
use prowess_permission::nearest::nearest;

use crate::agent_files::FoundAgents;
use crate::config::{Config, OfProject, Settings};
use crate::directories;
use crate::options::RootArgs;
use crate::progress::Progress;
use crate::project::Project;
use crate::terminal::printable;
use crate::trust::{self, TrustStatus};

/// The option that follows links out of a root.
const FOLLOW: &str = "--follow-links";

/// The skills that were found, and where.
pub(crate) struct Skills {
    pub(crate) catalog: Catalog,
    /// The roots, including those that do not exist yet.
    pub(crate) roots: Vec<Root>,
    /// Where a person could create a first skill.
    pub(crate) create_in: Vec<String>,
    /// The project around the working directory, if there is one.
    pub(crate) project: Option<Project>,
    /// Which parts of the project are trusted.
    pub(crate) trust_status: TrustStatus,
    /// Where the user's files are.
    environment: Environment,
}

impl RootArgs {
    /// The scan options.
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
        let cache = directories::search_cache().map(IndexCache::new);
        let empty = Catalog::empty();
        self.discover_again(&cache.map_or(empty.clone(), |cache| empty.with_index_cache(cache)))
    }

    /// Finds the skills again. Unchanged skills are shared with `known`.
    pub(crate) fn discover_again(&self, known: &Catalog) -> Result<Skills> {
        let _progress = Progress::start("looking for skills");
        let skills = self.discover_silently(known, &self.scan_options())?;
        tell_caps(&skills.catalog)?;
        Ok(skills)
    }

    /// The same with other scan options and without messages.
    pub(crate) fn discover_silently(&self, known: &Catalog, options: &ScanOptions) -> Result<Skills> {
        let environment = self.environment()?;
        let (project, trust_status) = self.project(&environment)?;
        let create_in;
        let mut roots: Vec<Root> = if self.only {
            if environment.explicit.is_empty() {
                bail!("--only needs a directory to look in: add --root DIR, or set SKILLS_ROOT");
            }
            create_in = Vec::new();
            environment.explicit_roots().collect()
        } else {
            create_in = vec![".prowess/skills".to_owned(), "~/.prowess/skills".to_owned()];
            RootLayout::default().resolve(&environment)
        };
        if trust_status == TrustStatus::Whole {
            // Only roots that were checked, not those that appeared since.
            let known = project.as_ref().map_or(&[][..], Project::roots);
            for root in roots.iter_mut().filter(|root| known.iter().any(|known| known.path == root.path)) {
                root.trust = Trust::Trusted;
            }
        }
        for path in &self.root {
            if !environment.working_directory.join(path).is_dir() {
                bail!("{}: no such directory; check --root", path.display());
            }
        }
        // Server skills stay as they are; the caller asks the servers.
        let servers =
            known.roots().filter(|root| root.storage == Storage::Server).map(|root| Root::clone(root));
        let all: Vec<Root> = servers.chain(roots.iter().cloned()).collect();
        // Trust is per entry, as checked. Entries that appeared since are not trusted.
        let catalog = known.refreshed_trusting(&all, options, trust_status.entries(project.as_ref()));
        Ok(Skills { catalog, roots, create_in, project, trust_status, environment })
    }

    /// The project, and how far it is trusted: as decided before, or completely for this command.
    fn project(&self, environment: &Environment) -> Result<(Option<Project>, TrustStatus)> {
        let project = Project::around(environment, &RootLayout::default());
        let trust_status =
            if self.trust_project { TrustStatus::Whole } else { trust::status(project.as_ref())? };
        Ok((project, trust_status))
    }

    fn environment(&self) -> Result<Environment> {
        let mut environment = Environment::of_process().context("the working directory cannot be read")?;
        if !self.only {
            let roots = Config::load(&OfProject::Nothing, &[])?.settings.skills.roots;
            let mut roots: Vec<PathBuf> = roots.into_iter().map(|root| root.value.0).collect();
            roots.append(&mut environment.explicit);
            environment.explicit = roots;
        }
        environment.explicit.extend(self.root.iter().cloned());
        Ok(environment)
    }
}

impl Skills {
    /// Says in one line what of the project is not trusted and therefore not used.
    pub(crate) fn tell_trust(&self) -> Result<()> {
        let hidden = self.catalog.untrusted().len();
        if let Some(notice) = self.trust_status.notice_of_list(self.project.as_ref(), hidden) {
            writeln!(anstream::stderr(), "{notice}")?;
        }
        Ok(())
    }

    /// The part of the project's configuration that is used.
    pub(crate) fn configuration(&self) -> Result<OfProject> {
        self.trust_status.configuration(self.project.as_ref())
    }

    /// The sub-agents: the user's, those of the project that are trusted, and those of the configuration.
    pub(crate) fn sub_agents(&self, settings: &Settings) -> FoundAgents {
        FoundAgents::find(&self.environment, self.project.as_ref(), &self.trust_status, settings)
    }

    /// One line about what is not trusted and therefore not used.
    pub(crate) fn notice(&self) -> Option<String> {
        self.trust_status.notice(self.project.as_ref(), self.catalog.untrusted().len())
    }

    /// Links that lead out of their roots, which were not followed.
    fn skipped_links(&self) -> impl Iterator<Item = &str> {
        // No option follows a root that is itself such a link.
        let is_root = |file: &str| self.roots.iter().any(|root| root.path.to_str() == Some(file));
        let outside = self.catalog.diagnostics().filter(|found| found.code == Code::LinkOutsideRoot);
        outside.map(|found| &*found.file).filter(move |file| !is_root(file))
    }

    /// Says in one line which links were not followed.
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

    /// The skill `name`, trusted or not, or an error that helps to find it.
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

    /// The directory of the skill `name`, even if the skill cannot be loaded.
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

/// Says if limits cut the search short.
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

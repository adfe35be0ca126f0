//! The catalog that a command works on.

use std::io::Write as _;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use prowess_catalog::{Catalog, Layers, Links, Root, ScanOptions, SkillEntry, Surroundings, Trust};

use crate::options::Places;
use crate::progress::Progress;
use crate::terminal::shown;

/// The skills of the places that were asked for.
pub(crate) struct Skills {
    pub(crate) catalog: Catalog,
    /// Where a person could put a first skill.
    pub(crate) create_in: Vec<String>,
}

impl Places {
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
        let surroundings = self.surroundings()?;
        let mut layers = Layers::default();
        if self.trust_project {
            layers.project_trust = Trust::Trusted;
        }
        let create_in;
        let roots: Vec<Root> = if self.only {
            if surroundings.explicit.is_empty() {
                bail!("--only needs a directory to look in: add --root DIR, or set SKILLS_ROOT");
            }
            create_in = Vec::new();
            surroundings.explicit_roots().collect()
        } else {
            create_in = vec![".prowess/skills".to_owned(), "~/.prowess/skills".to_owned()];
            layers.resolve(&surroundings)
        };
        for path in &self.root {
            if !surroundings.working_directory.join(path).is_dir() {
                bail!("{}: there is no such directory to look in; check --root", path.display());
            }
        }
        let options = self.scan_options();
        let _progress = Progress::start("looking for skills");
        let catalog = Catalog::discover(&roots, &options);
        tell_caps(&catalog)?;
        Ok(Skills { catalog, create_in })
    }

    fn surroundings(&self) -> Result<Surroundings> {
        let mut surroundings = Surroundings::of_process().context("the working directory cannot be read")?;
        surroundings.explicit.extend(self.root.iter().cloned());
        Ok(surroundings)
    }
}

impl Skills {
    /// The skill called `name`, trusted or not; else an error that helps.
    pub(crate) fn find(&self, name: &str) -> Result<Arc<SkillEntry>> {
        let untrusted =
            || self.catalog.untrusted().iter().rev().find(|entry| entry.skill.name.as_str() == name);
        if let Some(entry) = self.catalog.get(name).or_else(untrusted) {
            return Ok(Arc::clone(entry));
        }
        let shown = shown(name);
        let known = || {
            self.catalog
                .entries()
                .iter()
                .chain(self.catalog.untrusted())
                .map(|entry| entry.skill.name.as_str())
        };
        let alike = |known: &str| {
            if known.contains(name) { 1.0 } else { strsim::jaro_winkler(known, name) }
        };
        let nearest = known().map(|known| (alike(known), known)).max_by(|a, b| a.0.total_cmp(&b.0));
        match nearest {
            Some((likeness, known)) if likeness > 0.8 => {
                bail!("there is no skill `{shown}`; did you mean `{known}`? `prowess list` shows all")
            }
            Some(_) => bail!("there is no skill `{shown}`; `prowess list` shows all"),
            None => bail!(
                "there is no skill `{shown}`, nor any other; --root DIR looks elsewhere, `prowess new` makes one"
            ),
        }
    }
}

/// A list that is not whole says so, whatever it is for.
fn tell_caps(catalog: &Catalog) -> Result<()> {
    let mut met = catalog.diagnostics().filter(|found| found.code.leaves_out());
    if let Some(first) = met.next() {
        let more = met.count();
        let others =
            if more > 0 { format!(", and {more} more: `prowess list --diagnostics`") } else { String::new() };
        writeln!(anstream::stderr(), "not everything was looked at: {}{others}", shown(&first.to_string()))?;
    }
    Ok(())
}

//! Skills that a person starts by name.

use std::sync::Arc;

use prowess_catalog::SkillEntry;

use crate::error::SkillError;
use crate::load::{Caller, PreparedLoad};
use crate::step::Operation;
use crate::view::SkillView;

/// A skill that a person may start with a slash.
///
/// ```
/// use prowess_skills::SkillSession;
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// let session = SkillSession::builder(catalog).start().await;
/// let menu: Vec<String> = session.view().commands().into_iter().map(|command| command.name).collect();
/// assert_eq!(menu, ["greet"]);
/// session.invoke("/greet the queen").await?;
/// assert!(session.view().commands()[0].is_loaded);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct SkillCommand {
    /// The skill's name.
    pub name: String,
    /// What it does.
    pub description: String,
    /// What to write after its name.
    pub hint: Option<String>,
    /// Whether it is loaded.
    pub is_loaded: bool,
}

impl SkillView {
    /// The skills that a person may start, for a menu or for completion.
    pub fn commands(&self) -> Vec<SkillCommand> {
        let state = self.state();
        let entries =
            self.known().view.entries().iter().filter(|entry| entry.skill.extensions.user_invocable);
        let command = |entry: &Arc<SkillEntry>| SkillCommand {
            name: entry.skill.name.to_string(),
            description: entry.skill.description.clone(),
            hint: hint(entry),
            is_loaded: state.get(entry.skill.name.as_str()).is_some(),
        };
        entries.map(command).collect()
    }

    /// Starts a skill as a person asked for it: `/name arguments`. A skill that is loaded is given the
    /// new arguments.
    ///
    /// The gate is passed as for a model. A front end gives this only what a person typed. It is refused as
    /// [`SkillView::load`] is, and when the skill is not one for people.
    pub fn invoke(&self, line: &str) -> Operation<PreparedLoad> {
        let (view, line) = (self.clone(), line.to_owned());
        Operation::new(self.engine(), |io| async move {
            let (entry, arguments) = view.invoked(&line)?;
            view.prepare(&io, &entry, arguments, None, Caller::Person).await
        })
    }

    fn invoked<'a>(&self, line: &'a str) -> Result<(Arc<SkillEntry>, Option<&'a str>), SkillError> {
        let not_a_command = || SkillError::NotACommand { line: line.to_owned() };
        let command = line.trim().strip_prefix('/').ok_or_else(not_a_command)?;
        let (name, arguments) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        if name.is_empty() {
            return Err(not_a_command());
        }
        let Some(entry) = self.known().view.get(name) else {
            let available = self.commands().into_iter().map(|command| command.name).collect();
            let (name, dialect) = (name.to_owned(), self.engine().options().dialect);
            return Err(SkillError::NotFound { name, available, dialect });
        };
        if !entry.skill.extensions.user_invocable {
            return Err(SkillError::NotForUsers { name: name.to_owned() });
        }
        Ok((Arc::clone(entry), Some(arguments.trim()).filter(|arguments| !arguments.is_empty())))
    }
}

/// What to write after a skill's name: its own words, or the names of its arguments.
fn hint(entry: &SkillEntry) -> Option<String> {
    let extensions = &entry.skill.extensions;
    let names = || extensions.arguments.iter().map(|name| format!("[{name}]")).collect::<Vec<_>>().join(" ");
    extensions.argument_hint.clone().or_else(|| (!extensions.arguments.is_empty()).then(names))
}

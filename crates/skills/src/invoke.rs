//! Commands: skills that a person starts with `/name arguments`.

use std::sync::Arc;

use prowess_catalog::SkillEntry;
use prowess_catalog::skill::SkillContext;
use serde_json::Value;

use crate::error::SkillError;
use crate::load::{Caller, PreparedLoad};
use crate::operation::Operation;
use crate::view::SkillView;

/// A skill that a person can start with a slash.
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
/// let session = SkillSession::builder(catalog).build().await;
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
    /// What to type after its name.
    pub hint: Option<String>,
    /// Whether it is loaded.
    pub is_loaded: bool,
}

impl SkillView {
    /// The skills that a person can start, for a menu or for completion.
    pub fn commands(&self) -> Vec<SkillCommand> {
        let state = self.state();
        let entries =
            self.visible().view.entries().iter().filter(|entry| entry.skill.extensions.user_invocable);
        let command = |entry: &Arc<SkillEntry>| SkillCommand {
            name: entry.skill.name.to_string(),
            description: entry.skill.description.clone(),
            hint: hint(entry),
            is_loaded: state.get(entry.skill.name.as_str()).is_some(),
        };
        entries.map(command).collect()
    }

    /// Starts a skill that a person typed: `/name arguments`. A loaded skill gets the new arguments. Without arguments,
    /// `$ARGUMENTS` in its text becomes empty.
    ///
    /// It passes the gate like a load of a model. Pass only lines that a person typed. It fails like [`SkillView::load`], and
    /// if the skill is not for people.
    pub fn invoke(&self, line: &str) -> Operation<PreparedLoad> {
        let (view, line) = (self.clone(), line.to_owned());
        Operation::new(self.engine(), |io| async move {
            let (entry, arguments) = view.invoked(&line)?;
            view.prepare(&io, &entry, Some(arguments), None, Caller::Person).await
        })
    }

    /// The tool call that does the same as `/name arguments`, if the skill is for a sub-agent (`context: fork`): the tool and
    /// its arguments. It is for the conversation, where the sub-agent's response is the answer to this call.
    ///
    /// ```
    /// use prowess_skills::{Dialect, SessionOptions, SkillSession};
    ///
    /// # use prowess_catalog::{Catalog, Root, ScanOptions};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let scratch = tempfile::tempdir()?;
    /// # std::fs::create_dir(scratch.path().join("audit"))?;
    /// # let manifest = "---\nname: audit\ndescription: Audits.\ncontext: fork\n---\nAudit $ARGUMENTS.\n";
    /// # std::fs::write(scratch.path().join("audit/SKILL.md"), manifest)?;
    /// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
    /// let session = SkillSession::builder(catalog).build().await;
    /// let (tool, arguments) = session.view().fork_call("/audit the docks").unwrap();
    /// assert_eq!((tool, arguments["args"].as_str()), ("load_skill", Some("the docks")));
    /// # Ok(())
    /// # }
    /// ```
    pub fn fork_call(&self, line: &str) -> Option<(&'static str, Value)> {
        let (entry, arguments) = self.invoked(line).ok()?;
        let arguments = Some(arguments).filter(|arguments| !arguments.is_empty());
        let options = self.engine().options();
        let call = || options.dialect.load_call(entry.skill.name.as_str(), arguments, options.capabilities);
        (entry.skill.extensions.context == SkillContext::Fork).then(call)
    }

    fn invoked<'a>(&self, line: &'a str) -> Result<(Arc<SkillEntry>, &'a str), SkillError> {
        let not_a_command = || SkillError::NotACommand { line: line.to_owned() };
        let command = line.trim().strip_prefix('/').ok_or_else(not_a_command)?;
        let (name, arguments) = command.split_once(char::is_whitespace).unwrap_or((command, ""));
        if name.is_empty() {
            return Err(not_a_command());
        }
        let Some(entry) = self.visible().view.get(name) else {
            let available = self.commands().into_iter().map(|command| command.name).collect();
            let (name, dialect) = (name.to_owned(), self.engine().options().dialect);
            return Err(SkillError::NotFound { name, available, search: None, dialect });
        };
        if !entry.skill.extensions.user_invocable {
            return Err(SkillError::NotForUsers { name: name.to_owned() });
        }
        Ok((Arc::clone(entry), arguments))
    }
}

/// What to type after a skill's name: its `argument-hint`, or the names of its arguments.
fn hint(entry: &SkillEntry) -> Option<String> {
    let extensions = &entry.skill.extensions;
    let names = || extensions.arguments.iter().map(|name| format!("[{name}]")).collect::<Vec<_>>().join(" ");
    extensions.argument_hint.clone().or_else(|| (!extensions.arguments.is_empty()).then(names))
}

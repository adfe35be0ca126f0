//! Calls of the tools that a model handles skills with.

use prowess_permission::Asker;
use serde_json::Value;

use crate::delta::SkillDelta;
use crate::dialect::{self, SkillToolAnswer, SkillToolKind, ToolSpec, Wanted};
use crate::documents::PreparedSelection;
use crate::engine::SkillEngine;
#[cfg(feature = "run")]
use crate::error::SkillError;
use crate::load::PreparedLoad;
use crate::service::SkillService;
use crate::session::SkillAnswer;
use crate::state::SkillState;
use crate::step::Outcome;
use crate::view::SkillView;

/// A tool call of which everything is done but the change of state.
///
/// A host that makes the calls of a turn at the same time and finishes them in the order of the calls gets the same state
/// every time.
///
/// ```
/// use prowess_permission::NoAsker;
/// use prowess_skills::{Outcome, SkillSession};
/// use serde_json::json;
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
/// let arguments = json!({"skill_name": "greet"});
/// let call = session.service().call(&session.view(), "load_skill", arguments, &NoAsker).await;
/// let Outcome::Done(prepared) = call else { unreachable!() };
/// assert!(session.state().loaded().is_empty(), "read, and not loaded yet");
/// assert!(session.finish(prepared).text.contains("Wave."));
/// assert_eq!(session.state().loaded()[0].name, "greet");
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a prepared call changes nothing until `finish`"]
pub struct PreparedCall {
    tool: String,
    prepared: Prepared,
}

#[derive(Debug)]
enum Prepared {
    Load(Box<PreparedLoad>),
    Select(Box<PreparedSelection>),
    Unload(SkillView, String),
    Answer(SkillAnswer),
}

/// A skill that wants to be followed by a sub-agent, read and past the gate.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ForkedSkill {
    /// The skill.
    pub name: String,
    /// The sub-agent that it names.
    pub agent: Option<String>,
    /// What it was given to work on.
    pub arguments: Option<String>,
    /// Its instructions, for an agent without skills of its own.
    pub instructions: String,
    /// What loads it in the sub-agent's session.
    pub deltas: Vec<SkillDelta>,
}

impl PreparedCall {
    /// The skill that this call loads, if it says `context: fork`. A host that has sub-agents gives it to one, and drops
    /// this call; for all others the skill is loaded like any other.
    pub fn forked(&self) -> Option<ForkedSkill> {
        match &self.prepared {
            Prepared::Load(prepared) => prepared.forked(),
            _ => None,
        }
    }

    /// What changes and what the model reads, over the state as it is when the calls before this one are finished. The
    /// event `tool.response` tells how many changes of state there are.
    pub fn finish(self, state: &SkillState) -> SkillToolAnswer {
        let finished = match self.prepared {
            Prepared::Load(prepared) => prepared.finish(state),
            Prepared::Select(prepared) => prepared.finish(state),
            Prepared::Unload(view, name) => view.engine().at(state).unload(&name),
            Prepared::Answer(answer) => Ok(answer),
        };
        let reply = SkillToolAnswer::from(finished);
        tell(&self.tool, reply.is_error, reply.deltas.len());
        reply
    }
}

/// Tells the log that a call has its answer.
fn tell(tool: &str, is_error: bool, changes: usize) {
    tracing::info!(name: "tool.response", tool, is_error, changes, "Tool '{tool}' answered");
}

impl SkillView {
    /// The tools that a model handles skills with, where no commands can be run; see [`SkillService::tools`].
    pub fn tools(&self) -> Vec<ToolSpec> {
        dialect::tools(self, None)
    }
}

impl SkillEngine {
    /// What a tool of this name does, if there is one. There are those for commands also where nothing runs them: their
    /// answer says so.
    ///
    /// ```
    /// use prowess_catalog::Catalog;
    /// use prowess_skills::{SkillToolKind, SkillEngine};
    ///
    /// let engine = SkillEngine::new(&Catalog::empty());
    /// assert_eq!(engine.act("unload_skill"), Some(SkillToolKind::Unload));
    /// assert_eq!(engine.act("skill_list_docs"), None, "this dialect has it only where it is wanted");
    /// ```
    pub fn act(&self, tool: &str) -> Option<SkillToolKind> {
        dialect::act(self.options(), tool)
    }
}

impl SkillService {
    /// Makes a call of one of [`SkillService::tools`] in a moment: everything but the change of state. What is wrong with
    /// foolish arguments is an error whose text is for the model.
    pub async fn call(
        &self,
        view: &SkillView,
        tool: &str,
        arguments: Value,
        asker: &dyn Asker,
    ) -> Outcome<PreparedCall> {
        let prepared = self.prepared(view, tool, arguments, asker).await;
        if let Outcome::Refused(_) = &prepared {
            tell(tool, true, 0);
        }
        prepared.map(|prepared| PreparedCall { tool: tool.to_owned(), prepared })
    }

    async fn prepared(
        &self,
        view: &SkillView,
        tool: &str,
        arguments: Value,
        asker: &dyn Asker,
    ) -> Outcome<Prepared> {
        let can_run = self.run_setting().is_some();
        let wanted = match dialect::wanted(view.engine().options(), can_run, tool, arguments) {
            Ok(wanted) => wanted,
            Err(error) => return Outcome::Refused(error),
        };
        let files = self.files();
        match wanted {
            Wanted::Load { name, arguments, documents } => {
                let load = view.load(&name, arguments.as_deref(), documents);
                load.drive(files, asker).await.map(|prepared| Prepared::Load(Box::new(prepared)))
            }
            Wanted::Select { name, mode, choice } => {
                let select = view.select_documents(&name, mode, choice);
                select.drive(files, asker).await.map(|prepared| Prepared::Select(Box::new(prepared)))
            }
            Wanted::Unload { name } => Outcome::Done(Prepared::Unload(view.clone(), name)),
            Wanted::List { name } => {
                view.list_documents(&name).drive(files, asker).await.map(Prepared::Answer)
            }
            #[cfg(feature = "run")]
            wanted => Outcome::from(self.running(view, asker).act(wanted).await).map(Prepared::Answer),
        }
    }
}

#[cfg(feature = "run")]
impl crate::run::Running<'_> {
    async fn act(self, wanted: Wanted) -> Result<SkillAnswer, crate::step::Halt> {
        match wanted {
            Wanted::Run(request) => self.run(*request).await,
            Wanted::Start(request) => self.exec(*request).await,
            Wanted::Write(request) => self.write_stdin(request).await,
            Wanted::Look(request) => self.poll(request).await,
            Wanted::End { id } => self.kill(&id).await,
            Wanted::Load { .. } | Wanted::Unload { .. } | Wanted::Select { .. } | Wanted::List { .. } => {
                Err(SkillError::Misfed.into())
            }
        }
    }
}

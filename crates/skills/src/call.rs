//! Calls of the tools for skills.

use prowess_permission::Asker;
#[cfg(feature = "run")]
use prowess_workspace::executor::OutputSink;
use serde_json::Value;

use crate::answer::{SkillAnswer, SkillToolAnswer};
use crate::delta::SkillDelta;
use crate::dialect::{self, ParsedCall, SkillToolKind, ToolSpec};
use crate::documents::PreparedSelection;
use crate::engine::SkillEngine;
use crate::error::SkillError;
use crate::files::on_blocking_thread;
use crate::load::PreparedLoad;
use crate::operation::Outcome;
#[cfg(feature = "run")]
use crate::run::RunDriver;
use crate::service::SkillService;
use crate::state::SkillState;
use crate::view::SkillView;

/// A tool call that is done except for the change of state.
///
/// You can make all calls of a turn at the same time. If you finish them in the order of the calls, the state is the same
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
/// let session = SkillSession::builder(catalog).build().await;
/// let arguments = json!({"skill_name": "greet"});
/// let call = session.service().call(&session.view(), "load_skill", arguments, &NoAsker).await;
/// let Outcome::Done(prepared) = call else { unreachable!() };
/// assert!(session.state().loaded().is_empty(), "it is read, but not loaded yet");
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

/// A skill for a sub-agent (`context: fork`), which has passed the gate and was read.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ForkedSkill {
    /// The skill.
    pub name: String,
    /// The sub-agent that the skill names.
    pub agent: Option<String>,
    /// Its arguments.
    pub arguments: Option<String>,
    /// Its instructions, for an agent without skills.
    pub instructions: String,
    /// The deltas that load it in the sub-agent's session.
    pub deltas: Vec<SkillDelta>,
}

impl PreparedCall {
    /// The skill that this call loads, if its manifest says `context: fork`. If you have sub-agents, give it to one and drop
    /// this call. Otherwise finish the call to load the skill.
    pub fn forked(&self) -> Option<ForkedSkill> {
        match &self.prepared {
            Prepared::Load(prepared) => prepared.forked(),
            _ => None,
        }
    }

    /// The changes and the answer, given the state after the calls before this one. The log event `tool.response` has the
    /// number of changes.
    pub fn finish(self, state: &SkillState) -> SkillToolAnswer {
        let finished = match self.prepared {
            Prepared::Load(prepared) => prepared.finish(state),
            Prepared::Select(prepared) => prepared.finish(state),
            Prepared::Unload(view, name) => view.engine().at(state).unload(&name),
            Prepared::Answer(answer) => Ok(answer),
        };
        let answer = SkillToolAnswer::from(finished);
        log_answer(&self.tool, answer.is_error, answer.deltas.len());
        answer
    }
}

fn prepared_call(tool: &str, prepared: Outcome<Prepared>) -> Outcome<PreparedCall> {
    if let Outcome::Refused(_) = &prepared {
        log_answer(tool, true, 0);
    }
    prepared.map(|prepared| PreparedCall { tool: tool.to_owned(), prepared })
}

/// Logs the answer of a call.
fn log_answer(tool: &str, is_error: bool, changes: usize) {
    tracing::info!(name: "tool.response", tool, is_error, changes, "Tool '{tool}' answered");
}

impl SkillView {
    /// The tools for skills without those that run commands; see [`SkillService::tools`].
    pub fn tools(&self) -> Vec<ToolSpec> {
        dialect::tools(self, None)
    }
}

impl SkillEngine {
    /// The kind of a tool, if the session has it. The tools that run commands exist even without a runner: then their answer
    /// says so.
    ///
    /// ```
    /// use prowess_catalog::Catalog;
    /// use prowess_skills::{SkillToolKind, SkillEngine};
    ///
    /// let engine = SkillEngine::new(&Catalog::empty());
    /// assert_eq!(engine.tool_kind("unload_skill"), Some(SkillToolKind::Unload));
    /// assert_eq!(engine.tool_kind("skill_list_docs"), None, "this dialect has it only if the option is set");
    /// ```
    pub fn tool_kind(&self, tool: &str) -> Option<SkillToolKind> {
        dialect::tool_kind(self.options(), tool)
    }
}

impl SkillService {
    /// Calls one of [`SkillService::tools`]: everything except the change of state. The error about wrong arguments is a text
    /// for the model.
    pub async fn call(
        &self,
        view: &SkillView,
        tool: &str,
        arguments: Value,
        asker: &dyn Asker,
    ) -> Outcome<PreparedCall> {
        let prepared = match self.parse(view, tool, arguments) {
            Ok(call) => self.prepare(view, call, asker).await,
            Err(error) => Outcome::Refused(error),
        };
        prepared_call(tool, prepared)
    }

    /// [`SkillService::call`] that shows the output of a command while the command runs. Secrets in it are replaced. `output`
    /// must not block.
    #[cfg(feature = "run")]
    pub async fn call_watched(
        &self,
        view: &SkillView,
        tool: &str,
        arguments: Value,
        output: &dyn OutputSink,
        asker: &dyn Asker,
    ) -> Outcome<PreparedCall> {
        let prepared = match self.parse(view, tool, arguments) {
            Ok(ParsedCall::Run(call)) => {
                let driver = RunDriver { output, ..self.run_driver(view, asker) };
                Outcome::from(driver.call(call).await).map(Prepared::Answer)
            }
            Ok(call) => self.prepare(view, call, asker).await,
            Err(error) => Outcome::Refused(error),
        };
        prepared_call(tool, prepared)
    }

    fn parse(&self, view: &SkillView, tool: &str, arguments: Value) -> Result<ParsedCall, SkillError> {
        let can_run = self.run_tool_info().is_some();
        dialect::parse_call(view.engine().options(), can_run, tool, arguments)
    }

    async fn prepare(&self, view: &SkillView, call: ParsedCall, asker: &dyn Asker) -> Outcome<Prepared> {
        let files = self.files();
        match call {
            ParsedCall::Load { name, arguments, documents } => {
                let load = view.load(&name, arguments.as_deref(), documents);
                load.drive(files, asker).await.map(|prepared| Prepared::Load(Box::new(prepared)))
            }
            ParsedCall::Select { name, mode, choice } => {
                let select = view.select_documents(&name, mode, choice);
                select.drive(files, asker).await.map(|prepared| Prepared::Select(Box::new(prepared)))
            }
            ParsedCall::Unload { name } => Outcome::Done(Prepared::Unload(view.clone(), name)),
            ParsedCall::Search { query, limit } => {
                let searched = view.clone();
                let answer = match self.embeddings() {
                    Some(embeddings) => {
                        let loadable = view.loadable();
                        let hits = embeddings.search(&loadable, &loadable, &query).await;
                        searched.search_answer(hits, &query, limit)
                    }
                    // The first search makes the index, which reads directories.
                    None => on_blocking_thread(move || searched.search(&query, limit)).await,
                };
                Outcome::Done(Prepared::Answer(answer))
            }
            ParsedCall::List { name } => {
                view.list_documents(&name).drive(files, asker).await.map(Prepared::Answer)
            }
            #[cfg(feature = "run")]
            ParsedCall::Run(call) => {
                Outcome::from(self.run_driver(view, asker).call(call).await).map(Prepared::Answer)
            }
        }
    }
}

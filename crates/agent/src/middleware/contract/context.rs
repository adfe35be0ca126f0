//! What a middleware sees when it is called, and how middleware announce things to each other.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::Middleware;
use crate::agent::Watcher;
use crate::id::ThreadId;
use crate::model::Model;
use crate::state::States;
use crate::thread::ThreadStore;
use crate::thread_state::{StateChange, ThreadState};
use crate::tool::{Tool, ToolKind, ToolSelection, Tools};

/// What a middleware sees when it is called: the thread, its states and the agent's model.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct MiddlewareContext<'a> {
    /// The thread.
    pub thread: &'a ThreadId,
    /// The thread's conversation, and how far its turn is.
    pub thread_state: &'a ThreadState,
    /// The states of all middleware.
    pub states: &'a States,
    /// The agent's own model.
    pub model: &'a Arc<dyn Model>,
    /// The store that keeps the thread.
    pub(crate) store: &'a Arc<dyn ThreadStore>,
    pub(crate) middleware: &'a [Arc<dyn Middleware>],
    /// The tools in the last request to the model.
    pub(crate) tools: Option<&'a Tools>,
    /// The agent's prompt.
    pub(crate) prompt: Option<&'a str>,
    /// The agent's own tools.
    pub(crate) own_tools: &'a [Arc<dyn Tool>],
    /// Which of all tools the agent has.
    pub(crate) selection: &'a ToolSelection,
    /// Who sees what the middleware pays models.
    pub(crate) watcher: Watched<'a>,
}

/// Who watches while a middleware works.
#[derive(Clone, Copy)]
pub(crate) struct Watched<'a>(pub(crate) &'a dyn Watcher);

impl fmt::Debug for Watched<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watched")
    }
}

impl<'a> MiddlewareContext<'a> {
    /// Another middleware of the agent, by its type.
    pub(crate) fn find<M: Middleware>(self) -> Option<&'a M> {
        self.middleware.iter().find_map(|middleware| (&**middleware as &dyn Any).downcast_ref())
    }

    /// The kind of work that a tool does.
    ///
    /// `None` if the agent has no tool of that name: the model made the name up, or the agent had other tools when the
    /// call was made.
    pub fn tool_kind(self, tool: &str) -> Option<ToolKind> {
        Some(self.tools?.get(tool)?.kind())
    }

    /// Announces something to all middleware. The first objection counts.
    pub async fn announce(self, announcement: Announcement<'_>) -> Reaction {
        let mut all = Reaction::default();
        for middleware in self.middleware {
            let reaction = middleware.on_announcement(self, announcement).await;
            all.objection = all.objection.or(reaction.objection);
            all.changes.extend(reaction.changes);
        }
        all
    }
}

/// Something that a middleware is about to do, or has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Announcement<'a> {
    /// The oldest messages that the model sees are about to be replaced by a summary.
    Compacting {
        /// How many messages.
        messages: usize,
    },
    /// A sub-agent is about to start.
    SubAgentStarts {
        /// The sub-agent's name.
        name: &'a str,
        /// Its task.
        task: &'a str,
    },
    /// A sub-agent has ended.
    SubAgentStopped {
        /// The sub-agent's name.
        name: &'a str,
        /// The answer that the parent gets.
        answer: &'a str,
    },
    /// This process is about to close the thread.
    SessionEnds,
}

/// How a middleware reacts to an announcement.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Reaction {
    /// Why it should not happen. An objection comes too late if it has happened already.
    pub objection: Option<String>,
    /// State changes. The middleware that made the announcement stores them.
    pub changes: Vec<StateChange>,
}

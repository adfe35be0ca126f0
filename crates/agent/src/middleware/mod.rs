//! The middleware that prowess ships, one file or folder each, and the traits for your own.
//!
//! [`Agent::deep_builder`](crate::Agent::deep_builder) puts all of them together. With
//! [`AgentBuilder::middleware`](crate::AgentBuilder::middleware) you choose them one by one.
//!
//! | middleware | what it adds |
//! |---|---|
//! | [`Skills`] | the overview of skills, the skill tools, and the loaded skills |
//! | [`Memory`] | notes that the agent keeps in files across threads |
//! | [`Files`] | file tools: `ls`, `read_file`, `write_file`, `edit_file`, `copy_file`, `glob`, `grep`, `execute` |
//! | [`StateFiles`], `WorkspaceFiles` | files in the thread's state, or in its workspace |
//! | [`FollowingFiles`] | files that follow a thread to another machine |
//! | [`Todos`] | the tool `write_todos`, and the list |
//! | [`Summarisation`] | a summary in place of old messages, once the conversation is long |
//! | [`SubAgents`] | the tool `task` |
//! | [`Hooks`] | the user's hooks, and those of loaded skills |
//! | [`ToolPermissions`] | questions to a person before tool calls |
//! | [`Eviction`] | large tool answers go into files |
//! | [`CostLimit`] | the most that a thread may cost |

pub(crate) mod contract;
mod cost_limit;
mod eviction;
mod files;
mod following_files;
mod hooks;
mod memory;
mod skills;
mod state_files;
mod sub_agents;
mod summarisation;
mod tags;
mod todos;
mod tool_permissions;
#[cfg(feature = "run")]
mod workspace_files;

pub use self::contract::{
    Announcement, Jump, Middleware, MiddlewareAction, MiddlewareContext, MiddlewareError, MiddlewareFactory,
    Reaction, Sections,
};
pub use self::cost_limit::CostLimit;
pub use self::eviction::Eviction;
pub(crate) use self::files::WatchedChanges;
pub use self::files::{ChangeAllowed, ChangeWatcher, FileChange, Files};
pub use self::following_files::{
    CapturedFiles, FileStorage, FollowDelta, FollowedFiles, FollowingFiles, PersonalChange, StorageError,
};
#[cfg(feature = "run")]
pub use self::hooks::SandboxedHooks;
pub use self::hooks::{
    DEFAULT_HOOK_TIMEOUT, HookCommand, HookCommands, HookConfigError, HookEvent, HookExit, HookOutput,
    HookProblem, HookSet, HookSkill, Hooks, MAX_HOOK_OUTPUT, MAX_HOOK_TIMEOUT, MAX_HOOKS,
};
pub use self::memory::{MAX_MEMORY_BYTES, Memory};
pub use self::skills::{SkillModel, SkillModels, SkillUse, Skills, SkillsState, SubAgentModel};
pub use self::state_files::{MAX_STATE_BYTES, MAX_STATE_FILES, StateFiles};
pub use self::sub_agents::{
    AgentDefinition, AgentName, AgentNameError, DefinitionError, GENERAL_AGENT, MAX_DEFINITION_BYTES,
    SubAgents,
};
pub use self::summarisation::{
    Compaction, Counting, Keep, Summarisation, SummarisationNotice, SummarisationOptions, Trigger,
    TruncateArguments, WindowPart, WindowPartKind, WindowUse,
};
pub use self::todos::{Todo, TodoStatus, Todos};
pub use self::tool_permissions::ToolPermissions;
#[cfg(feature = "run")]
pub use self::workspace_files::WorkspaceFiles;
pub use crate::thread::{possible_sub_agents, sub_agent_threads};

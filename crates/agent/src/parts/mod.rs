//! The parts that come with the crate, one file each.

mod approval;
pub(crate) mod consult;
mod cost_limit;
mod eviction;
mod files;
mod frame;
mod hooks;
mod memory;
mod skills;
mod state_files;
mod subagents;
mod summarisation;
mod todos;
#[cfg(feature = "run")]
mod workspace_files;

pub use self::approval::Approval;
pub use self::cost_limit::CostLimit;
pub use self::eviction::Eviction;
pub use self::files::Files;
#[cfg(feature = "run")]
pub use self::hooks::SandboxedHooks;
pub use self::hooks::{
    DEFAULT_HOOK_TIMEOUT, HookCommand, HookCommands, HookConfigError, HookEvent, HookExit, HookProblem,
    HookRan, HookSet, HookSkill, Hooks, MAX_HOOK_OUTPUT, MAX_HOOK_TIMEOUT, MAX_HOOKS,
};
pub use self::memory::{MAX_MEMORY_BYTES, Memory};
pub use self::skills::{SkillUse, Skills, SkillsState};
pub use self::state_files::{MAX_STATE_BYTES, MAX_STATE_FILES, StateFiles};
pub use self::subagents::SubAgents;
pub use self::summarisation::{
    Compaction, Keep, Summarisation, SummarisationOptions, Trigger, TruncateArguments,
};
pub use self::todos::{Todo, TodoStatus, Todos};
#[cfg(feature = "run")]
pub use self::workspace_files::WorkspaceFiles;
pub use crate::thread::sub_agent_threads;

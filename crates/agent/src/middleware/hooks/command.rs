//! Runs the commands of hooks: the trait, and its types.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use prowess_skills::{SkillService, SkillView};

use crate::id::ThreadId;

/// How much of each output stream of a hook prowess reads, in bytes.
pub const MAX_HOOK_OUTPUT: usize = 64 * 1024;

/// Runs the commands of hooks. An implementation must isolate them, because skills of strangers can have hooks.
///
/// ```
/// use async_trait::async_trait;
/// use prowess_agent::middleware::{HookCommand, HookCommands, HookExit, HookOutput, HookSet, Hooks};
///
/// /// Runs nothing, and reports success.
/// #[derive(Debug)]
/// struct AllIsWell;
///
/// #[async_trait]
/// impl HookCommands for AllIsWell {
///     async fn run(&self, _: HookCommand<'_>) -> Result<HookOutput, String> {
///         let (stdout, stderr) = (String::new(), String::new());
///         Ok(HookOutput { exit: HookExit::Code(0), stdout, stderr, is_whole: true })
///     }
/// }
///
/// let hooks = Hooks::new(HookSet::default()).commands(AllIsWell);
/// ```
#[async_trait]
pub trait HookCommands: Send + Sync + Debug {
    /// Runs a command until it ends or its time is over.
    ///
    /// # Errors
    ///
    /// Says why the command did not start.
    async fn run(&self, command: HookCommand<'_>) -> Result<HookOutput, String>;
}

/// A command of a hook.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HookCommand<'a> {
    /// The thread.
    pub thread: &'a ThreadId,
    /// The command line.
    pub line: &'a str,
    /// Its standard input.
    pub stdin: Vec<u8>,
    /// Its environment variables.
    pub environment: BTreeMap<String, String>,
    /// How long it may take.
    pub timeout: Duration,
    /// The skill that the hook belongs to; the command runs in its directory. `None`: the user's own hook.
    pub skill: Option<HookSkill<'a>>,
}

/// The skill that a hook belongs to.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HookSkill<'a> {
    /// Its name.
    pub name: &'a str,
    /// The thread's skills.
    pub service: &'a SkillService,
    /// Which of them are loaded.
    pub view: &'a SkillView,
}

impl<'a> HookSkill<'a> {
    pub(super) fn new(name: &'a str, service: &'a SkillService, view: &'a SkillView) -> Self {
        Self { name, service, view }
    }
}

/// The output of a hook's command, and how it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookOutput {
    /// How it ended.
    pub exit: HookExit,
    /// Its standard output, at most [`MAX_HOOK_OUTPUT`] bytes.
    pub stdout: String,
    /// Its standard error, at most as much.
    pub stderr: String,
    /// Whether the standard output is complete.
    pub is_whole: bool,
}

/// How a hook's command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookExit {
    /// With this exit code.
    Code(i32),
    /// It was killed because its time was over.
    TimedOut,
    /// It was killed, for this reason.
    Killed(String),
}

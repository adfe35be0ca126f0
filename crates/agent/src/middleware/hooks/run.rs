//! Where the commands of hooks run.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use async_trait::async_trait;
use prowess_skills::{SkillService, SkillView};

use crate::id::ThreadId;

/// How much of each output stream of a hook is read, in bytes.
pub const MAX_HOOK_OUTPUT: usize = 64 * 1024;

/// Runs the commands of hooks. Whoever implements it isolates them: it is given commands of strangers.
///
/// ```
/// use async_trait::async_trait;
/// use prowess_agent::middleware::{HookCommand, HookCommands, HookExit, HookRan, HookSet, Hooks};
///
/// /// Runs nothing, and says that all is well.
/// #[derive(Debug)]
/// struct AllIsWell;
///
/// #[async_trait]
/// impl HookCommands for AllIsWell {
///     async fn run(&self, _: HookCommand<'_>) -> Result<HookRan, String> {
///         let (stdout, stderr) = (String::new(), String::new());
///         Ok(HookRan { exit: HookExit::Code(0), stdout, stderr, is_whole: true })
///     }
/// }
///
/// let hooks = Hooks::new(HookSet::default()).commands(AllIsWell);
/// ```
#[async_trait]
pub trait HookCommands: Send + Sync + Debug {
    /// Runs a command to its end, or until its time is over.
    ///
    /// # Errors
    ///
    /// Why nothing ran.
    async fn run(&self, command: HookCommand<'_>) -> Result<HookRan, String>;
}

/// A command of a hook.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HookCommand<'a> {
    /// The thread whose hook it is.
    pub thread: &'a ThreadId,
    /// The command line.
    pub line: &'a str,
    /// What it reads from standard input.
    pub stdin: Vec<u8>,
    /// Variables for it.
    pub environment: BTreeMap<String, String>,
    /// How long it may take.
    pub timeout: Duration,
    /// The skill whose hook it is: it runs in that skill's directory. Otherwise it is the user's own.
    pub skill: Option<HookSkill<'a>>,
}

/// The skill whose hook a command is.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct HookSkill<'a> {
    /// Its name.
    pub name: &'a str,
    /// The thread's skills.
    pub service: &'a SkillService,
    /// What is loaded of them.
    pub view: &'a SkillView,
}

impl<'a> HookSkill<'a> {
    pub(super) fn new(name: &'a str, service: &'a SkillService, view: &'a SkillView) -> Self {
        Self { name, service, view }
    }
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRan {
    /// How it ended.
    pub exit: HookExit,
    /// What it printed, [`MAX_HOOK_OUTPUT`] bytes at most.
    pub stdout: String,
    /// What it printed to standard error, as much at most.
    pub stderr: String,
    /// Whether that is all that it printed to standard output.
    pub is_whole: bool,
}

/// How a command ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookExit {
    /// By itself, with this code.
    Code(i32),
    /// Killed: its time was over.
    TimedOut,
    /// Killed, and why.
    Killed(String),
}

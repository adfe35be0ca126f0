//! The agents that skills can be installed for, and the directories in which they look.
//!
//! The ids, names and directories are those of `skills` 1.7.4, so that both programs put a skill into the same place.

use std::path::{Path, PathBuf};

use GlobalDirectory::{Config, Home, Variable};

/// The directory of a project that many agents share. Agents that use it are universal: they need no link.
pub const UNIVERSAL_DIRECTORY: &str = ".agents/skills";

/// The most ids that [`Agent::suggestions`] gives.
pub const MAX_SUGGESTIONS: usize = 3;

/// How many single-letter mistakes an id may have so that it is still suggested. A short id may have one.
const MAX_MISTAKES: usize = 2;

/// An agent that reads skills from directories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Agent {
    /// The id that people type after `--agent`.
    pub id: &'static str,
    /// Its name as its makers write it.
    pub name: &'static str,
    /// Its skills directory in a project, with `/` between names.
    pub project_directory: &'static str,
    /// Where its skills of a user are. `None` if it has only those of a project.
    pub global: Option<GlobalDirectory>,
}

/// Where an agent keeps the skills of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GlobalDirectory {
    /// Below the home directory.
    Home(&'static str),
    /// Below `$XDG_CONFIG_HOME`, or `.config` in the home directory.
    Config(&'static str),
    /// `skills` below the directory that this variable names, or below the second directory in the home directory.
    Variable(&'static str, &'static str),
}

impl Agent {
    /// The agent with this id.
    ///
    /// ```
    /// use prowess_install::agents::Agent;
    ///
    /// let agent = Agent::find("claude-code").unwrap();
    /// assert_eq!(agent.project_directory, ".claude/skills");
    /// assert!(!agent.is_universal());
    /// ```
    pub fn find(id: &str) -> Option<&'static Self> {
        let at = AGENTS.binary_search_by(|agent| agent.id.cmp(id)).ok()?;
        AGENTS.get(at)
    }

    /// All agents, sorted by id.
    pub fn all() -> &'static [Self] {
        AGENTS
    }

    /// Whether its project directory is [`UNIVERSAL_DIRECTORY`]. Such an agent needs no link.
    pub fn is_universal(&self) -> bool {
        self.project_directory == UNIVERSAL_DIRECTORY
    }

    /// Whether projects use a directory of this name for skills of their own, such as `skills`. Others begin with a dot.
    ///
    /// ```
    /// use prowess_install::agents::Agent;
    ///
    /// assert!(Agent::find("openclaw").unwrap().has_common_directory());
    /// assert!(!Agent::find("claude-code").unwrap().has_common_directory());
    /// ```
    pub fn has_common_directory(&self) -> bool {
        !self.project_directory.starts_with('.')
    }

    /// Whether its project directory is created even if the project has no directory of this agent.
    pub fn is_created_by_default(&self) -> bool {
        self.id == "claude-code"
    }

    /// The skills directory of a user with this home directory. `variable` returns a variable of the environment.
    ///
    /// Empty and relative values of variables are ignored, because they would depend on the working directory.
    pub fn global_directory(
        &self,
        home: &Path,
        variable: impl Fn(&str) -> Option<PathBuf>,
    ) -> Option<PathBuf> {
        let named = |name| variable(name).filter(|path| path.is_absolute());
        Some(match self.global? {
            Home(below) => home.join(below),
            Config(below) => named("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config")).join(below),
            Variable(name, otherwise) => named(name).unwrap_or_else(|| home.join(otherwise)).join("skills"),
        })
    }

    /// The ids that look most like `id`, best first: at most [`MAX_SUGGESTIONS`].
    ///
    /// ```
    /// use prowess_install::agents::Agent;
    ///
    /// assert_eq!(Agent::suggestions("claude"), ["claude-code"]);
    /// assert_eq!(Agent::suggestions("wnidsurf"), ["windsurf"]);
    /// ```
    pub fn suggestions(id: &str) -> Vec<&'static str> {
        let wanted = id.trim().to_lowercase();
        if wanted.is_empty() || wanted.len() > LONGEST_MISTAKE {
            return Vec::new();
        }
        let mut near: Vec<(usize, &'static str)> = AGENTS
            .iter()
            .filter_map(|agent| {
                let mistakes = strsim::osa_distance(&wanted, agent.id);
                // A part of an id counts as one mistake: people type `claude` or `copilot`.
                let is_part = wanted.len() >= SHORTEST_PART
                    && (agent.id.starts_with(&wanted) || agent.id.split('-').any(|part| part == wanted));
                let is_name = agent.name.to_lowercase() == wanted;
                let rank = if is_name {
                    0
                } else if is_part {
                    1
                } else {
                    mistakes
                };
                let most = if wanted.len() <= SHORT_ID { 1 } else { MAX_MISTAKES };
                let is_near = rank <= most && rank < agent.id.len().min(wanted.len());
                is_near.then_some((rank, agent.id))
            })
            .collect();
        near.sort_unstable();
        near.into_iter().take(MAX_SUGGESTIONS).map(|(_, id)| id).collect()
    }
}

/// The shortest text that is taken for a part of an id.
const SHORTEST_PART: usize = 3;

/// The length up to which an id is short.
const SHORT_ID: usize = 5;

/// The longest text that is compared with ids.
const LONGEST_MISTAKE: usize = 64;

const fn agent(
    id: &'static str,
    name: &'static str,
    project_directory: &'static str,
    global: Option<GlobalDirectory>,
) -> Agent {
    Agent { id, name, project_directory, global }
}

/// Sorted by id.
#[rustfmt::skip]
const AGENTS: &[Agent] = &[
    agent("adal", "AdaL", ".adal/skills", Some(Home(".adal/skills"))),
    agent("aider-desk", "AiderDesk", ".aider-desk/skills", Some(Home(".aider-desk/skills"))),
    agent("amp", "Amp", ".agents/skills", Some(Config("agents/skills"))),
    agent("antigravity", "Antigravity", ".agents/skills", Some(Home(".gemini/antigravity/skills"))),
    agent("antigravity-cli", "Antigravity CLI", ".agents/skills", Some(Home(".gemini/antigravity-cli/skills"))),
    agent("astrbot", "AstrBot", "data/skills", Some(Home(".astrbot/data/skills"))),
    agent("augment", "Augment", ".augment/skills", Some(Home(".augment/skills"))),
    agent("autohand-code", "Autohand Code CLI", ".autohand/skills", Some(Variable("AUTOHAND_HOME", ".autohand"))),
    agent("bob", "IBM Bob", ".bob/skills", Some(Home(".bob/skills"))),
    agent("claude-code", "Claude Code", ".claude/skills", Some(Variable("CLAUDE_CONFIG_DIR", ".claude"))),
    agent("cline", "Cline", ".agents/skills", Some(Home(".agents/skills"))),
    agent("codearts-agent", "CodeArts Agent", ".codeartsdoer/skills", Some(Home(".codeartsdoer/skills"))),
    agent("codebuddy", "CodeBuddy", ".codebuddy/skills", Some(Home(".codebuddy/skills"))),
    agent("codemaker", "Codemaker", ".codemaker/skills", Some(Home(".codemaker/skills"))),
    agent("codestudio", "Code Studio", ".codestudio/skills", Some(Home(".codestudio/skills"))),
    agent("codex", "Codex", ".agents/skills", Some(Home(".agents/skills"))),
    agent("command-code", "Command Code", ".commandcode/skills", Some(Home(".commandcode/skills"))),
    agent("continue", "Continue", ".continue/skills", Some(Home(".continue/skills"))),
    agent("cortex", "Cortex Code", ".cortex/skills", Some(Home(".snowflake/cortex/skills"))),
    agent("crush", "Crush", ".crush/skills", Some(Home(".config/crush/skills"))),
    agent("cursor", "Cursor", ".agents/skills", Some(Home(".cursor/skills"))),
    agent("deepagents", "Deep Agents", ".agents/skills", Some(Home(".deepagents/agent/skills"))),
    agent("devin", "Devin for Terminal", ".devin/skills", Some(Config("devin/skills"))),
    agent("dexto", "Dexto", ".agents/skills", Some(Home(".agents/skills"))),
    agent("droid", "Droid", ".agents/skills", Some(Home(".factory/skills"))),
    agent("eve", "Eve", "agent/skills", None),
    agent("firebender", "Firebender", ".agents/skills", Some(Home(".firebender/skills"))),
    agent("forgecode", "ForgeCode", ".forge/skills", Some(Home(".forge/skills"))),
    agent("fx", "fx", ".agents/skills", Some(Home(".agents/skills"))),
    agent("gemini-cli", "Gemini CLI", ".agents/skills", Some(Home(".gemini/skills"))),
    agent("github-copilot", "GitHub Copilot", ".agents/skills", Some(Home(".copilot/skills"))),
    agent("goose", "Goose", ".goose/skills", Some(Config("goose/skills"))),
    agent("grok", "Grok Build", ".grok/skills", Some(Variable("GROK_HOME", ".grok"))),
    agent("hermes-agent", "Hermes Agent", ".hermes/skills", Some(Variable("HERMES_HOME", ".hermes"))),
    agent("iflow-cli", "iFlow CLI", ".iflow/skills", Some(Home(".iflow/skills"))),
    agent("inference-sh", "inference.sh", ".inferencesh/skills", Some(Home(".inferencesh/skills"))),
    agent("jazz", "Jazz", ".jazz/skills", Some(Home(".jazz/skills"))),
    agent("junie", "Junie", ".junie/skills", Some(Home(".junie/skills"))),
    agent("kilo", "Kilo Code", ".agents/skills", Some(Home(".kilo/skills"))),
    agent("kimchi", "Kimchi", ".kimchi/skills", Some(Home(".config/kimchi/harness/skills"))),
    agent("kimi-code-cli", "Kimi Code CLI", ".agents/skills", Some(Home(".agents/skills"))),
    agent("kiro-cli", "Kiro CLI", ".kiro/skills", Some(Home(".kiro/skills"))),
    agent("kode", "Kode", ".kode/skills", Some(Home(".kode/skills"))),
    agent("lingma", "Lingma", ".lingma/skills", Some(Home(".lingma/skills"))),
    agent("loaf", "Loaf", ".agents/skills", Some(Home(".agents/skills"))),
    agent("mcpjam", "MCPJam", ".mcpjam/skills", Some(Home(".mcpjam/skills"))),
    agent("minimax-code", "MiniMax Code", ".minimax/skills", Some(Home(".minimax/skills"))),
    agent("mistral-vibe", "Mistral Vibe", ".vibe/skills", Some(Variable("VIBE_HOME", ".vibe"))),
    agent("moxby", "Moxby", ".moxby/skills", Some(Home(".moxby/skills"))),
    agent("mux", "Mux", ".mux/skills", Some(Home(".mux/skills"))),
    agent("neovate", "Neovate", ".neovate/skills", Some(Home(".neovate/skills"))),
    agent("ona", "Ona", ".ona/skills", Some(Home(".ona/skills"))),
    agent("openclaw", "OpenClaw", "skills", Some(Home(".openclaw/skills"))),
    agent("opencode", "OpenCode", ".agents/skills", Some(Config("opencode/skills"))),
    agent("openhands", "OpenHands", ".openhands/skills", Some(Home(".openhands/skills"))),
    agent("pi", "Pi", ".agents/skills", Some(Home(".agents/skills"))),
    agent("pochi", "Pochi", ".pochi/skills", Some(Home(".pochi/skills"))),
    agent("posit-assistant", "Posit Assistant", ".posit/assistant/skills", Some(Home(".posit/assistant/skills"))),
    agent("promptscript", "PromptScript", ".agents/skills", None),
    agent("qoder", "Qoder", ".qoder/skills", Some(Home(".qoder/skills"))),
    agent("qoder-cn", "Qoder CN", ".qoder/skills", Some(Home(".qoder-cn/skills"))),
    agent("qwen-code", "Qwen Code", ".qwen/skills", Some(Home(".qwen/skills"))),
    agent("reasonix", "Reasonix", ".reasonix/skills", Some(Home(".reasonix/skills"))),
    agent("replit", "Replit", ".agents/skills", Some(Config("agents/skills"))),
    agent("roo", "Roo Code", ".roo/skills", Some(Home(".roo/skills"))),
    agent("rovodev", "Rovo Dev", ".rovodev/skills", Some(Home(".rovodev/skills"))),
    agent("sarvam-code", "Sarvam Code", ".agents/skills", Some(Home(".agents/skills"))),
    agent("tabnine-cli", "Tabnine CLI", ".tabnine/agent/skills", Some(Home(".tabnine/agent/skills"))),
    agent("terramind", "Terramind", ".terramind/skills", Some(Home(".terramind/skills"))),
    agent("tinycloud", "Tinycloud", ".tinycloud/skills", Some(Home(".tinycloud/skills"))),
    agent("trae", "Trae", ".trae/skills", Some(Home(".trae/skills"))),
    agent("trae-cn", "Trae CN", ".trae/skills", Some(Home(".trae-cn/skills"))),
    agent("universal", "Universal", ".agents/skills", Some(Config("agents/skills"))),
    agent("warp", "Warp", ".agents/skills", Some(Home(".agents/skills"))),
    agent("windsurf", "Windsurf", ".windsurf/skills", Some(Home(".codeium/windsurf/skills"))),
    agent("zcode", "ZCode", ".zcode/skills", Some(Home(".zcode/skills"))),
    agent("zed", "Zed", ".agents/skills", Some(Home(".agents/skills"))),
    agent("zencoder", "Zencoder", ".zencoder/skills", Some(Home(".zencoder/skills"))),
    agent("zenflow", "Zenflow", ".zencoder/skills", Some(Home(".zencoder/skills"))),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_directory_is_relative() {
        assert!(AGENTS.is_sorted_by(|a, b| a.id < b.id));
        for agent in Agent::all() {
            assert_eq!(Agent::find(agent.id), Some(agent));
            let below = match agent.global {
                Some(Home(below) | Config(below) | Variable(_, below)) => below,
                None => ".x",
            };
            for path in [agent.project_directory, below] {
                assert!(
                    !path.is_empty() && path.split('/').all(|name| !matches!(name, "" | "." | "..")),
                    "{path}"
                );
            }
        }
        assert_eq!(Agent::all().len(), 79);
        assert_eq!(Agent::all().iter().filter(|agent| agent.is_universal()).count(), 24);
    }

    #[test]
    fn global_directories_follow_the_environment() {
        let home = Path::new("/home/ada");
        let none = |_: &str| None;
        let some = |name: &str| {
            let value = match name {
                "XDG_CONFIG_HOME" => "/cfg",
                "CLAUDE_CONFIG_DIR" => "/claude",
                "VIBE_HOME" => "relative",
                _ => return None,
            };
            Some(PathBuf::from(value))
        };
        let text = |id: &str, variable: &dyn Fn(&str) -> Option<PathBuf>| {
            let directory = Agent::find(id).unwrap().global_directory(home, variable);
            directory.map(|path| path.to_str().unwrap().to_owned())
        };
        for (id, without, with) in [
            ("codex", "/home/ada/.agents/skills", "/home/ada/.agents/skills"),
            ("claude-code", "/home/ada/.claude/skills", "/claude/skills"),
            ("opencode", "/home/ada/.config/opencode/skills", "/cfg/opencode/skills"),
            ("crush", "/home/ada/.config/crush/skills", "/home/ada/.config/crush/skills"),
            ("mistral-vibe", "/home/ada/.vibe/skills", "/home/ada/.vibe/skills"),
        ] {
            assert_eq!(text(id, &none).as_deref(), Some(without));
            assert_eq!(text(id, &some).as_deref(), Some(with));
        }
        assert_eq!(text("eve", &none), None);
    }

    #[test]
    fn a_mistyped_id_is_answered_with_the_nearest() {
        assert_eq!(Agent::suggestions("Claude Code"), ["claude-code"]);
        assert_eq!(Agent::suggestions("copilot"), ["github-copilot"]);
        assert_eq!(Agent::suggestions("codx"), ["codex"]);
        for nothing in ["", "z", "prowess", &"x".repeat(10_000)] {
            assert!(Agent::suggestions(nothing).is_empty(), "{nothing}");
        }
    }
}

//! `[skills]`

use prowess_catalog::overview::ManualSkills;
use prowess_skills::allowed_tools::DEFAULT_ALWAYS_ALLOWED;
use prowess_skills::documents::DEFAULT_MAX_DOCUMENT_BYTES;
use prowess_skills::load::DEFAULT_RESOURCE_DEPTH;
use prowess_skills::load_limits::DEFAULT_MAX_LOADED_SKILLS;
use prowess_skills::{AllowedTools, Budgets, Dialect, Discovery, Lifetime, SessionOptions};

use super::read::section;
use super::setting::{EMPTY, FullPath, Parsed, Whole, words};

section! {
    /// Where prowess finds skills, how a model learns about them, and how much room they get.
    pub(crate) struct SkillSettings {
        /// More directories with skills, as absolute paths or with a leading `~/`. `SKILLS_ROOT` and `--root` take
        /// precedence over them.
        User roots: Vec<Parsed<FullPath>> = EMPTY,
        /// How many tokens the list of skills in the prompt of `prowess chat`, or in the instructions of `prowess mcp`, can
        /// have. If it would have more, it is shortened, and the model searches the skills instead. Without this setting:
        /// 4,000 tokens, or in a chat 4 % of `model.context_window` if that is less.
        User overview_budget: Option<Whole<100>>,
        /// How many skills can be loaded at once.
        All max_loaded_skills: Whole = DEFAULT_MAX_LOADED_SKILLS,
        /// How many tokens all loaded skills can have together. Without it, there is no limit.
        All max_loaded_tokens: Option<Whole>,
        /// How many bytes of documents one skill can have in the model's context.
        All max_document_bytes: Whole = DEFAULT_MAX_DOCUMENT_BYTES,
        /// How many levels of a skill's directories are listed when the skill is loaded. With 1, the list has
        /// `scripts/`, `references/` and so on, without the directories in them.
        All resource_depth: Whole = DEFAULT_RESOURCE_DEPTH,
        /// What a skill's `allowed-tools` do: recommend these tools, restrict the model to them, or approve them in
        /// advance, so that prowess does not ask about them.
        User allowed_tools: AllowedTools = "recommend",
        /// The tools that `allowed_tools = "restrict"` never blocks. `load_skill` and `unload_skill` stand for the tools
        /// of every dialect that load and unload skills. `read_file` also stands for the tools that read documents of
        /// skills.
        User always_allowed_tools: Vec<String> = DEFAULT_ALWAYS_ALLOWED,
        /// The names and texts of the skill tools, as one family of agents knows them. The default is `trpc` for
        /// `prowess chat`, and `deepagents` for `prowess mcp` and `prowess session`, which also have `--dialect`.
        All dialect: Option<Dialect>,
        /// When prowess looks for the files of a skill: when the skill is loaded (`lazy`), or for all skills at the
        /// start (`eager`). With `eager`, the list of skills says how many files each skill has.
        All discovery: Discovery = "lazy",
        /// How long a skill stays loaded: for the next model call, until the turn ends, or for the whole conversation,
        /// which is the default of `prowess chat`. `prowess mcp` sees no turns: a skill stays loaded until it is
        /// unloaded.
        All lifetime: Option<Lifetime>,
        /// Whether skills that only people may start are hidden from the model, or listed and marked. The dialect
        /// `opencode` always hides them.
        All manual: ManualSkills = "hidden",
        /// Which skills are loaded when a sub-agent of `prowess chat` starts: `none`, or those that its parent has
        /// `loaded`.
        All inherited: Inherited = "none",
    }
}

/// The most tokens of the overview, if nobody sets another number.
const OVERVIEW_BUDGET: usize = 4_000;
/// The fewest tokens in which an overview says how to find skills.
const LEAST_OVERVIEW: usize = 100;
/// The part of the context window that the overview may take, if nobody sets a number: one of so many.
const OVERVIEW_PART: usize = 25;

impl SkillSettings {
    /// The most tokens of the overview in a context window.
    pub(crate) fn overview_tokens(&self, window: Option<u64>) -> usize {
        let part =
            window.map_or(usize::MAX, |window| usize::try_from(window).unwrap_or(usize::MAX) / OVERVIEW_PART);
        self.overview_budget.map_or(OVERVIEW_BUDGET.min(part).max(LEAST_OVERVIEW), Whole::size)
    }

    /// Puts what is set for every surface into the options of a session. The lifetime is missing: not every surface
    /// knows when a turn ends.
    pub(crate) fn put_into(&self, options: &mut SessionOptions) {
        options.budgets =
            Budgets::new(self.max_loaded_skills.size(), self.max_loaded_tokens.map(Whole::size));
        options.budgets.max_document_bytes = self.max_document_bytes.size();
        options.resource_depth = self.resource_depth.size();
        options.allowed_tools = self.allowed_tools;
        options.tools.always_allowed = self.always_allowed_tools.iter().cloned().collect();
        options.discovery = self.discovery;
        options.manual = self.manual;
    }
}

words!(AllowedTools { "recommend" = Recommend, "restrict" = Restrict, "preapprove" = Preapprove });
words!(Dialect { "deepagents" = DeepAgents, "trpc" = Trpc, "opencode" = OpenCode });
words!(Discovery { "lazy" = Lazy, "eager" = Eager });
words!(Lifetime { "once" = Once, "turn" = Turn, "session" = Session });
words!(ManualSkills { "hidden" = Hidden, "marked" = Marked });

words! {
    /// Which skills are loaded when a sub-agent starts.
    enum Inherited { "none" = None, "loaded" = Loaded }
}

//! `[skills]`

use prowess_catalog::overview::ManualSkills;
use prowess_skills::allowed_tools::DEFAULT_ALWAYS_ALLOWED;
use prowess_skills::documents::DEFAULT_MAX_DOCUMENT_BYTES;
use prowess_skills::load::DEFAULT_RESOURCE_DEPTH;
use prowess_skills::load_limits::DEFAULT_MAX_LOADED_SKILLS;
use prowess_skills::options::{Placement, Prompt};
use prowess_skills::{AllowedTools, Budgets, Dialect, Discovery, Lifetime, SessionOptions};

use super::narrowed::Narrowed;
use super::overview::OverviewSettings;
use super::read::section;
use super::setting::{EMPTY, FullPath, Parsed, Whole, words};
use super::skill_modes::{KitName, KitSettings, ModeSettings};

section! {
    /// Where prowess finds skills, how a model learns about them, and how much room they get.
    pub(crate) struct SkillSettings {
        /// More directories with skills, as absolute paths or with a leading `~/`. `SKILLS_ROOT` and `--root` take
        /// precedence over them.
        User roots: Vec<Parsed<FullPath>> = EMPTY,
        /// The kits in use: a model sees only the skills in them, and pinned skills. Without kits, it sees all skills.
        /// `--kit` and `/kit` choose other ones.
        Narrow kits: Narrowed<Vec<Parsed<KitName>>>,
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
        /// How long a skill stays loaded: for the next model call (`once`), until the turn ends (`turn`), until another skill
        /// needs its place (`capped`), or for the whole conversation (`session`), which is the default of `prowess chat`. With
        /// `capped`, the skill that was used longest ago goes first. `prowess mcp` sees no turns: there, `once` and `turn` mean
        /// `session`.
        All lifetime: Option<Lifetime>,
        /// Where the text of a loaded skill is in the requests of `prowess chat`: in the answer to the call that loaded it, or
        /// in the system message. A change of the system message makes providers read the whole conversation again.
        All placement: Placement = "answer",
        /// When the texts about skills in the system message and the tools of `prowess chat` change. With `frozen`, they stay
        /// the same as long as possible, so that providers can cache them, and the model reads at the end of the conversation
        /// what changed. With `current`, they change with every load, and mark loaded skills.
        All prompt: Prompt = "frozen",
        /// How many skills that match your message prowess names to the model, if the list of skills has no room for
        /// descriptions. 0 turns this off. Only with `prompt = "frozen"`.
        All suggestions: Whole<0> = DEFAULT_SUGGESTIONS,
        /// Whether skills that only people may start are hidden from the model, or listed and marked. Without
        /// this setting, they are hidden. The dialect `opencode` always hides them.
        Narrow manual: Narrowed<ManualSkills>,
        /// Which skills are loaded when a sub-agent of `prowess chat` starts: `none`, or those that its parent has
        /// `loaded`.
        All inherited: Inherited = "none",
    }
    tables {
        overview: OverviewSettings,
        mode: ModeSettings,
        kit: KitSettings,
    }
}

/// How many skills are suggested for a message, if nobody sets another number.
const DEFAULT_SUGGESTIONS: usize = 3;

impl SkillSettings {
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
        // A project can hide them, and never show them.
        options.manual = match (self.manual.own, self.manual.project) {
            (Some(ManualSkills::Marked), None | Some(ManualSkills::Marked)) => ManualSkills::Marked,
            _ => ManualSkills::Hidden,
        };
        options.modes = self.modes();
    }
}

words!(AllowedTools { "recommend" = Recommend, "restrict" = Restrict, "preapprove" = Preapprove });
words!(Dialect { "deepagents" = DeepAgents, "trpc" = Trpc, "opencode" = OpenCode });
words!(Discovery { "lazy" = Lazy, "eager" = Eager });
words!(Lifetime { "once" = Once, "turn" = Turn, "capped" = Capped, "session" = Session });
words!(Placement { "answer" = ToolAnswer, "system" = SystemMessage });
words!(Prompt { "frozen" = Frozen, "current" = Current });
words!(ManualSkills { "hidden" = Hidden, "marked" = Marked });

words! {
    /// Which skills are loaded when a sub-agent starts.
    enum Inherited { "none" = None, "loaded" = Loaded }
}

//! What can be set. The doc comments are the reference.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use prowess_agent::cost::ModelPrice;
use prowess_agent::model::Effort;
use prowess_catalog::overview::ManualSkills;
use prowess_skills::documents::DEFAULT_MAX_DOCUMENT_BYTES;
use prowess_skills::options::DEFAULT_MAX_LOADED_SKILLS;
use prowess_skills::{AllowedTools, Budgets, Dialect, Discovery, Lifetime, SessionOptions};
use prowess_workspace::{HostRule, Level};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Everything that can be set, but for rules and hooks.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Settings {
    /// The model that answers in `prowess chat`.
    pub(crate) model: ModelSettings,
    /// Who is asked for models, by a name of your choice, which `model.name` begins with. `openai` and `anthropic` are
    /// built in and can be changed; any other needs `api` and `base_url`.
    #[schemars(extend("x-user-only" = true))]
    pub(crate) provider: BTreeMap<String, ProviderSettings>,
    /// Which skills there are, how models are told of them, and what they may take.
    pub(crate) skills: SkillSettings,
    /// What holds the commands of skills.
    #[schemars(extend("x-user-only" = true))]
    pub(crate) sandbox: SandboxSettings,
    /// Who shares artifacts.
    #[schemars(extend("x-user-only" = true))]
    pub(crate) artifacts: ArtifactSettings,
    /// What a conversation may take.
    #[schemars(extend("x-user-only" = true))]
    pub(crate) limits: LimitSettings,
    /// Other MCP servers whose skills and tools `prowess chat` has, by a label of your choice: a skill is called
    /// `LABEL:PATH`, a tool `LABEL__TOOL`. See [mcp](mcp.md#skills-and-tools-of-other-servers).
    #[schemars(extend("x-user-only" = true))]
    pub(crate) mcp: BTreeMap<String, McpSettings>,
    /// What models cost, in dollars for a million tokens, by the model's name; a `*` at its end stands for all models
    /// that begin so.
    #[schemars(with = "BTreeMap<String, PriceReference>", extend("x-user-only" = true))]
    pub(crate) price: BTreeMap<String, ModelPrice>,
    /// Where to send what happened in turns, and how long it took: see [telemetry](telemetry.md).
    pub(crate) telemetry: TelemetrySettings,
}

/// The model that answers.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ModelSettings {
    /// The provider and its name for the model, such as `openai:gpt-5.1`. `offline` needs neither key nor network.
    #[schemars(with = "String")]
    pub(crate) name: ModelName,
    /// How hard it thinks; as the provider has it otherwise.
    #[schemars(schema_with = "effort")]
    pub(crate) effort: Option<Effort>,
    /// How many tokens it can read; what is known of the model otherwise.
    #[schemars(range(min = 1000))]
    pub(crate) window: Option<u64>,
    /// How many tokens an answer may have; what is known of the model otherwise.
    #[schemars(range(min = 1))]
    pub(crate) max_output: Option<u64>,
}

/// Who is asked for models.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProviderSettings {
    /// What the provider is called in messages.
    #[serde(skip)]
    pub(crate) name: String,
    /// The protocol that it speaks.
    pub(crate) api: Api,
    /// Where it is.
    pub(crate) base_url: String,
    /// The environment variable that has the key. Empty: no key is sent.
    #[serde(default)]
    pub(crate) key_env: Option<String>,
    /// The program that prints the key, and its arguments, in place of `key_env`. No shell is between; it has ten
    /// seconds.
    #[serde(default)]
    pub(crate) key_command: Option<Vec<String>>,
    /// What the most that a model may say is called, with the protocol `openai`; `max_completion_tokens` otherwise. Older
    /// servers want `max_tokens`.
    #[serde(default)]
    #[schemars(schema_with = "output_limit")]
    pub(crate) output_limit: Option<OutputLimitWord>,
    /// How a model is told how hard to think: by a word, which is the default; by a number of tokens, which Anthropic's
    /// models before the end of 2025 want; or not at all, for models that refuse to be told.
    #[serde(default)]
    #[schemars(schema_with = "thinking")]
    pub(crate) thinking: Option<ThinkingWord>,
}

/// The words for what the most that a model may say is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum OutputLimitWord {
    MaxCompletionTokens,
    MaxTokens,
}

/// The words for how a model is told how hard to think.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ThinkingWord {
    Word,
    Tokens,
    Off,
}

/// A protocol for asking models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Api {
    Openai,
    Anthropic,
}

/// Another MCP server.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct McpSettings {
    /// The program that is the server, and its arguments; it talks on standard input and output. No shell is between.
    pub(crate) command: Option<Vec<String>>,
    /// Environment variables of yours that the program gets besides `PATH`, `HOME` and the like, by their names.
    pub(crate) env: Vec<String>,
    /// Where the program is started, absolute or with a leading `~/`; in your home otherwise.
    pub(crate) directory: Option<PathBuf>,
    /// Where the server is, in place of `command`: https, or http on this machine.
    pub(crate) url: Option<String>,
    /// The environment variable that has the bearer token for `url`.
    pub(crate) token_env: Option<String>,
    /// Skills whose `allowed-tools`, `model`, `effort` and `shell` count, each as `prowess servers LABEL` prints it: the
    /// address and the digest. One that changes loses it.
    pub(crate) grants: Vec<String>,
}

/// Which skills there are, how models are told of them, and what they may take.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SkillSettings {
    /// More directories to look for skills in, absolute or with a leading `~/`; `SKILLS_ROOT` and `--root` take
    /// precedence over them.
    #[schemars(extend("x-user-only" = true))]
    pub(crate) roots: Vec<PathBuf>,
    /// How many skills may be loaded at once.
    #[schemars(range(min = 1))]
    pub(crate) max_loaded: usize,
    /// How many tokens loaded skills may take together; any number otherwise.
    #[schemars(range(min = 1))]
    pub(crate) max_tokens: Option<usize>,
    /// How many bytes of documents one skill may have in the model's context.
    #[schemars(range(min = 1))]
    pub(crate) max_document_bytes: usize,
    /// How many levels of a skill's directories are listed when it is loaded: 1 is `scripts/`, `references/` and so on
    /// without the directories in them.
    #[schemars(range(min = 1))]
    pub(crate) resource_depth: usize,
    /// What a skill's `allowed-tools` mean: a recommendation, a restriction to them, or that they are not asked about.
    #[schemars(extend("x-user-only" = true))]
    pub(crate) allowed_tools: AllowedToolsWord,
    /// Whose tools and words for skills a model has. By default `prowess chat` has those of `trpc`; `prowess mcp` and
    /// `prowess session` have those of `deepagents`, and take `--dialect`.
    #[schemars(schema_with = "dialect")]
    pub(crate) dialect: Option<Dialect>,
    /// When the files of a skill are looked for: when it is loaded (`lazy`), or for all skills at the start, so that the
    /// list of skills counts them (`eager`).
    pub(crate) discovery: DiscoveryWord,
    /// How long a skill stays loaded: for the next call of the model, until the turn ends, or as long as the conversation,
    /// which is the default of `prowess chat`. `prowess mcp` sees no turns: there a skill stays loaded until it is unloaded.
    #[schemars(schema_with = "lifetime")]
    pub(crate) lifetime: Option<Lifetime>,
    /// Skills that only people may start are hidden from the model, or listed and marked as such. The dialect `opencode`
    /// hides them always.
    pub(crate) manual: ManualWord,
    /// Which skills a sub-agent of `prowess chat` has loaded when it begins: `none`, or those that its parent has
    /// `loaded`.
    pub(crate) inherited: InheritedWord,
}

impl SkillSettings {
    /// Puts into the options of a session what is set for every surface. How long skills stay loaded is for those that
    /// know when a turn ends.
    pub(crate) fn put_into(&self, options: &mut SessionOptions) {
        options.budgets = Budgets::new(self.max_loaded, self.max_tokens);
        options.budgets.max_document_bytes = self.max_document_bytes;
        options.resource_depth = self.resource_depth;
        options.allowed_tools = self.allowed_tools.into();
        options.discovery = self.discovery.into();
        options.manual = self.manual.into();
    }
}

impl Default for SkillSettings {
    fn default() -> Self {
        Self {
            roots: Vec::new(),
            max_loaded: DEFAULT_MAX_LOADED_SKILLS,
            max_tokens: None,
            max_document_bytes: DEFAULT_MAX_DOCUMENT_BYTES,
            resource_depth: 1,
            allowed_tools: AllowedToolsWord::Recommend,
            dialect: None,
            discovery: DiscoveryWord::Lazy,
            lifetime: None,
            manual: ManualWord::Hidden,
            inherited: InheritedWord::None,
        }
    }
}

/// The words for when the files of skills are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum DiscoveryWord {
    Lazy,
    Eager,
}

impl From<DiscoveryWord> for Discovery {
    fn from(word: DiscoveryWord) -> Self {
        match word {
            DiscoveryWord::Lazy => Self::Lazy,
            DiscoveryWord::Eager => Self::Eager,
        }
    }
}

/// The words for what a model sees of skills that only people may start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ManualWord {
    Hidden,
    Marked,
}

impl From<ManualWord> for ManualSkills {
    fn from(word: ManualWord) -> Self {
        match word {
            ManualWord::Hidden => Self::Hidden,
            ManualWord::Marked => Self::Marked,
        }
    }
}

/// The words for which skills sub-agents begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum InheritedWord {
    None,
    Loaded,
}

/// The words for the meanings of `allowed-tools`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AllowedToolsWord {
    Recommend,
    Restrict,
    Preapprove,
}

impl From<AllowedToolsWord> for AllowedTools {
    fn from(word: AllowedToolsWord) -> Self {
        match word {
            AllowedToolsWord::Recommend => Self::Recommend,
            AllowedToolsWord::Restrict => Self::Restrict,
            AllowedToolsWord::Preapprove => Self::Preapprove,
        }
    }
}

/// What holds the commands of skills.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SandboxSettings {
    /// A sandbox of this machine, or a container of Docker or Podman.
    pub(crate) executor: ExecutorWord,
    /// The weakest isolation that is enough for the local executor; the strongest that works is taken.
    pub(crate) level: LevelWord,
    /// The image of containers, which the engine must have.
    pub(crate) image: String,
    /// The Unix socket of the container engine, absolute or with a leading `~/`; otherwise `DOCKER_HOST` decides, and
    /// then the places where Docker and Podman listen.
    pub(crate) engine_socket: Option<PathBuf>,
    /// Hosts that a model's commands may ask to reach; each time it is asked about, unless a rule allows it. `prowess
    /// run` has `--allow-host`.
    #[serde(with = "hosts")]
    #[schemars(with = "Vec<String>")]
    pub(crate) hosts: Vec<HostRule>,
    /// Variables that a command may be given although they make programs load code, such as `NODE_OPTIONS` or
    /// `LD_LIBRARY_PATH`. They take effect inside the sandbox only, and never at the level `none`.
    pub(crate) allow_loaders: Vec<String>,
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self {
            executor: ExecutorWord::Local,
            level: LevelWord::Bwrap,
            image: prowess_workspace::ContainerOptions::default().image,
            engine_socket: None,
            hosts: Vec::new(),
            allow_loaders: Vec::new(),
        }
    }
}

/// The words for what holds commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExecutorWord {
    Local,
    Container,
}

/// The words for levels of isolation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum LevelWord {
    Bwrap,
    BwrapNoproc,
    Landlock,
    None,
}

impl From<LevelWord> for Level {
    fn from(word: LevelWord) -> Self {
        match word {
            LevelWord::Bwrap => Self::Bwrap,
            LevelWord::BwrapNoproc => Self::BwrapNoproc,
            LevelWord::Landlock => Self::Landlock,
            LevelWord::None => Self::None,
        }
    }
}

/// Who shares artifacts.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ArtifactSettings {
    /// Who finds what a run saved: its thread of `prowess chat` or its client of `prowess mcp` alone, everybody in the
    /// same project, or everything that you run. `prowess run` takes `thread` for `project`.
    pub(crate) scope: ScopeWord,
}

impl Default for ArtifactSettings {
    fn default() -> Self {
        Self { scope: ScopeWord::Thread }
    }
}

/// The words for who shares artifacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ScopeWord {
    Thread,
    Project,
    User,
}

/// What a conversation may take.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LimitSettings {
    /// How many times the model may be called in a turn; 100 otherwise.
    #[schemars(range(min = 1))]
    pub(crate) steps: Option<u32>,
    /// How many tokens may be read and said in a turn; any number otherwise.
    #[schemars(range(min = 1))]
    pub(crate) tokens: Option<u64>,
    /// How many dollars a thread may cost in all, with its sub-agents; any otherwise. It needs a `price` for the model.
    #[schemars(range(min = 0))]
    pub(crate) cost: Option<f64>,
}

/// Where spans go.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TelemetrySettings {
    /// A collector that takes OTLP over HTTP, such as `http://127.0.0.1:4318`; without one nothing is sent.
    #[schemars(extend("x-user-only" = true))]
    pub(crate) endpoint: Option<String>,
}

/// The reference of [`ModelPrice`].
#[derive(JsonSchema)]
#[allow(dead_code, reason = "it is there for its schema")]
struct PriceReference {
    /// Tokens that it reads.
    #[schemars(range(min = 0))]
    input: f64,
    /// Tokens that it says.
    #[schemars(range(min = 0))]
    output: f64,
    /// Tokens that it reads from its provider's cache; as `input` otherwise.
    #[schemars(range(min = 0))]
    cache_read: Option<f64>,
    /// Tokens that are put into the cache; as `input` otherwise.
    #[schemars(range(min = 0))]
    cache_written: Option<f64>,
}

fn output_limit(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": ["max_completion_tokens", "max_tokens"] })
}

fn thinking(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": ["word", "tokens", "off"] })
}

fn dialect(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": ["deepagents", "trpc", "opencode"] })
}

fn lifetime(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": ["once", "turn", "session"] })
}

fn effort(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "enum": ["low", "medium", "high", "max"] })
}

/// Which model: one of a provider, or the one that needs none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) enum ModelName {
    /// The model that needs neither key nor network.
    #[default]
    Offline,
    /// A provider's, by the provider's name and what the provider calls it.
    Of { provider: String, model: String },
}

impl FromStr for ModelName {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once(':') {
            None if text == "offline" => Ok(Self::Offline),
            _ if text.chars().any(prowess_catalog::untrusted::is_unprintable) => {
                Err("a name without control characters")
            }
            Some((provider, model)) if !provider.is_empty() && !model.is_empty() => {
                Ok(Self::Of { provider: provider.to_owned(), model: model.to_owned() })
            }
            _ => Err("PROVIDER:NAME, such as openai:gpt-5.1, or offline"),
        }
    }
}

impl TryFrom<String> for ModelName {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ModelName> for String {
    fn from(name: ModelName) -> Self {
        name.to_string()
    }
}

impl fmt::Display for ModelName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Offline => f.write_str("offline"),
            Self::Of { provider, model } => write!(f, "{provider}:{model}"),
        }
    }
}

/// Rules for hosts as texts.
mod hosts {
    use prowess_workspace::HostRule;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(hosts: &[HostRule], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(hosts.iter().map(ToString::to_string))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<HostRule>, D::Error> {
        let texts = Vec::<String>::deserialize(deserializer)?;
        texts.iter().map(|text| text.parse().map_err(D::Error::custom)).collect()
    }
}

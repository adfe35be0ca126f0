//! Layer 3: a skill's commands, in the session's workspace and behind the gate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use prowess_catalog::{Digest, SkillEntry, code_text};
use prowess_permission::{
    Asker, Decision, Deed, Kind, Note, Question, Refusal, RunDeed, RunDeedInput, Stopped, Talk, joined,
};
use prowess_workspace::{
    ExecuteError, HostGate, InputMode, Limits, LiveError, LiveOptions, LiveRuns, Network, NoSink, OutputSink,
    RunContext, RunError, RunInput, RunReport, RunRequest, Runner, SkillInput, SkillSources, StageSource,
};
use serde_json::{Value, json};

use crate::delta::{LoadedSkill, SkillDelta};
use crate::dialect::RunSetting;
use crate::error::SkillError;
use crate::files::SkillFiles;
use crate::host_files::{AskedHost, Unread};
use crate::load::{Caller, loaded_from};
use crate::ran::Ran;
use crate::session::Answer;
use crate::step::{Halt, Outcome};
use crate::view::SkillView;

/// How much of each output stream a model reads, in bytes: its beginning and its end.
pub const MAX_SHOWN_OUTPUT: usize = 16 * 1024;
/// How much of the contents of all collected files a model reads, in bytes.
pub const MAX_SHOWN_FILES: usize = 32 * 1024;
/// How many warnings a model reads.
const MAX_SHOWN_WARNINGS: usize = 20;

/// What a session runs commands with.
///
/// ```
/// use std::sync::Arc;
/// use prowess_permission::{Decision, Layer, Permissions, Policy, Rule};
/// use prowess_skills::{Runs, SkillSession};
/// use prowess_workspace::{RunRequest, Runner, Workspaces, testing::FakeExecutor};
///
/// # use prowess_catalog::{Catalog, Root, ScanOptions};
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let scratch = tempfile::tempdir()?;
/// # std::fs::create_dir(scratch.path().join("greet"))?;
/// # let manifest = "---\nname: greet\ndescription: Says hello.\n---\nWave.\n";
/// # std::fs::write(scratch.path().join("greet/SKILL.md"), manifest)?;
/// # let catalog = Catalog::discover(&[Root::explicit(scratch.path())], &ScanOptions::default());
/// # let place = scratch.path().join("workspaces");
/// let runner = Runner {
///     workspaces: Workspaces::open(place)?,
///     artifacts: None,
///     executor: Some(Arc::new(FakeExecutor)), // `LocalExecutor` outside of tests
/// };
/// let rules = [Rule::new("run", "*", Decision::Allow)];
/// let session = SkillSession::builder(catalog)
///     .permissions(Permissions::unattended(Policy::new().with(Layer::User, rules)))
///     .runs(Runs::new(runner, "session-1"))
///     .start()
///     .await;
/// let answer = session.run(RunRequest::new("greet", "echo hello")).await?;
/// assert_eq!(answer.data.unwrap()["stdout"], "hello\n");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Runs {
    /// Stages, runs and collects.
    pub runner: Runner,
    /// Whose workspace is used: the same word finds the same files again, in another process too.
    pub workspace: String,
    /// How much a command may use.
    pub limits: Limits,
    /// Which hosts a command may ask for at most. Each that it asks for passes the gate.
    pub network: Network,
    /// How long commands that go on may be left alone, and how many there may be.
    pub live: LiveOptions,
}

impl Runs {
    /// Runs in the workspace of this session, with the usual limits and without network.
    pub fn new(runner: Runner, workspace: impl Into<String>) -> Self {
        Self {
            runner,
            workspace: workspace.into(),
            limits: Limits::default(),
            network: Network::None,
            live: LiveOptions::default(),
        }
    }

    /// The hosts that a command may ask for.
    pub(crate) fn hosts(&self) -> Vec<String> {
        match &self.network {
            Network::Hosts(rules) => rules.iter().map(ToString::to_string).collect(),
            _ => Vec::new(),
        }
    }
}

/// What runs commands of skills, and the commands that go on. Clones are handles on the same.
///
/// A [`SkillService`](crate::SkillService) has one, and runs with it.
#[derive(Clone, Debug)]
pub struct SkillRuns {
    runs: Arc<Runs>,
    live: Arc<LiveRuns>,
}

impl SkillRuns {
    /// Runs commands so. Those that go on end with the last handle.
    pub fn new(runs: Runs) -> Self {
        let live = Arc::new(LiveRuns::new(runs.live.clone()));
        Self { runs: Arc::new(runs), live }
    }

    /// What a command may use, for its schema.
    pub(crate) fn setting(&self) -> RunSetting {
        RunSetting { hosts: self.runs.hosts(), timeout: self.runs.limits.timeout.as_secs() }
    }

    pub(crate) fn check_room(&self) -> Result<(), LiveError> {
        self.live.check_room()
    }

    pub(crate) async fn start(
        &self,
        request: RunRequest,
        context: &RunContext<'_>,
        terminal: bool,
    ) -> Result<String, LiveError> {
        let Runs { runner, workspace, .. } = &*self.runs;
        self.live.start(runner, workspace, request, context, terminal).await
    }
}

/// A run in a moment: what is loaded, where files are, and who can be asked.
#[derive(Clone, Copy)]
pub(crate) struct Running<'a> {
    pub(crate) view: &'a SkillView,
    pub(crate) files: &'a dyn SkillFiles,
    pub(crate) runs: Option<&'a SkillRuns>,
    pub(crate) asker: &'a dyn Asker,
    /// Who wants it.
    pub(crate) caller: Caller,
}

impl<'a> Running<'a> {
    pub(crate) async fn run(self, request: RunRequest) -> Result<Answer, Halt> {
        let name = request.skill.clone();
        let report = self.run_watched(request, None, &NoSink).await?;
        let data = serde_json::to_value(&report).unwrap_or_default();
        let deltas = self.led_by_run(&name);
        let ran = Some(Box::new(Ran::from(&report)));
        Ok(Answer { text: report_text(data.clone()), deltas, data: Some(data), ran })
    }

    /// What a server's skill puts out is its words, loaded or not.
    pub(crate) fn led_by_run(self, name: &str) -> Vec<SkillDelta> {
        let from = self.view.visible_to_model(name).ok().and_then(|entry| loaded_from(&entry));
        let is_known = self.view.state().from_servers().contains_key(name);
        let led = from.filter(|_| !is_known);
        led.map(|from| SkillDelta::Led { name: name.to_owned(), server: from.server }).into_iter().collect()
    }

    pub(crate) async fn run_watched(
        self,
        request: RunRequest,
        stdin: Option<Bytes>,
        output: &dyn OutputSink,
    ) -> Result<RunReport, Halt> {
        let passed = self.pass_gates(&request, None).await?;
        let find = passed.skills();
        let host = passed.host(self, &request);
        let mut context = passed.context(&find, &host);
        (context.output, context.stdin) = (output, stdin);
        let runs = &passed.runs.runs;
        let ran = runs.runner.run(&runs.workspace, passed.request.clone(), context).await;
        Ok(ran.map_err(|error| SkillError::Run { name: request.skill.clone(), error })?)
    }

    /// The commands that go on, one of which is meant.
    pub(crate) fn live(self, id: &str) -> Result<&'a LiveRuns, SkillError> {
        let none = || SkillError::Live(LiveError::Unknown(id.to_owned()));
        self.runs.map(|runs| &*runs.live).ok_or_else(none)
    }

    /// Passes a gate of a run.
    pub(crate) async fn pass(self, name: &str, question: Question) -> Result<(), Halt> {
        match self.view.engine().permissions().pass(question, self.asker).await {
            Ok(_) => Ok(()),
            Err(Stopped::Asks(question)) => Err(Halt::Asks(question)),
            Err(Stopped::Refused(refusal)) => Err(refused(name, refusal).into()),
        }
    }

    /// The skill called `name`, if whoever wants to run something of it may know of it.
    fn runnable(self, name: &str) -> Result<Arc<SkillEntry>, SkillError> {
        match self.caller {
            Caller::Model => self.view.visible_to_model(name),
            Caller::Person => {
                self.view.known().view.get(name).cloned().ok_or_else(|| self.view.not_found(name))
            }
        }
    }

    /// Passes all gates of a run. Where a file of the host leads is asked about once more when it is brought.
    /// `talk` is how a command that goes on is talked with.
    pub(crate) async fn pass_gates(
        self,
        request: &RunRequest,
        talk: Option<Talk>,
    ) -> Result<Passed<'a>, Halt> {
        let name = request.skill.clone();
        let failed = |error: RunError| SkillError::Run { name: name.clone(), error };
        let runs = self.runs.ok_or_else(|| failed(ExecuteError::NotConfigured.into()))?;
        let refused = |why: &str| failed(ExecuteError::Refused(why.to_owned()).into());
        let mut named = vec![name.clone()];
        for input in &request.inputs {
            match input.skill() {
                Some(SkillInput::Named(skill)) if !named.contains(&skill) => named.push(skill),
                // Past the gate of the skill that lies there.
                Some(SkillInput::Staged) => {
                    return Err(refused("inputs from other skills are written skill://name/path").into());
                }
                Some(SkillInput::Named(_)) | None => {}
            }
        }
        let own = self.runnable(&name)?;
        let shell = shell_for(&own)?;
        // Looked up once: what is asked about is what runs, whatever is refreshed meanwhile.
        let (mut sources, mut staged) = (BTreeMap::new(), request.clone());
        let (mut published, mut places) = (BTreeMap::new(), BTreeMap::new());
        for skill in named {
            let entry = if skill == name { Arc::clone(&own) } else { self.runnable(&skill)? };
            self.pass_skill_gate(&entry).await?;
            let source = self.files.stage_source(&entry);
            let source = source.ok_or_else(|| refused("the files of the skill cannot be had to run it"))?;
            if skill == name {
                staged.skill = staged_name(&entry);
            }
            published.extend(entry.published().map(|published| (staged_name(&entry), published.digest())));
            places.insert(staged_name(&entry), entry.skill.location.as_str().to_owned());
            sources.insert(staged_name(&entry), source);
        }
        let network = request.network_within(&runs.runs.network).map_err(failed)?;
        // Nobody is asked about what cannot be.
        let abilities =
            runs.runs.runner.executor.as_ref().map(|executor| executor.abilities()).unwrap_or_default();
        if talk == Some(Talk::Terminal) && !abilities.terminals {
            return Err(refused("what runs commands here gives no terminals: leave out tty").into());
        }
        if network != Network::None && !abilities.hosts {
            return Err(refused("what runs commands here reaches no hosts: leave out network").into());
        }
        let asked = Asked { request, talk, sources: &sources, places: &places, published: &published, runs };
        let expected = self.pass_run_gate(&asked).await?;
        let expected = self.pass_network_gate(&asked, &network, expected).await?;
        let given_to = (self.caller == Caller::Person).then_some(own);
        let read = BTreeSet::new();
        let mut passed = Passed { request: staged, runs, sources, network, shell, expected, given_to, read };
        for path in request.inputs.iter().filter_map(RunInput::host) {
            let real = passed.host(self, request).ask(&path).await.map_err(|error| match error {
                Unread::Asks(question) => Halt::Asks(question),
                Unread::Refused(refusal) => crate::run::refused(&name, refusal).into(),
                Unread::Denied(why) => {
                    let is_person = self.caller == Caller::Person;
                    let why = if is_person { why.for_person() } else { why.to_string() };
                    failed(ExecuteError::Refused(why).into()).into()
                }
            })?;
            passed.read.insert(real);
        }
        Ok(passed)
    }

    /// The gate of a load, for a skill that is not loaded.
    async fn pass_skill_gate(self, entry: &Arc<SkillEntry>) -> Result<(), Halt> {
        let state = self.view.state();
        let loaded = state.get(entry.skill.name.as_str());
        let is_same = |skill: &LoadedSkill| {
            skill.location == entry.skill.location
                && !skill.nonce.is_empty()
                && skill.from == loaded_from(entry)
        };
        if loaded.is_some_and(is_same) {
            return Ok(());
        }
        // What the model has read is not what would run.
        if loaded.is_some_and(|skill| skill.from.is_some() && skill.from != loaded_from(entry)) {
            let dialect = self.view.engine().options().dialect;
            return Err(SkillError::Republished { name: entry.skill.name.to_string(), dialect }.into());
        }
        match self.view.open_to_run(entry).drive(self.files, self.asker).await {
            Outcome::Done(()) => Ok(()),
            Outcome::Asks(question) => Err(Halt::Asks(question)),
            Outcome::Refused(error) => Err(error.into()),
        }
    }

    /// Asks for a run. Gives the digests of the skills that were approved, where somebody had to be asked.
    async fn pass_run_gate(self, asked: &Asked<'_>) -> Result<Digests, Halt> {
        let request = asked.request;
        let name = &request.skill;
        // What a stranger's words may have brought about is a person's decision, each time.
        let because_of = self.view.servers_at_work();
        let mut plain = Question::new(Kind::RUN, joined(name, &request.command));
        // A rule for one command is none for the same words with another meaning.
        for surroundings in asked.surroundings() {
            plain = plain.and(joined(name, &surroundings));
        }
        if !because_of.is_empty() || !asked.published.is_empty() {
            plain = plain.each_time();
        }
        let plain = plain.to(RunDeed { because_of: because_of.clone(), ..asked.deed() });
        let permissions = self.view.engine().permissions();
        if permissions.policy().evaluate(&plain).decision != Decision::Ask {
            // An answer that is bound to nothing is not to be remembered.
            self.pass(name, plain.always([])).await?;
            return Ok(Digests::new());
        }
        let bound = asked.bound().await?;
        let mut details = asked.all();
        if !because_of.is_empty() {
            details["asked_each_time_because_of"] = json!(because_of);
        }
        let mut question = plain.bound_to(bound.binding).formerly(&details, Some(&bound.formerly));
        if permissions.has_outdated_approval(&question, is_current) {
            question.note = Some(Note::ApprovedByEarlierVersion);
        }
        self.pass(name, question).await?;
        Ok(bound.files)
    }

    /// Asks for every host that a run is to reach. Gives the digests of the skills that were approved, here or before.
    async fn pass_network_gate(
        self,
        asked: &Asked<'_>,
        network: &Network,
        mut expected: Digests,
    ) -> Result<Digests, Halt> {
        let request = asked.request;
        let name = &request.skill;
        let Network::Hosts(rules) = network else { return Ok(expected) };
        let permissions = self.view.engine().permissions();
        for rule in rules {
            let (skill, command, host) = (name.clone(), request.command.clone(), rule.to_string());
            let details = json!({"skill": skill, "command": command, "host": host});
            let plain = Question::new(Kind::NETWORK, host.clone()).to(Deed::Reach { skill, command, host });
            if permissions.policy().evaluate(&plain).decision != Decision::Ask {
                self.pass(name, plain.always([])).await?;
                continue;
            }
            let bound = asked.bound().await?;
            if !expected.is_empty() && expected != bound.files {
                let error = RunError::Changed { skill: name.clone() };
                return Err(SkillError::Run { name: name.clone(), error }.into());
            }
            // For ever is for one host only, never for all below a domain.
            let plain = if rule.is_exact() { plain } else { plain.always([]) };
            let mut question = plain.bound_to(bound.binding).formerly(&details, Some(&bound.formerly));
            if permissions.has_outdated_approval(&question, is_current) {
                question.note = Some(Note::ApprovedByEarlierVersion);
            }
            self.pass(name, question).await?;
            expected = bound.files;
        }
        Ok(expected)
    }
}

impl SkillView {
    /// The shell that a skill names for its commands, an absolute path in the sandbox.
    ///
    /// # Errors
    ///
    /// There is no such skill, or it names a shell that is neither bash nor sh.
    pub fn shell_of(&self, name: &str) -> Result<Option<String>, SkillError> {
        shell_for(&*self.visible_to_model(name)?)
    }
}

fn refused(name: &str, refusal: Refusal) -> SkillError {
    SkillError::RunRefused { name: name.to_owned(), refusal }
}

/// What the bindings of runs begin with that this version writes.
const BINDING: &str = "run 2 ";

fn is_current(binding: &str) -> bool {
    binding.starts_with(BINDING)
}

/// What the gates of a run are asked about.
struct Asked<'a> {
    request: &'a RunRequest,
    talk: Option<Talk>,
    sources: &'a BTreeMap<String, StageSource>,
    /// Where the documents of these skills are.
    places: &'a BTreeMap<String, String>,
    /// What servers say of all files of their skills, which is what is staged or nothing.
    published: &'a BTreeMap<String, Digest>,
    runs: &'a SkillRuns,
}

/// Skills with the digests of their files.
type Digests = BTreeMap<String, String>;

/// What an approval is bound to.
struct Bound {
    files: Digests,
    binding: String,
    /// The same as version 1 wrote it, for what it asked and stored.
    formerly: String,
}

impl Asked<'_> {
    /// Everything that was asked for, for the person.
    fn deed(&self) -> RunDeed {
        let request = self.request.clone();
        let input = |input: RunInput| RunDeedInput {
            is_link: input.mode == InputMode::Link,
            from: input.from,
            to: input.to,
        };
        RunDeed {
            skill: request.skill,
            command: request.command,
            cwd: request.cwd,
            env: request.env,
            stdin: request.stdin,
            inputs: request.inputs.into_iter().map(input).collect(),
            output_files: request.output_files,
            outputs: request.outputs.map(|outputs| json!(outputs).to_string()),
            network: request.network,
            timeout: request.timeout,
            save_as_artifacts: request.save_as_artifacts,
            omit_inline_content: request.omit_inline_content,
            artifact_prefix: request.artifact_prefix,
            talk: self.talk,
            because_of: Vec::new(),
        }
    }

    /// Everything that was asked for, as version 1 put it.
    fn all(&self) -> Value {
        let mut all = serde_json::to_value(self.request).unwrap_or_default();
        if let Some(talk) = self.talk {
            all["talk"] = json!(talk);
        }
        all
    }

    /// What gives a command another meaning: its variables, its directory, and that it is typed into.
    fn surroundings(&self) -> impl Iterator<Item = String> {
        let variables = self.request.env.iter().map(|(name, value)| format!("env {name}={value}"));
        let directory = self.request.cwd.iter().map(|cwd| format!("cwd {cwd}"));
        let typed = self.talk.iter().map(|_| format!("type into {}", self.request.command));
        variables.chain(directory).chain(typed)
    }

    /// What an approval is bound to: the digests of all skills' files and where they are, and everything that was asked
    /// for. Nothing is fetched from a server to ask.
    async fn bound(&self) -> Result<Bound, SkillError> {
        let mut files = Digests::new();
        let Runs { runner, workspace, .. } = &*self.runs.runs;
        for (name, source) in self.sources.iter().filter(|(name, _)| !self.published.contains_key(*name)) {
            let staged = runner.stage(workspace, name, source).await;
            let staged = staged.map_err(|error| SkillError::Run { name: name.clone(), error })?;
            files.insert(name.clone(), staged.digest.clone());
        }
        let all = Digest::of(self.all().to_string().as_bytes());
        let mut formerly = format!("{files:?} {all} {:?}", self.sources);
        if !self.published.is_empty() {
            formerly.push_str(&format!(" {:?}", self.published));
        }
        Ok(Bound { binding: self.binding(&files), files, formerly })
    }

    /// One text for one meaning: each part with its length before it, so that no two run together.
    fn binding(&self, files: &Digests) -> String {
        let mut bytes = Vec::new();
        let mut put = |part: &str| {
            bytes.extend((part.len() as u64).to_le_bytes());
            bytes.extend(part.as_bytes());
        };
        put("prowess run 2");
        put(&self.places.len().to_string());
        for (name, place) in self.places {
            let published = self.published.get(name).map(Digest::to_string);
            let digest = files.get(name).or(published.as_ref()).map_or("", String::as_str);
            [name, place, digest].into_iter().for_each(&mut put);
        }
        // Fields in their order and maps by their keys: the same for ever.
        put(&serde_json::to_string(&self.deed()).unwrap_or_default());
        format!("{BINDING}{}", Digest::of(&bytes))
    }
}

/// A run that has passed its gates, and what it runs with.
pub(crate) struct Passed<'a> {
    /// What was asked for, with the skill by the name that it is staged under.
    pub(crate) request: RunRequest,
    pub(crate) runs: &'a SkillRuns,
    sources: BTreeMap<String, StageSource>,
    /// The hosts that were asked for and approved.
    network: Network,
    shell: Option<String>,
    /// The digests of the skills that were approved, where somebody had to be asked.
    expected: Digests,
    /// The skill that a person runs something of, and gives files to.
    given_to: Option<Arc<SkillEntry>>,
    /// The real paths of the host's files that may be read.
    read: BTreeSet<PathBuf>,
}

impl Passed<'_> {
    /// Who is asked about files of the host when they are brought: not once more about those that may be read.
    pub(crate) fn host<'b>(&'b self, running: Running<'b>, request: &'b RunRequest) -> AskedHost<'b> {
        AskedHost { running, request, given_to: self.given_to.as_deref(), passed: &self.read }
    }

    pub(crate) fn skills(&self) -> impl Fn(&str) -> Option<StageSource> + Send + Sync {
        |skill| self.sources.get(skill).cloned()
    }

    pub(crate) fn context<'a>(&self, skills: &'a dyn SkillSources, host: &'a dyn HostGate) -> RunContext<'a> {
        let mut context = RunContext::new(skills);
        context.host = host;
        context.limits = self.runs.runs.limits.clone();
        context.network = self.network.clone();
        context.shell.clone_from(&self.shell);
        context.expected.clone_from(&self.expected);
        context
    }
}

/// The report of a run as the text that a model reads: [`ToolReply::text`](crate::ToolReply::text) for the
/// [`data`](crate::ToolReply::data) of a run. A host that adds to the data, such as addresses of files, writes the text
/// anew with it.
///
/// ```
/// let report = serde_json::json!({"stdout": "x".repeat(1_000_000), "truncated": false});
/// let text = prowess_skills::report_text(report);
/// assert!(text.len() < 100_000 && text.contains(r#""truncated":true"#));
/// ```
pub fn report_text(report: Value) -> String {
    shown(report).to_string()
}

/// A report as a model reads it: the beginning and the end of what is long. It says that something was cut.
pub(crate) fn shown(mut report: Value) -> Value {
    let mut is_cut = false;
    for stream in ["stdout", "stderr"] {
        if let Some(text) =
            report.get(stream).and_then(Value::as_str).and_then(|text| shortened(text, MAX_SHOWN_OUTPUT))
        {
            report[stream] = text.into();
            is_cut = true;
        }
    }
    let mut room = MAX_SHOWN_FILES;
    for file in report["output_files"].as_array_mut().into_iter().flatten() {
        let Some(text) = file["content"].as_str() else { continue };
        match shortened(text, room) {
            None => room -= text.len(),
            Some(text) => {
                room = room.saturating_sub(text.len());
                file["content"] = text.into();
                file["truncated"] = true.into();
                is_cut = true;
            }
        }
    }
    if let Some(warnings) = report["warnings"].as_array_mut()
        && warnings.len() > MAX_SHOWN_WARNINGS
    {
        let more = warnings.len() - MAX_SHOWN_WARNINGS;
        warnings.truncate(MAX_SHOWN_WARNINGS);
        warnings.push(format!("and {more} more warnings").into());
        is_cut = true;
    }
    if is_cut {
        report["truncated"] = true.into();
    }
    report
}

/// What a skill's directory in the workspace is called: as itself, and a server's by what is in its name and no path.
fn staged_name(entry: &SkillEntry) -> String {
    let Some(published) = entry.published() else { return entry.skill.name.to_string() };
    let plain =
        |text: &str| text.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(24).collect();
    let (server, own): (String, String) =
        (plain(&published.server), plain(entry.skill.location.directory_name().unwrap_or_default()));
    let identity = Digest::of(entry.skill.location.as_str().as_bytes());
    let identity: String = identity.as_bytes()[..4].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{server}.{own}.{identity}")
}

/// The shell that a skill names, an absolute path in the sandbox.
fn shell_for(entry: &SkillEntry) -> Result<Option<String>, SkillError> {
    let Some(named) = entry.skill.extensions.shell.as_deref() else { return Ok(None) };
    match named {
        "bash" | "/bin/bash" | "/usr/bin/bash" => Ok(Some("/bin/bash".to_owned())),
        "sh" | "/bin/sh" | "/usr/bin/sh" => Ok(Some("/bin/sh".to_owned())),
        _ => {
            let why = format!("the skill asks for the shell `{}`; it can have bash or sh", code_text(named));
            let error = ExecuteError::Refused(why).into();
            Err(SkillError::Run { name: entry.skill.name.to_string(), error })
        }
    }
}

/// The beginning and the end of a text that is longer than `most` bytes, in about as many.
fn shortened(text: &str, most: usize) -> Option<String> {
    if text.len() <= most {
        return None;
    }
    let head = &text[..text.floor_char_boundary(most / 2)];
    let tail = &text[text.ceil_char_boundary(text.len() - most / 2)..];
    let left_out = text.len() - head.len() - tail.len();
    Some(format!("{head}\n[… {left_out} bytes left out …]\n{tail}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_output_keeps_both_ends() {
        let long = format!("begin{}end", "é".repeat(MAX_SHOWN_OUTPUT));
        let short = shortened(&long, MAX_SHOWN_OUTPUT).unwrap();
        assert!(short.starts_with("begin") && short.ends_with("end") && short.len() < MAX_SHOWN_OUTPUT + 60);
    }

    #[test]
    fn contents_of_files_share_one_budget() {
        let file = json!({"name": "a", "content": "x".repeat(MAX_SHOWN_FILES)});
        let report = json!({"stdout": "", "stderr": "", "output_files": [file, file, file],
            "warnings": vec!["w"; 100]});
        let text = shown(report).to_string();
        assert!(text.len() < MAX_SHOWN_FILES + 2_000, "{}", text.len());
        assert!(text.contains("and 80 more warnings"));
    }

    #[test]
    fn a_report_that_was_cut_says_so_whatever_was_cut() {
        let report = |stdout: usize, stderr: usize, content: usize, warnings: usize| {
            let (stdout, stderr) = ("x".repeat(stdout), "x".repeat(stderr));
            let file = json!({"name": "a", "content": "x".repeat(content), "truncated": false});
            shown(json!({"stdout": stdout, "stderr": stderr, "output_files": [file], "truncated": false,
                "warnings": vec!["w"; warnings]}))
        };
        let (streams, files, warnings) = (MAX_SHOWN_OUTPUT, MAX_SHOWN_FILES, MAX_SHOWN_WARNINGS);
        let whole = report(streams, streams, files, warnings);
        assert_eq!(
            (&whole["truncated"], &whole["output_files"][0]["truncated"]),
            (&json!(false), &json!(false))
        );
        assert_eq!(report(streams + 1, 0, 0, 0)["truncated"], true);
        assert_eq!(report(0, streams + 1, 0, 0)["truncated"], true);
        assert_eq!(report(0, 0, 0, warnings + 1)["truncated"], true);
        let cut = report(0, 0, files + 1, 0);
        assert_eq!((&cut["truncated"], &cut["output_files"][0]["truncated"]), (&json!(true), &json!(true)));
    }
}

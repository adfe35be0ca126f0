//! Layer 3: a skill's commands, in the session's workspace and behind the gate.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use prowess_catalog::{Digest, SkillEntry, one_line};
use prowess_permission::{Decision, Kind, Request, joined, quoted};
use prowess_workspace::{
    ExecuteError, HostGate, Limits, LiveOptions, Network, NoSink, OutputSink, RunContext, RunError, RunInput,
    RunReport, RunRequest, Runner, SkillInput, SkillSources, StageSource,
};
use serde::Serialize;
use serde_json::{Value, json};

use crate::delta::{LoadedSkill, SkillDelta};
use crate::error::SkillError;
use crate::host_files::{AskedHost, Unread};
use crate::load::loaded_from;
use crate::session::{Answer, SkillSession};

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

impl SkillSession {
    /// Runs a command of a skill, once the gate has let it pass. A command that fails or takes too long has an
    /// answer like any other.
    ///
    /// The skill itself and every skill that an input names pass the gate as for a load. Then it is asked with
    /// kind `run`; the subjects are the skill's name and the command, [joined](prowess_permission::joined), and what gives the command another meaning:
    /// `kit env NAME=value`, `kit cwd scripts`, `kit type into COMMAND`. An approval is bound to all files of these
    /// skills and to everything else that was asked for. Files of the host are asked about with kind `read`, by
    /// their real path; a directory comes in only if nothing in it is denied, and no file of a skill that this agent must
    /// not know of. Hosts to reach have to be in [`Runs::network`], and each
    /// is asked about with kind `network`; the subject is the host as the rules write it. An approval of one is
    /// bound like that of the run. A run of a server's skill, and every run while the model has words of one, is asked
    /// about whatever the rules allow.
    ///
    /// # Errors
    ///
    /// Why nothing ran.
    pub async fn run(&self, request: RunRequest) -> Result<Answer, SkillError> {
        let name = request.skill.clone();
        let report = self.run_watched(request, &NoSink).await?;
        let data = serde_json::to_value(&report).unwrap_or_default();
        let deltas = self.led_by_run(&name);
        Ok(Answer { text: shown(data.clone()).to_string(), deltas, data: Some(data) })
    }

    /// What a server's skill puts out is its words, loaded or not.
    pub(crate) fn led_by_run(&self, name: &str) -> Vec<SkillDelta> {
        let from = self.visible_to_model(name).ok().and_then(|entry| loaded_from(&entry));
        let is_known = self.state().from_servers().contains_key(name);
        let Some(from) = from.filter(|_| !is_known) else { return Vec::new() };
        let deltas = vec![SkillDelta::Led { name: name.to_owned(), server: from.server }];
        if self.commit(&deltas).is_ok() { deltas } else { Vec::new() }
    }

    /// [`SkillSession::run`] for a host: the report itself, and its output while it is written.
    ///
    /// # Errors
    ///
    /// Why nothing ran.
    pub async fn run_watched(
        &self,
        request: RunRequest,
        output: &dyn OutputSink,
    ) -> Result<RunReport, SkillError> {
        let passed = self.pass_gates(&request, None).await?;
        let find = passed.skills();
        let host = passed.host(self, &request);
        let mut context = passed.context(&find, &host);
        context.output = output;
        let ran = passed.runs.runner.run(&passed.runs.workspace, passed.request.clone(), context).await;
        ran.map_err(|error| SkillError::Run { name: request.skill.clone(), error })
    }

    /// Where the files of a skill are that the model may know of, to run something of it. The gates are not passed:
    /// whoever runs something sees to that.
    pub fn stage_source(&self, name: &str) -> Option<StageSource> {
        self.files().stage_source(&self.visible_to_model(name).ok()?)
    }

    /// The shell that a skill names for its commands, an absolute path in the sandbox.
    ///
    /// # Errors
    ///
    /// There is no such skill, or it names a shell that is neither bash nor sh.
    pub fn shell_of(&self, name: &str) -> Result<Option<String>, SkillError> {
        let entry = self.visible_to_model(name)?;
        let Some(named) = entry.skill.extensions.shell.as_deref() else { return Ok(None) };
        let why = "the skill asks for a shell that is not bash or sh".to_owned();
        let refused = || SkillError::Run { name: name.to_owned(), error: ExecuteError::Refused(why).into() };
        shell(named).map(Some).ok_or_else(refused)
    }

    /// Passes all gates of a run. Where a file of the host leads is asked about once more when it is brought.
    /// `talk` is how a command that goes on is talked with.
    pub(crate) async fn pass_gates(
        &self,
        request: &RunRequest,
        talk: Option<Talk>,
    ) -> Result<Passed<'_>, SkillError> {
        let name = request.skill.clone();
        let failed = |error: RunError| SkillError::Run { name: name.clone(), error };
        let runs = self.runs().ok_or_else(|| failed(ExecuteError::NotConfigured.into()))?;
        let refused = |why: &str| failed(ExecuteError::Refused(why.to_owned()).into());
        let mut named = vec![name.clone()];
        for input in &request.inputs {
            match input.skill() {
                Some(SkillInput::Named(skill)) if !named.contains(&skill) => named.push(skill),
                // Past the gate of the skill that lies there.
                Some(SkillInput::Staged) => {
                    return Err(refused("inputs from other skills are written skill://name/path"));
                }
                Some(SkillInput::Named(_)) | None => {}
            }
        }
        let shell = self.shell_of(&name)?;
        // Looked up once: what is asked about is what runs, whatever is refreshed meanwhile.
        let (mut sources, mut staged) = (BTreeMap::new(), request.clone());
        let mut published = BTreeMap::new();
        for skill in named {
            let entry = self.visible_to_model(&skill)?;
            self.pass_skill_gate(&entry).await?;
            let source = self.files().stage_source(&entry);
            let source = source.ok_or_else(|| refused("the files of the skill cannot be had to run it"))?;
            if skill == name {
                staged.skill = staged_name(&entry);
            }
            published.extend(entry.published().map(|published| (staged_name(&entry), published.digest())));
            sources.insert(staged_name(&entry), source);
        }
        let network = request.network_within(&runs.network).map_err(failed)?;
        // Nobody is asked about what cannot be.
        let abilities =
            runs.runner.executor.as_ref().map(|executor| executor.abilities()).unwrap_or_default();
        if talk == Some(Talk::Terminal) && !abilities.terminals {
            return Err(refused("what runs commands here gives no terminals: leave out tty"));
        }
        if network != Network::None && !abilities.hosts {
            return Err(refused("what runs commands here reaches no hosts: leave out network"));
        }
        let asked = Asked { request, talk, sources: &sources, published: &published, runs };
        let expected = self.pass_run_gate(&asked).await?;
        let expected = self.pass_network_gate(&asked, &network, expected).await?;
        let mut passed =
            Passed { request: staged, runs, sources, network, shell, expected, read: BTreeSet::new() };
        for path in request.inputs.iter().filter_map(RunInput::host) {
            let asked = passed.host(self, request).ask(&path).await;
            let real = asked.map_err(|error| match error {
                Unread::Refused(refusal) => SkillError::RunRefused { name: name.clone(), refusal },
                Unread::Denied(why) => failed(ExecuteError::Refused(why.to_string()).into()),
            })?;
            passed.read.insert(real);
        }
        Ok(passed)
    }

    /// The gate of a load, for a skill that is not loaded.
    async fn pass_skill_gate(&self, entry: &Arc<SkillEntry>) -> Result<(), SkillError> {
        let state = self.state();
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
            let (name, dialect) = (entry.skill.name.to_string(), self.options().dialect);
            return Err(SkillError::Republished { name, dialect });
        }
        self.pass_gate(entry, None).await.map(drop)
    }

    /// Asks for a run. Gives the digests of the skills that were approved, where somebody had to be asked.
    async fn pass_run_gate(&self, asked: &Asked<'_>) -> Result<Digests, SkillError> {
        let Asked { request, talk, .. } = asked;
        let name = &request.skill;
        let how = if talk.is_some() { ", and let the model type into it" } else { "" };
        let title = format!("run in skill {}{how}: {}", quoted(name), one_line(&request.command));
        let mut plain = Request::new(Kind::RUN, joined(name, &request.command)).titled(title);
        // A rule for one command is none for the same words with another meaning.
        for surroundings in asked.surroundings() {
            plain = plain.and(joined(name, &surroundings));
        }
        let mut details = asked.all();
        // What a stranger's words may have brought about is a person's decision, each time.
        let at_work = self.servers_at_work();
        if !at_work.is_empty() {
            details["asked_each_time_because_of"] = json!(at_work);
        }
        if !at_work.is_empty() || !asked.published.is_empty() {
            plain = plain.each_time();
        }
        let plain = plain.with_details(details);
        let refused = |refusal| SkillError::RunRefused { name: name.clone(), refusal };
        if self.permissions().policy().evaluate(&plain).decision != Decision::Ask {
            // An answer that is bound to nothing is not to be remembered.
            self.permissions().request(plain.always([])).await.map_err(refused)?;
            return Ok(Digests::new());
        }
        let (files, binding) = asked.bound().await?;
        self.permissions().request(plain.bound_to(binding)).await.map_err(refused)?;
        Ok(files)
    }

    /// Asks for every host that a run is to reach. Gives the digests of the skills that were approved, here or before.
    async fn pass_network_gate(
        &self,
        asked: &Asked<'_>,
        network: &Network,
        mut expected: Digests,
    ) -> Result<Digests, SkillError> {
        let request = asked.request;
        let name = &request.skill;
        let refused = |refusal| SkillError::RunRefused { name: name.clone(), refusal };
        let Network::Hosts(rules) = network else { return Ok(expected) };
        for rule in rules {
            let title = format!("let skill {} reach {rule}: {}", quoted(name), one_line(&request.command));
            let details = json!({"skill": name, "command": request.command, "host": rule.to_string()});
            let plain = Request::new(Kind::NETWORK, rule.to_string()).titled(title).with_details(details);
            if self.permissions().policy().evaluate(&plain).decision != Decision::Ask {
                self.permissions().request(plain.always([])).await.map_err(refused)?;
                continue;
            }
            let (files, binding) = asked.bound().await?;
            if !expected.is_empty() && expected != files {
                let error = RunError::Changed { skill: name.clone() };
                return Err(SkillError::Run { name: name.clone(), error });
            }
            // For ever is for one host only, never for all below a domain.
            let plain = if rule.is_exact() { plain } else { plain.always([]) };
            self.permissions().request(plain.bound_to(binding)).await.map_err(refused)?;
            expected = files;
        }
        Ok(expected)
    }
}

/// What the gates of a run are asked about.
struct Asked<'a> {
    request: &'a RunRequest,
    talk: Option<Talk>,
    sources: &'a BTreeMap<String, StageSource>,
    /// What servers say of all files of their skills, which is what is staged or nothing.
    published: &'a BTreeMap<String, Digest>,
    runs: &'a Runs,
}

/// Skills with the digests of their files.
type Digests = BTreeMap<String, String>;

impl Asked<'_> {
    /// Everything that was asked for.
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

    /// What an approval is bound to: the digests of all skills' files, and the same with everything that was asked for.
    /// Nothing is fetched from a server to ask.
    async fn bound(&self) -> Result<(Digests, String), SkillError> {
        let mut files = Digests::new();
        for (name, source) in self.sources.iter().filter(|(name, _)| !self.published.contains_key(*name)) {
            let staged = self.runs.runner.stage(&self.runs.workspace, name, source).await;
            let staged = staged.map_err(|error| SkillError::Run { name: name.clone(), error })?;
            files.insert(name.clone(), staged.digest.clone());
        }
        let all = Digest::of(self.all().to_string().as_bytes());
        let mut binding = format!("{files:?} {all} {:?}", self.sources);
        if !self.published.is_empty() {
            binding.push_str(&format!(" {:?}", self.published));
        }
        Ok((files, binding))
    }
}

/// How a command that goes on is talked with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Talk {
    Pipe,
    Terminal,
}

/// A run that has passed its gates, and what it runs with.
pub(crate) struct Passed<'a> {
    /// What was asked for, with the skill by the name that it is staged under.
    pub(crate) request: RunRequest,
    pub(crate) runs: &'a Runs,
    sources: BTreeMap<String, StageSource>,
    /// The hosts that were asked for and approved.
    network: Network,
    shell: Option<String>,
    /// The digests of the skills that were approved, where somebody had to be asked.
    expected: Digests,
    /// The real paths of the host's files that may be read.
    read: BTreeSet<PathBuf>,
}

impl Passed<'_> {
    /// Who is asked about files of the host when they are brought: not once more about those that may be read.
    pub(crate) fn host<'b>(&'b self, session: &'b SkillSession, request: &'b RunRequest) -> AskedHost<'b> {
        AskedHost { session, request, passed: &self.read }
    }

    pub(crate) fn skills(&self) -> impl Fn(&str) -> Option<StageSource> + Send + Sync {
        |skill| self.sources.get(skill).cloned()
    }

    pub(crate) fn context<'a>(&self, skills: &'a dyn SkillSources, host: &'a dyn HostGate) -> RunContext<'a> {
        let mut context = RunContext::new(skills);
        context.host = host;
        context.limits = self.runs.limits.clone();
        context.network = self.network.clone();
        context.shell.clone_from(&self.shell);
        context.expected.clone_from(&self.expected);
        context
    }
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

/// A shell that a skill may name.
fn shell(name: &str) -> Option<String> {
    match name {
        "bash" | "/bin/bash" => Some("/bin/bash".to_owned()),
        "sh" | "/bin/sh" => Some("/bin/sh".to_owned()),
        _ => None,
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

//! The gates that a run has to pass.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use prowess_catalog::untrusted::code_text;
use prowess_catalog::{Digest, SkillEntry};
use prowess_permission::action::{Channel, RunAction};
use prowess_permission::{Action, Decision, Kind, Question, Refusal, Stopped, joined};
use prowess_workspace::input::InputGate;
use prowess_workspace::stage::StageSource;
use prowess_workspace::{
    ExecuteError, Network, RunContext, RunError, RunInput, RunRequest, SkillInput, SkillSources,
};
use serde_json::json;

use super::binding::{Asked, Digests};
use super::{Running, SkillRunner};
use crate::delta::LoadedSkill;
use crate::error::SkillError;
use crate::host_files::{AskedHost, Unread};
use crate::load::{Caller, loaded_from};
use crate::step::{Halt, Outcome};
use crate::view::SkillView;

impl<'a> Running<'a> {
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
        talk: Option<Channel>,
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
        if talk == Some(Channel::Terminal) && !abilities.terminals {
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
                Unread::Refused(refusal) => self::refused(&name, refusal).into(),
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
        let plain = plain.to(RunAction { because_of: because_of.clone(), ..asked.deed() });
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
        let question = permissions.noting_outdated(bound.bind(plain, &details));
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
            let plain = Question::new(Kind::NETWORK, host.clone()).to(Action::Reach { skill, command, host });
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
            let question = permissions.noting_outdated(bound.bind(plain, &details));
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

/// A run that has passed its gates, and what it runs with.
pub(crate) struct Passed<'a> {
    /// What was asked for, with the skill by the name that it is staged under.
    pub(crate) request: RunRequest,
    pub(crate) runs: &'a SkillRunner,
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

    pub(crate) fn context<'a>(
        &self,
        skills: &'a dyn SkillSources,
        host: &'a dyn InputGate,
    ) -> RunContext<'a> {
        let mut context = RunContext::new(skills);
        context.host = host;
        context.limits = self.runs.runs.limits.clone();
        context.network = self.network.clone();
        context.shell.clone_from(&self.shell);
        context.expected.clone_from(&self.expected);
        context
    }
}

/// What a skill's directory in the workspace is called: as itself, and a server's by what is in its name and no path.
fn staged_name(entry: &SkillEntry) -> String {
    let Some(published) = entry.published() else { return entry.skill.name.to_string() };
    let plain =
        |text: &str| text.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').take(24).collect();
    let (server, own): (String, String) =
        (plain(&published.server), plain(entry.skill.location.directory_name().unwrap_or_default()));
    let identity = Digest::of(entry.skill.location.as_str().as_bytes());
    let identity = prowess_base::hex::encode(&identity.as_bytes()[..4]);
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

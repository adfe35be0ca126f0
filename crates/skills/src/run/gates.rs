//! The gates of a run: its skills, its command, its hosts and its inputs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use prowess_catalog::untrusted::code_text;
use prowess_catalog::{Digest, SkillEntry};
use prowess_permission::action::{Channel, RunAction};
use prowess_permission::{Action, Decision, Granted, Kind, Question, Refusal, owned_subject};
use prowess_workspace::input::InputGate;
use prowess_workspace::stage::StageSource;
use prowess_workspace::tree::Tree;
use prowess_workspace::writable::WritableProject;
use prowess_workspace::{
    ExecuteError, Network, RunContext, RunError, RunInput, RunRequest, SkillInput, SkillSources,
};
use serde_json::json;

use super::binding::{Digests, PlannedRun};
use super::given::Given;
use super::local_inputs::{InputStop, LocalInputGate};
use super::preapproval::Listed;
use super::{RunDriver, SkillRunner};
use crate::delta::LoadedSkill;
use crate::error::SkillError;
use crate::load::{Caller, loaded_from};
use crate::operation::{Halt, Outcome};
use crate::view::SkillView;

/// The most other skills that a request can name by their paths.
const MAX_MENTIONED_SKILLS: usize = 16;

impl<'a> RunDriver<'a> {
    /// Passes a gate of a run.
    pub(super) async fn pass(self, name: &str, question: Question) -> Result<(), Halt> {
        self.pass_listed(name, question, Listed::No).await.map(|_| ())
    }

    /// The skill called `name`, if the caller may see it.
    fn runnable(self, name: &str) -> Result<Arc<SkillEntry>, SkillError> {
        match self.caller {
            Caller::Model => self.view.visible_to_model(name),
            Caller::Person => {
                self.view.visible().view.get(name).cloned().ok_or_else(|| self.view.not_found(name))
            }
        }
    }

    /// Passes all gates of a run: skills, command, hosts and local inputs. Where a local input really is, is checked again
    /// when it is copied. `channel` is how the model types into the command.
    pub(super) async fn pass_gates(
        self,
        request: &RunRequest,
        channel: Option<Channel>,
    ) -> Result<ApprovedRun<'a>, Halt> {
        let name = &request.skill;
        let runner = self.runner.ok_or_else(|| run_error(name, ExecuteError::NotConfigured))?;
        let mut skills = named_skills(request)?;
        skills.extend(self.mentioned_skills(request, &runner.setup.tree, &skills));
        let own = self.runnable(name)?;
        let shell = shell_for(&own)?;
        let given_to = (self.caller == Caller::Person).then(|| Arc::clone(&own));
        let given = self.view.given(&runner.setup, request, given_to.clone()).await;
        let given = given.map_err(|why| self.blocked(name, &why))?;
        let staged = self.stage_skills(&own, skills).await?;
        let network = request
            .network_within(&runner.setup.network)
            .map_err(|error| SkillError::Run { name: name.clone(), error })?;
        check_abilities(request, runner, channel, &network)?;
        let planned = PlannedRun {
            request,
            channel,
            sources: &staged.sources,
            locations: &staged.locations,
            published: &staged.published,
            runner,
            given: &given,
        };
        let (expected, command) = self.pass_run_gate(&planned).await?;
        let (expected, hosts) = self.pass_network_gate(&planned, &network, expected).await?;
        let is_preapproved = [command].into_iter().chain(hosts).any(|how| how == Granted::Preapproved);
        let in_workspace = given.without(request);
        let mut approved = ApprovedRun {
            request: RunRequest { skill: staged_name(&own), ..in_workspace.clone() },
            runner,
            sources: staged.sources,
            network,
            shell,
            expected,
            preapproved_by: is_preapproved.then(|| name.clone()),
            given_to,
            approved_inputs: BTreeSet::new(),
            given,
            writable: runner.setup.writable_project(self.view),
        };
        for asked in &approved.given.asks {
            self.pass_given_gate(request, asked).await?;
        }
        self.pass_input_gates(&in_workspace, &mut approved).await?;
        Ok(approved)
    }

    /// The other skills whose directories the request names, as the model sees them. The caller may see all of these.
    fn mentioned_skills(self, request: &RunRequest, tree: &Tree, known: &[String]) -> Vec<String> {
        let place = format!("{}/", tree.skills());
        let texts = [&request.command]
            .into_iter()
            .chain(request.env.values())
            .chain(&request.stdin)
            .chain(&request.cwd);
        let mut found = Vec::new();
        for rest in texts.flat_map(|text| text.match_indices(&place).map(|(at, _)| &text[at + place.len()..]))
        {
            let end = rest.find(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').unwrap_or(rest.len());
            let name = &rest[..end];
            let is_local = |entry: Arc<SkillEntry>| entry.published().is_none();
            if found.len() < MAX_MENTIONED_SKILLS
                && !known.iter().chain(&found).any(|known| known == name)
                && self.runnable(name).is_ok_and(is_local)
            {
                found.push(name.to_owned());
            }
        }
        found
    }

    /// Passes the gate of every skill that the run uses. Each skill is looked up once: what a person approves is what runs,
    /// even if the catalog changes meanwhile.
    async fn stage_skills(self, own: &Arc<SkillEntry>, names: Vec<String>) -> Result<StagedSkills, Halt> {
        let own_name = own.skill.name.as_str();
        let mut staged = StagedSkills::default();
        for name in names {
            let entry = if name == own_name { Arc::clone(own) } else { self.runnable(&name)? };
            self.pass_skill_gate(&entry).await?;
            let source = self
                .files
                .stage_source(&entry)
                .ok_or_else(|| refused_run(own_name, "the skill's files are not available for a run"))?;
            let name = staged_name(&entry);
            staged.published.extend(entry.published().map(|published| (name.clone(), published.digest())));
            staged.locations.insert(name.clone(), entry.skill.location.as_str().to_owned());
            staged.sources.insert(name, source);
        }
        Ok(staged)
    }

    /// Passes the gate of every local input.
    async fn pass_input_gates(
        self,
        request: &RunRequest,
        approved: &mut ApprovedRun<'a>,
    ) -> Result<(), Halt> {
        for path in request.inputs.iter().filter_map(RunInput::local_path) {
            let real = approved.input_gate(self, request).pass(&path).await.map_err(|stop| match stop {
                InputStop::Asks(question) => Halt::Asks(question),
                InputStop::Refused(refusal) => no_permission(&request.skill, refusal).into(),
                InputStop::Blocked(why) => {
                    let is_person = self.caller == Caller::Person;
                    let why = if is_person { why.for_person() } else { why.to_string() };
                    refused_run(&request.skill, &why).into()
                }
            })?;
            approved.approved_inputs.insert(real);
        }
        Ok(())
    }

    /// Passes the gate of a load, for a skill that is not loaded.
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
        // The server has changed the skill since the model read it.
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

    /// Passes the gate of the command. If a person had to be asked, it returns the digests of the approved skills.
    async fn pass_run_gate(self, planned: &PlannedRun<'_>) -> Result<(Digests, Granted), Halt> {
        let request = planned.request;
        let name = &request.skill;
        // The text of a server's skill may have caused this run, so a person decides each time.
        let because_of = self.view.server_skills_in_context();
        let mut plain = Question::new(Kind::RUN, owned_subject(name, &request.command));
        // A rule for a command does not cover the same command with another meaning.
        for subject in planned.additional_subjects() {
            plain = plain.subject(owned_subject(name, &subject));
        }
        if !because_of.is_empty() || !planned.published.is_empty() {
            plain = plain.each_time();
        }
        let plain =
            plain.action(RunAction { because_of: because_of.clone(), ..planned.action_with_real_paths() });
        let permissions = self.view.engine().permissions();
        if permissions.policy().evaluate(&plain).decision != Decision::Ask {
            // Without a binding, "always" is not offered.
            self.pass(name, plain.always([])).await?;
            return Ok((Digests::new(), Granted::Rule));
        }
        let binding = planned.binding().await?;
        let mut details = planned.version_1_details();
        if !because_of.is_empty() {
            details["asked_each_time_because_of"] = json!(because_of);
        }
        let question = permissions.with_outdated_note(binding.bind(plain, &details));
        let how = self.pass_listed(name, question, self.lists_command(planned).await).await?;
        Ok((binding.files, how))
    }

    /// Passes the gate of every host. Returns the digests of the approved skills, and why each host was allowed.
    async fn pass_network_gate(
        self,
        planned: &PlannedRun<'_>,
        network: &Network,
        mut expected: Digests,
    ) -> Result<(Digests, Vec<Granted>), Halt> {
        let request = planned.request;
        let name = &request.skill;
        let mut granted = Vec::new();
        let Network::Hosts(rules) = network else { return Ok((expected, granted)) };
        let permissions = self.view.engine().permissions();
        for rule in rules {
            let (skill, command, host) = (name.clone(), request.command.clone(), rule.to_string());
            let listed = self.lists_host(planned, &host).await;
            let details = json!({"skill": skill, "command": command, "host": host});
            let plain =
                Question::new(Kind::NETWORK, host.clone()).action(Action::ReachHost { skill, command, host });
            if permissions.policy().evaluate(&plain).decision != Decision::Ask {
                self.pass(name, plain.always([])).await?;
                continue;
            }
            let binding = planned.binding().await?;
            if !expected.is_empty() && expected != binding.files {
                let error = RunError::Changed { skill: name.clone() };
                return Err(SkillError::Run { name: name.clone(), error }.into());
            }
            // "Always" is offered only for a single host, never for a `*.` domain.
            let plain = if rule.is_exact() { plain } else { plain.always([]) };
            let question = permissions.with_outdated_note(binding.bind(plain, &details));
            granted.push(self.pass_listed(name, question, listed).await?);
            expected = binding.files;
        }
        Ok((expected, granted))
    }
}

impl SkillView {
    /// The shell of a skill's commands, as an absolute path in the sandbox; `None` for the default.
    ///
    /// # Errors
    ///
    /// There is no such skill, or its shell is neither bash nor sh.
    pub fn shell_of(&self, name: &str) -> Result<Option<String>, SkillError> {
        shell_for(&*self.visible_to_model(name)?)
    }
}

pub(super) fn no_permission(name: &str, refusal: Refusal) -> SkillError {
    SkillError::RunRefused { name: name.to_owned(), refusal }
}

pub(super) fn refused_run(name: &str, why: &str) -> SkillError {
    run_error(name, ExecuteError::Refused(why.to_owned()))
}

fn run_error(name: &str, error: ExecuteError) -> SkillError {
    SkillError::Run { name: name.to_owned(), error: error.into() }
}

/// The skill of a run, and the skills that its inputs name.
fn named_skills(request: &RunRequest) -> Result<Vec<String>, SkillError> {
    let mut names = vec![request.skill.clone()];
    for input in &request.inputs {
        match input.skill() {
            Some(SkillInput::Named(skill)) if !names.contains(&skill) => names.push(skill),
            // A path into the staged files of another skill would bypass the gate of that skill.
            Some(SkillInput::Staged) => {
                let why = "write inputs from other skills as skill://name/path";
                return Err(refused_run(&request.skill, why));
            }
            Some(SkillInput::Named(_)) | None => {}
        }
    }
    Ok(names)
}

/// Checks that the executor can do what the run needs, before anybody is asked.
fn check_abilities(
    request: &RunRequest,
    runner: &SkillRunner,
    channel: Option<Channel>,
    network: &Network,
) -> Result<(), SkillError> {
    let executor = runner.setup.runner.executor.as_ref();
    let abilities = executor.map(|executor| executor.abilities()).unwrap_or_default();
    if channel == Some(Channel::Terminal) && !abilities.terminals {
        return Err(refused_run(&request.skill, "this executor has no terminals; leave out tty"));
    }
    if *network != Network::None && !abilities.hosts {
        return Err(refused_run(&request.skill, "this executor cannot reach hosts; leave out network"));
    }
    Ok(())
}

/// The skills of a run, by the names of their staged directories.
#[derive(Default)]
struct StagedSkills {
    sources: BTreeMap<String, StageSource>,
    /// The locations of their manifests.
    locations: BTreeMap<String, String>,
    /// The digests of the servers' lists of files.
    published: BTreeMap<String, Digest>,
}

/// A run that has passed its gates.
pub(super) struct ApprovedRun<'a> {
    /// The request, with the name of the skill's staged directory.
    pub(super) request: RunRequest,
    pub(super) runner: &'a SkillRunner,
    sources: BTreeMap<String, StageSource>,
    /// The approved hosts.
    network: Network,
    shell: Option<String>,
    /// The digests of the approved skills, if a person was asked.
    expected: Digests,
    /// The skill, if its `allowed-tools` settled a question.
    pub(super) preapproved_by: Option<String>,
    /// The skill that a person runs, and whose own files may be inputs.
    given_to: Option<Arc<SkillEntry>>,
    /// The real paths of the approved local inputs.
    approved_inputs: BTreeSet<PathBuf>,
    /// What the command sees of the project.
    given: Given,
    /// The directories of the project that it may write.
    writable: Option<WritableProject>,
}

impl ApprovedRun<'_> {
    /// The gate for local inputs when they are copied. It does not ask again about approved ones.
    pub(super) fn input_gate<'b>(
        &'b self,
        driver: RunDriver<'b>,
        request: &'b RunRequest,
    ) -> LocalInputGate<'b> {
        LocalInputGate {
            driver,
            request,
            given_to: self.given_to.as_deref(),
            approved: &self.approved_inputs,
        }
    }

    pub(super) fn skills(&self) -> impl Fn(&str) -> Option<StageSource> + Send + Sync {
        |skill| self.sources.get(skill).cloned()
    }

    /// Links in the sandbox, so that the real paths of the project and of the skills lead to the same files.
    fn aliases(&self) -> Vec<(String, String)> {
        let tree = &self.runner.setup.tree;
        let mut aliases = tree.aliases();
        if tree.has_own_names() {
            aliases.extend(self.sources.iter().filter_map(|(name, source)| match source {
                StageSource::Directory(path) => Some((path.to_str()?.to_owned(), tree.skill(name))),
                _ => None,
            }));
        }
        // A person may work in the directory of a skill.
        let mut known = BTreeSet::new();
        aliases.retain(|(link, _)| known.insert(link.clone()));
        aliases
    }

    pub(super) fn context<'a>(
        &self,
        skills: &'a dyn SkillSources,
        input_gate: &'a dyn InputGate,
    ) -> RunContext<'a> {
        let mut context = RunContext::new(skills);
        context.input_gate = input_gate;
        context.limits = self.runner.setup.limits.clone();
        context.network = self.network.clone();
        context.shell.clone_from(&self.shell);
        context.expected.clone_from(&self.expected);
        context.aliases = self.aliases();
        context.other_skills = self.sources.keys().cloned().collect();
        context.mounts.clone_from(&self.given.mounts);
        context.warnings.clone_from(&self.given.warnings);
        context.review.clone_from(&self.given.review);
        context.writable = self.writable.clone();
        context
    }
}

/// The name of a skill's directory in the workspace. For a server's skill it is made from safe characters only.
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

/// The shell of a skill's commands, as an absolute path in the sandbox.
fn shell_for(entry: &SkillEntry) -> Result<Option<String>, SkillError> {
    let Some(named) = entry.skill.extensions.shell.as_deref() else { return Ok(None) };
    match named {
        "bash" | "/bin/bash" | "/usr/bin/bash" => Ok(Some("/bin/bash".to_owned())),
        "sh" | "/bin/sh" | "/usr/bin/sh" => Ok(Some("/bin/sh".to_owned())),
        _ => {
            let why =
                format!("the skill asks for the shell `{}`; only bash and sh are possible", code_text(named));
            Err(refused_run(entry.skill.name.as_str(), &why))
        }
    }
}

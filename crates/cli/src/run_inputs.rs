//! What `prowess run` may be given: the person named it, and what rules deny stays denied.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Result, bail};
use async_trait::async_trait;
use prowess_catalog::SkillEntry;
use prowess_permission::{Decision, Kind, Permissions, joined};
use prowess_skills::{SkillSession, denial};
use prowess_workspace::{HostGate, RunInput, RunRequest, SkillInput, StageSource};

use crate::config::Config;
use crate::sight::rule_for;
use crate::skills::Skills;
use crate::state::Kept;
use crate::terminal::shown;

/// What the agent of these rules is called: [agent.run.permission].
const NAME: &str = "run";

/// Refuses a command that a rule denies. Nobody is asked about any other: whoever typed it has answered.
pub(crate) fn check_rules(config: &Config, entry: &SkillEntry, request: &RunRequest) -> Result<()> {
    let policy = config.policy(NAME, &Kept::default());
    let name = entry.skill.name.as_str();
    if let Some(verdict) = denial(&policy, entry) {
        bail!("nothing ran: the skill `{}` is denied by {}", shown(name), rule_for(NAME, &verdict));
    }
    let verdict = policy.decide(&Kind::RUN, &joined(name, &request.command));
    if verdict.decision == Decision::Deny {
        bail!("nothing ran: the command is denied by {}", rule_for(NAME, &verdict));
    }
    Ok(())
}

/// The inputs of a run. Nobody is asked: whoever typed a path has answered. A rule that denies a path stands over that, and
/// files of skills that are denied or not trusted do not come in.
pub(crate) struct Inputs {
    session: SkillSession,
    /// The skill that runs, which the person named.
    own: Arc<SkillEntry>,
}

impl Inputs {
    /// Looks at all inputs before anything is staged.
    pub(crate) async fn new(
        skills: &Skills,
        config: &Config,
        own: &Arc<SkillEntry>,
        request: &RunRequest,
    ) -> Result<Self> {
        // What would be asked about is given: where files are kept makes no difference.
        let permissions = Permissions::unattended(config.policy(NAME, &Kept::default()));
        let session = SkillSession::builder(skills.catalog.clone()).permissions(permissions).start().await;
        let inputs = Self { session, own: Arc::clone(own) };
        for input in &request.inputs {
            if input.skill() == Some(SkillInput::Staged) {
                bail!("{}: inputs from other skills are written skill://NAME/PATH", shown(&input.from));
            }
        }
        let paths: Vec<PathBuf> = request.inputs.iter().filter_map(RunInput::host).collect();
        if !paths.is_empty() {
            for warning in config.warnings() {
                writeln!(anstream::stderr(), "warning: {warning}")?;
            }
        }
        for path in paths {
            if let Err(why) = inputs.session.look_at_given_input(&path, own).await {
                bail!("nothing ran: {}", shown(&why.for_person()));
            }
        }
        Ok(inputs)
    }

    /// Where the files of a skill are: of the one that runs, and of those that rules let be known.
    pub(crate) fn source(&self, name: &str) -> Option<StageSource> {
        let is_own = self.own.skill.name.as_str() == name;
        let view = self.session.view();
        let entry = if is_own { Some(&self.own) } else { view.get(name) }?;
        Some(StageSource::Directory(PathBuf::from(entry.skill.location.directory())))
    }
}

#[async_trait]
impl HostGate for Inputs {
    async fn allow_host(&self, path: &Path) -> bool {
        self.session.look_at_given_input(path, &self.own).await.is_ok()
    }
}

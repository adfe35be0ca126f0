//! What is asked of a run.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Deserializer, Serialize};

use crate::collect::CollectLimits;
use crate::command::Network;
use crate::host_rule::HostRule;
use crate::input::InputSource;
use crate::runner::RunError;

/// The most hosts that a request can ask for.
pub const MAX_HOSTS: usize = 32;

/// Runs a command of a skill in the session's workspace.
///
/// ```
/// use prowess_workspace::RunRequest;
///
/// let mut request = RunRequest::new("invoices", "python3 scripts/sum.py > out/sum.txt");
/// request.output_files = vec!["out/*.txt".into()];
/// request.timeout = Some(30);
///
/// // A model writes the same as JSON.
/// let written = r#"{"skill": "invoices", "command": "python3 scripts/sum.py > out/sum.txt",
///                   "output_files": ["out/*.txt"], "timeout": 30}"#;
/// assert_eq!(serde_json::from_str::<RunRequest>(written)?, request);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRequest {
    /// The name of the skill.
    pub skill: String,
    /// The command line, run by `bash -lc` in the skill's directory.
    pub command: String,
    /// The directory to run in, relative to the skill's own; the skill's own by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables for the command, beside `WORKSPACE_DIR`, `SKILLS_DIR`, `WORK_DIR`,
    /// `OUTPUT_DIR`, `RUN_DIR` and `SKILL_NAME`, which are always there.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// What the command reads from its standard input; nothing by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Files to bring into the workspace before the command runs.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<RunInput>,
    /// Globs of files to return, relative to the workspace, such as `out/*.txt` or `$OUTPUT_DIR/**`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub output_files: Vec<String>,
    /// Which files to collect, with limits, and whether to return or to save them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<RunOutputs>,
    /// Hosts that the command has to reach, each `example.com`, `*.example.com` for all below it, or either with
    /// `:port`; ports 80 and 443 otherwise. None by default. Only HTTP and HTTPS through the proxy that
    /// `HTTP_PROXY` and `HTTPS_PROXY` name get there.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// Seconds that the command may take; 60 by default, 600 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// Whether to save what `output_files` finds as artifacts, and to return them in `artifact_files`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub save_as_artifacts: bool,
    /// With `save_as_artifacts`: return names and types of the files only, not their content.
    #[serde(default, deserialize_with = "null_is_default")]
    pub omit_inline_content: bool,
    /// With `save_as_artifacts`: what the names of the artifacts begin with, such as `pref/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_prefix: Option<String>,
}

impl RunRequest {
    /// A run of `command` with everything else as it is by default.
    pub fn new(skill: impl Into<String>, command: impl Into<String>) -> Self {
        Self { skill: skill.into(), command: command.into(), ..Self::default() }
    }

    /// The network that the request asks for, if it is within what it may have at most.
    ///
    /// # Errors
    ///
    /// A host is no rule for hosts, or is not within that.
    pub fn network_within(&self, most: &Network) -> Result<Network, RunError> {
        if self.network.is_empty() {
            return Ok(Network::None);
        }
        if self.network.len() > MAX_HOSTS {
            return Err(RunError::TooManyHosts);
        }
        let allowed: &[HostRule] = match most {
            Network::None => &[],
            Network::Hosts(rules) => rules,
        };
        let mut asked: Vec<HostRule> = Vec::new();
        for host in &self.network {
            let rule: HostRule = host.parse()?;
            if !allowed.iter().any(|allowed| allowed.covers(&rule)) {
                let allowed = allowed.iter().map(ToString::to_string).collect();
                return Err(RunError::HostNotAllowed { host: rule.to_string(), allowed });
            }
            if !asked.contains(&rule) {
                asked.push(rule);
            }
        }
        Ok(Network::Hosts(asked))
    }
}

/// A file or directory to bring into the workspace.
///
/// ```
/// use prowess_workspace::{InputMode, RunInput};
///
/// let copy = RunInput::copy("artifact://june.pdf@2");
/// let linked = RunInput {
///     from: "host:///srv/photos".into(),
///     to: Some("work/photos".into()),
///     mode: InputMode::Link,
/// };
/// assert_eq!((copy.mode, linked.skill()), (InputMode::Copy, None));
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunInput {
    /// Where it comes from: `artifact://name[@version]`, `host://abs/path`, `workspace://rel/path` or
    /// `skill://name/rel/path`.
    pub from: String,
    /// Where it goes, relative to the workspace; `work/inputs/` and its own name by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// How it gets there.
    #[serde(default, deserialize_with = "null_is_default")]
    pub mode: InputMode,
}

impl RunInput {
    /// A copy of `from` at its default place.
    pub fn copy(from: impl Into<String>) -> Self {
        Self { from: from.into(), ..Self::default() }
    }

    /// The file of the host that it takes, if it takes one.
    pub fn local_path(&self) -> Option<PathBuf> {
        match InputSource::parse(&self.from).ok()? {
            InputSource::Local(path) => Some(path),
            _ => None,
        }
    }

    /// How it takes files of skills, if it does: decided on what `from` means, not on how it is written. What is
    /// no source at all takes nothing, and is refused before anything runs.
    pub fn skill(&self) -> Option<SkillInput> {
        match InputSource::parse(&self.from).ok()? {
            InputSource::Skill { name, .. } => Some(SkillInput::Named(name)),
            InputSource::Workspace(path) if path.top() == "skills" => Some(SkillInput::Staged),
            InputSource::Workspace(_) | InputSource::Artifact { .. } | InputSource::Local(_) => None,
        }
    }
}

/// How an input takes files of skills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillInput {
    /// By the name of this skill: `skill://name/path`.
    Named(String),
    /// By a path of the workspace, where skills lie that were staged before.
    Staged,
}

/// How an input gets into the workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputMode {
    /// As a copy, which the command may change.
    #[default]
    Copy,
    /// In place where that is possible, read-only if it is the host's.
    Link,
}

/// Which files to collect after the command, and what to do with them.
///
/// ```
/// use prowess_workspace::{RunOutputs, RunRequest};
///
/// let mut request = RunRequest::new("invoices", "python3 scripts/sum.py");
/// request.outputs = Some(RunOutputs {
///     globs: vec!["out/**".into()],
///     save: true,
///     name_template: Some("june/".into()),
///     max_files: 10,
///     ..RunOutputs::default()
/// });
/// # assert!(!request.outputs.unwrap().inline);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunOutputs {
    /// Globs relative to the workspace, such as `out/**` or `$OUTPUT_DIR/**`.
    #[serde(deserialize_with = "null_is_default")]
    pub globs: Vec<String>,
    /// Whether to return the content of text files.
    #[serde(deserialize_with = "null_is_default")]
    pub inline: bool,
    /// Whether to save the files as artifacts.
    #[serde(deserialize_with = "null_is_default")]
    pub save: bool,
    /// What the names of the artifacts begin with, such as `pref/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_template: Option<String>,
    /// The most files that are collected.
    pub max_files: usize,
    /// The most bytes of each file; a longer one is truncated, and says so.
    pub max_file_bytes: u64,
    /// The most bytes of all files together.
    pub max_total_bytes: u64,
}

impl Default for RunOutputs {
    fn default() -> Self {
        let CollectLimits { max_files, max_file_bytes, max_total_bytes } = CollectLimits::default();
        Self {
            globs: Vec::new(),
            inline: false,
            save: false,
            name_template: None,
            max_files,
            max_file_bytes,
            max_total_bytes,
        }
    }
}

impl RunOutputs {
    /// The limits; 0 is no limit of its own and means the default.
    pub(crate) fn limits(&self) -> CollectLimits {
        let default = CollectLimits::default();
        let or = |given: u64, default: u64| if given == 0 { default } else { given };
        CollectLimits {
            max_files: if self.max_files == 0 { default.max_files } else { self.max_files },
            max_file_bytes: or(self.max_file_bytes, default.max_file_bytes),
            max_total_bytes: or(self.max_total_bytes, default.max_total_bytes),
        }
    }
}

/// Models write `null` for what they leave out.
fn null_is_default<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn within(asked: &[&str], most: &[&str]) -> Result<String, String> {
        let mut request = RunRequest::new("kit", "true");
        request.network = asked.iter().map(|host| (*host).to_owned()).collect();
        let most = Network::Hosts(most.iter().map(|host| host.parse().unwrap()).collect());
        match request.network_within(&most) {
            Ok(Network::Hosts(rules)) => {
                Ok(rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
            }
            Ok(Network::None) => Ok("none".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_request_gets_what_it_asks_for_and_no_more() {
        let most = ["*.example.com", "pypi.org:443"];
        assert_eq!(within(&[], &most).unwrap(), "none");
        assert_eq!(within(&["API.example.com", "api.example.com."], &most).unwrap(), "api.example.com");
        assert_eq!(within(&["pypi.org:443"], &most).unwrap(), "pypi.org:443");
        assert_eq!(
            within(&["pypi.org"], &most).unwrap_err(),
            "the host pypi.org is not allowed; allowed hosts: *.example.com, pypi.org:443"
        );
        assert_eq!(
            within(&["a.org"], &[]).unwrap_err(),
            "the host a.org is not allowed: the configuration allows no network"
        );
        assert!(within(&["http://a.org"], &most).unwrap_err().contains("is no rule for hosts"));
        assert!(within(&["a.example.com"; MAX_HOSTS + 1], &most).is_err());
    }

    #[test]
    fn an_input_takes_of_skills_what_it_means_however_it_is_written() {
        let skill = |from: &str| RunInput::copy(from).skill();
        assert_eq!(skill("skill://kit/a/b"), Some(SkillInput::Named("kit".to_owned())));
        for from in [
            "workspace://skills/kit/SKILL.md",
            "workspace://./skills/x",
            "workspace://skills",
            "workspace://$SKILLS_DIR/kit/SKILL.md",
            "workspace://${SKILLS_DIR}/kit/SKILL.md",
            "workspace://$SKILLS_DIR",
            "workspace://$WORKSPACE_DIR/skills/kit",
            "workspace://${WORKSPACE_DIR}//./skills/kit",
        ] {
            assert_eq!(skill(from), Some(SkillInput::Staged), "{from}");
        }
        for from in [
            "workspace://work/skills/x",
            "workspace://$WORK_DIR/x",
            "host:///skills/x",
            "artifact://skills/x",
        ] {
            assert_eq!(skill(from), None, "{from}");
        }
        // No source at all.
        for from in ["workspace:///skills", "workspace://work/../skills/x", "skill://kit", "skills/kit"] {
            assert_eq!(skill(from), None, "{from}");
            assert!(InputSource::parse(from).is_err(), "{from}");
        }
    }
}

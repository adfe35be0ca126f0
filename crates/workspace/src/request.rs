//! The request for a run: its command, inputs, outputs and hosts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Deserializer, Serialize};

use crate::collect::CollectLimits;
use crate::command::Network;
use crate::host_rule::HostRule;
use crate::input::InputSource;
use crate::runner::RunError;
use crate::tree::WORK;

/// The most hosts that a request can ask for.
pub const MAX_HOSTS: usize = 32;

/// A request to run a command of a skill in a workspace.
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
    /// The directory to run in, relative to the skill's directory, which is the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// Environment variables for the command. `WORKSPACE_DIR`, `SKILLS_DIR`, `WORK_DIR`, `OUTPUT_DIR`, `RUN_DIR` and
    /// `SKILL_NAME` are always set.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The standard input of the command; empty by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// Inputs: files to copy or link into the workspace before the command runs.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<RunInput>,
    /// Globs of files to return, relative to the workspace, such as `out/*.txt` or `$OUTPUT_DIR/**`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub output_files: Vec<String>,
    /// Files to collect, with limits, and whether to return or save them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<RunOutputs>,
    /// Hosts that the command needs: `example.com`, or `*.example.com` for all hosts below it, with `:port` or for ports 80
    /// and 443. None by default. The command must use HTTP or HTTPS through the proxy in `HTTP_PROXY` and `HTTPS_PROXY`.
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub network: Vec<String>,
    /// The timeout in seconds; 60 by default, 600 at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// Whether to save the files of `output_files` as artifacts, and return them in `artifact_files`.
    #[serde(default, deserialize_with = "null_is_default")]
    pub save_as_artifacts: bool,
    /// With `save_as_artifacts`: return only names and types of the files, not their content.
    #[serde(default, deserialize_with = "null_is_default")]
    pub omit_inline_content: bool,
    /// With `save_as_artifacts`: a prefix for the names of the artifacts, such as `pref/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact_prefix: Option<String>,
}

impl RunRequest {
    /// A request for `command`, with defaults for everything else.
    pub fn new(skill: impl Into<String>, command: impl Into<String>) -> Self {
        Self { skill: skill.into(), command: command.into(), ..Self::default() }
    }

    /// The same request with paths of the tree instead of real paths of the workspace, which models see at the sandbox
    /// levels without mounts.
    pub(crate) fn with_places(mut self, workspace: &Path) -> Self {
        let Some(real) = workspace.to_str() else { return self };
        let place = |path: &mut String| {
            let rest = path.strip_prefix(real).filter(|rest| rest.is_empty() || rest.starts_with('/'));
            if let Some(rest) = rest {
                *path = format!("{WORK}{rest}");
            }
        };
        self.cwd.iter_mut().chain(&mut self.output_files).for_each(place);
        self.outputs.iter_mut().flat_map(|outputs| &mut outputs.globs).for_each(place);
        self.inputs.iter_mut().flat_map(|input| input.to.iter_mut().chain([&mut input.from])).for_each(place);
        self
    }

    /// The network that the request asks for, if `most` allows it.
    ///
    /// # Errors
    ///
    /// A host is not a valid host rule, or `most` does not allow it.
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

/// An input: a file or directory to copy or link into the workspace.
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
    /// The source: a path of the tree (`/work/…` or `/skills/NAME/…`), `artifact://name[@version]`, `host://abs/path`,
    /// `workspace://rel/path` or `skill://name/rel/path`.
    pub from: String,
    /// The destination, relative to the workspace; by default its own name in `work/inputs/`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Whether it is copied or linked.
    #[serde(default, deserialize_with = "null_is_default")]
    pub mode: InputMode,
}

impl RunInput {
    /// An input that copies `from` to its default destination.
    pub fn copy(from: impl Into<String>) -> Self {
        Self { from: from.into(), ..Self::default() }
    }

    /// The local file that this input uses, if it uses one.
    pub fn local_path(&self) -> Option<PathBuf> {
        match InputSource::parse(&self.from).ok()? {
            InputSource::Local(path) => Some(path),
            _ => None,
        }
    }

    /// How this input uses files of skills, if it does. The meaning of `from` decides, not how it is written. An invalid
    /// source uses nothing, and is refused before anything runs.
    pub fn skill(&self) -> Option<SkillInput> {
        match InputSource::parse(&self.from).ok()? {
            InputSource::Skill { name, .. } => Some(SkillInput::Named(name)),
            InputSource::Workspace(path) if path.top() == "skills" => Some(SkillInput::Staged),
            InputSource::Workspace(_) | InputSource::Artifact { .. } | InputSource::Local(_) => None,
        }
    }
}

/// How an input uses files of skills.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SkillInput {
    /// By the name of a skill: `skill://name/path`.
    Named(String),
    /// By a path in the workspace, where skills are staged.
    Staged,
}

/// Whether an input is copied or linked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InputMode {
    /// A copy, which the command may change.
    #[default]
    Copy,
    /// A link if possible. A local file is read-only.
    Link,
}

/// Which files to collect after the command, and whether to return or save them.
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
    /// A prefix for the names of the artifacts, such as `pref/`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name_template: Option<String>,
    /// The most files that are collected.
    pub max_files: usize,
    /// The most bytes of each file. A larger file is truncated and marked.
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
    /// The limits, where 0 means the default.
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

/// Models write `null` for fields that they leave out.
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
        assert!(within(&["http://a.org"], &most).unwrap_err().contains("is not a host rule"));
        assert!(within(&["a.example.com"; MAX_HOSTS + 1], &most).is_err());
    }

    #[test]
    fn an_input_takes_of_skills_what_it_means_however_it_is_written() {
        let skill = |from: &str| RunInput::copy(from).skill();
        for from in ["skill://kit/a/b", "/skills/kit/a/b", "/work/skills/kit/a", "/ws/skills/kit/a"] {
            assert_eq!(skill(from), Some(SkillInput::Named("kit".to_owned())), "{from}");
        }
        for from in [
            "workspace://skills/kit/SKILL.md",
            "workspace://./skills/x",
            "workspace://skills",
            "workspace://$SKILLS_DIR/kit/SKILL.md",
            "workspace://${SKILLS_DIR}/kit/SKILL.md",
            "workspace://$SKILLS_DIR",
            "workspace://$WORKSPACE_DIR/skills/kit",
            "workspace://${WORKSPACE_DIR}//./skills/kit",
            "workspace:///skills",
            "workspace:///work/skills/kit",
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
        for from in ["workspace:///etc", "workspace://work/../skills/x", "skill://kit", "skills/kit"] {
            assert_eq!(skill(from), None, "{from}");
            assert!(InputSource::parse(from).is_err(), "{from}");
        }
    }
}

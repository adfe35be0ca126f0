//! The source of an input, such as `artifact://report.txt@2`.

use std::path::{Component, PathBuf};

use crate::artifact::ArtifactName;
use crate::path::{InnerPath, expand};
use crate::stage::check_name;

/// The checked source of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InputSource {
    Artifact {
        name: ArtifactName,
        version: Option<u64>,
    },
    /// A local file or directory, written `host://abs/path`.
    Local(PathBuf),
    /// A path in the workspace.
    Workspace(InnerPath),
    /// A file of a skill by the skill's name, and its path in the workspace.
    Skill {
        name: String,
        path: InnerPath,
    },
}

impl InputSource {
    /// Parses `from`. The error says why it is refused.
    pub(crate) fn parse(from: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = from.split_once("://") else {
            return Self::in_tree(from).unwrap_or_else(|| Err(format!("it has no scheme; {SCHEMES}")));
        };
        match scheme {
            "artifact" => artifact(rest),
            "host" => local(rest),
            "workspace" => {
                let path = InnerPath::parse(&expand(rest)).map_err(|problem| problem.to_string())?;
                Ok(Self::Workspace(path))
            }
            "skill" => {
                let (name, path) = rest.split_once('/').ok_or("it does not name a file of the skill")?;
                check_name(name).map_err(|error| error.to_string())?;
                let path = InnerPath::parse(path).map_err(|problem| problem.to_string())?;
                let whole = InnerPath::parse(&format!("skills/{name}/{path}"));
                let path = whole.map_err(|problem| problem.to_string())?;
                Ok(Self::Skill { name: name.to_owned(), path })
            }
            _ => Err(format!("`{scheme}://` is not a scheme for inputs; {SCHEMES}")),
        }
    }

    /// The source at a path of the tree, `/skills/NAME/path` or `/work/path`, if it is one.
    fn in_tree(from: &str) -> Option<Result<Self, String>> {
        let inside = expand(from);
        let is_path = from.starts_with('/') && !inside.starts_with('/');
        is_path.then(|| match inside.strip_prefix("skills/") {
            Some(file) => Self::parse(&format!("skill://{file}")),
            None => Self::parse(&format!("workspace://{inside}")),
        })
    }

    /// Its path in the workspace, if it is in the workspace.
    pub(crate) fn inner(&self) -> Option<&InnerPath> {
        match self {
            Self::Workspace(path) | Self::Skill { path, .. } => Some(path),
            Self::Artifact { .. } | Self::Local(_) => None,
        }
    }

    /// Its file name, for the default place.
    pub(crate) fn base(&self) -> String {
        match self {
            Self::Artifact { name, .. } => name.base().to_owned(),
            Self::Local(path) => {
                path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
            }
            Self::Workspace(path) | Self::Skill { path, .. } => path.split().1.to_owned(),
        }
    }
}

const SCHEMES: &str = "use `artifact://name[@version]`, `host://abs/path`, `workspace://rel/path` or \
                       `skill://name/rel/path`";

fn artifact(rest: &str) -> Result<InputSource, String> {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let (name, version) = match rest.rsplit_once('@') {
        Some((name, version)) if is_number(version) => {
            (name, Some(version.parse().map_err(|_| "there is no such version")?))
        }
        _ => (rest, None),
    };
    let name = ArtifactName::parse(name).map_err(|problem| problem.to_string())?;
    Ok(InputSource::Artifact { name, version })
}

fn local(rest: &str) -> Result<InputSource, String> {
    if rest.chars().any(char::is_control) {
        return Err("it has a control character".to_owned());
    }
    // `host:///abs/path` and `host://abs/path` are the same.
    let path: PathBuf = PathBuf::from("/").join(rest.trim_start_matches('/'));
    if path.components().any(|part| part == Component::ParentDir) {
        return Err("it has a `..`".to_owned());
    }
    // Without doubled slashes and `.`.
    let path: PathBuf = path.components().collect();
    match path.file_name() {
        Some(_) => Ok(InputSource::Local(path)),
        None => Err("it does not name a file".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_read() {
        let artifact =
            |name: &str, version| InputSource::Artifact { name: ArtifactName::parse(name).unwrap(), version };
        let inside = |path: &str| InputSource::Workspace(InnerPath::parse(path).unwrap());
        for (from, expected) in [
            ("artifact://a/b.txt", artifact("a/b.txt", None)),
            ("artifact://a@12", artifact("a", Some(12))),
            ("artifact://a@b", artifact("a@b", None)),
            ("host:///data/./x//y", InputSource::Local("/data/x/y".into())),
            ("host://data/x", InputSource::Local("/data/x".into())),
            ("workspace://out/a", inside("out/a")),
            ("workspace://$OUTPUT_DIR/a", inside("out/a")),
            ("/work/out/a", inside("out/a")),
            ("/ws/out/a", inside("out/a")),
            ("workspace://$SKILLS_DIR/other/a", inside("skills/other/a")),
            (
                "skill://other/scripts/a.py",
                InputSource::Skill {
                    name: "other".into(),
                    path: InnerPath::parse("skills/other/scripts/a.py").unwrap(),
                },
            ),
            (
                "/skills/other/a.py",
                InputSource::Skill {
                    name: "other".into(),
                    path: InnerPath::parse("skills/other/a.py").unwrap(),
                },
            ),
        ] {
            assert_eq!(InputSource::parse(from).unwrap(), expected, "{from}");
        }
        for from in [
            "a",
            "http://x/y",
            "artifact://",
            "artifact://../a",
            "artifact://a@99999999999999999999999",
            "host://",
            "host:///a/../etc/shadow",
            "workspace://../x",
            "workspace:///etc/passwd",
            "skill://other",
            "skill://../x",
            "skill://other/../..",
            "skill:///x",
            "/work/../etc/shadow",
            "/skills/other",
            "/skills/../x/y",
            "/etc/passwd",
            "/work",
        ] {
            assert!(InputSource::parse(from).is_err(), "{from}");
        }
    }
}

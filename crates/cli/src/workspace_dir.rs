//! The option `--workspace`: where workspaces and artifacts are.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, anyhow, bail};
use clap::Args;
use prowess_backend::VirtualPath;
use prowess_workspace::artifact::S3Config;
use prowess_workspace::inventory::Contents;
use prowess_workspace::{Artifacts, Workspaces};

use crate::directories::{self, check_owned};
use crate::terminal::printable;

/// The directory of workspaces, below the state directory or `--workspace`.
const WORKSPACES: &str = "workspaces";
/// The directory of artifacts, in the same place.
const ARTIFACTS: &str = "artifacts";
/// How long an unused workspace is kept.
pub(crate) const WORKSPACE_LIFETIME: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// The variables with the keys of a bucket.
const KEYS: [&str; 2] = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"];
/// How long the check of a bucket may take.
const CHECK_TIMEOUT: Duration = Duration::from_secs(20);
/// How often artifact data without a name is removed.
const SWEEP_EVERY: Duration = Duration::from_secs(24 * 60 * 60);

/// Where workspaces and artifacts are.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Storage")]
pub(crate) struct WorkspaceDir {
    /// The directory with workspaces and artifacts, if it is not ~/.local/state/prowess
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// Keep artifacts, and the files of a server's threads, in a bucket of S3 or a compatible store: s3://BUCKET or s3://BUCKET/PATH. Keys, region and endpoint come from the variables AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL
    #[arg(long, value_name = "URL", env = "PROWESS_FILES")]
    files: Option<Bucket>,
}

/// A bucket, and a path in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bucket {
    name: String,
    prefix: VirtualPath,
}

impl FromStr for Bucket {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let rest = text.strip_prefix("s3://").ok_or("write s3://BUCKET or s3://BUCKET/PATH")?;
        let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err("a bucket has letters, digits, dots and hyphens".to_owned());
        }
        let prefix = VirtualPath::parse(&format!("/{path}")).map_err(|error| error.to_string())?;
        Ok(Self { name: name.to_owned(), prefix })
    }
}

impl Bucket {
    fn config(&self) -> S3Config {
        let mut config = S3Config::new(&self.name);
        config.prefix = self.prefix.clone();
        config
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "s3://{}{}", self.name, self.prefix.as_str().trim_end_matches('/'))
    }
}

/// The workspaces, opened.
pub(crate) struct OpenWorkspaces {
    pub(crate) workspaces: Workspaces,
    pub(crate) path: PathBuf,
    /// Why they are not in the usual place.
    pub(crate) moved: Option<String>,
}

impl WorkspaceDir {
    /// Opens the workspaces in a place that commands can reach.
    pub(crate) fn workspaces(&self) -> Result<OpenWorkspaces> {
        let base = self.base()?;
        make(&base)?;
        let path = base.join(WORKSPACES);
        let workspaces = Workspaces::open(&path).map_err(|error| anyhow!("{error}"))?;
        let Some(closed) = workspaces.closed_to_commands() else {
            return Ok(OpenWorkspaces { workspaces, path, moved: None });
        };
        let closed = closed.display();
        if self.workspace.is_some() {
            bail!(
                "as root, commands run as the user nobody, who cannot enter {closed}: run `chmod o+x {closed}`, or choose another --workspace DIR"
            );
        }
        let shared = directories::shared_workspaces();
        let moved = format!("as root, commands run as the user nobody, who cannot enter {closed}");
        make(&shared)?;
        check_owned(&shared)?;
        let path = shared.join(WORKSPACES);
        let workspaces = Workspaces::open(&path).map_err(|error| anyhow!("{error}"))?;
        if let Some(closed) = workspaces.closed_to_commands() {
            bail!("{moved} or {}; choose a --workspace DIR that everybody can enter", closed.display());
        }
        Ok(OpenWorkspaces { workspaces, path, moved: Some(moved) })
    }

    /// The directory of `--workspace`, if it was given.
    pub(crate) fn given(&self) -> Option<&Path> {
        self.workspace.as_deref()
    }

    /// The directories of prowess in `--workspace`, which can also contain other files.
    pub(crate) fn given_directories(&self) -> Vec<PathBuf> {
        let given = self.given().and_then(|given| std::path::absolute(given).ok());
        given.into_iter().flat_map(|base| [WORKSPACES, ARTIFACTS].map(|name| base.join(name))).collect()
    }

    /// The existing workspaces of this user, wherever they are. Nothing is created.
    pub(crate) fn existing_workspaces(&self) -> Result<Vec<Workspaces>> {
        let mut directories = vec![self.base()?];
        if self.workspace.is_none() {
            directories
                .extend(Some(directories::shared_workspaces()).filter(|shared| check_owned(shared).is_ok()));
        }
        let directories =
            directories.into_iter().map(|place| place.join(WORKSPACES)).filter(|place| place.is_dir());
        directories.map(|place| Workspaces::open(&place).map_err(|error| anyhow!("{error}"))).collect()
    }

    /// Opens the artifacts. Choose a scope with [`Artifacts::in_scope`].
    pub(crate) fn artifacts(&self) -> Result<Artifacts> {
        if let Some(bucket) = &self.files {
            return Artifacts::in_s3(bucket.config()).map_err(|error| anyhow!("{error}"));
        }
        // Commands must be able to enter the directory, whichever of the two is opened first.
        make(&self.base()?)?;
        Artifacts::on_disk(self.artifacts_path()?).map_err(|error| anyhow!("{error}"))
    }

    /// The contents of threads' files, if they are in a bucket: then the files of a thread follow it from machine to machine.
    pub(crate) fn contents(&self) -> Result<Option<Contents>> {
        let contents = self.files.as_ref().map(|bucket| Contents::in_s3(bucket.config()));
        contents.transpose().map_err(|error| anyhow!("{error}"))
    }

    /// Where files are, if they are in an object store: the bucket and the address of the store.
    pub(crate) fn object_store(&self) -> Option<String> {
        let bucket = self.files.as_ref()?;
        Some(format!("{bucket} at {}", std::env::var("AWS_ENDPOINT_URL").unwrap_or_default()))
    }

    /// Opens the artifacts for a server that starts. Those in a bucket must be within reach.
    pub(crate) async fn checked_artifacts(&self) -> Result<Artifacts> {
        let artifacts = self.artifacts()?;
        let Some(bucket) = &self.files else { return Ok(artifacts) };
        let why = match tokio::time::timeout(CHECK_TIMEOUT, artifacts.check()).await {
            Ok(Ok(())) => return Ok(artifacts),
            Ok(Err(error)) => printable(&error.to_string()),
            Err(_) => format!("it did not answer within {} seconds", CHECK_TIMEOUT.as_secs()),
        };
        let value = |name: &str| std::env::var(name).unwrap_or_default();
        let missing: Vec<_> = KEYS.into_iter().filter(|name| value(name).is_empty()).collect();
        let hint = if value("AWS_ENDPOINT_URL").starts_with("http://") && value("AWS_ALLOW_HTTP") != "true" {
            "AWS_ENDPOINT_URL begins with http://: set AWS_ALLOW_HTTP=true, or use https".to_owned()
        } else if missing.is_empty() {
            "check the bucket, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL"
                .to_owned()
        } else {
            format!("set {}, and AWS_ENDPOINT_URL if the store is not Amazon's", missing.join(", "))
        };
        bail!("the bucket {bucket} cannot be used: {why}; {hint} (docs/serving.md lists these variables)")
    }

    /// The existing artifacts. Nothing is created.
    pub(crate) fn existing_artifacts(&self) -> Result<Option<Artifacts>> {
        let exist = self.files.is_some() || self.artifacts_path()?.is_dir();
        exist.then(|| self.artifacts()).transpose()
    }

    pub(crate) fn artifacts_path(&self) -> Result<PathBuf> {
        Ok(self.base()?.join(ARTIFACTS))
    }

    /// Whether it is time to remove artifact data without a name. Notes that this is done now.
    pub(crate) fn is_sweep_due(&self) -> bool {
        let Ok(note) = self.artifacts_path().map(|path| path.join("swept")) else { return false };
        let swept = std::fs::metadata(&note).and_then(|found| found.modified());
        let is_recent = swept.is_ok_and(|at| at.elapsed().is_ok_and(|age| age < SWEEP_EVERY));
        !is_recent && std::fs::write(note, "").is_ok()
    }

    fn base(&self) -> Result<PathBuf> {
        if let Some(given) = &self.workspace {
            return std::path::absolute(given).context("the working directory cannot be read");
        }
        directories::state()
            .context("there is no home directory for workspaces: set HOME, or use --workspace DIR")
    }
}

fn make(path: &Path) -> Result<()> {
    directories::make_directory(path)
        .with_context(|| format!("cannot create {}; choose another --workspace DIR", path.display()))
}

/// A new id for a workspace that is used only once.
pub(crate) fn new_workspace_id() -> String {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    format!("run {} {}", std::process::id(), now.as_nanos())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_bucket_is_read_from_its_url() {
        let bucket: Bucket = "s3://reports/prowess/files".parse().unwrap();
        assert_eq!((&*bucket.name, bucket.prefix.as_str()), ("reports", "/prowess/files"));
        assert_eq!(bucket.to_string(), "s3://reports/prowess/files");
        let whole: Bucket = "s3://reports".parse().unwrap();
        assert_eq!((whole.prefix.as_str(), &*whole.to_string()), ("/", "s3://reports"));
        for wrong in ["reports", "s3://", "https://reports", "s3://a b", "s3://reports/../other"] {
            assert!(wrong.parse::<Bucket>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_shared_directory_must_be_ours_alone() {
        let place = tempfile::tempdir().unwrap();
        let own = place.path().join("own");
        make(&own).unwrap();
        check_owned(&own).unwrap();
        std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o777)).unwrap();
        check_owned(&own).unwrap_err();
        let link = place.path().join("link");
        std::os::unix::fs::symlink(place.path(), &link).unwrap();
        check_owned(&link).unwrap_err();
    }
}

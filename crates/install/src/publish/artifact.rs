//! One file for each skill: an archive, or a lone SKILL.md.

use std::io::Cursor;
use std::path::Path;

use prowess_catalog::Digest;
use prowess_catalog::check::Profile;
use prowess_catalog::package::{PackageError, package_files};
use prowess_catalog::skill::MANIFEST;
use serde::Serialize;

use super::PublishError;
use crate::snapshot::archive::{ArchiveKind, ArchiveLimits, unpack};
use crate::snapshot::well_known::MAX_SITE_BYTES;
use crate::snapshot::{EntryKind, MAX_SKILL_FILES, Snapshot as _};

/// The limits for skills that are published. `prowess add` takes no more bytes from a site, whatever its settings.
const LIMITS: ArchiveLimits =
    ArchiveLimits { download_bytes: MAX_SITE_BYTES, extract_bytes: MAX_SITE_BYTES, files: MAX_SKILL_FILES };

/// What an artifact is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ArtifactKind {
    /// The SKILL.md of a skill that has no other file.
    SkillMd,
    /// A zip with SKILL.md at its root.
    Archive,
}

impl ArtifactKind {
    /// Its name in an index.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SkillMd => "skill-md",
            Self::Archive => "archive",
        }
    }
}

/// A skill as one file.
pub(super) struct Artifact {
    pub(super) name: String,
    pub(super) description: String,
    pub(super) kind: ArtifactKind,
    pub(super) bytes: Vec<u8>,
    pub(super) digest: Digest,
    pub(super) files: usize,
    pub(super) unpacked_bytes: u64,
    pub(super) left_out: Vec<String>,
}

impl Artifact {
    /// Packs the skill in `directory`. What `prowess add` would refuse is an error.
    pub(super) fn pack(directory: &Path, profile: Profile) -> Result<Self, PublishError> {
        let mut archive = Cursor::new(Vec::new());
        let packed = package_files(directory, profile, &mut archive).map_err(|source| match source {
            // It was valid a moment ago.
            PackageError::Invalid(_) => PublishError::Changed(directory.to_owned()),
            source => PublishError::Package { directory: directory.to_owned(), source },
        })?;
        let bytes = archive.into_inner();
        if bytes.len() as u64 > MAX_SITE_BYTES || packed.bytes > MAX_SITE_BYTES {
            return Err(PublishError::TooLarge(directory.to_owned()));
        }
        let refused = |source| PublishError::Refused { directory: directory.to_owned(), source };
        let mut unpacked = unpack(&bytes, &LIMITS).map_err(refused)?;
        let (mut kind, mut bytes) = (ArtifactKind::Archive, bytes);
        if let [entry] = unpacked.entries()
            && entry.path == MANIFEST
            && matches!(entry.kind, EntryKind::File { is_executable: false, .. })
        {
            // A text can also look like an archive. Then it must be in one.
            let text = unpacked.read(MANIFEST).ok().filter(|text| ArchiveKind::of(text).is_none());
            if let Some(text) = text {
                (kind, bytes) = (ArtifactKind::SkillMd, text);
            }
        }
        Ok(Self {
            name: packed.name,
            description: packed.description,
            kind,
            digest: Digest::of(&bytes),
            bytes,
            files: packed.files.len(),
            unpacked_bytes: packed.bytes,
            left_out: packed.left_out,
        })
    }

    /// The name of its file: the name of the skill and the digest of the bytes.
    pub(super) fn file_name(&self) -> String {
        let suffix = match self.kind {
            ArtifactKind::SkillMd => "md",
            ArtifactKind::Archive => "zip",
        };
        let digest = self.digest.to_string();
        format!("{}-{}.{suffix}", self.name, digest.trim_start_matches("sha256:"))
    }
}

/// The digest in the name of an artifact. `None` if the file has another name.
pub(super) fn digest_in(file_name: &str) -> Option<Digest> {
    let stem = file_name.strip_suffix(".md").or_else(|| file_name.strip_suffix(".zip"))?;
    let (_, digest) = stem.rsplit_once('-')?;
    format!("sha256:{digest}").parse().ok()
}

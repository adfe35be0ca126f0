//! Archives of skills: `.skill` files have the skill's directory at their root, archives for web sites its files.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use zip::write::SimpleFileOptions;

use crate::catalog::SkillEntry;
use crate::check::{CheckReport, Profile, check_opened};
use crate::contents::{ContentLimits, ContentsError, contents_of};
use crate::local::{self, Follow, OpenError};
use crate::scan::join;
use crate::skill::MANIFEST;

/// The most bytes of a package, uncompressed.
const MAX_PACKAGE_BYTES: u64 = 512 * 1024 * 1024;
/// The most files of a package.
const MAX_PACKAGE_FILES: usize = 10_000;

/// A skill that was packed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packaged {
    /// The skill's name, which is also the name of the one directory of a `.skill` file.
    pub name: String,
    /// The skill's description.
    pub description: String,
    /// The packed files, by path.
    pub files: Vec<String>,
    /// The bytes of all files, uncompressed.
    pub bytes: u64,
    /// The entries that were left out, and why.
    pub left_out: Vec<String>,
}

/// Why a skill was not packed.
#[derive(Debug)]
#[non_exhaustive]
pub enum PackageError {
    /// The skill violates the specification.
    Invalid(Box<CheckReport>),
    /// The skill has too many files or bytes, or is too deep.
    TooLarge(String),
    /// The skill cannot be read, or the archive cannot be written.
    Io(io::Error),
}

impl fmt::Display for PackageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(report) => {
                let first = report.diagnostics.iter().find(|found| report.profile.rejects(found.code));
                write!(f, "{} is not a valid skill", report.id)?;
                first.map_or(Ok(()), |found| write!(f, ": {} [{}]", found.message, found.code))
            }
            Self::TooLarge(what) => write!(f, "the skill is too large to pack: {what}"),
            Self::Io(error) => write!(f, "cannot pack the skill: {error}"),
        }
    }
}

impl std::error::Error for PackageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::Invalid(_) | Self::TooLarge(_) => None,
        }
    }
}

impl From<io::Error> for PackageError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ContentsError> for PackageError {
    fn from(error: ContentsError) -> Self {
        match error {
            ContentsError::TooMuch(what) => Self::TooLarge(what),
            ContentsError::Io(error) => Self::Io(error),
        }
    }
}

impl From<zip::result::ZipError> for PackageError {
    fn from(error: zip::result::ZipError) -> Self {
        Self::Io(error.into())
    }
}

/// Writes the skill in `directory` to `archive`, if it is valid under `profile`.
///
/// The same files give the same bytes: entries are sorted and have no times. Leaves out links, FIFOs, devices, caches,
/// dependencies and the skill's `evals/`.
///
/// ```
/// use std::io::Cursor;
/// use prowess_catalog::check::Profile;
/// use prowess_catalog::package::package;
///
/// # let scratch = tempfile::tempdir()?;
/// # let directory = scratch.path().join("greet");
/// # std::fs::create_dir(&directory)?;
/// std::fs::write(
///     directory.join("SKILL.md"),
///     "---\nname: greet\ndescription: Says hello. Use at the door.\n---\nWave.\n",
/// )?;
/// let mut archive = Cursor::new(Vec::new());
/// let packed = package(&directory, Profile::Spec, &mut archive)?;
/// assert_eq!(packed.name, "greet");
/// assert_eq!(packed.files.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn package(
    directory: &Path,
    profile: Profile,
    archive: impl Write + Seek,
) -> Result<Packaged, PackageError> {
    pack(&local::open_directory(directory)?, directory, profile, Layout::Directory, archive)
}

/// Writes the skill in `directory` to `archive` like [`package`], but with SKILL.md at the archive's root. Indexes of web
/// sites name such archives.
///
/// ```
/// use std::io::Cursor;
/// use prowess_catalog::check::Profile;
/// use prowess_catalog::package::package_files;
///
/// # let scratch = tempfile::tempdir()?;
/// # let directory = scratch.path().join("greet");
/// # std::fs::create_dir(&directory)?;
/// # let text = "---\nname: greet\ndescription: Says hello. Use at the door.\n---\nWave.\n";
/// # std::fs::write(directory.join("SKILL.md"), text)?;
/// let mut archive = Cursor::new(Vec::new());
/// let packed = package_files(&directory, Profile::Spec, &mut archive)?;
/// assert_eq!(packed.files, ["SKILL.md"]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
///
/// As for [`package`].
pub fn package_files(
    directory: &Path,
    profile: Profile,
    archive: impl Write + Seek,
) -> Result<Packaged, PackageError> {
    pack(&local::open_directory(directory)?, directory, profile, Layout::Files, archive)
}

/// What is at the root of an archive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Layout {
    /// A directory with the name of the skill.
    Directory,
    /// The files of the skill.
    Files,
}

impl SkillEntry {
    /// Writes this skill to `archive` like [`package`], from the directory in which the scan found it.
    pub fn package(&self, profile: Profile, archive: impl Write + Seek) -> Result<Packaged, PackageError> {
        let base = self.open_base()?;
        let handle =
            local::open_directory_at(base.as_fd(), self.below(), Follow::Never).map_err(io::Error::from)?;
        pack(&handle, Path::new(self.skill.location.directory()), profile, Layout::Directory, archive)
    }
}

fn pack(
    handle: &OwnedFd,
    directory: &Path,
    profile: Profile,
    layout: Layout,
    archive: impl Write + Seek,
) -> Result<Packaged, PackageError> {
    let report = check_opened(handle.try_clone(), directory, &directory.to_string_lossy(), profile);
    let Some(skill) = report.skill.as_ref().filter(|_| report.is_valid()) else {
        return Err(PackageError::Invalid(Box::new(report)));
    };
    // A valid name is not a path. Check again, because an archive must not unpack elsewhere.
    if skill.name.as_str().contains(['/', '\\']) || matches!(skill.name.as_str(), "." | "..") {
        return Err(io::Error::other(format!("the name `{}` is a path", skill.name)).into());
    }
    // The bytes are counted while they are read.
    let contents = contents_of(handle, ContentLimits { files: MAX_PACKAGE_FILES, bytes: u64::MAX })?;
    let files: Vec<String> = contents.files.into_iter().map(|file| file.path).collect();
    let (name, description) = (skill.name.to_string(), skill.description.clone());
    let mut packaged = Packaged { name, description, files, bytes: 0, left_out: contents.left_out };
    if !packaged.files.iter().any(|path| path == MANIFEST) {
        return Err(io::Error::other("SKILL.md is a link; put the file itself there").into());
    }

    let mut zip = zip::ZipWriter::new(archive);
    for path in packaged.files.clone() {
        let (file, _) =
            local::open_file(handle.as_fd(), &path, Follow::Never).map_err(|error| match error {
                OpenError::Io(error) => error,
                _ => io::Error::other(format!("{path} changed while it was packed")),
            })?;
        let file = File::from(file);
        let executable = is_executable(&file)?;
        let options = SimpleFileOptions::default()
            .compression_method(zip::CompressionMethod::Deflated)
            .unix_permissions(if executable { 0o755 } else { 0o644 });
        let name = match layout {
            Layout::Directory => join(&packaged.name, &path),
            Layout::Files => path,
        };
        zip.start_file(name, options)?;
        let left = MAX_PACKAGE_BYTES - packaged.bytes;
        let copied = io::copy(&mut file.take(left + 1), &mut zip)?;
        packaged.bytes += copied;
        if packaged.bytes > MAX_PACKAGE_BYTES {
            return Err(PackageError::TooLarge(format!("more than {MAX_PACKAGE_BYTES} bytes")));
        }
    }
    zip.finish()?;
    Ok(packaged)
}

fn is_executable(file: &File) -> io::Result<bool> {
    use std::os::unix::fs::PermissionsExt as _;
    Ok(file.metadata()?.permissions().mode() & 0o111 != 0)
}

impl PackageError {
    /// The report of an invalid skill.
    pub fn report(&self) -> Option<&CheckReport> {
        match self {
            Self::Invalid(report) => Some(report),
            Self::TooLarge(_) | Self::Io(_) => None,
        }
    }
}

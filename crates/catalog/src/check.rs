//! Checks a skill for its author: the whole manifest, strictly, with advice.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::advice;
use crate::diagnostic::{Code, CodeClass, Diagnostic, Findings, Severity};
use crate::fields::EXTENSION_FIELDS;
use crate::local::{self, Follow, OpenError, WholeFile};
use crate::manifest_errors;
use crate::root::Root;
use crate::scan::{RootScan, ScanOptions};
use crate::skill::{Location, MANIFEST, Skill};
use crate::walk::scan_local;

/// The rules that a check applies.
///
/// ```
/// use prowess_catalog::check::Profile;
/// use prowess_catalog::Code;
///
/// assert!(!Profile::Spec.rejects(Code::NameReserved));
/// assert!(Profile::Claude.rejects(Code::NameReserved), "the name contains the name of its makers");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Profile {
    /// The open specification, to the letter.
    #[default]
    Spec,
    /// What Claude's products accept: also their own fields, but only ASCII names without their makers' names, and no angle
    /// brackets in descriptions.
    Claude,
    /// The specification, and every further field that prowess supports.
    Prowess,
}

impl Profile {
    fn accepts_extensions(self) -> bool {
        self != Self::Spec
    }

    /// Whether a diagnostic makes a skill invalid under these rules.
    pub fn rejects(self, code: Code) -> bool {
        let stricter = self == Self::Claude
            && matches!(code, Code::NameNonAscii | Code::DescriptionAngleBrackets | Code::NameReserved);
        stricter || code.fails_strict()
    }
}

/// The result of checking one directory.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CheckReport {
    /// The directory, as it was given or as it was found.
    pub id: String,
    /// The skill, if prowess would load it.
    pub skill: Option<Skill>,
    /// All diagnostics, in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
    /// The bytes of the manifest, if it could be read.
    pub source: Vec<u8>,
    /// The manifest's path.
    pub file: PathBuf,
    /// The rules that were applied.
    pub profile: Profile,
}

impl CheckReport {
    /// Whether the skill follows the rules exactly.
    pub fn is_valid(&self) -> bool {
        self.skill.is_some() && !self.diagnostics.iter().any(|found| self.profile.rejects(found.code))
    }

    /// The codes of one class, each once, sorted.
    pub fn codes(&self, class: CodeClass) -> Vec<Code> {
        let mut codes: Vec<Code> =
            self.diagnostics.iter().map(|found| found.code).filter(|code| code.class() == class).collect();
        codes.sort_unstable_by_key(|code| code.as_str());
        codes.dedup();
        codes
    }

    /// The manifest with every safe fix applied, and the number of fixes. `None` if there are no fixes.
    ///
    /// ```
    /// use prowess_catalog::check::{Profile, check_directory};
    ///
    /// # let scratch = tempfile::tempdir()?;
    /// # let directory = scratch.path().join("greet");
    /// # std::fs::create_dir(&directory)?;
    /// std::fs::write(directory.join("SKILL.md"), "---\nname: Greet\ndescription: Says hello.\n---\nWave.\n")?;
    /// let report = check_directory(&directory, "greet", Profile::Spec);
    /// let (text, _) = report.fixed().unwrap();
    /// assert_eq!(String::from_utf8_lossy(&text), "---\nname: greet\ndescription: Says hello.\n---\nWave.\n");
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn fixed(&self) -> Option<(Vec<u8>, usize)> {
        let mut fixes: Vec<_> = self.diagnostics.iter().filter_map(|found| found.fix.as_ref()).collect();
        fixes.sort_by_key(|fix| (fix.start, fix.end));
        let mut text = Vec::with_capacity(self.source.len());
        let (mut at, mut applied) = (0, 0);
        for fix in fixes {
            // If two fixes overlap, apply the first. The next check offers the other.
            if fix.start >= at && fix.start <= fix.end && fix.end <= self.source.len() {
                text.extend_from_slice(&self.source[at..fix.start]);
                text.extend_from_slice(fix.replacement.as_bytes());
                at = fix.end;
                applied += 1;
            }
        }
        text.extend_from_slice(&self.source[at..]);
        (applied > 0).then_some((text, applied))
    }
}

/// Checks a skill's directory, its SKILL.md, or all skills in a tree.
///
/// A directory without any SKILL.md is reported. Returns the diagnostics of the search through a tree: limits, and directories
/// that cannot be read.
///
/// ```
/// use prowess_catalog::check::Profile;
/// use prowess_catalog::{ScanOptions, check};
///
/// # let scratch = tempfile::tempdir()?;
/// # let tree = scratch.path();
/// for (directory, name) in [("greet", "greet"), ("wave", "Wave!")] {
///     std::fs::create_dir(tree.join(directory))?;
///     let manifest = format!("---\nname: {name}\ndescription: Says hello. Use at the door.\n---\nWave.\n");
///     std::fs::write(tree.join(directory).join("SKILL.md"), manifest)?;
/// }
/// let mut valid = Vec::new();
/// let met = check(tree, Profile::Spec, &ScanOptions::default(), &mut |report| valid.push(report.is_valid()))?;
/// assert_eq!(valid, [true, false]);
/// assert!(met.is_empty());
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn check(
    path: &Path,
    profile: Profile,
    options: &ScanOptions,
    each: &mut dyn FnMut(CheckReport),
) -> io::Result<Vec<Diagnostic>> {
    if !std::fs::metadata(path)?.is_dir() {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        if path.file_name().is_none_or(|name| !name.eq_ignore_ascii_case(MANIFEST)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "neither a directory nor a SKILL.md"));
        }
        each(check_directory(parent, &display(path), profile));
        return Ok(Vec::new());
    }
    if find_manifest(&local::open_directory(path)?)? != ManifestName::None {
        each(check_directory(path, &display(path), profile));
        return Ok(Vec::new());
    }
    let scan = scan_local(&Arc::new(Root::explicit(path)), options, None);
    let prefix = format!("{}/", display(path).trim_end_matches('/'));
    let directories = skill_directories(&scan, &prefix);
    if directories.is_empty() {
        each(check_directory(path, &display(path), profile));
    }
    let tree = local::open_directory(path)?;
    for directory in directories {
        // Open it beneath the tree, so that a link that was put in its place meanwhile leads nowhere else.
        let opened =
            local::open_directory_at(tree.as_fd(), &directory, Follow::Beneath).map_err(io::Error::from);
        each(check_opened(opened, &path.join(&directory), &format!("{prefix}{directory}"), profile));
    }
    let is_worth_showing =
        |found: &Diagnostic| found.severity >= Severity::Warning && found.code != Code::FileNameCase;
    Ok(scan.diagnostics.into_iter().filter(is_worth_showing).collect())
}

fn display(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// The directories below `prefix` with a SKILL.md, in any letter case.
fn skill_directories(scan: &RootScan, prefix: &str) -> Vec<String> {
    let misnamed =
        scan.diagnostics.iter().filter(|found| found.code == Code::FileNameCase).filter_map(|found| {
            let directory = found.file.strip_prefix(prefix)?.rsplit_once('/')?.0;
            Some(directory.to_owned())
        });
    let mut directories: Vec<String> =
        scan.found.iter().map(|found| found.directory.to_string()).chain(misnamed).collect();
    directories.sort_unstable();
    directories.dedup();
    directories
}

/// Checks one directory as a skill. The report names it `id`.
///
/// ```
/// use prowess_catalog::check::{Profile, check_directory};
///
/// # let scratch = tempfile::tempdir()?;
/// # let directory = scratch.path().join("greet");
/// # std::fs::create_dir(&directory)?;
/// std::fs::write(directory.join("SKILL.md"), "---\nname: hello\ndescription: Says hello.\n---\nWave.\n")?;
/// let report = check_directory(&directory, "greet", Profile::Spec);
/// assert!(!report.is_valid());
/// assert_eq!(report.diagnostics[0].code.as_str(), "name-dir-mismatch");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn check_directory(directory: &Path, id: &str, profile: Profile) -> CheckReport {
    check_opened(local::open_directory(directory), directory, id, profile)
}

/// Checks an open directory. `directory` is its path, for messages.
pub(crate) fn check_opened(
    opened: io::Result<OwnedFd>,
    directory: &Path,
    id: &str,
    profile: Profile,
) -> CheckReport {
    let file = directory.join(MANIFEST);
    let mut report = CheckReport {
        id: id.to_owned(),
        skill: None,
        diagnostics: Vec::new(),
        source: Vec::new(),
        file,
        profile,
    };
    if let Err(error) = opened.and_then(|handle| check_manifest(&handle, directory, &mut report)) {
        report.diagnostics.push(manifest_errors::unreadable(&Location::new(display(directory)), &error));
    }
    report
}

fn check_manifest(handle: &OwnedFd, directory: &Path, report: &mut CheckReport) -> io::Result<()> {
    // Use the directory's own name, however the path was written.
    let location = Location::new(format!("{}/{MANIFEST}", name_of(directory)?.to_string_lossy()));
    match find_manifest(handle)? {
        ManifestName::Exact => read_manifest(handle, &location, report),
        ManifestName::OtherCase(name) => {
            report.diagnostics.push(manifest_errors::wrong_case(&display(&directory.join(&name))));
        }
        ManifestName::None => {
            let missing = Diagnostic::new(
                Code::MissingSkillMd,
                display(directory),
                "there is no SKILL.md in this directory",
            );
            report.diagnostics.push(missing.hint("`prowess new NAME` creates a skill"));
        }
    }
    report.diagnostics.sort_by_key(|found| found.span.as_ref().map(|span| span.start));
    for found in &mut report.diagnostics {
        if *found.file == *location.as_str() {
            found.file = display(&report.file).into();
        }
    }
    Ok(())
}

/// The directory's absolute path, so that `.` and `..` also have a name.
fn name_of(directory: &Path) -> io::Result<PathBuf> {
    let absolute = std::path::absolute(directory)?;
    if absolute.file_name().is_some() {
        return Ok(absolute);
    }
    #[expect(
        clippy::disallowed_methods,
        reason = "only to show the name of a path that ends in `..`; nothing is opened by it"
    )]
    directory.canonicalize()
}

#[derive(PartialEq, Eq)]
enum ManifestName {
    Exact,
    OtherCase(String),
    None,
}

fn find_manifest(directory: &OwnedFd) -> io::Result<ManifestName> {
    let mut found = ManifestName::None;
    local::list(directory, |name, _| {
        if name == MANIFEST.as_bytes() {
            found = ManifestName::Exact;
        } else if name.eq_ignore_ascii_case(MANIFEST.as_bytes()) && found == ManifestName::None {
            found = ManifestName::OtherCase(String::from_utf8_lossy(name).into_owned());
        }
    })?;
    Ok(found)
}

fn read_manifest(directory: &OwnedFd, location: &Location, report: &mut CheckReport) {
    let opened = match local::open_file(directory.as_fd(), MANIFEST, Follow::Never) {
        Err(OpenError::Link) => local::open_file(directory.as_fd(), MANIFEST, Follow::Beneath),
        opened => opened,
    };
    let read = match opened {
        Ok((file, stamp)) => local::read_whole(file, stamp.size),
        Err(error) => return report.diagnostics.push(manifest_errors::refusal(&error, location)),
    };
    let source = match read {
        Ok(WholeFile::Bytes(source)) => source,
        Ok(WholeFile::TooLarge) => return report.diagnostics.push(manifest_errors::too_large(location)),
        Err(error) => return report.diagnostics.push(manifest_errors::unreadable(location, &error)),
    };
    let parsed = Skill::parse(&source, location);
    report.diagnostics = parsed.diagnostics;
    report.skill = parsed.skill;
    if let (Some(skill), Ok(text)) = (&report.skill, std::str::from_utf8(&source)) {
        let mut findings = Findings::new(location.as_str().into(), &source);
        advice::body(text, parsed.body, directory, &mut findings);
        if report.profile == Profile::Claude {
            advice::reserved_name(&skill.name, &mut findings);
        }
        report.diagnostics.extend(findings.finish());
    }
    if report.profile.accepts_extensions() {
        report.diagnostics.retain(|found| found.code != Code::UnknownField || !is_extension(found, &source));
    }
    report.source = source;
}

fn is_extension(found: &Diagnostic, source: &[u8]) -> bool {
    let key = found.span.as_ref().and_then(|span| source.get(span.start..span.end)).unwrap_or_default();
    let inside = |quote: &[u8]| key.strip_prefix(quote).and_then(|key| key.strip_suffix(quote));
    let key = inside(b"\"").or_else(|| inside(b"'")).unwrap_or(key);
    EXTENSION_FIELDS.iter().any(|field| field.as_bytes() == key)
}

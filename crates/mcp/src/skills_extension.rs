//! The Skills extension, `io.modelcontextprotocol/skills`: which skills are served, at which address, with which files.

use std::collections::HashMap;
use std::sync::Arc;

use prowess_catalog::contents::{ContentFile, ContentLimits, Contents, FileError};
use prowess_catalog::overview::SkillMode;
use prowess_catalog::skill::MANIFEST;
use prowess_catalog::{Code, Diagnostic, Digest, Skill, SkillEntry};
use prowess_permission::quote_name;
use prowess_skills::SkillSession;
use prowess_skills::owner::FileOwner;
use rmcp::ErrorData;
use rmcp::model::Resource;
use serde::Serialize;
use serde_json::{Value, json};

use crate::answer_size::MAX_FILE;
use crate::{mime, uri};

/// The identifier of the extension.
pub const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";
/// The most files of a skill. Larger skills are not served.
pub const MAX_SERVED_FILES: usize = 512;
/// The most bytes of all files of a skill. Larger skills are not served.
pub const MAX_SERVED_BYTES: u64 = 16 * 1024 * 1024;
/// How many skills one page lists, and how many bytes their entries may have.
const PAGE_SKILLS: usize = 50;
const MAX_PAGE_BYTES: usize = 4 << 20;
/// How long a client may use an answer without asking again, in milliseconds. It also hears of changes.
const TTL_MS: u64 = 10_000;
/// How often the server reads a skill again that changes meanwhile.
const TRIES: usize = 3;
/// The start of a cursor. The last name of the page before follows.
const AFTER: &str = "after ";

const LIMITS: ContentLimits = ContentLimits { files: MAX_SERVED_FILES, bytes: MAX_SERVED_BYTES };

/// A skill that the extension does not serve, though the tools may offer it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unserved {
    /// The name of the skill.
    pub name: String,
    /// Why it is not served.
    pub why: String,
}

/// A file of a skill in the skill's entry.
#[derive(Clone, Debug, Serialize)]
struct ListedFile {
    uri: String,
    digest: Digest,
    size: u64,
}

/// The skills that one client may get now. This excludes denied and untrusted skills, and skills that violate the
/// specification or the extension's limits.
pub(crate) struct Publication<'a> {
    session: &'a SkillSession,
    /// The listed skills by name, then those that are not listed.
    skills: Vec<ServedSkill>,
    /// How many are listed. A client would offer them to its model, so skills whose mode leaves them to people are not. Their
    /// files can be read, except for their SKILL.md: a person who starts such a skill needs them.
    listed: usize,
    paths: HashMap<String, usize>,
    /// The directories of skills that this client may not see.
    hidden: Vec<String>,
}

#[derive(Clone)]
struct ServedSkill {
    path: String,
    entry: Arc<SkillEntry>,
}

/// A file or directory of a served skill.
pub(crate) struct ServedFile {
    pub(crate) skill: Arc<SkillEntry>,
    /// The skill's path.
    skill_path: String,
    /// The path in the skill; empty for the skill's directory.
    pub(crate) path: String,
}

impl<'a> Publication<'a> {
    pub(crate) fn of(session: &'a SkillSession) -> Self {
        let (view, modes) = (session.engine().catalog_view(), &session.options().modes);
        let mut entries: Vec<_> =
            view.entries().iter().filter(|entry| breach(entry.diagnostics()).is_none()).collect();
        let is_unlisted = |entry: &&Arc<SkillEntry>| modes.of(entry.skill.name.as_str()) == SkillMode::Manual;
        // This keeps the order by name.
        entries.sort_by_key(is_unlisted);
        let listed = entries.partition_point(|entry| !is_unlisted(entry));
        let directory =
            |entry: &SkillEntry| entry.skill.location.directory().trim_end_matches('/').to_owned();
        let by_directory: HashMap<String, &SkillEntry> =
            entries.iter().map(|entry| (directory(entry), &***entry)).collect();
        let catalog = view.catalog();
        let shadowed = catalog.shadowed().iter().map(|shadowed| &shadowed.entry);
        let all = catalog.entries().iter().chain(shadowed).chain(catalog.untrusted());
        let is_seen = |entry: &SkillEntry| {
            view.get(entry.skill.name.as_str()).is_some_and(|seen| std::ptr::eq(&**seen, entry))
        };
        let hidden = all.filter(|entry| !is_seen(entry)).map(|entry| directory(entry)).collect();
        let skills: Vec<ServedSkill> = entries
            .iter()
            .map(|entry| ServedSkill { path: path_of(entry, &by_directory), entry: Arc::clone(entry) })
            .collect();
        let paths = skills.iter().enumerate().map(|(at, skill)| (skill.path.clone(), at)).collect();
        Self { session, skills, listed, paths, hidden }
    }

    /// The skills that are not served, and why. This reads the file lists of all skills.
    pub(crate) fn unserved(&self) -> Vec<Unserved> {
        let view = self.session.engine().catalog_view();
        let breaching = view.entries().iter().filter_map(|entry| {
            let why = breach(entry.diagnostics())?.to_string();
            Some(Unserved { name: entry.skill.name.to_string(), why })
        });
        let too_much = self.skills.iter().filter_map(|skill| {
            let why = self.contents(skill).err()?;
            Some(Unserved { name: skill.entry.skill.name.to_string(), why })
        });
        breaching.chain(too_much).collect()
    }

    /// `skills/list`
    pub(crate) fn list(&self, cursor: Option<&str>) -> Result<Value, ErrorData> {
        let (page, mut next) = self.page(cursor)?;
        let (mut skills, mut room): (Vec<Value>, usize) = (Vec::new(), MAX_PAGE_BYTES);
        for (at, skill) in page.iter().enumerate() {
            let Some(entry) = self.entry_or_warn(skill) else { continue };
            let bytes = entry.to_string().len();
            if bytes > room && !skills.is_empty() {
                next = Some(format!("{AFTER}{}", page[at - 1].entry.skill.name));
                break;
            }
            room = room.saturating_sub(bytes);
            skills.push(entry);
        }
        let mut result =
            json!({"resultType": "complete", "skills": skills, "ttlMs": TTL_MS, "cacheScope": "private"});
        if let Some(next) = next {
            result["nextCursor"] = next.into();
        }
        Ok(result)
    }

    /// `skills/get`
    pub(crate) fn get(&self, address: &str) -> Result<Value, ErrorData> {
        let unknown = || ErrorData::invalid_params(format!("No skill is served at {address}"), None);
        let file = self.find(address).filter(|file| file.path == MANIFEST).ok_or_else(unknown)?;
        let at = self.paths.get(&file.skill_path).filter(|at| **at < self.listed).ok_or_else(unknown)?;
        let skill = self.entry_or_warn(&self.skills[*at]).ok_or_else(unknown)?;
        Ok(json!({"resultType": "complete", "skill": skill, "ttlMs": TTL_MS, "cacheScope": "private"}))
    }

    /// `resources/directory/read`
    pub(crate) fn directory(&self, address: &str, cursor: Option<&str>) -> Result<Value, ErrorData> {
        if cursor.is_some() {
            return Err(ErrorData::invalid_params(
                "There is no such page; ask for the list again without a cursor",
                None,
            ));
        }
        let unknown = || ErrorData::invalid_params(format!("{address} is not a directory resource"), None);
        let directory = self.find(address).ok_or_else(unknown)?;
        let at = self.paths.get(&directory.skill_path).ok_or_else(unknown)?;
        let skill = &self.skills[*at];
        let contents = self.contents(skill).map_err(|_| unknown())?;
        if !directory.path.is_empty() && !contents.directories.contains(&directory.path) {
            return Err(unknown());
        }
        let child = |path: &str| -> Option<String> {
            let name = if directory.path.is_empty() {
                path
            } else {
                path.strip_prefix(&directory.path)?.strip_prefix('/')?
            };
            (!name.contains('/')).then(|| name.to_owned())
        };
        let files = contents.files.iter().filter(|file| child(&file.path).is_some());
        let files = files.map(|file| self.resource(skill, file));
        let directories = contents.directories.iter().filter_map(|path| {
            let resource = Resource::new(uri::of(&skill.path, path), child(path)?);
            Some(resource.with_mime_type("inode/directory"))
        });
        let resources: Vec<Resource> = files.chain(directories).collect();
        Ok(json!({
            "resultType": "complete",
            "resources": resources,
            "ttlMs": TTL_MS,
            "cacheScope": "private",
        }))
    }

    /// The manifests of the skills on one page of `resources/list`, and the cursor of the next page.
    pub(crate) fn manifests(
        &self,
        cursor: Option<&str>,
    ) -> Result<(Vec<Resource>, Option<String>), ErrorData> {
        let (page, next) = self.page(cursor)?;
        let manifests = page.iter().filter_map(|skill| {
            let contents = self.contents(skill).ok()?;
            let file = contents.files.into_iter().find(|file| file.path == MANIFEST)?;
            Some(self.resource(skill, &file))
        });
        Ok((manifests.collect(), next))
    }

    /// The file at an address, if it belongs to a served skill.
    pub(crate) fn file(&self, address: &str) -> Result<ServedFile, ErrorData> {
        let unknown = || ErrorData::invalid_params(format!("No file is served at {address}"), None);
        let wanted = self.find(address).ok_or_else(unknown)?;
        // The text of an unlisted skill comes with the prompt that a person chose. Its other files are read after that.
        let is_served = |at: &&usize| **at < self.listed || wanted.path != MANIFEST;
        let at = self.paths.get(&wanted.skill_path).filter(is_served).ok_or_else(unknown)?;
        let contents = self.contents(&self.skills[*at]).map_err(|_| unknown())?;
        let is_listed = contents.files.iter().any(|file| file.path == wanted.path);
        is_listed.then_some(wanted).ok_or_else(unknown)
    }

    /// The innermost skill that contains an address, and the path in it.
    fn find(&self, address: &str) -> Option<ServedFile> {
        let segments = uri::segments(address)?;
        (1..=segments.len()).rev().find_map(|length| {
            let skill_path = segments[..length].join("/");
            let skill = &self.skills[*self.paths.get(&skill_path)?];
            Some(ServedFile {
                skill: Arc::clone(&skill.entry),
                skill_path,
                path: segments[length..].join("/"),
            })
        })
    }

    fn page(&self, cursor: Option<&str>) -> Result<(&[ServedSkill], Option<String>), ErrorData> {
        let start = match cursor {
            None => 0,
            Some(cursor) => {
                let no_page = || {
                    ErrorData::invalid_params(
                        "There is no such page; ask for the list again without a cursor",
                        None,
                    )
                };
                let after = cursor.strip_prefix(AFTER).ok_or_else(no_page)?;
                self.skills[..self.listed].partition_point(|skill| skill.entry.skill.name.as_str() <= after)
            }
        };
        let end = self.listed.min(start + PAGE_SKILLS);
        let page = &self.skills[start..end];
        let last = page.last().filter(|_| end < self.listed);
        Ok((page, last.map(|skill| format!("{AFTER}{}", skill.entry.skill.name))))
    }

    /// The entry of a skill. If the skill cannot be served, logs why.
    fn entry_or_warn(&self, skill: &ServedSkill) -> Option<Value> {
        let mut entry = Err(String::new());
        for _ in 0..TRIES {
            entry = self.entry(skill);
            if entry.is_ok() {
                break;
            }
        }
        let name = skill.entry.skill.name.as_str();
        entry
            .inspect_err(|why| {
                tracing::warn!(skill = name, "Skill {} is not served: {why}", quote_name(name))
            })
            .ok()
    }

    fn entry(&self, skill: &ServedSkill) -> Result<Value, String> {
        let contents = self.contents(skill)?;
        let mut frontmatter = None;
        let mut resources = Vec::with_capacity(contents.files.len());
        let mut room = MAX_SERVED_BYTES;
        for file in &contents.files {
            let bytes = skill.entry.read_file(&file.path, room);
            let bytes = bytes.map_err(|error| format!("{}: {error}", file.path))?;
            room = room.saturating_sub(bytes.len() as u64);
            if file.path == MANIFEST {
                frontmatter = Some(frontmatter_of(&skill.entry, &bytes)?);
            }
            let (digest, size) = (Digest::of(&bytes), bytes.len() as u64);
            resources.push(ListedFile { uri: uri::of(&skill.path, &file.path), digest, size });
        }
        let frontmatter = frontmatter.ok_or("SKILL.md is not a regular file")?;
        Ok(json!({"uri": uri::of(&skill.path, MANIFEST), "frontmatter": frontmatter, "resources": resources}))
    }

    /// The files of a skill, without those of inner skills that this client may not see.
    fn contents(&self, skill: &ServedSkill) -> Result<Contents, String> {
        let mut contents = skill.entry.contents(LIMITS).map_err(|error| error.to_string())?;
        let root = skill.entry.skill.location.directory().trim_end_matches('/');
        let is_below = |hidden: &String| hidden.strip_prefix(root).is_some_and(|rest| rest.starts_with('/'));
        if self.hidden.iter().any(is_below) {
            let is_ours =
                |path: &str| self.session.view().owner_of(&format!("{root}/{path}")) != FileOwner::Denied;
            contents.files.retain(|file| is_ours(&file.path));
            contents.directories.retain(|path| is_ours(path));
        }
        if let Some(large) = contents.files.iter().find(|file| file.size > MAX_FILE) {
            return Err(format!(
                "{} has {} bytes, but an answer can hold only {MAX_FILE}",
                large.path, large.size
            ));
        }
        if !contents.files.iter().any(|file| file.path == MANIFEST) {
            return Err("SKILL.md is not a regular file".to_owned());
        }
        Ok(contents)
    }

    fn resource(&self, skill: &ServedSkill, file: &ContentFile) -> Resource {
        let address = uri::of(&skill.path, &file.path);
        if file.path == MANIFEST {
            let Skill { name, description, .. } = &*skill.entry.skill;
            let resource = Resource::new(address, name.as_str()).with_description(description.as_str());
            return resource.with_mime_type("text/markdown").with_size(file.size);
        }
        let name = file.path.rsplit('/').next().unwrap_or_default();
        let resource = Resource::new(address, name).with_size(file.size);
        match mime::of(name) {
            Some(known) => resource.with_mime_type(known),
            None => resource,
        }
    }
}

impl ServedFile {
    /// Reads the file. A file that was just removed is as unknown as one that never existed.
    pub(crate) fn read(&self, address: &str) -> Result<Vec<u8>, ErrorData> {
        self.skill.read_file(&self.path, MAX_SERVED_BYTES).map_err(|error| match error {
            FileError::Io(error) => {
                tracing::error!(%error, "Cannot read {address}");
                ErrorData::internal_error(format!("Cannot read {address}: {error}"), None)
            }
            _ => ErrorData::invalid_params(format!("No file is served at {address}"), None),
        })
    }
}

/// The first diagnostic that violates the specification. Unknown fields do not count: an entry contains all fields that the
/// author wrote.
fn breach(found: &[Diagnostic]) -> Option<&Diagnostic> {
    found.iter().find(|found| found.code.fails_strict() && found.code != Code::UnknownField)
}

/// All fields of the frontmatter of the manifest in `bytes`.
fn frontmatter_of(entry: &SkillEntry, bytes: &[u8]) -> Result<Value, String> {
    let parsed = Skill::parse(bytes, &entry.skill.location);
    if let Some(found) = breach(&parsed.diagnostics) {
        return Err(found.to_string());
    }
    if parsed.skill.is_none_or(|skill| skill.name != entry.skill.name) {
        return Err("its SKILL.md now belongs to another skill".to_owned());
    }
    let frontmatter = Skill::frontmatter(bytes).ok_or("the frontmatter is not a map")?;
    let frontmatter = serde_json::to_value(frontmatter).map_err(|error| error.to_string())?;
    let is_text = |field: &str| frontmatter[field].is_string();
    if frontmatter["name"].as_str() != Some(entry.skill.name.as_str()) || !is_text("description") {
        return Err("YAML does not read its name or description as text".to_owned());
    }
    Ok(frontmatter)
}

/// The path of a skill: its name, or below the path of the skill that contains it.
fn path_of(entry: &SkillEntry, by_directory: &HashMap<String, &SkillEntry>) -> String {
    let directory = entry.skill.location.directory().trim_end_matches('/');
    let above = directory.match_indices('/').rev().map(|(at, _)| &directory[..at]);
    for outer in above {
        if let Some(enclosing) = by_directory.get(outer).filter(|enclosing| enclosing.root == entry.root) {
            return format!("{}{}", path_of(enclosing, by_directory), &directory[outer.len()..]);
        }
    }
    entry.skill.name.to_string()
}

//! The Skills extension, `io.modelcontextprotocol/skills`: what is served, under which address, in which state.

use std::collections::HashMap;
use std::sync::Arc;

use prowess_catalog::contents::{ContentFile, ContentLimits, Contents, FileError};
use prowess_catalog::skill::MANIFEST;
use prowess_catalog::{Code, Diagnostic, Digest, Skill, SkillEntry};
use prowess_permission::quote_name;
use prowess_skills::SkillSession;
use prowess_skills::owner::FileOwner;
use rmcp::ErrorData;
use rmcp::model::Resource;
use serde::Serialize;
use serde_json::{Value, json};

use crate::size::MAX_FILE;
use crate::{mime, uri};

/// The extension's identifier.
pub const SKILLS_EXTENSION: &str = "io.modelcontextprotocol/skills";
/// The most files of a skill that is served.
pub const MAX_SERVED_FILES: usize = 512;
/// The most bytes of all files of a skill that is served.
pub const MAX_SERVED_BYTES: u64 = 16 * 1024 * 1024;
/// How many skills are on one page, and how many bytes of them.
const PAGE: usize = 50;
const MAX_PAGE_BYTES: usize = 4 << 20;
/// How long a client may take what it was told for current, in milliseconds. It is told of changes besides.
const TTL_MS: u64 = 10_000;
/// How often a skill is looked at again that changes while it is read.
const TRIES: usize = 3;
/// What a cursor begins with; the last name of the page before follows.
const AFTER: &str = "after ";

const LIMITS: ContentLimits = ContentLimits { files: MAX_SERVED_FILES, bytes: MAX_SERVED_BYTES };

/// A skill that the extension does not serve, though the tools may offer it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unserved {
    /// Its name.
    pub name: String,
    /// Why.
    pub why: String,
}

/// A file of a skill, as an entry lists it.
#[derive(Clone, Debug, Serialize)]
struct Listed {
    uri: String,
    digest: Digest,
    size: u64,
}

/// What one client may be served now: neither skills that are denied to it, nor untrusted ones, nor those that breach
/// the specification or the extension's limits.
pub(crate) struct Publication<'a> {
    session: &'a SkillSession,
    /// By name, as the session has them.
    skills: Vec<Published>,
    paths: HashMap<String, usize>,
    /// The directories of skills that are kept from this client.
    hidden: Vec<String>,
}

#[derive(Clone)]
struct Published {
    path: String,
    entry: Arc<SkillEntry>,
}

/// A place in a skill.
pub(crate) struct Place {
    pub(crate) skill: Arc<SkillEntry>,
    /// The skill's path.
    skill_path: String,
    /// Below the skill's root; empty for the root itself.
    pub(crate) path: String,
}

impl<'a> Publication<'a> {
    pub(crate) fn of(session: &'a SkillSession) -> Self {
        let view = session.engine().catalog_view();
        let entries: Vec<_> =
            view.entries().iter().filter(|entry| breach(entry.diagnostics()).is_none()).collect();
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
        let skills: Vec<Published> = entries
            .iter()
            .map(|entry| Published { path: path_of(entry, &by_directory), entry: Arc::clone(entry) })
            .collect();
        let paths = skills.iter().enumerate().map(|(at, skill)| (skill.path.clone(), at)).collect();
        Self { session, skills, paths, hidden }
    }

    /// The skills that are not served, and why. All of them are looked at.
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
            let Some(told) = self.told(skill) else { continue };
            let bytes = told.to_string().len();
            if bytes > room && !skills.is_empty() {
                next = Some(format!("{AFTER}{}", page[at - 1].entry.skill.name));
                break;
            }
            room = room.saturating_sub(bytes);
            skills.push(told);
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
        let place = self.find(address).filter(|place| place.path == MANIFEST).ok_or_else(unknown)?;
        let at = self.paths.get(&place.skill_path).ok_or_else(unknown)?;
        let skill = self.told(&self.skills[*at]).ok_or_else(unknown)?;
        Ok(json!({"resultType": "complete", "skill": skill, "ttlMs": TTL_MS, "cacheScope": "private"}))
    }

    /// `resources/directory/read`
    pub(crate) fn directory(&self, address: &str, cursor: Option<&str>) -> Result<Value, ErrorData> {
        if cursor.is_some() {
            return Err(ErrorData::invalid_params("There is no such page", None));
        }
        let unknown = || ErrorData::invalid_params(format!("{address} is not a directory resource"), None);
        let place = self.find(address).ok_or_else(unknown)?;
        let at = self.paths.get(&place.skill_path).ok_or_else(unknown)?;
        let skill = &self.skills[*at];
        let contents = self.contents(skill).map_err(|_| unknown())?;
        if !place.path.is_empty() && !contents.directories.contains(&place.path) {
            return Err(unknown());
        }
        let child = |path: &str| -> Option<String> {
            let name = if place.path.is_empty() {
                path
            } else {
                path.strip_prefix(&place.path)?.strip_prefix('/')?
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

    /// The SKILL.md of the skills on one page of `resources/list`, and where the next begins.
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

    /// The file at an address, if it is one of a skill that is served.
    pub(crate) fn file(&self, address: &str) -> Result<Place, ErrorData> {
        let unknown = || ErrorData::invalid_params(format!("No file is served at {address}"), None);
        let place = self.find(address).ok_or_else(unknown)?;
        let at = self.paths.get(&place.skill_path).ok_or_else(unknown)?;
        let contents = self.contents(&self.skills[*at]).map_err(|_| unknown())?;
        let is_listed = contents.files.iter().any(|file| file.path == place.path);
        is_listed.then_some(place).ok_or_else(unknown)
    }

    /// The skill that an address lies in, the innermost one, and where in it.
    fn find(&self, address: &str) -> Option<Place> {
        let segments = uri::segments(address)?;
        (1..=segments.len()).rev().find_map(|length| {
            let skill_path = segments[..length].join("/");
            let skill = &self.skills[*self.paths.get(&skill_path)?];
            Some(Place { skill: Arc::clone(&skill.entry), skill_path, path: segments[length..].join("/") })
        })
    }

    fn page(&self, cursor: Option<&str>) -> Result<(&[Published], Option<String>), ErrorData> {
        let start = match cursor {
            None => 0,
            Some(cursor) => {
                let no_page = || ErrorData::invalid_params("There is no such page", None);
                let after = cursor.strip_prefix(AFTER).ok_or_else(no_page)?;
                self.skills.partition_point(|skill| skill.entry.skill.name.as_str() <= after)
            }
        };
        let end = self.skills.len().min(start + PAGE);
        let page = &self.skills[start..end];
        let last = page.last().filter(|_| end < self.skills.len());
        Ok((page, last.map(|skill| format!("{AFTER}{}", skill.entry.skill.name))))
    }

    /// The entry of a skill, unless there is something about it that keeps it from being served.
    fn told(&self, skill: &Published) -> Option<Value> {
        let mut told = Err(String::new());
        for _ in 0..TRIES {
            told = self.entry(skill);
            if told.is_ok() {
                break;
            }
        }
        let name = skill.entry.skill.name.as_str();
        told.inspect_err(|why| {
            tracing::warn!(skill = name, "Skill {} is not served: {why}", quote_name(name))
        })
        .ok()
    }

    fn entry(&self, skill: &Published) -> Result<Value, String> {
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
            resources.push(Listed { uri: uri::of(&skill.path, &file.path), digest, size });
        }
        let frontmatter = frontmatter.ok_or("SKILL.md is not a regular file")?;
        Ok(json!({"uri": uri::of(&skill.path, MANIFEST), "frontmatter": frontmatter, "resources": resources}))
    }

    /// The files of a skill, without those of skills in it that are kept from this client.
    fn contents(&self, skill: &Published) -> Result<Contents, String> {
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
            return Err(format!("{} has {} bytes, and an answer holds {MAX_FILE}", large.path, large.size));
        }
        if !contents.files.iter().any(|file| file.path == MANIFEST) {
            return Err("SKILL.md is not a regular file".to_owned());
        }
        Ok(contents)
    }

    fn resource(&self, skill: &Published, file: &ContentFile) -> Resource {
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

impl Place {
    /// Reads the file. What was not there a moment ago is unknown, like what never was.
    pub(crate) fn read(&self, address: &str) -> Result<Vec<u8>, ErrorData> {
        self.skill.read_file(&self.path, MAX_SERVED_BYTES).map_err(|error| match error {
            FileError::Io(error) => {
                tracing::error!(%error, "{address} cannot be read");
                ErrorData::internal_error(format!("{address} cannot be read: {error}"), None)
            }
            _ => ErrorData::invalid_params(format!("No file is served at {address}"), None),
        })
    }
}

/// A finding that makes a skill one that does not conform. Fields that nobody here knows are no breach: entries carry
/// whatever the author wrote.
fn breach(found: &[Diagnostic]) -> Option<&Diagnostic> {
    found.iter().find(|found| found.code.fails_strict() && found.code != Code::UnknownField)
}

/// The frontmatter of the document in `bytes`, every field.
fn frontmatter_of(entry: &SkillEntry, bytes: &[u8]) -> Result<Value, String> {
    let parsed = Skill::parse(bytes, &entry.skill.location);
    if let Some(found) = breach(&parsed.diagnostics) {
        return Err(found.to_string());
    }
    if parsed.skill.is_none_or(|skill| skill.name != entry.skill.name) {
        return Err("SKILL.md is that of another skill now".to_owned());
    }
    let frontmatter = Skill::frontmatter(bytes).ok_or("the frontmatter is no map")?;
    let frontmatter = serde_json::to_value(frontmatter).map_err(|error| error.to_string())?;
    let is_text = |field: &str| frontmatter[field].is_string();
    if frontmatter["name"].as_str() != Some(entry.skill.name.as_str()) || !is_text("description") {
        return Err("its name or description is no text as YAML reads it".to_owned());
    }
    Ok(frontmatter)
}

/// A skill's path: its name, or the path of the skill that it lies in and where it lies in that.
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

//! A skill that can be installed, for the person who decides.

use std::fmt::Write as _;

use prowess_install::installer::{Candidate, Change, Listed, ListedSkill, Looked};
use prowess_install::script::is_script;
use prowess_install::source::Source;
use serde_json::{Value, json};

use super::findings::Findings;
use super::short;
use crate::terminal::{Style, count, printable, printable_start, size, styled};
use crate::trust::skill_text;

/// How many files are named. Scripts are always named.
const MAX_FILES: usize = 12;
/// How many characters of a field are shown.
const MAX_FIELD: usize = 300;

/// Everything that a person should know before the skill is installed.
pub(crate) fn candidate_text(looked: &Looked, candidate: &Candidate, change: &Change) -> String {
    let mut text = String::new();
    let name = styled(printable(candidate.directory_name()), Style::Name);
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name} ({})", describe(change));
    skill_text(&candidate.found.skill, &mut text);
    let _ = writeln!(text, "    from: {}", origin(looked, candidate));
    let tree = &candidate.stored.tree;
    let _ = writeln!(text, "    {}, {}", count(tree.files.len(), "file"), size(tree.bytes()));
    let named = |file: &CandidateFile<'_>| format!("{} {}", printable(file.path), size(file.bytes));
    let (scripts, plain): (Vec<_>, Vec<_>) =
        candidate_files(candidate).into_iter().partition(|file| file.is_script);
    let scripts: Vec<String> = scripts.iter().map(named).collect();
    let mut others: Vec<String> = plain.iter().take(MAX_FILES).map(named).collect();
    let more = plain.len().saturating_sub(MAX_FILES);
    others.extend((more > 0).then(|| format!("{more} more")));
    for (what, names) in [("scripts", scripts), ("files", others)] {
        if !names.is_empty() {
            let _ = writeln!(text, "    {what}: {}", names.join(", "));
        }
    }
    let skill = &candidate.found.skill;
    if let Some(needs) = &skill.compatibility {
        let _ = writeln!(text, "    needs: {}", printable_start(needs, MAX_FIELD));
    }
    for (key, value) in requirements(candidate) {
        let _ = writeln!(text, "    {key}: {}", printable_start(&value, MAX_FIELD));
    }
    for line in findings(candidate).lines() {
        let _ = writeln!(text, "    {}", styled(line, Style::Bad));
    }
    for path in &candidate.stored.left_out {
        let _ = writeln!(text, "    left out: {}", printable(path));
    }
    text
}

/// A file of a skill.
pub(crate) struct CandidateFile<'a> {
    pub(crate) path: &'a str,
    pub(crate) bytes: u64,
    pub(crate) is_script: bool,
}

/// The files of a skill by path.
pub(crate) fn candidate_files(candidate: &Candidate) -> Vec<CandidateFile<'_>> {
    let opened = candidate.stored.open().ok();
    let files = candidate.stored.tree.files.iter().map(|(path, file)| {
        let judged = opened.as_ref().and_then(|opened| is_script(path, file, opened).ok());
        // A file that cannot be read may be one.
        CandidateFile { path, bytes: file.size, is_script: judged.unwrap_or(true) }
    });
    files.collect()
}

/// What a skill says that it needs from the network and other programs, as JSON by field.
pub(crate) fn requirements(candidate: &Candidate) -> Vec<(&'static str, String)> {
    let skill = &candidate.found.skill;
    let fields = ["requires", "needs", "hosts", "network"].into_iter().filter_map(|key| {
        let mut all = skill.metadata.iter().chain(&skill.extra);
        all.find(|(name, _)| name == key).map(|(_, value)| (key, shown(value)))
    });
    fields.collect()
}

/// A value of the frontmatter as one line of JSON.
fn shown(value: &prowess_catalog::yaml::Value) -> String {
    serde_json::to_string(value).unwrap_or_default()
}

/// The same as data.
pub(crate) fn candidate_json(looked: &Looked, candidate: &Candidate, change: &Change) -> Value {
    let tree = &candidate.stored.tree;
    json!({
        "name": candidate.found.name(), "directory": candidate.directory_name(),
        "description": candidate.found.skill.description, "change": word(change),
        "source": looked.source.to_string(), "commit": looked.commit, "path": candidate.found.manifest_path,
        "digest": candidate.stored.digest.to_string(), "files": tree.files.len(), "bytes": tree.bytes(),
        "allowed_tools": candidate.found.skill.allowed_tools,
        "has_hooks": candidate.found.skill.extensions.hooks.is_some(), "findings": findings(candidate).all(),
    })
}

/// The same of a skill whose files were not read: what its manifest and the list of its files tell.
pub(crate) fn listed_json(source: &Source, listed: &Listed, skill: &ListedSkill) -> Value {
    let found = &skill.found;
    json!({
        "name": found.name(), "directory": found.directory_name, "description": found.skill.description,
        "change": null, "source": source.to_string(), "commit": listed.commit, "path": found.manifest_path,
        "digest": null, "files": skill.selection.files, "bytes": skill.selection.bytes,
        "allowed_tools": found.skill.allowed_tools, "has_hooks": found.skill.extensions.hooks.is_some(),
        "findings": null,
    })
}

fn origin(looked: &Looked, candidate: &Candidate) -> String {
    let reference = looked.source.lock_fields().reference;
    let reference = reference.map(|reference| format!(", {}", printable(&reference))).unwrap_or_default();
    let commit = looked.commit.as_deref().map(|commit| format!(" at {}", short(commit))).unwrap_or_default();
    let path = match candidate.found.directory.as_str() {
        "" => String::new(),
        path => format!(", {}", printable(path)),
    };
    format!("{}{reference}{commit}{path}", printable(&looked.source.location()))
}

fn describe(change: &Change) -> String {
    match change {
        Change::Replaces(locked) => {
            let commit = locked.commit.as_deref().map(|commit| format!(" at {}", short(commit)));
            format!("replaces {}{}", printable(&locked.source), commit.unwrap_or_default())
        }
        Change::Blocked { reason } => format!("cannot be installed: {}", printable(reason)),
        other => word(other).to_owned(),
    }
}

fn word(change: &Change) -> &'static str {
    match change {
        Change::New => "new",
        Change::Same => "installed already",
        Change::Replaces(_) => "replaces",
        _ => "blocked",
    }
}

/// What is found in its files.
pub(crate) fn findings(candidate: &Candidate) -> Findings<'_> {
    Findings::of(candidate.directory_name(), &candidate.stored, &candidate.hidden)
}

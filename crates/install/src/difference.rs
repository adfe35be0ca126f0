//! What changes between two versions of a skill, as data that a person can look at before an update.

use std::collections::BTreeMap;

use prowess_catalog::Skill;
use prowess_catalog::skill::{Location, MANIFEST, MAX_MANIFEST};
use serde::Serialize;
use similar::{DiffableStr as _, TextDiff};

use crate::merge::{Effort, MAX_MERGE_BYTES, MAX_MERGE_LINES, Version};
use crate::script::is_script;
use crate::tree::{TreeError, TreeFile};

/// The most bytes of all text differences together.
pub const MAX_TEXT_BYTES: usize = 256 * 1024;
/// The unchanged lines around each change.
const CONTEXT_LINES: usize = 3;
/// How many differences may be too long before the rest is not compared. Comparing takes time.
const MAX_TOO_LONG: usize = 16;

/// What changes between two versions of a skill. The texts come from the skill: escape them before you show them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SkillDifference {
    /// The files that differ, by path.
    pub files: Vec<FileDifference>,
    /// The fields of the frontmatter that differ, by name. `allowed-tools` and `hooks` are among them.
    pub fields: Vec<FieldDifference>,
    /// The tools in `allowed-tools` that only the new version names.
    pub new_tools: Vec<String>,
    /// The scripts that are new, or that may be executed now and could not before.
    pub new_scripts: Vec<String>,
    /// Whether a manifest cannot be read, so that `fields` and `new_tools` say nothing.
    pub is_manifest_unreadable: bool,
}

/// How one file differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileDifference {
    /// Its path.
    pub path: String,
    /// The file before. `None` if it is added.
    pub old: Option<FileFacts>,
    /// The file after. `None` if it is removed.
    pub new: Option<FileFacts>,
    /// Whether it is a script before or after. See [`is_script`].
    pub is_script: bool,
    /// How its text differs.
    pub text: TextDifference,
}

/// What is known of a file without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FileFacts {
    /// Its bytes.
    pub size: u64,
    /// Whether its owner may execute it.
    pub is_executable: bool,
}

impl From<&TreeFile> for FileFacts {
    fn from(file: &TreeFile) -> Self {
        Self { size: file.size, is_executable: file.is_executable }
    }
}

/// How the text of a file differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum TextDifference {
    /// Only the mode differs.
    Same,
    /// A unified difference.
    Lines(String),
    /// It is not text, or too large to compare.
    Binary,
    /// Its differences are too long for the room that is left, or comparing it takes longer than is left. The manifest comes first,
    /// then scripts, then other files; of these, small files come first.
    NoRoom,
}

/// How one field of the frontmatter differs. The values are JSON texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct FieldDifference {
    /// The field, such as `allowed-tools`.
    pub name: String,
    /// The value before. `None` if the field is added.
    pub old: Option<String>,
    /// The value after. `None` if the field is removed.
    pub new: Option<String>,
}

/// Describes what changes from `old` to `new`.
///
/// # Errors
///
/// A file cannot be read.
pub fn describe_difference(old: Version<'_>, new: Version<'_>) -> Result<SkillDifference, TreeError> {
    let mut described = SkillDifference::default();
    let difference = old.tree.difference(new.tree);
    for path in difference.added.iter().chain(&difference.removed).chain(&difference.changed) {
        let [(before, was_script), (after, is_script)] = [facts(path, old)?, facts(path, new)?];
        let is_new =
            |after: FileFacts| before.is_none_or(|before| after.is_executable && !before.is_executable);
        if is_script && after.is_some_and(is_new) {
            described.new_scripts.push(path.clone());
        }
        described.files.push(FileDifference {
            path: path.clone(),
            old: before,
            new: after,
            is_script: was_script || is_script,
            text: TextDifference::NoRoom,
        });
    }
    // The manifest and scripts must not lose their room to other files, nor a small file to a large one.
    described.files.sort_by_key(|file| {
        let size =
            [file.old, file.new].iter().flatten().fold(0u64, |sum, facts| sum.saturating_add(facts.size));
        (file.path != MANIFEST, !file.is_script, size)
    });
    let (mut room, mut effort) = (Room { bytes: MAX_TEXT_BYTES, too_long: 0 }, Effort::default());
    for file in &mut described.files {
        file.text = text_difference(&file.path, old, new, &mut room, &mut effort)?;
    }
    described.files.sort_by(|a, b| a.path.cmp(&b.path));
    described.new_scripts.sort_unstable();
    if described.files.iter().any(|file| file.path == MANIFEST) {
        compare_manifests(old, new, &mut described)?;
    }
    Ok(described)
}

/// What is known of a file of a version, and whether it is a script.
fn facts(path: &str, version: Version<'_>) -> Result<(Option<FileFacts>, bool), TreeError> {
    let Some(file) = version.tree.files.get(path) else { return Ok((None, false)) };
    Ok((Some(FileFacts::from(file)), is_script(path, file, version.files)?))
}

/// The room for text differences.
struct Room {
    bytes: usize,
    /// How many differences were too long for it.
    too_long: usize,
}

fn text_difference(
    path: &str,
    old: Version<'_>,
    new: Version<'_>,
    room: &mut Room,
    effort: &mut Effort,
) -> Result<TextDifference, TreeError> {
    let [before, after] = [old, new].map(|version| version.tree.files.get(path));
    if let (Some(before), Some(after)) = (before, after)
        && before.digest == after.digest
    {
        return Ok(TextDifference::Same);
    }
    let (Some(before), Some(after)) = (text_of(path, old)?, text_of(path, new)?) else {
        return Ok(TextDifference::Binary);
    };
    if room.bytes == 0
        || room.too_long >= MAX_TOO_LONG
        || !effort.spend(&before.tokenize_lines(), &after.tokenize_lines())
    {
        return Ok(TextDifference::NoRoom);
    }
    let difference = TextDiff::from_lines(&before, &after);
    let text = difference.unified_diff().context_radius(CONTEXT_LINES).to_string();
    if text.len() > room.bytes {
        room.too_long += 1;
        return Ok(TextDifference::NoRoom);
    }
    room.bytes -= text.len();
    Ok(TextDifference::Lines(text))
}

/// The text of a file: empty if there is none, `None` if it is not text or too large to compare.
fn text_of(path: &str, version: Version<'_>) -> Result<Option<String>, TreeError> {
    let Some(file) = version.tree.files.get(path) else { return Ok(Some(String::new())) };
    if file.size > MAX_MERGE_BYTES {
        return Ok(None);
    }
    let text = String::from_utf8(version.files.read_file(path, MAX_MERGE_BYTES)?).ok();
    // A lone carriage return ends a line for the comparison too.
    Ok(text.filter(|text| !text.contains('\0') && text.tokenize_lines().len() <= MAX_MERGE_LINES))
}

/// The fields of a manifest by name. `None` if it cannot be read.
fn fields(version: Version<'_>) -> Result<Option<BTreeMap<String, serde_json::Value>>, TreeError> {
    if !version.tree.files.contains_key(MANIFEST) {
        return Ok(None);
    }
    let bytes = version.files.read_file(MANIFEST, MAX_MANIFEST)?;
    let Some(skill) = Skill::parse(&bytes, &Location::new(MANIFEST)).skill else { return Ok(None) };
    let Ok(serde_json::Value::Object(object)) = serde_json::to_value(&skill) else { return Ok(None) };
    let mut fields = BTreeMap::new();
    for (name, value) in object {
        match value {
            // Fields that the frontmatter does not have.
            serde_json::Value::Null => {}
            serde_json::Value::Array(items) if items.is_empty() => {}
            _ if name == "location" => {}
            // Other fields than the known ones, under their own names.
            serde_json::Value::Object(extra) if name == "extra" => fields.extend(extra),
            serde_json::Value::Object(metadata) if name == "metadata" && metadata.is_empty() => {}
            value => {
                fields.insert(name.replace('_', "-"), value);
            }
        }
    }
    Ok(Some(fields))
}

fn compare_manifests(
    old: Version<'_>,
    new: Version<'_>,
    described: &mut SkillDifference,
) -> Result<(), TreeError> {
    let (Some(before), Some(after)) = (fields(old)?, fields(new)?) else {
        described.is_manifest_unreadable = true;
        return Ok(());
    };
    let mut names: Vec<&String> = before.keys().chain(after.keys()).collect();
    names.sort_unstable();
    names.dedup();
    for name in names {
        let (old, new) = (before.get(name), after.get(name));
        if old != new {
            let text = |value: Option<&serde_json::Value>| value.map(ToString::to_string);
            described.fields.push(FieldDifference { name: name.clone(), old: text(old), new: text(new) });
        }
    }
    let tools = |fields: &BTreeMap<String, serde_json::Value>| -> Vec<String> {
        let tools = fields.get("allowed-tools").and_then(serde_json::Value::as_array);
        tools.into_iter().flatten().filter_map(|tool| Some(tool.as_str()?.to_owned())).collect()
    };
    let known = tools(&before);
    described.new_tools = tools(&after).into_iter().filter(|tool| !known.contains(tool)).collect();
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::tree::TreeDirectory;

    fn write(directory: &Path, files: &[(&str, &[u8])]) -> TreeDirectory {
        for (path, bytes) in files {
            let path = directory.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        TreeDirectory::open(directory).unwrap()
    }

    fn describe(old: &[(&str, &[u8])], new: &[(&str, &[u8])]) -> SkillDifference {
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [old, new] = [write(directories[0].path(), old), write(directories[1].path(), new)];
        let trees = [old.tree().unwrap(), new.tree().unwrap()];
        let old = Version { tree: &trees[0], files: &old };
        describe_difference(old, Version { tree: &trees[1], files: &new }).unwrap()
    }

    #[test]
    fn texts_tools_hooks_and_scripts_are_described() {
        let old: &[(&str, &[u8])] = &[
            ("SKILL.md", b"---\nname: tide\ndescription: Tells tides. Use at sea.\nallowed-tools: Read\nx-own: 1\n---\nOld.\n"),
            ("gone", b"1"),
            ("image", b"\0"),
            ("same", b"1"),
        ];
        let new: &[(&str, &[u8])] = &[
            (
                "SKILL.md",
                b"---\nname: tide\ndescription: Tells tides. Use at sea.\nallowed-tools: Read Bash\nhooks:\n  Stop: []\n---\nNew.\n",
            ),
            ("image", b"\0\0"),
            ("notes.md", b"more\n"),
            ("run", b"#!/bin/sh\n"),
            ("same", b"1"),
            ("tool.PY", b"1"),
        ];
        let described = describe(old, new);
        let paths: Vec<_> = described.files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, ["SKILL.md", "gone", "image", "notes.md", "run", "tool.PY"]);
        let TextDifference::Lines(text) = &described.files[0].text else { panic!() };
        assert!(text.contains("-Old.\n+New.\n"), "{text}");
        assert_eq!(described.files[2].text, TextDifference::Binary);
        assert_eq!(described.files[2].new.unwrap().size, 2);
        assert_eq!(described.files[1].new, None);
        assert_eq!(described.new_scripts, ["run", "tool.PY"]);
        assert_eq!(described.new_tools, ["Bash"]);
        let fields: Vec<_> = described.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(fields, ["allowed-tools", "hooks", "x-own"]);
        assert_eq!(described.fields[0].new.as_deref(), Some(r#"["Read","Bash"]"#));
        assert_eq!(describe(old, old), SkillDifference::default());
    }

    #[test]
    fn what_cannot_be_read_or_shown_is_said() {
        let described = describe(&[("SKILL.md", b"---\nname: tide\n")], &[("SKILL.md", b"x")]);
        assert!(described.is_manifest_unreadable);
        let large = "a line\n".repeat(8_000);
        let files = ["a", "b", "c", "d", "e", "f"].map(|path| (path, large.as_bytes()));
        let described = describe(&[], &files);
        let shown = described.files.iter().filter(|file| matches!(file.text, TextDifference::Lines(_)));
        assert_eq!(shown.count(), 4);
        assert_eq!(described.files[5].text, TextDifference::NoRoom);
    }

    #[test]
    fn many_lines_take_no_long_time() {
        let returns = |c: &str| c.repeat(500_000);
        let (old, new) = (returns("\r"), returns("a\r"));
        let described = describe(&[("f", old.as_bytes())], &[("f", new.as_bytes())]);
        assert_eq!(described.files[0].text, TextDifference::Binary);
    }

    #[test]
    fn a_large_file_hides_no_change_of_a_script() {
        let large = "a line\n".repeat(9_000);
        let larger = [large.as_str(), "x".repeat(300_000).as_str()].concat();
        let old: &[(&str, &[u8])] = &[("bin/run", b"#!/bin/sh\n"), ("z.md", b"One.\n")];
        let mut new: Vec<(&str, &[u8])> = vec![
            ("aaa.md", larger.as_bytes()),
            ("bin/run", b"#!/bin/sh\nsend\n"),
            ("scripts/a.sh", larger.as_bytes()),
            ("z.md", b"Two.\n"),
        ];
        new.extend(["b", "c", "d", "e"].map(|path| (path, large.as_bytes())));
        let described = describe(old, &new);
        let file = |path: &str| described.files.iter().find(|file| file.path == path).unwrap();
        for (path, is_script) in [("bin/run", true), ("z.md", false), ("b", false)] {
            assert!(matches!(file(path).text, TextDifference::Lines(_)), "{path}");
            assert_eq!(file(path).is_script, is_script, "{path}");
        }
        for path in ["aaa.md", "scripts/a.sh", "e"] {
            assert_eq!(file(path).text, TextDifference::NoRoom, "{path}");
        }
    }

    #[test]
    fn a_mode_that_changes_makes_a_script() {
        use std::os::unix::fs::PermissionsExt as _;
        let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [old, new] = directories.each_ref().map(|directory| write(directory.path(), &[("data", b"1")]));
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directories[1].path().join("data"), mode).unwrap();
        let trees = [old.tree().unwrap(), new.tree().unwrap()];
        let old = Version { tree: &trees[0], files: &old };
        let described = describe_difference(old, Version { tree: &trees[1], files: &new }).unwrap();
        assert_eq!(described.files[0].text, TextDifference::Same);
        assert_eq!(described.new_scripts, ["data"]);
    }
}

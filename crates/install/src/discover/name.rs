//! The spellings of a skill's name: as a directory, and as a key of a lock.

use std::collections::BTreeSet;

/// The most characters of a directory name.
const MAX_DIRECTORY_NAME: usize = 255;

/// The name of the directory in which a skill is installed, as `skills` spells it.
///
/// It has only `a`–`z`, digits, `.`, `_` and `-`, and does not start with `.` or `-`, so it is one safe name.
///
/// ```
/// use prowess_install::discover::directory_name;
///
/// assert_eq!(directory_name("My Skill: v1.0"), "my-skill-v1.0");
/// assert_eq!(directory_name("../../etc/passwd"), "etc-passwd");
/// assert_eq!(directory_name("潮"), "unnamed-skill");
/// ```
pub fn directory_name(name: &str) -> String {
    let mut safe = String::new();
    for c in name.to_lowercase().chars() {
        if matches!(c, 'a'..='z' | '0'..='9' | '.' | '_') {
            safe.push(c);
        } else if !safe.ends_with('-') {
            safe.push('-');
        }
    }
    let safe = safe.trim_matches(['.', '-']);
    let safe = safe.get(..MAX_DIRECTORY_NAME).unwrap_or(safe);
    if safe.is_empty() { "unnamed-skill".to_owned() } else { safe.to_owned() }
}

/// The spelling in which the names of a source's own lock are compared with those of its skills.
pub(super) fn lock_key(name: &str) -> String {
    let is_gap = |c: char| c.is_whitespace() || c == '_';
    let mut key = String::new();
    let mut after_gap = false;
    for c in name.to_lowercase().chars() {
        if !is_gap(c) {
            key.push(c);
        } else if !after_gap {
            key.push('-');
        }
        after_gap = is_gap(c);
    }
    key
}

/// The names that a `skills-lock.json` lists, in the spelling of [`lock_key`].
pub(super) fn lock_keys(lock: &serde_json::Value) -> BTreeSet<String> {
    let is_current =
        lock.get("version").and_then(serde_json::Value::as_f64).is_some_and(|version| version >= 1.0);
    let skills = lock.get("skills").and_then(serde_json::Value::as_object).filter(|_| is_current);
    skills.into_iter().flat_map(|skills| skills.keys()).map(|name| lock_key(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_names_are_those_of_skills() {
        // Computed with the rule of `skills` 1.7.4 in node.
        for (name, directory) in [
            ("tide", "tide"),
            ("My Skill", "my-skill"),
            ("my--skill", "my-skill"),
            ("a_b.c", "a_b.c"),
            ("...", "unnamed-skill"),
            ("", "unnamed-skill"),
            (".hidden.", "hidden"),
            ("-x-", "x"),
            ("a.-b", "a.-b"),
            ("Über Größe", "ber-gr-e"),
            ("\u{212A}elvin", "kelvin"),
            ("a/b\\c", "a-b-c"),
        ] {
            assert_eq!(directory_name(name), directory, "{name}");
        }
        assert_eq!(directory_name(&"x".repeat(300)).len(), 255);
    }

    #[test]
    fn blanks_and_underscores_of_a_lock_are_dashes() {
        assert_eq!(lock_key("My _Skill"), "my-skill");
        assert_eq!(lock_key("a--b"), "a--b");
        let lock = serde_json::json!({"version": 1, "skills": {"A b": {}}});
        assert!(lock_keys(&lock).contains("a-b"));
        for other in [
            serde_json::json!({"version": 0, "skills": {"a": {}}}),
            serde_json::json!([]),
            serde_json::json!(1),
        ] {
            assert!(lock_keys(&other).is_empty());
        }
    }
}

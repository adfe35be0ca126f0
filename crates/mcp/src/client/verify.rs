//! Verifies that a file matches its entry: size, digest and frontmatter.

use prowess_catalog::skill::MANIFEST;
use prowess_catalog::{Digest, Skill};
use serde_json::{Map, Value};

use super::error::Mismatch;
use super::held_entry::HeldEntry;
use prowess_catalog::published::PublishedFile;

/// The file at `path`, if the entry lists it.
pub(crate) fn listed<'a>(held: &'a HeldEntry, path: &str) -> Result<&'a PublishedFile, Mismatch> {
    held.published.file(path).ok_or_else(|| Mismatch::Unlisted { path: super::short_line::short_line(path) })
}

/// Checks the size and the digest of a file, and the frontmatter of SKILL.md.
pub(crate) fn check(held: &HeldEntry, file: &PublishedFile, bytes: &[u8]) -> Result<(), Mismatch> {
    let path = || file.path.clone();
    let got = bytes.len() as u64;
    if got != file.size {
        return Err(Mismatch::Size { path: path(), listed: file.size, got });
    }
    if Digest::of(bytes) != file.digest {
        return Err(Mismatch::Digest { path: path() });
    }
    if file.path == MANIFEST {
        frontmatter(&held.frontmatter, bytes)?;
    }
    Ok(())
}

/// Compares every field of the frontmatter with the entry, in both directions.
fn frontmatter(entry: &str, source: &[u8]) -> Result<(), Mismatch> {
    let differs = |field: &str| Err(Mismatch::Frontmatter { field: super::short_line::short_line(field) });
    let written = Skill::frontmatter(source).and_then(|typed| serde_json::to_value(typed).ok());
    let (Some(Value::Object(written)), Ok(reported)) =
        (written, serde_json::from_str::<Map<String, Value>>(entry))
    else {
        return differs("frontmatter");
    };
    let missing = written.keys().find(|field| !reported.contains_key(*field));
    let other = || {
        reported
            .iter()
            .find(|(field, reported)| written.get(*field).is_none_or(|written| !same(reported, written)))
    };
    match missing.or_else(|| other().map(|(field, _)| field)) {
        Some(field) => differs(field),
        None => Ok(()),
    }
}

/// Whether two values have the same type and content. `1` and `1.0` are the same, because JSON has one kind of number.
fn same(one: &Value, other: &Value) -> bool {
    match (one, other) {
        (Value::Number(a), Value::Number(b)) if a.is_f64() || b.is_f64() => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|(one, other)| same(one, other))
        }
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, one)| b.get(key).is_some_and(|other| same(one, other)))
        }
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const SOURCE: &str = "---\nname: pdf\ndescription: Reads.\nmetadata:\n  version: 1.0\n  count: 3\n  tag: '1'\n  big: 9007199254740993\n  list: [1, yes]\n---\nRead.\n";

    fn reported() -> Value {
        json!({"name": "pdf", "description": "Reads.", "metadata": {"version": 1.0, "count": 3, "tag": "1", "big": 9_007_199_254_740_993_u64, "list": [1, "yes"]}})
    }

    fn compared(reported: &Value) -> Result<(), String> {
        frontmatter(&reported.to_string(), SOURCE.as_bytes()).map_err(|mismatch| match mismatch {
            Mismatch::Frontmatter { field } => field,
            other => other.to_string(),
        })
    }

    #[test]
    fn x_24_frontmatter_is_compared_field_by_field_and_by_type() {
        assert_eq!(compared(&reported()), Ok(()));
        let with = |at: &str, value: Value| {
            let mut reported = reported();
            *reported.pointer_mut(at).unwrap() = value;
            compared(&reported)
        };
        assert_eq!(with("/metadata/version", json!(1)), Ok(()), "JSON has one kind of number");
        assert_eq!(with("/metadata/count", json!(3.0)), Ok(()));
        for (at, value) in [
            ("/metadata/version", json!("1.0")),
            ("/metadata/version", json!(1.1)),
            ("/metadata/count", json!("3")),
            ("/metadata/tag", json!(1)),
            ("/metadata/big", json!(9_007_199_254_740_992_u64)),
            ("/metadata/list", json!([1])),
            ("/metadata/list", json!(["yes", 1])),
            ("/metadata/list/1", json!(true)),
            ("/metadata", json!({})),
            ("/metadata", json!(null)),
        ] {
            assert_eq!(with(at, value.clone()), Err("metadata".to_owned()), "{at} {value}");
        }
        assert_eq!(with("/description", json!("Reads. ")), Err("description".to_owned()));
        let mut more = reported();
        more["allowed-tools"] = json!("Bash");
        assert_eq!(compared(&more), Err("allowed-tools".to_owned()));
        let mut less = reported();
        less.as_object_mut().unwrap().remove("metadata");
        assert_eq!(compared(&less), Err("metadata".to_owned()));
        assert_eq!(compared(&json!([])), Err("frontmatter".to_owned()));
    }
}

//! Reads an entry of `skills/list` or `skills/get`.

use std::collections::HashSet;

use prowess_catalog::frontmatter::MAX_FRONTMATTER;
use prowess_catalog::skill::{MANIFEST, MAX_MANIFEST};
use prowess_catalog::untrusted::is_unprintable;
use prowess_catalog::{Digest, SkillName};
use serde_json::Value;

use super::label::ServerLabel;
use crate::skills_extension::{MAX_SERVED_BYTES, MAX_SERVED_FILES};
use crate::uri;
use prowess_catalog::published::{Offer, Published, PublishedFile};

/// The most bytes of an address.
const MAX_URI: usize = 2048;
/// How many levels deep a file may be in its skill.
const MAX_DEPTH: usize = 16;

/// Turns an entry of the server with this label into an offer, or says why it cannot be used.
pub(crate) fn read(server: &ServerLabel, entry: &Value) -> Result<Offer, String> {
    let uri = entry["uri"].as_str().ok_or("its entry has no address")?;
    let root = root_of(uri)?;
    let frontmatter = frontmatter(entry, &root)?;
    let files = files(&entry["resources"], &root)?;
    let published = Published { server: server.to_string(), uri: uri.to_owned(), files };
    SkillName::parse(&published.name())
        .map_err(|error| format!("its address gives no valid name: {error}"))?;
    Ok(Offer { frontmatter, published, is_granted: false })
}

/// Checks that an address can be the address of a skill.
pub(crate) fn check_address(uri: &str) -> Result<(), String> {
    root_of(uri).map(drop)
}

/// The address below which all files of a skill are.
struct SkillRoot<'a> {
    /// The address, with the slash at its end.
    prefix: &'a str,
    /// Its last segment.
    name: String,
}

fn root_of(uri: &str) -> Result<SkillRoot<'_>, String> {
    if uri.len() > MAX_URI {
        return Err(format!("its address has more than {MAX_URI} bytes"));
    }
    let malformed = || "its address is not SCHEME://PATH/SKILL.md".to_owned();
    let prefix = uri.strip_suffix(MANIFEST).ok_or_else(malformed)?;
    let (scheme, path) = prefix.split_once("://").ok_or_else(malformed)?;
    let mut letters = scheme.bytes();
    let begins_well = letters.next().is_some_and(|byte| byte.is_ascii_lowercase());
    let is_scheme = begins_well
        && letters.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte));
    let segments = path.strip_suffix('/').and_then(segments).filter(|_| is_scheme).ok_or_else(malformed)?;
    let name = segments.into_iter().next_back().ok_or_else(malformed)?;
    Ok(SkillRoot { prefix, name })
}

/// The segments of a path. `None` if one of them leads elsewhere or is unprintable.
fn segments(path: &str) -> Option<Vec<String>> {
    if path.contains(['?', '#', '\\']) {
        return None;
    }
    let is_printable = |name: &String| !name.contains('\\') && !name.contains(is_unprintable);
    path.split('/').map(|segment| uri::segment(segment).filter(is_printable)).collect()
}

fn frontmatter(entry: &Value, root: &SkillRoot<'_>) -> Result<String, String> {
    let fields = entry["frontmatter"].as_object().ok_or("its entry has no frontmatter")?;
    let text = |field: &str| fields.get(field).and_then(Value::as_str);
    let name = text("name").ok_or("its frontmatter has no name")?;
    text("description").ok_or("its frontmatter has no description")?;
    if name != root.name {
        return Err("its name is not the last segment of its path".to_owned());
    }
    let json = entry["frontmatter"].to_string();
    if json.len() > MAX_FRONTMATTER {
        return Err(format!("its frontmatter has more than {MAX_FRONTMATTER} bytes"));
    }
    Ok(json)
}

fn files(resources: &Value, root: &SkillRoot<'_>) -> Result<Vec<PublishedFile>, String> {
    if resources == "dynamic" {
        return Err("its files are \"dynamic\", so they cannot be verified".to_owned());
    }
    let listed = resources.as_array().ok_or("its entry has no list of files")?;
    if listed.len() > MAX_SERVED_FILES {
        return Err(format!("it has {} files, but prowess loads at most {MAX_SERVED_FILES}", listed.len()));
    }
    let files: Vec<PublishedFile> =
        listed.iter().map(|listed| file(listed, root)).collect::<Result<_, _>>()?;
    // A server may send any sizes.
    let bytes = files.iter().try_fold(0_u64, |sum, file| sum.checked_add(file.size));
    if bytes.is_none_or(|bytes| bytes > MAX_SERVED_BYTES) {
        return Err(format!("its files have more than {} MiB", MAX_SERVED_BYTES / 1024 / 1024));
    }
    let mut paths = HashSet::new();
    if let Some(twice) = files.iter().find(|file| !paths.insert(file.path.as_str())) {
        return Err(format!("`{}` is listed twice", twice.path));
    }
    let above = |path: &'_ str| path.match_indices('/').any(|(at, _)| paths.contains(&path[..at]));
    if let Some(inside) = files.iter().find(|file| above(&file.path)) {
        return Err(format!("`{}` is below a file", inside.path));
    }
    let manifest = files.iter().find(|file| file.path == MANIFEST);
    let manifest = manifest.ok_or("its list of files has no SKILL.md")?;
    if manifest.size > MAX_MANIFEST {
        return Err(format!("its SKILL.md has more than {} MiB", MAX_MANIFEST / 1024 / 1024));
    }
    Ok(files)
}

fn file(listed: &Value, root: &SkillRoot<'_>) -> Result<PublishedFile, String> {
    let uri = listed["uri"].as_str().ok_or("a file has no address")?;
    if uri.len() > MAX_URI {
        return Err(format!("the address of a file has more than {MAX_URI} bytes"));
    }
    let below = uri.strip_prefix(root.prefix).ok_or("a file is outside the skill's address")?;
    let segments = segments(below).ok_or("the address of a file leads elsewhere")?;
    if segments.len() > MAX_DEPTH {
        return Err(format!("a file is more than {MAX_DEPTH} levels deep"));
    }
    let path = segments.join("/");
    if path == MANIFEST && below != MANIFEST {
        return Err("the list of files has another address for its SKILL.md".to_owned());
    }
    let digest = listed["digest"].as_str().and_then(|digest| digest.parse::<Digest>().ok());
    let digest = digest.ok_or_else(|| format!("`{path}` has no SHA-256 digest"))?;
    let size = listed["size"].as_u64().ok_or_else(|| format!("`{path}` has no size"))?;
    Ok(PublishedFile { path, uri: uri.to_owned(), digest, size })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn listed(uri: &str, size: u64) -> Value {
        json!({"uri": uri, "digest": Digest::of(b"").to_string(), "size": size})
    }

    fn entry() -> Value {
        json!({
            "uri": "skill://team/pdf/SKILL.md",
            "frontmatter": {"name": "pdf", "description": "Reads."},
            "resources": [listed("skill://team/pdf/SKILL.md", 10), listed("skill://team/pdf/a%20b/c.md", 3)],
        })
    }

    fn why(entry: &Value) -> String {
        read(&"docs".parse().unwrap(), entry).unwrap_err()
    }

    fn why_with(at: &str, value: Value) -> String {
        let mut entry = entry();
        *entry.pointer_mut(at).unwrap() = value;
        why(&entry)
    }

    #[test]
    fn an_entry_is_an_offer() {
        let offer = read(&"docs".parse().unwrap(), &entry()).unwrap();
        let Published { server, uri, files, .. } = offer.published;
        assert_eq!((server.as_str(), uri.as_str()), ("docs", "skill://team/pdf/SKILL.md"));
        let paths: Vec<_> = files.iter().map(|file| (file.path.as_str(), file.size)).collect();
        assert_eq!(paths, [("SKILL.md", 10), ("a b/c.md", 3)]);
        assert_eq!(files[1].uri, "skill://team/pdf/a%20b/c.md");
        assert!(!offer.is_granted);
        let mut other = entry();
        for uri in ["/uri", "/resources/0/uri", "/resources/1/uri"] {
            let there = other.pointer(uri).unwrap().as_str().unwrap().replace("skill:", "repo+x:");
            *other.pointer_mut(uri).unwrap() = there.into();
        }
        assert!(read(&"docs".parse().unwrap(), &other).is_ok(), "a scheme does not make a skill");
    }

    #[test]
    fn x_22_odd_entries_are_refused_and_say_why() {
        let mut bare = entry();
        bare.as_object_mut().unwrap().remove("resources");
        assert_eq!(why(&bare), "its entry has no list of files");
        assert_eq!(why(&json!(7)), "its entry has no address");
        assert_eq!(why_with("/resources", json!("everything")), "its entry has no list of files");
        assert_eq!(
            why_with("/resources", json!("dynamic")),
            "its files are \"dynamic\", so they cannot be verified"
        );
        assert_eq!(why_with("/resources", json!([])), "its list of files has no SKILL.md");
        assert_eq!(why_with("/resources/1", json!(null)), "a file has no address");
        assert_eq!(
            why_with("/resources/1", listed("skill://team/pdf/SKILL.md", 1)),
            "`SKILL.md` is listed twice"
        );
        assert_eq!(
            why_with("/resources/1", listed("skill://team/pdf/%53KILL.md", 1)),
            "the list of files has another address for its SKILL.md"
        );
        assert_eq!(
            why_with("/resources/1", listed("skill://team/pdf/SKILL.md/x", 1)),
            "`SKILL.md/x` is below a file"
        );
        for digest in [
            json!(null),
            json!("sha256:00"),
            json!("md5:00"),
            json!(Digest::of(b"").to_string().to_uppercase()),
        ] {
            assert_eq!(why_with("/resources/1/digest", digest), "`a b/c.md` has no SHA-256 digest");
        }
        for size in [json!(null), json!(-1), json!(1.5), json!("3")] {
            assert_eq!(why_with("/resources/1/size", size), "`a b/c.md` has no size");
        }
        assert_eq!(
            why_with("/frontmatter/name", json!("other")),
            "its name is not the last segment of its path"
        );
        assert_eq!(why_with("/frontmatter/name", json!(1)), "its frontmatter has no name");
        assert_eq!(why_with("/frontmatter", json!([])), "its entry has no frontmatter");
        assert_eq!(why_with("/frontmatter/description", json!({})), "its frontmatter has no description");
        let mut deep = entry();
        let root = format!("skill://{}/pdf", "a".repeat(260));
        for uri in ["/uri", "/resources/0/uri", "/resources/1/uri"] {
            let there = deep.pointer(uri).unwrap().as_str().unwrap().replace("skill://team/pdf", &root);
            *deep.pointer_mut(uri).unwrap() = there.into();
        }
        assert_eq!(why(&deep), "its address gives no valid name: the name has more than 256 characters");
        let long = why_with("/frontmatter/description", json!("x".repeat(MAX_FRONTMATTER)));
        assert_eq!(long, "its frontmatter has more than 65536 bytes");
    }

    #[test]
    fn x_22_what_is_over_the_limits_says_so() {
        let file = |at: usize| listed(&format!("skill://team/pdf/{at}"), 0);
        let mut many: Vec<Value> = (0..MAX_SERVED_FILES).map(file).collect();
        assert_eq!(
            why_with("/resources", json!(many)),
            "its list of files has no SKILL.md",
            "so many are fine"
        );
        many.push(file(MAX_SERVED_FILES));
        assert_eq!(why_with("/resources", json!(many)), "it has 513 files, but prowess loads at most 512");
        let most = MAX_SERVED_BYTES - 10;
        let mut full = entry();
        full["resources"][1]["size"] = most.into();
        assert!(read(&"docs".parse().unwrap(), &full).is_ok());
        assert_eq!(why_with("/resources/1/size", json!(most + 1)), "its files have more than 16 MiB");
        assert_eq!(why_with("/resources/1/size", json!(u64::MAX)), "its files have more than 16 MiB");
        assert_eq!(
            why_with("/resources/0/size", json!(MAX_MANIFEST + 1)),
            "its SKILL.md has more than 10 MiB"
        );
    }

    #[test]
    fn x_36_files_lie_below_the_skills_own_root() {
        for elsewhere in [
            "skill://team/pdf2/x",
            "skill://team/other/SKILL.md",
            "skill://team/pdf",
            "file:///etc/passwd",
            "/etc/passwd",
            "x.md",
            "",
        ] {
            let why = why_with("/resources/1/uri", json!(elsewhere));
            assert_eq!(why, "a file is outside the skill's address", "{elsewhere}");
        }
        for odd in [
            "",
            "/x",
            "..",
            "../x",
            "a/../../x",
            "a//b",
            "./x",
            "%2e%2e/x",
            "a%2fb",
            "a%5cb",
            "a\\b",
            "a?b",
            "a#b",
            "%00",
            "a%0ab",
            "%e2%80%aeb",
            "%",
            "x/",
        ] {
            let why = why_with("/resources/1/uri", json!(format!("skill://team/pdf/{odd}")));
            assert_eq!(why, "the address of a file leads elsewhere", "{odd}");
        }
        let deep = format!("skill://team/pdf/{}x", "d/".repeat(MAX_DEPTH));
        assert_eq!(why_with("/resources/1/uri", json!(deep)), "a file is more than 16 levels deep");
        for uri in [
            "SKILL.md",
            "skill://SKILL.md",
            "skill:///SKILL.md",
            "skill://pdf/",
            "skill://../pdf/SKILL.md",
            "skill://a//pdf/SKILL.md",
            "1://pdf/SKILL.md",
            "skill://pdf/skill.md",
            "skill://pdf?x/SKILL.md",
        ] {
            let why = why_with("/uri", json!(uri));
            assert_eq!(why, "its address is not SCHEME://PATH/SKILL.md", "{uri}");
        }
    }
}

//! Checks of the parts of a source: names, references and paths.

use super::error::SourceError;

/// The most characters of a reference, a skill's name and a name on a Git host.
const MAX_PART_CHARS: usize = 255;

/// Decodes `%41`. A `%` that starts no escape stays. `None` if the result is not UTF-8.
pub(super) fn percent_decode(text: &str) -> Option<String> {
    let digit = |byte: Option<&u8>| byte.and_then(|byte| char::from(*byte).to_digit(16));
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let pair = if byte == b'%' { digit(bytes.get(at + 1)).zip(digit(bytes.get(at + 2))) } else { None };
        match pair.and_then(|(high, low)| u8::try_from(high * 16 + low).ok()) {
            Some(escaped) => {
                decoded.push(escaped);
                at += 3;
            }
            None => {
                decoded.push(byte);
                at += 1;
            }
        }
    }
    String::from_utf8(decoded).ok()
}

/// A branch, tag or commit that Git can take as a name and as nothing else. The text is percent-encoded.
pub(super) fn reference(text: &str) -> Result<String, SourceError> {
    let refuse = || SourceError::Reference(text.to_owned());
    let name = percent_decode(text).ok_or_else(refuse)?;
    if name.starts_with('-') {
        return Err(SourceError::LooksLikeOption(name));
    }
    // The rules of `git check-ref-format`. A `:` or a leading `+` would also make a refspec of it.
    let is_bad = |c: char| c.is_whitespace() || is_unprintable(c) || "~^:?*[\\".contains(c);
    let is_bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let is_fine = !name.is_empty()
        && name != "@"
        && name.chars().count() <= MAX_PART_CHARS
        && !name.chars().any(is_bad)
        && !name.starts_with('+')
        && !name.contains("..")
        && !name.contains("@{")
        && !name.ends_with('.')
        && !name.split('/').any(is_bad_part);
    if is_fine { Ok(name) } else { Err(refuse()) }
}

/// A directory inside of a source: names with `/` between them. The text is percent-encoded. `None` if it is the root.
pub(super) fn subpath(text: &str) -> Result<Option<String>, SourceError> {
    let refuse = || SourceError::Subpath(text.to_owned());
    let path = percent_decode(text).ok_or_else(refuse)?;
    plain_subpath(&path)
}

/// Like [`subpath`], for a text that has no escapes.
pub(super) fn plain_subpath(path: &str) -> Result<Option<String>, SourceError> {
    let names: Vec<&str> = path.split('/').filter(|name| !matches!(*name, "" | ".")).collect();
    let joined = names.join("/");
    if joined.starts_with('-') {
        return Err(SourceError::LooksLikeOption(joined));
    }
    if joined.is_empty() {
        return Ok(None);
    }
    match crate::snapshot::check_path(&joined) {
        Ok(()) if !joined.chars().any(is_unprintable) => Ok(Some(joined)),
        _ => Err(SourceError::Subpath(path.to_owned())),
    }
}

/// The name of a skill after `@`. The text is percent-encoded.
pub(super) fn skill_name(text: &str) -> Result<String, SourceError> {
    let refuse = || SourceError::SkillName(text.to_owned());
    let name = percent_decode(text).ok_or_else(refuse)?;
    if name.starts_with('-') {
        return Err(SourceError::LooksLikeOption(name));
    }
    prowess_catalog::SkillName::parse(&name).map(|name| name.as_str().to_owned()).map_err(|_| refuse())
}

/// An owner, group or repository on a Git host.
pub(super) fn host_name<'a>(name: &'a str, whole: &str) -> Result<&'a str, SourceError> {
    if name.starts_with('-') {
        return Err(SourceError::LooksLikeOption(name.to_owned()));
    }
    let is_fine = !matches!(name, "" | "." | ".." | ".git")
        && name.len() <= MAX_PART_CHARS
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '-' | '_' | '~'));
    if is_fine && name != "~" { Ok(name) } else { Err(SourceError::NotARepository(whole.to_owned())) }
}

/// Whether the path or URL names an archive that prowess unpacks.
pub(super) fn is_archive(path: &str) -> bool {
    let lower = path.to_ascii_lowercase();
    let name = lower.rsplit(['/', '\\']).next().unwrap_or_default();
    [".skill", ".zip", ".tar", ".tar.gz", ".tgz"]
        .iter()
        .any(|ending| name.len() > ending.len() && name.ends_with(ending))
}

fn is_unprintable(c: char) -> bool {
    prowess_base::text::is_unprintable(c)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_names_and_nothing_else() {
        for (text, name) in [
            ("main", "main"),
            ("feature/tide", "feature/tide"),
            ("v1.0.0", "v1.0.0"),
            ("feature%2Ftide", "feature/tide"),
            ("HEAD", "HEAD"),
            ("a@b", "a@b"),
        ] {
            assert_eq!(reference(text).unwrap(), name);
        }
        for text in [
            "",
            "@",
            "a..b",
            "a b",
            "a:b",
            "+a",
            "a~1",
            "a^",
            "a?",
            "a*",
            "a[",
            "a\\b",
            "/a",
            "a/",
            "a//b",
            ".a",
            "a/.b",
            "a.lock",
            "a.lock/b",
            "a.",
            "a@{1}",
            "a%00",
            "a%0Ab",
            "%ff",
            "main:refs/heads/x",
        ] {
            assert!(reference(text).is_err(), "{text}");
        }
        assert!(matches!(reference("%2d-upload-pack=x"), Err(SourceError::LooksLikeOption(_))));
    }

    #[test]
    fn paths_stay_inside_of_the_source() {
        assert_eq!(subpath("/a//./b/"), Ok(Some("a/b".to_owned())));
        assert_eq!(subpath("my%20skill"), Ok(Some("my skill".to_owned())));
        assert_eq!(subpath("/"), Ok(None));
        for text in ["..", "a/../b", "a/%2e%2e/b", "a\\..\\b", "a%00", "a%E2%80%AEb", "-x"] {
            assert!(subpath(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_percent_sign_that_escapes_nothing_stays() {
        assert_eq!(percent_decode("100%").as_deref(), Some("100%"));
        assert_eq!(percent_decode("%4").as_deref(), Some("%4"));
        assert_eq!(percent_decode("%é").as_deref(), Some("%é"));
        assert_eq!(percent_decode("%41%c3%a9").as_deref(), Some("Aé"));
        assert_eq!(percent_decode("%ff"), None);
    }
}

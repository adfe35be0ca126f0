//! `skill://` addresses: the path of a skill, then the path of a file in it.

use std::fmt::Write as _;

/// The scheme of addresses of skill files.
const SCHEME: &str = "skill://";

/// The address of the file or directory at `path` in the skill at `skill`. If `path` is empty: of the skill's directory.
///
/// The path of a skill is not escaped; its last segment is the skill's name. In file names, characters that an address
/// cannot contain are escaped.
pub(crate) fn of(skill: &str, path: &str) -> String {
    if path.is_empty() { format!("{SCHEME}{skill}") } else { format!("{SCHEME}{skill}/{}", escaped(path)) }
}

/// Escapes the characters of a path that an address cannot contain. `/` stays.
pub(crate) fn escaped(path: &str) -> String {
    let mut escaped = String::with_capacity(path.len());
    for byte in path.bytes() {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/".contains(&byte);
        if is_plain {
            escaped.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(escaped, "%{byte:02X}");
        }
    }
    escaped
}

/// The segments of an address of a skill's file or directory.
pub(crate) fn segments(uri: &str) -> Option<Vec<String>> {
    let path = uri.strip_prefix(SCHEME)?;
    if path.contains(['?', '#', '\\']) {
        return None;
    }
    path.split('/').map(segment).collect()
}

/// A segment without escapes. `None` if it is anything other than a name.
pub(crate) fn segment(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(if byte == b'%' {
            let digit =
                |byte: Option<u8>| char::from(byte?).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
            digit(rest.next())? << 4 | digit(rest.next())?
        } else {
            byte
        });
    }
    let name = String::from_utf8(bytes).ok()?;
    (!matches!(name.as_str(), "" | "." | "..") && !name.contains(['/', '\0'])).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_are_escaped_and_come_back() {
        for path in ["a b.md", "50%.txt", "ä/ö?.md", "#1", "a\nb", "[x]", "\"q\"", "c:d@e"] {
            let uri = of("kit", path);
            assert!(uri.is_ascii() && !uri.contains([' ', '?', '#', '\n', '"', '[']), "{uri}");
            assert_eq!(segments(&uri).unwrap()[1..].join("/"), path);
        }
        assert_eq!(of("outer/inner", ""), "skill://outer/inner");
        assert_eq!(of("größe", "SKILL.md"), "skill://größe/SKILL.md");
    }

    #[test]
    fn an_address_cannot_lead_elsewhere() {
        for uri in [
            "",
            "skill://",
            "skill:///x",
            "file:///etc/passwd",
            "skill://kit/",
            "skill://kit//x",
            "skill://kit/../x",
            "skill://kit/%2e%2e/x",
            "skill://kit/%2E./x",
            "skill://kit/a%2Fb",
            "skill://kit/a%00",
            "skill://kit/%",
            "skill://kit/%zz",
            "skill://kit/%ff",
            "skill://kit/x?y",
            "skill://kit/x#y",
            "skill://kit/..\\x",
        ] {
            assert_eq!(segments(uri), None, "{uri}");
        }
    }
}

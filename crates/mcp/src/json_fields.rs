//! The fields of a JSON object as they stand in its text, without a tree.
//!
//! It is for text that is known to be valid; of other text it finds nonsense, and never panics.

use std::borrow::Cow;

/// A field: its name, and its value as text.
pub(crate) type Field<'a> = (Cow<'a, str>, &'a [u8]);

/// The fields of an object, one after the other; `None` if the text is none.
pub(crate) fn fields(text: &[u8]) -> Option<Fields<'_>> {
    text.trim_ascii().strip_prefix(b"{").map(Fields)
}

/// What follows of an object.
#[derive(Clone)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The value of the first field of this name.
    pub(crate) fn get(&self, wanted: &str) -> Option<&'a [u8]> {
        self.clone().find(|(name, _)| name == wanted).map(|(_, value)| value)
    }
}

/// The text that a value is, if it is one.
pub(crate) fn text(value: &[u8]) -> Option<Cow<'_, str>> {
    serde_json::from_slice::<Text<'_>>(value).ok().map(|text| text.0)
}

impl<'a> Iterator for Fields<'a> {
    type Item = Field<'a>;

    fn next(&mut self) -> Option<Field<'a>> {
        let (name, after) = split_value(std::mem::take(&mut self.0).trim_ascii_start());
        let name = text(name)?;
        let (value, after) = split_value(after.trim_ascii_start().strip_prefix(b":")?.trim_ascii_start());
        self.0 = after.trim_ascii_start().strip_prefix(b",").unwrap_or_default();
        Some((name, value))
    }
}

/// A text, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// The value that a text begins with, and what follows it.
fn split_value(text: &[u8]) -> (&[u8], &[u8]) {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at = end_of_string(text, at),
            b'{' | b'[' => (depth, at) = (depth + 1, at + 1),
            b'}' | b']' | b',' | b':' if depth == 0 => break,
            b'}' | b']' => (depth, at) = (depth - 1, at + 1),
            byte if depth == 0 && byte.is_ascii_whitespace() => break,
            _ => at += 1,
        }
    }
    text.split_at(at.min(text.len()))
}

/// Where the string ends that begins here.
fn end_of_string(text: &[u8], begin: usize) -> usize {
    let mut at = begin + 1;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => return at + 1,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_as_they_stand() {
        let text = br#" { "a" : 1 , "b\u0062":[1, {"c": "]}"}], "d": "\"}{\\" ,"":null} "#;
        let found: Vec<Field<'_>> = fields(text).unwrap().collect();
        let found: Vec<(&str, &str)> =
            found.iter().map(|(name, value)| (&**name, std::str::from_utf8(value).unwrap())).collect();
        assert_eq!(found, [("a", "1"), ("bb", r#"[1, {"c": "]}"}]"#), ("d", r#""\"}{\\""#), ("", "null")]);
        assert_eq!(fields(b"{}").unwrap().count(), 0);
        assert_eq!(fields(text).unwrap().get("bb"), Some(&br#"[1, {"c": "]}"}]"#[..]));
        for none in ["", "[]", "1", "\"{\"", "null"] {
            assert!(fields(none.as_bytes()).is_none(), "{none}");
        }
    }

    #[test]
    fn nonsense_is_no_panic() {
        for text in
            ["{", "{\"", "{\"a", "{\"a\"", "{\"a\":", "{\"a\":]", "{\"a\":1", "{\"a\":\"\\", "{,}", "{1:2}"]
        {
            fields(text.as_bytes()).into_iter().flatten().for_each(drop);
        }
    }
}

//! Reads the fields of a JSON object from its text, without building a tree.
//!
//! The text must be valid JSON. For other text the result is meaningless, but nothing panics.

use std::borrow::Cow;

/// A field: its name, and the text of its value.
pub(crate) type Field<'a> = (Cow<'a, str>, &'a [u8]);

/// The fields of an object, in order. `None` if the text is not an object.
pub(crate) fn fields(text: &[u8]) -> Option<Fields<'_>> {
    text.trim_ascii().strip_prefix(b"{").map(Fields)
}

/// The rest of an object's text.
#[derive(Clone)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// The value of the first field with this name.
    pub(crate) fn get(&self, wanted: &str) -> Option<&'a [u8]> {
        self.clone().find(|(name, _)| name == wanted).map(|(_, value)| value)
    }
}

/// The value as a string, if it is one.
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

/// A string, borrowed if it has no escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Splits a text after its first value.
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

/// The end of the string that begins at `begin`.
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

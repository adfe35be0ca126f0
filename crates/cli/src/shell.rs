//! Words quoted for a shell, for the command lines that prowess prints.

/// Puts a word in single quotes, so that a shell takes it literally.
pub(crate) fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Quotes a word only if a shell would change it.
pub(crate) fn quote_if_needed(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "/._-:@+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { quote(word) }
}

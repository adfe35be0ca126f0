//! Words of a shell that do not name one file: patterns and variables.

use globset::GlobBuilder;

/// The most names of a directory that a pattern is compared with.
pub(super) const MAX_LISTED: usize = 250_000;
/// The longest word that is read, in bytes.
const MAX_WORD: usize = 4096;

/// The rest of a path, up to the end of its word. Quotes are removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    /// Characters that have no meaning in a pattern have a backslash.
    text: String,
    /// How much of the text it is, in bytes.
    pub(super) length: usize,
    pub(super) end: WordEnd,
}

/// What comes after a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WordEnd {
    Boundary,
    /// A variable, or the output of a command. What follows is unknown.
    Variable,
}

impl Word {
    /// The word as a shell reads it. `before` is the character before the path, which may be a quote.
    pub(super) fn of_shell(rest: &str, before: Option<char>) -> Self {
        let mut open = before.filter(|c| matches!(c, '"' | '\''));
        let rest = &rest[..rest.floor_char_boundary(MAX_WORD)];
        let mut text = String::new();
        let mut chars = rest.char_indices();
        while let Some((length, c)) = chars.next() {
            match (c, open) {
                ('$' | '{', _) if is_variable(&rest[length..]) => {
                    return Self { text, length, end: WordEnd::Variable };
                }
                ('`', _) if before != Some('`') && rest[length + 1..].contains('`') => {
                    return Self { text, length, end: WordEnd::Variable };
                }
                (c, Some(quote)) if c == quote => open = None,
                ('"' | '\'', None) => open = Some(c),
                ('\\', _) => {
                    let quoted = chars.next().map(|(_, quoted)| quoted);
                    text.extend(quoted.into_iter().flat_map(|quoted| ['\\', quoted]));
                }
                (c, None) if is_end(c) => return Self { text, length, end: WordEnd::Boundary },
                ('\n', _) => return Self { text, length, end: WordEnd::Boundary },
                (c, _) => text.push(c),
            }
        }
        Self { text, length: rest.len(), end: WordEnd::Boundary }
    }

    /// The text up to the first character that is rarely part of a name.
    pub(super) fn plain(rest: &str) -> Self {
        let rest = &rest[..rest.floor_char_boundary(MAX_WORD)];
        let end =
            rest.find(|c: char| is_end(c) || matches!(c, '"' | '\'' | '`' | '\\')).unwrap_or(rest.len());
        let variable = rest[..end].char_indices().find(|(at, _)| is_variable(&rest[*at..]));
        let (text, end) = match variable {
            Some((at, _)) => (&rest[..at], WordEnd::Variable),
            None => (&rest[..end], WordEnd::Boundary),
        };
        // A comma in braces belongs to the word; at the end it does not.
        let text = text.trim_end_matches([',', ':', '.', '!']);
        Self { text: text.to_owned(), length: text.len(), end }
    }

    /// Its names. The last one may be only the beginning of a name.
    pub(super) fn names(&self) -> Vec<String> {
        self.text.split('/').map(str::to_owned).collect()
    }

    pub(super) fn is_pattern(&self) -> bool {
        is_pattern(&self.text)
    }
}

fn is_end(c: char) -> bool {
    c.is_whitespace() || matches!(c, ';' | '|' | '&' | '<' | '>' | '(' | ')')
}

/// Whether a variable begins here: one of a shell, or one in the text of a program, such as `{name}`.
fn is_variable(text: &str) -> bool {
    if let Some(rest) = text.strip_prefix('$') {
        let starts = |c: char| c.is_ascii_alphanumeric() || "_{(@*#?!$".contains(c);
        return rest.starts_with(starts);
    }
    let inside = text.strip_prefix('{').and_then(|rest| rest.split_once('}')).map(|(inside, _)| inside);
    inside.is_some_and(|inside| !inside.contains("..") && !inside.contains([',', '/', '{', '\n']))
}

/// Whether a name is a pattern: it has a wildcard or a list in braces.
pub(super) fn is_pattern(name: &str) -> bool {
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            '*' | '?' | '[' | '{' => return true,
            _ => {}
        }
    }
    false
}

/// The name without the backslashes of its quoted characters.
pub(super) fn literal(name: &str) -> String {
    let mut plain = String::new();
    let mut chars = name.chars();
    while let Some(c) = chars.next() {
        if c == '\\' { plain.extend(chars.next()) } else { plain.push(c) }
    }
    plain
}

/// The names that match a pattern, sorted. As in a shell, a wildcard at the beginning matches no `.`.
pub(super) fn matching(pattern: &str, mut names: Vec<String>) -> Vec<String> {
    // `[!a]` is `[!a]` in a shell and here. A sequence, `{1..3}`, becomes any text.
    let pattern = without_sequences(pattern);
    let glob = GlobBuilder::new(&pattern).literal_separator(true).backslash_escape(true).build();
    let Ok(glob) = glob.map(|glob| glob.compile_matcher()) else { return Vec::new() };
    let sees_hidden = pattern.starts_with('.') || pattern.starts_with('{');
    names.retain(|name| (sees_hidden || !name.starts_with('.')) && glob.is_match(name));
    names.sort();
    names
}

fn without_sequences(pattern: &str) -> String {
    let (mut text, mut rest) = (String::new(), pattern);
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        match after.split_once('}') {
            Some((inside, after)) if inside.contains("..") && !inside.contains([',', '{']) => {
                text.push('*');
                rest = after;
            }
            _ => {
                text.push('{');
                rest = after;
            }
        }
    }
    text + rest
}

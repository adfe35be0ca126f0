//! Names that strangers chose: joined into subjects and put into questions so that no name can imitate another.

use prowess_base::text::is_unprintable;

/// The subject of an act that belongs to somebody: the name, a blank, and the act.
///
/// Blanks and backslashes in the name get a backslash in front. So the first blank without one ends the name, and a rule
/// for one name never matches an act of another. An ordinary name stays as it is.
///
/// ```
/// use prowess_permission::{Pattern, joined};
///
/// assert_eq!(joined("house-style", "make"), "house-style make");
/// let rule = Pattern::parse("house-style *").unwrap();
/// assert!(rule.matches(&joined("house-style", "make")));
/// assert!(!rule.matches(&joined("house-style evil", "make")));
/// ```
#[must_use]
pub fn joined(name: &str, act: &str) -> String {
    let mut subject = String::with_capacity(name.len() + 1 + act.len());
    for c in name.chars() {
        if c.is_whitespace() || c == '\\' {
            subject.push('\\');
        }
        subject.push(c);
    }
    subject.push(' ');
    subject.push_str(act);
    subject
}

/// The subject as versions had it that did not put backslashes into names, if that is another.
pub(crate) fn unescaped(subject: &str) -> Option<String> {
    let (mut name, mut chars) = (String::new(), subject.char_indices());
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => name.push(chars.next()?.1),
            ' ' => return (name.len() < at).then(|| name + &subject[at..]),
            c => name.push(c),
        }
    }
    None
}

/// A name in quotes, for a question or a log. Nothing in the name can look like the end of the quotes.
///
/// Letters, digits, blanks and `-_.:/@+` stay as they are. Other ASCII characters get a backslash in front, and all others
/// are spelled out.
///
/// ```
/// use prowess_permission::quoted;
///
/// assert_eq!(quoted("house-style"), "'house-style'");
/// assert_eq!(quoted("x' of 'bank"), r"'x\' of \'bank'");
/// assert_eq!(quoted("x\u{2019}"), r"'x\u{2019}'");
/// ```
#[must_use]
pub fn quoted(name: &str) -> String {
    let mut text = String::with_capacity(name.len() + 2);
    text.push('\'');
    for c in name.chars() {
        match c {
            _ if is_unprintable(c) || is_like_a_quote(c) => text.extend(c.escape_unicode()),
            ' ' | '-' | '_' | '.' | ':' | '/' | '@' | '+' => text.push(c),
            _ if c.is_alphanumeric() => text.push(c),
            _ if c.is_ascii() => text.extend(['\\', c]),
            _ => text.extend(c.escape_unicode()),
        }
    }
    text.push('\'');
    text
}

/// Letters that look like an apostrophe.
fn is_like_a_quote(c: char) -> bool {
    matches!(c, '\u{2b0}'..='\u{2ff}' | '\u{7f4}' | '\u{7f5}' | '\u{a78b}' | '\u{a78c}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The name and the act that a subject was joined of.
    fn parted(subject: &str) -> Option<(String, &str)> {
        let (mut name, mut chars) = (String::new(), subject.char_indices());
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => name.push(chars.next()?.1),
                ' ' => return Some((name, &subject[at + 1..])),
                c => name.push(c),
            }
        }
        None
    }

    proptest! {
        #[test]
        fn a_subject_tells_its_name(name in r"[a\\ \u{a0}*-]{0,6}", act in r"[a\\ *]{0,6}") {
            let subject = joined(&name, &act);
            prop_assert_eq!(parted(&subject), Some((name, act.as_str())));
        }

        #[test]
        fn quotes_end_at_the_last_character(name in "\\PC{0,12}|[a'`\"\\\\ \u{2019}\u{2bc}]{0,12}") {
            let text = quoted(&name);
            let inner = &text[1..text.len() - 1];
            let mut chars = inner.chars();
            while let Some(c) = chars.next() {
                if c == '\\' {
                    chars.next();
                } else {
                    prop_assert!(!matches!(c, '\'' | '`' | '"' | '\u{2019}' | '\u{2bc}'), "{}", text);
                }
            }
        }
    }

    #[test]
    fn ordinary_names_stay() {
        for name in ["pdf", "docs:tides", "my_skill.2", "größe", "a b"] {
            assert_eq!(quoted(name), format!("'{name}'"));
        }
        assert_eq!(joined("größe", "x"), "größe x");
        assert_eq!(unescaped("größe x\\ y"), None);
        assert_eq!(unescaped(&joined("a b", r"x\ y")).as_deref(), Some(r"a b x\ y"));
        assert_eq!(quoted("a\u{202e}\n"), r"'a\u{202e}\u{a}'");
    }
}

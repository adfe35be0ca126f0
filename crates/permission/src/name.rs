//! Untrusted names in subjects and questions. No name can imitate another one.

use prowess_base::text::is_unprintable;

/// The subject of an action of a named owner: the owner's name, a blank and the action.
///
/// Each blank and backslash in the name gets a backslash in front. So the first blank without a backslash ends the name,
/// and a rule for one name never matches actions of another. An ordinary name does not change.
///
/// ```
/// use prowess_permission::{Pattern, owned_subject};
///
/// assert_eq!(owned_subject("house-style", "make"), "house-style make");
/// let rule = Pattern::parse("house-style *").unwrap();
/// assert!(rule.matches(&owned_subject("house-style", "make")));
/// assert!(!rule.matches(&owned_subject("house-style evil", "make")));
/// ```
#[must_use]
pub fn owned_subject(owner: &str, action: &str) -> String {
    let mut subject = String::with_capacity(owner.len() + 1 + action.len());
    for c in owner.chars() {
        if c.is_whitespace() || c == '\\' {
            subject.push('\\');
        }
        subject.push(c);
    }
    subject.push(' ');
    subject.push_str(action);
    subject
}

/// The subject as earlier versions wrote it, without backslashes in the name, if that differs.
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

/// Puts a name in quotes, for a question or a log. Nothing in the name can look like the closing quote.
///
/// Letters, digits, blanks and `-_.:/@+` do not change. Other ASCII characters get a backslash in front; all others become
/// Unicode escapes.
///
/// ```
/// use prowess_permission::quote_name;
///
/// assert_eq!(quote_name("house-style"), "'house-style'");
/// assert_eq!(quote_name("x' of 'bank"), r"'x\' of \'bank'");
/// assert_eq!(quote_name("x\u{2019}"), r"'x\u{2019}'");
/// ```
#[must_use]
pub fn quote_name(name: &str) -> String {
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

    /// The name and the action in a subject.
    fn split(subject: &str) -> Option<(String, &str)> {
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
        fn a_subject_tells_its_name(name in r"[a\\ \u{a0}*-]{0,6}", action in r"[a\\ *]{0,6}") {
            let subject = owned_subject(&name, &action);
            prop_assert_eq!(split(&subject), Some((name, action.as_str())));
        }

        #[test]
        fn quotes_end_at_the_last_character(name in "\\PC{0,12}|[a'`\"\\\\ \u{2019}\u{2bc}]{0,12}") {
            let text = quote_name(&name);
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
            assert_eq!(quote_name(name), format!("'{name}'"));
        }
        assert_eq!(owned_subject("größe", "x"), "größe x");
        assert_eq!(unescaped("größe x\\ y"), None);
        assert_eq!(unescaped(&owned_subject("a b", r"x\ y")).as_deref(), Some(r"a b x\ y"));
        assert_eq!(quote_name("a\u{202e}\n"), r"'a\u{202e}\u{a}'");
    }
}

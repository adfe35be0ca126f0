//! The arguments of a skill: expands `$ARGUMENTS` and `$0` in its instructions.
//!
//! The variables are those of skills for Claude Code: indexes count from 0, and a backslash keeps a variable as it is.

use prowess_catalog::Skill;
use prowess_catalog::skill::MAX_MANIFEST;

/// The longest expanded text, in bytes: the limit of a manifest.
#[allow(clippy::cast_possible_truncation, reason = "10 MiB fit")]
pub(crate) const MAX_EXPANDED_BYTES: usize = MAX_MANIFEST as usize;

/// The most named arguments.
const MAX_NAMED_ARGUMENTS: usize = 64;
/// The longest index in `$ARGUMENTS[…]`, in digits.
const MAX_DIGITS: usize = 9;

/// The expanded text would exceed [`MAX_EXPANDED_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Expands the arguments in `body`. Inserted text is not expanded again.
///
/// If `given` is `None`, nobody had a say about arguments: a model loaded the skill without them. Then their variables
/// stay, because a body may only describe them. An empty text means that a person gave none: `$ARGUMENTS` and named
/// arguments become empty. If no variable uses the arguments, they are added at the end.
pub(crate) fn expand(body: &str, skill: &Skill, given: Option<&str>) -> Result<String, TooLong> {
    let given = given.map(str::trim);
    let words = given.map(split_words).unwrap_or_default();
    let names = &skill.extensions.arguments;
    let arguments = given.map(|whole| Arguments {
        whole,
        words: &words,
        names: &names[..names.len().min(MAX_NAMED_ARGUMENTS)],
    });

    let mut text = String::with_capacity(body.len());
    let mut rest = body;
    let mut used = false;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        let is_escaped = ends_in_one_backslash(&rest[..at]);
        rest = &rest[at..];
        if let Some(variable) = arguments.as_ref().and_then(|arguments| arguments.at(rest)) {
            let written = &rest[..variable.length];
            if is_escaped {
                text.pop();
            }
            let value = variable.value.filter(|_| !is_escaped);
            text.push_str(value.unwrap_or(written));
            used |= value.is_some();
            rest = &rest[variable.length..];
        } else {
            text.push('$');
            rest = &rest[1..];
        }
        if text.len() > MAX_EXPANDED_BYTES {
            return Err(TooLong);
        }
    }
    text.push_str(rest);
    if let Some(given) = given.filter(|given| !given.is_empty() && !used) {
        let line_end = if text.ends_with('\n') { "" } else { "\n" };
        text.extend([line_end, "\nARGUMENTS: ", given, "\n"]);
    }
    if text.len() > MAX_EXPANDED_BYTES { Err(TooLong) } else { Ok(text) }
}

/// Two backslashes before a variable are two backslashes, and do not escape it.
fn ends_in_one_backslash(before: &str) -> bool {
    before.strip_suffix('\\').is_some_and(|before| !before.ends_with('\\'))
}

fn continues_a_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Arguments<'a> {
    whole: &'a str,
    words: &'a [String],
    names: &'a [String],
}

/// A variable for arguments in a text.
struct Variable<'a> {
    length: usize,
    /// `None` if there is no argument with this index: the variable stays.
    value: Option<&'a str>,
}

impl Arguments<'_> {
    /// The variable at the start of `text`.
    fn at(&self, text: &str) -> Option<Variable<'_>> {
        let name = text.strip_prefix('$')?;
        let length = name.find(|c| !continues_a_name(c)).unwrap_or(name.len());
        let (name, after) = name.split_at(length);
        if name == "ARGUMENTS" {
            let index = after.strip_prefix('[').and_then(|index| {
                let digits = index.bytes().take(MAX_DIGITS).take_while(u8::is_ascii_digit).count();
                let closes = index[digits..].starts_with(']');
                Some((digits + 2, index[..digits].parse::<usize>().ok().filter(|_| closes)?))
            });
            return Some(match index {
                Some((brackets, index)) => {
                    // A bare `/name` leaves no `$ARGUMENTS` behind. `$0` may be a script's own.
                    let value = self.word(index).or_else(|| self.whole.is_empty().then_some(""));
                    Variable { length: 1 + length + brackets, value }
                }
                None => Variable { length: 1 + length, value: Some(self.whole) },
            });
        }
        if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
            let value = name.parse::<usize>().ok().and_then(|index| self.word(index));
            return Some(Variable { length: 1 + length, value });
        }
        // A name may have hyphens: use the longest one that matches.
        let fits = |declared: &&String| {
            let rest = text[1..].strip_prefix(declared.as_str());
            !declared.is_empty() && rest.is_some_and(|rest| !rest.starts_with(continues_a_name))
        };
        let declared = self.names.iter().filter(fits).max_by_key(|declared| declared.len())?;
        let position = self.names.iter().position(|name| name == declared)?;
        Some(Variable { length: 1 + declared.len(), value: Some(self.word(position).unwrap_or_default()) })
    }

    fn word(&self, at: usize) -> Option<&str> {
        self.words.get(at).map(String::as_str)
    }
}

/// Splits `text` into words. Quotes and backslashes hold a word together, as in a shell. A quote without a partner, and
/// an apostrophe inside a word, are ordinary characters.
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        rest = &rest[c.len_utf8()..];
        match c {
            c if c.is_whitespace() => words.extend(word.take()),
            '"' if let Some((quoted, after)) = double_quoted(rest) => {
                word.get_or_insert_default().push_str(&quoted);
                rest = after;
            }
            '\'' if word.is_none() && rest.contains('\'') => {
                let (quoted, after) = rest.split_once('\'').unwrap_or((rest, ""));
                word = Some(quoted.to_owned());
                rest = after;
            }
            '\\' if rest.starts_with(|next: char| next.is_whitespace() || "\"'\\".contains(next)) => {
                let next = rest.chars().next();
                word.get_or_insert_default().extend(next);
                rest = &rest[next.map_or(0, char::len_utf8)..];
            }
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

/// The text up to the closing double quote, and what follows it.
fn double_quoted(text: &str) -> Option<(String, &str)> {
    let mut quoted = String::new();
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '"' => return Some((quoted, &text[at + 1..])),
            '\\' if text[at + 1..].starts_with(['"', '\\']) => {
                quoted.extend(characters.next().map(|(_, escaped)| escaped));
            }
            c => quoted.push(c),
        }
    }
    None
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on should stop")]
mod tests {
    use prowess_catalog::skill::Location;

    use super::*;

    fn skill(fields: &str) -> Skill {
        let source = format!("---\nname: deploy\ndescription: Deploys. Use to ship.\n{fields}---\n");
        Skill::parse(source.as_bytes(), &Location::new("/skills/deploy/SKILL.md")).skill.unwrap()
    }

    fn expanded(fields: &str, body: &str, given: Option<&str>) -> String {
        expand(body, &skill(fields), given).unwrap()
    }

    #[test]
    fn arguments_go_where_they_are_named() {
        assert_eq!(expanded("", "Ship $ARGUMENTS now.", Some(" a b ")), "Ship a b now.");
        assert_eq!(
            expanded("arguments: [env, env-tag]\n", "$env-tag/$env/$environment", Some("a b")),
            "b/a/$environment"
        );
        assert_eq!(expanded("", "$ARGUMENTS_DIR $9", Some("a")), "$ARGUMENTS_DIR $9\n\nARGUMENTS: a\n");
    }

    /// The examples of Claude Code's documentation.
    #[test]
    fn indexes_count_from_0() {
        let body = "Migrate the $0 component from $1 to $2.";
        assert_eq!(
            expanded("", body, Some("SearchBar React Vue")),
            "Migrate the SearchBar component from React to Vue."
        );
        assert_eq!(
            expanded("", "$ARGUMENTS[0] and $ARGUMENTS[1]: $ARGUMENTS", Some("\"hello world\" second")),
            "hello world and second: \"hello world\" second"
        );
        assert_eq!(expanded("", "$ARGUMENTS[1] of $ARGUMENTS[x]", Some("a b")), "b of a b[x]");
    }

    #[test]
    fn an_index_without_an_argument_stays_and_a_name_becomes_empty() {
        assert_eq!(
            expanded("arguments: [env, tag]\n", "$0 $1 $ARGUMENTS[7] $env $tag.", Some("a")),
            "a $1 $ARGUMENTS[7] a ."
        );
        assert_eq!(
            expanded("", "$99999999999999999999", Some("a")),
            "$99999999999999999999\n\nARGUMENTS: a\n"
        );
    }

    #[test]
    fn a_backslash_keeps_a_variable() {
        assert_eq!(
            expanded(
                "arguments: [env]\n",
                r"\$1.00 \$ARGUMENTS \$ARGUMENTS[0] \$env \$HOME \\$0 $0",
                Some("a b")
            ),
            r"$1.00 $ARGUMENTS $ARGUMENTS[0] $env \$HOME \\a a"
        );
        assert_eq!(expanded("", r"\$0", Some("a")), "$0\n\nARGUMENTS: a\n");
    }

    #[test]
    fn without_a_variable_the_arguments_are_added() {
        let body = "awk '{print $NF}' $HOME $ARG";
        assert_eq!(expanded("", body, Some("x y")), format!("{body}\n\nARGUMENTS: x y\n"));
        assert_eq!(expanded("", body, Some("  ")), body);
    }

    /// A dialect may have no way to pass arguments, and examples in a body must stay.
    #[test]
    fn if_nobody_gave_arguments_nothing_is_blanked_out() {
        for body in ["Ship $ARGUMENTS to $1.", "awk '{print $1}'", r"\$1.00"] {
            assert_eq!(expanded("arguments: [env]\n", body, None), body);
        }
    }

    #[test]
    fn empty_arguments_leave_no_placeholder() {
        assert_eq!(expanded("arguments: [env]\n", "Ship $ARGUMENTS to $env.", Some("")), "Ship  to .");
        assert_eq!(expanded("", "awk '{print $1}' $ARGUMENTS[0]", Some("")), "awk '{print $1}' ");
    }

    #[test]
    fn inserted_text_is_not_expanded_again() {
        assert_eq!(
            expanded("", "$ARGUMENTS", Some("$1 ${SKILL_DIR} $ARGUMENTS")),
            "$1 ${SKILL_DIR} $ARGUMENTS"
        );
    }

    #[test]
    fn text_does_not_grow_without_bound() {
        let body = "$ARGUMENTS".repeat(20_000);
        assert_eq!(expand(&body, &skill(""), Some(&"x".repeat(10_000))), Err(TooLong));
    }

    #[test]
    fn quotes_hold_words_together() {
        assert_eq!(split_words("a 'b c' \"d \\\" e\" it's '' f"), ["a", "b c", "d \" e", "it's", "", "f"]);
        assert_eq!(
            split_words(r#"--title="b c"d e\ f \d \" \\"#),
            ["--title=b cd", "e f", r"\d", "\"", "\\"]
        );
        assert_eq!(split_words("'open end \"too"), ["'open", "end", "\"too"]);
        assert_eq!(split_words("é\u{a0}'ü ö'"), ["é", "ü ö"]);
    }
}

//! The arguments of a skill: expands `$ARGUMENTS`, `$1` and `${SKILL_DIR}` in its instructions.

use prowess_catalog::Skill;
use prowess_catalog::skill::MAX_MANIFEST;

/// The longest expanded text, in bytes: the limit of a manifest.
#[allow(clippy::cast_possible_truncation, reason = "10 MiB fit")]
pub(crate) const MAX_EXPANDED_BYTES: usize = MAX_MANIFEST as usize;

/// The variable for the skill's directory, and its name in skills for Claude Code.
const DIRECTORY: [&str; 2] = ["${SKILL_DIR}", "${CLAUDE_SKILL_DIR}"];
const ARGUMENTS: &str = "$ARGUMENTS";

/// The most named arguments.
const MAX_NAMED_ARGUMENTS: usize = 64;
/// The longest index in `$ARGUMENTS[…]`, in digits.
const MAX_DIGITS: usize = 9;

/// The expanded text would exceed [`MAX_EXPANDED_BYTES`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooLong;

/// Expands `${SKILL_DIR}` and the arguments in `body`. Inserted text is not expanded again.
///
/// A skill takes arguments if its frontmatter has `arguments` or `argument-hint`, or if it mentions `$ARGUMENTS`. Only then
/// are `$1` and similar variables expanded, because scripts in a body often use them. Without arguments, these variables
/// stay. If no variable uses the arguments, they are added at the end.
pub(crate) fn expand(body: &str, skill: &Skill, given: Option<&str>) -> Result<String, TooLong> {
    let given = given.map(str::trim).filter(|given| !given.is_empty());
    let extensions = &skill.extensions;
    let takes_arguments = given.is_some()
        && (extensions.argument_hint.is_some()
            || !extensions.arguments.is_empty()
            || mentions_arguments(body));
    let words = given.map(split_words).unwrap_or_default();
    let arguments = Arguments {
        whole: given.unwrap_or_default(),
        words: &words,
        names: &extensions.arguments[..extensions.arguments.len().min(MAX_NAMED_ARGUMENTS)],
    };

    let mut text = String::with_capacity(body.len());
    let mut rest = body;
    let mut used = false;
    while let Some(at) = rest.find('$') {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let directory = DIRECTORY.iter().find(|variable| rest.starts_with(**variable));
        if let Some(variable) = directory {
            text.push_str(skill.location.directory());
            rest = &rest[variable.len()..];
        } else if let Some((length, value)) = arguments.at(rest).filter(|_| takes_arguments) {
            text.push_str(value);
            rest = &rest[length..];
            used = true;
        } else {
            text.push('$');
            rest = &rest[1..];
        }
        if text.len() > MAX_EXPANDED_BYTES {
            return Err(TooLong);
        }
    }
    text.push_str(rest);
    if let Some(given) = given.filter(|_| !used) {
        let line_end = if text.ends_with('\n') { "" } else { "\n" };
        text.extend([line_end, "\nARGUMENTS: ", given, "\n"]);
    }
    if text.len() > MAX_EXPANDED_BYTES { Err(TooLong) } else { Ok(text) }
}

fn mentions_arguments(body: &str) -> bool {
    body.match_indices(ARGUMENTS).any(|(at, _)| !body[at + ARGUMENTS.len()..].starts_with(continues_a_name))
}

fn continues_a_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

struct Arguments<'a> {
    whole: &'a str,
    words: &'a [String],
    names: &'a [String],
}

impl Arguments<'_> {
    /// The variable at the start of `text`: its length and its value.
    fn at(&self, text: &str) -> Option<(usize, &str)> {
        let name = text.strip_prefix('$')?;
        let length = name.find(|c| !continues_a_name(c)).unwrap_or(name.len());
        let (name, after) = name.split_at(length);
        if name == "ARGUMENTS" {
            // `$ARGUMENTS[0]` is the first argument.
            let index = after.strip_prefix('[').and_then(|index| {
                let digits = index.bytes().take(MAX_DIGITS).take_while(u8::is_ascii_digit).count();
                let closes = index[digits..].starts_with(']');
                Some((digits + 2, index[..digits].parse::<usize>().ok().filter(|_| closes)?))
            });
            return Some(match index {
                Some((brackets, index)) => (1 + length + brackets, self.word(index)),
                None => (1 + length, self.whole),
            });
        }
        if !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()) {
            let number = name.parse::<usize>().ok().filter(|number| *number > 0)?;
            return Some((1 + length, self.word(number - 1)));
        }
        // A name may have hyphens: use the longest one that matches.
        let fits = |declared: &&String| {
            let rest = text[1..].strip_prefix(declared.as_str());
            !declared.is_empty() && rest.is_some_and(|rest| !rest.starts_with(continues_a_name))
        };
        let declared = self.names.iter().filter(fits).max_by_key(|declared| declared.len())?;
        let position = self.names.iter().position(|name| name == declared)?;
        Some((1 + declared.len(), self.word(position)))
    }

    fn word(&self, at: usize) -> &str {
        self.words.get(at).map_or("", String::as_str)
    }
}

/// Splits `text` into words. Quotes hold a word together, as in a shell.
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut characters = text.chars().peekable();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('"'), '\\') if matches!(characters.peek(), Some('"' | '\\')) => {
                word.get_or_insert_default().extend(characters.next());
            }
            (Some(_), c) => word.get_or_insert_default().push(c),
            // Inside a word it is an apostrophe.
            (None, '"' | '\'') if word.is_none() => {
                quote = Some(c);
                word = Some(String::new());
            }
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (None, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
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
    fn the_directory_is_always_expanded() {
        assert_eq!(
            expanded("", "run ${SKILL_DIR}/x ${CLAUDE_SKILL_DIR}", None),
            "run /skills/deploy/x /skills/deploy"
        );
    }

    #[test]
    fn scripts_in_a_body_keep_their_variables() {
        let body = "awk '{print $1, $NF}' $HOME $ARG";
        assert_eq!(expanded("", body, None), body);
        assert_eq!(expanded("", body, Some("x")), format!("{body}\n\nARGUMENTS: x\n"));
    }

    #[test]
    fn arguments_go_where_they_are_named() {
        assert_eq!(expanded("", "Ship $ARGUMENTS now.", Some(" a b ")), "Ship a b now.");
        assert_eq!(
            expanded("argument-hint: \"[env] [tag]\"\n", "$1 at $2$3!", Some("'prod eu' v2")),
            "prod eu at v2!"
        );
        assert_eq!(
            expanded("arguments: [env, env-tag]\n", "$env-tag/$env/$environment", Some("a b")),
            "b/a/$environment"
        );
        assert_eq!(expanded("", "$ARGUMENTS[1] of $ARGUMENTS[x]", Some("a b")), "b of a b[x]");
        assert_eq!(expanded("", "$ARGUMENTS_DIR $1", Some("a")), "$ARGUMENTS_DIR $1\n\nARGUMENTS: a\n");
    }

    /// A dialect may have no way to pass arguments, and examples in a body must stay.
    #[test]
    fn without_arguments_nothing_is_blanked_out() {
        for body in ["Ship $ARGUMENTS to $1.", "awk '{print $1}'"] {
            assert_eq!(expanded("argument-hint: \"[env]\"\n", body, None), body);
            assert_eq!(expanded("arguments: [env]\n", body, Some("  ")), body);
        }
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
        assert_eq!(split_words("'open end"), ["open end"]);
    }
}

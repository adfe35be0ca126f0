//! Matchers: which tools, or other subjects, a hook is for.

use prowess_skills::allowed_tools::ToolNames;
use regex::{Regex, RegexBuilder};

/// The longest matcher, in bytes.
pub(super) const MAX_MATCHER: usize = 1024;
/// The most memory of a compiled matcher, in bytes.
const MAX_COMPILED: usize = 256 * 1024;

/// What a hook is for: everything, some names, or a regular expression.
#[derive(Clone, Debug)]
pub(super) enum Matcher {
    All,
    /// Whole names, as in `Edit|Write`.
    Names(Vec<String>),
    Pattern(Regex),
}

impl Matcher {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if matches!(text, "" | "*") {
            return Ok(Self::All);
        }
        if text.len() > MAX_MATCHER {
            return Err(format!("it has more than {MAX_MATCHER} bytes"));
        }
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '|');
        if text.chars().all(is_name) {
            return Ok(Self::Names(text.split('|').map(str::to_owned).collect()));
        }
        let built = RegexBuilder::new(text).size_limit(MAX_COMPILED).dfa_size_limit(MAX_COMPILED).build();
        // The error shows the expression and a caret first. Its last line says what is wrong.
        let said =
            |error: regex::Error| error.to_string().lines().last().unwrap_or_default().trim().to_owned();
        built.map(Self::Pattern).map_err(said)
    }

    fn matches_name(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|known| known == name),
            Self::Pattern(pattern) => pattern.is_match(name),
        }
    }

    /// Whether the hook is for this subject. A tool also matches by its aliases in skills, such as `Bash` for `execute`.
    pub(super) fn matches(&self, subject: &str, names: Option<&ToolNames>) -> bool {
        let stands_for = |tools: &[String]| tools.iter().any(|tool| tool == subject);
        let aliases = names.iter().flat_map(|names| &names.aliases);
        let mut others = aliases.filter(|(_, tools)| stands_for(tools)).map(|(alias, _)| alias);
        self.matches_name(subject) || others.any(|alias| self.matches_name(alias))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_matcher_has_an_error_of_one_line() {
        let refused = Matcher::parse("a[").map(|_| ());
        assert_eq!(refused, Err("error: unclosed character class".to_owned()));
        assert!(Matcher::parse("(a{500}){500}").is_err_and(|why| !why.contains('\n')));
    }

    #[test]
    fn a_matcher_is_whole_names_or_a_regular_expression() {
        let names = ToolNames::default();
        for (matcher, name, matches) in [
            ("", "ls", true),
            ("*", "ls", true),
            ("ls", "ls", true),
            ("ls", "false", false),
            ("ls|grep", "grep", true),
            ("write", "write_file", false),
            ("write.*", "write_file", true),
            ("^mcp__.*__get$", "mcp__shop__get", true),
            ("Bash", "execute", true),
            ("Ed.t|x y", "edit_file", true),
        ] {
            let is_for = Matcher::parse(matcher).is_ok_and(|matcher| matcher.matches(name, Some(&names)));
            assert_eq!(is_for, matches, "{matcher} {name}");
        }
    }
}

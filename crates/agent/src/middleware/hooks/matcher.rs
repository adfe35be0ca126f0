//! Which tools a hook is for.

use prowess_skills::allowed_tools::ToolNames;
use regex::{Regex, RegexBuilder};

/// The longest matcher, in bytes.
pub(super) const MAX_MATCHER: usize = 1024;
/// How large a matcher may become when it is compiled, in bytes.
const MAX_COMPILED: usize = 256 * 1024;

/// What a hook is for.
#[derive(Clone, Debug)]
pub(super) enum Matcher {
    All,
    /// Whole names.
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
        // Its error has the expression and a caret on lines before what is wrong.
        let said =
            |error: regex::Error| error.to_string().lines().last().unwrap_or_default().trim().to_owned();
        built.map(Self::Pattern).map_err(said)
    }

    fn has(&self, name: &str) -> bool {
        match self {
            Self::All => true,
            Self::Names(names) => names.iter().any(|known| known == name),
            Self::Pattern(pattern) => pattern.is_match(name),
        }
    }

    /// Whether it chooses this. A tool is known under all names that skills have for it.
    pub(super) fn chooses(&self, subject: &str, names: Option<&ToolNames>) -> bool {
        let stands_for = |tools: &[String]| tools.iter().any(|tool| tool == subject);
        let aliases = names.iter().flat_map(|names| &names.aliases);
        let mut others = aliases.filter(|(_, tools)| stands_for(tools)).map(|(alias, _)| alias);
        self.has(subject) || others.any(|alias| self.has(alias))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_matcher_is_told_in_one_line() {
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
            let is_for = Matcher::parse(matcher).is_ok_and(|matcher| matcher.chooses(name, Some(&names)));
            assert_eq!(is_for, matches, "{matcher} {name}");
        }
    }
}

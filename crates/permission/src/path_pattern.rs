//! Path patterns: how a pattern of a `read` or `write` rule expands to absolute paths.

use std::path::{Path, PathBuf};

use crate::real_path::real_path;
use crate::{Decision, Pattern};

/// The directories from which path patterns expand.
///
/// ```
/// use prowess_permission::{Decision, Kind, PathBase, PermissionConfig, RealPath, Policy, RuleSource, Question};
///
/// let base = PathBase::new("/work/site").home("/home/ada");
/// let text = "[permission.read]\n'~/diary/*' = 'deny'\n'./drafts/*' = 'deny'\n";
/// let config = PermissionConfig::located(text, "prowess.toml", &[], &base)?;
/// let policy = Policy::new().rules(RuleSource::User, config.rules);
/// for denied in ["/home/ada/diary/may.md", "/work/site/drafts/a.md"] {
///     let question = Question::about_file(Kind::READ, RealPath::elsewhere(denied));
///     assert_eq!(policy.evaluate(&question).decision, Decision::Deny);
/// }
/// # Ok::<(), prowess_permission::config::ConfigError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathBase {
    directory: PathBuf,
    also: Vec<PathBuf>,
    home: Option<PathBuf>,
}

impl PathBase {
    /// Relative patterns start at this directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), also: Vec::new(), home: None }
    }

    /// Relative patterns of `ask` and `deny` rules also start at this directory.
    #[must_use]
    pub fn other_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        if directory != self.directory {
            self.also.push(directory);
        }
        self
    }

    /// The directory that `~` and `$HOME` stand for.
    #[must_use]
    pub fn home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    pub(crate) fn home_text(&self) -> Option<String> {
        self.home.as_ref().map(|home| home.to_string_lossy().into_owned())
    }

    fn directories(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.directory).chain(&self.also)
    }
}

/// A path pattern expanded to absolute paths, and a notice for the person if there is one.
pub(crate) struct ExpandedPattern {
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) notice: Option<String>,
}

/// Expands a path pattern. `ask` and `deny` rules cover more paths than `allow` rules: no spelling may escape a `deny`, and
/// an unexpected path must not be allowed.
pub(crate) fn expand(pattern: &Pattern, decision: Decision, base: &PathBase) -> ExpandedPattern {
    let text = pattern.as_str();
    let is_wide = decision != Decision::Allow;
    let mut notice = None;
    let absolute: Vec<String> = match Form::of(text) {
        Form::Home(rest) => match &base.home {
            Some(home) => vec![below(home, rest)],
            None => vec![text.to_owned()],
        },
        Form::Absolute => {
            notice = earlier_meaning_notice(text, decision, base);
            let old = base.directories().filter(|_| is_wide).map(|directory| below(directory, text));
            std::iter::once(text.to_owned()).chain(old).collect()
        }
        Form::Relative => {
            let directories = base.directories().take(if is_wide { usize::MAX } else { 1 });
            directories.map(|directory| below(directory, text)).collect()
        }
        Form::Name if is_wide => vec![text.to_owned(), format!("*/{text}")],
        Form::Name => vec![below(&base.directory, text)],
        Form::Anywhere => vec![text.to_owned()],
    };
    let mut all: Vec<String> = Vec::new();
    for text in absolute {
        let directory = Some(text.trim_end_matches('/')).filter(|directory| !directory.is_empty());
        let directory = directory.unwrap_or("/").to_owned();
        // A star at the end may be an escaped one. One pattern too many does no harm.
        let has_contents = directory.len() < text.len() || (is_wide && !text.ends_with('*'));
        let through_links = through_links(&directory);
        for text in [Some(directory), through_links].into_iter().flatten() {
            let contents = has_contents.then(|| format!("{}/*", text.trim_end_matches('/')));
            for text in [Some(text), contents].into_iter().flatten() {
                if !all.contains(&text) {
                    all.push(text);
                }
            }
        }
    }
    ExpandedPattern { patterns: all.iter().map(|text| Pattern::compile(text)).collect(), notice }
}

/// How a pattern begins.
enum Form<'a> {
    /// `~` or `$HOME`, and the rest.
    Home(&'a str),
    /// `/etc/*`.
    Absolute,
    /// `./notes/*`, `../*`, `notes/*`.
    Relative,
    /// A name without a `/`: `.env`.
    Name,
    /// `*.pem`, `*/private/*`, `*`.
    Anywhere,
}

impl<'a> Form<'a> {
    fn of(text: &'a str) -> Self {
        let of_home = text.strip_prefix("$HOME").or_else(|| text.strip_prefix('~'));
        match of_home {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => return Self::Home(rest),
            _ => {}
        }
        if text.starts_with('/') {
            Self::Absolute
        } else if text.starts_with('*') || text.is_empty() {
            Self::Anywhere
        } else if text.contains('/') || text == "." || text == ".." {
            Self::Relative
        } else {
            Self::Name
        }
    }
}

/// A pattern below a directory. Wildcards in the directory's name have no meaning.
fn below(directory: &Path, rest: &str) -> String {
    let directory = Pattern::literal(&directory.to_string_lossy());
    let mut rest = rest.trim_start_matches('/');
    while let Some(shorter) = rest.strip_prefix("./") {
        rest = shorter.trim_start_matches('/');
    }
    let directory = directory.as_str().trim_end_matches('/');
    match rest {
        "" | "." if directory.is_empty() => "/".to_owned(),
        "" | "." => directory.to_owned(),
        rest => format!("{directory}/{rest}"),
    }
}

/// The pattern with the links in its literal beginning followed, if that is another path.
fn through_links(text: &str) -> Option<String> {
    let (literal, rest) = literal_start(text)?;
    let real = real_path(Path::new(&literal));
    let real = real.to_str()?;
    let real = Pattern::literal(real);
    let real = real.as_str();
    let followed = match rest {
        "" => real.to_owned(),
        rest => format!("{}/{rest}", real.trim_end_matches('/')),
    };
    (followed != text).then_some(followed)
}

/// The literal directories that an absolute pattern begins with, and the rest from the name with the first wildcard.
fn literal_start(text: &str) -> Option<(String, &str)> {
    if !text.starts_with('/') {
        return None;
    }
    let (mut literal, mut kept, mut rest) = (String::new(), 0, 0);
    let mut chars = text.char_indices().peekable();
    let mut is_literal = true;
    while let Some((at, c)) = chars.next() {
        match c {
            '*' | '?' => {
                is_literal = false;
                break;
            }
            '\\' => {
                let next = chars.next_if(|(_, next)| matches!(next, '*' | '?' | '\\'));
                literal.push(next.map_or('\\', |(_, next)| next));
            }
            '/' => {
                (kept, rest) = (literal.len(), at + 1);
                literal.push('/');
            }
            c => literal.push(c),
        }
    }
    if is_literal {
        return Some((literal, ""));
    }
    literal.truncate(kept.max(1));
    Some((literal, &text[rest..]))
}

/// The notice about an absolute pattern that earlier versions looked for in the working directory. The person sees it if
/// this machine has no such path; for an `allow` rule also if the working directory has one.
fn earlier_meaning_notice(text: &str, decision: Decision, base: &PathBase) -> Option<String> {
    let first = text.trim_start_matches('/').split('/').next().unwrap_or_default();
    if first.is_empty() || first.contains(['*', '?', '\\']) {
        return None;
    }
    let is_there = |directory: &Path| std::fs::symlink_metadata(directory.join(first)).is_ok();
    let is_absolute = is_there(Path::new("/"));
    let is_below = is_there(&base.directory);
    let is_wide = decision != Decision::Allow;
    if is_absolute && (is_wide || !is_below) {
        return None;
    }
    let old = below(&base.directory, text);
    let new = format!(".{text}");
    Some(if is_wide {
        format!(
            "`{text}` = \"{decision}\" is an absolute path. It still covers `{old}` too; for that path, write `{new}`"
        )
    } else {
        format!(
            "`{text}` = \"allow\" is an absolute path. It no longer allows `{old}`; for that path, write `{new}`"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(text: &str, decision: Decision, base: &PathBase) -> Vec<String> {
        let pattern = Pattern::parse(text).unwrap();
        expand(&pattern, decision, base).patterns.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_form_expands_in_its_way() {
        let base = PathBase::new("/nowhere/site").other_directory("/nowhere/site/sub").home("/nowhere/ada");
        let deny = |text| expanded(text, Decision::Deny, &base);
        let allow = |text| expanded(text, Decision::Allow, &base);
        assert_eq!(allow("~/x/*"), ["/nowhere/ada/x/*"]);
        assert_eq!(allow("$HOME"), ["/nowhere/ada"]);
        assert_eq!(deny("~"), ["/nowhere/ada", "/nowhere/ada/*"]);
        assert_eq!(allow("/private/*"), ["/private/*"]);
        assert_eq!(
            deny("/private/*"),
            ["/private/*", "/nowhere/site/private/*", "/nowhere/site/sub/private/*"]
        );
        assert_eq!(allow("./private/*"), ["/nowhere/site/private/*"]);
        assert_eq!(allow("private/*"), ["/nowhere/site/private/*"]);
        assert_eq!(
            deny("private/x"),
            [
                "/nowhere/site/private/x",
                "/nowhere/site/private/x/*",
                "/nowhere/site/sub/private/x",
                "/nowhere/site/sub/private/x/*"
            ]
        );
        assert_eq!(allow("."), ["/nowhere/site"]);
        assert_eq!(allow("./docs/"), ["/nowhere/site/docs", "/nowhere/site/docs/*"]);
        assert_eq!(allow("../x/*"), ["/nowhere/site/../x/*", "/nowhere/x/*"]);
        assert_eq!(allow("notes.md"), ["/nowhere/site/notes.md"]);
        assert_eq!(deny(".env"), [".env", ".env/*", "*/.env", "*/.env/*"]);
        assert_eq!(deny("*.pem"), ["*.pem", "*.pem/*"]);
        assert_eq!(allow("*/docs/*"), ["*/docs/*"]);
        assert_eq!(deny("*"), ["*"]);
        assert_eq!(allow("~ada/x"), ["/nowhere/site/~ada/x"]);
    }

    #[test]
    fn a_pattern_also_covers_where_its_links_lead() {
        let scratch = tempfile::tempdir().unwrap();
        let place = real_path(scratch.path());
        std::fs::create_dir_all(place.join("odd *name/sub")).unwrap();
        std::os::unix::fs::symlink("odd *name", place.join("link")).unwrap();
        let base = PathBase::new(&place);
        let at = Pattern::literal(&place.to_string_lossy());
        let expected = [format!("{at}/link/su*"), format!(r"{at}/odd \*name/su*")];
        assert_eq!(expanded("link/su*", Decision::Deny, &base), expected);
        assert_eq!(expanded(&format!("{at}/link/su*"), Decision::Allow, &base), expected);
    }

    #[test]
    fn earlier_spellings_cause_a_notice() {
        let scratch = tempfile::tempdir().unwrap();
        let place = real_path(scratch.path());
        std::fs::create_dir_all(place.join("etc")).unwrap();
        let base = PathBase::new(&place);
        let notice = |text: &str, decision| expand(&Pattern::parse(text).unwrap(), decision, &base).notice;
        let deny = notice("/no-such-private/*", Decision::Deny).unwrap();
        assert!(deny.contains("`./no-such-private/*`"), "{deny}");
        let allow = notice("/etc/*", Decision::Allow).unwrap();
        assert!(allow.contains("no longer allows"), "{allow}");
        assert_eq!(notice("/etc/*", Decision::Deny), None, "it exists, and the rule covers both paths");
        for plain in ["/usr/*", "*", "/*", "~/x", "./x", "x/*"] {
            assert_eq!(notice(plain, Decision::Allow), None, "{plain}");
        }
    }
}

//! How a rule's pattern is read where its subjects are paths.

use std::path::{Path, PathBuf};

use crate::real_path::real_path;
use crate::{Decision, Pattern};

/// What paths in rules are relative to.
///
/// ```
/// use prowess_permission::{Decision, Kind, PathBase, PermissionConfig, RealPath, Policy, RuleSource, Question};
///
/// let base = PathBase::new("/work/site").home("/home/ada");
/// let text = "[permission.read]\n'~/diary/*' = 'deny'\n'./drafts/*' = 'deny'\n";
/// let config = PermissionConfig::located(text, "prowess.toml", &[], &base)?;
/// let policy = Policy::new().with(RuleSource::User, config.rules);
/// for denied in ["/home/ada/diary/may.md", "/work/site/drafts/a.md"] {
///     let request = Question::about_place(Kind::READ, RealPath::elsewhere(denied));
///     assert_eq!(policy.evaluate(&request).decision, Decision::Deny);
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
    /// Relative patterns are from this directory.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), also: Vec::new(), home: None }
    }

    /// Rules that ask or deny are read from this directory as well.
    #[must_use]
    pub fn also(mut self, directory: impl Into<PathBuf>) -> Self {
        let directory = directory.into();
        if directory != self.directory {
            self.also.push(directory);
        }
        self
    }

    /// What `~` and `$HOME` stand for.
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

/// What a pattern of paths matches, and what a person should know about it.
pub(crate) struct Reading {
    pub(crate) patterns: Vec<Pattern>,
    pub(crate) notice: Option<String>,
}

/// Reads a pattern. A rule that asks or denies is read widely and one that allows narrowly, so that no spelling slips
/// past the first and none is opened by the second.
pub(crate) fn read(pattern: &Pattern, action: Decision, base: &PathBase) -> Reading {
    let text = pattern.as_str();
    let is_wide = action != Decision::Allow;
    let mut notice = None;
    let spelled: Vec<String> = match Form::of(text) {
        Form::Home(rest) => match &base.home {
            Some(home) => vec![below(home, rest)],
            None => vec![text.to_owned()],
        },
        Form::Absolute => {
            notice = old_reading(text, action, base);
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
    for text in spelled {
        let directory = Some(text.trim_end_matches('/')).filter(|directory| !directory.is_empty());
        let directory = directory.unwrap_or("/").to_owned();
        // A star at the end that is no star has a backslash before it; one pattern too many does no harm.
        let has_contents = directory.len() < text.len() || (is_wide && !text.ends_with('*'));
        let led = led_to(&directory);
        for text in [Some(directory), led].into_iter().flatten() {
            let contents = has_contents.then(|| format!("{}/*", text.trim_end_matches('/')));
            for text in [Some(text), contents].into_iter().flatten() {
                if !all.contains(&text) {
                    all.push(text);
                }
            }
        }
    }
    Reading { patterns: all.iter().map(|text| Pattern::compile(text)).collect(), notice }
}

/// How a pattern begins.
enum Form<'a> {
    /// `~`, `$HOME`, and what follows.
    Home(&'a str),
    /// `/etc/*`.
    Absolute,
    /// `./notes/*`, `../*`, `notes/*`.
    Relative,
    /// A name without a directory: `.env`.
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

/// A pattern below a directory, whose name is taken literally.
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

/// The same pattern where the links in its beginning lead, if that is elsewhere.
fn led_to(text: &str) -> Option<String> {
    let (literal, rest) = literal_start(text)?;
    let real = real_path(Path::new(&literal));
    let real = real.to_str()?;
    let real = Pattern::literal(real);
    let real = real.as_str();
    let led = match rest {
        "" => real.to_owned(),
        rest => format!("{}/{rest}", real.trim_end_matches('/')),
    };
    (led != text).then_some(led)
}

/// The whole directories that a pattern of absolute paths begins with, and the rest from the first wildcard's name on.
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

/// What to tell the person of a pattern that was from the working directory in earlier versions. It is told where the
/// machine has no such path, and of a rule that allows also where the working directory has one.
fn old_reading(text: &str, action: Decision, base: &PathBase) -> Option<String> {
    let first = text.trim_start_matches('/').split('/').next().unwrap_or_default();
    if first.is_empty() || first.contains(['*', '?', '\\']) {
        return None;
    }
    let is_there = |directory: &Path| std::fs::symlink_metadata(directory.join(first)).is_ok();
    let is_absolute = is_there(Path::new("/"));
    let is_below = is_there(&base.directory);
    let is_wide = action != Decision::Allow;
    if is_absolute && (is_wide || !is_below) {
        return None;
    }
    let old = below(&base.directory, text);
    let new = format!(".{text}");
    Some(if is_wide {
        format!(
            "`{text}` = \"{action}\" is an absolute path. It also binds `{old}`, as it did before; write `{new}` for that"
        )
    } else {
        format!(
            "`{text}` = \"allow\" is an absolute path. It no longer allows `{old}`; write `{new}` for that"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_as(text: &str, action: Decision, base: &PathBase) -> Vec<String> {
        let pattern = Pattern::parse(text).unwrap();
        read(&pattern, action, base).patterns.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn each_form_has_its_reading() {
        let base = PathBase::new("/nowhere/site").also("/nowhere/site/sub").home("/nowhere/ada");
        let deny = |text| read_as(text, Decision::Deny, &base);
        let allow = |text| read_as(text, Decision::Allow, &base);
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
    fn what_a_link_leads_to_is_bound_as_well() {
        let scratch = tempfile::tempdir().unwrap();
        let place = real_path(scratch.path());
        std::fs::create_dir_all(place.join("odd *name/sub")).unwrap();
        std::os::unix::fs::symlink("odd *name", place.join("link")).unwrap();
        let base = PathBase::new(&place);
        let at = Pattern::literal(&place.to_string_lossy());
        let expected = [format!("{at}/link/su*"), format!(r"{at}/odd \*name/su*")];
        assert_eq!(read_as("link/su*", Decision::Deny, &base), expected);
        assert_eq!(read_as(&format!("{at}/link/su*"), Decision::Allow, &base), expected);
    }

    #[test]
    fn old_spellings_are_told() {
        let scratch = tempfile::tempdir().unwrap();
        let place = real_path(scratch.path());
        std::fs::create_dir_all(place.join("etc")).unwrap();
        let base = PathBase::new(&place);
        let told = |text: &str, action| read(&Pattern::parse(text).unwrap(), action, &base).notice;
        let deny = told("/no-such-private/*", Decision::Deny).unwrap();
        assert!(deny.contains("`./no-such-private/*`"), "{deny}");
        let allow = told("/etc/*", Decision::Allow).unwrap();
        assert!(allow.contains("no longer allows"), "{allow}");
        assert_eq!(told("/etc/*", Decision::Deny), None, "it is there, and bound both ways");
        for plain in ["/usr/*", "*", "/*", "~/x", "./x", "x/*"] {
            assert_eq!(told(plain, Decision::Allow), None, "{plain}");
        }
    }
}

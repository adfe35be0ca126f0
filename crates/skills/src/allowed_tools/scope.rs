//! Scopes of listed tools, such as `git:*` in `Bash(git:*)`.

use prowess_permission::Pattern;

use super::shell::simple_commands;
use super::table::ScopeKind;
use super::{CheckedCall, CommandForm};
use crate::options::in_project;

/// The longest scope, in characters.
const MAX_SCOPE_CHARS: usize = 256;
/// The longest argument that a wildcard covers, in bytes.
const MAX_ARGUMENT_BYTES: usize = 64 * 1024;
/// What a scope for a host begins with.
const DOMAIN: &str = "domain:";
/// The characters that a shell expands or removes.
const SHELL_SYNTAX: [char; 14] = ['\'', '"', '\\', '$', '~', '{', '}', '[', ']', '*', '?', '(', ')', '!'];
/// The names of the skill's directory in scopes.
const SKILL_DIRECTORY: [&str; 3] = ["${SKILL_DIR}", "${CLAUDE_SKILL_DIR}", "{baseDir}"];
/// Programs that run the file that their first argument names.
const INTERPRETERS: [&str; 9] = ["python", "python3", "node", "bash", "sh", "ruby", "perl", "php", "Rscript"];

/// A listed tool: a name, perhaps with a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ListedEntry<'a> {
    pub(super) name: &'a str,
    pub(super) scope: Option<&'a str>,
}

impl<'a> ListedEntry<'a> {
    /// Parses an entry of `allowed-tools`. `None` if a parenthesis is open.
    pub(super) fn parse(listed: &'a str) -> Option<Self> {
        match listed.split_once('(') {
            Some((name, scope)) => {
                Some(Self { name: name.trim(), scope: Some(scope.strip_suffix(')')?.trim()) })
            }
            None => Some(Self { name: listed.trim(), scope: None }),
        }
    }

    /// Whether it covers every argument.
    pub(super) fn is_for_all(self) -> bool {
        self.scope.is_none_or(|scope| matches!(scope, "*" | ":*" | "**"))
    }

    /// Whether the scope covers the argument of a call.
    pub(super) fn covers_argument(self, call: CheckedCall<'_>, kind: ScopeKind) -> bool {
        if self.is_for_all() {
            return true;
        }
        let scope = self.scope.unwrap_or_default();
        let Some(argument) = call.argument.map(str::trim).filter(|_| !scope.is_empty()) else { return false };
        if argument.len() > MAX_ARGUMENT_BYTES || scope.chars().count() > MAX_SCOPE_CHARS {
            return false;
        }
        match kind {
            ScopeKind::Command => covers_line(scope, argument, call),
            ScopeKind::Host => covers_host(scope, argument),
            ScopeKind::Path => covers_path(scope, argument, call.project_paths),
            ScopeKind::Name => covers_text(scope, argument),
        }
    }
}

/// Whether a scope covers a command line: it spells out the line, or covers each of its simple commands.
fn covers_line(scope: &str, line: &str, call: CheckedCall<'_>) -> bool {
    let is_spelled_out = scope == line && (call.form == CommandForm::Plain || !scope.contains('/'));
    let is_covered =
        |commands: Vec<&str>| commands.into_iter().all(|command| covers_command(scope, command, call));
    call.form != CommandForm::Changed && (is_spelled_out || simple_commands(line).is_some_and(is_covered))
}

/// Whether a scope covers a simple command. `git:*` covers `git` with any arguments; any other scope is a pattern.
fn covers_command(scope: &str, command: &str, call: CheckedCall<'_>) -> bool {
    if let Some(prefix) = scope.strip_suffix(":*") {
        let prefix = prefix.trim_end();
        return match prefix.contains(['*', '/']) {
            true => covers_words(prefix, command, Rest::Any, call),
            false => command
                .strip_prefix(prefix)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t'])),
        };
    }
    match scope.contains('/') {
        true => covers_words(scope, command, Rest::OfProgram, call),
        false => covers_text(scope, command),
    }
}

/// Which words may follow those that a scope covers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    Any,
    /// Arguments of the program that the scope's last word names, and nothing for other words.
    OfProgram,
}

/// Whether a scope covers the first words of a command, word by word. Quotes and shell patterns could hide another path, so
/// these words have none.
fn covers_words(scope: &str, command: &str, rest: Rest, call: CheckedCall<'_>) -> bool {
    let (scope_words, words): (Vec<&str>, Vec<&str>) =
        (scope.split_whitespace().collect(), command.split_whitespace().collect());
    let covers_word = |(scope, word): (&&str, &&str)| {
        let is_plain = !climbs(word) && !word.contains(SHELL_SYNTAX);
        is_plain && own_path(scope, word, call).is_some_and(|(scope, word)| covers_text(scope, word))
    };
    let is_program = match scope_words.as_slice() {
        [_] => true,
        [first, _] => INTERPRETERS.contains(first),
        _ => false,
    };
    let may_go_on = rest == Rest::Any || is_program || words.len() == scope_words.len();
    may_go_on && words.len() >= scope_words.len() && scope_words.iter().zip(&words).all(covers_word)
}

/// A word of a scope and a word of a command. If they are paths in the skill's directory, they are relative to it. `None` if
/// the command runs elsewhere, where a relative path is another file.
fn own_path<'a>(scope: &'a str, word: &'a str, call: CheckedCall<'_>) -> Option<(&'a str, &'a str)> {
    if !scope.contains('/') {
        return Some((scope, word));
    }
    let below = |text: &'a str, directory: &str| text.strip_prefix(directory)?.strip_prefix('/');
    let named = SKILL_DIRECTORY.iter().find_map(|name| below(scope, name)).unwrap_or(scope);
    match call.directory.and_then(|directory| below(word, directory)) {
        Some(own) => Some((named.trim_start_matches("./"), own)),
        None if call.form == CommandForm::Elsewhere => None,
        None => Some((named, word)),
    }
}

/// Whether a scope covers a path. Both may begin with a path of the project, `/` or `./`: they are relative to the files that
/// the agent works on.
fn covers_path(scope: &str, path: &str, project_paths: &[String]) -> bool {
    // These are paths elsewhere on the machine.
    if scope.starts_with("//") || scope.starts_with('~') || climbs(path) || path.contains(['\n', '\r', '\0'])
    {
        return false;
    }
    let relative = |path: &str| {
        in_project(project_paths, path).trim_start_matches("./").trim_start_matches('/').to_owned()
    };
    let (scope, path) = (relative(scope), relative(path));
    scope == path || covers_text(&scope.replace("**", "*"), &path)
}

/// Whether a scope covers the host of an address, or a host itself.
fn covers_host(scope: &str, address: &str) -> bool {
    let Some(domain) = scope.strip_prefix(DOMAIN) else {
        return !climbs(address) && covers_text(scope, address);
    };
    let host = match address.split_once("://") {
        Some(("http" | "https", rest)) => rest.split(['/', '?', '#']).next().unwrap_or_default(),
        Some(_) => return false,
        None => address,
    };
    // What stands before an `@` is a user, and what follows a `:` is a port.
    if host.contains(['@', '\\', '*']) {
        return false;
    }
    let (host, port) = host.split_once(':').unwrap_or((host, "443"));
    if !matches!(port, "443" | "80") {
        return false;
    }
    let host = host.to_ascii_lowercase();
    let domain = domain.trim().to_ascii_lowercase();
    match domain.strip_prefix("*.") {
        Some(above) => host.strip_suffix(above).is_some_and(|sub| sub.len() > 1 && sub.ends_with('.')),
        None => host == domain,
    }
}

/// Whether a text matches a pattern.
fn covers_text(pattern: &str, text: &str) -> bool {
    Pattern::parse(pattern).is_ok_and(|pattern| pattern.matches(text))
}

fn climbs(text: &str) -> bool {
    text.split(['/', '\\', ' ']).any(|part| part == "..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covered(scope: &str, argument: &str, kind: ScopeKind, form: CommandForm) -> bool {
        let entry = format!("X({scope})");
        let project = ["/project", "/home/ada/site"].map(str::to_owned);
        let call = CheckedCall::new("x").argument(argument).form(form).directory("/skills/own");
        let call = CheckedCall { project_paths: &project, ..call };
        ListedEntry::parse(&entry).is_some_and(|entry| entry.covers_argument(call, kind))
    }

    fn command(scope: &str, argument: &str) -> bool {
        covered(scope, argument, ScopeKind::Command, CommandForm::Plain)
    }

    #[test]
    fn scopes_bind_words_and_not_letters() {
        for (scope, argument, covers) in [
            ("git:*", "git", true),
            ("git:*", "git status", true),
            ("git:*", "gitk", false),
            ("git:*", "GIT_SSH_COMMAND=x git status", false),
            ("git status", "git status", true),
            ("git status", "git status -s", false),
            ("git status *", "git status -s", true),
            ("npm run test:*", "npm run test --all", true),
            ("./src/*", "./src/main.rs", true),
            ("cat src/*", "cat src/{.,}./{.,}./etc/passwd", false),
            ("*", "anything; at all", true),
            ("", "anything", false),
            ("cat src/*", "cat src/a", true),
            ("cat src/*", "cat src/a /etc/shadow", false),
            ("cat src/*", "cat src/.\\./x", false),
            ("cat src/*", "cat src/\"..\"/x", false),
            ("git:*", "git commit -m \"a b\"", true),
            ("python3 scripts/*", "python3 scripts/a.py", true),
            ("python3 scripts/*", "python3 scripts/a.py --in 'a b' x/../y", true),
            ("python3 scripts/*", "python3 scripts/../evil.py", false),
            ("python3 scripts/*", "python3 -c 1 scripts/a.py", false),
            ("python3 scripts/*", "python3 \"scripts/../evil.py\"", false),
            ("python3 scripts/*:*", "python3 scripts/a.py x", true),
            ("scripts/*.sh", "scripts/a.sh x y", true),
            ("scripts/a.sh:*", "scripts/a.sh x", true),
            ("scripts/a.sh:*", "scripts/a.sh.evil x", false),
            ("python3 scripts/*", "python3 /skills/own/scripts/a.py x", true),
            ("python3 scripts/*", "python3 /skills/other/scripts/a.py", false),
            ("python3 scripts/*", "python3 /skills/own/../other/scripts/a.py", false),
            ("python3 ${SKILL_DIR}/scripts/*", "python3 /skills/own/scripts/a.py", true),
            ("python3 {baseDir}/scripts/*", "python3 scripts/a.py", true),
            ("python3 {baseDir}/scripts/*", "python3 evil/scripts/a.py", false),
        ] {
            assert_eq!(command(scope, argument), covers, "{scope} {argument}");
        }
    }

    #[test]
    fn each_simple_command_must_be_covered() {
        for argument in [
            "git status; rm -rf /",
            "git status && rm x",
            "git log | sh",
            "git `rm x`",
            "git $(rm x)",
            "git a\nrm x",
            "git log > /etc/x",
            "git log & rm x",
        ] {
            assert!(!command("git:*", argument) && !command("git *", argument), "{argument}");
        }
        assert!(command("git:*", "git add . && git commit -m 'x; y' | git log"));
        assert!(command("git log | wc -l", "git log | wc -l"), "spelled out in full");
    }

    #[test]
    fn a_command_with_another_meaning_needs_an_entry_for_all() {
        for (scope, form, covers) in [
            ("git:*", CommandForm::Plain, true),
            ("git:*", CommandForm::Elsewhere, true),
            ("git:*", CommandForm::Changed, false),
            ("git x/y", CommandForm::Plain, true),
            ("git x/y", CommandForm::Elsewhere, false),
            ("*", CommandForm::Changed, true),
        ] {
            assert_eq!(covered(scope, "git x/y", ScopeKind::Command, form), covers, "{scope} {form:?}");
        }
    }

    #[test]
    fn a_path_in_the_directory_of_the_skill_is_the_same_everywhere() {
        let elsewhere =
            |command: &str| covered("python3 scripts/*", command, ScopeKind::Command, CommandForm::Elsewhere);
        assert!(elsewhere("python3 /skills/own/scripts/a.py") && !elsewhere("python3 scripts/a.py"));
    }

    #[test]
    fn paths_do_not_climb() {
        for (scope, argument, covers) in [
            ("src/*", "src/main.rs", true),
            ("src/*", "/src/main.rs", true),
            ("./src/**", "/src/a/main.rs", true),
            ("/src/**", "src/a/main.rs", true),
            ("src/*", "/project/src/main.rs", true),
            ("src/*", "/home/ada/site/src/main.rs", true),
            ("src/*", "/home/ada/site2/src/main.rs", false),
            ("/project/src/**", "/home/ada/site/src/main.rs", true),
            ("/home/ada/site/src/**", "/project/src/main.rs", true),
            ("/project/src/**", "src/main.rs", true),
            ("home/**", "/home/ada/site/src/main.rs", false),
            ("src/*", "src/../../etc/passwd", false),
            ("*.md", "notes/today.md", true),
            ("*.md", "../../../etc/x.md", false),
            ("src*", "src/../../etc/passwd", false),
            ("docs/:*", "docs/ ../../etc/shadow", false),
            ("//etc/*", "/etc/hosts", false),
            ("~/x", "~/x", false),
        ] {
            assert_eq!(
                covered(scope, argument, ScopeKind::Path, CommandForm::Plain),
                covers,
                "{scope} {argument}"
            );
        }
    }

    #[test]
    fn a_domain_is_a_host_and_not_a_part_of_an_address() {
        for (scope, argument, covers) in [
            ("domain:example.com", "example.com", true),
            ("domain:example.com", "Example.com:443", true),
            ("domain:example.com", "https://example.com/a?b", true),
            ("domain:example.com", "example.com:22", false),
            ("domain:example.com", "docs.example.com", false),
            ("domain:example.com", "*.example.com", false),
            ("domain:*.example.com", "docs.example.com", true),
            ("domain:*.example.com", "example.com", false),
            ("domain:*.example.com", "evilexample.com", false),
            ("domain:example.com", "https://evil.org/example.com", false),
            ("domain:example.com", "https://example.com@evil.org/", false),
            ("domain:example.com", "https://evil.org#example.com", false),
            ("domain:example.com", "ftp://example.com/", false),
            ("https://good.example/*", "https://good.example/a", true),
        ] {
            assert_eq!(
                covered(scope, argument, ScopeKind::Host, CommandForm::Plain),
                covers,
                "{scope} {argument}"
            );
        }
    }
}

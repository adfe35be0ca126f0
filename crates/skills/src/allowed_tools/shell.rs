//! Splits a command line into simple commands, as far as that is certain.

/// The simple commands of a command line, in which `;`, `&&`, `||`, `|` or newlines separate them.
///
/// `None` if a shell could see anything else in it: another command, a redirection, a comment, a function, an open quote.
/// Bash and a plain `sh` agree about all text that this accepts.
pub(super) fn simple_commands(line: &str) -> Option<Vec<&str>> {
    let mut commands = Commands { line, start: 0, found: Vec::new() };
    let mut quote = None;
    let mut starts_word = true;
    let mut chars = line.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let is_first = std::mem::take(&mut starts_word);
        match (quote, c) {
            (_, '\0' | '\r') => return None,
            (Some('\''), '\'') | (Some('"'), '"') => quote = None,
            (Some('\''), _) => {}
            // Outside of single quotes these run commands.
            (_, '`') => return None,
            (_, '$') if !next.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_') => return None,
            (_, '\\') => {
                // Before a newline it joins two lines.
                chars.next().filter(|(_, escaped)| !matches!(escaped, '\n' | '\r' | '\0'))?;
            }
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '<' | '>' | '(' | ')') => return None,
            (None, '#') if is_first => return None,
            (None, ' ' | '\t') => starts_word = true,
            (None, '\n') => {
                commands.end_line(at);
                starts_word = true;
            }
            (None, ';' | '&' | '|') => {
                let is_double = next == Some(c) && c != ';';
                // A single `&` starts a command in the background.
                if c == '&' && !is_double {
                    return None;
                }
                if is_double {
                    chars.next();
                }
                commands.end(at, if is_double { 2 } else { 1 })?;
                starts_word = true;
            }
            (None, _) => {}
        }
    }
    if quote.is_some() {
        return None;
    }
    commands.end(line.len(), 0)?;
    Some(commands.found)
}

/// The commands of a line up to `start`.
struct Commands<'a> {
    line: &'a str,
    start: usize,
    found: Vec<&'a str>,
}

impl<'a> Commands<'a> {
    /// Ends a command before an operator of this length. `None` if it is empty.
    fn end(&mut self, at: usize, operator: usize) -> Option<()> {
        let command = self.take(at, operator);
        (!command.is_empty()).then(|| self.found.push(command))
    }

    /// Ends a command at a newline. Empty lines do nothing.
    fn end_line(&mut self, at: usize) {
        let command = self.take(at, 1);
        if !command.is_empty() {
            self.found.push(command);
        }
    }

    fn take(&mut self, at: usize, operator: usize) -> &'a str {
        let command = self.line[self.start..at].trim_matches([' ', '\t', '\n']);
        self.start = at + operator;
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_separate_commands_and_quotes_hide_operators() {
        for (line, commands) in [
            ("git status", &["git status"][..]),
            ("git add . && git commit -m 'a; b' || true", &["git add .", "git commit -m 'a; b'", "true"]),
            ("git log | wc -l; ls", &["git log", "wc -l", "ls"]),
            ("git a\n\n  git b", &["git a", "git b"]),
            ("echo \"a | b\" a\\;b x#y $HOME", &["echo \"a | b\" a\\;b x#y $HOME"]),
        ] {
            assert_eq!(simple_commands(line).as_deref(), Some(commands), "{line}");
        }
    }

    #[test]
    fn what_is_not_certain_is_nothing() {
        for line in [
            "git $(rm x)",
            "git \"$(rm x)\"",
            "git `rm x`",
            "git \"`rm x`\"",
            "git ${x:-y}",
            "git $'\\''; rm x; echo '",
            "git $\"x\"",
            "git a & rm x",
            "git a |& rm x",
            "git a > x",
            "git a < x",
            "git a <<x\nrm\nx",
            "(git a)",
            "git() { rm x; }",
            "git a # '\nrm x #'",
            "git a \\\nb",
            "git 'a",
            "git \"a",
            "git a\\",
            "git a;; git b",
            "git a &&",
            "; git a",
            "git a\rrm x",
            "git a\0",
            "",
            "  ",
        ] {
            assert_eq!(simple_commands(line), None, "{line:?}");
        }
    }
}

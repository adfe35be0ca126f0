//! Splits `allowed-tools` into names, each with an optional scope in parentheses.

/// The result of splitting a list of tools.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tools {
    pub(crate) tools: Vec<String>,
    /// Whether commas separate them.
    pub(crate) commas: bool,
}

/// Splits `text` at blanks and commas that are not inside parentheses.
pub(crate) fn split(text: &str) -> Tools {
    let balanced = {
        let mut depth = 0_i64;
        text.bytes().all(|byte| {
            depth += i64::from(byte == b'(') - i64::from(byte == b')');
            depth >= 0
        }) && depth == 0
    };
    let mut tools = Vec::new();
    let mut commas = false;
    let mut depth = 0_usize;
    let mut start = 0;
    let mut take = |range: std::ops::Range<usize>| {
        let tool = text[range].trim();
        if !tool.is_empty() {
            tools.push(tool.to_owned());
        }
    };
    for (at, c) in text.char_indices() {
        match c {
            '(' if balanced => depth += 1,
            ')' if balanced => depth -= 1,
            c if depth == 0 && (c == ',' || c.is_whitespace()) => {
                commas |= c == ',';
                take(start..at);
                start = at + c.len_utf8();
            }
            _ => {}
        }
    }
    take(start..text.len());
    Tools { tools, commas }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tools(text: &str) -> Vec<String> {
        split(text).tools
    }

    #[test]
    fn blanks_and_commas_separate_and_scopes_stay_whole() {
        assert_eq!(
            tools("Bash(git add:*) Bash(git diff --stat *) Read"),
            ["Bash(git add:*)", "Bash(git diff --stat *)", "Read"]
        );
        assert_eq!(tools("Bash(npm run *), Bash(node:*),Read"), ["Bash(npm run *)", "Bash(node:*)", "Read"]);
        assert!(split("a, b").commas && !split("Bash(a, b)").commas);
        assert_eq!(tools(" , "), Vec::<String>::new());
    }

    #[test]
    fn unbalanced_parentheses_do_not_swallow_the_rest() {
        assert_eq!(tools("Bash(git Read"), ["Bash(git", "Read"]);
        assert_eq!(tools("a) (b"), ["a)", "(b"]);
    }
}

//! Lines that download or decode a program and run it.

use std::sync::LazyLock;

use regex::Regex;

use super::kind::HiddenKind;
use super::{Findings, Line};

/// The most bytes of lines that are joined because one continues the other.
const MAX_JOINED_BYTES: usize = 16 * 1024;

/// What starts a program from its standard input.
const RUN: &str = r"(?:sudo\s+(?:-\S+\s+)*)?(?:env\s+(?:\S+=\S*\s+)*)?(?:\S*/)?(?:(?:ba|z|da|k|fi|a)?sh|python[0-9.]*|perl|ruby|node|php|iex|invoke-expression|source)\b";
/// What fetches a file.
const FETCH: &str = r"\b(?:curl|wget|iwr|irm|invoke-webrequest|invoke-restmethod)\b";

/// The words of [`FETCH`].
const FETCHERS: &[&str] = &["curl", "wget", "iwr", "irm", "invoke-"];

/// A pattern, and texts that every match has: one of `first` and one of `second`. Looking for them is much faster.
struct Pattern {
    first: &'static [&'static str],
    second: &'static [&'static str],
    regex: Regex,
}

static PATTERNS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let patterns: [(&[&str], &[&str], String); 7] = [
        // curl … | sh, also with other programs between them
        (FETCHERS, &["|"], format!(r"{FETCH}.*\|\s*{RUN}")),
        // sh -c "$(curl …)", python -c "$(curl …)", bash <(curl …), eval `curl …`
        (
            &["curl", "wget"],
            &["$(", "<(", "`"],
            r"(?:\b(?:(?:ba|z|da|k|fi|a)?sh|python[0-9.]*|perl|ruby|node|php|eval|source|exec)\b|(?:^|\s)\.\s).*(?:\$\(|<\(|`)\s*(?:curl|wget)\b"
                .to_owned(),
        ),
        // iex (irm …), iex ((New-Object Net.WebClient).DownloadString(…))
        (
            &["iex", "invoke-expression"],
            &["curl", "wget", "iwr", "irm", "invoke-", "download"],
            format!(r"\b(?:iex|invoke-expression)\b.*(?:{FETCH}|download(?:string|file|data))"),
        ),
        // base64 -d | sh, xxd -r | sh
        (
            &["base64", "xxd"],
            &["|"],
            format!(r"\b(?:base64\s.*-{{1,2}}d|xxd\s.*-r|openssl\s.*base64).*\|\s*{RUN}"),
        ),
        // curl -o x … && sh x
        (
            FETCHERS,
            &["&&", ";"],
            format!(r"{FETCH}.*(?:&&|;)\s*(?:sudo\s+)?(?:chmod\s+\S*[x7]|(?:ba|z|da)?sh\s|\./)"),
        ),
        // exec(base64.b64decode(…)), eval(atob(…))
        (
            &["exec", "eval", "system"],
            &["b64decode", "atob", "base64"],
            r"\b(?:exec|eval|system)\s*\(.*(?:b64decode|atob\s*\(|base64)".to_owned(),
        ),
        // powershell -enc …
        (&["powershell", "pwsh"], &["-enc"], r"\b(?:powershell|pwsh)\S*\s.*-enc\w*\s+\S{16}".to_owned()),
    ];
    // The patterns are constant, and a test matches each of them.
    let compiled = patterns.into_iter().filter_map(|(first, second, pattern)| {
        let regex = Regex::new(&format!("(?i){pattern}")).ok()?;
        Some(Pattern { first, second, regex })
    });
    compiled.collect()
});

impl Pattern {
    /// Where the pattern matches. `lower` is the text in lower case.
    fn find(&self, text: &str, lower: &str) -> Option<usize> {
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        if !has(self.first) || !has(self.second) {
            return None;
        }
        self.regex.find(text).map(|found| found.start())
    }
}

/// The lines of the command that the last line is part of.
#[derive(Default)]
pub(super) struct Commands {
    text: String,
    /// Where each line starts in the text, with its number.
    lines: Vec<(usize, usize)>,
}

impl Commands {
    pub(super) fn scan(&mut self, line: Line<'_>, findings: &mut Findings<'_>) {
        let (before, text) = (self.text.trim_end(), line.text.trim_start());
        let is_next = ["\\", "|", "&&"].iter().any(|end| before.ends_with(end)) || text.starts_with('|');
        if !is_next || self.text.len() + line.text.len() > MAX_JOINED_BYTES {
            self.finish(findings);
        }
        if self.text.ends_with('\\') {
            self.text.pop();
        }
        self.lines.push((self.text.len(), line.number));
        self.text.push_str(line.text);
    }

    /// Looks at the command that the last lines were.
    pub(super) fn finish(&mut self, findings: &mut Findings<'_>) {
        let text = std::mem::take(&mut self.text);
        let lines = std::mem::take(&mut self.lines);
        let lower = text.to_ascii_lowercase();
        let Some(at) = PATTERNS.iter().find_map(|pattern| pattern.find(&text, &lower)) else { return };
        findings.add_at(HiddenKind::DownloadAndRun, || {
            let index = lines.partition_point(|(start, _)| *start <= at).saturating_sub(1);
            let (start, line) = lines.get(index).copied().unwrap_or_default();
            (line, text[start..at].chars().count() + 1, text[at..].to_owned())
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_patterns_are_valid() {
        assert_eq!(PATTERNS.len(), 7);
    }
}

//! Rules from a TOML configuration.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::nearest::did_you_mean;
use crate::text::{escaped_start, spaced_line};
use crate::{Decision, Kind, PathBase, Pattern, Rule};

/// The largest configuration file, in bytes.
pub const MAX_CONFIG_BYTES: usize = 1 << 20;
/// The most warnings about one file.
const MAX_WARNINGS: usize = 20;

/// The rules of one configuration file, in the order of the file.
///
/// ```
/// use prowess_permission::PermissionConfig;
///
/// let config = PermissionConfig::parse(
///     r#"
///     [permission]
///     skill = "allow"            # a kind with one decision
///     [permission.run]           # or a decision for each pattern; the last match wins
///     "*" = "ask"
///     "git status *" = "allow"
///     [agent.reviewer.permission]
///     write = "deny"
///     "#,
///     "prowess.toml",
/// )
/// .unwrap();
/// assert_eq!(config.rules.len(), 3);
/// assert_eq!(config.agents["reviewer"].len(), 1);
///
/// let error = PermissionConfig::parse("permission.run = \"alow\"", "prowess.toml").unwrap_err();
/// assert_eq!(error.to_string(), "prowess.toml:1:18: `alow` is not a decision; did you mean `allow`?");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PermissionConfig {
    /// The rules for every agent.
    pub rules: Vec<Rule>,
    /// The rules for single agents, by name.
    pub agents: BTreeMap<String, Vec<Rule>>,
    /// Kinds that are probably misspelled, and path patterns with another meaning in earlier versions. They are not errors,
    /// because embedders can add kinds.
    pub warnings: Vec<ConfigError>,
}

/// A mistake in a configuration file, and its place.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
#[non_exhaustive]
pub struct ConfigError {
    /// The file, as the caller named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong and how to fix it.
    pub message: String,
}

impl PermissionConfig {
    /// Parses the rules in `text`, which contains only permissions. Errors call the text `file`.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        Self::from_document(text, file, &[])
    }

    /// Parses the rules in `text` and ignores the keys in `others`: `model` stands for a top-level key, `agent.*.model` for a
    /// key of every agent.
    pub fn from_document(text: &str, file: &str, others: &[&str]) -> Result<Self, ConfigError> {
        Self::read(text, file, others, None)
    }

    /// Like [`PermissionConfig::from_document`], and expands path patterns from `base`. To follow links, it reads the file
    /// system.
    pub fn located(text: &str, file: &str, others: &[&str], base: &PathBase) -> Result<Self, ConfigError> {
        Self::read(text, file, others, Some(base))
    }

    fn read(text: &str, file: &str, others: &[&str], base: Option<&PathBase>) -> Result<Self, ConfigError> {
        if text.len() > MAX_CONFIG_BYTES {
            let message = format!("the file is larger than {MAX_CONFIG_BYTES} bytes; shorten it");
            return Err(Problem { at: 0, message }.in_file(text, file));
        }
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let mut message = spaced_line(error.message());
            if message.contains("duplicate key") {
                message.push_str(
                    "; a kind has one decision or one table; in a table, the pattern `\"*\"` covers all subjects",
                );
            }
            Problem { at, message }.in_file(text, file)
        })?;
        let mut reader = Reader { others, base, problems: Vec::new(), warnings: Vec::new() };
        let config = reader.document(table.get_ref());
        // The parser does not keep the order of tables. Report the first problem in the file.
        match reader.problems.into_iter().min_by_key(|problem| problem.at) {
            Some(problem) => Err(problem.in_file(text, file)),
            None => {
                reader.warnings.sort_by_key(|warning| warning.at);
                let warnings = reader.warnings.into_iter().map(|warning| warning.in_file(text, file));
                Ok(Self { warnings: warnings.collect(), ..config })
            }
        }
    }
}

/// A mistake at a byte offset.
struct Problem {
    at: usize,
    message: String,
}

impl Problem {
    fn in_file(self, text: &str, file: &str) -> ConfigError {
        let before = &text[..text.floor_char_boundary(self.at)];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ConfigError {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: self.message,
        }
    }
}

/// Walks the document and collects its mistakes.
struct Reader<'a> {
    others: &'a [&'a str],
    base: Option<&'a PathBase>,
    problems: Vec<Problem>,
    warnings: Vec<Problem>,
}

impl Reader<'_> {
    fn document(&mut self, table: &DeTable<'_>) -> PermissionConfig {
        let mut config = PermissionConfig::default();
        for (key, value) in table {
            match key.get_ref().as_ref() {
                "permission" => config.rules = self.rules("permission", value),
                "agent" => self.agents(value, &mut config.agents),
                other if self.others.contains(&other) => {}
                other => self.unknown_key(key.span().start, other, "", &["permission", "agent"]),
            }
        }
        config
    }

    fn agents(&mut self, value: &Spanned<DeValue<'_>>, agents: &mut BTreeMap<String, Vec<Rule>>) {
        let Some(table) = self.table(value, "agent", "a table for each agent") else { return };
        for (name, value) in table {
            let place = format!("agent.{}", escaped_start(name.get_ref()));
            let Some(table) = self.table(value, &place, "a table") else { continue };
            for (key, value) in table {
                match key.get_ref().as_ref() {
                    "permission" => {
                        let rules = self.rules(&format!("{place}.permission"), value);
                        agents.insert(name.get_ref().to_string(), rules);
                    }
                    other if self.others.contains(&format!("agent.*.{other}").as_str()) => {}
                    other => {
                        let others = self.others.iter().filter_map(|other| other.strip_prefix("agent.*."));
                        let known: Vec<&str> = ["permission"].into_iter().chain(others).collect();
                        self.unknown_key(key.span().start, other, &place, &known);
                    }
                }
            }
        }
    }

    fn rules(&mut self, place: &str, value: &Spanned<DeValue<'_>>) -> Vec<Rule> {
        let Some(kinds) = self.table(value, place, "a table of kinds") else { return Vec::new() };
        let mut rules = Vec::new();
        for (kind, value) in kinds {
            let Some(parsed) = self.kind(kind.span().start, kind.get_ref()) else { continue };
            match value.get_ref() {
                DeValue::Table(patterns) => {
                    for (pattern, value) in patterns {
                        let at = pattern.span().start;
                        match (Pattern::parse(pattern.get_ref()), self.decision(value)) {
                            (Ok(pattern), Some(decision)) => {
                                let rule = Rule::of(parsed.clone(), pattern, decision);
                                rules.push((at, self.located(at, rule)));
                            }
                            (Err(error), _) => self.problem(at, error.to_string()),
                            (Ok(_), None) => {}
                        }
                    }
                }
                _ => {
                    if let Some(decision) = self.decision(value) {
                        let at = kind.span().start;
                        rules.push((at, self.located(at, Rule::of(parsed, Pattern::any(), decision))));
                    }
                }
            }
        }
        // Restore the order of the file, even if its tables are nested or split.
        rules.sort_by_key(|(at, _)| *at);
        rules.into_iter().map(|(_, rule)| rule).collect()
    }

    /// The rule with its path pattern expanded, if there is a base.
    fn located(&mut self, at: usize, rule: Rule) -> Rule {
        let Some(base) = self.base else { return rule };
        let (rule, notice) = rule.located(base);
        if let Some(notice) = notice {
            self.warn(at, notice);
        }
        rule
    }

    /// A kind, or a pattern of kinds.
    fn kind(&mut self, at: usize, text: &str) -> Option<Pattern> {
        let is_pattern = text.contains(['*', '?']);
        let word: String = text.chars().filter(|c| !matches!(c, '*' | '?')).collect();
        if let Err(error) = Kind::parse(if is_pattern && word.is_empty() { "any" } else { &word }) {
            let message = if is_pattern {
                format!(
                    "`{}` is not a pattern of kinds; use lowercase letters, digits, `-`, `_`, `.`, `*` and `?`",
                    escaped_start(text)
                )
            } else {
                error.to_string()
            };
            self.problem(at, message);
            return None;
        }
        if !is_pattern
            && !Kind::KNOWN.contains(&text)
            && let Some(known) = did_you_mean(text, Kind::KNOWN)
        {
            let message = format!("`{text}` is not a built-in kind; did you mean `{known}`?");
            self.warn(at, message);
        }
        Some(Pattern::compile(text))
    }

    fn decision(&mut self, value: &Spanned<DeValue<'_>>) -> Option<Decision> {
        let at = value.span().start;
        match value.get_ref() {
            DeValue::String(text) => match text.parse() {
                Ok(decision) => return Some(decision),
                Err(error) => self.problem(at, crate::decision::DecisionError::to_string(&error)),
            },
            other => {
                let found = article(other.type_str());
                self.problem(at, format!("expected \"allow\", \"ask\" or \"deny\", but found {found}"));
            }
        }
        None
    }

    fn table<'t, 'i>(
        &mut self,
        value: &'t Spanned<DeValue<'i>>,
        place: &str,
        expected: &str,
    ) -> Option<&'t DeTable<'i>> {
        let table = value.get_ref().as_table();
        if table.is_none() {
            let found = article(value.get_ref().type_str());
            self.problem(value.span().start, format!("`{place}` must be {expected}, but is {found}"));
        }
        table
    }

    fn unknown_key(&mut self, at: usize, key: &str, place: &str, known: &[&str]) {
        let here = if place.is_empty() { String::new() } else { format!(" in `{place}`") };
        let hint = match did_you_mean(key, known.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("expected `{}`", known.join("` or `")),
        };
        self.problem(at, format!("unknown key `{}`{here}; {hint}", escaped_start(key)));
    }

    fn warn(&mut self, at: usize, message: String) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(Problem { at, message });
        }
    }

    fn problem(&mut self, at: usize, message: String) {
        self.problems.push(Problem { at, message });
    }
}

fn article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {noun}")
}

//! Rules from TOML.

use std::collections::BTreeMap;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::suggest::did_you_mean;
use crate::text::{one_line, shown};
use crate::{Decision, Kind, PathBase, Pattern, Rule};

/// The largest configuration that is read, in bytes.
pub const MAX_CONFIG_BYTES: usize = 1 << 20;
/// How many warnings are kept of one document.
const MAX_WARNINGS: usize = 20;

/// The rules of one configuration file, in the order in which they stand in it.
///
/// ```
/// use prowess_permission::PermissionConfig;
///
/// let config = PermissionConfig::parse(
///     r#"
///     [permission]
///     skill = "allow"            # a kind with one action
///     [permission.run]           # or patterns, the last match winning
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
/// assert_eq!(error.to_string(), "prowess.toml:1:18: `alow` is not an action; did you mean `allow`?");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PermissionConfig {
    /// The rules for every agent.
    pub rules: Vec<Rule>,
    /// The rules for one agent each, by its name.
    pub agents: BTreeMap<String, Vec<Rule>>,
    /// Kinds that are probably misspelt, and patterns of paths that meant something else in earlier versions. Kinds
    /// are an open set, so these are no errors.
    pub warnings: Vec<ConfigError>,
}

/// What is wrong in a configuration, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
#[non_exhaustive]
pub struct ConfigError {
    /// The file, as it was named by the caller.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// What is wrong, and what to do.
    pub message: String,
}

impl PermissionConfig {
    /// The rules in `text`, which has nothing but permissions in it. `file` is what errors call it.
    pub fn parse(text: &str, file: &str) -> Result<Self, ConfigError> {
        Self::from_document(text, file, &[])
    }

    /// The rules in `text`, where the keys in `others` are somebody else's: `model` for a key at the
    /// top, `agent.*.model` for a key of every agent.
    pub fn from_document(text: &str, file: &str, others: &[&str]) -> Result<Self, ConfigError> {
        Self::read(text, file, others, None)
    }

    /// The same with patterns of paths read as the paths that they are below these places. Links on the way there are
    /// followed now, and the file system is looked at for that.
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
            let mut message = one_line(error.message());
            if message.contains("duplicate key") {
                message.push_str(
                    "; a kind has one action or one table: in a table, `\"*\"` is the pattern for all subjects",
                );
            }
            Problem { at, message }.in_file(text, file)
        })?;
        let mut reader = Reader { others, base, problems: Vec::new(), warnings: Vec::new() };
        let config = reader.document(table.get_ref());
        // Tables are not kept in the order of the file; the first problem in it is the one to mend first.
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

/// Something wrong at a place, before the place has a line and a column.
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

/// Walks the document and gathers what is wrong with it.
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
            let place = format!("agent.{}", shown(name.get_ref()));
            let Some(table) = self.table(value, &place, "a table") else { continue };
            for (key, value) in table {
                match key.get_ref().as_ref() {
                    "permission" => {
                        let rules = self.rules(&format!("{place}.permission"), value);
                        agents.insert(name.get_ref().to_string(), rules);
                    }
                    other if self.others.contains(&format!("agent.*.{other}").as_str()) => {}
                    other => self.unknown_key(key.span().start, other, &place, &["permission"]),
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
                        match (Pattern::parse(pattern.get_ref()), self.action(value)) {
                            (Ok(pattern), Some(action)) => {
                                rules.push((at, self.rule(at, Rule::of(parsed.clone(), pattern, action))));
                            }
                            (Err(error), _) => self.problem(at, error.to_string()),
                            (Ok(_), None) => {}
                        }
                    }
                }
                _ => {
                    if let Some(action) = self.action(value) {
                        let at = kind.span().start;
                        rules.push((at, self.rule(at, Rule::of(parsed, Pattern::any(), action))));
                    }
                }
            }
        }
        // The order of the file, however its tables are nested or split.
        rules.sort_by_key(|(at, _)| *at);
        rules.into_iter().map(|(_, rule)| rule).collect()
    }

    /// A rule with its paths read, if it is known from where.
    fn rule(&mut self, at: usize, rule: Rule) -> Rule {
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
                format!("`{}` is not a pattern of kinds; use the letters of a kind, `*` and `?`", shown(text))
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
            let message = format!("`{text}` is not a kind that is built in; did you mean `{known}`?");
            self.warn(at, message);
        }
        Some(Pattern::compile(text))
    }

    fn action(&mut self, value: &Spanned<DeValue<'_>>) -> Option<Decision> {
        let at = value.span().start;
        match value.get_ref() {
            DeValue::String(text) => match text.parse() {
                Ok(action) => return Some(action),
                Err(error) => self.problem(at, crate::decision::DecisionError::to_string(&error)),
            },
            other => {
                let found = article(other.type_str());
                self.problem(at, format!("expected \"allow\", \"ask\" or \"deny\", and found {found}"));
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
            self.problem(value.span().start, format!("`{place}` must be {expected}, and is {found}"));
        }
        table
    }

    fn unknown_key(&mut self, at: usize, key: &str, place: &str, known: &[&str]) {
        let here = if place.is_empty() { String::new() } else { format!(" in `{place}`") };
        let hint = match did_you_mean(key, known.iter().copied()) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("expected `{}`", known.join("` or `")),
        };
        self.problem(at, format!("unknown key `{}`{here}; {hint}", shown(key)));
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

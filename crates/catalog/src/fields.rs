//! The fields of the frontmatter: their types, limits and repairs.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;

use granit_parser::ScalarStyle;

use crate::diagnostic::{Added, Code, Findings};
use crate::frontmatter::MAX_FRONTMATTER;
use crate::name::{self, MAX_NAME_CHARS, NameError, SkillName};
use crate::repair::Repaired;
use crate::skill::{Extensions, Location, MissingName, Skill, SkillContext};
use crate::tools;
use crate::untrusted;
use crate::yaml::{Key, Kind, Node, Schema, Value};

/// The most characters the specification allows in a description.
pub const MAX_DESCRIPTION_CHARS: usize = 1024;
/// The most characters the specification allows in `compatibility`.
pub const MAX_COMPATIBILITY_CHARS: usize = 500;

/// A description shorter than this says too little to choose a skill by.
const SHORT_DESCRIPTION_CHARS: usize = 20;

/// The fields that the open specification defines.
pub const SPEC_FIELDS: [&str; 6] =
    ["name", "description", "license", "compatibility", "metadata", "allowed-tools"];

/// The fields that clients have added to it, all of which are given effect.
pub const EXTENSION_FIELDS: [&str; 12] = [
    "disable-model-invocation",
    "user-invocable",
    "argument-hint",
    "arguments",
    "when_to_use",
    "model",
    "effort",
    "context",
    "agent",
    "hooks",
    "paths",
    "shell",
];

/// Reads the fields of a composed document. `base` is where `yaml` begins in the file.
pub(crate) fn read(
    yaml: &str,
    base: usize,
    repaired: &Repaired<'_>,
    location: &Location,
    missing_name: MissingName,
    findings: &mut Findings<'_>,
) -> Option<Skill> {
    let mut reader = Reader { yaml, base, repaired, findings };
    reader.report_document();
    let Some(Node { kind: Kind::Map(entries), .. }) = &repaired.document.root else {
        reader
            .findings
            .add(
                Code::NotAMapping,
                Some(base..base + yaml.trim_end().len()),
                "the frontmatter is not a map of fields",
            )
            .hint("write `name: …` and `description: …` on lines of their own");
        return None;
    };

    let entry = |key: &str| entries.iter().find(|(name, _)| name.text == key);
    let field = |key: &str| entry(key).map(|(_, node)| node);
    let mut extensions = None;
    let mut extra = Vec::new();
    for (key, node) in entries {
        if SPEC_FIELDS.contains(&&*key.text) {
            continue;
        }
        let known = EXTENSION_FIELDS.contains(&&*key.text);
        if known {
            reader.extension(&key.text, node, extensions.get_or_insert_default());
        }
        if !known {
            extra.push((key.text.to_string(), node.to_value()));
        }
        reader.report_unknown(&key.text, &key.range, known);
    }

    let first_key = entries.first().map(|(key, _)| key);
    let name = reader.name(entry("name"), first_key, location, missing_name);
    let description = reader.description(field("description"));
    let license = field("license").and_then(|node| reader.text(node, "license", Code::LicenseNotString));
    let compatibility = field("compatibility").and_then(|node| reader.compatibility(node));
    let metadata = field("metadata").map(|node| reader.metadata(node)).unwrap_or_default();
    let allowed_tools =
        entry("allowed-tools").map(|(key, node)| reader.allowed_tools(key, node)).unwrap_or_default();
    Some(Skill {
        name: name?,
        description: description?,
        license,
        compatibility,
        metadata,
        allowed_tools,
        extensions: extensions.map_or_else(Extensions::none, Arc::new),
        extra,
        location: location.clone(),
    })
}

struct Reader<'r, 'f, 's> {
    yaml: &'r str,
    base: usize,
    repaired: &'r Repaired<'r>,
    findings: &'f mut Findings<'s>,
}

impl Reader<'_, '_, '_> {
    /// The range in the file that a range of the composed text stands for.
    fn place(&self, range: &Range<usize>) -> Range<usize> {
        let range = self.repaired.original(range);
        self.base + range.start..self.base + range.end
    }

    /// The place of a node's text alone: a block's ends with the line break below it.
    fn written(&self, node: &Node<'_>) -> Range<usize> {
        let place = self.place(&node.range);
        let text = &self.yaml[place.start - self.base..place.end - self.base];
        place.start..place.start + text.trim_end_matches([' ', '\t', '\n', '\r']).len()
    }

    fn add(&mut self, code: Code, range: &Range<usize>, message: impl Into<String>) -> Added<'_> {
        let place = self.place(range);
        self.findings.add(code, Some(place), message)
    }

    /// Whether a value may be rewritten: not when another one may refer to it.
    fn rewritable(&self) -> bool {
        self.has_room() && !self.repaired.document.anchored
    }

    /// Whether quoting cannot make the frontmatter too long: at worst, six bytes stand for one.
    fn has_room(&self) -> bool {
        self.yaml.len() <= MAX_FRONTMATTER / 8
    }

    /// Whether a line with another field may stand before `first`: only comments may be above it.
    fn takes_a_line_before(&self, first: Option<&Key<'_>>) -> bool {
        let above = first.and_then(|key| self.yaml.get(..self.repaired.original(&key.range).start));
        self.has_room()
            && above.is_some_and(|above| {
                let breaks = ['\n', '\r'];
                let mut lines = above.split(breaks);
                (above.is_empty() || above.ends_with(breaks))
                    && lines.all(|line| line.trim().is_empty() || line.starts_with('#'))
            })
    }

    /// The place after the colon of a key that nothing but a comment follows on its line.
    fn after_colon(&self, key: &Key<'_>) -> Option<usize> {
        let end = self.repaired.original(&key.range).end;
        let rest = self.yaml.get(end..)?.strip_prefix(':')?;
        let line = rest.split(['\n', '\r']).next().unwrap_or_default();
        let line = line.trim_start_matches([' ', '\t']);
        (line.is_empty() || line.starts_with('#')).then_some(self.base + end + 1)
    }

    /// The text of a node as it stands in the file.
    fn source(&self, node: &Node<'_>) -> &str {
        self.yaml.get(self.repaired.original(&node.range)).unwrap_or_default().trim_end()
    }

    fn report_document(&mut self) {
        for value in &self.repaired.values {
            let place = self.base + value.start..self.base + value.end;
            let has_room = self.has_room();
            self.findings
                .add(
                    Code::YamlRepaired,
                    Some(place.clone()),
                    "this value must be quoted to be YAML; it was read as text",
                )
                .hint("put it in quotes")
                .fix_if(has_room, place, quote(&self.yaml[value.clone()]));
        }
        for key in &self.repaired.document.duplicates {
            let message = format!("`{}` stands twice; the last one is used", untrusted::one_line(&key.text));
            self.add(Code::DuplicateKey, &key.range, message).hint("remove the other one");
        }
        if let Some(range) = &self.repaired.document.nonportable {
            self.add(
                Code::NonportableYaml,
                range,
                "flow style, anchors and tags are refused by some loaders",
            )
            .hint("write it in block style");
        }
    }

    fn report_unknown(&mut self, key: &str, range: &Range<usize>, known: bool) {
        let shown = untrusted::one_line(key).into_owned();
        let message = if known {
            format!(
                "`{shown}` is not a field of the specification; it has effect here, and other clients may ignore it"
            )
        } else {
            format!("`{shown}` is not a field of the specification; it is kept, and has no effect")
        };
        let added = self.add(Code::UnknownField, range, message);
        if !known {
            added.hint("move it into `metadata`");
        }
        if let (false, Some(meant)) = (known, similar_field(key)) {
            self.add(Code::DidYouMean, range, format!("did you mean `{meant}`?"));
        }
        if key == "hooks" {
            self.add(Code::DeclaresHooks, range, "the skill declares hooks: commands that run by themselves");
        }
    }

    fn name(
        &mut self,
        entry: Option<&(Key<'_>, Node<'_>)>,
        first_key: Option<&Key<'_>>,
        location: &Location,
        missing: MissingName,
    ) -> Option<SkillName> {
        let directory = location.directory_name().map(name::normalise);
        let Some((key, node)) = entry else {
            let at = self.base..self.base;
            let insertion = Some("name: {}\n").filter(|_| self.takes_a_line_before(first_key));
            return self.name_from_directory(
                (Code::NameMissing, "no `name`"),
                &at,
                directory.as_deref(),
                missing,
                insertion,
            );
        };
        let Kind::Scalar { text, schema, .. } = &node.kind else {
            let place = self.place(&node.range);
            self.findings.refuse(Code::NameNotString, Some(place), "the name is a list or a map");
            return None;
        };
        let place = self.written(node);
        let normal = name::normalise(text);
        if *schema == Schema::Null || normal.is_empty() {
            let (place, insertion) = if place.is_empty() {
                let after = self.after_colon(key);
                (after.map_or(place, |at| at..at), after.map(|_| " {}"))
            } else {
                (place, Some("{}"))
            };
            return self.name_from_directory(
                (Code::NameEmpty, "the name is empty"),
                &place,
                directory.as_deref(),
                missing,
                insertion.filter(|_| self.rewritable()),
            );
        }
        if *schema == Schema::Other {
            let quoted = quote(text);
            let rewritable = self.rewritable();
            self.findings
                .add(
                    Code::NameNotString,
                    Some(place.clone()),
                    "the name is a number or a boolean; its text is used",
                )
                .hint("put it in quotes")
                .fix_if(rewritable, place.clone(), quoted);
        }
        self.report_name(&normal, &place, directory.as_deref());
        match SkillName::parse(&normal) {
            Ok(name) => Some(name),
            Err(error) => {
                let code =
                    if error == NameError::TooLong { Code::NameTooLong } else { Code::NameInvalidChars };
                self.findings.refuse(code, Some(place), error.to_string());
                None
            }
        }
    }

    fn name_from_directory(
        &mut self,
        (code, message): (Code, &str),
        place: &Range<usize>,
        directory: Option<&str>,
        missing: MissingName,
        insertion: Option<&str>,
    ) -> Option<SkillName> {
        let fallback = directory
            .filter(|_| missing == MissingName::UseDirectory)
            .and_then(|name| SkillName::parse(name).ok());
        match fallback {
            Some(name) => {
                let written = quote_if_needed(name.as_str());
                let replacement = insertion.map(|insertion| insertion.replace("{}", &written));
                self.findings
                    .add(
                        code,
                        Some(place.clone()),
                        format!("{message}; the directory's name `{name}` is used"),
                    )
                    .hint(format!("add `name: {name}`"))
                    .fix_if(replacement.is_some(), place.clone(), replacement.unwrap_or_default());
                Some(name)
            }
            None => {
                self.findings
                    .refuse(code, Some(place.clone()), message)
                    .hint("add `name: …`, equal to the directory's name");
                None
            }
        }
    }

    fn report_name(&mut self, name: &str, place: &Range<usize>, directory: Option<&str>) {
        let mut add = |code, message: String, hint: &str| {
            self.findings.add(code, Some(place.clone()), message).hint(hint);
        };
        let count = name.chars().count();
        if count > MAX_NAME_CHARS {
            add(
                Code::NameTooLong,
                format!("the name has {count} characters, {MAX_NAME_CHARS} are allowed"),
                "shorten it",
            );
        }
        let shown = untrusted::one_line(name);
        if name.chars().any(char::is_uppercase) {
            add(
                Code::NameUppercase,
                format!("the name `{shown}` has uppercase letters"),
                "write it in lowercase",
            );
        }
        if let Some(c) = name.chars().find(|&c| !c.is_alphanumeric() && c != '-') {
            let message = format!(
                "the name has `{}`; letters, digits and single hyphens are allowed",
                c.escape_debug()
            );
            add(Code::NameInvalidChars, message, "use hyphens between words");
        } else if !name.is_ascii() {
            add(
                Code::NameNonAscii,
                format!("the name `{shown}` has characters outside ASCII"),
                "some clients refuse it",
            );
        }
        if name.starts_with('-') || name.ends_with('-') {
            add(
                Code::NameEdgeHyphen,
                format!("the name `{shown}` begins or ends with a hyphen"),
                "remove it",
            );
        }
        if name.contains("--") {
            add(Code::NameDoubleHyphen, format!("the name `{shown}` has two hyphens in a row"), "use one");
        }
        if !name.is_ascii() && untrusted::mixes_scripts(name) {
            let message = format!("the name `{shown}` mixes letters of scripts that look alike");
            add(Code::SuspiciousUnicode, message, "use one script");
        }
        if let Some(directory) = directory.filter(|directory| *directory != name) {
            let message = format!(
                "the name `{shown}` is not the directory's name `{}`",
                untrusted::one_line(directory)
            );
            // When the directory says the same in the specification's spelling, it is meant.
            let meant = self.rewritable() && SkillName::spelling(name) == directory;
            self.findings
                .add(Code::NameDirMismatch, Some(place.clone()), message)
                .hint("rename one of them")
                .fix_if(meant, place.clone(), quote_if_needed(directory));
        }
    }

    fn description(&mut self, node: Option<&Node<'_>>) -> Option<String> {
        let Some(node) = node else {
            let at = self.base;
            self.findings
                .add(Code::DescriptionMissing, Some(at..at), "no `description`")
                .hint("add `description: …`: what the skill does and when to use it");
            return None;
        };
        let Kind::Scalar { text, schema, style } = &node.kind else {
            let place = self.place(&node.range);
            self.findings
                .refuse(Code::DescriptionNotString, Some(place), "the description is a list or a map")
                .hint("write it as text");
            return None;
        };
        let text = text.trim();
        if *schema == Schema::Null || text.is_empty() {
            self.add(Code::DescriptionEmpty, &node.range, "the description is empty")
                .hint("say what the skill does and when to use it");
            return None;
        }
        if *schema == Schema::Other {
            let (rewritable, fix) = (self.rewritable(), quote(text));
            let place = self.written(node);
            self.add(
                Code::DescriptionNotString,
                &node.range,
                "the description is a number or a boolean; its text is used",
            )
            .hint("put it in quotes")
            .fix_if(rewritable, place, fix);
        }
        self.report_description(text, *style, node);
        Some(text.to_owned())
    }

    fn report_description(&mut self, text: &str, style: ScalarStyle, node: &Node<'_>) {
        let end = self.place(&node.range).end - self.base;
        let rest = self.yaml[end.min(self.yaml.len())..].lines().next().unwrap_or_default();
        let cut = style == ScalarStyle::Plain && rest.trim_start().starts_with('#');
        if cut {
            self.add(
                Code::CommentTruncation,
                &node.range,
                "a ` #` makes the rest of the description a comment",
            )
            .hint("put the description in quotes");
        }
        let count = text.chars().count();
        if count > MAX_DESCRIPTION_CHARS {
            let message =
                format!("the description has {count} characters, {MAX_DESCRIPTION_CHARS} are allowed");
            self.add(Code::DescriptionTooLong, &node.range, message).hint("move the details to the body");
        } else if count < SHORT_DESCRIPTION_CHARS && !cut {
            self.add(
                Code::DescriptionShort,
                &node.range,
                "the description says too little to choose the skill by",
            )
            .hint("say what it does and when to use it");
        }
        if memchr::memchr2(b'<', b'>', text.as_bytes()).is_some() {
            self.add(
                Code::DescriptionAngleBrackets,
                &node.range,
                "the description has angle brackets, which some clients refuse",
            );
        }
        if !text.is_ascii()
            && let Some(c) = untrusted::invisible_character(text)
        {
            let message = format!("the description has the invisible character U+{:04X}", u32::from(c));
            self.add(Code::SuspiciousUnicode, &node.range, message).hint("remove it");
        }
        if untrusted::imitates_markup(text) {
            self.add(
                Code::SuspiciousMarkup,
                &node.range,
                "the description imitates markup of a host's own messages",
            );
        }
    }

    /// A field that is text: other scalars are coerced, lists and maps are reported and ignored.
    fn text(&mut self, node: &Node<'_>, field: &str, code: Code) -> Option<String> {
        match &node.kind {
            Kind::Scalar { schema: Schema::Null, .. } => None,
            Kind::Scalar { text, schema, .. } => {
                if *schema == Schema::Other {
                    let (rewritable, place) = (self.rewritable(), self.written(node));
                    self.add(
                        code,
                        &node.range,
                        format!("`{field}` is a number or a boolean; its text is used"),
                    )
                    .hint("put it in quotes")
                    .fix_if(rewritable, place, quote(text));
                }
                Some(text.trim().to_owned())
            }
            Kind::List(_) | Kind::Map(_) => {
                self.add(code, &node.range, format!("`{field}` is a list or a map; it is ignored"))
                    .hint("write it as text");
                None
            }
        }
    }

    fn compatibility(&mut self, node: &Node<'_>) -> Option<String> {
        let text = self.text(node, "compatibility", Code::CompatibilityNotString)?;
        let count = text.chars().count();
        if count == 0 {
            self.add(Code::CompatibilityEmpty, &node.range, "`compatibility` is empty").hint("remove it");
            return None;
        }
        if count > MAX_COMPATIBILITY_CHARS {
            let message =
                format!("`compatibility` has {count} characters, {MAX_COMPATIBILITY_CHARS} are allowed");
            self.add(Code::CompatibilityTooLong, &node.range, message).hint("move the details to the body");
        }
        Some(text)
    }

    fn metadata(&mut self, node: &Node<'_>) -> Vec<(String, Value)> {
        match &node.kind {
            Kind::Scalar { schema: Schema::Null, .. } => Vec::new(),
            Kind::Map(entries) => {
                for (key, value) in entries {
                    if !matches!(value.kind, Kind::Scalar { .. }) {
                        let message = format!(
                            "`metadata.{}` is a list or a map, not text",
                            untrusted::one_line(&key.text)
                        );
                        self.add(Code::MetadataNonStringValue, &value.range, message)
                            .hint("write it as text");
                    }
                }
                // Metadata is a map of strings: a scalar's own text, whatever YAML would make of it.
                let text = |node: &Node<'_>| match &node.kind {
                    Kind::Scalar { text, .. } => Value::Text(text.to_string()),
                    Kind::List(_) | Kind::Map(_) => node.to_value(),
                };
                entries.iter().map(|(key, node)| (key.text.to_string(), text(node))).collect()
            }
            Kind::Scalar { .. } | Kind::List(_) => {
                self.add(Code::MetadataNotMap, &node.range, "`metadata` is not a map; it is ignored")
                    .hint("write `key: value` lines below it");
                Vec::new()
            }
        }
    }

    fn allowed_tools(&mut self, key: &Key<'_>, node: &Node<'_>) -> Vec<String> {
        let place = self.written(node);
        let rewritable = self.rewritable();
        let list = match &node.kind {
            Kind::Scalar { schema: Schema::Null, .. } => return Vec::new(),
            Kind::Scalar { text, schema, style } => {
                let split = tools::split(text);
                // Quotes inside a block would be part of its text.
                let rewritable = rewritable && !matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
                if *schema == Schema::Other {
                    self.add(
                        Code::AllowedToolsNotString,
                        &node.range,
                        "`allowed-tools` is a number or a boolean",
                    )
                    .hint("write the tools' names, separated by blanks");
                } else if split.commas {
                    let fix = quote_if_needed(&split.tools.join(" "));
                    self.add(Code::AllowedToolsComma, &node.range, "`allowed-tools` are separated by commas")
                        .hint("separate them by blanks")
                        .fix_if(rewritable, place, fix);
                }
                split.tools
            }
            Kind::List(items) => {
                let tools: Vec<String> = items
                    .iter()
                    .filter_map(|item| match &item.kind {
                        Kind::Scalar { text, .. } => Some(text),
                        Kind::List(_) | Kind::Map(_) => None,
                    })
                    .flat_map(|text| tools::split(text).tools)
                    .collect();
                let fix = quote_if_needed(&tools.join(" "));
                let whole = items.iter().all(|item| matches!(item.kind, Kind::Scalar { .. }));
                // A block list begins on the line below its key: the fix brings it up. A comment in
                // or around it, or a tag, would be lost. The place of a list that is not indented is that
                // of its first item.
                let from = self.place(&key.range).end;
                let to = place.start.max(from);
                let between = &self.yaml[from - self.base..to - self.base];
                let commented = self.yaml[from - self.base..place.end.max(to) - self.base].contains('#');
                let between: Vec<&str> = between.split_whitespace().collect();
                let safe = rewritable && whole && !commented && matches!(between[..], [":"] | [":", "-"]);
                let message = if whole {
                    "`allowed-tools` is a list"
                } else {
                    "`allowed-tools` is a list with entries that are not text; those are ignored"
                };
                self.add(Code::AllowedToolsNotString, &node.range, message)
                    .hint("write one line of text, the tools separated by blanks")
                    .fix_if(safe, from..place.end.max(to), format!(": {fix}"));
                tools
            }
            Kind::Map(_) => {
                self.add(Code::AllowedToolsNotString, &node.range, "`allowed-tools` is a map; it is ignored")
                    .hint("write one line of text, the tools separated by blanks");
                Vec::new()
            }
        };
        if list.iter().any(|tool| tool == "*") {
            self.add(Code::AllowedToolsWildcard, &node.range, "`allowed-tools` names every tool")
                .hint("name the tools it needs");
        }
        list
    }

    /// Reads `key`, which is one of [`EXTENSION_FIELDS`].
    fn extension(&mut self, key: &str, node: &Node<'_>, extensions: &mut Extensions) {
        match key {
            // A value that is neither yes nor no hides the skill from models: the careful reading.
            "disable-model-invocation" => extensions.disable_model_invocation = self.flag(key, node, true),
            "user-invocable" => extensions.user_invocable = self.flag(key, node, true),
            "argument-hint" => extensions.argument_hint = self.hint_text(node),
            "arguments" => extensions.arguments = self.words(key, node),
            "when_to_use" => extensions.when_to_use = self.plain_text(key, node),
            "model" => extensions.model = self.plain_text(key, node),
            "effort" => extensions.effort = self.plain_text(key, node),
            "context" => extensions.context = self.context(node),
            "agent" => extensions.agent = self.plain_text(key, node),
            "hooks" => extensions.hooks = Some(node.to_value()).filter(|value| *value != Value::Null),
            "paths" => extensions.paths = self.words(key, node),
            "shell" => extensions.shell = self.plain_text(key, node),
            _ => {}
        }
    }

    fn invalid(&mut self, key: &str, node: &Node<'_>, expected: &str) {
        self.add(Code::FieldInvalid, &node.range, format!("`{key}` must be {expected}"));
    }

    fn flag(&mut self, key: &str, node: &Node<'_>, otherwise: bool) -> bool {
        if let Kind::Scalar { text, .. } = &node.kind {
            match text.trim().to_ascii_lowercase().as_str() {
                "true" | "yes" | "on" => return true,
                "false" | "no" | "off" => return false,
                _ => {}
            }
        }
        self.invalid(key, node, "`true` or `false`");
        otherwise
    }

    fn plain_text(&mut self, key: &str, node: &Node<'_>) -> Option<String> {
        match &node.kind {
            Kind::Scalar { schema: Schema::Null, .. } => None,
            Kind::Scalar { text, .. } => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            Kind::List(_) | Kind::Map(_) => {
                self.invalid(key, node, "text");
                None
            }
        }
    }

    /// `[file] [count]` is what people write: a list is taken as the text that it was.
    fn hint_text(&mut self, node: &Node<'_>) -> Option<String> {
        match &node.kind {
            Kind::Scalar { .. } => self.plain_text("argument-hint", node),
            Kind::List(_) | Kind::Map(_) => Some(untrusted::one_line(self.source(node)).into_owned()),
        }
    }

    fn words(&mut self, key: &str, node: &Node<'_>) -> Vec<String> {
        match &node.kind {
            Kind::Scalar { schema: Schema::Null, .. } => Vec::new(),
            Kind::Scalar { text, .. } => text
                .split([' ', ',', '\t', '\n'])
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect(),
            Kind::List(items) => {
                let nested = items.iter().find(|item| !matches!(item.kind, Kind::Scalar { .. }));
                if let Some(item) = nested {
                    self.invalid(key, item, "text or a list of texts");
                }
                let texts = items.iter().filter(|item| matches!(item.kind, Kind::Scalar { .. }));
                texts.filter_map(|item| self.plain_text(key, item)).collect()
            }
            Kind::Map(_) => {
                self.invalid(key, node, "text or a list");
                Vec::new()
            }
        }
    }

    fn context(&mut self, node: &Node<'_>) -> SkillContext {
        match self.plain_text("context", node).as_deref() {
            Some("fork") => SkillContext::Fork,
            None | Some("inline") => SkillContext::Inline,
            Some(_) => {
                self.invalid("context", node, "`fork` or `inline`");
                SkillContext::Inline
            }
        }
    }
}

/// `text` as a double-quoted YAML scalar on one line.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.trim().chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            '\r' => quoted.push_str("\\r"),
            // YAML allows these in its text only as escapes.
            c if c.is_control() || matches!(c, '\u{FEFF}' | '\u{FFFE}' | '\u{FFFF}') => {
                // Writing to a String cannot fail.
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

/// `text` as a plain YAML scalar where that is certainly safe, else quoted.
fn quote_if_needed(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/'));
    let word =
        matches!(text, "true" | "True" | "TRUE" | "false" | "False" | "FALSE" | "null" | "Null" | "NULL");
    if plain && !word { text.to_owned() } else { quote(text) }
}

/// The field that `key` is a misspelling of: another case, `_` for `-`, or one edit away.
fn similar_field(key: &str) -> Option<&'static str> {
    let normal = |text: &str| text.to_ascii_lowercase().replace(['_', ' '], "-");
    let key = normal(key);
    SPEC_FIELDS.iter().chain(&EXTENSION_FIELDS).copied().find(|field| {
        normal(field) == key || (key.len() > 4 && key.len() < 40 && one_edit_apart(&normal(field), &key))
    })
}

fn one_edit_apart(a: &str, b: &str) -> bool {
    let (short, long) =
        if a.len() <= b.len() { (a.as_bytes(), b.as_bytes()) } else { (b.as_bytes(), a.as_bytes()) };
    let prefix = short.iter().zip(long).take_while(|(x, y)| x == y).count();
    match long.len() - short.len() {
        0 => short[prefix..].iter().skip(1).eq(long[prefix..].iter().skip(1)),
        1 => short[prefix..] == long[prefix + 1..],
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misspelt_fields_are_recognised() {
        assert_eq!(similar_field("Name"), Some("name"));
        assert_eq!(similar_field("allowed_tools"), Some("allowed-tools"));
        assert_eq!(similar_field("allowed-tool"), Some("allowed-tools"));
        assert_eq!(similar_field("descripton"), Some("description"));
        assert_eq!(similar_field("author"), None);
    }

    #[test]
    fn quoting_gives_back_the_text() {
        for text in ["plain", "a: b", "say \"hi\" \\ there", "tab\tand\nline", "*", "yes: #1"] {
            let yaml = format!("k: {}\n", quote(text));
            let value = crate::yaml::compose(&yaml).unwrap().root.unwrap().to_value();
            assert_eq!(value.get("k").and_then(Value::as_text), Some(text));
        }
    }
}

//! The fields that clients have added to the specification.

use super::Reader;
use crate::diagnostic::Code;
use crate::skill::{Extensions, SkillContext};
use crate::untrusted;
use crate::yaml::{Kind, Node, Schema, Value};

impl Reader<'_, '_, '_> {
    /// Reads `key`, which is one of [`EXTENSION_FIELDS`].
    pub(super) fn extension(&mut self, key: &str, node: &Node<'_>, extensions: &mut Extensions) {
        match key {
            // A value that is neither yes nor no hides the skill from models, to be careful.
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

    /// People write `[file] [count]`: a list in brackets is read as text.
    fn hint_text(&mut self, node: &Node<'_>) -> Option<String> {
        let source = self.source(node);
        if matches!(node.kind, Kind::List(_))
            && source.starts_with('[')
            && !source.contains(['\n', '\r', '#'])
        {
            return Some(untrusted::one_line(source).into_owned());
        }
        self.plain_text("argument-hint", node)
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

//! `description`: its limits, and suspicious contents.

use granit_parser::ScalarStyle;

use super::Reader;
use super::quote::quote;
use crate::diagnostic::Code;
use crate::untrusted;
use crate::yaml::{Kind, Node, Schema};

/// The most characters that the specification allows in a description.
pub const MAX_DESCRIPTION_CHARS: usize = 1024;
/// A shorter description says too little for choosing a skill.
const SHORT_DESCRIPTION_CHARS: usize = 20;

impl Reader<'_, '_, '_> {
    pub(super) fn description(&mut self, node: Option<&Node<'_>>) -> Option<String> {
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
                "the description is a number or a boolean; prowess uses its text",
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
            let message = format!(
                "the description has {count} characters, {MAX_DESCRIPTION_CHARS} are allowed; the overview cuts the rest off"
            );
            self.add(Code::DescriptionTooLong, &node.range, message).hint("move the details to the body");
        } else if count < SHORT_DESCRIPTION_CHARS && !cut {
            self.add(
                Code::DescriptionShort,
                &node.range,
                "the description says too little for a model to choose the skill",
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
                "the description imitates markup that agents use for their own messages",
            );
        }
    }
}

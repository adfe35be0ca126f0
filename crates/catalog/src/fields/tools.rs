//! `allowed-tools`, in every form in which people write it.

use std::ops::Range;

use granit_parser::ScalarStyle;

use super::Reader;
use super::quote::quote_if_needed;
use crate::diagnostic::Code;
use crate::tools;
use crate::yaml::{Key, Kind, Node, Schema};

impl Reader<'_, '_, '_> {
    pub(super) fn allowed_tools(&mut self, key: &Key<'_>, node: &Node<'_>) -> Vec<String> {
        let tools = match &node.kind {
            Kind::Scalar { schema: Schema::Null, .. } => return Vec::new(),
            Kind::Scalar { text, schema, style } => self.tools_in_text(node, text, *schema, *style),
            Kind::List(items) => self.tools_in_list(key, node, items),
            Kind::Map(_) => {
                self.add(
                    Code::AllowedToolsNotString,
                    &node.range,
                    "`allowed-tools` is a map; prowess ignores it",
                )
                .hint("write one line of text, with spaces between the tools");
                Vec::new()
            }
        };
        if tools.iter().any(|tool| tool == "*") {
            self.add(Code::AllowedToolsWildcard, &node.range, "`allowed-tools` names every tool")
                .hint("name only the tools that the skill needs");
        }
        tools
    }

    fn tools_in_text(
        &mut self,
        node: &Node<'_>,
        text: &str,
        schema: Schema,
        style: ScalarStyle,
    ) -> Vec<String> {
        let split = tools::split(text);
        if schema == Schema::Other {
            self.add(Code::AllowedToolsNotString, &node.range, "`allowed-tools` is a number or a boolean")
                .hint("write the names of the tools, with spaces between them");
        } else if split.commas {
            // Quotes inside a block would be part of its text.
            let is_block = matches!(style, ScalarStyle::Literal | ScalarStyle::Folded);
            let (rewritable, place) = (self.rewritable() && !is_block, self.written(node));
            let fix = quote_if_needed(&split.tools.join(" "));
            self.add(Code::AllowedToolsComma, &node.range, "`allowed-tools` has commas between the tools")
                .hint("use spaces instead")
                .fix_if(rewritable, place, fix);
        }
        split.tools
    }

    fn tools_in_list(&mut self, key: &Key<'_>, node: &Node<'_>, items: &[Node<'_>]) -> Vec<String> {
        // One item is one tool, whatever it contains.
        let text = |item: &Node<'_>| match &item.kind {
            Kind::Scalar { text, .. } => Some(text.trim().to_owned()),
            Kind::List(_) | Kind::Map(_) => None,
        };
        let tools: Vec<String> = items.iter().filter_map(text).filter(|tool| !tool.is_empty()).collect();
        let line = tools.join(" ");
        let fits_a_line = tools::split(&line).tools == tools;
        let all_text = items.iter().all(|item| matches!(item.kind, Kind::Scalar { .. }));
        let place = self.list_place(key, node);
        let safe = self.rewritable() && all_text && fits_a_line && place.is_some();
        let message = if all_text {
            "`allowed-tools` is a list"
        } else {
            "`allowed-tools` is a list, and some of its entries are not text; prowess ignores those"
        };
        let hint = if fits_a_line {
            "write one line of text, with spaces between the tools"
        } else {
            "one item is one tool, with its spaces and commas; give each tool its own item, or write one line of text"
        };
        let fix = format!(": {}", quote_if_needed(&line));
        self.add(Code::AllowedToolsNotString, &node.range, message).hint(hint).fix_if(
            safe,
            place.unwrap_or_default(),
            fix,
        );
        tools
    }

    /// The place of a list from the end of its key. A block list begins below its key, and a fix brings it up to that line.
    /// `None` if there is a comment or a tag, which a fix would remove.
    fn list_place(&self, key: &Key<'_>, node: &Node<'_>) -> Option<Range<usize>> {
        let place = self.written(node);
        let from = self.place(&key.range).end;
        // If a list is not indented, its place is that of its first item.
        let to = place.start.max(from);
        let end = place.end.max(to);
        let between: Vec<&str> = self.yaml[from - self.base..to - self.base].split_whitespace().collect();
        let has_comment = self.yaml[from - self.base..end - self.base].contains('#');
        (!has_comment && matches!(between[..], [":"] | [":", "-"])).then_some(from..end)
    }
}

//! `allowed-tools`, in every form that people write it in.

use granit_parser::ScalarStyle;

use super::Reader;
use super::quote::quote_if_needed;
use crate::diagnostic::Code;
use crate::tools;
use crate::yaml::{Key, Kind, Node, Schema};

impl Reader<'_, '_, '_> {
    pub(super) fn allowed_tools(&mut self, key: &Key<'_>, node: &Node<'_>) -> Vec<String> {
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
                // An item is one tool, whatever is in it.
                let tools: Vec<String> = items
                    .iter()
                    .filter_map(|item| match &item.kind {
                        Kind::Scalar { text, .. } => Some(text.trim()),
                        Kind::List(_) | Kind::Map(_) => None,
                    })
                    .filter(|tool| !tool.is_empty())
                    .map(str::to_owned)
                    .collect();
                let line = tools.join(" ");
                let fits_a_line = tools::split(&line).tools == tools;
                let fix = quote_if_needed(&line);
                let whole = items.iter().all(|item| matches!(item.kind, Kind::Scalar { .. }));
                // A block list begins on the line below its key: the fix brings it up. A comment in
                // or around it, or a tag, would be lost. The place of a list that is not indented is that
                // of its first item.
                let from = self.place(&key.range).end;
                let to = place.start.max(from);
                let between = &self.yaml[from - self.base..to - self.base];
                let commented = self.yaml[from - self.base..place.end.max(to) - self.base].contains('#');
                let between: Vec<&str> = between.split_whitespace().collect();
                let safe = rewritable
                    && whole
                    && fits_a_line
                    && !commented
                    && matches!(between[..], [":"] | [":", "-"]);
                let message = if whole {
                    "`allowed-tools` is a list"
                } else {
                    "`allowed-tools` is a list with entries that are not text; those are ignored"
                };
                let hint = if fits_a_line {
                    "write one line of text, the tools separated by blanks"
                } else {
                    "an item is one tool, blanks and commas included; give each tool an item, or write one line of text"
                };
                self.add(Code::AllowedToolsNotString, &node.range, message).hint(hint).fix_if(
                    safe,
                    from..place.end.max(to),
                    format!(": {fix}"),
                );
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
}

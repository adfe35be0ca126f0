//! Finds where the blocks of a Markdown document start and end, line by line.

/// What a line can start if no block is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Begins {
    Blank,
    Heading,
    Rule,
    Fence(Fence),
    Quote,
    Item(Marker),
    Text,
}

/// The opening fence of a code block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fence {
    mark: char,
    length: usize,
    indent: usize,
    /// The text after the fence, usually the language.
    pub(super) info: String,
}

/// The marker of a list item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Marker {
    /// `-`, `+`, `*`; `.` and `)` for numbers.
    pub(super) kind: char,
    pub(super) number: Option<u64>,
    /// The column in which the text of the item starts. Lines indented as far belong to the item.
    pub(super) content: usize,
    /// Whether nothing follows the marker.
    is_empty: bool,
}

impl Begins {
    pub(super) fn of(line: &str) -> Self {
        let indent = indent(line);
        let text = line.trim();
        if text.is_empty() {
            return Self::Blank;
        }
        if indent > 3 {
            return Self::Text;
        }
        if text.starts_with('>') {
            return Self::Quote;
        }
        if is_heading(text) {
            return Self::Heading;
        }
        if is_rule(text) {
            return Self::Rule;
        }
        if let Some(fence) = Fence::of(text, indent) {
            return Self::Fence(fence);
        }
        Marker::of(text, indent).map_or(Self::Text, Self::Item)
    }

    /// Whether such a line ends the paragraph right above it.
    pub(super) fn interrupts(&self) -> bool {
        match self {
            Self::Text => false,
            Self::Item(marker) => !marker.is_empty && marker.number.is_none_or(|number| number == 1),
            _ => true,
        }
    }
}

impl Fence {
    fn of(text: &str, indent: usize) -> Option<Self> {
        let mark = text.chars().next().filter(|c| matches!(c, '`' | '~'))?;
        let length = text.chars().take_while(|c| *c == mark).count();
        let info = text[length..].trim();
        let is_fence = length >= 3 && !(mark == '`' && info.contains('`'));
        is_fence.then(|| Self { mark, length, indent, info: info.to_owned() })
    }

    pub(super) fn is_closed_by(&self, line: &str) -> bool {
        let text = line.trim();
        indent(line) <= 3 && text.len() >= self.length && text.chars().all(|c| c == self.mark)
    }

    /// A line of the code, without the indentation of the fence.
    pub(super) fn content<'l>(&self, line: &'l str) -> &'l str {
        let own = line.bytes().take(self.indent).take_while(|byte| *byte == b' ').count();
        &line[own..]
    }
}

impl Marker {
    fn of(text: &str, indent: usize) -> Option<Self> {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let kind = text[digits..].chars().next()?;
        let number = match (digits, kind) {
            (0, '-' | '+' | '*') => None,
            (1..=9, '.' | ')') => Some(text[..digits].parse().ok()?),
            _ => return None,
        };
        let after = &text[digits + 1..];
        if !after.is_empty() && !after.starts_with([' ', '\t']) {
            return None;
        }
        let blanks = after.len() - after.trim_start().len();
        // Five spaces count as one, followed by indented code.
        let blanks = if (1..=4).contains(&blanks) { blanks } else { 1 };
        Some(Self { kind, number, content: indent + digits + 1 + blanks, is_empty: after.is_empty() })
    }
}

/// The column in which the text of a line starts.
pub(super) fn indent(line: &str) -> usize {
    let mut column = 0;
    for byte in line.bytes() {
        match byte {
            b' ' => column += 1,
            b'\t' => column += 4 - column % 4,
            _ => break,
        }
    }
    column
}

/// Whether a line makes the paragraph above it a heading.
pub(super) fn is_underline(line: &str) -> bool {
    let text = line.trim();
    indent(line) <= 3
        && !text.is_empty()
        && (text.bytes().all(|byte| byte == b'=') || text.bytes().all(|byte| byte == b'-'))
}

/// Whether a line is the delimiter row of a table.
pub(super) fn is_delimiter_row(line: &str) -> bool {
    let text = line.trim();
    text.contains('-')
        && text.contains('|')
        && text.bytes().all(|byte| matches!(byte, b'|' | b'-' | b':' | b' ' | b'\t'))
}

fn is_heading(text: &str) -> bool {
    let marks = text.bytes().take_while(|byte| *byte == b'#').count();
    (1..=6).contains(&marks) && (text.len() == marks || text[marks..].starts_with([' ', '\t']))
}

fn is_rule(text: &str) -> bool {
    let mark = text.as_bytes()[0];
    matches!(mark, b'-' | b'*' | b'_')
        && text.bytes().all(|byte| byte == mark || byte == b' ' || byte == b'\t')
        && text.bytes().filter(|byte| *byte == mark).count() >= 3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_tell_what_they_begin() {
        for (line, begins) in [
            ("", "Blank"),
            ("## b", "Heading"),
            ("##b", "Text"),
            ("#######", "Text"),
            ("- - -", "Rule"),
            ("  ~~~ sh", "Fence"),
            ("``` a`b", "Text"),
            ("> a", "Quote"),
            ("- a", "Item"),
            ("12) a", "Item"),
            ("1234567890. a", "Text"),
            ("-a", "Text"),
            ("    - a", "Text"),
        ] {
            let told = format!("{:?}", Begins::of(line));
            assert!(told.starts_with(begins), "{line:?}: {told}");
        }
    }

    #[test]
    fn a_fence_is_closed_by_its_own_kind() {
        let Begins::Fence(fence) = Begins::of("  ````rust") else { panic!() };
        assert!(fence.is_closed_by(" `````  "));
        assert!(!fence.is_closed_by("```") && !fence.is_closed_by("~~~~") && !fence.is_closed_by("```` x"));
        assert_eq!([fence.content("    a"), fence.content(" a"), fence.content("")], ["  a", "a", ""]);
    }
}

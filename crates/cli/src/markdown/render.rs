//! Renders one block of a Markdown document as rows.

use pulldown_cmark::{BlockQuoteKind, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::cells::{
    Cell, TextStyle, add, cells, chopped, code, columns, is_same_text, painted, trimmed_end, wrapped,
};
use super::table::Table;

/// The rows of `source`, which is one complete block. `first` is the number of a list item, because lists count from
/// their first number.
pub(super) fn rows(source: &str, width: usize, number: Option<u64>) -> Vec<String> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let parser = Parser::new_ext(source, options);
    // Link targets are printed as written: references may be on the screen already.
    let mut definitions: Vec<_> =
        parser.reference_definitions().iter().map(|(_, link)| link.span.clone()).collect();
    definitions.sort_by_key(|span| span.start);
    let mut page = Page::new(width, number);
    parser.for_each(|event| page.event(event));
    for span in definitions {
        page.gap();
        add(&mut page.inline, source[span].trim(), TextStyle::FAINT);
        page.flush();
    }
    page.flush();
    page.rows
}

/// The rows of one line of code.
pub(super) fn code_rows(line: &str, width: usize) -> Vec<String> {
    let line = code(line, TextStyle::CODE);
    let rows = chopped(&line, width.saturating_sub(CODE_INDENT));
    rows.into_iter().enumerate().map(|(at, row)| painted(&[&code_indent(at), row].concat())).collect()
}

/// The indentation of code.
const CODE_INDENT: usize = 2;

/// What stands before each row of a line of code.
fn code_indent(row: usize) -> Vec<Cell> {
    if row == 0 { vec![Cell::BLANK; CODE_INDENT] } else { cells("↪ ", TextStyle::FAINT) }
}

/// What encloses the following rows.
enum Frame {
    Quote,
    Item { marker: Option<Vec<Cell>>, indent: usize },
}

struct Page {
    width: usize,
    rows: Vec<String>,
    frames: Vec<Frame>,
    /// For each frame, and for the page: whether it has a row.
    filled: Vec<bool>,
    lists: Vec<List>,
    inline: Vec<Cell>,
    styles: Vec<TextStyle>,
    /// The targets of links, and where their texts start.
    links: Vec<(String, usize)>,
    table: Option<Table>,
    /// A block that is not wrapped: its style, and its text so far.
    verbatim: Option<(TextStyle, String)>,
    first: Option<u64>,
}

struct List {
    number: Option<u64>,
    /// Whether its items are separate paragraphs.
    is_loose: bool,
}

impl Page {
    fn new(width: usize, first: Option<u64>) -> Self {
        Self {
            width,
            rows: Vec::new(),
            frames: Vec::new(),
            filled: vec![false],
            lists: Vec::new(),
            inline: Vec::new(),
            styles: Vec::new(),
            links: Vec::new(),
            table: None,
            verbatim: None,
            first,
        }
    }

    fn style(&self) -> TextStyle {
        self.styles.iter().fold(TextStyle::PLAIN, |all, style| all | *style)
    }

    fn event(&mut self, event: Event<'_>) {
        let style = self.style();
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) => match &mut self.verbatim {
                Some((_, verbatim)) => verbatim.push_str(&text),
                None => add(&mut self.inline, &text, style),
            },
            Event::Code(text) => add(&mut self.inline, &text, style | TextStyle::CODE),
            Event::InlineHtml(tag) if is_break(&tag) => self.inline.push(Cell::BREAK),
            Event::InlineHtml(tag) => add(&mut self.inline, &tag, style | TextStyle::FAINT),
            Event::SoftBreak => self.inline.push(Cell::BLANK),
            Event::HardBreak => self.inline.push(Cell::BREAK),
            Event::Rule => {
                self.gap();
                self.inline = cells(&"─".repeat(self.room()), TextStyle::FAINT);
                self.flush();
            }
            Event::TaskListMarker(is_done) => {
                add(&mut self.inline, if is_done { "[x] " } else { "[ ] " }, TextStyle::FAINT);
            }
            Event::FootnoteReference(text) | Event::InlineMath(text) | Event::DisplayMath(text) => {
                add(&mut self.inline, &text, style);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph
            | Tag::Heading { .. }
            | Tag::BlockQuote(_)
            | Tag::CodeBlock(_)
            | Tag::HtmlBlock
            | Tag::List(_)
            | Tag::Table(_) => {
                self.gap();
                self.start_block(tag);
            }
            Tag::Item => self.item(),
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            tag => self.start_inline(tag),
        }
    }

    /// Starts a block, after the gap above it.
    fn start_block(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => {
                if let (Some(Frame::Item { .. }), Some(list)) = (self.frames.last(), self.lists.last_mut()) {
                    list.is_loose = true;
                }
            }
            Tag::Heading { level, .. } => {
                self.styles.push(TextStyle::STRONG);
                if level == HeadingLevel::H1 {
                    self.styles.push(TextStyle::UNDERLINED);
                }
            }
            Tag::BlockQuote(kind) => {
                self.open(Frame::Quote);
                if let Some(kind) = kind {
                    add(&mut self.inline, alert(kind), TextStyle::STRONG);
                    self.flush();
                }
            }
            Tag::CodeBlock(kind) => {
                if let CodeBlockKind::Fenced(info) = kind {
                    self.label(&info);
                }
                self.verbatim = Some((TextStyle::CODE, String::new()));
            }
            Tag::HtmlBlock => self.verbatim = Some((TextStyle::FAINT, String::new())),
            Tag::List(start) => {
                let start = self.first.take().or(start);
                self.lists.push(List { number: start, is_loose: false });
            }
            Tag::Table(alignments) => self.table = Some(Table::new(alignments)),
            _ => {}
        }
    }

    /// Starts a piece of text with a style or a link.
    fn start_inline(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Emphasis => self.styles.push(TextStyle::EMPHASIS),
            Tag::Strong => self.styles.push(TextStyle::STRONG),
            Tag::Strikethrough => self.styles.push(TextStyle::STRUCK),
            Tag::Link { dest_url, .. } => {
                self.styles.push(TextStyle::LINK);
                self.links.push((dest_url.into_string(), self.inline.len()));
            }
            Tag::Image { dest_url, .. } => {
                add(&mut self.inline, "image: ", TextStyle::FAINT);
                self.styles.push(TextStyle::EMPHASIS);
                self.links.push((dest_url.into_string(), self.inline.len()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.flush(),
            TagEnd::Heading(_) => {
                self.styles.clear();
                self.flush();
            }
            TagEnd::BlockQuote(_) | TagEnd::Item => {
                self.flush();
                self.close();
            }
            TagEnd::List(_) => {
                self.flush();
                self.lists.pop();
            }
            TagEnd::CodeBlock | TagEnd::HtmlBlock => self.end_verbatim(),
            TagEnd::TableCell => {
                let cell = std::mem::take(&mut self.inline);
                if let Some(table) = &mut self.table {
                    table.cell(cell);
                }
            }
            TagEnd::Table => {
                let room = self.room();
                let rows = self.table.take().map(|table| table.rows(room)).unwrap_or_default();
                rows.iter().for_each(|row| self.row(row));
            }
            TagEnd::Emphasis | TagEnd::Strong | TagEnd::Strikethrough => {
                self.styles.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.styles.pop();
                self.end_link();
            }
            _ => {}
        }
    }

    /// Whether the innermost list has no empty rows between items.
    fn is_tight(&self) -> bool {
        matches!(self.frames.last(), Some(Frame::Item { .. }))
            && self.lists.last().is_some_and(|list| !list.is_loose)
    }

    /// Starts a block: ends the text before it, and leaves an empty row if there are rows already.
    fn gap(&mut self) {
        self.flush();
        if self.filled.last() == Some(&true) && !self.is_tight() {
            self.row(&[]);
        }
    }

    fn item(&mut self) {
        self.flush();
        let Some(list) = self.lists.last_mut() else { return };
        let marker = match &mut list.number {
            None => "• ".to_owned(),
            Some(number) => {
                let marker = format!("{number}. ");
                *number = number.saturating_add(1);
                marker
            }
        };
        if list.is_loose && self.filled.last() == Some(&true) {
            self.row(&[]);
        }
        let marker = cells(&marker, TextStyle::FAINT);
        self.open(Frame::Item { indent: columns(&marker), marker: Some(marker) });
    }

    fn open(&mut self, frame: Frame) {
        self.frames.push(frame);
        self.filled.push(false);
    }

    fn close(&mut self) {
        // An item without text still shows its marker.
        if let Some(Frame::Item { marker: Some(_), .. }) = self.frames.last() {
            self.row(&[]);
        }
        self.frames.pop();
        self.filled.pop();
    }

    /// What stands before a row. If frames take more than half of the width, the inner ones are not drawn.
    fn prefix(&mut self) -> Vec<Cell> {
        let mut prefix = Vec::new();
        for frame in &mut self.frames {
            let drawn = match frame {
                Frame::Quote => cells("│ ", TextStyle::FAINT),
                Frame::Item { marker, indent } => marker.take().unwrap_or_else(|| vec![Cell::BLANK; *indent]),
            };
            if columns(&prefix) + columns(&drawn) <= self.width / 2 {
                prefix.extend(drawn);
            }
        }
        prefix
    }

    /// The width that is left for text.
    fn room(&self) -> usize {
        let mut used = 0;
        for frame in &self.frames {
            let wide = match frame {
                Frame::Quote => 2,
                Frame::Item { indent, .. } => *indent,
            };
            if used + wide <= self.width / 2 {
                used += wide;
            }
        }
        self.width - used
    }

    fn row(&mut self, row: &[Cell]) {
        let mut whole = self.prefix();
        whole.extend_from_slice(row);
        self.rows.push(painted(trimmed_end(&whole)));
        self.filled.iter_mut().for_each(|filled| *filled = true);
    }

    /// Ends a paragraph.
    fn flush(&mut self) {
        if self.table.is_some() || self.inline.is_empty() {
            return;
        }
        let inline = std::mem::take(&mut self.inline);
        wrapped(&inline, self.room()).into_iter().for_each(|row| self.row(row));
    }

    /// The name of the language above its code.
    fn label(&mut self, info: &str) {
        if !info.is_empty() {
            let label = [vec![Cell::BLANK; CODE_INDENT], cells(info, TextStyle::FAINT)].concat();
            let row = chopped(&label, self.room())[0];
            self.row(row);
        }
    }

    fn end_verbatim(&mut self) {
        let Some((style, text)) = self.verbatim.take() else { return };
        let room = self.room();
        for line in text.lines() {
            let line = code(line, style);
            if style == TextStyle::FAINT {
                chopped(&line, room).into_iter().for_each(|row| self.row(row));
                continue;
            }
            for (at, row) in chopped(&line, room.saturating_sub(CODE_INDENT)).into_iter().enumerate() {
                self.row(&[&code_indent(at), row].concat());
            }
        }
    }

    /// Writes the target of a link after its text, unless they are the same.
    fn end_link(&mut self) {
        let Some((url, start)) = self.links.pop() else { return };
        let text = self.inline.get(start..).unwrap_or_default();
        let written = cells(&url, TextStyle::FAINT);
        if !url.is_empty() && !is_same_text(text, &written) {
            if !text.is_empty() {
                self.inline.push(Cell::BLANK);
            }
            add(&mut self.inline, &format!("({url})"), TextStyle::FAINT);
        }
    }
}

fn is_break(tag: &str) -> bool {
    ["<br>", "<br/>", "<br />"].iter().any(|known| tag.eq_ignore_ascii_case(known))
}

fn alert(kind: BlockQuoteKind) -> &'static str {
    match kind {
        BlockQuoteKind::Note => "Note",
        BlockQuoteKind::Tip => "Tip",
        BlockQuoteKind::Important => "Important",
        BlockQuoteKind::Warning => "Warning",
        BlockQuoteKind::Caution => "Caution",
    }
}

/// The row with the name of a language, above its code.
pub(super) fn label_row(info: &str, width: usize) -> Option<String> {
    let mut page = Page::new(width, None);
    page.label(info);
    page.rows.pop()
}

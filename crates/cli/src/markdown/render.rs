//! One block of a document as rows.

use pulldown_cmark::{BlockQuoteKind, CodeBlockKind, Event, HeadingLevel, Options, Parser, Tag, TagEnd};

use super::cells::{
    Cell, TextStyle, add, cells, chopped, code, columns, is_same_text, painted, trimmed_end, wrapped,
};
use super::table::Table;

/// The rows of `source`, which is a whole block. An item of a numbered list may have another number than its
/// text says: lists count from their first.
pub(super) fn rows(source: &str, width: usize, number: Option<u64>) -> Vec<String> {
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    let parser = Parser::new_ext(source, options);
    // Where a link leads is told as it was written: it may be meant for text that is on the screen already.
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

/// The columns before code.
const CODE_INDENT: usize = 2;

/// What stands before the rows of one line of code.
fn code_indent(row: usize) -> Vec<Cell> {
    if row == 0 { vec![Cell::BLANK; CODE_INDENT] } else { cells("↪ ", TextStyle::FAINT) }
}

/// What encloses the rows to come.
enum Frame {
    Quote,
    Item { marker: Option<Vec<Cell>>, indent: usize },
}

struct Page {
    width: usize,
    rows: Vec<String>,
    frames: Vec<Frame>,
    /// Per frame, and for the page itself: whether it has a row.
    filled: Vec<bool>,
    lists: Vec<List>,
    inline: Vec<Cell>,
    looks: Vec<TextStyle>,
    /// Where links lead, and where their text begins.
    links: Vec<(String, usize)>,
    table: Option<Table>,
    /// The text of a block that is not wrapped: its look and what has come of it.
    verbatim: Option<(TextStyle, String)>,
    first: Option<u64>,
}

struct List {
    number: Option<u64>,
    /// Whether its items are paragraphs of their own.
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
            looks: Vec::new(),
            links: Vec::new(),
            table: None,
            verbatim: None,
            first,
        }
    }

    fn look(&self) -> TextStyle {
        self.looks.iter().fold(TextStyle::PLAIN, |all, look| all | *look)
    }

    fn event(&mut self, event: Event<'_>) {
        let look = self.look();
        match event {
            Event::Start(tag) => self.start(tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) | Event::Html(text) => match &mut self.verbatim {
                Some((_, verbatim)) => verbatim.push_str(&text),
                None => add(&mut self.inline, &text, look),
            },
            Event::Code(text) => add(&mut self.inline, &text, look | TextStyle::CODE),
            Event::InlineHtml(tag) if is_break(&tag) => self.inline.push(Cell::BREAK),
            Event::InlineHtml(tag) => add(&mut self.inline, &tag, look | TextStyle::FAINT),
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
                add(&mut self.inline, &text, look);
            }
        }
    }

    fn start(&mut self, tag: Tag<'_>) {
        match tag {
            Tag::Paragraph => {
                self.gap();
                if let (Some(Frame::Item { .. }), Some(list)) = (self.frames.last(), self.lists.last_mut()) {
                    list.is_loose = true;
                }
            }
            Tag::Heading { level, .. } => {
                self.gap();
                self.looks.push(TextStyle::STRONG);
                if level == HeadingLevel::H1 {
                    self.looks.push(TextStyle::UNDERLINED);
                }
            }
            Tag::BlockQuote(kind) => {
                self.gap();
                self.open(Frame::Quote);
                if let Some(kind) = kind {
                    add(&mut self.inline, alert(kind), TextStyle::STRONG);
                    self.flush();
                }
            }
            Tag::CodeBlock(kind) => {
                self.gap();
                if let CodeBlockKind::Fenced(info) = kind {
                    self.label(&info);
                }
                self.verbatim = Some((TextStyle::CODE, String::new()));
            }
            Tag::HtmlBlock => {
                self.gap();
                self.verbatim = Some((TextStyle::FAINT, String::new()));
            }
            Tag::List(start) => {
                self.gap();
                let start = self.first.take().or(start);
                self.lists.push(List { number: start, is_loose: false });
            }
            Tag::Item => self.item(),
            Tag::Table(alignments) => {
                self.gap();
                self.table = Some(Table::new(alignments));
            }
            Tag::TableHead | Tag::TableRow => {
                if let Some(table) = &mut self.table {
                    table.begin_row();
                }
            }
            Tag::Emphasis => self.looks.push(TextStyle::EMPHASIS),
            Tag::Strong => self.looks.push(TextStyle::STRONG),
            Tag::Strikethrough => self.looks.push(TextStyle::STRUCK),
            Tag::Link { dest_url, .. } => {
                self.looks.push(TextStyle::LINK);
                self.links.push((dest_url.into_string(), self.inline.len()));
            }
            Tag::Image { dest_url, .. } => {
                add(&mut self.inline, "image: ", TextStyle::FAINT);
                self.looks.push(TextStyle::EMPHASIS);
                self.links.push((dest_url.into_string(), self.inline.len()));
            }
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Paragraph => self.flush(),
            TagEnd::Heading(_) => {
                self.looks.clear();
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
                self.looks.pop();
            }
            TagEnd::Link | TagEnd::Image => {
                self.looks.pop();
                self.end_link();
            }
            _ => {}
        }
    }

    /// Whether rows inside the innermost list stand close together.
    fn is_tight(&self) -> bool {
        matches!(self.frames.last(), Some(Frame::Item { .. }))
            && self.lists.last().is_some_and(|list| !list.is_loose)
    }

    /// Begins a block: ends the text before it, and leaves a row free where there are rows already.
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
        // An item without text has its marker.
        if let Some(Frame::Item { marker: Some(_), .. }) = self.frames.last() {
            self.row(&[]);
        }
        self.frames.pop();
        self.filled.pop();
    }

    /// What stands before a row. Where frames would take more than half of the width, the inner ones are not
    /// drawn.
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

    /// The columns that are left for text.
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

    /// The name of a language above its code.
    fn label(&mut self, info: &str) {
        if !info.is_empty() {
            let label = [vec![Cell::BLANK; CODE_INDENT], cells(info, TextStyle::FAINT)].concat();
            let row = chopped(&label, self.room())[0];
            self.row(row);
        }
    }

    fn end_verbatim(&mut self) {
        let Some((look, text)) = self.verbatim.take() else { return };
        let room = self.room();
        for line in text.lines() {
            let line = code(line, look);
            if look == TextStyle::FAINT {
                chopped(&line, room).into_iter().for_each(|row| self.row(row));
                continue;
            }
            for (at, row) in chopped(&line, room.saturating_sub(CODE_INDENT)).into_iter().enumerate() {
                self.row(&[&code_indent(at), row].concat());
            }
        }
    }

    /// Where a link leads is written behind its text, unless the text says it.
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

/// The name of a language, as it stands above its code.
pub(super) fn label_row(info: &str, width: usize) -> Option<String> {
    let mut page = Page::new(width, None);
    page.label(info);
    page.rows.pop()
}

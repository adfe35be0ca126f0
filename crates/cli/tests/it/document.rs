//! A document of the repository, taken apart: its fenced blocks, links, anchors and tables.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd};

/// The documents beside those in `docs/`.
const DOCUMENTS: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "examples/README.md",
    "fuzz/README.md",
];

/// One document.
#[derive(Debug, Default)]
pub(crate) struct Document {
    /// Its place, seen from the top of the repository.
    pub(crate) path: PathBuf,
    pub(crate) blocks: Vec<Block>,
    /// Where its links and pictures lead, as written.
    pub(crate) links: Vec<String>,
    /// What can stand behind `#` in a link to it.
    pub(crate) anchors: BTreeSet<String>,
    pub(crate) tables: Vec<Table>,
}

/// A fenced block.
#[derive(Debug, Default)]
pub(crate) struct Block {
    /// What it says it is, up to the first space or comma.
    pub(crate) language: String,
    pub(crate) text: String,
    /// The line that its text begins at.
    pub(crate) line: usize,
}

/// A table.
#[derive(Debug, Default)]
pub(crate) struct Table {
    /// The words above its columns.
    pub(crate) heading: Vec<String>,
    /// Its rows, and of each of their cells what is `code`.
    pub(crate) rows: Vec<Vec<Vec<String>>>,
}

/// The top of the repository.
pub(crate) fn top() -> PathBuf {
    std::path::absolute(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap()
}

/// All documents of the repository.
pub(crate) fn documents() -> Vec<Document> {
    let mut paths: Vec<PathBuf> = DOCUMENTS.map(PathBuf::from).into();
    pages(Path::new("docs"), &mut paths);
    assert!(paths.len() > DOCUMENTS.len(), "there are no pages in docs/");
    paths.iter().map(|path| Document::read(path)).collect()
}

fn pages(directory: &Path, paths: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(top().join(directory)).unwrap() {
        let entry = entry.unwrap();
        let path = directory.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            pages(&path, paths);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path);
        }
    }
}

impl Document {
    /// The document at `path`, seen from the top of the repository.
    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(top().join(path)).unwrap();
        Self { path: path.to_owned(), ..Self::parse(&text) }
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut document = Self::default();
        let mut heading: Option<String> = None;
        let mut block: Option<Block> = None;
        let mut cell: Option<(String, Vec<String>)> = None;
        let mut row = Vec::new();
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_FOOTNOTES;
        for (event, range) in Parser::new_ext(text, options).into_offset_iter() {
            match event {
                Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
                Event::End(TagEnd::Heading(_)) => document.anchor(&heading.take().unwrap()),
                Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))) => {
                    let language = info.split([' ', ',']).next().unwrap_or_default().to_owned();
                    let line = text[..range.start].lines().count() + 2;
                    block = Some(Block { language, text: String::new(), line });
                }
                Event::End(TagEnd::CodeBlock) => document.blocks.extend(block.take()),
                Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                    document.links.push(dest_url.into_string());
                }
                Event::Html(html) | Event::InlineHtml(html) => document.links.extend(attributes(&html)),
                Event::Start(Tag::Table(_)) => document.tables.push(Table::default()),
                Event::Start(Tag::TableCell) => cell = Some(Default::default()),
                Event::End(TagEnd::TableCell) => row.extend(cell.take()),
                Event::End(TagEnd::TableHead) => {
                    let table = document.tables.last_mut().unwrap();
                    table.heading = row.drain(..).map(|(text, _)| text).collect();
                }
                Event::End(TagEnd::TableRow) => {
                    let table = document.tables.last_mut().unwrap();
                    table.rows.push(row.drain(..).map(|(_, code)| code).collect());
                }
                Event::Text(text) => {
                    if let Some(block) = &mut block {
                        block.text.push_str(&text);
                    }
                    heading.iter_mut().for_each(|heading| heading.push_str(&text));
                    cell.iter_mut().for_each(|cell| cell.0.push_str(&text));
                }
                Event::Code(code) => {
                    heading.iter_mut().for_each(|heading| heading.push_str(&code));
                    cell.iter_mut().for_each(|cell| cell.1.push(code.to_string()));
                }
                _ => {}
            }
        }
        document
    }

    /// The anchor that GitHub gives a heading: its letters, digits, hyphens and underscores, small, with hyphens for
    /// spaces; a number if it was there before.
    fn anchor(&mut self, heading: &str) {
        let anchor: String = heading
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | ' '))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let numbered = (1..).map(|number| format!("{anchor}-{number}"));
        let free = std::iter::once(anchor.clone()).chain(numbered).find(|one| !self.anchors.contains(one));
        self.anchors.extend(free);
    }
}

/// What `src` and `href` say in a piece of HTML.
fn attributes(html: &str) -> Vec<String> {
    let mut found = Vec::new();
    for name in ["src=\"", "href=\"", "srcset=\""] {
        found.extend(html.split(name).skip(1).filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    found
}

//! Characters that cannot be seen, or that change what is seen.

use super::kind::HiddenKind;
use super::{Findings, Line};

/// How many characters for private use, or variation selectors, in a row are a finding. Icon fonts and emoji use single ones.
const RUN: usize = 2;
/// The most tag characters of a flag, such as that of Scotland.
const MAX_FLAG_TAGS: usize = 6;
/// How many characters are shown before and after invisible ones.
const CONTEXT_CHARS: usize = 16;

pub(super) fn is_private_use(c: char) -> bool {
    matches!(c, '\u{E000}'..='\u{F8FF}' | '\u{F0000}'..='\u{FFFFD}' | '\u{100000}'..='\u{10FFFD}')
}

pub(super) fn is_variation_selector(c: char) -> bool {
    matches!(c, '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}')
}

pub(super) fn scan(line: Line<'_>, findings: &mut Findings<'_>) {
    // Nearly all lines are ASCII.
    if line.text.bytes().all(|byte| byte.is_ascii() && !matches!(byte, 0x08 | 0x1b | 0x7f)) {
        return;
    }
    let mut rest = line.text;
    while let Some(c) = rest.chars().next() {
        let at = line.text.len() - rest.len();
        let Some(kind) = kind_of(c) else {
            rest = &rest[c.len_utf8()..];
            continue;
        };
        let end = rest.find(|c| kind_of(c) != Some(kind)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        let before = &line.text[..at];
        if !is_normal(kind, before, run, after) {
            findings.add(line, at, kind, || excerpt(kind, before, run, after));
        }
        rest = after;
    }
}

fn kind_of(c: char) -> Option<HiddenKind> {
    match c {
        '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' | '\u{200E}' | '\u{200F}' | '\u{061C}' => {
            Some(HiddenKind::Bidi)
        }
        '\u{200B}'..='\u{200D}'
        | '\u{2060}'..='\u{2065}'
        | '\u{206A}'..='\u{206F}'
        | '\u{FEFF}'
        | '\u{00AD}'
        | '\u{034F}'
        | '\u{180E}'
        | '\u{115F}'
        | '\u{1160}'
        | '\u{3164}'
        | '\u{FFA0}'
        | '\u{FFF9}'..='\u{FFFB}' => Some(HiddenKind::ZeroWidth),
        '\u{E0000}'..='\u{E007F}' => Some(HiddenKind::Tags),
        '\u{8}' | '\u{1b}' | '\u{7f}' => Some(HiddenKind::TerminalControl),
        c if is_variation_selector(c) => Some(HiddenKind::VariationSelectors),
        c if is_private_use(c) => Some(HiddenKind::PrivateUse),
        _ => None,
    }
}

/// Whether these characters belong to ordinary text: to emoji, flags, or scripts that need joiners.
fn is_normal(kind: HiddenKind, before: &str, run: &str, after: &str) -> bool {
    let count = run.chars().count();
    let (last, next) = (before.chars().next_back(), after.chars().next());
    match kind {
        HiddenKind::ZeroWidth if run == "\u{200D}" => {
            last.is_some_and(|c| is_emoji(c) || is_joining(c))
                && next.is_some_and(|c| is_emoji(c) || is_joining(c))
        }
        HiddenKind::ZeroWidth if run == "\u{200C}" => {
            last.is_some_and(is_joining) && next.is_some_and(is_joining)
        }
        HiddenKind::Tags => {
            last == Some('\u{1F3F4}') && count <= MAX_FLAG_TAGS + 1 && run.ends_with('\u{E007F}')
        }
        HiddenKind::PrivateUse | HiddenKind::VariationSelectors => count < RUN,
        _ => false,
    }
}

fn is_emoji(c: char) -> bool {
    matches!(c, '\u{2190}'..='\u{2BFF}' | '\u{1F000}'..='\u{1FAFF}' | '\u{FE0F}')
}

/// Whether the letter is of a script that uses joiners: Arabic, Syriac, and those of India and its neighbours.
fn is_joining(c: char) -> bool {
    matches!(c, '\u{0600}'..='\u{08FF}' | '\u{0900}'..='\u{0DFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{18AF}')
}

fn excerpt(kind: HiddenKind, before: &str, run: &str, after: &str) -> String {
    let decoded = match kind {
        HiddenKind::Tags => Some(run.chars().filter_map(tagged).collect()),
        HiddenKind::VariationSelectors => selected(run),
        _ => None,
    };
    match decoded.filter(|text: &String| !text.is_empty()) {
        Some(text) => format!("{text:?}"),
        None => {
            let skip = before.chars().count().saturating_sub(CONTEXT_CHARS);
            let before = before.chars().skip(skip);
            before.chain(run.chars().take(CONTEXT_CHARS)).chain(after.chars().take(CONTEXT_CHARS)).collect()
        }
    }
}

/// The ASCII character that a tag character stands for.
fn tagged(c: char) -> Option<char> {
    let ascii = u8::try_from(u32::from(c).checked_sub(0xE0000)?).ok()?;
    (b' '..=b'~').contains(&ascii).then_some(char::from(ascii))
}

/// The text in a run of variation selectors, each of which can stand for a byte.
fn selected(run: &str) -> Option<String> {
    let bytes: Option<Vec<u8>> = run
        .chars()
        .map(|c| match u32::from(c) {
            code @ 0xFE00..=0xFE0F => u8::try_from(code - 0xFE00).ok(),
            code => u8::try_from(code.checked_sub(0xE0100)? + 16).ok(),
        })
        .collect();
    String::from_utf8(bytes?).ok().filter(|text| !text.chars().any(char::is_control))
}

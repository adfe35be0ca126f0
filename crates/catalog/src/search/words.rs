//! Splits text into words.
//!
//! A word is in lowercase and without accents. `kebab-case` and `snake_case` are split. A word in `CamelCase` stays whole, and its
//! parts follow it. Scripts that do not separate words give pairs of characters.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

/// The longest word, in characters. The rest of a longer one, such as a key or a blob, is dropped.
pub(super) const MAX_WORD: usize = 32;

/// What a word is in its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// A whole word.
    Whole,
    /// A part of the CamelCase word before it.
    Part,
}

/// Calls `each` for every word of `text`, until it returns `false`.
pub(super) fn each_word(text: &str, mut each: impl FnMut(&str, Piece) -> bool) {
    let folded;
    let text = if text.is_ascii() {
        text
    } else {
        folded = fold(text);
        &folded
    };
    let mut word = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(char::is_alphanumeric) {
        let before = rest[..start].chars().next_back();
        rest = &rest[start..];
        let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        if is_clitic(run, before, after) {
            continue;
        }
        if !each_of_run(run, after, &mut word, &mut each) {
            return;
        }
    }
}

/// Whether `run` is only a letter or two that an apostrophe joins to the real word: `s` in `user's`, `l` in `l'admin`.
fn is_clitic(run: &str, before: Option<char>, after: &str) -> bool {
    let is_apostrophe = |c: Option<char>| matches!(c, Some('\'' | '’'));
    let next = after.chars().next();
    let continues = after.chars().nth(1).is_some_and(char::is_alphanumeric);
    (is_apostrophe(before) && run.len() <= 2 && !run.starts_with(|c: char| c.is_ascii_digit()))
        || (is_apostrophe(next) && continues && (run.chars().count() == 1 || run.eq_ignore_ascii_case("qu")))
}

fn each_of_run(
    run: &str,
    after: &str,
    word: &mut String,
    each: &mut impl FnMut(&str, Piece) -> bool,
) -> bool {
    if run.chars().any(is_unseparated) {
        return each_mixed(run, word, each);
    }
    set(word, run);
    // C++, C# and F# are names of languages.
    if run.len() == 1 && after.starts_with("++") {
        word.push_str("pp");
    } else if run.len() == 1 && after.starts_with('#') {
        word.push_str("sharp");
    }
    if !each(word, Piece::Whole) {
        return false;
    }
    let mut humps = humps(run).peekable();
    if humps.peek().is_some_and(|first| first.len() < run.len()) {
        for part in humps.filter(|part| part.len() > 1) {
            set(word, part);
            if !each(word, Piece::Part) {
                return false;
            }
        }
    }
    true
}

/// The words of a run in which at least a part does not separate words.
fn each_mixed(run: &str, word: &mut String, each: &mut impl FnMut(&str, Piece) -> bool) -> bool {
    let mut rest = run;
    while let Some(first) = rest.chars().next() {
        let unseparated = is_unseparated(first);
        let end = rest.find(|c: char| is_unseparated(c) != unseparated).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        rest = after;
        if !unseparated || part.chars().count() == 1 {
            set(word, part);
            if !each(word, Piece::Whole) {
                return false;
            }
            continue;
        }
        for (a, b) in part.chars().zip(part.chars().skip(1)) {
            word.clear();
            word.extend([a, b]);
            if !each(word, Piece::Whole) {
                return false;
            }
        }
    }
    true
}

fn set(word: &mut String, text: &str) {
    word.clear();
    if text.is_ascii() {
        word.push_str(&text[..text.len().min(MAX_WORD)]);
        word.make_ascii_lowercase();
    } else {
        word.extend(text.chars().flat_map(char::to_lowercase).take(MAX_WORD));
    }
}

/// The parts of a word in CamelCase: `EventHubClient` has three, `HTTPServer` two, `github` one.
fn humps(run: &str) -> impl Iterator<Item = &str> {
    let mut rest = run;
    std::iter::from_fn(move || {
        let mut letters = rest.char_indices().peekable();
        let (_, first) = letters.next()?;
        let mut previous = first;
        let mut end = rest.len();
        while let Some((at, letter)) = letters.next() {
            let next_is_lower = letters.peek().is_some_and(|(_, next)| next.is_lowercase());
            if letter.is_uppercase() && (!previous.is_uppercase() || next_is_lower) {
                end = at;
                break;
            }
            previous = letter;
        }
        let (part, after) = rest.split_at(end);
        rest = after;
        Some(part)
    })
}

/// The text without accents, and with the usual form of each character.
fn fold(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            _ if c.is_ascii() || is_unseparated(c) || ('\u{AC00}'..='\u{D7A3}').contains(&c) => {
                folded.push(c)
            }
            'ß' => folded.push_str("ss"),
            'æ' => folded.push_str("ae"),
            'Æ' => folded.push_str("AE"),
            'œ' => folded.push_str("oe"),
            'Œ' => folded.push_str("OE"),
            'ø' => folded.push('o'),
            'Ø' => folded.push('O'),
            'ł' => folded.push('l'),
            'Ł' => folded.push('L'),
            'đ' | 'ð' => folded.push('d'),
            'ı' => folded.push('i'),
            _ => folded.extend(std::iter::once(c).nfkd().filter(|c| !is_combining_mark(*c))),
        }
    }
    folded
}

/// Whether the script of this character does not separate words: Chinese, Japanese or Thai.
pub(super) fn is_unseparated(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30FF}' | '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{E00}'..='\u{E7F}')
}

#[cfg(test)]
mod tests {
    use super::{MAX_WORD, Piece, each_word};

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each_word(text, |word, piece| {
            words.push(if piece == Piece::Part { format!("+{word}") } else { word.to_owned() });
            true
        });
        words
    }

    #[test]
    fn words_are_in_lowercase_and_split_at_everything_else() {
        assert_eq!(words("CSV-Reports, log_files & status"), ["csv", "reports", "log", "files", "status"]);
        assert_eq!(words("  \n?!"), Vec::<String>::new());
    }

    #[test]
    fn camel_case_stays_whole_and_gives_its_parts() {
        assert_eq!(words("EventHubClient"), ["eventhubclient", "+event", "+hub", "+client"]);
        assert_eq!(
            words("HTTPServer in TypeScript"),
            ["httpserver", "+http", "+server", "in", "typescript", "+type", "+script"]
        );
        assert_eq!(words("API GitHub2"), ["api", "github2", "+git", "+hub2"]);
    }

    #[test]
    fn accents_and_widths_are_folded() {
        assert_eq!(
            words("Präsentation análisis ŒUVRE Straße ＰＤＦ"),
            ["prasentation", "analisis", "oeuvre", "strasse", "pdf"]
        );
        assert_eq!(words("e\u{301}te\u{301}"), ["ete"], "also if the accent is a character of its own");
    }

    #[test]
    fn scripts_without_spaces_give_pairs() {
        assert_eq!(words("潮汐日志 log"), ["潮汐", "汐日", "日志", "log"]);
        assert_eq!(words("把GitHub的令牌"), ["把", "github", "的令", "令牌"]);
    }

    #[test]
    fn letters_beside_an_apostrophe_are_no_words() {
        assert_eq!(
            words("the user's file isn't l'admin, qu'elle 'quoted'"),
            ["the", "user", "file", "isn", "admin", "elle", "quoted"]
        );
    }

    #[test]
    fn languages_with_signs_in_their_names_are_words() {
        assert_eq!(words("C++, C# and F#, or C"), ["cpp", "csharp", "and", "fsharp", "or", "c"]);
    }

    #[test]
    fn long_words_are_cut_and_the_caller_can_stop() {
        assert_eq!(words(&"x".repeat(100_000))[0].len(), MAX_WORD);
        let mut count = 0;
        each_word(&"word ".repeat(1000), |_, _| {
            count += 1;
            count < 10
        });
        assert_eq!(count, 10);
    }
}

//! A pattern compiled for matching.

use std::sync::Arc;

use memchr::memmem::Finder;

/// A compiled pattern. Most patterns need only a simple comparison.
#[derive(Clone)]
pub(crate) enum Matcher {
    /// `*`.
    Any,
    /// A pattern without wildcards: its text without escapes.
    Exact(Arc<str>),
    /// The text before the first wildcard, the rest, and the matcher for the pattern without a final ` *`.
    Wild { head: Arc<str>, rest: Arc<[Piece]>, shorter: Option<Arc<Matcher>> },
}

pub(crate) enum Piece {
    /// A text that is never empty, and its searcher.
    Text(Box<str>, Box<Finder<'static>>),
    One,
    Many,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Char(char),
    One,
    Many,
}

impl Matcher {
    pub(crate) fn of(text: &str) -> Self {
        Self::of_tokens(&tokens(text))
    }

    fn of_tokens(tokens: &[Token]) -> Self {
        let head: String = tokens.iter().map_while(Token::char).collect();
        let rest = &tokens[head.chars().count()..];
        if tokens == [Token::Many] {
            Self::Any
        } else if rest.is_empty() {
            Self::Exact(head.into())
        } else {
            let shorter = tokens.strip_suffix(&[Token::Char(' '), Token::Many]);
            Self::Wild {
                head: head.into(),
                rest: pieces(rest).into(),
                shorter: shorter.map(|tokens| Arc::new(Self::without_tail(tokens))),
            }
        }
    }

    /// Only the final ` *` of a pattern may match nothing, not the one before it.
    fn without_tail(tokens: &[Token]) -> Self {
        match Self::of_tokens(tokens) {
            Self::Wild { head, rest, .. } => Self::Wild { head, rest, shorter: None },
            other => other,
        }
    }

    pub(crate) fn is_wild(&self) -> bool {
        matches!(self, Self::Wild { .. })
    }

    pub(crate) fn matches(&self, subject: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Exact(text) => **text == *subject,
            Self::Wild { head, rest, shorter } => {
                let matches = |subject| ends_right(rest, subject) && wild(rest, subject);
                subject.strip_prefix(&**head).is_some_and(matches)
                    || shorter.as_ref().is_some_and(|matcher| matcher.matches(subject))
            }
        }
    }
}

impl Token {
    fn char(&self) -> Option<char> {
        if let Self::Char(c) = self { Some(*c) } else { None }
    }
}

fn pieces(tokens: &[Token]) -> Vec<Piece> {
    tokens
        .chunk_by(|a, b| a.char().is_some() && b.char().is_some())
        .map(|chunk| match chunk {
            [Token::One] => Piece::One,
            [Token::Many] => Piece::Many,
            text => {
                let text: String = text.iter().filter_map(Token::char).collect();
                let finder = Finder::new(&text).into_owned();
                Piece::Text(text.into(), Box::new(finder))
            }
        })
        .collect()
}

/// Whether `subject` ends with the last piece. This quick check avoids most searches.
fn ends_right(pieces: &[Piece], subject: &str) -> bool {
    match pieces.last() {
        Some(Piece::Text(text, _)) => subject.ends_with(&**text),
        Some(Piece::One | Piece::Many) | None => true,
    }
}

/// Backtracks only to the last star: an earlier star could match nothing that the last one cannot. This keeps the number of
/// steps below the product of the lengths.
fn wild(pieces: &[Piece], subject: &str) -> bool {
    let mut at = 0;
    let mut rest = subject;
    // The piece after the last star, and where in the subject that star ends for now.
    let mut star: Option<(usize, &str)> = None;
    loop {
        let after = match pieces.get(at) {
            None if rest.is_empty() => return true,
            None => None,
            Some(Piece::Many) if at + 1 == pieces.len() => return true,
            Some(Piece::Many) => {
                star = Some((at + 1, rest));
                Some(rest)
            }
            Some(Piece::One) => without_first(rest),
            Some(Piece::Text(text, _)) => rest.strip_prefix(&**text),
        };
        if let Some(after) = after {
            at += 1;
            rest = after;
            continue;
        }
        // No match here: let the last star take at least one character more.
        let Some((next, longer)) = star.and_then(|(next, end)| Some((next, without_first(end)?))) else {
            return false;
        };
        rest = match &pieces[next] {
            // No match starts inside a character, so searching bytes is enough.
            Piece::Text(_, finder) => match finder.find(longer.as_bytes()) {
                Some(found) => &longer[found..],
                None => return false,
            },
            Piece::One | Piece::Many => longer,
        };
        at = next;
        star = Some((next, rest));
    }
}

fn without_first(text: &str) -> Option<&str> {
    let mut chars = text.chars();
    chars.next().map(|_| chars.as_str())
}

/// Splits the text into tokens. Several stars in a row count as one.
fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let token = match c {
            '*' if tokens.last() == Some(&Token::Many) => continue,
            '*' => Token::Many,
            // `*?` means the same as `?*`, which needs no backtracking.
            '?' if tokens.last() == Some(&Token::Many) => {
                tokens.insert(tokens.len() - 1, Token::One);
                continue;
            }
            '?' => Token::One,
            '\\' => Token::Char(chars.next_if(|next| matches!(next, '*' | '?' | '\\')).unwrap_or('\\')),
            c => Token::Char(c),
        };
        tokens.push(token);
    }
    tokens
}

//! How the tokens of a text are counted.

use prowess_base::tokens::estimate_tokens;
use reqwest::Url;

/// The host of OpenAI's own API.
const OPENAI_HOST: &str = "api.openai.com";
/// The beginnings of the names of OpenAI's models that use `o200k`. Older models use other tokenizers.
#[cfg(feature = "o200k")]
const O200K_MODELS: [&str; 10] =
    ["gpt-5", "gpt-4.1", "gpt-4.5", "gpt-4o", "chatgpt-4o", "o1", "o3", "o4", "codex-mini", "gpt-oss"];
/// The longest text that is tokenized at once, in bytes. It bounds the time that a hostile text takes.
#[cfg(feature = "o200k")]
const MAX_PIECE: usize = 16 * 1024;

/// How the tokens of a text are counted.
///
/// ```
/// use prowess_agent::Model as _;
/// use prowess_models::{OpenAi, Tokenizer};
///
/// // A gateway in front of OpenAI's models. With the feature `o200k`, this is exact.
/// let gateway = OpenAi::builder("gpt-5.1").base_url("https://gateway.example/v1").tokenizer(Tokenizer::O200k).build()?;
/// assert!(gateway.count_tokens("The tide comes in.") > 0);
/// let local = OpenAi::builder("qwen3").base_url("http://localhost:11434/v1").build()?;
/// assert_eq!(local.tokenizer(), None, "its tokens are estimated");
/// # Ok::<(), prowess_models::SetupError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tokenizer {
    /// With `o200k` if the endpoint and the model are OpenAI's, otherwise estimated.
    #[default]
    Automatic,
    /// With `o200k`, the tokenizer of OpenAI's models since 2024. Without the feature `o200k`, tokens are estimated.
    O200k,
    /// Estimated by the number of characters.
    Estimate,
}

impl Tokenizer {
    /// The tokenizer for this model at this endpoint.
    pub(super) fn chosen(self, model: &str, url: &Url) -> ChosenTokenizer {
        match self {
            Self::Estimate => ChosenTokenizer::Estimate,
            Self::O200k => ChosenTokenizer::o200k(),
            Self::Automatic if url.host_str() == Some(OPENAI_HOST) && is_o200k(model) => {
                ChosenTokenizer::o200k()
            }
            Self::Automatic => ChosenTokenizer::Estimate,
        }
    }
}

/// Whether a model of OpenAI uses `o200k`, by its name. The name of a tuned model has a prefix.
#[cfg(feature = "o200k")]
fn is_o200k(model: &str) -> bool {
    let model = model.strip_prefix("ft:").unwrap_or(model);
    O200K_MODELS.iter().any(|known| {
        model.strip_prefix(known).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphanumeric()))
    })
}

#[cfg(not(feature = "o200k"))]
fn is_o200k(_: &str) -> bool {
    false
}

/// A tokenizer that this program has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ChosenTokenizer {
    #[default]
    Estimate,
    #[cfg(feature = "o200k")]
    O200k,
}

impl ChosenTokenizer {
    #[cfg(feature = "o200k")]
    fn o200k() -> Self {
        Self::O200k
    }

    #[cfg(not(feature = "o200k"))]
    fn o200k() -> Self {
        Self::Estimate
    }

    /// The name of the tokenizer; `None` if it only estimates.
    pub(super) fn name(self) -> Option<&'static str> {
        match self {
            Self::Estimate => None,
            #[cfg(feature = "o200k")]
            Self::O200k => Some("o200k"),
        }
    }

    /// Counts the tokens of a text.
    pub(super) fn count(self, text: &str) -> u64 {
        match self {
            Self::Estimate => estimate_tokens(text) as u64,
            #[cfg(feature = "o200k")]
            Self::O200k => {
                // The vocabulary is read when the first text is counted: about 0.1 s.
                let tokenizer = tiktoken_rs::o200k_base_singleton();
                pieces(text).map(|piece| tokenizer.encode_ordinary(piece).len() as u64).sum()
            }
        }
    }
}

/// Cuts a text into pieces, at ends of lines if possible.
#[cfg(feature = "o200k")]
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let end = rest.floor_char_boundary(MAX_PIECE);
        let end = match rest[..end].rfind('\n') {
            Some(line) if end < rest.len() && line > end / 2 => line + 1,
            _ => end,
        };
        let (piece, after) = rest.split_at(end);
        rest = after;
        Some(piece)
    })
}

#[cfg(test)]
#[cfg(feature = "o200k")]
mod tests {
    use super::*;

    fn chosen(tokenizer: Tokenizer, model: &str, url: &str) -> Option<&'static str> {
        tokenizer.chosen(model, &Url::parse(url).unwrap()).name()
    }

    #[test]
    fn only_openais_own_models_are_counted_by_default() {
        let own = "https://api.openai.com/v1/chat/completions";
        for model in [
            "gpt-5.1",
            "gpt-5",
            "gpt-4o-mini",
            "gpt-4.1-nano",
            "o3",
            "o4-mini",
            "ft:gpt-4o:me::x",
            "chatgpt-4o-latest",
        ] {
            assert_eq!(chosen(Tokenizer::Automatic, model, own), Some("o200k"), "{model}");
        }
        for model in ["gpt-4", "gpt-4-turbo", "gpt-3.5-turbo", "o30", "qwen3", ""] {
            assert_eq!(chosen(Tokenizer::Automatic, model, own), None, "{model}");
        }
        for url in
            ["http://localhost:11434/v1", "https://api.openai.com.example.org/v1", "https://example.org/v1"]
        {
            assert_eq!(chosen(Tokenizer::Automatic, "gpt-5.1", url), None, "{url}");
            assert_eq!(chosen(Tokenizer::O200k, "anything", url), Some("o200k"), "the configuration says so");
        }
        assert_eq!(chosen(Tokenizer::Estimate, "gpt-5.1", own), None);
    }

    #[test]
    fn tokens_are_counted_as_openai_does() {
        let count = |text: &str| ChosenTokenizer::O200k.count(text);
        // From OpenAI's own tokenizer.
        assert_eq!(count("hello world"), 2);
        assert_eq!(count("antidisestablishmentarianism"), 6);
        assert_eq!(count("お誕生日おめでとう"), 8);
        assert_eq!(count(""), 0);
        assert_eq!(count("<|endoftext|>"), 7, "special tokens are plain text");
    }

    #[test]
    fn a_long_text_is_counted_in_pieces_with_little_difference() {
        let text = "The tide comes in twice a day.\n".repeat(4_000);
        let whole = tiktoken_rs::o200k_base_singleton().encode_ordinary(&text).len() as u64;
        assert!(ChosenTokenizer::O200k.count(&text).abs_diff(whole) <= 8);
        assert_eq!(pieces(&text).collect::<String>(), text);
        // A regular expression with backtracking must not fail on these.
        for hostile in
            [" ".repeat(3_000_000), "a".repeat(300_000), "\u{3000}".repeat(300_000), " \n\t".repeat(300_000)]
        {
            assert!(ChosenTokenizer::O200k.count(&hostile) > 0);
        }
    }
}

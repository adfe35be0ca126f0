//! Estimates how many tokens a text takes, without a tokenizer.

/// Estimates the tokens of `text`: one for every four characters, rounded up.
///
/// The estimate has the right order of magnitude for English prose. It is too low for scripts with a token for each
/// character. For an exact number, use your model's tokenizer.
///
/// ```
/// assert_eq!(prowess_base::tokens::estimate_tokens("eight ch"), 2);
/// ```
#[must_use]
pub fn estimate_tokens(text: &str) -> usize {
    let characters = text.as_bytes().iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
    characters.div_ceil(4)
}

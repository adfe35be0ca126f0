//! Estimates the tokens of a text without a tokenizer.

/// An estimate of `text`'s tokens: one for every four characters, rounded up.
///
/// The order of magnitude is right for English prose. The estimate is too low for scripts with one token per character. If your
/// program needs exact numbers, use the tokenizer of its model.
///
/// ```
/// assert_eq!(prowess_catalog::estimate_tokens("eight ch"), 2);
/// ```
pub fn estimate_tokens(text: &str) -> usize {
    let characters = text.as_bytes().iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
    characters.div_ceil(4)
}

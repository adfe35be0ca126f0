//! How much of a model's window a text takes, without a tokenizer.

/// An estimate of `text`'s tokens: one for every four characters, rounded up.
///
/// Right for English prose in order of magnitude, too low for scripts with a token a character. A host
/// that needs the exact figure counts with its model's own tokenizer.
///
/// ```
/// assert_eq!(prowess_catalog::estimate_tokens("eight ch"), 2);
/// ```
pub fn estimate_tokens(text: &str) -> usize {
    let characters = text.as_bytes().iter().filter(|&&byte| byte & 0xC0 != 0x80).count();
    characters.div_ceil(4)
}

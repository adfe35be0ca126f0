//! The type of a scalar in YAML 1.2's core schema: text, null, or a number or boolean.

use granit_parser::{ScalarStyle, Tag};

/// The type of a scalar in YAML 1.2's core schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schema {
    String,
    Null,
    /// A boolean or a number.
    Other,
}

pub(super) fn schema_of(text: &str, style: ScalarStyle, tag: Option<&Tag>, absent: bool) -> Schema {
    match tag.and_then(Tag::core_suffix) {
        Some("str") => return Schema::String,
        Some("null") => return Schema::Null,
        Some("int" | "float" | "bool") => return Schema::Other,
        Some(_) | None => {}
    }
    if style != ScalarStyle::Plain || tag.is_some() {
        return Schema::String;
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Schema::Null,
        _ if absent => Schema::Null,
        "true" | "True" | "TRUE" | "false" | "False" | "FALSE" => Schema::Other,
        _ if is_number(text) => Schema::Other,
        _ => Schema::String,
    }
}

/// Whether YAML 1.2's core schema reads `text` as a number.
fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if let Some(hex) = text.strip_prefix("0x") {
        return !hex.is_empty() && hex.bytes().all(|byte| byte.is_ascii_hexdigit());
    }
    if let Some(octal) = text.strip_prefix("0o") {
        return !octal.is_empty() && octal.bytes().all(|byte| matches!(byte, b'0'..=b'7'));
    }
    if matches!(text, ".nan" | ".NaN" | ".NAN") {
        return true;
    }
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if matches!(unsigned, ".inf" | ".Inf" | ".INF") {
        return true;
    }
    let (mantissa, exponent) = match unsigned.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (unsigned, None),
    };
    if exponent.is_some_and(|exponent| !digits(exponent.strip_prefix(['-', '+']).unwrap_or(exponent))) {
        return false;
    }
    match mantissa.split_once('.') {
        None => digits(mantissa),
        Some((whole, fraction)) => {
            (digits(whole) && (fraction.is_empty() || digits(fraction)))
                || (whole.is_empty() && digits(fraction))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_core_schema_tells_strings_from_numbers() {
        for text in [
            "0", "-12", "+3", "1.5", "1.", ".5", "1e3", "1.5E-7", "0x1F", "0o17", ".inf", "-.INF", ".nan",
            "007",
        ] {
            assert!(is_number(text), "{text}");
        }
        for text in
            ["", ".", "-", "1e", "0x", "0o8", "1.2.3", "2031-05-04", "12:30", "1_000", "e3", "-.nan", "+0x1"]
        {
            assert!(!is_number(text), "{text}");
        }
    }
}

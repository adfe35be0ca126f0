//! Writes bytes as lowercase hexadecimal digits and reads them.

use std::fmt;

/// Writes two digits for each byte.
///
/// ```
/// let mut text = "sha256:".to_owned();
/// prowess_base::hex::write(&mut text, &[0xba, 0x78]).unwrap();
/// assert_eq!(text, "sha256:ba78");
/// ```
///
/// # Errors
///
/// `out` cannot be written. Writing to a `String` never fails.
pub fn write(out: &mut impl fmt::Write, bytes: &[u8]) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

/// Returns `bytes` as text, with two digits for each byte.
///
/// ```
/// assert_eq!(prowess_base::hex::encode(b"\x00\xff"), "00ff");
/// ```
#[must_use]
pub fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    // Writing to a string cannot fail.
    let _ = write(&mut text, bytes);
    text
}

/// Reads exactly `N` bytes from lowercase digits. Other text gives `None`, so each value has one spelling.
///
/// ```
/// use prowess_base::hex::decode;
///
/// assert_eq!(decode("00ff"), Some([0x00, 0xff]));
/// assert_eq!(decode::<2>("00FF"), None);
/// assert_eq!(decode::<2>("00f"), None);
/// ```
#[must_use]
pub fn decode<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

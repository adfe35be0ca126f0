//! How large an answer may be.

use std::io;

use rmcp::ErrorData;
use serde::Serialize;

/// The most bytes of an answer, as JSON.
pub const MAX_ANSWER_BYTES: usize = 16 << 20;
/// The most bytes of a file in an answer. Base64 turns three bytes into four, and the answer needs some more.
pub(crate) const MAX_FILE: u64 = (MAX_ANSWER_BYTES as u64 - 64 * 1024) / 4 * 3;

/// Returns the answer, unless it is too large.
pub(crate) fn bounded<T: Serialize>(answer: T) -> Result<T, ErrorData> {
    let mut counted = Counted(0);
    match serde_json::to_writer(&mut counted, &answer) {
        Ok(()) => Ok(answer),
        Err(_) => {
            let why = format!("The answer has more than {} MiB; ask for less", MAX_ANSWER_BYTES >> 20);
            Err(ErrorData::internal_error(why, None))
        }
    }
}

/// A writer that counts bytes and keeps none.
struct Counted(usize);

impl io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.saturating_add(bytes.len());
        if self.0 > MAX_ANSWER_BYTES { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes.len()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    #[test]
    fn the_largest_file_fits_and_more_does_not() {
        let file = STANDARD.encode(vec![0; usize::try_from(MAX_FILE).unwrap()]);
        assert!(bounded(&file).is_ok());
        assert!(bounded("\u{1}".repeat(MAX_ANSWER_BYTES / 6 + 1)).is_err());
    }
}

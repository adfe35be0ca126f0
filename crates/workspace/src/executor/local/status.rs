//! The status that bubblewrap reports while the sandbox runs.

use serde::Deserialize;

/// The status that bubblewrap has reported so far.
#[derive(Debug, Default)]
pub(super) struct BwrapStatus {
    unread: Vec<u8>,
    /// The first process inside, by its number outside.
    pub(super) first: Option<i32>,
    /// The PID namespace.
    pub(super) namespace: Option<u64>,
    /// The exit code of the command; `None` if it never started.
    pub(super) code: Option<i32>,
}

#[derive(Deserialize)]
struct Line {
    #[serde(rename = "child-pid")]
    first: Option<i32>,
    #[serde(rename = "pid-namespace")]
    namespace: Option<u64>,
    #[serde(rename = "exit-code")]
    code: Option<i32>,
}

impl BwrapStatus {
    /// Adds bytes; a line can come in several pieces.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.unread.extend_from_slice(bytes);
        while let Some(end) = memchr::memchr(b'\n', &self.unread) {
            let line: Vec<u8> = self.unread.drain(..=end).collect();
            if let Ok(line) = serde_json::from_slice::<Line>(&line) {
                self.first = line.first.or(self.first);
                self.namespace = line.namespace.or(self.namespace);
                self.code = line.code.or(self.code);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_pieces() {
        let mut status = BwrapStatus::default();
        status.push(b"{ \"child-pid\": 12, \"pid-namespace\": 40");
        assert_eq!(status.first, None);
        status.push(b"265 }\n{ \"exit-code\": 3 }\n");
        assert_eq!((status.first, status.namespace, status.code), (Some(12), Some(40265), Some(3)));
    }
}

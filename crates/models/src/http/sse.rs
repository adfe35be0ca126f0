//! Server-sent events, from bytes that are cut anywhere.
//!
//! It follows the standard and fails on nothing but length: lines end with LF, CR or both, a byte order mark is
//! skipped, fields that it does not know are no error, and bytes that are no UTF-8 become replacement characters.

/// The longest event, in bytes. What is longer is not an answer of a model.
pub(crate) const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// An event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// Its type; empty when it has none.
    pub(crate) event: String,
    /// What it says.
    pub(crate) data: String,
}

/// An event is longer than [`MAX_EVENT_BYTES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EventTooLong;

/// Puts events together.
#[derive(Debug, Default)]
pub(crate) struct SseReader {
    line: Vec<u8>,
    current: SseEvent,
    has_data: bool,
    /// The last byte was a CR; a LF after it ends the same line.
    after_cr: bool,
    /// A line has ended, so that no byte order mark can come.
    started: bool,
}

impl SseReader {
    /// Takes more bytes; whole events go to `events`.
    pub(crate) fn push(&mut self, mut bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), EventTooLong> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + self.current.data.len() + piece.len() > MAX_EVENT_BYTES {
                return Err(EventTooLong);
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { return Ok(()) };
            self.after_cr = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line(events);
        }
        Ok(())
    }

    /// Nothing comes any more. An event without the empty line that ends it counts too: some servers leave it out.
    pub(crate) fn finish(&mut self) -> Option<SseEvent> {
        let mut events = Vec::new();
        if !self.line.is_empty() {
            self.end_line(&mut events);
        }
        self.end_line(&mut events);
        events.pop()
    }

    fn end_line(&mut self, events: &mut Vec<SseEvent>) {
        let line = std::mem::take(&mut self.line);
        let mut bytes = line.as_slice();
        if !std::mem::replace(&mut self.started, true) {
            bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
        }
        if bytes.is_empty() {
            let event = std::mem::take(&mut self.current);
            if std::mem::take(&mut self.has_data) {
                events.push(event);
            }
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => {
                if std::mem::replace(&mut self.has_data, true) {
                    self.current.data.push('\n');
                }
                self.current.data.push_str(value);
            }
            "event" => value.clone_into(&mut self.current.event),
            // A comment, or nothing that an answer needs.
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All events of `pieces`.
    fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<SseEvent> {
        let (mut reader, mut events) = (SseReader::default(), Vec::new());
        for piece in pieces {
            reader.push(piece, &mut events).unwrap();
        }
        events.extend(reader.finish());
        events
    }

    fn event(event: &str, data: &str) -> SseEvent {
        SseEvent { event: event.to_owned(), data: data.to_owned() }
    }

    #[test]
    fn lines_end_in_three_ways() {
        let expected = [event("a", "1\n2"), event("", "3")];
        for end in ["\n", "\r\n", "\r"] {
            let text =
                ["event: a", "data: 1", "data:2", "", ": comment", "id: 7", "data: 3", "", ""].join(end);
            assert_eq!(read([text.as_bytes()]), expected, "{end:?}");
        }
    }

    #[test]
    fn oddities_are_no_errors() {
        assert_eq!(read([b"\xEF\xBB\xBFdata: x\n\n".as_slice()]), [event("", "x")]);
        assert_eq!(read([b"data\n\n".as_slice()]), [event("", "")]);
        assert_eq!(
            read([b"event: a\nevent: b\nretry: soon\nodd line\ndata: x\n\n".as_slice()]),
            [event("b", "x")]
        );
        assert_eq!(read([b"event: ping\n\n".as_slice()]), []);
        assert_eq!(read([b"data: \xff\n\n".as_slice()]), [event("", "\u{fffd}")]);
        assert_eq!(read([b"data: [DONE]".as_slice()]), [event("", "[DONE]")]);
        assert_eq!(read([b"data: x\n".as_slice()]), [event("", "x")]);
    }

    #[test]
    fn an_endless_line_ends() {
        let (mut reader, mut events) = (SseReader::default(), Vec::new());
        let piece = vec![b'x'; 1024 * 1024];
        let taken = (0..100).take_while(|_| reader.push(&piece, &mut events).is_ok()).count();
        assert_eq!(taken, 16);
    }

    #[test]
    fn endless_lines_of_one_event_end() {
        let (mut reader, mut events) = (SseReader::default(), Vec::new());
        let piece = [b"data: ".as_slice(), &vec![b'x'; 1024 * 1024], b"\n"].concat();
        assert!((0..100).any(|_| reader.push(&piece, &mut events) == Err(EventTooLong)));
    }

    proptest! {
        /// However the bytes are cut, the events are the same.
        #[test]
        fn cuts_do_not_matter(
            lines in proptest::collection::vec("(data: |event: |: |)[a-zäß€😀:]{0,6}(\n|\r|\r\n)", 0..12),
            cuts in proptest::collection::vec(0usize..200, 0..8),
        ) {
            let bytes = lines.concat().into_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let cut = read(cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]));
            prop_assert_eq!(cut, read([bytes.as_slice()]));
        }
    }
}

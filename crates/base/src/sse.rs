//! Reads server-sent events from chunks of bytes. A chunk can end anywhere.
//!
//! The reader follows the standard and fails only if an event is too long. Lines end with LF, CR or both. The reader
//! skips a byte order mark and unknown fields, and replaces bytes that are not UTF-8.

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// One event of a stream. If a field is repeated, the last value counts; lines of `data` are joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SseEvent {
    /// The type, or an empty text if the event has none.
    pub event: String,
    /// The text of the event.
    pub data: Option<String>,
    /// The id from which a client can resume the stream.
    pub id: Option<String>,
    /// How many milliseconds a client waits before it reconnects.
    pub retry: Option<u64>,
}

impl SseEvent {
    /// Returns the data, or an empty text if the event has none.
    #[must_use]
    pub fn text(&self) -> &str {
        self.data.as_deref().unwrap_or_default()
    }
}

/// An event is longer than the limit of its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventTooLong;

/// Reads the events of a stream, chunk by chunk.
///
/// ```
/// use prowess_base::sse::SseReader;
///
/// let (mut reader, mut events) = (SseReader::new(1024), Vec::new());
/// for piece in ["event: tide\nda", "ta: low\n", "\n: a comment\n\n"] {
///     reader.push(piece.as_bytes(), &mut events)?;
/// }
/// assert_eq!(events.len(), 1);
/// assert_eq!((&*events[0].event, events[0].text()), ("tide", "low"));
/// # Ok::<(), prowess_base::sse::EventTooLong>(())
/// ```
#[derive(Debug)]
pub struct SseReader {
    max_event_bytes: usize,
    line: Vec<u8>,
    current: SseEvent,
    /// The bytes of the current event so far, without the ends of its lines.
    length: usize,
    /// Whether the last byte was a CR. An LF after it ends the same line.
    after_cr: bool,
    /// Whether a line has ended. A byte order mark can only be before that.
    started: bool,
}

impl SseReader {
    /// Makes a reader that fails if the lines of one event have more bytes than this.
    #[must_use]
    pub fn new(max_event_bytes: usize) -> Self {
        Self {
            max_event_bytes,
            line: Vec::new(),
            current: SseEvent::default(),
            length: 0,
            after_cr: false,
            started: false,
        }
    }

    /// Reads a chunk and adds the completed events to `events`.
    ///
    /// # Errors
    ///
    /// An event is too long. `events` has the events before it. The reader cannot be used any more.
    pub fn push(&mut self, mut bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), EventTooLong> {
        while let Some(first) = bytes.first() {
            if std::mem::take(&mut self.after_cr) && *first == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            self.length = self.length.saturating_add(piece.len());
            if self.length > self.max_event_bytes {
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

    /// Ends the stream. Returns the last event if no empty line follows it; some servers leave that line out.
    pub fn finish(&mut self) -> Option<SseEvent> {
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
            self.length = 0;
            let event = std::mem::take(&mut self.current);
            // A type without other fields is not an event.
            if event.data.is_some() || event.id.is_some() || event.retry.is_some() {
                events.push(event);
            }
            return;
        }
        let text = String::from_utf8_lossy(bytes);
        let (field, value) = text.split_once(':').unwrap_or((&text, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => match &mut self.current.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                data => *data = Some(value.to_owned()),
            },
            "event" => value.clone_into(&mut self.current.event),
            "id" if !value.contains('\0') => self.current.id = Some(value.to_owned()),
            "retry" if value.bytes().all(|byte| byte.is_ascii_digit()) => {
                self.current.retry = value.parse().ok().or(self.current.retry);
            }
            // A comment or an unknown field.
            _ => {}
        }
    }
}

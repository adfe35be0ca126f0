//! Tests of server-sent events, with chunks of any size.

use proptest::prelude::*;
use prowess_base::sse::{EventTooLong, SseEvent, SseReader};

const MAX_EVENT_BYTES: usize = 16 * 1024 * 1024;

/// All events of `pieces`.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<SseEvent> {
    let (mut reader, mut events) = (SseReader::new(MAX_EVENT_BYTES), Vec::new());
    for piece in pieces {
        reader.push(piece, &mut events).unwrap();
    }
    events.extend(reader.finish());
    events
}

fn event(event: &str, data: &str) -> SseEvent {
    SseEvent { event: event.to_owned(), data: Some(data.to_owned()), ..SseEvent::default() }
}

#[test]
fn lines_end_in_three_ways() {
    let last = SseEvent { id: Some("7".to_owned()), ..event("", "3") };
    let expected = [event("a", "1\n2"), last];
    for end in ["\n", "\r\n", "\r"] {
        let text = ["event: a", "data: 1", "data:2", "", ": comment", "id: 7", "data: 3", "", ""].join(end);
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
fn a_client_learns_where_to_resume_and_when() {
    let resume = SseEvent { id: Some("7".to_owned()), retry: Some(30), ..SseEvent::default() };
    for text in ["id: 7\nretry: 30\n\n", "id: 7\nid: 8\0\nretry: 30\nretry: 3.5\nretry: \n\n"] {
        assert_eq!(read([text.as_bytes()]), std::slice::from_ref(&resume), "{text:?}");
    }
    assert_eq!(read([b"retry: 99999999999999999999\n\n".as_slice()]), []);
}

#[test]
fn an_event_may_be_so_long_and_no_longer() {
    let (mut reader, mut events) = (SseReader::new(10), Vec::new());
    for chunk in ["data: 1234", "\r\n\r\n", ": ping\n\n", "data: 1\n\ndata: 2\n\n"] {
        assert_eq!(reader.push(chunk.as_bytes(), &mut events), Ok(()), "{chunk:?}");
    }
    assert_eq!(events, [event("", "1234"), event("", "1"), event("", "2")]);
    let too_long = |bytes: &[u8]| SseReader::new(10).push(bytes, &mut Vec::new());
    assert_eq!(too_long(b"data: 12345"), Err(EventTooLong));
    assert_eq!(too_long(b"data: 1\ndata: 2\n"), Err(EventTooLong), "lines of one event add up");
    assert_eq!(too_long(b"id: 123\nevent: 4\n"), Err(EventTooLong), "and so do other fields");
}

#[test]
fn nothing_is_read_after_an_event_that_is_too_long() {
    let (mut reader, mut events) = (SseReader::new(10), Vec::new());
    assert_eq!(reader.push(b"data: 12345678", &mut events), Err(EventTooLong));
    assert_eq!(reader.push(b"\n\ndata: 1\n\n", &mut events), Err(EventTooLong));
    assert_eq!(events, []);
}

#[test]
fn an_endless_line_ends() {
    let (mut reader, mut events) = (SseReader::new(MAX_EVENT_BYTES), Vec::new());
    let piece = vec![b'x'; 1024 * 1024];
    let taken = (0..100).take_while(|_| reader.push(&piece, &mut events).is_ok()).count();
    assert_eq!(taken, 16);
}

#[test]
fn endless_lines_of_one_event_end() {
    let (mut reader, mut events) = (SseReader::new(MAX_EVENT_BYTES), Vec::new());
    let piece = [b"data: ".as_slice(), &vec![b'x'; 1024 * 1024], b"\n"].concat();
    assert!((0..100).any(|_| reader.push(&piece, &mut events) == Err(EventTooLong)));
}

proptest! {
    /// The size of the chunks does not change the events.
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

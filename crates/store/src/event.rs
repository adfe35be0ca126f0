//! Events as rows, with checksums that reveal damage.

use std::error::Error;
use std::time::{Duration, SystemTime};

use prowess_agent::thread::{StoredEvent, ThreadError};
use prowess_agent::thread_state::EVENT_VERSION;
use prowess_agent::{Event, ThreadId};
use serde::Serialize;

use crate::error::DatabaseError;

/// A row of the table of events.
#[derive(Clone, Debug)]
pub(crate) struct EventRow {
    pub(crate) number: i64,
    /// When it was stored, in microseconds since 1970.
    pub(crate) stored: i64,
    pub(crate) version: i64,
    pub(crate) checksum: i64,
    pub(crate) body: Vec<u8>,
}

/// A row of [`crate::sql::EVENTS`]: the number of events of the thread, and one event.
pub(crate) type LogRow = (i64, Option<EventRow>);

/// How deep the JSON of an event can be nested. Deeper JSON could not be read again.
pub(crate) const MAX_DEPTH: usize = 127;

/// Events on their way into the log.
#[derive(Clone, Debug)]
pub(crate) struct NewEvents {
    /// Their JSON.
    pub(crate) bodies: Vec<Vec<u8>>,
    /// How many of them are answers: of a model or of a tool.
    pub(crate) answered: i64,
}

impl NewEvents {
    pub(crate) fn of(events: &[Event]) -> Result<Self, ThreadError> {
        let refused = |source| {
            let action = "could not write an event as JSON".to_owned();
            ThreadError::Store { action, source }
        };
        let bodies = events.iter().map(|event| json(event, MAX_DEPTH).map_err(refused));
        let answers = events.iter().filter(|event| event.is_answer()).count();
        Ok(Self { bodies: bodies.collect::<Result<_, _>>()?, answered: signed(answers as u64) })
    }
}

/// The JSON of a value, unless it is nested too deep.
pub(crate) fn json(
    value: &impl Serialize,
    max_depth: usize,
) -> Result<Vec<u8>, Box<dyn Error + Send + Sync>> {
    let body = serde_json::to_vec(value)?;
    match depth(&body) {
        depth if depth > max_depth => {
            Err(format!("it is nested {depth} levels deep; the limit is {max_depth}").into())
        }
        _ => Ok(body),
    }
}

/// How deep JSON is nested.
fn depth(json: &[u8]) -> usize {
    let (mut deepest, mut now) = (0, 0_usize);
    let (mut in_text, mut is_escaped) = (false, false);
    for byte in json {
        match byte {
            _ if std::mem::take(&mut is_escaped) => {}
            b'\\' => is_escaped = true,
            b'"' => in_text = !in_text,
            _ if in_text => {}
            b'[' | b'{' => {
                now += 1;
                deepest = deepest.max(now);
            }
            b']' | b'}' => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The mark of a version whose checksum omits the time. In PostgreSQL, one statement stores a row, so only the server knows its time.
const TIMELESS: i64 = 1 << 16;

/// The current version, and the checksum of a row with this time.
pub(crate) fn version_and_checksum(number: i64, stored: i64, body: &[u8]) -> (i64, i64) {
    let version = i64::from(EVENT_VERSION);
    (version, checksum(&[number, stored, version], body))
}

/// The same for a row whose time the server decides.
#[cfg(feature = "postgres")]
pub(crate) fn timeless_version_and_checksum(number: i64, body: &[u8]) -> (i64, i64) {
    let version = i64::from(EVENT_VERSION) | TIMELESS;
    (version, checksum(&[number, version], body))
}

/// The CRC-32 of a row, which reveals damage by a disk.
pub(crate) fn checksum(numbers: &[i64], body: &[u8]) -> i64 {
    let mut hasher = crc32fast::Hasher::new();
    for number in numbers {
        hasher.update(&number.to_le_bytes());
    }
    hasher.update(body);
    i64::from(hasher.finalize())
}

impl EventRow {
    /// Whether the checksum is right.
    pub(crate) fn is_whole(&self) -> bool {
        let (number, stored, version) = (self.number, self.stored, self.version);
        let timed = [number, stored, version];
        let numbers: &[i64] = if version & TIMELESS == 0 { &timed } else { &[number, version] };
        self.checksum == checksum(numbers, &self.body)
    }

    fn event(&self) -> Result<Event, String> {
        if !self.is_whole() {
            return Err("its checksum is wrong".to_owned());
        }
        let version = self.version & !TIMELESS;
        if version > i64::from(EVENT_VERSION) {
            return Err(format!(
                "it has version {version}, but this prowess reads versions up to {EVENT_VERSION}: use a newer prowess"
            ));
        }
        serde_json::from_slice(&self.body).map_err(|error| error.to_string())
    }
}

/// The events after `after`. A gap is damage.
pub(crate) fn read(
    thread: &ThreadId,
    after: u64,
    most: usize,
    rows: Vec<LogRow>,
) -> Result<Vec<StoredEvent>, ThreadError> {
    let Some(&(has, _)) = rows.first() else { return Err(ThreadError::NotFound(thread.clone())) };
    let damaged = |number, problem| ThreadError::Damaged { thread: thread.clone(), number, problem };
    let mut events = Vec::with_capacity(rows.len());
    let mut number = after;
    for row in rows.into_iter().filter_map(|(_, row)| row).take(most) {
        number += 1;
        if row.number != signed(number) {
            return Err(damaged(number, "it is missing".to_owned()));
        }
        if row.number > has {
            return Err(damaged(number, format!("the thread should have only {has} events")));
        }
        let event = row.event().map_err(|problem| damaged(number, problem))?;
        events.push(StoredEvent { number, at: time(row.stored), event });
    }
    if events.len() < most && signed(number) < has {
        return Err(damaged(number + 1, "it is missing".to_owned()));
    }
    Ok(events)
}

/// A number for the database.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A number from the database. A negative one is damage.
pub(crate) fn unsigned(place: &str, number: i64) -> Result<u64, DatabaseError> {
    u64::try_from(number).map_err(|_| DatabaseError::damaged(place, format!("{number} is not a count")))
}

/// How many rows to read: at least one, to see whether the thread exists.
pub(crate) fn limit(most: usize) -> i64 {
    i64::try_from(most.max(1)).unwrap_or(i64::MAX)
}

/// The time that is this many microseconds after 1970.
pub(crate) fn time(micros: i64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use prowess_agent::thread_state::StateChange;
    use prowess_agent::{Message, TurnOutcome};

    use super::*;

    fn row(number: i64) -> LogRow {
        let event = Event::TurnStarted { messages: vec![Message::user(number.to_string())] };
        let body = serde_json::to_vec(&event).unwrap();
        let (version, checksum) = version_and_checksum(number, 7, &body);
        (3, Some(EventRow { number, stored: 7, version, checksum, body }))
    }

    fn problem(rows: Vec<LogRow>) -> String {
        read(&"t".parse().unwrap(), 0, 9, rows).unwrap_err().to_string()
    }

    #[test]
    fn what_is_missing_is_seen() {
        assert_eq!(read(&"t".parse().unwrap(), 0, 2, vec![row(1), row(2)]).unwrap().len(), 2);
        assert_eq!(read(&"t".parse().unwrap(), 3, 2, vec![(3, None)]).unwrap(), []);
        assert!(problem(vec![]).contains("no thread `t`"));
        assert!(
            problem(vec![row(1), row(3)]).contains("event 2 of the thread `t` cannot be read: it is missing")
        );
        assert!(problem(vec![row(1), row(2)]).contains("event 3"));
        assert!(problem(vec![(3, None)]).contains("event 1"));
    }

    #[test]
    fn what_is_too_much_is_seen() {
        let too_few = |(_, row): LogRow| (2, row);
        let rows = vec![too_few(row(1)), too_few(row(2)), too_few(row(3))];
        assert!(problem(rows).contains("event 3"));
    }

    #[test]
    fn what_is_too_deep_to_be_read_is_not_written() {
        let nested = |depth: usize| {
            let delta = (0..depth).fold(serde_json::Value::Null, |inner, _| serde_json::json!([inner]));
            Event::StateChanged { changes: vec![StateChange { owner: "a".to_owned(), delta }] }
        };
        // The event itself is an object with a list of objects.
        let deepest = NewEvents::of(&[nested(MAX_DEPTH - 3)]).unwrap().bodies.remove(0);
        assert_eq!(depth(&deepest), MAX_DEPTH);
        serde_json::from_slice::<Event>(&deepest).unwrap();
        let deeper = serde_json::to_vec(&nested(MAX_DEPTH - 2)).unwrap();
        serde_json::from_slice::<Event>(&deeper).unwrap_err();
        let refused = NewEvents::of(&[nested(MAX_DEPTH - 2)]).unwrap_err().to_string();
        assert!(refused.contains("nested 128 levels deep"), "{refused}");
        assert_eq!(depth(br#"{"a": "[[\"[{", "b": [[]]}"#), 3);
    }

    #[test]
    fn what_was_changed_is_seen() {
        for change in [
            (|row: &mut EventRow| row.body[30] ^= 1) as fn(&mut EventRow),
            |row| row.stored += 1,
            |row| row.checksum ^= 1,
            |row| row.version = 0,
        ] {
            let mut rows = vec![row(1), row(2), row(3)];
            change(rows[1].1.as_mut().unwrap());
            assert!(
                problem(rows).contains("event 2 of the thread `t` cannot be read: its checksum is wrong")
            );
        }
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn a_row_whose_time_the_server_decided_has_none_in_its_checksum() {
        let (_, Some(timed)) = row(1) else { panic!("no row") };
        let (version, checksum) = timeless_version_and_checksum(1, &timed.body);
        let timeless = EventRow { version, checksum, ..timed.clone() };
        assert!(EventRow { stored: 8, ..timeless.clone() }.event().is_ok());
        assert!(EventRow { stored: 8, ..timed.clone() }.event().is_err());
        // No row passes as one of the other kind.
        assert!(EventRow { version: timed.version, ..timeless }.event().is_err());
        assert!(EventRow { version, ..timed }.event().is_err());
    }

    #[test]
    fn an_event_of_a_later_version_is_refused() {
        let body = serde_json::to_vec(&Event::TurnEnded { outcome: TurnOutcome::Responded }).unwrap();
        let later = i64::from(EVENT_VERSION) + 1;
        let checksum = checksum(&[1, 7, later], &body);
        let row = EventRow { number: 1, stored: 7, version: later, checksum, body };
        assert!(problem(vec![(1, Some(row))]).contains("use a newer prowess"));
    }
}
